//! Random histories of two engines: one keeps its campaigns in memory, one decides every request from rows.

use qiang_core::{campaign::SaleSettingsChange, split::SplitRule};
use qiang_testkit::campaign::red_packet;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use super::*;

/// A random request for one of these campaigns.
fn request(rng: &mut ChaCha8Rng, engine: &ManualEngine, targets: &[Target]) -> Asked {
    let target = targets[rng.random_range(0..targets.len())];
    let order = target.order(rng.random_range(1..30));
    let key = |rng: &mut ChaCha8Rng| format!("key-{}", rng.random_range(0..3));
    let part = |rng: &mut ChaCha8Rng| {
        rng.random_bool(0.7).then(|| ReturnPart {
            quantity: rng.random_range(1..3),
            key: IdempotencyKey::new(&key(rng)).unwrap(),
        })
    };
    let command = match rng.random_range(0..17) {
        0..6 => {
            let name = format!("user-{}", rng.random_range(0..12));
            let claim = match rng.random_range(0..3) {
                0 => target.one(&name),
                1 => target.units(&name, rng.random_range(1..4)),
                _ => target.keyed(&name, rng.random_range(1..3), &key(rng)),
            };
            return Asked::Claim(engine.ask(claim));
        }
        6 | 7 => Command::Pay {
            order,
            payment: PaymentRef::new(&key(rng)).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        },
        8 => Command::Cancel {
            order,
            part: part(rng),
        },
        9 => Command::Return {
            order,
            part: part(rng),
        },
        10 => Command::ExtendHold {
            order,
            extension_ms: rng.random_range(1..=HOLD_MS),
        },
        11 => Command::Act {
            campaign: target.id,
            action: match rng.random_range(0..20) {
                0 => CampaignAction::Close,
                1..6 => CampaignAction::Pause,
                _ => CampaignAction::Resume,
            },
        },
        12 => Command::SetStock {
            campaign: target.id,
            stock: rng.random_range(20..60),
        },
        13 => Command::SetTerms {
            campaign: target.id,
            change: SaleSettingsChange {
                per_user_limit: Some(rng.random_range(1..5)),
                ..SaleSettingsChange::default()
            },
        },
        14 => Command::SetSale {
            campaign: target.id,
            stock: rng.random_range(20..60),
            change: SaleSettingsChange {
                per_user_limit: Some(rng.random_range(1..5)),
                ..SaleSettingsChange::default()
            },
        }
        .keyed(uuid::Uuid::from_u128(rng.random())),
        _ => {
            let (mut claims, mut tickets) = (Vec::new(), Vec::new());
            for _ in 0..rng.random_range(1..4) {
                let (answer, ticket) = PendingReply::new();
                let name = format!("user-{}", rng.random_range(0..12));
                claims.push((target.one(&name), answer));
                tickets.push(ticket);
            }
            engine.push(WriterTask::Claims(claims));
            return Asked::Claims(tickets);
        }
    };
    Asked::Command(engine.command(command))
}

enum Asked {
    Claim(Answer<Claimed>),
    Claims(Vec<Answer<Claimed>>),
    Command(Answer<Reply>),
}

impl Asked {
    fn answer(self) -> String {
        match self {
            Self::Claim(mut ticket) => format!("{:?}", block_on(&mut ticket)),
            Self::Claims(mut tickets) => {
                let answers: Vec<_> = tickets.iter_mut().map(block_on).collect();
                format!("{answers:?}")
            }
            Self::Command(mut ticket) => format!("{:?}", block_on(&mut ticket)),
        }
    }
}

/// An engine that decides every request from rows gives the same answers, and makes the same entries, as one that keeps
/// its campaigns in memory.
#[test]
fn rows_decide_as_memory_does() {
    let mut from_rows = 0;
    for seed in 0..24 {
        let [kept, evicted] = [false, true].map(|evicts| {
            let mut engine = ManualEngine::new();
            engine.sweep_later();
            engine.writer.absent.large_rows = 0;
            let ack = if seed % 2 == 0 {
                AckLevel::Ledger
            } else {
                AckLevel::Fsync
            };
            let setups = [
                sale(40).limit(3).hold_ms(HOLD_MS).ack(ack).setup(1),
                sale(40).limit(1).price(0).setup(2),
                red_packet(1_000, 9, SplitRule::DoubleAverage { min: 1 })
                    .owner("sender")
                    .setup(3),
                red_packet(1_000, 9, SplitRule::Lazy { min: 1 })
                    .owner("sender")
                    .ack(ack)
                    .setup(4),
            ];
            for setup in &setups {
                engine.open_new(setup);
            }
            let targets: Vec<_> = setups.iter().map(Target::of).collect();
            // A sale without orders has no rows, so it is reloaded.
            for target in &targets {
                drop(engine.ask(target.one("first")));
                engine.turn();
            }
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut answers = Vec::new();
            for step in 0..60 {
                if step == 55 {
                    engine.clock.advance(OPEN_MS);
                }
                engine.clock.advance(rng.random_range(1..=HOLD_MS / 3));
                let asked: Vec<_> = (0..rng.random_range(1..6))
                    .map(|_| request(&mut rng, &engine, &targets))
                    .collect();
                engine.turn();
                while engine.writer.backlog() > 0 || !engine.writer.absent.by_rows.is_empty() {
                    engine.turn();
                }
                answers.extend(asked.into_iter().map(Asked::answer));
                if evicts {
                    for setup in &setups {
                        if engine.has(setup) {
                            engine.forget(setup);
                        }
                    }
                }
            }
            assert_eq!((engine.sent_for(), engine.whole()), (Vec::new(), 0));
            from_rows += engine.writer.absent.asked.read.values().sum::<u32>();
            // Campaigns that are due at once have no order among each other. The note of changed terms begins with the
            // place of the entry.
            let sql = "SELECT concat_ws(' ', at, campaign, kind, number, user, quantity, amount, \
                       CASE kind WHEN 12 THEN substr(note, instr(note, ' ')) ELSE note END) \
                       FROM events ORDER BY campaign, seq";
            let mut entries = engine.reader.prepare(sql).unwrap();
            let entries = entries
                .query_map([], |row| row.get::<_, String>(0))
                .unwrap();
            let entries: Vec<_> = entries.map(Result::unwrap).collect();
            (answers, entries)
        });
        for (place, (kept, evicted)) in kept.0.iter().zip(&evicted.0).enumerate() {
            assert_eq!(kept, evicted, "answer {place} of seed {seed}");
        }
        assert_eq!(kept.1, evicted.1, "entries of seed {seed}");
    }
    assert!(from_rows > 1_000, "{from_rows}");
}
