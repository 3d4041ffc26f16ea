//! Campaigns opened in the commit that enters them: ledger position after it. Reads next to claims.

use qiang_core::{
    campaign::Phase,
    event::Seq,
    ports::{Creation, LedgerError, PendingReply},
};
use qiang_testkit::campaign::sale;

use super::*;
use crate::{
    deferred_read::DeferredRead,
    job::Job,
    pace::BATCH_ROWS,
    writer::manual_engine::{ManualEngine, block_on, creation, fresh, one, outcome, packet},
};

impl ManualEngine {
    fn phase(&self, creation: &Creation) -> Phase {
        self.phase_of(creation).unwrap()
    }

    /// `None` if the campaign does not exist.
    fn phase_of(&self, creation: &Creation) -> Option<Phase> {
        let record = campaigns::campaign(&self.reader, creation.setup.campaign.id).unwrap();
        record.map(|record| record.phase)
    }

    /// Positions of the last committed and the last settled entry. Asserts that the file and the writer agree.
    fn places(&self) -> (Seq, Seq) {
        let head = self
            .count("SELECT coalesce(max(seq), 0) FROM events")
            .into();
        let settled = settle::position(&self.reader, PARTITION).unwrap();
        let shared = &self.writer.shared;
        assert_eq!(shared.committed.load(Ordering::Acquire), head);
        assert_eq!(self.writer.settled, settled);
        assert_eq!(shared.positions.for_partition(PARTITION), settled);
        (head, settled)
    }

    /// Takes turns until everything is settled.
    fn settle(&mut self) {
        while self.writer.backlog() > 0 {
            self.turn();
        }
    }
}

#[test]
fn an_opening_is_settled_with_the_creation_where_nothing_is_before_it() {
    let mut engine = ManualEngine::new();
    let packets = [packet(1, 1_000, 10), packet(2, 2_000, 10)];
    let entered = packets.clone().map(|packet| engine.enter(packet));
    let mut draft = packet(3, 1_000, 10);
    draft.opens = false;
    drop(engine.enter(draft.clone()));
    engine.turn();
    assert_eq!(engine.phase(&draft), Phase::Draft);
    assert_eq!(engine.places(), (2, 2));
    for packet in &packets {
        assert_eq!(engine.phase(packet), Phase::Scheduled);
    }
    for entered in entered {
        assert_eq!(fresh(&engine.entered(entered)), Some(true));
    }
    // A repeated request opens nothing and settles nothing.
    let again = engine.enter(packets[0].clone());
    assert_eq!(fresh(&engine.entered(again)), Some(false));
    assert_eq!(engine.places(), (2, 2));
    for _ in 0..2 {
        let mut ticket = engine.claim(&packets[1].setup, "somebody");
        engine.turn();
        assert!(outcome(&mut ticket).grant().is_some());
        engine.settle();
        assert_eq!(engine.places(), (3, 3));
        engine = engine.crash();
    }
}

