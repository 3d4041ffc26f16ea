//! Large packets, with a writer whose turns the test takes one by one.

use qiang_core::{
    event::Event,
    outcome::Outcome,
    ports::{Creation, LedgerError},
};
use qiang_testkit::campaign::sale;
use rusqlite::Connection;

use super::*;
use crate::{
    ledger::{campaigns, keys},
    log::{self, EventRefs},
    pace::LOAD_SHARES,
    writer::manual_engine::{FUNDS, ManualEngine, One, creation, fresh, one, outcome, packet},
};

const SHARES: u32 = 20_000;

impl ManualEngine {
    /// Takes turns until a part of a large packet's shares is written.
    fn begin(&mut self) {
        while self.shares() == 0 {
            self.turn();
        }
        assert!(self.shares() < SHARES);
    }

    /// Takes turns until no share is left to write or delete.
    fn rest(&mut self) {
        while self.writer.preparing.has_work() {
            self.turn();
        }
    }

    /// Number of committed shares.
    fn shares(&self) -> u32 {
        self.count("SELECT count(*) FROM shares")
    }

    /// Asserts that nothing of a packet exists and its money is the sender's.
    fn assert_nothing_of(&self, creation: &Creation) {
        let id = creation.setup.campaign.id;
        let campaign = campaigns::campaign(&self.reader, id).unwrap();
        assert_eq!((campaign, self.sender_has()), (None, FUNDS));
        let key = creation.used.as_ref().unwrap();
        assert_eq!(keys::bound(&self.reader, key).unwrap(), None);
        assert!(!self.writer.shared.book.read().has(id));
    }

    fn assert_no_share_is_left(&self) {
        assert_eq!(self.shares(), 0);
        assert_eq!(self.count("SELECT count(*) FROM preparations"), 0);
    }

    /// Asserts that a packet is complete and grants its shares.
    fn assert_entered(&mut self, creation: &Creation, total: i64) {
        let setup = campaigns::setup_by_id(&self.reader, creation.setup.campaign.id).unwrap();
        assert_eq!(setup.as_ref(), Some(&creation.setup));
        assert_eq!(self.sender_has(), FUNDS - total);
        assert_eq!(self.count("SELECT count(*) FROM preparations"), 0);
        let mut ticket = self.claim(&creation.setup, "somebody");
        self.turn();
        let amount = outcome(&mut ticket).grant().map(|grant| grant.amount_minor);
        assert_eq!(amount, Some(creation.setup.shares[0]));
    }
}

