//! Ids given by a restored file: no order id and no event id that was published before the restore names another
//! object.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use qiang_core::{
    book::{Command, PaymentOutcome, Reply, Setup},
    event::PartitionId,
    id::PaymentRef,
    order::OrderState,
    payment::ReceivedMoney,
    ports::{CampaignStore as _, Engine as _, SettlementStore as _, WebhookStore as _},
    webhook::{Filter, Webhook},
};
use qiang_embedded::{
    Embedded, EmbeddedOptions,
    copies::{Restore, back_up, restore},
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, sale},
};
use uuid::Uuid;

const PARTITION: PartitionId = PartitionId(0);
const STOCK: u32 = 1_000;
const HOLD_MS: i64 = 60_000;
const SETTLED_MAX: Duration = Duration::from_secs(20);

/// Published ids of orders and events with their objects.
#[derive(Default)]
struct Told {
    orders: BTreeMap<u32, String>,
    events: BTreeMap<String, String>,
}

impl Told {
    /// Records a grant. Returns true if its number named another user's order before.
    fn order(&mut self, number: u32, user: &str) -> bool {
        let before = self.orders.insert(number, user.to_owned());
        before.is_some_and(|before| before != user)
    }
}

struct Scene {
    folder: tempfile::TempDir,
    clock: Arc<ManualClock>,
    setup: Setup,
    small_campaign_max: u64,
}

impl Scene {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Opens an engine that evicts every campaign as soon as it may.
    fn open(&self, path: &Path) -> Embedded {
        let options = EmbeddedOptions {
            idle_campaign_ttl: Duration::ZERO,
            small_campaign_max: self.small_campaign_max,
            ..EmbeddedOptions::default()
        };
        Embedded::open_with(path, self.clock.clone(), options).unwrap()
    }

    fn target(&self) -> Target {
        Target::of(&self.setup)
    }

    /// Claims for the users of a group, one after the other. Returns the numbers of their orders.
    async fn claim(&self, engine: &Embedded, group: &str, count: u32, told: &mut Told) -> Vec<u32> {
        let mut numbers = Vec::new();
        for n in 0..count {
            let user = format!("{group}-{n}");
            let outcome = engine
                .claim(self.target().one(&user))
                .await
                .unwrap()
                .outcome;
            let number = outcome.grant().unwrap().number;
            assert!(
                !told.order(number, &user),
                "order {number} was another's: {:?}",
                told.orders
            );
            numbers.push(number);
        }
        let head = engine.positions().0;
        assert_eq!(
            engine.await_settled(PARTITION, head, SETTLED_MAX).await,
            Ok(true)
        );
        for event in engine.webhook_events(0, 1_000).await.unwrap() {
            let data = event.data.unwrap();
            let said = format!(
                "{:?} {:?} {:?} {:?}",
                event.kind, data.number, data.user, event.at
            );
            let before = told.events.insert(event.id.clone(), said.clone());
            assert!(
                before.is_none_or(|before| before == said),
                "{} was said of {said}",
                event.id
            );
        }
        numbers
    }
}

/// Sizes of campaigns that are reloaded: all, or none, so that requests are decided from rows.
const RELOADED: [u64; 2] = [u64::MAX, 0];

async fn scene(opened: bool, small_campaign_max: u64) -> (Scene, Embedded) {
    let scene = Scene {
        folder: tempfile::tempdir().unwrap(),
        clock: ManualClock::new(OPENS),
        setup: sale(STOCK).hold_ms(HOLD_MS).setup(1),
        small_campaign_max,
    };
    let engine = scene.open(&scene.path("qiang.db"));
    let webhook = Webhook {
        id: Uuid::from_u128(1),
        url: "https://example.org/".to_owned(),
        secret: "whsec_c2VjcmV0".to_owned(),
        previous_secret: None,
        filter: Filter::default(),
        managed_by: None,
        created_at: OPENS,
    };
    assert_eq!(engine.add_webhook(&webhook, None).await, Ok(true));
    engine.create(&scene.setup).await.unwrap();
    if opened {
        open_sale(&scene, &engine).await;
    }
    (scene, engine)
}

async fn open_sale(scene: &Scene, engine: &Embedded) {
    let open = Command::Open(Box::new(scene.setup.clone()));
    engine.submit(open).await.unwrap();
}

/// One backup is restored to its old path and to two others, as after the loss of a disk or for a trial. No restored
/// file reuses an id that another one has given.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_file_gives_no_id_again() {
    for small_campaign_max in RELOADED {
        no_restored_file_gives_an_id_again(small_campaign_max).await;
    }
}

