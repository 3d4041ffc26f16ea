//! Answers of the gate after a commit, and during one.

use std::{
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use qiang_core::id::OrderId;

use super::*;

/// After the sell-out, replays of the winner do not keep the gate from answering the other claims.
#[test]
fn losers_between_replays_are_answered_without_a_decision() {
    const EACH: usize = 1_000;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(1), &mut history);
    let slow = enter(&embedded, 2, sale(1), &mut history);
    block_on(embedded.claim(target.one("winner"))).unwrap();
    let other = hold_up(&path, &embedded);
    let first = embedded.claim(slow.one("first"));
    while embedded.queued() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let before = embedded.gate_answers();
    let alternately =
        (0..EACH).flat_map(|n| [target.one("winner"), target.one(&format!("loser-{n}"))]);
    let tickets = claims(&embedded, alternately);
    let_go(&other);
    block_on(first).unwrap();
    for (n, ticket) in tickets.into_iter().enumerate() {
        let expected = ["already_granted", "sold_out"][n % 2];
        assert_eq!(block_on(ticket).unwrap().outcome.name(), expected);
    }
    // Each batch decides one loser. The writer may have taken the queue in two batches.
    let losers = (embedded.gate_answers().decided - before.decided) as usize - EACH;
    assert!(losers <= 10, "{losers} losers were decided");
    audit(&embedded, history);
    embedded.close();
}

/// A read during the commit of the last unit's grant is answered with the result of the commit. A read of another
/// campaign is answered at once.
#[test]
fn a_read_waits_for_the_commit_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(2), &mut history);
    let aside = enter(&embedded, 2, sale(2), &mut history);
    for sale in [target, aside] {
        block_on(embedded.claim(sale.one("first"))).unwrap(); // // loads the campaign
    }
    let look = |user: &str| embedded.gate_outcome(&target.one(user));
    let order = || {
        embedded.order(OrderId {
            campaign: target.id,
            number: 2,
        })
    };
    assert_eq!(block_on(look("loser")).unwrap(), None);
    assert_eq!(block_on(order()).unwrap(), None);
    let other = hold_up(&path, &embedded);
    let winner = embedded.claim(target.one("winner"));
    // Until the grant is decided.
    let tally = loop {
        let mut tally = Box::pin(embedded.tally(target.id));
        match poll_once(tally.as_mut()) {
            Poll::Ready(before) => assert_eq!(before.unwrap().unwrap().remaining, 1),
            Poll::Pending => break tally,
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (looked, mut ordered) = (look("loser"), Box::pin(order()));
    assert!(poll_once(ordered.as_mut()).is_pending());
    let of_another = poll_once(pin!(embedded.tally(aside.id)));
    assert!(of_another.is_ready(), "nothing of it waits for the commit");
    let_go(&other);
    assert_eq!(block_on(winner).unwrap().outcome.name(), "granted");
    assert_eq!(block_on(tally).unwrap().unwrap().remaining, 0);
    let looked = block_on(looked).unwrap();
    assert_eq!(looked, Some(Outcome::SoldOut { remaining: 0 }));
    assert_eq!(block_on(ordered).unwrap().unwrap().user, user("winner"));
    audit(&embedded, history);
    embedded.close();
}

fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