#[test]
fn claims_are_committed_between_the_slices_of_a_large_packet() {
    let mut engine = ManualEngine::new();
    let stock = creation(sale(1_000_000).setup(1), None);
    let entered = engine.enter(stock.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    let large = packet(2, 500_000, SHARES);
    let mut entered = engine.enter(large.clone());
    let (mut written, mut slices, mut claims) = (0, 0, 0_u32);
    let entered = loop {
        engine.assert_nothing_of(&large);
        let mut ticket = engine.claim(&stock.setup, &format!("user-{claims}"));
        engine.turn();
        let outcome = outcome(&mut ticket);
        assert!(matches!(outcome, Outcome::Granted(_)), "{outcome:?}");
        claims += 1;
        let now = engine.shares();
        assert!(now - written <= LOAD_SHARES, "{now} behind {written}");
        slices += u32::from(now > written);
        written = now;
        if let Some(entered) = one(&mut entered) {
            break entered;
        }
    };
    assert_eq!((fresh(&entered), written), (Some(true), SHARES));
    assert!(slices >= SHARES / LOAD_SHARES, "{slices} slices");
    // Claims that were decided in between precede the packet in the log, though the packet was requested first.
    let mut before = 0;
    let opened = |event: &Event| matches!(event, Event::Opened { .. });
    log::read(
        &engine.reader,
        &mut EventRefs::default(),
        1,
        usize::MAX,
        |entry| {
            if opened(&entry.event) {
                assert_eq!(entry.campaign, large.setup.campaign.id);
                assert_eq!(before, claims);
            }
            before += 1;
        },
    )
    .unwrap();
    assert_eq!(before, claims + 1);
    engine.assert_entered(&large, 500_000);
    engine.rest();
    assert_eq!(engine.shares(), SHARES);
}

#[test]
fn a_crash_between_slices_leaves_nothing_and_the_key_is_free() {
    let mut engine = ManualEngine::new();
    let large = packet(1, 500_000, SHARES);
    for _ in 0..2 {
        let _waits = engine.enter(large.clone());
        engine.begin();
        engine.assert_nothing_of(&large);
        engine = engine.crash();
        engine.assert_nothing_of(&large);
    }
    // Other packets are entered next to the abandoned shares and do not mix with them.
    let small = packet(2, 1_000, 10);
    let entered = engine.enter(small.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    engine.rest();
    assert_eq!(engine.shares(), 10);
    let again = engine.enter(large.clone());
    let again = engine.entered(again).unwrap();
    assert_eq!(
        (again.id, again.fresh),
        (large.setup.campaign.id.uuid(), true)
    );
    engine.assert_entered(&large, 501_000);
    // The request was answered: the key now belongs to this packet, and a retry writes nothing.
    for _ in 0..2 {
        engine.rest();
        let again = engine.enter(large.clone());
        assert_eq!(fresh(&engine.entered(again)), Some(false));
        assert!(!engine.writer.preparing.remains);
        assert_eq!(engine.shares(), SHARES + 10);
        engine = engine.crash();
    }
    engine.assert_entered(&small, 501_000);
}

#[test]
fn what_nobody_waits_for_any_more_is_not_begun() {
    let mut engine = ManualEngine::new();
    let (first, left) = (packet(1, 500_000, SHARES), packet(2, 500_000, SHARES));
    let entered = engine.enter(first.clone());
    engine.begin();
    drop(engine.enter(left.clone()));
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    engine.rest();
    engine.assert_entered(&first, 500_000);
    assert_eq!(engine.count("SELECT count(*) FROM campaigns"), 1);
    assert_eq!(engine.shares(), SHARES);
    // Its key is free.
    let again = engine.enter(left);
    assert_eq!(fresh(&engine.entered(again)), Some(true));
}

#[test]
fn what_the_sender_lacks_is_refused_and_leaves_nothing() {
    let mut engine = ManualEngine::new();
    let dear = packet(1, FUNDS + 20_000, SHARES);
    let refused = |entered: One| matches!(entered, Err(LedgerError::InsufficientFunds { .. }));
    engine.rest();
    let entered = engine.enter(dear.clone());
    assert!(refused(engine.entered(entered)));
    assert!(!engine.writer.preparing.remains, "nothing was written");
    engine.assert_nothing_of(&dear);
    engine.assert_no_share_is_left();

    // The money is spent while the shares are written.
    let large = packet(2, FUNDS, SHARES);
    let entered = engine.enter(large.clone());
    engine.begin();
    let small = packet(3, 1, 1);
    let other = engine.enter(small);
    assert_eq!(fresh(&engine.entered(other)), Some(true));
    assert!(refused(engine.entered(entered)));
    let id = large.setup.campaign.id;
    assert_eq!(campaigns::campaign(&engine.reader, id).unwrap(), None);
    assert_eq!(engine.sender_has(), FUNDS - 1);
    engine.rest();
    assert_eq!(engine.shares(), 1);
    assert_eq!(engine.count("SELECT count(*) FROM preparations"), 0);
}

#[test]
fn the_same_request_twice_at_once_is_one_packet() {
    let mut engine = ManualEngine::new();
    let large = packet(1, 500_000, SHARES);
    let both = [(); 2].map(|()| engine.enter(large.clone()));
    let both = both.map(|entered| engine.entered(entered));
    assert_eq!(both.each_ref().map(fresh), [Some(true), Some(false)]);
    // Another packet under the same key, and one with the same id.
    let mut other = packet(2, 400_000, SHARES);
    other.used.as_mut().unwrap().key = large.used.clone().unwrap().key;
    other.used.as_mut().unwrap().fingerprint = [2; 32];
    let reused = engine.enter(other);
    assert_eq!(engine.entered(reused), Err(LedgerError::KeyReused));
    let mut other = packet(3, 400_000, SHARES);
    other.setup.campaign.id = large.setup.campaign.id;
    let taken = engine.enter(other);
    assert_eq!(engine.entered(taken), Err(LedgerError::IdUsed));
    engine.rest();
    assert_eq!(engine.shares(), SHARES);
    engine.assert_entered(&large, 500_000);
}

/// Many packets of one request are written like one large packet. Each is refused separately.
#[test]
fn a_batch_of_packets_is_written_before_it_is_entered() {
    let mut engine = ManualEngine::new();
    let asked = [
        packet(1, 400_000, 3_000),
        packet(2, FUNDS, 3_000),
        packet(3, 300_000, 3_000),
        packet(1, 400_000, 3_000),
        packet(4, 1, 1),
    ];
    let (campaigns, mut receiver) = NewCampaignIds::boxed(asked.to_vec());
    engine.push(WriterTask::Enter(campaigns));
    engine.begin();
    assert_eq!(engine.sender_has(), FUNDS);
    let entered = loop {
        match receiver.try_recv() {
            Ok(entered) => break entered.unwrap(),
            Err(_) => engine.turn(),
        }
    };
    let said = entered.iter().map(fresh).collect::<Vec<_>>();
    assert_eq!(
        said,
        [Some(true), None, Some(true), Some(false), Some(true)]
    );
    engine.rest();
    assert_eq!(engine.shares(), 6_001);
    assert_eq!(engine.count("SELECT count(*) FROM preparations"), 0);
    engine.assert_entered(&asked[0], 700_001);
    engine.assert_entered(&asked[2], 700_001);
}

/// A sale next to refused packets is still entered.
#[test]
fn what_is_new_without_shares_is_entered_too() {
    let mut engine = ManualEngine::new();
    let stock = creation(sale(5).setup(2), Some("key-2"));
    let asked = vec![packet(1, FUNDS * 2, SHARES), stock.clone()];
    let (campaigns, mut receiver) = NewCampaignIds::boxed(asked);
    engine.push(WriterTask::Enter(campaigns));
    let entered = loop {
        match receiver.try_recv() {
            Ok(entered) => break entered.unwrap(),
            Err(_) => engine.turn(),
        }
    };
    let said = entered.iter().map(fresh).collect::<Vec<_>>();
    assert_eq!(said, [None, Some(true)]);
    let mut ticket = engine.claim(&stock.setup, "somebody");
    engine.turn();
    assert!(matches!(outcome(&mut ticket), Outcome::Granted(_)));
    engine.rest();
    engine.assert_no_share_is_left();
}

#[test]
fn a_commit_that_fails_between_slices_leaves_nothing() {
    let mut engine = ManualEngine::new();
    let large = packet(1, 500_000, SHARES);
    let mut entered = engine.enter(large.clone());
    engine.begin();
    // Another connection holds the file's lock, and the writer does not wait for it.
    let other = Connection::open(engine.folder.path().join("qiang.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    engine
        .writer
        .conn
        .busy_timeout(std::time::Duration::ZERO)
        .unwrap();
    let stopped = |engine: &ManualEngine| engine.writer.shared.stopped.read().is_some();
    let turn =
        |engine: &mut ManualEngine| assert!(engine.writer.turn(&mut Vec::new(), &mut Vec::new()));
    while !stopped(&engine) {
        turn(&mut engine);
    }
    let refused = one(&mut entered);
    assert!(
        matches!(refused, Some(Err(LedgerError::Unavailable { .. }))),
        "{refused:?}"
    );
    other.execute_batch("ROLLBACK").unwrap();
    while stopped(&engine) {
        turn(&mut engine);
    }
    engine.rest();
    engine.assert_nothing_of(&large);
    engine.assert_no_share_is_left();
}

/// An engine that closes enters the accepted campaigns; an aborted one refuses them.
#[test]
fn the_end_of_the_writer_answers_what_waits() {
    for aborted in [false, true] {
        let mut engine = ManualEngine::new();
        let large = [1, 2].map(|n| packet(n, 300_000, SHARES));
        let mut entered = large.each_ref().map(|it| engine.enter(it.clone()));
        engine.begin();
        match aborted {
            true => assert!(engine.writer.shared.queue.abort().is_empty()),
            false => engine.writer.shared.queue.close(),
        }
        while engine.writer.turn(&mut Vec::new(), &mut Vec::new()) {}
        let ManualEngine { folder, writer, .. } = engine;
        writer.end();
        let entered = entered
            .each_mut()
            .map(|it| one(it).as_ref().and_then(fresh));
        assert_eq!(entered, [(!aborted).then_some(true); 2]);
        let mut engine = ManualEngine::open(folder);
        engine.rest();
        if aborted {
            engine.assert_nothing_of(&large[0]);
            engine.assert_no_share_is_left();
        } else {
            engine.assert_entered(&large[1], 600_000);
        }
    }
}

#[test]
fn what_is_new_is_listed_once_there_is_nothing_else_to_do() {
    let mut engine = ManualEngine::new();
    for n in 1..=64 {
        let sale = creation(sale(1).owner("seller").setup(n), None);
        let entered = engine.enter(sale);
        assert_eq!(fresh(&engine.entered(entered)), Some(true));
    }
    let sql = "SELECT count(*) FROM owned";
    for _ in 0..10 {
        if engine.count(sql) == 0 {
            engine.turn(); // // no further task arrives
        }
    }
    let sql = "SELECT count(*) FROM owned WHERE by = 'seller' AND campaign <= (SELECT campaign FROM listed)";
    assert_eq!(engine.count(sql), 64);
}
