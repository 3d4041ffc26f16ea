//! Scripts of engines during which the power is cut.

use qiang_checks::powerloss::{Fate, Journal};
use qiang_core::{
    book::{Claim, Command, Setup},
    campaign::AckLevel,
    id::PaymentRef,
    payment::ReceivedMoney,
    split::SplitRule,
    time::Timestamp,
};
use qiang_embedded::copies::{Restore, back_up, restore};
use qiang_testkit::campaign::{OPENS, Target, red_packet, sale};

use crate::{
    answers::{Fact, What},
    life::{FILE, Life, folder},
};

/// Ends of the first month and of the month after it. Holds of the first month have expired by then.
pub(crate) const NEXT_MONTH: Timestamp = OPENS.plus_millis(31 * 86_400_000);
pub(crate) const LATER: Timestamp = OPENS.plus_millis(62 * 86_400_000);
/// Shares of a large red packet; they need several slices.
const LARGE: u32 = 6_000;
/// Number of kills between a write and its sync.
const KILLS: usize = 8;

fn packet_of(n: u64) -> Setup {
    let packet = red_packet(1_000, 20, SplitRule::Lazy { min: 1 });
    packet.ack(AckLevel::Fsync).setup(n)
}

fn stock(n: u64) -> Setup {
    sale(40).limit(3).ack(AckLevel::Ledger).setup(n)
}

/// Claims of some users: a share and two units each.
fn claims(setups: [&Setup; 2], users: std::ops::Range<u32>) -> Vec<Claim> {
    let of = |n: u32| {
        let name = format!("user-{n}");
        let [packet, sale] = setups.map(Target::of);
        [packet.one(&name), sale.keyed(&name, 2, "key")]
    };
    users.flat_map(of).collect()
}

fn begin() -> (Life, Setup, Setup) {
    let (packet, sale) = (packet_of(1), stock(2));
    let mut life = Life::new(folder(), Journal::default());
    life.open();
    life.deposit(1, 5_000);
    life.create(&packet);
    life.create(&sale);
    (life, packet, sale)
}

fn pay(life: &mut Life, setup: &Setup, number: u32) {
    life.order(Command::Pay {
        order: Target::of(setup).order(number),
        payment: PaymentRef::new(&format!("payment-{number}")).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    });
}

pub(crate) fn whole_life() -> Life {
    let (mut life, packet, sale) = begin();
    life.claim(claims([&packet, &sale], 0..3));
    life.claim(claims([&packet, &sale], 3..7));
    pay(&mut life, &sale, 1);
    let order = Target::of(&sale).order(2);
    life.order(Command::Cancel { order, part: None });
    life.settle();
    life.checkpoint();
    // The first red packet is settled with its creation. Earlier entries of the second one's log may still be
    // unsettled.
    let (third, fourth) = (packet_of(3), packet_of(4));
    life.create_beside(&third, Vec::new());
    life.create_beside(&fourth, vec![Target::of(&third).one("user-7")]);
    life.claim(claims([&fourth, &sale], 7..9));
    life.deposit(2, 700);
    life.end(&packet);
    life.settle();
    life.checkpoint();
    pay(&mut life, &sale, 3);
    life.close();
    life.open();
    life.claim(claims([&packet, &sale], 9..12));
    life.end(&sale);
    life.close();
    life
}

/// Red packet whose many shares are written before it, while other users claim.
pub(crate) fn large_packet() -> (Life, usize) {
    let (mut life, small, sale) = begin();
    life.settle();
    life.checkpoint();
    life.deposit(2, LARGE.into());
    let from = life.disk.operations();
    let large = red_packet(LARGE.into(), LARGE, SplitRule::Equal);
    let large = large.ack(AckLevel::Fsync).setup(3);
    life.create_beside(&large, claims([&small, &sale], 0..4));
    life.claim(claims([&large, &sale], 4..6));
    life.settle();
    life.close();
    (life, from)
}

/// Grants, followed by a crash.
pub(crate) fn grants() -> Life {
    let (mut life, packet, sale) = begin();
    life.claim(claims([&packet, &sale], 0..2));
    life.claim(claims([&packet, &sale], 2..4));
    life.deposit(2, 300);
    life.claim(claims([&packet, &sale], 4..6));
    life
}

