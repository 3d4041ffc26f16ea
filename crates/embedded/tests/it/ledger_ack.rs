//! Grants with the level `ledger` wait only for their own entry. Their number and their wait are bounded, and no other
//! answer waits with them.

use std::{path::Path, time::Duration};

use qiang_core::{
    book::Command,
    campaign::AckLevel,
    event::PartitionId,
    ports::{
        CampaignStore as _, Claimed, Engine as _, EngineError, PendingReply, SettlementStore as _,
    },
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, OWNER, Target, sale},
};
use rusqlite::Connection;
use tempfile::TempDir;

const PARTITION: PartitionId = PartitionId(0);
const WAIT_MAX: Duration = Duration::from_secs(20);

struct Case {
    folder: TempDir,
    embedded: Embedded,
    /// Sale with the level `ledger`.
    sure: Target,
    /// Sale with a lower level.
    fast: Target,
}

fn open(path: &Path, options: EmbeddedOptions) -> Embedded {
    Embedded::open_with(path, ManualClock::new(OPENS), options).unwrap()
}

impl Case {
    async fn new(options: EmbeddedOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let embedded = open(&folder.path().join("qiang.db"), options);
        let mut targets = Vec::new();
        for (n, ack) in [(1, AckLevel::Ledger), (2, AckLevel::Fsync)] {
            let setup = sale(1_000).ack(ack).setup(n);
            embedded.create(&setup).await.unwrap();
            let command = Command::Open(Box::new(setup.clone()));
            embedded.submit(command).await.unwrap();
            targets.push(Target::of(&setup));
        }
        Self {
            folder,
            embedded,
            sure: targets[0],
            fast: targets[1],
        }
    }

    /// Opens another sale with the level `ledger`.
    async fn sale_of(&self, n: u64, owner: &str) -> Target {
        let setup = sale(1_000).owner(owner).ack(AckLevel::Ledger).setup(n);
        self.embedded.create(&setup).await.unwrap();
        let opening = Command::Open(Box::new(setup.clone()));
        self.embedded.submit(opening).await.unwrap();
        Target::of(&setup)
    }

    async fn settled(&self) {
        let head = self.embedded.positions().0;
        let reached = self.embedded.await_settled(PARTITION, head, WAIT_MAX).await;
        assert_eq!(reached, Ok(true), "{:?}", self.embedded.stuck());
    }

    /// Returns another connection that holds the lock which the writer needs for its next commit. No commit is running.
    async fn hold_up(&self) -> Connection {
        self.settled().await;
        let other = Connection::open(self.embedded.path()).unwrap();
        other.busy_timeout(WAIT_MAX).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        other
    }

    /// Makes settlement get stuck before the next order.
    async fn stick(&self) {
        let other = self.hold_up().await;
        let stick = "CREATE TRIGGER stuck BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no'); END; \
                     INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at) \
                     WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) \
                     SELECT 0, 1000000 + n, 'x', 'x', 'no', NULL, 0 FROM n; COMMIT";
        other.execute_batch(stick).unwrap();
    }

    fn claim(&self, target: Target, name: &str) -> PendingReply<Claimed> {
        self.embedded.claim(target.one(name))
    }
}

