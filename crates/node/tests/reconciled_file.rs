//! The embedded engine's book is held against the tables of its file while users claim: what is planted is counted,
//! each kind by its name, and nothing else is.
#![allow(
    clippy::unwrap_used,
    missing_docs,
    reason = "a test's panic is its report"
)]

use std::{path::PathBuf, sync::Arc, time::Duration};

use qiang_control::{
    host::Reconciler as _,
    reconcile::{ReconcileMonitor, ReconcileOptions, Reconciliation},
};
use qiang_core::{
    book::Command,
    event::PartitionId,
    id::PaymentRef,
    ports::{CampaignStore as _, Engine as _, EventLog as _, SettlementStore as _},
    reconcile::DifferenceKind,
    split::SplitRule,
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target, red_packet, sale},
};

const PARTITION: PartitionId = PartitionId(0);
const WAIT_MAX: Duration = Duration::from_secs(30);
/// Few, so that a walk takes many steps.
const OPTIONS: ReconcileOptions = ReconcileOptions {
    interval: Duration::from_millis(1),
    rows_max: 7,
};

struct World {
    path: PathBuf,
    clock: Arc<ManualClock>,
    embedded: Embedded,
    _folder: tempfile::TempDir,
}

impl World {
    fn start() -> Self {
        let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new(OPENS));
        let path = folder.path().join("qiang.db");
        Self {
            embedded: Embedded::open(&path, clock.clone()).unwrap(),
            path,
            clock,
            _folder: folder,
        }
    }

    /// A campaign with so many grants.
    async fn campaign(&self, builder: Builder, n: u64, grants: usize) -> Target {
        let setup = builder.setup(n);
        let target = Target::of(&setup);
        let funded = setup.campaign.funded_minor();
        if funded > 0 {
            let amount = qiang_core::money::Money::new(funded, setup.campaign.currency());
            let (id, owner) = (target.id.uuid(), setup.campaign.owner.clone());
            qiang_core::ports::AccountStore::deposit(&self.embedded, id, &owner, amount)
                .await
                .unwrap();
        }
        self.embedded.create(&setup).await.unwrap();
        let open = Command::Open(Box::new(setup));
        self.embedded.submit(open).await.unwrap();
        for user in 0..grants {
            let claimed = self.embedded.claim(target.one(&format!("u{user}"))).await;
            assert_eq!(claimed.unwrap().outcome.name(), "granted");
        }
        target
    }

    async fn settle(&self) {
        let head = self.embedded.head(PARTITION).await.unwrap();
        let settled = self.embedded.await_settled(PARTITION, head, WAIT_MAX);
        assert_eq!(settled.await, Ok(true));
    }

    /// Goes through everything, and returns how much differs, by kind.
    async fn pass(&self) -> Vec<(DifferenceKind, u64)> {
        let monitor = Arc::<ReconcileMonitor>::default();
        let engine = Arc::new(self.embedded.clone());
        let (ledger, clock) = (engine.clone(), self.clock.clone());
        let findings = Arc::clone(&monitor);
        let mut walk = Reconciliation::new(engine, ledger, clock, OPTIONS, findings);
        for _ in 0..10_000 {
            walk.reconcile().await.unwrap();
            if let [found] = &monitor.findings()[..]
                && found.passed_at.is_some()
            {
                let mut counts = found.differences.clone();
                counts.retain(|(_, count)| *count > 0);
                return counts;
            }
        }
        panic!("the walk does not end");
    }

    fn edit(&self, sql: &str) {
        let conn = rusqlite::Connection::open(&self.path).unwrap();
        conn.busy_timeout(WAIT_MAX).unwrap();
        assert_eq!(conn.execute(sql, []).unwrap(), 1, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_planted_in_a_file_is_counted_and_nothing_else() {
    let world = World::start();
    let shop = world.campaign(sale(1_000), 1, 30).await;
    world
        .campaign(
            red_packet(1_000, 20, SplitRule::DoubleAverage { min: 1 }),
            2,
            12,
        )
        .await;
    let lazy = red_packet(1_000, 20, SplitRule::Lazy { min: 1 });
    world.campaign(lazy, 3, 5).await;
    let (order, payment) = (shop.order(1), PaymentRef::new("p").unwrap());
    let steps = [
        Command::Pay { order, payment },
        Command::Return { order },
        Command::Cancel {
            order: shop.order(2),
        },
    ];
    for step in steps {
        world.embedded.submit(step).await.unwrap();
    }
    world.settle().await;
    assert_eq!(world.pass().await, []);

    // Claims that are decided and settled meanwhile are no difference.
    let claiming = {
        let embedded = world.embedded.clone();
        tokio::spawn(async move {
            for n in 0..500 {
                let claim = shop.one(&format!("late{n}"));
                assert!(embedded.claim(claim).await.is_ok());
            }
        })
    };
    for _ in 0..5 {
        assert_eq!(world.pass().await, []);
    }
    claiming.await.unwrap();
    world.settle().await;

    let of_sale = "campaign = (SELECT ref FROM campaigns WHERE kind = 'sale')";
    for what in [
        "DELETE FROM orders WHERE number = 3 AND",
        "UPDATE orders SET amount = amount + 1 WHERE number = 4 AND",
        "UPDATE orders SET user = 'thief' WHERE number = 5 AND",
        "UPDATE orders SET state = 'cancelled' WHERE number = 500 AND",
    ] {
        world.edit(&format!("{what} {of_sale}"));
    }
    world.edit(
        "UPDATE shares SET user = 'thief', granted_at = 1 WHERE number = 20 AND campaign = \
         (SELECT min(ref) FROM campaigns WHERE kind = 'red_packet')",
    );
    let planted = DifferenceKind::FAULTS.map(|kind| (kind, 1));
    assert_eq!(world.pass().await, planted);
    world.embedded.close();
}
