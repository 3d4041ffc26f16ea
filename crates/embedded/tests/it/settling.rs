//! Work of the writer besides decisions: it settles with remembered campaigns, and expires due holds with each batch.

use std::{sync::Arc, time::Duration};

use qiang_core::{
    admission::AdmissionBound,
    book::{CampaignAction, Command},
    campaign::SaleSettingsChange,
    event::PartitionId,
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{
        CampaignRecord, CampaignStore as _, Engine as _, QuarantineCount, QuarantineStore as _,
        SettlementStore as _, WebhookStore as _,
    },
    webhook::{Filter, Webhook},
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPENS, Target, sale},
};
use tempfile::TempDir;
use uuid::Uuid;

const PARTITION: PartitionId = PartitionId(0);
const STOCK: u32 = 10;

struct Case {
    folder: TempDir,
    clock: Arc<ManualClock>,
    embedded: Embedded,
    target: Target,
}

impl Case {
    async fn new(sale: Builder) -> Self {
        let folder = TempDir::new().unwrap();
        let clock = ManualClock::new(OPENS);
        let path = folder.path().join("qiang.db");
        let embedded = Embedded::open(&path, Arc::clone(&clock) as _).unwrap();
        let setup = sale.setup(1);
        embedded.create(&setup).await.unwrap();
        let case = Self {
            folder,
            clock,
            embedded,
            target: Target::of(&setup),
        };
        case.submit(Command::Open(Box::new(setup))).await;
        case
    }

    /// Waits until everything is settled, so that the next entries are settled separately.
    async fn settled(&self) {
        let head = self.embedded.positions().0;
        let wait_max = Duration::from_secs(20);
        let reached = self.embedded.await_settled(PARTITION, head, wait_max).await;
        assert_eq!(reached, Ok(true), "{:?}", self.embedded.stuck());
    }

    async fn submit(&self, command: Command) {
        self.embedded.submit(command).await.unwrap();
        self.settled().await;
    }

    async fn claim(&self, name: &str) -> &'static str {
        let claimed = self.embedded.claim(self.target.one(name)).await.unwrap();
        self.settled().await;
        claimed.outcome.name()
    }

    async fn record(&self) -> CampaignRecord {
        let record = self.embedded.campaign(self.target.id).await.unwrap();
        record.unwrap()
    }
}

/// A close and the entries after it are settled separately: units returned then belong to the owner.
#[tokio::test(flavor = "multi_thread")]
async fn a_close_is_not_forgotten_by_what_is_settled_next() {
    let case = Case::new(sale(STOCK)).await;
    assert_eq!(case.claim("a").await, "granted");
    let (campaign, order) = (case.target.id, case.target.order(1));
    let payment = PaymentRef::new("payment").unwrap();
    let paid_at = None;
    case.submit(Command::Pay {
        order,
        payment,
        paid_at,
        received: ReceivedMoney::Price,
        cancelled: 0,
    })
    .await;
    let action = CampaignAction::Close;
    case.submit(Command::Act { campaign, action }).await;
    case.submit(Command::Return { order, part: None }).await;
    let record = case.record().await;
    let units = (record.granted, record.returned);
    assert_eq!(units, (0, u64::from(STOCK)));
    case.embedded.close();
}

/// A raised limit lets a user have a second order, and the ledger accepts it.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_terms_is_not_forgotten_by_what_is_settled_next() {
    let case = Case::new(sale(STOCK)).await;
    assert_eq!(case.claim("a").await, "granted");
    let change = SaleSettingsChange {
        per_user_limit: Some(2),
        ..SaleSettingsChange::default()
    };
    let campaign = case.target.id;
    case.submit(Command::SetTerms { campaign, change }).await;
    assert_eq!(case.claim("a").await, "granted");
    let count = case.embedded.count_quarantined(PARTITION).await;
    assert_eq!(count, Ok(QuarantineCount::default()));
    assert_eq!(case.record().await.granted, 2);
    case.embedded.close();
}