fn is_uncertain(answer: Result<Claimed, EngineError>, why: &str) {
    match answer {
        Err(EngineError::Uncertain { reason }) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

/// Also after a start, which finds the unsettled grants in the log.
#[tokio::test(flavor = "multi_thread")]
async fn a_replay_waits_for_its_own_entry_and_not_for_those_behind_it() {
    let mut case = Case::new(EmbeddedOptions::default()).await;
    let first = case.claim(case.sure, "a").await.unwrap();
    assert_eq!(first.ack, AckLevel::Ledger);
    case.stick().await;
    case.claim(case.fast, "b").await.unwrap();
    is_uncertain(case.claim(case.sure, "c").await, "no");
    for start in 0..2 {
        let again = case.claim(case.sure, "a").await.unwrap();
        assert_eq!(again.outcome.name(), "already_granted");
        assert_eq!(again.ack, AckLevel::Ledger, "start {start}");
        is_uncertain(case.claim(case.sure, "c").await, "no");
        let fast = case.claim(case.fast, &format!("d{start}")).await.unwrap();
        assert_eq!(fast.outcome.name(), "granted");
        let path = case.folder.path().join("qiang.db");
        case.embedded.close();
        drop(case.embedded);
        case.embedded = open(&path, EmbeddedOptions::default());
    }
    case.embedded.close();
}

/// At the bound of waiting answers, further claims are refused before they are decided. Claims of other campaigns are
/// granted in the same commit.
#[tokio::test(flavor = "multi_thread")]
async fn past_the_bound_of_waiting_answers_nothing_is_granted() {
    const WAITS_MAX: usize = 4;
    let options = EmbeddedOptions {
        ledger_waits_max: 4 * WAITS_MAX,
        ..EmbeddedOptions::default()
    };
    let case = Case::new(options).await;
    assert!(case.claim(case.sure, "before").await.is_ok());
    let other = case.hold_up().await;
    let first = case.claim(case.fast, "first");
    while case.embedded.queued() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // One batch decides all of these.
    let sure: Vec<_> = (0..10)
        .map(|n| case.claim(case.sure, &format!("u{n}")))
        .collect();
    let fast: Vec<_> = (0..10)
        .map(|n| case.claim(case.fast, &format!("u{n}")))
        .collect();
    let before = case.claim(case.sure, "before");
    other.execute_batch("ROLLBACK").unwrap();
    assert!(first.await.is_ok());
    for (n, ticket) in sure.into_iter().enumerate() {
        match ticket.await {
            Ok(claimed) => {
                assert!(n < WAITS_MAX, "{n}");
                assert_eq!(claimed.ack, AckLevel::Ledger);
            }
            Err(error) => {
                assert!(n >= WAITS_MAX, "{n}");
                assert_eq!(error, EngineError::LedgerShareFull);
            }
        }
    }
    for ticket in fast {
        assert_eq!(ticket.await.unwrap().outcome.name(), "granted");
    }
    drop(before.await); // // needs no room, but the same commit changes the campaign
    let tally = case.embedded.tally(case.sure.id).await.unwrap().unwrap();
    assert_eq!(tally.grants as usize, 1 + WAITS_MAX);
    for name in ["before", "u9"] {
        assert!(case.claim(case.sure, name).await.is_ok(), "there is room");
    }
    case.embedded.close();
}

/// One sale has the maximum of waiting claims. A claim of another sale is still decided and waits.
#[tokio::test(flavor = "multi_thread")]
async fn one_campaign_leaves_room_for_others() {
    let options = EmbeddedOptions {
        ledger_waits_max: 16,
        ..EmbeddedOptions::default()
    };
    let case = Case::new(options).await;
    let other = case.sale_of(3, OWNER).await;
    let lock = case.hold_up().await;
    let first = case.claim(case.fast, "first");
    while case.embedded.queued() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // One batch decides all of these.
    let greedy: Vec<_> = (0..100)
        .map(|n| case.claim(case.sure, &format!("u{n}")))
        .collect();
    let modest = case.claim(other, "ann");
    lock.execute_batch("ROLLBACK").unwrap();
    assert!(first.await.is_ok());
    let mut granted = 0;
    for ticket in greedy {
        match ticket.await {
            Ok(_) => granted += 1,
            Err(error) => assert_eq!(error, EngineError::LedgerShareFull),
        }
    }
    assert_eq!(granted, 4, "a quarter of the room");
    let modest = modest.await.unwrap();
    assert_eq!(modest.outcome.name(), "granted");
    assert_eq!(modest.ack, AckLevel::Ledger);
    case.embedded.close();
}

/// One seller's sales have the maximum of waiting claims. A claim of another seller's sale is still decided and waits,
/// and gets its answer.
#[tokio::test(flavor = "multi_thread")]
async fn one_owner_leaves_room_for_others() {
    const WAITS_MAX: usize = 64;
    let options = EmbeddedOptions {
        ledger_waits_max: WAITS_MAX,
        ..EmbeddedOptions::default()
    };
    let case = Case::new(options).await;
    let mut greedy = vec![case.sure];
    for n in 3..12 {
        greedy.push(case.sale_of(n, OWNER).await);
    }
    let other = case.sale_of(12, "other").await;
    let lock = case.hold_up().await;
    let first = case.claim(case.fast, "first");
    while case.embedded.queued() > 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // One batch decides all of these.
    let claims = greedy
        .iter()
        .flat_map(|sale| (0..WAITS_MAX).map(|n| case.claim(*sale, &format!("u{n}"))));
    let claims: Vec<_> = claims.collect();
    let modest: Vec<_> = (0..WAITS_MAX / 8)
        .map(|n| case.claim(other, &format!("u{n}")))
        .collect();
    lock.execute_batch("ROLLBACK").unwrap();
    assert!(first.await.is_ok());
    let mut granted = 0;
    for ticket in claims {
        match ticket.await {
            Ok(_) => granted += 1,
            Err(error) => assert_eq!(error, EngineError::LedgerShareFull),
        }
    }
    assert_eq!(granted, WAITS_MAX / 2, "half of the room");
    for ticket in modest {
        let claimed = ticket.await.unwrap();
        let answer = (claimed.outcome.name(), claimed.ack);
        assert_eq!(answer, ("granted", AckLevel::Ledger));
    }
    case.embedded.close();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_waited_for_too_long_is_uncertain() {
    let options = EmbeddedOptions {
        ledger_wait: Duration::ZERO,
        ..EmbeddedOptions::default()
    };
    let case = Case::new(options).await;
    is_uncertain(case.claim(case.sure, "a").await, "in time");
    case.settled().await;
    let again = case.claim(case.sure, "a").await.unwrap();
    assert_eq!(again.outcome.name(), "already_granted");
    assert_eq!(again.ack, AckLevel::Ledger);
    case.embedded.close();
}
