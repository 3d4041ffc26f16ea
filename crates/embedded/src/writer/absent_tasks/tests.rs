//! Claims and commands for large evicted campaigns: the rows that are read, the answers, and the entries.

mod histories;

use qiang_core::{
    book::{CampaignAction, Command, Setup},
    campaign::AckLevel,
    id::{IdempotencyKey, PaymentRef},
    order::{OrderState, ReturnPart},
    payment::{PaymentOutcome, ReceivedMoney},
    ports::PendingReply,
};
use qiang_testkit::campaign::{OPEN_MS, Target, sale};

use super::*;
use crate::{
    recall::{ROWS_AT_ONCE, ROWS_READ},
    writer::manual_engine::{ManualEngine, block_on, creation, fresh, outcome},
};

const HOLD_MS: i64 = 60_000;
/// More orders than a small campaign has.
const ORDERS: u32 = ROWS_AT_ONCE as u32 + 4;

type Answer<T> = PendingReply<T>;

impl ManualEngine {
    fn open_new(&mut self, setup: &Setup) {
        let entered = self.enter(creation(setup.clone(), None));
        assert_eq!(fresh(&self.entered(entered)), Some(true));
    }

    fn ask(&self, claim: Claim) -> Answer<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.push(WriterTask::Claim(claim, answer));
        ticket
    }

    fn command(&self, command: Command) -> Answer<Reply> {
        let (answer, ticket) = PendingReply::new();
        self.push(WriterTask::Command(command, answer));
        ticket
    }

    /// Result of a command that is decided in one turn.
    fn done(&mut self, command: Command) -> Reply {
        let mut ticket = self.command(command);
        self.turn();
        assert_eq!(self.sent_for(), [], "it waits for no reload");
        block_on(&mut ticket).unwrap()
    }

    fn granted(&self) -> u32 {
        self.count("SELECT count(*) FROM events WHERE kind = 1")
    }

    /// Settlement fails until the test says otherwise, and one entry waits for it.
    fn fall_behind(&mut self, hot: &Setup) {
        self.writer.settle_again_at = Some(Instant::now() + Duration::from_secs(3_600));
        let mut claimed = self.claim(hot, "ahead");
        self.turn();
        assert!(outcome(&mut claimed).grant().is_some());
        assert_eq!(self.writer.backlog(), 1);
    }
}

/// An engine with an evicted sale of this many orders, and a sale in memory.
fn cold_and_hot(orders: u32) -> (ManualEngine, Setup, Setup) {
    let mut engine = ManualEngine::unswept();
    let (cold, hot) = (engine.sale(1), engine.sale(2));
    engine.sell(&cold, orders);
    engine.forget(&cold);
    (engine, cold, hot)
}

fn pay(order: qiang_core::id::OrderId) -> Command {
    Command::Pay {
        order,
        payment: PaymentRef::new("p-1").unwrap(),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    }
}

/// Claims, a payment, a return, a cancellation, an extended hold and a pause of an evicted sale, and the rows that they
/// read.
fn rows_for(orders: u32) -> u64 {
    let (mut engine, cold, _) = cold_and_hot(orders);
    let target = Target::of(&cold);
    let before = ROWS_READ.with(std::cell::Cell::get);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    let claimed = block_on(&mut claimed).unwrap();
    assert_eq!(claimed.ack, AckLevel::Fsync);
    assert_eq!(claimed.outcome.grant().unwrap().number, orders + 1);
    assert_eq!(engine.writer.backlog(), 0, "it is settled in its commit");
    let mut again = engine.claim(&cold, "user-3");
    engine.turn();
    let again = outcome(&mut again);
    assert!(
        matches!(again, Outcome::AlreadyGranted(grant) if grant.number == 4),
        "{again:?}"
    );
    let Reply::Payment(paid, view) = engine.done(pay(target.order(5))) else {
        panic!("no payment")
    };
    assert_eq!((paid, view.user.as_str()), (PaymentOutcome::Paid, "user-4"));
    let order = target.order(5);
    let returned = engine.done(Command::Return { order, part: None });
    assert!(matches!(returned, Reply::Returned(view)
        if view.grant.order.unwrap().state == OrderState::Returned));
    let order = target.order(6);
    let cancelled = engine.done(Command::Cancel { order, part: None });
    assert!(matches!(cancelled, Reply::Cancelled(view)
        if view.grant.order.unwrap().state == OrderState::Cancelled));
    let extended = engine.done(Command::ExtendHold {
        order: target.order(7),
        extension_ms: 1_000,
    });
    assert!(matches!(extended, Reply::HoldExtended(_)));
    let campaign = cold.campaign.id;
    let action = CampaignAction::Pause;
    let Reply::Acted(tally) = engine.done(Command::Act { campaign, action }) else {
        panic!("not paused")
    };
    // The returned and the cancelled order are restocked.
    assert_eq!(
        (tally.grants, tally.granted),
        (orders + 1, u64::from(orders - 1))
    );
    let mut paused = engine.claim(&cold, "later");
    engine.turn();
    assert_eq!(outcome(&mut paused), Outcome::Paused);
    assert_eq!(engine.sent_for(), []);
    assert_eq!((engine.whole(), engine.has(&cold)), (0, false));
    ROWS_READ.with(std::cell::Cell::get) - before
}

