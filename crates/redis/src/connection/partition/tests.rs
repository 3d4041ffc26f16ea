//! Tests of the conditions under which answers count, and of waits for them.

use std::{future::Future as _, task::Context};

use super::*;

/// Longer than a test takes.
const GRACE: Duration = Duration::from_secs(600);

fn answer(state: PartitionHealth) -> PresenceReply {
    let term = Term {
        epoch: "e".to_owned(),
        number: 1,
        server: "s".to_owned(),
        began: 0,
    };
    let term = Some(term);
    PresenceReply { term, state }
}

/// Open partition, as in the answer to a presence call that was sent this long ago.
fn open(grace: Duration, ago: Duration) -> PartitionHandle {
    let partition = PartitionHandle::new(PartitionId(0), 0, true, grace);
    hear(&partition, ago);
    hear(&partition, ago);
    partition
}

/// Applies the answer to a presence call that was sent this long ago.
fn hear(partition: &PartitionHandle, ago: Duration) {
    let mut report = partition.report();
    report.at = Instant::now().checked_sub(ago).unwrap();
    partition.learn(&report, answer(PartitionHealth::Open));
}

/// A stopped node reads answers from its buffers when it continues. By then another term may have granted the same
/// units to users of other nodes.
#[tokio::test]
async fn an_answer_is_lost_once_the_partition_was_not_heard_of_for_the_grace() {
    let partition = open(GRACE, GRACE);
    let term = partition.term();
    assert_eq!(partition.state(), PartitionHealth::Open);
    assert!(!partition.accept(&term, Some(7)));
    assert!(partition.accept_reply(&term, Some(7)).is_none());
    assert_eq!(partition.min_head(), 0, "no answer was passed on");
    let mut context = Context::from_waker(std::task::Waker::noop());
    let admitted = &mut Box::pin(partition.open_term(Instant::now() + GRACE));
    assert!(admitted.as_mut().poll(&mut context).is_pending());
    // The same term continues: waiting calls are admitted, and answers count.
    hear(&partition, Duration::ZERO);
    assert!(admitted.as_mut().poll(&mut context).is_ready());
    assert!(partition.accept(&term, Some(7)));
    assert!(partition.accept_reply(&term, Some(8)).is_some());
    assert_eq!(partition.min_head(), 8);
    // A check is useless if terms do not wait for silent nodes.
    let hasty = open(Duration::ZERO, GRACE);
    assert!(hasty.accept(&hasty.term(), None));
}

/// Several presence calls are due before answers stop to count.
#[test]
fn presence_is_more_frequent_than_the_grace() {
    for grace in [1, 40, 100, 2_000, 60_000].map(Duration::from_millis) {
        let partition = PartitionHandle::new(PartitionId(0), 0, true, grace);
        assert!(PRESENCES_A_GRACE * partition.presence_every <= grace);
        assert!(partition.presence_every <= PRESENCE_EVERY);
    }
}

#[test]
fn a_repair_waits_for_replies_that_are_not_kept_yet() {
    let partition = open(GRACE, Duration::ZERO);
    let term = partition.term();
    assert!(partition.accept_reply("another", Some(7)).is_none());
    let replies = [1, 2].map(|seq| partition.accept_reply(&term, Some(seq)));
    assert_eq!(partition.min_head(), 2);
    let mut context = Context::from_waker(std::task::Waker::noop());
    let mut kept = Box::pin(partition.all_kept());
    for reply in replies {
        assert!(kept.as_mut().poll(&mut context).is_pending());
        assert!(reply.is_some());
        drop(reply);
    }
    assert!(kept.as_mut().poll(&mut context).is_ready());
}