/// Life after a kill. Its journal includes the first life.
pub(crate) struct SecondLife {
    pub(crate) life: Life,
    /// Number of operations before the first process died.
    pub(crate) killed: usize,
    /// Number of operations before the second process had opened the file.
    pub(crate) opened: usize,
}

/// Lives after kills between a write of the first life and its sync. Each repeats all claims, also unanswered ones.
pub(crate) fn second_lives(first: &Life) -> impl Iterator<Item = SecondLife> {
    let journal = first.journal();
    let opened = |fact: &&Fact| matches!(fact.what, What::Opened(_));
    let from = first
        .facts
        .iter()
        .rfind(opened)
        .expect("two campaigns were opened")
        .at;
    let cuts: Vec<usize> = journal
        .before_syncs()
        .into_iter()
        .filter(|cut| *cut > from)
        .collect();
    let every = cuts.len().div_ceil(KILLS);
    let facts = first.facts.clone();
    cuts.into_iter().step_by(every).map(move |killed| {
        let folder = folder();
        journal
            .write_after_cut(killed, Fate::Kept, folder.path())
            .unwrap();
        let mut life = Life::new(folder, journal.killed_at(killed));
        life.facts = facts
            .iter()
            .filter(|fact| fact.at <= killed)
            .cloned()
            .collect();
        life.open();
        let opened = life.disk.operations();
        let setups = [packet_of(1), stock(2)];
        life.claim(claims([&setups[0], &setups[1]], 0..6));
        SecondLife {
            life,
            killed,
            opened,
        }
    })
}

/// Adds the facts of a copy: all answers before it was created.
fn copied(life: &mut Life, to: &'static str, facts: &[Fact]) {
    let at = life.disk.operations();
    let copied = facts.iter().map(|fact| Fact {
        at,
        file: to,
        what: fact.what.clone(),
    });
    life.facts.extend(copied);
}

/// Backup, its restore to another name, and its restore over a file that was not closed.
pub(crate) fn copies() -> (Life, usize) {
    let (mut life, packet, sale) = begin();
    life.claim(claims([&packet, &sale], 0..3));
    let from = life.disk.operations();
    let before = life.facts.clone();
    let [file, backup, other] = [FILE, "b.db", "r.db"].map(|name| life.path(name));
    back_up(&file, &backup).unwrap();
    copied(&mut life, "b.db", &before);
    restore(&backup, &other, Restore::default()).unwrap();
    copied(&mut life, "r.db", &before);
    life.claim(claims([&packet, &sale], 3..5));
    life.settle();
    (replaced(life, &before), from)
}

/// Kills the process, and replaces its file by the backup.
fn replaced(life: Life, before: &[Fact]) -> Life {
    let journal = life.journal();
    let cut = journal.len();
    let folder = folder();
    journal
        .write_after_cut(cut, Fate::Kept, folder.path())
        .unwrap();
    let mut after = Life::new(folder, journal.killed_at(cut));
    // From here on the file may be the old or the new one. Both contain what the backup contains.
    let (all, kept) = (life.facts.clone(), before.to_vec());
    after.facts = all
        .iter()
        .filter(|fact| fact.file != FILE)
        .cloned()
        .collect();
    after.facts.extend(kept);
    after.answered(What::Replacing);
    let how = Restore {
        replace: true,
        as_it_is: false,
    };
    restore(&after.path("b.db"), &after.path(FILE), how).unwrap();
    let of_file: Vec<Fact> = all.into_iter().filter(|fact| fact.file == FILE).collect();
    copied(&mut after, "qiang.db.replaced", &of_file);
    after
}

/// Archives two months of the log while an engine serves. An archived order is paid late.
pub(crate) fn archive() -> (Life, usize) {
    let (mut life, packet, sale) = begin();
    life.claim(claims([&packet, &sale], 0..6));
    pay(&mut life, &sale, 1);
    life.settle();
    life.close();
    let from = life.disk.operations();
    life.answered(What::Archiving);
    life.open_at(NEXT_MONTH);
    life.settle();
    life.archive();
    pay(&mut life, &sale, 2);
    life.settle();
    life.checkpoint();
    life.close();
    life.open_at(LATER);
    life.archive();
    life.close();
    (life, from)
}