#[test]
fn a_request_reads_no_other_order() {
    let [rows, of_twice] = [ORDERS, 2 * ORDERS].map(rows_for);
    assert_eq!(rows, of_twice);
    assert!(rows <= 20, "{rows} rows for eight requests");
}

/// Many claims at once, and then the end of their holds and of the earlier ones, without a reload. The payments of the
/// oldest orders share a transaction, and leave the due times of the other orders.
#[test]
fn what_is_granted_from_rows_expires() {
    let (mut engine, cold, _) = cold_and_hot(ORDERS);
    engine.clock.advance(HOLD_MS / 2);
    // The last order is younger than the others.
    let mut youngest = engine.claim(&cold, "youngest");
    engine.turn();
    assert!(outcome(&mut youngest).grant().is_some());
    let target = Target::of(&cold);
    let mut paid = [2, 1].map(|number| engine.command(pay(target.order(number))));
    engine.turn();
    for paid in &mut paid {
        assert!(block_on(paid).is_ok());
    }
    let mut claims: Vec<_> = (0..100)
        .map(|n| engine.claim(&cold, &format!("late-{n}")))
        .collect();
    while !engine.writer.absent.asked.is_empty() || engine.granted() < ORDERS + 101 {
        engine.turn();
    }
    let numbers: Vec<_> = claims
        .iter_mut()
        .map(|it| outcome(it).grant().unwrap().number)
        .collect();
    assert_eq!(numbers, (ORDERS + 2..=ORDERS + 101).collect::<Vec<_>>());
    for expired in [ORDERS - 2, ORDERS + 99] {
        engine.clock.advance(HOLD_MS / 2);
        engine.rest_of_due();
        assert_eq!(engine.expired(), expired);
    }
    assert_eq!((engine.sent_for(), engine.whole()), (Vec::new(), 0));
}

/// Retries find the parts of an order, and a clock that was set back gives no date before that of the last order.
#[test]
fn parts_and_dates_are_those_of_the_whole_sale() {
    let mut engine = ManualEngine::unswept();
    engine.writer.absent.large_rows = 0;
    let setup = sale(100).limit(9).hold_ms(HOLD_MS).setup(1);
    engine.open_new(&setup);
    let target = Target::of(&setup);
    engine.clock.advance(5_000);
    for name in ["ann", "bob"] {
        let mut claimed = engine.ask(target.units(name, 5));
        engine.turn();
        assert!(outcome(&mut claimed).grant().is_some());
    }
    engine.settle_all();
    engine.forget(&setup);
    let part = |quantity| {
        let key = IdempotencyKey::new("once").unwrap();
        Some(ReturnPart { quantity, key })
    };
    let (order, other) = (target.order(1), target.order(2));
    for _ in 0..2 {
        let part = part(2);
        let Reply::Cancelled(view) = engine.done(Command::Cancel { order, part }) else {
            panic!("not cancelled")
        };
        assert_eq!(view.grant.quantity, 3);
    }
    engine.done(pay(other));
    for _ in 0..2 {
        let part = part(2);
        let Reply::Returned(view) = engine.done(Command::Return { order: other, part }) else {
            panic!("not returned")
        };
        assert_eq!(view.grant.order.unwrap().returned_quantity, 2);
    }
    let part = part(3);
    let mut reused = engine.command(Command::Return { order: other, part });
    engine.turn();
    assert_eq!(block_on(&mut reused), Err(Refusal::KeyReused.into()));
    let last = engine.writer.clock.now();
    engine.clock.advance(-1_000);
    let mut claimed = engine.ask(target.one("carl"));
    engine.turn();
    assert_eq!(outcome(&mut claimed).grant().unwrap().granted_at, last);
    assert_eq!((engine.sent_for(), engine.whole()), (Vec::new(), 0));
}

