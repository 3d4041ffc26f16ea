//! A ledger with a complete history, built through the ports as a server does.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use qiang_core::{
    book::{CampaignAction, Claim, Command, PaymentOutcome, Reply, Setup},
    campaign::{
        AckLevel, Campaign, CampaignKind, RedPacket, Requirements, Rules, Sale, SaleSettingsChange,
    },
    event::PartitionId,
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    money::Money,
    outcome::Outcome,
    payment::{PaymentPolicy, ReceivedMoney},
    ports::{
        AccountStore as _, CampaignStore as _, Clock, Engine, EngineError, KeyStore as _, KeyUse,
        Payout, PayoutStore as _, SettlementStore as _,
    },
    split::{Seed, Split, SplitRule},
    time::{Timestamp, Window},
};
use qiang_embedded::Embedded;
use tokio::runtime::Runtime;
use uuid::Uuid;

/// Start of the history. Windows are relative to it, in seconds.
const START: i64 = 1_800_000_000_000;
/// Claims of the last rush. Settlement has not finished them when the writer stops.
const RUSH: u32 = 5_000;

/// A clock that tests move.
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::Relaxed))
    }
}

pub(crate) struct World {
    runtime: Runtime,
    clock: Arc<ManualClock>,
    pub(crate) embedded: Embedded,
    /// Payment policy of the next sales.
    pub(crate) payment_policy: PaymentPolicy,
    made: u8,
}

