//! A ledger alone with a complete history: logs of books, settled into any ledger.

use std::sync::Arc;

use qiang_core::{
    book::{CampaignAction, Command, Reply, Setup},
    event::PartitionId,
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    order::ReturnPart,
    payment::{PaymentPolicy, ReceivedMoney},
    ports::{
        Clock as _, KeyUse, Ledger, NumberRange, Payout, RepairAttempt, RepairRecord,
        WithheldRecord,
    },
    split::SplitRule,
};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPEN_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    spread::SpreadBook,
};
use tokio::runtime::Runtime;
use uuid::Uuid;

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ledger: Arc<dyn Ledger>,
    /// One partition, and three over which campaigns are spread.
    pub(crate) books: [SpreadBook; 2],
}

impl World {
    /// Creates a world without events. `open` opens the ledger in its runtime.
    pub(crate) fn new(open: impl AsyncFnOnce(Arc<ManualClock>) -> Arc<dyn Ledger>) -> Self {
        let clock = ManualClock::new(OPENS);
        let partitions = |numbers: &[u16]| numbers.iter().copied().map(PartitionId).collect();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            ledger: runtime.block_on(open(Arc::clone(&clock))),
            runtime,
            clock,
            books: [
                SpreadBook::new(partitions(&[8])),
                SpreadBook::new(partitions(&[3, 0, 5])),
            ],
        }
    }

    pub(crate) fn enter(&self, n: u64, builder: &Builder) -> Setup {
        let setup = builder.setup(n);
        let (id, minor) = (
            Uuid::from_u128(u128::from(n)),
            setup.campaign.funded_minor(),
        );
        let key = IdempotencyKey::new(&format!("key-{n}")).unwrap();
        self.runtime.block_on(async {
            if minor > 0 {
                let amount = Money::new(minor, currency());
                let used = KeyUse::new("deposits", key, [1; 32]);
                let bound = self.ledger.bind_key(&used, id).await;
                bound.unwrap();
                self.ledger.deposit(id, &user(OWNER), amount).await.unwrap();
            }
            self.ledger.create(&setup).await.unwrap();
        });
        setup
    }

    pub(crate) fn open(&mut self, book: usize, n: u64, builder: &Builder) -> Target {
        let setup = self.enter(n, builder);
        self.play(book, Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    pub(crate) fn play(&mut self, book: usize, command: Command) -> Option<Reply> {
        self.books[book].apply(self.clock.now(), &command).ok()
    }

    pub(crate) fn granted(&mut self, book: usize, target: Target, name: &str) -> OrderId {
        let outcome = self.books[book].claim(self.clock.now(), &target.one(name));
        let grant = outcome.ok().and_then(|outcome| outcome.grant().copied());
        grant.expect("granted").order_id()
    }

    fn pay(&mut self, book: usize, order: OrderId, payment: &str) {
        self.report(book, order, payment, ReceivedMoney::Price);
    }

    fn report(&mut self, book: usize, order: OrderId, payment: &str, received: ReceivedMoney) {
        let payment = PaymentRef::new(payment).unwrap();
        self.play(
            book,
            Command::Pay {
                order,
                payment,
                paid_at: None,
                received,
                cancelled: 0,
            },
        );
    }

    fn later(&mut self, millis: i64) {
        self.clock.advance(millis);
        for book in 0..2 {
            self.play(book, Command::Tick { events_max: 1_000 });
        }
    }

    fn close(&mut self, book: usize, target: Target) {
        let (campaign, action) = (target.id, CampaignAction::Close);
        self.play(book, Command::Act { campaign, action });
    }

    /// Settles all logs, except for some entries at the end of one of the three.
    pub(crate) fn settle(&self, but: usize) {
        for (n, book) in self.books.iter().enumerate() {
            for (part, (partition, log)) in book.partitions().iter().zip(book.logs()).enumerate() {
                let left = if (n, part) == (1, 0) { but } else { 0 };
                let settled = self.ledger.settle(*partition, &log[..log.len() - left]);
                self.runtime.block_on(settled).unwrap();
            }
        }
    }
}

/// Campaigns 1 to 4 in one part, 11 to 15 in three parts, and the draft 21, with every kind of step.
pub(crate) fn history(mut world: World) -> World {
    let always = |builder: Builder| builder.window(OPENS, 100 * OPEN_MS);
    let lazy = always(red_packet(500, 10, SplitRule::Lazy { min: 10 }));
    let normal = red_packet(1_000, 10, SplitRule::Normal { min: 50, max: 200 });
    let mut owed = Vec::new();
    for (book, first) in [(0, 1), (1, 11)] {
        let lazy = world.open(book, first, &lazy);
        let normal = world.open(book, first + 1, &always(normal.clone()));
        for n in 0..7 {
            world.granted(book, lazy, &format!("u{n}"));
            world.granted(book, normal, &format!("u{n}"));
        }
        world.close(book, normal);
        owed.push(orders(&mut world, book, first + 2));
        let held = world.open(
            book,
            first + 3,
            &always(sale(5)).price(0).hold_ms(50 * OPEN_MS),
        );
        let order = world.granted(book, held, "u0");
        world.granted(book, held, "u1");
        world.pay(book, order, "p-free");
    }
    world.enter(21, &red_packet(30, 3, SplitRule::Equal));
    // One part has sold and restocked a unit, which the ledger has not settled, and another part has sold it again.
    let resold = world.open(1, 15, &sale(1).window(OPENS, 100 * OPEN_MS));
    let of_part = |world: &World, part: usize| {
        let names = (0..).map(|n| format!("u{n}"));
        let mut own = names.filter(|name| world.books[1].part_of(&user(name)) == part);
        own.next().expect("there are infinitely many names")
    };
    let (first, second) = (of_part(&world, 0), of_part(&world, 1));
    world.granted(1, resold, &first);
    let known = world.books[1].logs()[0].len();
    world.later(HOLD_MS);
    world.granted(1, resold, &second);
    world.settle(world.books[1].logs()[0].len() - known);
    withhold(&world);
    pay_out(&world, owed[0]);
    world
}

/// A refund due of an order is recorded, reversed and paid, and a withdrawal and a reversal are made.
fn pay_out(world: &World, order: OrderId) {
    let money = |minor| Money::new(minor, currency());
    let reference = PaymentRef::new("r-1").unwrap();
    let (deposit, depositor) = (Uuid::from_u128(1 << 80), user("depositor"));
    let failed = PaymentRef::new("r-0").unwrap();
    let refund = |reference: &PaymentRef| Payout::Refund {
        order,
        reference: reference.clone(),
        amount: money(5),
    };
    let payouts = [
        refund(&failed),
        Payout::RefundReversal {
            order,
            reference: failed.clone(),
        },
        refund(&reference),
        Payout::Transfer {
            user: user(OWNER),
            to: user("successor"),
            reference: reference.clone(),
            amount: money(2),
        },
        Payout::Withdrawal {
            user: user(OWNER),
            reference,
            amount: money(3),
        },
        Payout::Reversal {
            user: depositor.clone(),
            deposit,
            part: None,
        },
    ];
    world.runtime.block_on(async {
        let deposited = world.ledger.deposit(deposit, &depositor, money(55));
        deposited.await.unwrap();
        for payout in payouts {
            assert!(world.ledger.pay_out(&payout).await.unwrap().fresh);
        }
    });
}

/// A repair has withheld two units of campaign 4, and the two numbers after the last one.
fn withhold(world: &World) {
    let partition = world.books[0].partitions()[0];
    let epoch = "0123456789abcdef".to_owned();
    let repair = RepairRecord {
        partition,
        epoch: epoch.clone(),
        follows: String::new(),
        // Before the first grant.
        at: OPENS.plus_millis(-1),
        lost_from: 3,
        lost_to: 4,
        unnamed: 2,
        reason: "Redis has lost the entries 3 to 4 of the log".to_owned(),
        upto: None,
    };
    let attempt = RepairAttempt {
        partition,
        number: 1,
        repairer: "r".to_owned(),
    };
    let withheld = WithheldRecord {
        partition,
        epoch: epoch.clone(),
        campaign: sale(5).setup(4).campaign.id,
        units: 2,
        amount_minor: 0,
        numbers: NumberRange::from_numbers([3, 4], 1),
        released_at: None,
    };
    world.runtime.block_on(async {
        world.ledger.claim_repair(&attempt).await.unwrap();
        world.ledger.begin_repair(&repair, &attempt).await.unwrap();
        world.ledger.withhold(&withheld, &attempt).await.unwrap();
        let finished = world.ledger.finish_repair(&epoch, 4, &attempt);
        finished.await.unwrap();
    });
}

/// A sale with orders in every state, closed with some held orders. Returns an order that was paid twice.
fn orders(world: &mut World, book: usize, n: u64) -> OrderId {
    let policy = PaymentPolicy::AcceptWithTolerance(2);
    let target = world.open(book, n, &sale(12).limit(2).price(7).payment_policy(policy));
    let orders: Vec<_> = (0..6)
        .map(|n| world.granted(book, target, &format!("u{n}")))
        .collect();
    world.pay(book, orders[0], "p-0");
    world.pay(book, orders[0], "p-0-again");
    world.play(
        book,
        Command::Cancel {
            order: orders[1],
            part: None,
        },
    );
    world.pay(book, orders[1], "p-1");
    world.later(HOLD_MS); // all others expire
    world.pay(book, orders[2], "p-2");
    let held = world.granted(book, target, "u8");
    let waiting = world.granted(book, target, "u9");
    let euros = Money::new(9, "EUR".parse().unwrap());
    world.report(book, waiting, "p-9", ReceivedMoney::Other(euros));
    let returned = world.granted(book, target, "u10");
    let more = ReceivedMoney::Accepted(Money::new(8, currency()));
    world.report(book, returned, "p-10", more);
    world.play(
        book,
        Command::Return {
            order: returned,
            part: None,
        },
    );
    let outcome = world.books[book].claim(world.clock.now(), &target.units("u11", 2));
    let grant = outcome.ok().and_then(|outcome| outcome.grant().copied());
    let order = grant.expect("granted").order_id();
    let more = ReceivedMoney::Accepted(Money::new(15, currency()));
    world.report(book, order, "p-11", more);
    let part = Some(ReturnPart {
        quantity: 1,
        key: IdempotencyKey::new("part").unwrap(),
    });
    world.play(book, Command::Return { order, part });
    let outcome = world.books[book].claim(world.clock.now(), &target.units("u12", 2));
    let grant = outcome.ok().and_then(|outcome| outcome.grant().copied());
    let order = grant.expect("granted").order_id();
    let part = Some(ReturnPart {
        quantity: 1,
        key: IdempotencyKey::new("part").unwrap(),
    });
    world.play(book, Command::Cancel { order, part });
    let payment = PaymentRef::new("p-12").unwrap();
    let rest = Money::new(7, currency());
    world.play(
        book,
        Command::Pay {
            order,
            payment,
            paid_at: None,
            received: ReceivedMoney::Accepted(rest),
            cancelled: 1,
        },
    );
    world.close(book, target);
    world.pay(book, orders[3], "p-3");
    world.pay(book, held, "p-8");
    world.later(HOLD_MS);
    orders[0]
}
