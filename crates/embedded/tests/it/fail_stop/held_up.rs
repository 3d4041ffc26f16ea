//! An engine held up by a repair, by a disk that does not answer, or by stuck settlement refuses calls without delay.

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use qiang_core::{
    id::{OrderId, PaymentRef},
    payment::ReceivedMoney,
    ports::{LedgerError, QuarantineStore as _, SettlementStore as _},
};
use qiang_embedded::EmbeddedOptions;

use super::*;

const PARTITION: PartitionId = PartitionId(0);

/// Returns an answer that must not wait.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => panic!("it waits"),
    }
}

fn is_unavailable<T: std::fmt::Debug>(answer: Result<T, EngineError>) {
    let refused = matches!(answer, Err(EngineError::Unavailable { .. }));
    assert!(refused, "{answer:?}");
}

fn pay(target: Target, number: u32) -> book::Command {
    let campaign = target.id;
    book::Command::Pay {
        order: OrderId { campaign, number },
        payment: PaymentRef::new(&format!("payment-{number}")).unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    }
}

/// Everything is refused before it is queued.
fn all_is_refused_at_once(embedded: &Embedded, target: Target) {
    for n in 0..1_000 {
        is_unavailable(at_once(embedded.claim(target.one(&format!("refused-{n}")))));
    }
    is_unavailable(at_once(embedded.submit(pay(target, 1))));
    is_unavailable(at_once(embedded.probe(PARTITION)));
    let funds = Money::new(1, currency());
    let (id, buyer) = (Uuid::from_u128(9), user("buyer"));
    let deposit = at_once(embedded.deposit(id, &buyer, funds));
    let refused = matches!(deposit, Err(LedgerError::Unavailable { .. }));
    assert!(refused, "{deposit:?}");
    assert_eq!(embedded.queued(), 0);
}

#[test]
fn a_stopped_engine_answers_at_once_while_its_repair_is_held_up() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(5_000), &mut history);
    block_on(embedded.claim(target.one("first"))).unwrap();
    let other = hold_up(&path, &embedded);
    let uncertain = embedded.claim(target.one("uncertain"));
    while embedded.stopped().is_none() {
        std::thread::sleep(Duration::from_millis(1)); // until the commit gives up
    }
    let answer = block_on(uncertain);
    let uncertain = matches!(answer, Err(EngineError::Uncertain { .. }));
    assert!(uncertain, "{answer:?}");
    // The repair waits for the same lock.
    all_is_refused_at_once(&embedded, target);
    is_unavailable(at_once(embedded.gate_outcome(&target.one("looks"))).map(drop));
    is_unavailable(at_once(embedded.tally(target.id)).map(drop));
    assert!(embedded.stopped().is_some());
    let_go(&other);
    until_repaired(&embedded);
    for (name, outcome) in [("uncertain", "granted"), ("first", "already_granted")] {
        let again = block_on(embedded.claim(target.one(name))).unwrap();
        assert_eq!(again.outcome.name(), outcome);
    }
    audit(&embedded, history);
    embedded.close();
}

#[test]
fn a_commit_that_hangs_keeps_nobody_waiting_but_those_that_are_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(5_000), &mut history);
    block_on(embedded.claim(target.one("first"))).unwrap();
    embedded.close();
    drop(embedded);
    let options = EmbeddedOptions {
        commit_hangs_after: Duration::ZERO,
        ..EmbeddedOptions::default()
    };
    let embedded = Embedded::open_with(&path, ManualClock::new(OPENS), options).unwrap();
    // The first claim reloads the campaign: a claim that waits for that would be in no commit yet, and others would
    // join it.
    block_on(embedded.claim(target.one("first"))).unwrap();
    let other = hold_up(&path, &embedded);
    let in_commit = embedded.claim(target.one("in-commit"));
    while embedded.queued() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    // Claims gather until the commit has begun. The first refused claim makes all others refused, too.
    let mut gathered = Vec::new();
    loop {
        let mut ticket = embedded.claim(target.one(&format!("gathered-{}", gathered.len())));
        let polled = pin!(&mut ticket).poll(&mut Context::from_waker(Waker::noop()));
        if let Poll::Ready(answer) = polled {
            is_unavailable(answer);
            break;
        }
        gathered.push(ticket);
    }
    for ticket in gathered {
        is_unavailable(at_once(ticket));
    }
    all_is_refused_at_once(&embedded, target);
    assert_eq!(embedded.stopped(), None);
    let_go(&other);
    assert_eq!(block_on(in_commit).unwrap().outcome.name(), "granted");
    audit(&embedded, history);
    embedded.close();
}

