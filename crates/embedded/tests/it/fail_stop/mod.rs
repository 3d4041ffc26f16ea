//! A failed commit grants nothing that is not kept; once the disk works again, granting continues.
//!
//! The full disk is a real one of some megabytes. The test starts itself again inside a mount namespace of its own,
//! where every user may mount such a disk. On a machine without that right, the test fails.

mod gate;
mod held_up;

use std::{
    collections::HashMap,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book,
    campaign::AckLevel,
    event::{Event, PartitionId},
    money::Money,
    outcome::Outcome,
    ports::{
        AccountStore as _, CampaignStore as _, Claimed, Engine, EngineError, EventLog, PendingReply,
    },
    split::SplitRule,
};
use qiang_embedded::{Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    auditor::{History, assert_sound},
    campaign::{Builder, OPENS, Target, currency, red_packet, sale, user},
};
use uuid::Uuid;

/// Environment of the child: path of the small disk.
const DISK: &str = "QIANG_TEST_SMALL_DISK";
const DISK_BYTES: usize = 48 << 20;
/// Size of the file that fills the disk and is deleted later.
const BALLAST_BYTES: usize = DISK_BYTES - (896 << 10);
/// Space that a disk has left after [`fill_up`].
const FREE_BYTES: u64 = 256 << 10;
/// Concurrent claims: their commit alone needs more space than the ballast leaves.
const CLAIMS: u64 = 12_000;

