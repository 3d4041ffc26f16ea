//! Large campaigns that become due while they are evicted: their rows that are read, and their entries.

use std::time::Instant;

use qiang_core::{
    book::{Command, Setup},
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Clock as _, EngineError, PendingReply},
};
use qiang_testkit::campaign::{HOLD_MS, OPEN_MS, Target, sale};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::{
    recall::{ROWS_AT_ONCE, ROWS_READ},
    writer::manual_engine::{FUNDS, ManualEngine, block_on, creation, fresh, outcome, packet},
};

/// More orders than a small campaign has.
const ORDERS: u32 = ROWS_AT_ONCE as u32 + 4;

impl ManualEngine {
    fn pay(&mut self, setup: &Setup, number: u32) {
        let (answer, ticket) = PendingReply::new();
        let pay = Command::Pay {
            order: Target::of(setup).order(number),
            payment: PaymentRef::new(&format!("payment-{number}")).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        self.push(WriterTask::Command(pay, answer));
        drop(ticket);
    }

    pub(in crate::writer) fn settle_all(&mut self) {
        while self.writer.backlog() > 0 {
            self.turn();
        }
    }

    /// Takes turns until nothing is due.
    pub(in crate::writer) fn rest_of_due(&mut self) {
        let now = self.clock.now();
        let is_due = |engine: &Self| {
            let next = engine.writer.shared.book.read().next_due();
            next.is_some_and(|due| due <= now) || !engine.writer.absent.by_rows.is_empty()
        };
        while is_due(self) {
            self.turn();
        }
    }

    /// Number of entries that the log has more than once.
    fn repeated(&self) -> u32 {
        let of_it = "concat_ws(' ', campaign, kind, number)";
        self.count(&format!(
            "SELECT count(*) - count(DISTINCT {of_it}) FROM events"
        ))
    }

    /// All entries of the log but their campaigns.
    fn entries(&self) -> Vec<String> {
        let sql = "SELECT concat_ws(' ', seq, at, kind, number, user, quantity, amount, note) FROM events \
                   ORDER BY seq";
        let mut entries = self.reader.prepare(sql).unwrap();
        let entries = entries.query_map([], |row| row.get(0)).unwrap();
        entries.map(Result::unwrap).collect()
    }
}

fn rows_read() -> u64 {
    ROWS_READ.with(std::cell::Cell::get)
}

/// An evicted sale of which few orders are held, and the rows that their end takes.
fn rows_for(orders: u32) -> u64 {
    const HELD: u32 = 5;
    let mut engine = ManualEngine::unswept();
    let cold = engine.sale(1);
    engine.sell(&cold, orders);
    for number in 1..=orders - HELD {
        engine.pay(&cold, number);
    }
    engine.turn();
    engine.settle_all();
    engine.forget(&cold);
    let before = rows_read();
    engine.clock.advance(HOLD_MS);
    engine.turn();
    engine.rest_of_due();
    assert_eq!(engine.expired(), HELD);
    assert_eq!(engine.sent_for(), []);
    assert_eq!((engine.whole(), engine.has(&cold)), (0, false));
    assert_eq!(
        engine.writer.backlog(),
        0,
        "they are settled in their commit"
    );
    rows_read() - before
}

#[test]
fn the_end_of_a_hold_reads_no_other_order() {
    assert_eq!(
        [ORDERS, 2 * ORDERS].map(rows_for),
        [5, 5],
        "of the held orders"
    );
}

/// Claims of another sale are decided between the entries of a large due campaign, and the tick waits for all of them.
#[test]
fn many_holds_end_in_slices() {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    let before = rows_read();
    engine.clock.advance(HOLD_MS);
    let mut ticked = engine.tick();
    let (mut turns, mut most) = (0, 0);
    while engine.expired() < ORDERS {
        let expired = engine.expired();
        let mut claimed = engine.claim(&hot, &format!("user-{turns}"));
        engine.turn();
        assert!(outcome(&mut claimed).grant().is_some());
        most = most.max(engine.expired() - expired);
        turns += 1;
    }
    assert!(most <= EVENTS_MAX as u32, "{most} entries in one turn");
    assert!(turns >= u64::from(ORDERS) / EVENTS_MAX as u64, "{turns}");
    assert_eq!((engine.whole(), engine.has(&cold)), (0, false));
    // Each slice reads one more to know when the next hold ends.
    let read = rows_read() - before;
    assert!(read <= u64::from(ORDERS) + turns, "{read} rows");
    engine.rest_of_due();
    while !engine.writer.absent.by_rows.is_empty() {
        engine.turn();
    }
    engine.turn();
    assert!(block_on(&mut ticked).is_ok());
    // The units are for sale again.
    let mut again = engine.claim(&cold, "late");
    engine.turn();
    assert!(outcome(&mut again).grant().is_some());
    let id = cold.campaign.id;
    let granted = format!("SELECT granted FROM campaigns WHERE id = '{id}'");
    assert_eq!(engine.count(&granted), 1);
}

/// A started engine whose evicted sale has this many held orders. It knows the end of the oldest hold and that of the
/// window.
fn started_with_held(held: u32) -> (ManualEngine, Setup, Setup) {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, held);
    let mut engine = engine.crash();
    engine.sweep_later();
    engine.writer.absent.large_rows = 0;
    (engine, cold, hot)
}

