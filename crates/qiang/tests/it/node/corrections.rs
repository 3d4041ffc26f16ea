//! Repairs of campaign facts during other changes. No other change is overwritten, and the result names the applied
//! changes.

use std::{collections::BTreeMap, sync::OnceLock};

use qiang::{
    Backend, Operator, SystemClock,
    config::{EngineKind, NodeConfig},
    maintenance::{CampaignRepair, Maintenance, RepairOutcome},
};
use qiang_api::config::Secret;
use qiang_core::{
    book::{Command, Reply},
    campaign::SaleSettingsChange,
    event::PartitionId,
    id::UserId,
    ports::{Action, ActionKind, Restatement},
    reconcile::{CampaignFacts, CampaignRefusal, CampaignSource, ComparedCampaign},
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Target, sale},
    servers::{
        postgres::{self, Postgres},
        redis::{Options, Standalone},
    },
};
use qiang_worker::settlement::settle_once;
use tokio::time::{Duration, Instant, sleep};

const PARTITION: PartitionId = PartitionId(0);
const STOCK: u32 = 100;
const PRICE: i64 = 500;
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The operator. It starts the log, which a process may do only once.
pub(crate) fn operator() -> &'static Operator {
    static OPERATOR: OnceLock<Operator> = OnceLock::new();
    OPERATOR.get_or_init(|| {
        let config = NodeConfig::defaults().unwrap();
        Operator::new(UserId::new("ann").unwrap(), &config).unwrap()
    })
}

struct Case {
    _servers: (Standalone, Postgres),
    node: Backend,
    maintenance: Maintenance,
    target: Target,
}

fn blocking<T>(work: impl FnOnce() -> T) -> T {
    tokio::task::block_in_place(work)
}

impl Case {
    /// A node with a settled sale and a row that was changed by SQL.
    async fn new(change: impl FnOnce(&mut CampaignFacts)) -> Self {
        let redis = blocking(|| Standalone::start(&Options::new()));
        let postgres = blocking(|| Postgres::start(&postgres::Options::new().without_fsync()));
        qiang::migrate(&postgres.url()).await.unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.engine.kind = EngineKind::Redis;
        config.redis.urls = redis.url();
        config.redis.partitions = 1;
        config.ledger.url = Secret::new(postgres.url());
        // The tests settle the log.
        config.settlement.in_process = false;
        let node = Backend::open(&config).await.unwrap();
        let setup = sale(STOCK)
            .price(PRICE)
            .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
            .setup(1);
        node.ports.ledger.create(&setup).await.unwrap();
        let target = Target::of(&setup);
        let opened = node.ports.engine.submit(Command::Open(Box::new(setup)));
        assert_eq!(opened.await, Ok(Reply::Opened));
        let maintenance = Maintenance::open(&config, std::sync::Arc::new(SystemClock));
        let case = Self {
            _servers: (redis, postgres),
            maintenance: maintenance.await.unwrap(),
            node,
            target,
        };
        case.settle().await;
        let seen = case.row().await;
        let mut becomes = seen;
        change(&mut becomes);
        let restatement = Restatement {
            campaign: target.id,
            partition: PARTITION,
            settled: (0, u64::from(u32::MAX)),
            seen,
            becomes,
            action: Action {
                id: uuid::Uuid::from_u128(1),
                at: Timestamp::from_millis(1_700_000_000_000),
                actor: UserId::new("sql").unwrap(),
                kind: ActionKind::Change,
                subject: target.id.to_string(),
                request_id: String::new(),
                detail: "{}".to_owned(),
            },
        };
        let restated = case.node.ports.ledger.restate(&restatement).await;
        assert_eq!(restated, Ok(true));
        case
    }

    async fn settle(&self) {
        let ports = &self.node.ports;
        loop {
            let step = settle_once(&*ports.log, &*ports.ledger, PARTITION, 100).await;
            if step.unwrap().entries == 0 {
                break;
            }
        }
    }

    async fn row(&self) -> CampaignFacts {
        let record = self.node.ports.ledger.campaign(self.target.id).await;
        record.unwrap().unwrap().facts()
    }

    /// The only campaign that differs.
    async fn compared(&self) -> ComparedCampaign {
        let found = self.maintenance.compare_campaigns(PARTITION, None).await;
        let mut found = found.unwrap();
        assert_eq!(found.differing.len(), 1, "{found:?}");
        found.differing.remove(0).compared
    }