async fn no_restored_file_gives_an_id_again(small_campaign_max: u64) {
    let (scene, engine) = scene(true, small_campaign_max).await;
    let path = scene.path("qiang.db");
    let mut told = Told::default();
    assert_eq!(scene.claim(&engine, "first", 3, &mut told).await, [1, 2, 3]);
    back_up(&path, &scene.path("b.db")).unwrap();
    assert_eq!(scene.claim(&engine, "lost", 3, &mut told).await, [4, 5, 6]);
    engine.close();
    drop(engine);
    let replace = Restore {
        replace: true,
        as_it_is: false,
    };
    for (round, (name, how)) in [
        ("qiang.db", replace),
        ("other.db", Restore::default()),
        ("third.db", Restore::default()),
    ]
    .into_iter()
    .enumerate()
    {
        scene.clock.advance(1);
        let path = scene.path(name);
        let restored = restore(&scene.path("b.db"), &path, how).unwrap();
        assert_eq!(restored.skipped, 1);
        let engine = scene.open(&path);
        let group = format!("round-{round}");
        let numbers = scene.claim(&engine, &group, 3, &mut told).await;
        assert_eq!(numbers, [numbers[0], numbers[0] + 1, numbers[0] + 2]);
        // Orders on both sides of the gap are found, after a start and after an eviction.
        engine.close();
        drop(engine);
        let engine = scene.open(&path);
        for (number, user) in [
            (1, "first-0"),
            (3, "first-2"),
            (numbers[2], &format!("{group}-2")),
        ] {
            let order = engine
                .order(scene.target().order(number))
                .await
                .unwrap()
                .unwrap();
            assert_eq!(order.user.as_str(), user);
            let again = engine
                .claim(scene.target().one(user))
                .await
                .unwrap()
                .outcome;
            assert_eq!(again.grant().unwrap().number, number);
        }
        for number in [4, 5, 6, numbers[0] - 1, numbers[2] + 1] {
            let order = engine.order(scene.target().order(number)).await;
            assert_eq!(order.unwrap(), None, "order {number} has no owner");
        }
        engine.close();
    }
}

/// Payments and hold expiry find the orders on both sides of the gap.
#[tokio::test(flavor = "multi_thread")]
async fn orders_on_both_sides_of_the_gap_live_on() {
    for small_campaign_max in RELOADED {
        orders_beside_the_gap_live_on(small_campaign_max).await;
    }
}

async fn orders_beside_the_gap_live_on(small_campaign_max: u64) {
    let (scene, engine) = scene(true, small_campaign_max).await;
    let mut told = Told::default();
    scene.claim(&engine, "first", 2, &mut told).await;
    back_up(&scene.path("qiang.db"), &scene.path("b.db")).unwrap();
    engine.close();
    let path = scene.path("back.db");
    restore(&scene.path("b.db"), &path, Restore::default()).unwrap();
    let engine = scene.open(&path);
    let numbers = scene.claim(&engine, "later", 2, &mut told).await;
    for number in [2, numbers[1]] {
        let pay = Command::Pay {
            order: scene.target().order(number),
            payment: PaymentRef::new(&format!("p-{number}")).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        let paid = engine.submit(pay).await.unwrap();
        assert!(
            matches!(paid, Reply::Payment(PaymentOutcome::Paid, _)),
            "{paid:?}"
        );
    }
    scene.clock.advance(2 * HOLD_MS);
    engine
        .submit(Command::Tick { events_max: 100 })
        .await
        .unwrap();
    let states = [1, 2, numbers[0], numbers[1]];
    let expected = [
        OrderState::Expired,
        OrderState::Paid,
        OrderState::Expired,
        OrderState::Paid,
    ];
    for (number, expected) in states.into_iter().zip(expected) {
        let order = engine
            .order(scene.target().order(number))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(order.grant.order.unwrap().state, expected, "order {number}");
    }
    assert_eq!(
        scene.claim(&engine, "last", 1, &mut told).await,
        [numbers[1] + 1]
    );
    // A second backup and restore skip further numbers.
    back_up(&path, &scene.path("c.db")).unwrap();
    let lost = scene.claim(&engine, "lost", 1, &mut told).await;
    engine.close();
    let path = scene.path("again.db");
    restore(&scene.path("c.db"), &path, Restore::default()).unwrap();
    let engine = scene.open(&path);
    let numbers = scene.claim(&engine, "after", 1, &mut told).await;
    assert!(numbers[0] > lost[0] + 1, "{numbers:?}");
    engine.close();
}

/// A sale that was not open at the backup may have opened and granted since.
#[tokio::test(flavor = "multi_thread")]
async fn a_sale_that_opens_after_the_restore_skips_too() {
    let (scene, engine) = scene(false, u64::MAX).await;
    let path = scene.path("qiang.db");
    back_up(&path, &scene.path("b.db")).unwrap();
    open_sale(&scene, &engine).await;
    let mut told = Told::default();
    assert_eq!(scene.claim(&engine, "lost", 2, &mut told).await, [1, 2]);
    engine.close();
    drop(engine);
    let back = scene.path("back.db");
    restore(&scene.path("b.db"), &back, Restore::default()).unwrap();
    let engine = scene.open(&back);
    scene.clock.advance(1);
    open_sale(&scene, &engine).await;
    let numbers = scene.claim(&engine, "later", 2, &mut told).await;
    assert!(numbers[0] > 2);
    engine.close();
}
