//! The audit of a ledger alone: a file without a log, with campaigns in one piece and in parts.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use qiang_core::{
    book::{Command, Reply, Setup, Steer},
    event::PartitionId,
    id::{IdempotencyKey, OrderId, PaymentRef},
    money::Money,
    ports::{Clock as _, Ledger},
    split::SplitRule,
};
use qiang_embedded::SqliteLedger;
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, HOLD_MS, OPEN_MS, OPENS, OWNER, Target, currency, red_packet, sale, user},
    spread::SpreadBook,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use uuid::Uuid;

use super::{breaches, broken, qiang};

/// The checks that only a ledger alone has, and one that it makes in its own way.
const OWN_CHECKS: [&str; 12] = [
    "positions_known",
    "parts_whole",
    "counts_add_up",
    "numbers_dense",
    "limits_kept",
    "orders_sound",
    "orders_paid",
    "grants_posted",
    "payments_posted",
    "refunds_posted",
    "escrow_left",
    "draws_recomputed",
];

struct World {
    runtime: Runtime,
    clock: Arc<ManualClock>,
    ledger: SqliteLedger,
    /// One partition, and three over which campaigns are spread.
    books: [SpreadBook; 2],
}

impl World {
    fn new(path: &Path) -> Self {
        let clock = ManualClock::new(OPENS);
        let ledger = SqliteLedger::open(path, Arc::clone(&clock) as _);
        let partitions = |numbers: &[u16]| numbers.iter().copied().map(PartitionId).collect();
        Self {
            runtime: tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap(),
            ledger: ledger.unwrap_or_else(|error| panic!("{error}")),
            clock,
            books: [
                SpreadBook::new(partitions(&[8])),
                SpreadBook::new(partitions(&[3, 0, 5])),
            ],
        }
    }

    fn enter(&self, n: u64, builder: &Builder) -> Setup {
        let setup = builder.setup(n);
        let (id, minor) = (
            Uuid::from_u128(u128::from(n)),
            setup.campaign.funded_minor(),
        );
        let key = IdempotencyKey::new(&format!("key-{n}")).unwrap();
        self.runtime.block_on(async {
            if minor > 0 {
                let amount = Money::new(minor, currency());
                let bound = self.ledger.bind_key("deposits", &key, [1; 32], id).await;
                bound.unwrap();
                self.ledger.deposit(id, &user(OWNER), amount).await.unwrap();
            }
            self.ledger.create(&setup).await.unwrap();
        });
        setup
    }