fn open(path: &Path) -> Embedded {
    let opened = Embedded::open(path, ManualClock::new(OPENS));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// Opens the file with long waits: on a busy machine, a commit and the settlement of thousands of claims take seconds,
/// and then the reason of an error is not the disk.
fn open_patiently(path: &Path) -> Embedded {
    let options = EmbeddedOptions {
        commit_hangs_after: Duration::from_secs(60),
        ledger_wait: Duration::from_secs(60),
        ..EmbeddedOptions::default()
    };
    let opened = Embedded::open_with(path, ManualClock::new(OPENS), options);
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

fn enter(embedded: &Embedded, n: u64, builder: Builder, history: &mut History) -> Target {
    let setup = builder.setup(n);
    let minor = setup.campaign.funded_minor();
    if minor > 0 {
        let funds = Money::new(minor, setup.campaign.currency());
        block_on(embedded.deposit(setup.campaign.id.uuid(), &user("owner"), funds)).unwrap();
        history.deposits.push((user("owner"), minor));
    }
    block_on(embedded.create(&setup)).unwrap();
    let command = book::Command::Open(Box::new(setup.clone()));
    block_on(embedded.submit(command)).unwrap();
    let target = Target::of(&setup);
    history.setups.push(setup);
    target
}

fn claims(
    embedded: &Embedded,
    claims: impl Iterator<Item = book::Claim>,
) -> Vec<PendingReply<Claimed>> {
    claims.map(|claim| embedded.claim(claim)).collect()
}

/// Repeats all claims at once; one by one, each would be a commit of its own.
fn retry(embedded: &Embedded, again: impl Iterator<Item = book::Claim>) -> Vec<Claimed> {
    let tickets = claims(embedded, again).into_iter();
    tickets.map(|ticket| block_on(ticket).unwrap()).collect()
}

/// Stops the writer's commits by holding the file's write lock, for as long as the writer waits for the lock.
fn hold_up(path: &Path, embedded: &Embedded) -> rusqlite::Connection {
    while embedded.positions().0 != embedded.positions().1 && embedded.stopped().is_none() {
        std::thread::sleep(Duration::from_millis(1)); // // until the writer has settled everything
    }
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    other
}

fn let_go(other: &rusqlite::Connection) {
    other.execute_batch("ROLLBACK").unwrap();
}

fn audit(embedded: &Embedded, mut history: History) {
    let log = block_on(embedded.read(PartitionId(0), 0, usize::MAX)).unwrap();
    history.logs = vec![log];
    for setup in &history.setups {
        let id = setup.campaign.id;
        let tally = block_on(embedded.tally(id)).unwrap().unwrap();
        history.tallies.push((id, tally));
    }
    drop(assert_sound(&history));
}

/// Starts this test again in a namespace where it can mount a small disk.
fn again_on_a_small_disk(test: &str) {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={DISK_BYTES} small-disk \"$1\" && shift && \
         exec \"$@\" --exact fail_stop::{test} --nocapture"
    );
    let output = Command::new("unshare")
        .args([
            "--map-root-user",
            "--mount",
            "--",
            "sh",
            "-c",
            &script,
            "sh",
        ])
        .arg(directory.path())
        .arg(std::env::current_exe().unwrap())
        .env(DISK, directory.path())
        .output()
        .expect("unshare is installed (util-linux)");
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    // A missing test of that name would also count as success.
    let done = output.status.success() && out.contains("1 passed");
    assert!(done, "on the small disk: {}\n{out}\n{err}", output.status);
}

/// Writes a file that leaves [`FREE_BYTES`] of the disk.
fn fill_up(ballast: &Path) {
    let mut file = std::fs::File::create(ballast).unwrap();
    while file.write_all(&[1; 4_096]).is_ok() {}
    let length = file.metadata().unwrap().len();
    file.set_len(length - FREE_BYTES).unwrap();
}

fn small_disk(test: &str) -> Option<PathBuf> {
    let disk = std::env::var_os(DISK).map(PathBuf::from);
    if disk.is_none() {
        again_on_a_small_disk(test);
    }
    disk
}

/// Answers to claims while the disk was full.
#[derive(Default)]
struct Answers {
    granted: Vec<(book::Claim, u32, i64)>,
    failed: Vec<book::Claim>,
    uncertain: usize,
    unavailable: usize,
}

impl Answers {
    fn round(&mut self, embedded: &Embedded, target: Target, round: u64, users: u64) {
        let claim = |n| target.one(&format!("user-{round}-{n}"));
        let asked: Vec<_> = (0..users).map(claim).collect();
        let tickets = claims(embedded, asked.iter().cloned());
        self.collect(asked, tickets);
    }

    fn collect(&mut self, asked: Vec<book::Claim>, tickets: Vec<PendingReply<Claimed>>) {
        for (claim, ticket) in asked.into_iter().zip(tickets) {
            match block_on(ticket) {
                Ok(Claimed {
                    outcome: Outcome::Granted(grant),
                    ..
                }) => self.granted.push((claim, grant.number, grant.amount_minor)),
                Ok(other) => panic!("{other:?}"),
                Err(EngineError::Uncertain { reason } | EngineError::Unavailable { reason })
                    if !reason.contains("full") =>
                {
                    panic!("the reason does not say what is wrong: {reason}")
                }
                Err(error) => {
                    match error {
                        EngineError::Uncertain { .. } => self.uncertain += 1,
                        EngineError::Unavailable { .. } => self.unavailable += 1,
                        other => panic!("{other}"),
                    }
                    self.failed.push(claim);
                }
            }
        }
    }
}

/// Sends claims whose commit cannot fit, and more right after them. Returns whether the engine was still stopped after
/// the last one.
fn fill(
    embedded: &Embedded,
    path: &Path,
    sale: Target,
    attempt: u64,
    answers: &mut Answers,
) -> bool {
    let buyer = user("a");
    let user = |n| sale.one(&format!("full-{attempt}-{n}"));
    let other = hold_up(path, embedded);
    let first: Vec<_> = (0..CLAIMS).map(user).collect();
    let tickets = claims(embedded, first.iter().cloned());
    let_go(&other);
    let deadline = Instant::now() + Duration::from_secs(20);
    while embedded.stopped().is_none() {
        assert!(
            Instant::now() < deadline,
            "a commit that cannot fit has not failed"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
    let late: Vec<_> = (CLAIMS..CLAIMS + 100).map(user).collect();
    let late_tickets = claims(embedded, late.iter().cloned());
    let (id, funds) = (Uuid::from_u128(1), Money::new(1, currency()));
    let gets_through = [
        block_on(embedded.probe(PartitionId(0))).is_ok(),
        block_on(embedded.deposit(id, &buyer, funds)).is_ok(),
        block_on(embedded.tally(sale.id)).is_ok(),
    ];
    let still_down = embedded.stopped().is_some();
    if still_down {
        assert_eq!(gets_through, [false; 3]);
    }
    answers.collect(first, tickets);
    answers.collect(late, late_tickets);
    still_down
}

/// Waits until the engine grants again.
fn until_repaired(embedded: &Embedded) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while let Some(reason) = embedded.stopped() {
        assert!(Instant::now() < deadline, "still stopped: {reason}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_full_disk_gives_no_false_grant_and_heals() {
    let Some(disk) = small_disk("a_full_disk_gives_no_false_grant_and_heals") else {
        return;
    };
    let (path, ballast) = (disk.join("qiang.db"), disk.join("ballast"));
    let embedded = open_patiently(&path);
    let mut history = History::default();
    let packet = red_packet(1_000_000, 2_000, SplitRule::Lazy { min: 1 });
    let packet = enter(&embedded, 1, packet, &mut history);
    let sale = enter(&embedded, 2, sale(100_000), &mut history);

    let mut answers = Answers::default();
    answers.round(&embedded, packet, 0, 100);
    answers.round(&embedded, sale, 1, 100);
    // Once these grants are settled, only the next commit needs space.
    let_go(&hold_up(&path, &embedded));
    fill_up(&ballast);
    // The disk takes small commits until its last page is used, so the engine may recover before the test looks. In
    // that case the test fills the disk again.
    let seen_down = (0..20).any(|attempt| {
        let is_down = fill(&embedded, &path, sale, attempt, &mut answers);
        if is_down && answers.uncertain == 0 {
            // A commit without claims has failed before theirs.
            std::fs::remove_file(&ballast).unwrap();
            until_repaired(&embedded);
            fill_up(&ballast);
            return false;
        }
        is_down
    });
    let (uncertain, unavailable) = (answers.uncertain, answers.unavailable);
    assert!(
        seen_down && uncertain > 0 && unavailable > 0,
        "{seen_down}, {uncertain} uncertain, {unavailable} unavailable"
    );
    assert!(
        answers.granted.len() >= 200,
        "the disk was not full from the start"
    );

    // Every grant in an answer is in the file, and the file has no other grant.
    let log = block_on(embedded.read(PartitionId(0), 0, usize::MAX)).unwrap();
    let granted = log.iter().filter_map(|entry| match &entry.event {
        Event::Granted {
            number,
            user,
            amount_minor,
            ..
        } => Some(((entry.campaign, user.clone()), (*number, *amount_minor))),
        _ => None,
    });
    let granted: HashMap<_, _> = granted.collect();
    let kept = |claim: &book::Claim| granted.get(&(claim.campaign, claim.user.clone())).copied();
    for (claim, number, minor) in &answers.granted {
        assert_eq!(kept(claim), Some((*number, *minor)));
    }

    std::fs::remove_file(&ballast).unwrap();
    until_repaired(&embedded);
    let again = answers.granted.iter().map(|granted| granted.0.clone());
    for (claimed, (_, number, minor)) in retry(&embedded, again).iter().zip(&answers.granted) {
        let Outcome::AlreadyGranted(grant) = claimed.outcome else {
            panic!("it was granted, and now {:?}", claimed.outcome)
        };
        assert_eq!((grant.number, grant.amount_minor), (*number, *minor));
    }
    // A user with an error repeats the claim. If the grant was kept, the answer is the same grant.
    let claimed = retry(&embedded, answers.failed.iter().cloned());
    for (claim, claimed) in answers.failed.iter().zip(claimed) {
        let grant = claimed.outcome.grant().copied().unwrap();
        if let Some(kept) = kept(claim) {
            assert_eq!((grant.number, grant.amount_minor), kept);
            assert_eq!(claimed.outcome.name(), "already_granted");
        }
    }
    audit(&embedded, history);
    embedded.close();
}

/// The content that a start reads may not be on the disk yet. The engine answers from it only after a commit.
#[test]
fn nothing_is_served_from_a_file_that_takes_no_commit() {
    let Some(disk) = small_disk("nothing_is_served_from_a_file_that_takes_no_commit") else {
        return;
    };
    let (path, ballast) = (disk.join("qiang.db"), disk.join("ballast"));
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(2), &mut history);
    block_on(embedded.claim(target.one("a"))).unwrap();
    embedded.close();
    drop(embedded);
    let filled = std::fs::write(&ballast, vec![1; 2 * DISK_BYTES]);
    assert!(filled.is_err(), "the disk is too large");
    let refused = Embedded::open(&path, ManualClock::new(OPENS)).map(drop);
    let reason = qiang_core::error::chain(&refused.unwrap_err());
    assert!(reason.contains("disk"), "{reason}");
    std::fs::remove_file(&ballast).unwrap();
    let embedded = open(&path);
    let again = block_on(embedded.claim(target.one("a"))).unwrap().outcome;
    assert_eq!(again.name(), "already_granted");
    audit(&embedded, history);
    embedded.close();
}

#[test]
fn grants_that_wait_for_the_ledger_are_not_lost_on_a_full_disk() {
    let Some(disk) = small_disk("grants_that_wait_for_the_ledger_are_not_lost_on_a_full_disk")
    else {
        return;
    };
    let (path, ballast) = (disk.join("qiang.db"), disk.join("ballast"));
    std::fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    let embedded = open_patiently(&path);
    let mut history = History::default();
    let target = sale(100_000).ack(AckLevel::Ledger);
    let target = enter(&embedded, 1, target, &mut history);
    let mut answers = Answers::default();
    for round in 0..5 {
        answers.round(&embedded, target, round, CLAIMS / 5);
    }
    assert!(
        answers.uncertain + answers.unavailable > 0,
        "the disk was full"
    );
    std::fs::remove_file(&ballast).unwrap();
    until_repaired(&embedded);
    let granted = answers.granted.into_iter().map(|granted| granted.0);
    for claimed in retry(&embedded, answers.failed.into_iter().chain(granted)) {
        assert!(claimed.outcome.grant().is_some(), "{claimed:?}");
        assert_eq!(claimed.ack, AckLevel::Ledger);
    }
    audit(&embedded, history);
    embedded.close();
}

#[test]
fn a_full_queue_says_so_at_once_and_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(100_000).limit(100_000), &mut history);
    let other = hold_up(&path, &embedded);
    let first = embedded.claim(target.units("first", 1));
    while embedded.queued() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let accepted = qiang_embedded::QUEUED_TASKS_MAX;
    let same = std::iter::repeat_with(|| target.keyed("u", 1, "k")).take(accepted);
    let tickets = claims(&embedded, same);
    assert_eq!(embedded.queued(), accepted);
    let (started, claim) = (Instant::now(), target.one("late"));
    assert_eq!(
        block_on(embedded.claim(claim.clone())),
        Err(EngineError::Overloaded)
    );
    assert_eq!(
        block_on(embedded.probe(PartitionId(0))),
        Err(EngineError::Overloaded)
    );
    assert!(
        started.elapsed() < Duration::from_secs(1),
        "at once, not when there is room"
    );
    let_go(&other);

    assert_eq!(block_on(first).unwrap().outcome.name(), "granted");
    block_on(async {
        for (n, ticket) in tickets.into_iter().enumerate() {
            let expected = if n == 0 { "granted" } else { "already_granted" };
            assert_eq!(ticket.await.unwrap().outcome.name(), expected);
        }
    });
    assert_eq!(
        block_on(embedded.claim(claim)).unwrap().outcome.name(),
        "granted"
    );
    audit(&embedded, history);
    embedded.close();
}

#[test]
fn close_answers_what_was_accepted_and_refuses_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let fast = enter(&embedded, 1, sale(10_000), &mut history);
    let sure = enter(
        &embedded,
        2,
        sale(10_000).ack(AckLevel::Ledger),
        &mut history,
    );
    let claim = |n: u32| [fast, sure][n as usize % 2].one(&format!("u{n}"));
    let tickets = claims(&embedded, (0..2_000).map(claim));
    let handle = embedded.clone();
    embedded.close();
    for ticket in tickets {
        assert_eq!(block_on(ticket).unwrap().outcome.name(), "granted");
    }
    assert_eq!(block_on(handle.claim(claim(1))), Err(EngineError::Stopping));
    assert_eq!(
        block_on(handle.probe(PartitionId(0))),
        Err(EngineError::Stopping)
    );
    handle.close(); // // a second close has no effect
    drop((embedded, handle));

    let embedded = open(&path);
    for n in [0, 1, 1_998, 1_999] {
        let claimed = block_on(embedded.claim(claim(n))).unwrap();
        assert_eq!(claimed.outcome.name(), "already_granted");
    }
    audit(&embedded, history);
}

#[test]
fn abort_refuses_what_waits_and_keeps_what_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let mut embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(10_000), &mut history);
    for round in 0..5 {
        let claim = |n: u32| target.one(&format!("u{round}-{n}"));
        let tickets = claims(&embedded, (0..500).map(claim));
        embedded.abort();
        drop(embedded);
        embedded = open(&path);
        for (n, ticket) in (0..).zip(tickets) {
            let expected = match block_on(ticket) {
                Ok(claimed) => {
                    assert_eq!(claimed.outcome.name(), "granted");
                    "already_granted"
                }
                // Refused before the decision, so it is decided now.
                Err(EngineError::Stopping) => "granted",
                Err(other) => panic!("{other}"),
            };
            let claimed = block_on(embedded.claim(claim(n))).unwrap();
            assert_eq!(claimed.outcome.name(), expected);
        }
    }
    let clock = Arc::new(qiang_embedded::SystemClock);
    assert!(
        Embedded::open(&path, clock).is_err(),
        "the last one is still open"
    );
    audit(&embedded, history);
}
