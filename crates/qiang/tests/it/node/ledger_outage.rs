//! Holds of orders on Redis while the ledger's database does not answer. Payments cannot be recorded, so holds are
//! paused.

use std::time::Duration;

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_api::config::Secret;
use qiang_core::{
    book::{Command, PaymentOutcome, Reply},
    id::{OrderId, PaymentRef},
    order::OrderState,
    payment::ReceivedMoney,
    ports::EngineError,
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::{
        postgres::{self, Postgres},
        redis::{Options, Standalone},
    },
};
use tokio::time::{Instant, sleep};

const HOLD: Duration = Duration::from_secs(10);
/// Grace after the hold, in which an unpaid order keeps its units.
const GRACE: Duration = HOLD;
/// Longer than hold and grace.
const OUTAGE: Duration = Duration::from_secs(24);
/// Maximum time for the node to reach its database again.
const BACK_MAX: Duration = Duration::from_secs(6);

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

async fn state(node: &Backend, order: OrderId) -> OrderState {
    let view = node.ports.engine.order(order).await.unwrap().unwrap();
    view.grant.order.unwrap().state
}

async fn pay(node: &Backend, order: OrderId) -> Result<PaymentOutcome, EngineError> {
    let payment = PaymentRef::new("p-1").unwrap();
    let pay = Command::Pay {
        order,
        payment,
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    match node.ports.engine.submit(pay).await? {
        Reply::Payment(outcome, _) => Ok(outcome),
        reply => panic!("{reply:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_stand_still_while_payments_cannot_be_recorded() {
    let postgres = blocking(|| Postgres::start(&postgres::Options::new().without_fsync()));
    let redis = blocking(|| Standalone::start(&Options::new()));
    qiang::migrate(&postgres.url()).await.unwrap();
    let mut config = NodeConfig::defaults().unwrap();
    config.engine.kind = EngineKind::Redis;
    config.redis.urls = redis.url();
    config.redis.partitions = 1;
    config.payments.grace_ms = u32::try_from(GRACE.as_millis()).unwrap();
    config.ledger.url = Secret::new(postgres.url());
    let node = Backend::open(&config).await.unwrap();
    let setup = sale(3)
        .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
        .admission(None)
        .hold_ms(i64::try_from(HOLD.as_millis()).unwrap())
        .setup(1);
    node.ports.ledger.create(&setup).await.unwrap();
    let target = Target::of(&setup);
    let opened = node.ports.engine.submit(Command::Open(Box::new(setup)));
    assert_eq!(opened.await, Ok(Reply::Opened));

    blocking(|| postgres.pause_all());
    // This order is held at the start of the outage. The node notices the outage two seconds later.
    let claimed = node.ports.engine.claim(target.one("ann")).await.unwrap();
    let order = claimed.outcome.grant().unwrap().order_id();
    sleep(OUTAGE).await;
    assert_eq!(
        state(&node, order).await,
        OrderState::Held,
        "during the outage"
    );
    blocking(|| postgres.resume_all());
    let until = Instant::now() + BACK_MAX;
    while node.ports.ledger.binding().await.is_err() {
        assert!(Instant::now() < until, "the database does not answer");
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(pay(&node, order).await, Ok(PaymentOutcome::Paid));

    // Without an outage the same hold ends.
    let claimed = node.ports.engine.claim(target.one("ben")).await.unwrap();
    let order = claimed.outcome.grant().unwrap().order_id();
    sleep(HOLD + GRACE).await;
    let until = Instant::now() + BACK_MAX;
    while state(&node, order).await == OrderState::Held {
        assert!(Instant::now() < until, "the hold does not end");
        sleep(Duration::from_millis(50)).await;
    }
    node.close().await.unwrap();
}