    fn open(&mut self, book: usize, n: u64, builder: &Builder) -> Target {
        let setup = self.enter(n, builder);
        self.play(book, Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    fn play(&mut self, book: usize, command: Command) -> Option<Reply> {
        self.books[book].apply(self.clock.now(), &command).ok()
    }

    fn granted(&mut self, book: usize, target: Target, name: &str) -> OrderId {
        match self.play(book, Command::Claim(target.one(name))) {
            Some(Reply::Claimed(outcome)) => outcome.grant().expect("granted").order_id(),
            other => panic!("{other:?}"),
        }
    }

    fn pay(&mut self, book: usize, order: OrderId, payment: &str) {
        let payment = PaymentRef::new(payment).unwrap();
        self.play(book, Command::Pay { order, payment });
    }

    fn later(&mut self, millis: i64) {
        self.clock.advance(millis);
        for book in 0..2 {
            self.play(book, Command::Tick { events_max: 1_000 });
        }
    }

    fn close(&mut self, book: usize, target: Target) {
        let (campaign, steer) = (target.id, Steer::Close);
        self.play(book, Command::Steer { campaign, steer });
    }

    /// Settles all logs, but for so many entries at the end of one of the three.
    fn settle(&self, but: usize) {
        for (n, book) in self.books.iter().enumerate() {
            for (part, (partition, log)) in book.partitions().iter().zip(book.logs()).enumerate() {
                let left = if (n, part) == (1, 0) { but } else { 0 };
                let settled = self.ledger.settle(*partition, &log[..log.len() - left]);
                self.runtime.block_on(settled).unwrap();
            }
        }
    }
}

/// Campaigns 1 to 4 in one piece, 11 to 15 in three parts, 21 a draft; and of each something of everything.
fn history(path: &Path) -> World {
    let mut world = World::new(path);
    let always = |builder: Builder| builder.window(OPENS, 100 * OPEN_MS);
    let lazy = always(red_packet(500, 10, SplitRule::Lazy { min: 10 }));
    let normal = red_packet(1_000, 10, SplitRule::Normal { min: 50, max: 200 });
    for (book, first) in [(0, 1), (1, 11)] {
        let lazy = world.open(book, first, &lazy);
        let normal = world.open(book, first + 1, &always(normal.clone()));
        for n in 0..7 {
            world.granted(book, lazy, &format!("u{n}"));
            world.granted(book, normal, &format!("u{n}"));
        }
        world.close(book, normal);
        orders(&mut world, book, first + 2);
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
    // A unit that one part has sold and taken back, which its ledger does not know, and another has sold again.
    let resold = world.open(1, 15, &sale(1).window(OPENS, 100 * OPEN_MS));
    let of_part = |world: &World, part: usize| {
        let names = (0..).map(|n| format!("u{n}"));
        let mut own = names.filter(|name| world.books[1].part_of(&user(name)) == part);
        own.next().expect("names do not end")
    };
    let (first, second) = (of_part(&world, 0), of_part(&world, 1));
    world.granted(1, resold, &first);
    let known = world.books[1].logs()[0].len();
    world.later(HOLD_MS);
    world.granted(1, resold, &second);
    world.settle(world.books[1].logs()[0].len() - known);
    world
}

/// A sale with orders in every state, closed while some are held.
fn orders(world: &mut World, book: usize, n: u64) {
    let target = world.open(book, n, &sale(12).limit(2).price(7));
    let orders: Vec<_> = (0..6)
        .map(|n| world.granted(book, target, &format!("u{n}")))
        .collect();
    world.pay(book, orders[0], "p-0");
    world.pay(book, orders[0], "p-0-again");
    world.play(book, Command::Cancel { order: orders[1] });
    world.pay(book, orders[1], "p-1");
    world.later(HOLD_MS); // all others expire
    world.pay(book, orders[2], "p-2");
    let held = world.granted(book, target, "u8");
    world.granted(book, target, "u9");
    world.close(book, target);
    world.pay(book, orders[3], "p-3");
    world.pay(book, held, "p-8");
    world.later(HOLD_MS);
}

/// A sound file, and the folder in which it is.
fn sound() -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let world = history(&path);
    world.ledger.close();
    (folder, path)
}

#[test]
fn a_ledger_alone_is_sound_and_says_what_it_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("ledger.db");
    let world = history(&path);
    for _ in 0..2 {
        let (broken, report) = broken(&path);
        assert!(broken.is_empty(), "{report:#}");
        assert_eq!(report["kind"], "ledger");
        let checks = report["checks"].as_array().unwrap();
        let own =
            |check: &&serde_json::Value| OWN_CHECKS.contains(&check["name"].as_str().unwrap());
        assert_eq!(checks.iter().filter(own).count(), OWN_CHECKS.len());
        for check in checks {
            let no_log = check["not_applicable"] == "this file holds no log";
            assert_eq!(check["ok"].is_null(), no_log, "{check}");
            assert_eq!(check["examined"] == 0, no_log, "{check}");
        }
        world.ledger.close();
    }
    // When all is settled there is nothing in between any more.
    let world = World {
        ledger: SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap(),
        ..world
    };
    world.settle(0);
    let (broken, report) = broken(&path);
    assert!(broken.is_empty(), "{report:#}");
}

#[test]
fn the_table_tells_what_could_not_be_checked() {
    let (_folder, path) = sound();
    let output = qiang(&["audit"], &path);
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("the file of a ledger alone"), "{text}");
    assert!(
        text.contains("not applicable: this file holds no log"),
        "{text}"
    );
    let end = "ok: 24 checks hold; 26 are not applicable";
    assert!(text.trim_end().ends_with(end), "{text}");
}