/// Claims are refused above the bound. Actions on orders, money and the clock continue above it, up to a second bound.
/// Repairs of settlement always run.
#[test]
fn where_settlement_is_stuck_claims_alone_are_refused() {
    const BACKLOG_MAX: u64 = 100;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let clock = ManualClock::new(OPENS);
    let options = EmbeddedOptions {
        backlog_max: BACKLOG_MAX,
        ..EmbeddedOptions::default()
    };
    let embedded = Embedded::open_with(&path, Arc::clone(&clock) as _, options).unwrap();
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(1_000), &mut history);
    let ending = enter(&embedded, 2, sale(1).window(OPENS, 1_000), &mut history);
    let other = hold_up(&path, &embedded);
    let stick = "CREATE TRIGGER stuck BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no'); END; \
                 INSERT INTO set_aside (partition, seq, campaign, entry, reason, waits_for, at) \
                 WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000) \
                 SELECT 0, 1000000 + n, 'x', 'x', 'no', NULL, 0 FROM n; COMMIT";
    other.execute_batch(stick).unwrap();
    let claim = |n: u64| block_on(embedded.claim(target.one(&format!("u{n}"))));
    claim(1).unwrap();
    while embedded.stuck().is_none() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let backlog = || embedded.positions().0 - embedded.positions().1;
    let mut claimed = 1;
    while backlog() <= BACKLOG_MAX {
        claimed += 1;
        claim(claimed).unwrap();
    }
    is_unavailable(claim(claimed + 1));
    is_unavailable(block_on(embedded.probe(PARTITION)));
    let funds = Money::new(1, currency());
    let deposit = |id| block_on(embedded.deposit(Uuid::from_u128(id), &user("buyer"), funds));
    assert_eq!(deposit(1), Ok(()));
    let submit = |command| block_on(embedded.submit(command));
    let [order, returned] = [1, 2].map(|number| OrderId {
        campaign: target.id,
        number,
    });
    submit(book::Command::Cancel { order, part: None }).unwrap();
    submit(pay(target, returned.number)).unwrap();
    submit(book::Command::Return {
        order: returned,
        part: None,
    })
    .unwrap();
    // The end of a window is due.
    clock.advance(2_000);
    let before = embedded.positions().0;
    while embedded.positions().0 == before {
        std::thread::sleep(Duration::from_millis(1));
    }
    let over = block_on(embedded.claim(ending.one("late")));
    is_unavailable(over);

    let mut paid = 2;
    while backlog() <= BACKLOG_MAX * 5 / 4 {
        paid += 1;
        submit(pay(target, paid)).unwrap();
    }
    is_unavailable(submit(pay(target, paid + 1)));
    assert!(matches!(deposit(2), Err(LedgerError::Unavailable { .. })));
    assert_eq!(block_on(embedded.redrive(PARTITION, 1)), Ok(false));
    let mend = "BEGIN IMMEDIATE; DROP TRIGGER stuck; DELETE FROM set_aside; COMMIT";
    other.busy_timeout(Duration::from_secs(20)).unwrap();
    other.execute_batch(mend).unwrap();
    let head = embedded.positions().0;
    let settled = embedded.await_settled(PARTITION, head, Duration::from_secs(20));
    assert_eq!(block_on(settled), Ok(true));
    until_repaired(&embedded); // the writer may have met this connection's lock
    assert_eq!(claim(claimed + 1).unwrap().outcome.name(), "granted");
    embedded.close();
}