fn assert_ended_once(engine: &ManualEngine, setup: &Setup, held: u32) {
    let id = setup.campaign.id;
    assert_eq!(engine.repeated(), 0, "entries of {held} holds are repeated");
    assert_eq!(engine.expired(), held);
    let numbers = format!("SELECT granted * 1000000 + returned FROM campaigns WHERE id = '{id}'");
    assert_eq!(engine.count(&numbers), 100_000, "none is granted");
    assert_eq!(engine.count("SELECT count(*) FROM set_aside"), 0);
}

/// A start records two due times of a sale: the end of its window, and that of its oldest hold.
#[test]
fn a_campaign_with_two_due_times_is_ticked_once() {
    const MANY: u32 = EVENTS_MAX as u32 + 44;
    for held in [3, EVENTS_MAX as u32 - 1, EVENTS_MAX as u32, MANY] {
        let (mut engine, cold, _) = started_with_held(held);
        engine.clock.advance(OPEN_MS + HOLD_MS);
        engine.turn();
        engine.rest_of_due();
        engine.settle_all();
        assert_ended_once(&engine, &cold, held);
    }
}

#[test]
fn a_campaign_that_is_due_again_while_it_waits_is_ticked_once() {
    for held in [3, EVENTS_MAX as u32 + 44] {
        let (mut engine, cold, hot) = started_with_held(held);
        engine.writer.settle_again_at = Some(Instant::now() + Duration::from_secs(3_600));
        let mut claimed = engine.claim(&hot, "ann");
        engine.turn();
        assert!(outcome(&mut claimed).grant().is_some());
        engine.pay(&hot, 1);
        engine.turn();
        for millis in [HOLD_MS, OPEN_MS] {
            engine.clock.advance(millis);
            engine.turn();
            assert_eq!(engine.expired(), 0, "the log is not settled");
        }
        engine.writer.settle_again_at = None;
        engine.settle_all();
        engine.rest_of_due();
        engine.settle_all();
        assert_ended_once(&engine, &cold, held);
    }
}

/// The rest of a large red packet returns to the sender.
#[test]
fn the_end_of_a_red_packet_reads_no_share() {
    const SHARES: u32 = 20_000;
    let mut engine = ManualEngine::new();
    engine.sweep_later();
    let packet = packet(1, 500_000, SHARES);
    let entered = engine.enter(packet.clone());
    assert_eq!(fresh(&engine.entered(entered)), Some(true));
    let mut claimed = engine.claim(&packet.setup, "ann");
    engine.turn();
    let amount = outcome(&mut claimed).grant().unwrap().amount_minor;
    engine.settle_all();
    engine.forget(&packet.setup);
    let before = rows_read();
    engine.clock.advance(OPEN_MS);
    engine.turn();
    engine.rest_of_due();
    assert_eq!((rows_read() - before, engine.whole()), (0, 0));
    assert_eq!(engine.sender_has(), FUNDS - amount);
    assert_eq!(
        engine.count("SELECT count(*) FROM campaigns WHERE phase = 'closed'"),
        1
    );
}

/// Entries that the ledger does not have yet may concern other campaigns, so the log is settled first. A settlement
/// that takes long delays no due time for long.
#[test]
fn a_due_campaign_waits_for_settlement_for_a_bounded_time() {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    engine.clock.advance(HOLD_MS);
    // Settlement fails for a while.
    engine.writer.settle_again_at = Some(Instant::now() + Duration::from_secs(3_600));
    let mut claimed = engine.claim(&hot, "ann");
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    assert_eq!((engine.writer.backlog(), engine.expired()), (1, 0));
    assert_eq!(engine.sent_for(), []);
    engine.writer.absent.by_rows.age_first(SETTLEMENT_WAIT_MAX);
    // Another turn, without sleep.
    drop(engine.claim(&hot, "bob"));
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    engine.push(engine.read(&cold));
    engine.turn();
    assert!(engine.has(&cold) && engine.expired() > 0);
}

#[test]
fn a_campaign_that_is_reloaded_for_a_claim_is_ticked_in_memory() {
    let mut engine = ManualEngine::unswept();
    let cold = engine.sale(1);
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    engine.writer.absent.asked.make_busy(cold.campaign.id);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    engine.clock.advance(HOLD_MS);
    drop(engine.tick());
    engine.turn();
    assert_eq!((engine.sent_for(), engine.expired()), (Vec::new(), 0));
    engine.push(engine.read(&cold));
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    assert!(engine.has(&cold) && engine.expired() > 0);
}

#[test]
fn a_tick_that_waits_at_the_end_is_refused() {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    engine.clock.advance(HOLD_MS);
    engine.writer.settle_again_at = Some(Instant::now() + Duration::from_secs(3_600));
    let _waits_for_settlement = engine.claim(&hot, "ann");
    engine.turn();
    let mut ticked = engine.tick();
    engine.turn();
    let ManualEngine { writer, .. } = engine;
    writer.end();
    assert_eq!(block_on(&mut ticked), Err(EngineError::Stopping));
}