/// The window of a sale ends before its holds do, so the end of the window is its only noted due time. A close leaves
/// it, also if the last order is paid in the same transaction.
#[test]
fn a_close_leaves_the_due_times_of_held_orders() {
    let mut engine = ManualEngine::unswept();
    let cold = engine.sale(1);
    engine.clock.advance(OPEN_MS - HOLD_MS / 2);
    engine.sell(&cold, ORDERS);
    engine.forget(&cold);
    let (campaign, target) = (cold.campaign.id, Target::of(&cold));
    let action = CampaignAction::Close;
    let mut done = [
        engine.command(pay(target.order(ORDERS))),
        engine.command(Command::Act { campaign, action }),
    ];
    engine.turn();
    for done in &mut done {
        assert!(block_on(done).is_ok());
    }
    engine.clock.advance(HOLD_MS);
    engine.rest_of_due();
    assert_eq!(engine.expired(), ORDERS - 1);
    assert_eq!((engine.sent_for(), engine.whole()), (Vec::new(), 0));
}

#[test]
fn a_task_waits_for_settlement_for_a_bounded_time() {
    let (mut engine, cold, hot) = cold_and_hot(ORDERS);
    engine.fall_behind(&hot);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    assert_eq!(engine.sent_for(), []);
    engine.writer.absent.asked.age_first(SETTLEMENT_WAIT_MAX);
    drop(engine.claim(&hot, "bob"));
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    // A later task waits for the same reload.
    let mut later = engine.claim(&cold, "later");
    engine.turn();
    assert_eq!(engine.sent_for(), []);
    engine.push(engine.read(&cold));
    engine.turn();
    let numbers = [&mut claimed, &mut later].map(|it| outcome(it).grant().unwrap().number);
    assert_eq!(numbers, [ORDERS + 1, ORDERS + 2]);
    assert!(engine.has(&cold));
}

/// The campaign is reloaded whole, and its tasks are decided in memory.
#[test]
fn entries_that_the_ledger_refuses_are_made_in_memory() {
    let (mut engine, cold, _) = cold_and_hot(ORDERS);
    let conn = rusqlite::Connection::open(&engine.writer.path).unwrap();
    let refuse =
        "CREATE TRIGGER refuses BEFORE INSERT ON orders BEGIN SELECT RAISE(ABORT, 'no'); END";
    conn.execute_batch(refuse).unwrap();
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    assert_eq!((engine.granted(), engine.writer.backlog()), (ORDERS, 0));
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    conn.execute_batch("DROP TRIGGER refuses").unwrap();
    engine.push(engine.read(&cold));
    engine.turn();
    assert_eq!(outcome(&mut claimed).grant().unwrap().number, ORDERS + 1);
}

#[test]
fn a_campaign_with_many_tasks_is_reloaded() {
    let (mut engine, cold, hot) = cold_and_hot(ORDERS);
    engine.fall_behind(&hot);
    let tasks = WAITING_MAX as u32 + 1;
    let mut claims: Vec<_> = (0..tasks)
        .map(|n| engine.claim(&cold, &format!("late-{n}")))
        .collect();
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    assert!(engine.writer.absent.asked.is_empty());
    engine.push(engine.read(&cold));
    engine.turn();
    let numbers: Vec<_> = claims
        .iter_mut()
        .map(|it| outcome(it).grant().unwrap().number)
        .collect();
    assert_eq!(numbers, (ORDERS + 1..=ORDERS + tasks).collect::<Vec<_>>());
}

/// A queue may send more ordered claims than a transaction takes.
#[test]
fn a_long_list_of_claims_waits_for_its_campaign() {
    let (mut engine, cold, _) = cold_and_hot(ORDERS);
    let target = Target::of(&cold);
    let mut earlier = engine.claim(&cold, "earlier");
    let (mut claims, mut tickets) = (Vec::new(), Vec::new());
    for n in 0..=CLAIMS_MAX {
        let (answer, ticket) = PendingReply::new();
        claims.push((target.one(&format!("late-{n}")), answer));
        tickets.push(ticket);
    }
    engine.push(WriterTask::Claims(claims));
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    engine.push(engine.read(&cold));
    engine.turn();
    // The claim before the list keeps its place.
    assert_eq!(outcome(&mut earlier).grant().unwrap().number, ORDERS + 1);
    let last = outcome(tickets.last_mut().unwrap());
    assert_eq!(last.grant().unwrap().number, ORDERS + 2 + CLAIMS_MAX as u32);
}