/// What each breach is, the checks that must report it, and no others. `@3` stands for the row of campaign 3.
fn breaches() -> Vec<(&'static str, &'static [&'static str], &'static str)> {
    vec![
        (
            "settled set back",
            &["positions_known"],
            "UPDATE settled SET seq = 3 WHERE partition = 0",
        ),
        (
            "a partition forgotten",
            &["positions_known"],
            "DELETE FROM settled WHERE partition = 5",
        ),
        (
            "a posting of a kind that follows from nothing",
            &["positions_known"],
            "INSERT INTO postings SELECT 8, 1, 'deposit', debit, credit, amount, NULL, NULL, at
                 FROM postings WHERE kind = 'deposit' LIMIT 1;
             UPDATE accounts SET balance = balance - (SELECT amount FROM postings WHERE (source, seq) = (8, 1))
                 WHERE id = (SELECT debit FROM postings WHERE (source, seq) = (8, 1));
             UPDATE accounts SET balance = balance + (SELECT amount FROM postings WHERE (source, seq) = (8, 1))
                 WHERE id = (SELECT credit FROM postings WHERE (source, seq) = (8, 1))",
        ),
        (
            "an entry where no log is",
            &["positions_known"],
            "INSERT INTO events (seq, at, campaign, kind) VALUES (1, 0, @1, 0)",
        ),
        (
            "a part's count",
            &["parts_whole"],
            "UPDATE parts SET granted = granted + 1 WHERE campaign = @11 AND partition = 5",
        ),
        (
            "closed, with a part that is not",
            &["parts_whole"],
            "UPDATE parts SET phase = 'ended', returned = 0, refunded = 0 WHERE campaign = @13 AND partition = 0;
             UPDATE parts SET returned = (SELECT returned FROM campaigns WHERE ref = @13) - (SELECT sum(returned)
                 FROM parts WHERE campaign = @13 AND partition <> 3) WHERE campaign = @13 AND partition = 3",
        ),
        (
            "given back by a part that has not closed",
            &["parts_whole"],
            "UPDATE parts SET returned = returned + 1 WHERE campaign = @14 AND partition = 3;
             UPDATE campaigns SET returned = returned + 1 WHERE ref = @14",
        ),
        (
            "a part too many",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (@14, 8, 'scheduled')",
        ),
        (
            "a part of a campaign in one piece",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (@4, 8, 'scheduled')",
        ),
        (
            "a part of nothing",
            &["parts_whole"],
            "INSERT INTO parts (campaign, partition, phase) VALUES (99, 8, 'scheduled')",
        ),
        (
            "a draft that is whole",
            &["parts_whole"],
            "UPDATE campaigns SET phase = 'draft' WHERE ref = @14",
        ),
        (
            "granted to nobody",
            &["counts_add_up"],
            "UPDATE campaigns SET granted = granted + 1 WHERE ref = @1",
        ),
        (
            "a unit lost at the close",
            &["counts_add_up"],
            "UPDATE campaigns SET returned = returned - 1 WHERE ref = @3",
        ),
        (
            "more than there is",
            &["counts_add_up"],
            "UPDATE campaigns SET supply = 1 WHERE ref = @4",
        ),
        (
            "more in parts than there is, when all are closed",
            &["counts_add_up"],
            "UPDATE campaigns SET supply = 11 WHERE ref = @13",
        ),
        (
            "back before the close",
            &["counts_add_up"],
            "UPDATE campaigns SET returned = 1 WHERE ref = @4",
        ),
        (
            "a draft that was granted from",
            &["counts_add_up"],
            "UPDATE campaigns SET phase = 'draft' WHERE ref = @4",
        ),
        (
            "claimed more than funded",
            &["counts_add_up", "packets_funded", "shares_complete", "commitments", "draws_recomputed",
              "escrow_left"],
            "UPDATE campaigns SET total = 200 WHERE ref = @1",
        ),
        (
            "a number left out",
            &["numbers_dense"],
            "UPDATE orders SET number = 3 WHERE campaign = @4 AND number = 2",
        ),
        (
            "over the limit",
            &["limits_kept"],
            "UPDATE orders SET user = 'u0' WHERE campaign = @14 AND user = 'u1'",
        ),
        (
            "two shares",
            &["limits_kept", "grants_posted"],
            "UPDATE shares SET user = 'u0' WHERE campaign = @11 AND user = 'u1'",
        ),
        (
            "before the window",
            &["limits_kept"],
            "UPDATE campaigns SET starts_at = starts_at + 1 WHERE ref = @1",
        ),
        (
            "after the window",
            &["limits_kept"],
            "UPDATE campaigns SET ends_at = starts_at + 1 WHERE ref = @4",
        ),
        (
            "another price",
            &["orders_sound"],
            "UPDATE campaigns SET unit_price = 8 WHERE ref = @3",
        ),
        (
            "expired too early",
            &["orders_sound"],
            "UPDATE orders SET updated_at = granted_at WHERE campaign = @13 AND state = 'expired'",
        ),
        (
            "held for longer",
            &["orders_sound"],
            "UPDATE orders SET hold_until = hold_until + 1 WHERE campaign = @4 AND number = 1",
        ),
        (
            "paid by nobody",
            &["orders_paid"],
            "UPDATE orders SET state = 'paid' WHERE campaign = @4 AND number = 2",
        ),
        (
            "paid when it was not",
            &["orders_paid"],
            "UPDATE orders SET updated_at = updated_at + 1 WHERE campaign = @4 AND number = 1",
        ),
        (
            "paid twice",
            &["orders_paid", "payments_posted"],
            "UPDATE payments SET outcome = 'paid' WHERE campaign = @3 AND payment = 'p-0-again'",
        ),
        (
            "a payment of another price",
            &["orders_paid", "payments_posted"],
            "UPDATE payments SET amount = 1 WHERE campaign = @4",
        ),
        (
            "a share that was never posted",
            &["grants_posted", "balances"],
            "DELETE FROM postings WHERE kind = 'grant' AND campaign = @12 AND number = 2",
        ),
        (
            "a share posted for another",
            &["grants_posted"],
            "UPDATE postings SET number = 9 WHERE kind = 'grant' AND campaign = @12 AND number = 2",
        ),
        (
            "a share posted twice",
            &["grants_posted", "balances"],
            "INSERT INTO postings SELECT source, 1, kind, debit, credit, amount, campaign, number, at
                 FROM postings WHERE kind = 'grant' AND campaign = @2 AND number = 2",
        ),
        (
            "a payment that was never posted",
            &["payments_posted", "balances"],
            "DELETE FROM postings WHERE kind = 'refund_due' AND campaign = @13 AND at =
                 (SELECT at FROM payments WHERE campaign = @13 AND payment = 'p-1')",
        ),
        (
            "a payment into another pocket",
            &["payments_posted", "balances"],
            "UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'u9' OR owner = 'u6' LIMIT 1)
                 WHERE kind = 'payment' AND campaign = @3",
        ),
        (
            "a payment posted for nothing",
            &["payments_posted"],
            "UPDATE postings SET number = 99 WHERE kind = 'payment' AND campaign = @3 AND number = 1",
        ),
        (
            "a part's refund posted for another part",
            &["refunds_posted"],
            "UPDATE postings SET source = 5, seq = 1 WHERE kind = 'refund' AND campaign = @12 AND source = 0",
        ),
        (
            "refunded in two pieces",
            &["refunds_posted"],
            "INSERT INTO postings SELECT source, 1, kind, debit, credit, 1, campaign, number, at
                 FROM postings WHERE kind = 'refund' AND campaign = @2;
             UPDATE postings SET amount = amount - 1 WHERE kind = 'refund' AND campaign = @2 AND seq > 1",
        ),
        (
            "refunded to somebody",
            &["refunds_posted", "balances"],
            "UPDATE postings SET credit = (SELECT id FROM accounts WHERE owner = 'u1' AND purpose = 'user')
                 WHERE kind = 'refund' AND campaign = @2",
        ),
        (
            "left in escrow after the close",
            &["escrow_left", "balances"],
            "UPDATE accounts SET balance = balance + 1 WHERE owner = (SELECT id FROM campaigns WHERE ref = @12);
             UPDATE accounts SET balance = balance - 1 WHERE owner = 'u1' AND purpose = 'user'",
        ),
        (
            "an escrow of nothing",
            &["escrow_left"],
            "INSERT INTO accounts (owner, purpose, currency, balance) VALUES ('x', 'escrow', 'CNY', 0)",
        ),
        (
            "a draw that the seed did not make",
            &["draws_recomputed", "grants_posted"],
            "UPDATE shares SET amount = amount + number * 2 - 3 WHERE campaign = @1 AND number <= 2",
        ),
    ]
}

#[test]
fn every_planted_breach_is_reported_by_the_checks_it_breaks_and_no_others() {
    let (folder, sound) = sound();
    let planted = folder.path().join("planted.db");
    let mut failed = BTreeSet::new();
    let mut wrong = Vec::new();
    for (what, expected, sql) in breaches() {
        fs::copy(&sound, &planted).unwrap();
        let mut sql = sql.to_owned();
        for n in [11, 12, 13, 14, 15, 1, 2, 3, 4] {
            let row = format!("(SELECT ref FROM campaigns WHERE title = 'campaign {n}')");
            sql = sql.replace(&format!("@{n}"), &row);
        }
        breaches::plant(&planted, &sql);
        let (found, report) = broken(&planted);
        let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
        if found != expected {
            let checks = report["checks"].as_array().unwrap().iter();
            let told: Vec<_> = checks
                .filter(|check| check["ok"] == false)
                .map(|check| format!("{}: {}", check["name"], check["offending"][0]))
                .collect();
            wrong.push(format!("{what}: expected {expected:?}, found {told:#?}"));
        }
        failed.extend(found);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for name in OWN_CHECKS {
        assert!(failed.contains(name), "no breach of {name} was planted");
    }
}