impl World {
    pub(crate) fn new(path: &Path) -> Self {
        let clock = Arc::new(ManualClock(AtomicI64::new(START)));
        let embedded = Embedded::open(path, Arc::clone(&clock) as Arc<dyn Clock>).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            runtime,
            clock,
            embedded,
            payment_policy: PaymentPolicy::default(),
            made: 0,
        }
    }

    fn id(&mut self) -> Uuid {
        self.made += 1;
        uuid::Builder::from_unix_timestamp_millis(START as u64, &[self.made; 10]).into_uuid()
    }

    fn at(&self, seconds: i64) {
        self.clock
            .0
            .store(START + 1_000 * seconds, Ordering::Relaxed);
        self.submit(Command::Tick { events_max: 1_000 }).unwrap();
    }

    pub(super) fn submit(&self, command: Command) -> Result<Reply, EngineError> {
        self.runtime.block_on(self.embedded.submit(command))
    }

    pub(crate) fn settle(&self) {
        let (head, _) = self.embedded.positions();
        let settled = self
            .embedded
            .await_settled(PartitionId(0), head, Duration::from_secs(30));
        assert!(
            self.runtime.block_on(settled).unwrap(),
            "{:?}",
            self.embedded.stopped()
        );
    }

    pub(crate) fn deposit(&mut self, user: &str, minor: i64, currency: &str) -> Uuid {
        let id = self.id();
        let (user, key) = (
            UserId::new(user).unwrap(),
            IdempotencyKey::new(&format!("key-{id}")).unwrap(),
        );
        let money = Money::new(minor, currency.parse().unwrap());
        self.runtime.block_on(async {
            self.embedded
                .bind_key(&KeyUse::new("deposits", key, [1; 32]), id)
                .await
                .unwrap();
            self.embedded.deposit(id, &user, money).await.unwrap();
        });
        id
    }

    pub(crate) fn pay_out(&self, payout: &Payout) {
        let paid_out = self.runtime.block_on(self.embedded.pay_out(payout));
        assert!(paid_out.unwrap().fresh);
    }

    /// Creates a campaign of `sender`, with a window in seconds.
    fn enter(&mut self, title: &str, window: (i64, i64), rules: Rules) -> Setup {
        let id = CampaignId::new(self.id()).unwrap();
        let instant = |seconds| Timestamp::from_millis(START + 1_000 * seconds);
        let campaign = Campaign {
            id,
            owner: UserId::new("sender").unwrap(),
            title: title.to_owned(),
            window: Window::new(instant(window.0), instant(window.1)).unwrap(),
            ack: AckLevel::Fsync,
            requirements: Requirements::default(),
            payment_policy: self.payment_policy,
            created_at: self.clock.now(),
            rules,
        };
        let shares = campaign.shares();
        let setup = Setup { campaign, shares };
        self.runtime.block_on(self.embedded.create(&setup)).unwrap();
        setup
    }

    fn open(&mut self, title: &str, window: (i64, i64), rules: Rules) -> CampaignId {
        let setup = self.enter(title, window, rules);
        let id = setup.campaign.id;
        assert_eq!(
            self.submit(Command::Open(Box::new(setup))),
            Ok(Reply::Opened)
        );
        id
    }

    pub(crate) fn packet(
        &mut self,
        title: &str,
        window: (i64, i64),
        total: i64,
        count: u32,
        rule: SplitRule,
    ) -> CampaignId {
        let rules = self.packet_rules(total, count, rule);
        self.open(title, window, rules)
    }

    fn packet_rules(&self, total: i64, count: u32, rule: SplitRule) -> Rules {
        Rules::RedPacket(RedPacket::new(
            Split::new(total, count, rule).unwrap(),
            "CNY".parse().unwrap(),
            Seed::from_bytes([self.made; 32]),
        ))
    }

    pub(crate) fn sale(
        &mut self,
        title: &str,
        window: (i64, i64),
        stock: u32,
        limit: u32,
        price: i64,
    ) -> CampaignId {
        let price = Money::new(price, "CNY".parse().unwrap());
        self.open(
            title,
            window,
            Rules::Sale(Sale::new(stock.into(), limit, price, 60_000).unwrap()),
        )
    }

    fn attempt(
        &self,
        campaign: CampaignId,
        kind: CampaignKind,
        user: &str,
        quantity: u32,
        key: Option<&str>,
    ) -> Outcome {
        let claim = Claim {
            campaign,
            kind,
            user: UserId::new(user).unwrap(),
            quantity,
            key: key.map(|key| IdempotencyKey::new(key).unwrap()),
        };
        self.runtime
            .block_on(self.embedded.claim(claim))
            .unwrap()
            .outcome
    }

    pub(crate) fn grab(&self, campaign: CampaignId, users: &[&str]) {
        for user in users {
            let outcome = self.attempt(campaign, CampaignKind::RedPacket, user, 1, None);
            assert!(
                matches!(outcome, Outcome::Granted(_)),
                "{user}: {outcome:?}"
            );
        }
    }

    pub(crate) fn buy(&self, campaign: CampaignId, user: &str, quantity: u32) -> OrderId {
        let key = format!("{user}-{quantity}-{}", self.clock.now().as_millis());
        match self.attempt(campaign, CampaignKind::Sale, user, quantity, Some(&key)) {
            Outcome::Granted(grant) => grant.order_id(),
            outcome => panic!("{user}: {outcome:?}"),
        }
    }

    pub(crate) fn pay(&self, order: OrderId, payment: &str, expected: PaymentOutcome) {
        self.report(order, payment, ReceivedMoney::Price, expected);
    }

    /// Pays an amount other than the order's price.
    fn pay_other(&self, order: OrderId, payment: &str, minor: i64, currency: &str) {
        let other = ReceivedMoney::Other(Money::new(minor, currency.parse().unwrap()));
        self.report(order, payment, other, PaymentOutcome::RefundDue);
    }

    pub(crate) fn report(
        &self,
        order: OrderId,
        payment: &str,
        received: ReceivedMoney,
        expected: PaymentOutcome,
    ) {
        let payment = PaymentRef::new(payment).unwrap();
        match self.submit(Command::Pay {
            order,
            payment,
            paid_at: None,
            received,
            cancelled: 0,
        }) {
            Ok(Reply::Payment(outcome, _)) => assert_eq!(outcome, expected),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn cancel(&self, order: OrderId) {
        self.submit(Command::Cancel { order, part: None }).unwrap();
    }

    pub(crate) fn take_back(&self, order: OrderId) {
        self.submit(Command::Return { order, part: None }).unwrap();
    }

    fn set_stock(&self, campaign: CampaignId, stock: u64) {
        self.submit(Command::SetStock { campaign, stock }).unwrap();
    }

    fn set_terms(&self, campaign: CampaignId, limit: u32, price: i64, ends: Option<i64>) {
        let change = SaleSettingsChange {
            starts_at: None,
            ends_at: ends.map(|second| Timestamp::from_millis(START + second * 1_000)),
            per_user_limit: Some(limit),
            unit_price_minor: Some(price),
            admission: None,
        };
        self.submit(Command::SetTerms { campaign, change }).unwrap();
    }

    fn act(&self, campaign: CampaignId, action: CampaignAction) {
        self.submit(Command::Act { campaign, action }).unwrap();
    }
}

/// Builds a history with everything that can happen to a campaign. The world is still running afterwards.
pub(crate) fn live(path: &Path) -> World {
    let mut world = World::new(path);
    world.deposit("sender", 1_000_000, "CNY");
    world.deposit("sender", 5_000, "CNY");
    let deposit = world.deposit("other", 70, "USD");
    packets(&mut world);
    let paid_twice = orders(&mut world);
    let returned = late_orders(&mut world);
    super::amount_breaches::accepted(&mut world);
    super::return_breaches::returned(&mut world);
    super::cancellation_breaches::cancelled(&mut world);
    super::extension_breaches::extended(&mut world);
    world.settle();
    let money = |minor| Money::new(minor, "CNY".parse().unwrap());
    let (sender, other) = (
        UserId::new("sender").unwrap(),
        UserId::new("other").unwrap(),
    );
    for (order, reference, minor) in [
        (paid_twice, "r-1", 60),
        (paid_twice, "r-2", 40),
        (returned, "r-3", 30),
    ] {
        let (reference, amount) = (PaymentRef::new(reference).unwrap(), money(minor));
        world.pay_out(&Payout::Refund {
            order,
            reference,
            amount,
        });
    }
    world.pay_out(&Payout::RefundReversal {
        order: paid_twice,
        reference: PaymentRef::new("r-2").unwrap(),
    });
    world.pay_out(&Payout::Refund {
        order: paid_twice,
        reference: PaymentRef::new("r-4").unwrap(),
        amount: money(40),
    });
    world.pay_out(&Payout::Transfer {
        user: sender.clone(),
        to: UserId::new("successor").unwrap(),
        reference: PaymentRef::new("r-1").unwrap(),
        amount: money(50),
    });
    world.pay_out(&Payout::Withdrawal {
        user: sender,
        reference: PaymentRef::new("r-1").unwrap(),
        amount: money(500),
    });
    super::payout_breaches::reversals(&world, &other, deposit);
    world
}

/// Adds a rush, and stops the writer before settlement has finished it. Its first two grants are settled.
pub(crate) fn load_and_stop(mut world: World) {
    let rush = world.packet(
        "rush",
        (0, 1_000_000),
        100_000,
        2 * RUSH,
        SplitRule::DoubleAverage { min: 1 },
    );
    world.grab(rush, &["ann", "bob"]);
    world.settle();
    let claim = |n| Claim {
        campaign: rush,
        kind: CampaignKind::RedPacket,
        user: UserId::new(&format!("user-{n}")).unwrap(),
        quantity: 1,
        key: None,
    };
    let tickets: Vec<_> = (0..RUSH).map(|n| world.embedded.claim(claim(n))).collect();
    world.embedded.close();
    for ticket in tickets {
        assert!(matches!(
            world.runtime.block_on(ticket).unwrap().outcome,
            Outcome::Granted(_)
        ));
    }
    let (head, settled) = world.embedded.positions();
    assert!(settled < head, "there is a tail that is not settled");
}

fn packets(world: &mut World) {
    let normal = world.packet(
        "normal",
        (0, 100),
        1_000,
        10,
        SplitRule::Normal { min: 50, max: 200 },
    );
    let double = world.packet(
        "double",
        (0, 500),
        800,
        4,
        SplitRule::DoubleAverage { min: 1 },
    );
    let equal = world.packet("equal", (0, 500), 100, 7, SplitRule::Equal);
    let lazy = world.packet("lazy", (0, 5_000), 600, 6, SplitRule::Lazy { min: 10 });
    let lazy_empty = world.packet("lazy-empty", (0, 5_000), 50, 3, SplitRule::Lazy { min: 1 });
    let lazy_closed = world.packet("lazy-closed", (0, 5_000), 90, 9, SplitRule::Lazy { min: 2 });
    world.packet("untouched", (10_000, 20_000), 30, 3, SplitRule::Equal);
    let rules = world.packet_rules(40, 4, SplitRule::Equal);
    world.enter("draft", (0, 5_000), rules);

    world.grab(normal, &["ann", "bob", "cid"]);
    world.act(normal, CampaignAction::Pause);
    assert_eq!(
        world.attempt(normal, CampaignKind::RedPacket, "dan", 1, None),
        Outcome::Paused
    );
    world.act(normal, CampaignAction::Resume);
    world.grab(normal, &["dan", "eva"]);
    world.grab(double, &["ann", "bob", "cid", "dan"]);
    world.grab(equal, &["ann", "sender"]);
    world.act(equal, CampaignAction::Close);
    world.grab(lazy, &["ann", "bob", "cid", "dan"]);
    world.grab(lazy_empty, &["bob", "cid", "dan"]);
    world.grab(lazy_closed, &["eva", "bob"]);
    world.act(lazy_closed, CampaignAction::Pause);
    world.act(lazy_closed, CampaignAction::Close);
    world.at(101); // `normal` closes by the clock
}

/// Orders in every state: `single` sells one unit per user, `many` up to three. Returns an order that was paid twice.
fn orders(world: &mut World) -> OrderId {
    let single = world.sale("single", (100, 2_000), 5, 1, 100);
    let paid = world.buy(single, "ann", 1); // 1
    world.pay(paid, "p-ann", PaymentOutcome::Paid);
    world.pay(paid, "p-ann", PaymentOutcome::Paid); // a replay
    world.pay(paid, "p-ann-again", PaymentOutcome::RefundDue);
    let cancelled = world.buy(single, "bob", 1); // 2
    world.cancel(cancelled);
    world.pay(cancelled, "p-bob", PaymentOutcome::RefundDue);
    world.at(102);
    world.buy(single, "bob", 1); // 3: held, later expired
    let expired = world.buy(single, "cid", 1); // 4: expired, later reinstated
    let too_late = world.buy(single, "dan", 1); // 5: expired, and paid when nothing is left
    world.at(200);
    world.act(single, CampaignAction::Pause);
    world.pay(expired, "p-cid", PaymentOutcome::Reinstated);
    world.act(single, CampaignAction::Resume);
    for user in ["eva", "fay", "gus"] {
        world.buy(single, user, 1); // 6, 7, 8
    }
    assert!(matches!(
        world.attempt(single, CampaignKind::Sale, "hal", 1, None),
        Outcome::SoldOut { .. }
    ));
    world.pay(too_late, "p-dan", PaymentOutcome::RefundDue);

    let many = world.sale("many", (100, 5_000), 10, 3, 7);
    let two = world.buy(many, "ann", 2);
    let one = world.buy(many, "ann", 1);
    let returned = world.buy(many, "bob", 3);
    world.pay(two, "p-two", PaymentOutcome::Paid);
    world.cancel(one);
    world.cancel(returned);
    world.buy(many, "bob", 2);

    let free = world.sale("free", (100, 5_000), 3, 1, 0);
    let order = world.buy(free, "ann", 1);
    world.pay(order, "p-free", PaymentOutcome::Paid);
    paid
}

/// A sale that closes with held orders. Afterwards they are cancelled, expire and are paid. Returns an order that was
/// returned.
fn late_orders(world: &mut World) -> OrderId {
    let closing = world.sale("closing", (200, 230), 4, 2, 30);
    let cancelled = world.buy(closing, "ann", 2);
    let expired = world.buy(closing, "bob", 1);
    let paid = world.buy(closing, "cid", 1);
    world.at(240); // the window is over: closed with every unit held
    world.settle();
    world.cancel(cancelled);
    world.pay(paid, "p-late", PaymentOutcome::Paid);
    world.at(300);
    world.pay(expired, "p-too-late", PaymentOutcome::RefundDue);

    let held = world.sale("held", (300, 5_000), 2, 2, 11);
    world.buy(held, "ann", 2);

    // Payments with other amounts: one order stays held, and one is paid at its price.
    let amounts = world.sale("amounts", (300, 5_000), 2, 1, 11);
    let waiting = world.buy(amounts, "ida", 1); // 1
    world.pay_other(waiting, "p-less", 10, "CNY");
    let settled = world.buy(amounts, "jon", 1); // 2
    world.pay_other(settled, "p-euros", 7, "EUR");
    world.pay(settled, "p-jon", PaymentOutcome::Paid);

    // Paid orders that are returned, before and after the close.
    let tried = world.sale("tried", (300, 5_000), 3, 2, 13);
    let returned = world.buy(tried, "ann", 2); // 1
    world.pay(returned, "p-tried", PaymentOutcome::Paid);
    world.take_back(returned);
    world.take_back(returned); // a replay
    world.pay(returned, "p-tried-again", PaymentOutcome::RefundDue);
    let kept = world.buy(tried, "bob", 2); // 2
    world.pay(kept, "p-kept", PaymentOutcome::Paid);
    let late = world.buy(tried, "ann", 1); // 3
    world.pay(late, "p-late-return", PaymentOutcome::Paid);
    world.act(tried, CampaignAction::Close);
    world.take_back(late);

    // The stock is raised and lowered. At times users have more than an earlier or later stock.
    let restocked = world.sale("restocked", (300, 5_000), 4, 2, 9);
    let back = world.buy(restocked, "ann", 2);
    world.buy(restocked, "bob", 2);
    world.set_stock(restocked, 6);
    world.buy(restocked, "cid", 2);
    world.cancel(back);
    world.set_stock(restocked, 4);
    world.set_stock(restocked, 5);
    world.buy(restocked, "dan", 1);

    // Price and limit are raised and lowered, and the end is moved forward. Users keep orders above the last limit.
    let repriced = world.sale("repriced", (300, 5_000), 9, 1, 40);
    let first = world.buy(repriced, "ann", 1);
    world.set_terms(repriced, 3, 55, Some(4_000));
    world.buy(repriced, "ann", 2);
    world.set_terms(repriced, 1, 0, None);
    world.buy(repriced, "bob", 1);
    world.cancel(first);
    world.set_terms(repriced, 2, 40, None);
    returned
}