    /// Submits another operator's command. Its answer waits for settlement, but this waits only for the engine.
    async fn other(&self, command: Command) {
        let campaign = self.target.id;
        let before = self.node.ports.engine.tally(campaign).await.unwrap();
        drop(self.node.ports.engine.submit(command));
        let until = Instant::now() + WAIT_MAX;
        while self.node.ports.engine.tally(campaign).await.unwrap() == before {
            assert!(Instant::now() < until, "the other change is not made");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn other_stock(&self, stock: u64) {
        let campaign = self.target.id;
        self.other(Command::SetStock { campaign, stock }).await;
    }

    async fn repair(&self, compared: &ComparedCampaign) -> CampaignRepair {
        let source = CampaignSource::Ledger;
        let repair = self
            .maintenance
            .repair_campaign(compared, source, operator());
        repair.await
    }

    async fn engine(&self) -> (u64, i64) {
        let tally = self.node.ports.engine.tally(self.target.id).await.unwrap();
        let tally = tally.unwrap();
        (tally.supply, tally.terms.unwrap().unit_price_minor)
    }

    async fn close(self) {
        self.maintenance.close().await.unwrap();
        self.node.close().await.unwrap();
    }
}

fn stock_150(row: &mut CampaignFacts) {
    row.supply = Some(150);
}

fn is_changed(repair: &CampaignRepair) -> bool {
    matches!(
        repair.outcome,
        RepairOutcome::Refused(CampaignRefusal::Changed)
    )
}

/// Another operator changes the stock after the comparison. The engine refuses the repair, and the row keeps the value
/// that SQL set, so that it is found again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_since_the_comparison_is_not_overwritten() {
    let case = Case::new(stock_150).await;
    let compared = case.compared().await;
    case.other_stock(120).await;
    let repair = case.repair(&compared).await;
    assert!(is_changed(&repair), "{repair:?}");
    assert_eq!((repair.applied.len(), repair.is_overwritten), (0, false));
    assert_eq!(case.engine().await, (120, PRICE));
    assert_eq!(case.row().await.supply, Some(150));
    // Settlement adds the other change to the row. The row differs from the comparison, so the repair is refused again.
    case.settle().await;
    let repair = case.repair(&compared).await;
    assert!(is_changed(&repair), "{repair:?}");
    assert_eq!(case.engine().await, (120, PRICE));
    assert_eq!(case.row().await.supply, Some(170));
    case.close().await;
}

/// Two operators repair at the same time. One repairs, and the other finds that both sides agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_second_of_two_repairs_finds_both_sides_agreed() {
    let case = Case::new(stock_150).await;
    let compared = case.compared().await;
    let first = case.repair(&compared).await;
    assert!(
        matches!(first.outcome, RepairOutcome::Repaired),
        "{first:?}"
    );
    assert_eq!(first.applied, ["stock 150"]);
    let second = case.repair(&compared).await;
    assert!(
        matches!(second.outcome, RepairOutcome::Agreed),
        "{second:?}"
    );
    assert_eq!(second.applied.len(), 0);
    assert_eq!(case.engine().await, (150, PRICE));
    // The ledger shows the stock only after settlement.
    let entries = BTreeMap::from([first.settled_with.unwrap()]);
    let pending = case.maintenance.pending_settlement(&entries).await.unwrap();
    assert_eq!(pending.len(), 1);
    assert_eq!(case.row().await.supply, Some(u64::from(STOCK)));
    case.settle().await;
    let pending = case.maintenance.pending_settlement(&entries).await.unwrap();
    assert_eq!(pending.len(), 0);
    assert_eq!(case.row().await.supply, Some(150));
    case.close().await;
}

/// The first command is carried out, and the second is refused. The result names the first. The row keeps the terms of
/// the granted orders, because the other operator's change is not settled yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_applied_before_a_refusal_is_named() {
    let change = |row: &mut CampaignFacts| {
        row.supply = Some(150);
        row.unit_price_minor = Some(7);
    };
    let case = Case::new(change).await;
    let compared = case.compared().await;
    let change = SaleSettingsChange {
        unit_price_minor: Some(600),
        ..SaleSettingsChange::default()
    };
    let campaign = case.target.id;
    case.other(Command::SetTerms { campaign, change }).await;
    let repair = case.repair(&compared).await;
    assert!(is_changed(&repair), "{repair:?}");
    assert_eq!(repair.applied, ["stock 150"]);
    assert!(repair.is_overwritten);
    assert_eq!(case.engine().await, (150, 600));
    let row = case.row().await;
    let expected = (Some(u64::from(STOCK)), Some(PRICE));
    assert_eq!((row.supply, row.unit_price_minor), expected);
    case.settle().await;
    let row = case.row().await;
    assert_eq!((row.supply, row.unit_price_minor), (Some(150), Some(600)));
    case.close().await;
}
