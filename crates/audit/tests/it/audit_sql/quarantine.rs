//! Ledgers with quarantined entries: the audit names them, and no other check is broken.

use qiang_core::{
    book::{CampaignAction, Command},
    event::{Event, PartitionId},
    id::PaymentRef,
    payment::ReceivedMoney,
    split::SplitRule,
};
use qiang_testkit::campaign::{OPEN_MS, OPENS, red_packet, sale};

use super::{KINDS, World, assert_sound, audit, broken, opened};

/// Partition of the first book.
const PARTITION: PartitionId = PartitionId(8);

#[test]
fn what_is_set_aside_is_named_and_breaks_nothing_else() {
    for kind in KINDS {
        let url = kind.database();
        let mut world = World::new(async |clock| opened(&url, clock).await);
        let packet = red_packet(500, 5, SplitRule::Equal).window(OPENS, 100 * OPEN_MS);
        let packet = world.open(0, 1, &packet);
        let sale = world.open(0, 2, &sale(5).price(7).window(OPENS, 100 * OPEN_MS));
        let mut orders = Vec::new();
        for name in ["u0", "u1", "u2"] {
            world.granted(0, packet, name);
            orders.push(world.granted(0, sale, name));
        }
        for (n, order) in orders.iter().enumerate() {
            let (order, payment) = (*order, PaymentRef::new(&format!("p-{n}")).unwrap());
            world.play(
                0,
                Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                },
            );
        }
        // Opened twice, granted six times (positions 3 to 8), paid three times. The second share, and the second order.
        let log = world.books[0].logs()[0].to_vec();
        for seq in [5, 6] {
            let entry = &log[seq - 1];
            assert!(matches!(entry.event, Event::Granted { number: 2, .. }));
            world.runtime.block_on(async {
                world
                    .ledger
                    .settle(PARTITION, &log[..seq - 1])
                    .await
                    .unwrap();
                let aside = world
                    .ledger
                    .quarantine(PARTITION, entry, "it was asked for");
                assert_eq!(aside.await, Ok(seq as u64));
            });
        }
        world.settle(0);

        let (found, report) = broken(&url);
        assert_eq!(Vec::from_iter(found), ["nothing_aside"], "{report:#}");
        assert_eq!(report["set_aside"]["refused"], 2);
        assert_eq!(report["set_aside"]["waiting"], 1);
        let checks = report["checks"].as_array().unwrap().iter();
        let mut aside = checks.filter(|check| check["name"] == "nothing_aside");
        let lines = &aside.next().unwrap()["offending"];
        let line = |n: usize| lines[n].as_str().unwrap();
        assert!(
            line(0).starts_with("partition 8: entry 5 (granted 2 u1 1 100"),
            "{lines}"
        );
        assert!(
            line(0).ends_with("was refused: it was asked for"),
            "{lines}"
        );
        assert!(
            line(2).starts_with("partition 8: entry 10 (paid 2 p-1"),
            "{lines}"
        );
        assert!(line(2).ends_with("waits for entry 6"), "{lines}");
        let text = audit(&url).unwrap().to_string();
        let line = "in quarantine: 2 entries that the ledger refused, and 1 that wait; `qiang quarantine list`";
        assert!(text.contains(line), "{text}");

        for seq in [5, 6, 10] {
            let driven = world.ledger.redrive(PARTITION, seq);
            assert_eq!(world.runtime.block_on(driven), Ok(true));
        }
        assert!(assert_sound(&url).get("set_aside").is_none());
    }
}

/// Discarded orders with their payments and returns, before and after the close. The ledger is sound, and the audit
/// checks the refunds due for the payments.
#[test]
fn what_is_discarded_is_proved() {
    for kind in KINDS {
        let url = kind.database();
        let mut world = World::new(async |clock| opened(&url, clock).await);
        let two = sale(2).price(7).window(OPENS, 100 * OPEN_MS);
        let sales = [world.open(0, 1, &two), world.open(0, 2, &two)];
        let orders = sales.map(|sale| world.granted(0, sale, "u1"));
        for (n, order) in orders.iter().enumerate() {
            let (order, payment) = (*order, PaymentRef::new(&format!("p-{n}")).unwrap());
            world.play(
                0,
                Command::Pay {
                    order,
                    payment,
                    paid_at: None,
                    received: ReceivedMoney::Price,
                    cancelled: 0,
                },
            );
        }
        let act = |campaign, action| Command::Act { campaign, action };
        world.play(
            0,
            Command::Return {
                order: orders[0],
                part: None,
            },
        );
        for sale in sales {
            world.granted(0, sale, "u2");
            world.play(0, act(sale.id, CampaignAction::Close));
        }
        world.play(
            0,
            Command::Return {
                order: orders[1],
                part: None,
            },
        );
        let log = world.books[0].logs()[0].to_vec();
        // Opened twice, granted twice.
        for seq in [3, 4] {
            world.runtime.block_on(async {
                let before = &log[..seq - 1];
                world.ledger.settle(PARTITION, before).await.unwrap();
                let entry = &log[seq - 1];
                let aside = world.ledger.quarantine(PARTITION, entry, "asked for");
                assert_eq!(aside.await, Ok(seq as u64));
            });
        }
        world.settle(0);
        let ledger = &world.ledger;
        world.runtime.block_on(async {
            for seq in [3, 4] {
                assert_eq!(ledger.ask_discard(PARTITION, seq).await, Ok(true));
            }
        });
        let (found, report) = broken(&url);
        assert_eq!(Vec::from_iter(found), ["nothing_aside"], "{report:#}");
        world.runtime.block_on(async {
            for seq in [3, 4] {
                assert_eq!(ledger.discard(PARTITION, seq).await, Ok(true));
            }
        });
        let (found, report) = broken(&url);
        assert_eq!(Vec::from_iter(found), ["nothing_aside"], "{report:#}");
        world.runtime.block_on(async {
            let waiting = ledger.list_quarantined(None, 100).await.unwrap();
            for row in waiting {
                let driven = ledger.redrive(PARTITION, row.entry.seq).await;
                assert_eq!(driven, Ok(true), "{row:?}");
            }
        });
        assert_sound(&url);

        drop(world);
        for (breach, expected) in [
            (
                "UPDATE postings SET number = 2 WHERE kind = 'refund_due'",
                "payments_posted",
            ),
            ("UPDATE set_aside SET discard = 0", "nothing_aside"),
            (
                "UPDATE campaigns SET returned = returned - 1 WHERE granted = 1 AND returned = 1",
                "counts_add_up",
            ),
        ] {
            let copy = kind.bare_copy(&url);
            kind.run(&copy, breach);
            let (found, report) = broken(&copy);
            assert!(found.contains(expected), "{breach}: {report:#}");
        }
    }
}
