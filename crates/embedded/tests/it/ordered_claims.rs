//! Claims that are decided in a given order: a campaign that resumes or opens at the same time lets no later claim
//! overtake an earlier one.

use std::{sync::Barrier, thread};

use qiang_core::{
    book::{CampaignAction, Claim, Command},
    outcome::Outcome,
    ports::{CampaignStore as _, Claimed, Engine as _, EngineError, PendingReply},
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};
use tempfile::TempDir;

const ROUNDS: u64 = 300;
const CLAIMS: usize = 32;
const OPEN_MS: i64 = 1_000_000;

fn claims(target: Target) -> Vec<Claim> {
    let claim = |n| target.one(&format!("user-{n}"));
    (0..CLAIMS).map(claim).collect()
}

/// Whether claims were granted, in their order, with `change` at the same time.
async fn granted(embedded: &Embedded, target: Target, change: impl FnOnce() + Send) -> Vec<bool> {
    let claims = claims(target);
    let begins = Barrier::new(2);
    let tickets: Vec<PendingReply<Claimed>> = thread::scope(|scope| {
        scope.spawn(|| {
            begins.wait();
            change();
        });
        begins.wait();
        embedded.claim_in_order(claims)
    });
    let mut granted = Vec::new();
    for ticket in tickets {
        let claimed: Result<Claimed, EngineError> = ticket.await;
        granted.push(match claimed.unwrap().outcome {
            Outcome::Granted(_) => true,
            Outcome::Paused | Outcome::NotStarted { .. } => false,
            other => panic!("{other:?}"),
        });
    }
    granted
}

/// Rounds in which a later claim overtook an earlier one.
fn overtaken(rounds: &[Vec<bool>]) -> Vec<&Vec<bool>> {
    let is_overtaken = |granted: &&Vec<bool>| granted.windows(2).any(|pair| pair == [false, true]);
    rounds.iter().filter(is_overtaken).collect()
}

#[tokio::test]
async fn a_resumption_at_the_same_time_lets_no_claim_overtake() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::new(OPENS);
    let options = EmbeddedOptions::default();
    let embedded = Embedded::open_with(&folder.path().join("qiang.db"), clock, options).unwrap();
    let mut rounds = Vec::new();
    for n in 1..=ROUNDS {
        let setup = sale(1_000).setup(n);
        let target = Target::of(&setup);
        embedded.create(&setup).await.unwrap();
        let act = |action| Command::Act {
            campaign: target.id,
            action,
        };
        for command in [Command::Open(Box::new(setup)), act(CampaignAction::Pause)] {
            embedded.submit(command).await.unwrap();
        }
        let resume = || drop(embedded.submit(act(CampaignAction::Resume)));
        rounds.push(granted(&embedded, target, resume).await);
    }
    let found = overtaken(&rounds);
    assert!(found.is_empty(), "{} rounds: {:?}", found.len(), found[0]);
    embedded.close();
}

#[tokio::test]
async fn an_opening_at_the_same_time_lets_no_claim_overtake() {
    let folder = TempDir::new().unwrap();
    let clock = ManualClock::new(OPENS);
    let options = EmbeddedOptions::default();
    let path = folder.path().join("qiang.db");
    let embedded = Embedded::open_with(&path, clock.clone(), options).unwrap();
    let mut rounds = Vec::new();
    for n in 1..=ROUNDS {
        let opens = OPENS.plus_millis(n as i64 * 1_000);
        let setup = sale(1_000).window(opens, OPEN_MS).setup(n);
        let target = Target::of(&setup);
        embedded.create(&setup).await.unwrap();
        clock.set(opens.plus_millis(-1));
        let opened = embedded.submit(Command::Open(Box::new(setup)));
        opened.await.unwrap();
        rounds.push(granted(&embedded, target, || clock.set(opens)).await);
    }
    let found = overtaken(&rounds);
    assert!(found.is_empty(), "{} rounds: {:?}", found.len(), found[0]);
    embedded.close();
}