/// The campaign is reloaded whole instead. Its entries stay in the log then, and settlement quarantines them.
#[test]
fn entries_that_the_ledger_refuses_stop_nothing() {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, 2);
    engine.forget(&cold);
    engine.writer.absent.large_rows = 0;
    let conn = rusqlite::Connection::open(&engine.writer.path).unwrap();
    let refuse =
        "CREATE TRIGGER refuses BEFORE UPDATE ON orders BEGIN SELECT RAISE(ABORT, 'no'); END";
    conn.execute_batch(refuse).unwrap();
    engine.clock.advance(HOLD_MS);
    engine.turn();
    assert_eq!((engine.expired(), engine.writer.backlog()), (0, 0));
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    // Entries of another campaign take the positions.
    let mut claimed = engine.claim(&hot, "ann");
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    engine.push(engine.read(&cold));
    engine.turn();
    assert!(engine.has(&cold));
    engine.settle_all();
    assert_eq!(engine.expired(), 2);
    assert_eq!(engine.count("SELECT count(*) FROM set_aside"), 2);
    engine.writer.count_quarantine_at = Some(Instant::now());
    engine.turn();
    conn.execute_batch("DROP TRIGGER refuses").unwrap();
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
}

/// Campaigns of which nothing has ended yet make no entries, but their rows take time.
#[test]
fn a_transaction_reads_a_bounded_number_of_rows() {
    const SALES: u64 = 8;
    let mut engine = ManualEngine::unswept();
    let sales: Vec<_> = (1..=SALES).map(|n| engine.sale(n)).collect();
    for sale in &sales {
        engine.sell(sale, EVENTS_MAX as u32);
        engine.forget(sale);
    }
    engine.writer.absent.large_rows = 0;
    let now = engine.clock.now();
    for sale in &sales {
        engine
            .writer
            .shared
            .book
            .write()
            .expect(now, sale.campaign.id);
    }
    let (mut most, mut turns) = (0, 0);
    loop {
        let before = rows_read();
        engine.turn();
        most = most.max(rows_read() - before);
        turns += 1;
        if engine.writer.absent.by_rows.is_empty() {
            break;
        }
    }
    assert!(most <= 3 * EVENTS_MAX as u64, "{most} rows in one turn");
    assert!(turns > 1);
}

/// An engine that evicts its sale before each due time makes the same entries as one that keeps it.
#[test]
fn an_evicted_campaign_has_the_entries_of_one_in_memory() {
    let mut from_rows = 0;
    for seed in 0..12 {
        let mut engines = [false, true].map(|evicts| {
            let mut engine = ManualEngine::open(tempfile::TempDir::new().unwrap());
            engine.sweep_later();
            engine.writer.absent.large_rows = 0;
            let setup = sale(40).limit(3).setup(1);
            let entered = engine.enter(creation(setup.clone(), None));
            engine.entered(entered).unwrap();
            (engine, setup, evicts)
        });
        for (engine, setup, evicts) in &mut engines {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            for step in 0..60 {
                match rng.random_range(0..9) {
                    0..4 => {
                        drop(engine.claim(setup, &format!("user-{}", rng.random_range(0..20))));
                    }
                    4 => engine.pay(setup, rng.random_range(1..30)),
                    5 => {
                        let order = Target::of(setup).order(rng.random_range(1..30));
                        let cancel = WriterTask::Command(
                            Command::Cancel { order, part: None },
                            PendingReply::new().0,
                        );
                        engine.push(cancel);
                    }
                    6 => {
                        let extend = Command::ExtendHold {
                            order: Target::of(setup).order(rng.random_range(1..30)),
                            extension_ms: rng.random_range(1..=HOLD_MS),
                        };
                        let extend = WriterTask::Command(extend, PendingReply::new().0);
                        engine.push(extend);
                    }
                    _ => {
                        let last = step > 55;
                        let millis = if last { OPEN_MS } else { HOLD_MS / 3 };
                        engine.clock.advance(rng.random_range(1..=millis));
                        continue;
                    }
                }
                engine.turn();
                engine.rest_of_due();
                engine.settle_all();
                if *evicts && engine.has(setup) {
                    engine.forget(setup);
                }
            }
            let expired = engine.expired();
            engine.clock.advance(2 * OPEN_MS);
            drop(engine.tick());
            engine.turn();
            engine.rest_of_due();
            engine.settle_all();
            if *evicts && !engine.has(setup) {
                from_rows += engine.expired() - expired;
            }
        }
        let [kept, evicted] = engines.map(|(engine, ..)| {
            let columns = "SELECT max(granted * 1000 + returned) FROM campaigns";
            (engine.entries(), engine.count(columns))
        });
        assert!(kept.0.iter().any(|entry| entry.contains(" 4 ")), "{kept:?}");
        assert_eq!(kept, evicted, "seed {seed}");
    }
    assert!(from_rows > 0);
}
