//! What the gate answers behind a commit, and during one.

use super::*;

/// Behind the sell-out, whoever asks again for his grant does not keep the gate from answering those behind him.
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
    // Each round decides one loser. The queue may have been taken in two turns.
    let losers = (embedded.gate_answers().decided - before.decided) as usize - EACH;
    assert!(losers <= 10, "{losers} losers were decided");
    audit(&embedded, history);
    embedded.close();
}

/// Whoever looks while the last unit's grant is being committed is told what the commit makes of it.
#[test]
fn a_look_waits_for_the_commit_under_way() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("qiang.db");
    let embedded = open(&path);
    let mut history = History::default();
    let target = enter(&embedded, 1, sale(1), &mut history);
    let look = |user: &str| embedded.look(&target.one(user));
    assert_eq!(block_on(look("loser")).unwrap(), None);
    let other = hold_up(&path, &embedded);
    let winner = embedded.claim(target.one("winner"));
    let remaining = || {
        block_on(embedded.tally(target.id))
            .unwrap()
            .unwrap()
            .remaining
    };
    while remaining() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let looked = look("loser");
    let_go(&other);
    assert_eq!(block_on(winner).unwrap().outcome.name(), "granted");
    let looked = block_on(looked).unwrap();
    assert_eq!(looked, Some(Outcome::SoldOut { remaining: 0 }));
    audit(&embedded, history);
    embedded.close();
}
