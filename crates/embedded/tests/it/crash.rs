//! Crash test: after SIGKILL, every answered grant is in the file, and its retry returns the same grant.
//!
//! The test starts itself again as a child, which grants as fast as it can and prints each answer. The parent kills it
//! with SIGKILL after some milliseconds, opens the file, and repeats every claim whose answer it has read.

use std::{
    collections::BTreeMap,
    io::Write,
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{self, Reply},
    campaign::AckLevel,
    event::PartitionId,
    id::PaymentRef,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{AccountStore as _, CampaignStore as _, Engine, EventLog, SettlementStore as _},
    split::SplitRule,
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_testkit::{
    auditor::{History, assert_sound},
    campaign::{Builder, Target, red_packet, sale, user},
    conformance::settled::compare,
    servers::{Process, wait_for},
};

/// Environment of the child: the file to grant from, and the number of the round.
const FILE: &str = "QIANG_TEST_CRASH_FILE";
const ROUND: &str = "QIANG_TEST_CRASH_ROUND";
const KILLS: u64 = 10;
/// Maximum time until a child grants.
const BEGIN_MAX: Duration = Duration::from_secs(30);
/// Concurrent claims in the child.
const BATCH: u64 = 64;
/// Longer than the test runs.
const OPENS_FOR_MS: i64 = 200_000_000_000_000;

fn campaigns() -> [Builder; 3] {
    let always = |builder: Builder| {
        let opens = qiang_core::time::Timestamp::from_millis(0);
        builder.window(opens, OPENS_FOR_MS)
    };
    let packet = red_packet(1_000_000_000, 200_000, SplitRule::Lazy { min: 1 });
    [
        always(packet).ack(AckLevel::Fsync),
        always(sale(200_000).limit(3)).ack(AckLevel::Fsync),
        always(sale(200_000)).ack(AckLevel::Ledger),
    ]
}

fn targets() -> [Target; 3] {
    let mut n = 0;
    campaigns().map(|builder| {
        n += 1;
        Target::of(&builder.setup(n))
    })
}

fn open(path: &Path) -> Embedded {
    let opened = Embedded::open(path, Arc::new(SystemClock));
    opened.unwrap_or_else(|error| panic!("{error}"))
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// The `n`-th claim of a round.
fn claim(round: u64, n: u64) -> book::Claim {
    let target = targets()[(n % 3) as usize];
    target.keyed(&format!("user-{round}-{}", n / 3), 1, "key")
}

/// Grants without end, and prints each answer.
fn child(path: &Path, round: u64) -> ! {
    let embedded = open(path);
    let mut out = std::io::stdout().lock();
    for first in (0..).step_by(BATCH as usize) {
        let ask = |n| (n, embedded.claim(claim(round, n)));
        let tickets: Vec<_> = (first..first + BATCH).map(ask).collect();
        for (n, ticket) in tickets {
            let outcome = block_on(ticket).unwrap().outcome;
            let Outcome::Granted(grant) = outcome else {
                panic!("{outcome:?}")
            };
            let (number, minor) = (grant.number, grant.amount_minor);
            let mut paid = 0;
            if n % 30 == 1 {
                let order = grant.order_id();
                let payment = PaymentRef::new("payment").unwrap();
                let reply = embedded.submit(book::Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                });
                assert!(matches!(block_on(reply), Ok(Reply::Payment(..))));
                paid = 1;
            }
            writeln!(out, "\ngranted {round} {n} {number} {minor} {paid} .").unwrap();
            out.flush().unwrap();
        }
    }
    unreachable!("there is no end")
}

/// Answered grant: its number, its amount, and whether its payment was answered too.
type Printed = BTreeMap<(u64, u64), (u32, i64, bool)>;

/// Starts a child, kills it `after` its first answer, and reads its output.
fn run_and_kill(path: &Path, round: u64, after: Duration, printed: &mut Printed) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "crash::what_was_answered_survives_sigkill"])
        .arg("--nocapture")
        .env(FILE, path)
        .env(ROUND, round.to_string());
    let output = path.with_extension(format!("output-{round}"));
    let child = Process::start(&command, &output);
    let before = printed.len();
    wait_for("the child's first grant", BEGIN_MAX, || {
        assert!(child.ended().is_none(), "{}", child.output());
        child.output().contains("\ngranted ").then_some(())
    });
    std::thread::sleep(after);
    child.kill();
    let output = child.output();
    for line in output.lines().filter(|line| line.starts_with("granted ")) {
        let words: Vec<&str> = line.split(' ').collect();
        // The last line may be cut off.
        let [_, round, n, number, minor, paid, "."] = words[..] else {
            continue;
        };
        let place = (round.parse().unwrap(), n.parse().unwrap());
        let grant = (number.parse().unwrap(), minor.parse().unwrap(), paid == "1");
        assert_eq!(printed.insert(place, grant), None);
    }
    assert!(printed.len() > before, "the child granted nothing");
}