/// A buyer with many orders is not read on the writer, and tasks after such a claim keep their order.
#[test]
fn a_user_with_many_orders_waits_for_the_campaign() {
    let mut engine = ManualEngine::unswept();
    let setup = sale(100_000).limit(2_000).hold_ms(HOLD_MS).setup(1);
    engine.open_new(&setup);
    let target = Target::of(&setup);
    let orders = 1_025;
    for n in 0..orders {
        drop(engine.ask(target.keyed("many", 1, &format!("key-{n}"))));
    }
    engine.turn();
    engine.settle_all();
    engine.forget(&setup);
    engine.writer.absent.large_rows = 0;
    let mut claimed = engine.ask(target.keyed("many", 1, "one-more"));
    let mut later = engine.ask(target.one("later"));
    engine.turn();
    assert_eq!(engine.sent_for(), [setup.campaign.id]);
    engine.push(engine.read(&setup));
    engine.turn();
    let numbers = [&mut claimed, &mut later].map(|it| outcome(it).grant().unwrap().number);
    assert_eq!(numbers, [orders + 1, orders + 2]);
}

#[test]
fn a_campaign_that_is_asked_again_and_again_is_reloaded() {
    let (mut engine, cold, _) = cold_and_hot(ORDERS);
    engine.writer.absent.asked.make_busy(cold.campaign.id);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    assert_eq!(engine.sent_for(), [cold.campaign.id]);
    engine.push(engine.read(&cold));
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    // Its count begins anew.
    while engine.writer.backlog() > 0 {
        engine.turn();
    }
    engine.forget(&cold);
    let mut claimed = engine.claim(&cold, "later");
    engine.turn();
    assert!(outcome(&mut claimed).grant().is_some());
    assert_eq!(engine.sent_for(), []);
}

/// Claims of a queue are decided in their order, and all wait while the campaign is paused.
#[test]
fn ordered_claims_keep_their_order() {
    let (mut engine, cold, _) = cold_and_hot(ORDERS);
    let (campaign, target) = (cold.campaign.id, Target::of(&cold));
    let act = |engine: &mut ManualEngine, action| {
        engine.done(Command::Act { campaign, action });
    };
    act(&mut engine, CampaignAction::Pause);
    let ordered = |engine: &mut ManualEngine| {
        let (mut claims, mut tickets) = (Vec::new(), Vec::new());
        for name in ["a", "b", "c"] {
            let (answer, ticket) = PendingReply::new();
            claims.push((target.one(name), answer));
            tickets.push(ticket);
        }
        engine.push(WriterTask::Claims(claims));
        engine.turn();
        tickets.iter_mut().map(outcome).collect::<Vec<_>>()
    };
    assert_eq!(ordered(&mut engine), [Outcome::Paused; 3]);
    act(&mut engine, CampaignAction::Resume);
    let granted = ordered(&mut engine);
    let numbers: Vec<_> = granted
        .iter()
        .map(|it| it.grant().unwrap().number)
        .collect();
    assert_eq!(numbers, [ORDERS + 1, ORDERS + 2, ORDERS + 3]);
    assert_eq!(engine.sent_for(), []);
}

/// Tasks that wait for settlement when the engine closes are decided before it ends.
#[test]
fn tasks_that_wait_at_the_close_are_decided() {
    let (mut engine, cold, hot) = cold_and_hot(ORDERS);
    engine.fall_behind(&hot);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    engine.writer.settle_again_at = None;
    engine.writer.shared.queue.close();
    while engine.writer.turn(&mut Vec::new(), &mut Vec::new()) {}
    assert!(outcome(&mut claimed).grant().is_some());
}

/// Tasks that can no longer wait when the engine closes are decided too.
#[test]
fn tasks_whose_campaign_is_reloaded_at_the_close_are_decided() {
    let (mut engine, cold, hot) = cold_and_hot(ORDERS);
    engine.fall_behind(&hot);
    let mut claimed = engine.claim(&cold, "late");
    engine.turn();
    engine.writer.shared.recalls.close();
    engine.writer.shared.queue.close();
    engine.writer.absent.asked.age_first(SETTLEMENT_WAIT_MAX);
    while engine.writer.turn(&mut Vec::new(), &mut Vec::new()) {}
    assert!(outcome(&mut claimed).grant().is_some());
    assert_eq!(engine.whole(), 1);
}
