//! Campaigns that become due while they are evicted.

use qiang_core::{
    book::{Command, Reply, Setup},
    ports::PendingReply,
};
use qiang_testkit::campaign::sale;

use super::*;
use crate::writer::manual_engine::{ManualEngine, block_on, creation, fresh, outcome};

const HOLD_MS: i64 = 60_000;
/// More orders than one read takes without a pause.
const ORDERS: u32 = ROWS_AT_ONCE as u32 + 4;

impl ManualEngine {
    /// An engine that evicts campaigns only when the test calls for it.
    pub(in crate::writer) fn unswept() -> Self {
        let mut engine = Self::open_without_readers(tempfile::TempDir::new().unwrap());
        engine.sweep_later();
        engine
    }

    pub(in crate::writer) fn sweep_later(&mut self) {
        self.writer.absent.swept_at = Instant::now() + Duration::from_secs(3_600);
    }

    pub(in crate::writer) fn sale(&mut self, n: u64) -> Setup {
        let creation = creation(sale(100_000).hold_ms(HOLD_MS).setup(n), None);
        let entered = self.enter(creation.clone());
        assert_eq!(fresh(&self.entered(entered)), Some(true));
        creation.setup
    }

    /// Makes orders of this many users and settles all of them.
    pub(in crate::writer) fn sell(&mut self, setup: &Setup, orders: u32) {
        let mut tickets: Vec<_> = (0..orders)
            .map(|n| self.claim(setup, &format!("user-{n}")))
            .collect();
        self.turn();
        for ticket in &mut tickets {
            assert!(outcome(ticket).grant().is_some());
        }
        while self.writer.backlog() > 0 {
            self.turn();
        }
    }

    pub(in crate::writer) fn forget(&mut self, setup: &Setup) {
        let (id, settled) = (setup.campaign.id, self.writer.settled);
        self.writer.retire(id, settled);
        assert!(!self.has(setup));
    }

    fn sweep(&mut self) {
        self.writer.absent.swept_at = Instant::now().checked_sub(SWEEP_EVERY).unwrap();
        self.writer.retire_idle();
        self.sweep_later();
    }

    pub(in crate::writer) fn has(&self, setup: &Setup) -> bool {
        self.writer.shared.book.read().has(setup.campaign.id)
    }

    /// Campaigns whose reload is requested.
    pub(in crate::writer) fn sent_for(&self) -> Vec<CampaignId> {
        let errands = self.writer.shared.recalls.take();
        errands.iter().map(DeferredRead::campaign).collect()
    }

    pub(in crate::writer) fn whole(&self) -> u64 {
        self.writer.shared.recalls.whole()
    }

    pub(in crate::writer) fn tick(&self) -> PendingReply<Reply> {
        let (answer, ticket) = PendingReply::new();
        let events_max = 10_000;
        self.push(WriterTask::Command(Command::Tick { events_max }, answer));
        ticket
    }

    pub(in crate::writer) fn expired(&self) -> u32 {
        self.count("SELECT count(*) FROM events WHERE kind = 4")
    }

    /// Reloads a campaign as the thread does.
    pub(in crate::writer) fn read(&self, setup: &Setup) -> WriterTask {
        let id = setup.campaign.id;
        let loaded = recall::load(&self.reader, id, &mut || {}).unwrap();
        WriterTask::Recalled(id, loaded.into())
    }
}

/// An engine with an evicted large sale and a small sale in memory.
fn cold_and_hot() -> (ManualEngine, Setup, Setup) {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    (engine, cold, hot)
}

/// Makes the rows of a campaign look incomplete, so that its log must be read, or complete again.
fn set_aside(engine: &ManualEngine, setup: &Setup, is_set: bool) {
    let conn = rusqlite::Connection::open(&engine.writer.path).unwrap();
    let id = setup.campaign.id.to_string();
    let sql = match is_set {
        true => {
            "INSERT INTO set_aside (partition, seq, campaign, entry, reason, at) VALUES (0, 1, ?1, '', '', 0)"
        }
        false => "DELETE FROM set_aside WHERE campaign = ?1",
    };
    assert_eq!(conn.execute(sql, [id]), Ok(1));
}

/// No task waits for the reload of a large due campaign.
#[test]
fn the_writer_reads_no_large_campaign() {
    let (mut engine, cold, hot) = cold_and_hot();
    set_aside(&engine, &cold, true);
    engine.clock.advance(HOLD_MS);
    let mut claimed = engine.claim(&hot, "somebody");
    let mut ticked = engine.tick();
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    assert_eq!((engine.whole(), engine.has(&cold)), (0, false));
    // Its reload is requested once.
    engine.turn();
    let mut again = engine.claim(&cold, "late");
    engine.turn();
    assert_eq!(engine.sent_for(), []);
    assert_eq!(engine.expired(), 0);
    // The waiting claim is decided after the due holds, and before the tick is answered.
    set_aside(&engine, &cold, false);
    engine.push(engine.read(&cold));
    engine.turn();
    assert!(outcome(&mut again).grant().is_some());
    let more = block_on(&mut ticked);
    assert!(matches!(more, Ok(Reply::Ticked { .. })), "{more:?}");
    while engine.expired() < ORDERS {
        engine.turn();
    }
    assert_eq!(engine.expired(), ORDERS);
}

/// Holds expire although a reload failed.
#[test]
fn what_could_not_be_read_is_due_again() {
    let (mut engine, cold, _) = cold_and_hot();
    set_aside(&engine, &cold, true);
    engine.clock.advance(HOLD_MS);
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    let mut ticked = engine.tick();
    engine.turn();
    let failed = RecallTask::Failed(EngineError::unavailable("no disk"));
    engine.push(WriterTask::Recalled(cold.campaign.id, failed));
    engine.turn();
    assert!(block_on(&mut ticked).is_ok());
    engine.turn();
    assert_eq!(engine.sent_for(), [], "not at once");
    engine.clock.advance(DUE_AGAIN_MS);
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    set_aside(&engine, &cold, false);
    engine.push(engine.read(&cold));
    while engine.expired() < ORDERS {
        engine.turn();
    }
}

/// A small campaign is reloaded in the turn in which it is due.
#[test]
fn small_campaigns_are_read_with_the_tick() {
    let mut engine = ManualEngine::unswept();
    let sales: Vec<_> = (1..=5).map(|n| engine.sale(n)).collect();
    for sale in &sales {
        engine.sell(sale, 3_000);
        engine.forget(sale);
    }
    engine.clock.advance(HOLD_MS);
    engine.turn();
    let read = engine.whole();
    assert!(
        (1..=2).contains(&read),
        "{read}: as many as have 8,192 rows"
    );
    while engine.expired() < 15_000 {
        engine.turn();
    }
    assert_eq!(engine.sent_for(), []);
}

/// A campaign that is due soon would be reloaded for that.
#[test]
fn what_is_due_soon_stays() {
    let mut engine = ManualEngine::unswept();
    let sale = engine.sale(1);
    engine.sell(&sale, 1);
    engine.writer.absent.idle_campaign_ttl = Duration::from_secs(30);
    engine.clock.advance(HOLD_MS - 20_000);
    engine.sweep();
    assert!(engine.has(&sale), "its hold ends in 20 s");
    engine.clock.advance(20_000);
    engine.turn();
    assert_eq!(engine.expired(), 1);
    while engine.writer.backlog() > 0 {
        engine.turn();
    }
    engine.sweep();
    assert!(!engine.has(&sale), "nothing is due of it for long");
}