/// Checks that every answer is in the file, every retry is a replay, and the sums agree.
fn check(embedded: &Embedded, printed: &Printed, history: &mut History) {
    for ((round, n), (number, minor, paid)) in printed {
        let claimed = block_on(embedded.claim(claim(*round, *n))).unwrap();
        let Outcome::AlreadyGranted(grant) = claimed.outcome else {
            panic!(
                "claim {n} of round {round} was granted, and now {:?}",
                claimed.outcome
            );
        };
        assert_eq!((grant.number, grant.amount_minor), (*number, *minor));
        if *paid {
            let view = block_on(embedded.order(grant.order_id())).unwrap().unwrap();
            assert_eq!(view.grant.order.unwrap().state.name(), "paid");
        }
    }
    let log = block_on(embedded.read(PartitionId(0), 0, usize::MAX)).unwrap();
    history.logs = vec![log];
    history.tallies.clear();
    for target in targets() {
        let tally = block_on(embedded.tally(target.id)).unwrap().unwrap();
        assert!(tally.conserves());
        history.tallies.push((target.id, tally));
    }
}

#[test]
fn what_was_answered_survives_sigkill() {
    if let Some(path) = std::env::var_os(FILE) {
        let round = std::env::var(ROUND).unwrap().parse().unwrap();
        child(Path::new(&path), round);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let mut history = History::default();
    let embedded = open(&path);
    for (n, builder) in (1..).zip(campaigns()) {
        let setup = builder.setup(n);
        let funds = qiang_core::money::Money::new(1_000_000_000, setup.campaign.currency());
        block_on(embedded.deposit(setup.campaign.id.uuid(), &user("owner"), funds)).unwrap();
        block_on(embedded.create(&setup)).unwrap();
        let command = book::Command::Open(Box::new(setup.clone()));
        block_on(embedded.submit(command)).unwrap();
        history.deposits.push((user("owner"), 1_000_000_000));
        history.setups.push(setup);
    }
    embedded.close();

    let mut printed = Printed::new();
    for round in 0..KILLS {
        // The kill falls at a random moment between a claim and the next commit.
        let after = Duration::from_micros(10_000 + round * 23_456);
        run_and_kill(&path, round, after, &mut printed);
        let embedded = open(&path);
        let fresh = printed.range((round, 0)..);
        let fresh: Printed = fresh.map(|(place, grant)| (*place, *grant)).collect();
        check(&embedded, &fresh, &mut history);
        embedded.abort();
    }

    let embedded = open(&path);
    check(&embedded, &printed, &mut history);
    // All grants can be settled.
    let (head, _) = embedded.positions();
    let started = Instant::now();
    let settled = embedded.await_settled(PartitionId(0), head, Duration::from_secs(60));
    assert_eq!(block_on(settled), Ok(true), "after {:?}", started.elapsed());
    block_on(compare(&embedded, &assert_sound(&history)));
    println!("{} answers survived {KILLS} kills", printed.len());
    embedded.close();
}