/// A claim waits for at most as many new packets as fit one batch, however many arrive at once.
#[test]
fn many_packets_are_entered_over_several_batches() {
    const SHARES: u32 = 1_000;
    let mut engine = ManualEngine::new();
    let stock = creation(sale(1_000_000).setup(1), None);
    let entered = engine.enter(stock.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    let packets: Vec<_> = (2..42)
        .map(|n| packet(n, i64::from(SHARES), SHARES))
        .collect();
    let mut entered: Vec<_> = packets.iter().map(|it| engine.enter(it.clone())).collect();
    let mut claims = 0;
    while !entered.is_empty() {
        let waiting = entered.len();
        let mut ticket = engine.claim(&stock.setup, &format!("user-{claims}"));
        engine.turn();
        assert!(outcome(&mut ticket).grant().is_some());
        claims += 1;
        // In order of arrival.
        while let Some(next) = entered.first_mut()
            && let Some(first) = one(next)
        {
            assert_eq!(fresh(&first), Some(true));
            entered.remove(0);
        }
        assert!(entered.iter_mut().all(|later| one(later).is_none()));
        let shares = (waiting - entered.len()) as u64 * u64::from(SHARES);
        assert!((1..=BATCH_ROWS).contains(&shares), "{shares} in a batch");
    }
    assert!(claims > 4, "{claims} batches");
    engine.settle();
    for packet in &packets {
        assert_eq!(engine.phase(packet), Phase::Scheduled);
    }
}

#[test]
fn packets_that_wait_for_the_next_batch_are_answered_whatever_happens() {
    for ends in ["closed", "aborted", "stopped"] {
        let mut engine = ManualEngine::new();
        let packets: Vec<_> = (1..20).map(|n| packet(n, 1_000, 1_000)).collect();
        let mut entered: Vec<_> = packets.iter().map(|it| engine.enter(it.clone())).collect();
        engine.turn();
        let queue = &engine.writer.shared.queue;
        match ends {
            "closed" => queue.close(),
            "aborted" => assert!(queue.abort().is_empty()),
            _ => engine
                .writer
                .stop(&DataFileError::damaged("the disk is gone")),
        }
        let mut turns = 0;
        while ends != "stopped" && engine.writer.turn(&mut Vec::new(), &mut Vec::new()) {
            turns += 1;
            assert!(turns < 20, "it never ends");
        }
        let answers: Vec<_> = entered.iter_mut().map(|it| one(it).unwrap()).collect();
        let fresh = answers.iter().filter(|it| fresh(it) == Some(true)).count();
        match ends {
            "closed" => assert_eq!(fresh, packets.len()),
            _ => assert!((1..10).contains(&fresh), "{fresh} {ends}"),
        }
        let reopened = engine.crash();
        for (packet, answer) in packets.iter().zip(&answers) {
            let there = reopened.phase_of(packet).is_some();
            assert_eq!(there, answer.is_ok(), "{ends}");
        }
    }
}

#[test]
fn an_opening_waits_for_what_is_in_the_log_before_it() {
    let mut engine = ManualEngine::new();
    let stock = creation(sale(100).setup(1), None);
    let entered = engine.enter(stock.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    assert_eq!(engine.places(), (1, 1));
    // First in the batch of a claim, then after a claim that is not settled.
    for (n, is_one_batch) in [(2, true), (3, false)] {
        let packet = packet(n, 1_000, 10);
        let (head, settled) = engine.places();
        let mut claim = engine.claim(&stock.setup, &format!("user-{n}"));
        let entered = engine.enter(packet.clone());
        let mut first = engine.take();
        assert_eq!(first.len(), 2);
        let second = first.split_off(if is_one_batch { 2 } else { 1 });
        for mut tasks in [first, second] {
            engine.writer.batch(&mut tasks, &mut Vec::new());
        }
        assert_eq!(engine.places(), (head + 2, settled));
        assert_eq!(engine.phase(&packet), Phase::Draft);
        assert!(outcome(&mut claim).grant().is_some());
        assert_eq!(fresh(&engine.entered(entered)), Some(true));
        engine = engine.crash();
        assert_eq!(engine.places(), (head + 2, settled));
        engine.settle();
        assert_eq!(engine.places(), (head + 2, head + 2));
        assert_eq!(engine.phase(&packet), Phase::Scheduled);
    }
}

#[test]
fn what_is_refused_behind_a_change_leaves_the_openings_beside_it() {
    let mut engine = ManualEngine::new();
    let packets = [packet(1, 1_000, 10), packet(2, 1_000, 10)];
    let first = engine.enter(packets[0].clone());
    let (refused, _) = Job::boxed(0, |context| {
        file::probe(context.conn, context.now)?;
        Err::<(), _>(DataFileError::Refused(LedgerError::IdUsed))
    });
    engine.push(WriterTask::Ledger(refused));
    // The id of an existing campaign under another key.
    let mut same_id = packet(3, 1_000, 10);
    same_id.setup = packets[0].setup.clone();
    let same_id = engine.enter(same_id);
    let last = engine.enter(packets[1].clone());
    engine.turn();
    assert_eq!(engine.places(), (2, 2));
    assert_eq!(engine.entered(same_id), Err(LedgerError::IdUsed));
    for (entered, packet) in [first, last].into_iter().zip(&packets) {
        assert_eq!(fresh(&engine.entered(entered)), Some(true));
        assert_eq!(engine.phase(packet), Phase::Scheduled);
    }
}

/// Later decisions, in the batch of the read or in another one, do not affect its answer.
#[test]
fn a_read_is_answered_before_anything_else_is_decided() {
    let mut engine = ManualEngine::new();
    let stock = creation(sale(3).setup(1), None);
    let id = stock.setup.campaign.id;
    let entered = engine.enter(stock.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    for remaining in [3, 2] {
        let mut claim = engine.claim(&stock.setup, &format!("user-{remaining}"));
        let (answer, ticket) = PendingReply::new();
        engine.push(WriterTask::Read(DeferredRead::Tally(id, answer)));
        engine.turn();
        assert!(outcome(&mut claim).grant().is_some());
        let tally = block_on(ticket).unwrap().unwrap();
        assert_eq!(tally.remaining, remaining);
    }
    // Reads are not load, so settlement does not yield to them.
    engine.settle();
    engine.writer.pace.idle();
    let (answer, ticket) = PendingReply::new();
    engine.push(WriterTask::Read(DeferredRead::Tally(id, answer)));
    engine.turn();
    assert_eq!(block_on(ticket).unwrap().unwrap().remaining, 1);
    assert!(engine.writer.pace.is_idle());
}