/// A live change of the admission bounds the batches that follow it: fewer users of a crowd are decided after a change
/// down, and all after a change to no bound.
#[tokio::test(flavor = "multi_thread")]
async fn changed_admission_bounds_the_next_batches() {
    const CROWD: usize = 2_000;
    let case = Case::new(sale(STOCK).admission(None)).await;
    let campaign = case.target.id;
    let mut decided = Vec::new();
    for (round, percent) in [0, 100, 0].into_iter().enumerate() {
        let change = SaleSettingsChange {
            admission: Some(AdmissionBound::from_percent(percent).unwrap()),
            ..SaleSettingsChange::default()
        };
        case.submit(Command::SetTerms { campaign, change }).await;
        let stock = u64::from(STOCK) * (round as u64 + 1);
        case.submit(Command::SetStock { campaign, stock }).await;
        let before = case.embedded.gate_answers().decided;
        let crowd = (0..CROWD).map(|n| case.target.one(&format!("r{round}u{n}")));
        let tickets: Vec<_> = crowd.map(|claim| case.embedded.claim(claim)).collect();
        let mut granted = 0;
        for ticket in tickets {
            let outcome = ticket.await.unwrap().outcome;
            granted += u32::from(outcome.name() == "granted");
        }
        assert_eq!(granted, STOCK, "round {round}");
        decided.push(case.embedded.gate_answers().decided - before);
    }
    let [all, few, all_again] = decided[..] else {
        panic!("{decided:?}");
    };
    assert!(few < all / 2 && few < all_again / 2, "{decided:?}");
    let bound = case.record().await.campaign.admission();
    assert_eq!(bound, None);
    case.embedded.close();
}

/// A webhook receives events after its creation, and none after its deletion.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_webhook_is_told_what_is_settled_next() {
    let case = Case::new(sale(STOCK)).await;
    assert_eq!(case.claim("a").await, "granted");
    let webhook = Webhook {
        id: Uuid::from_u128(1),
        url: "https://example.org/".to_owned(),
        secret: "whsec_c2VjcmV0".to_owned(),
        previous_secret: None,
        filter: Filter::default(),
        managed_by: None,
        created_at: OPENS,
    };
    assert_eq!(case.embedded.add_webhook(&webhook, None).await, Ok(true));
    assert_eq!(case.claim("b").await, "granted");
    let told = case.embedded.webhook_events(0, 100).await.unwrap().len();
    assert_eq!(told, 1);
    let deleted = case.embedded.delete_webhook(webhook.id, None).await;
    assert_eq!(deleted, Ok(true));
    assert_eq!(case.claim("c").await, "granted");
    let told = case.embedded.webhook_events(0, 100).await.unwrap().len();
    assert_eq!(told, 1);
    case.embedded.close();
}

/// The unit of an expired hold goes to the first claim, without waiting for the next tick.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_is_done_with_the_batch() {
    let case = Case::new(sale(1)).await;
    for n in 0..20 {
        assert_eq!(case.claim(&format!("u{n}")).await, "granted", "{n}");
        assert_eq!(case.claim(&format!("late-{n}")).await, "sold_out", "{n}");
        case.clock.advance(HOLD_MS);
    }
    case.embedded.close();
}

/// The writer waits for another process that changes rows by hand.
#[tokio::test(flavor = "multi_thread")]
async fn another_writer_of_the_file_is_waited_for() {
    let case = Case::new(sale(STOCK)).await;
    let other = rusqlite::Connection::open(case.folder.path().join("qiang.db")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let mending = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        other
            .execute_batch("UPDATE campaigns SET title = 'Mended'; COMMIT")
            .unwrap();
    });
    // It reads before it writes.
    case.embedded.create(&sale(STOCK).setup(2)).await.unwrap();
    mending.join().unwrap();
    assert_eq!(case.claim("a").await, "granted");
    case.embedded.close();
}
