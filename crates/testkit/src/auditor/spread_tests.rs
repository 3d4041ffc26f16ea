//! Audits of spread campaigns: a sound history passes in any order of its logs, and every planted breach is found.

use qiang_core::{
    book::{CampaignAction, Command, Setup},
    campaign::Phase,
    event::{Entry, Event, PartitionId},
    id::PaymentRef,
    outcome::Outcome,
    payment::ReceivedMoney,
    split::SplitRule,
    time::Timestamp,
};

use super::{History, audit};
use crate::{
    campaign::{HOLD_MS, OPENS, Target, red_packet, sale, user},
    spread::SpreadBook,
};

/// A packet of each kind and a sale, in three shards. Units of the sale return in one shard and are sold again.
fn sound() -> History {
    let setups: Vec<Setup> = vec![
        red_packet(1_000, 9, SplitRule::Lazy { min: 1 }).setup(1),
        red_packet(1_000, 9, SplitRule::DoubleAverage { min: 1 }).setup(2),
        sale(9).limit(3).setup(3),
    ];
    let mut book = SpreadBook::new((0..3).map(PartitionId).collect());
    let play = |book: &mut SpreadBook, now: Timestamp, command: Command| {
        drop(book.apply(now, &command));
    };
    for setup in &setups {
        play(&mut book, OPENS, Command::Open(Box::new(setup.clone())));
        for n in 0..7 {
            let claim = Target::of(setup).one(&format!("u{n}"));
            book.claim(OPENS, &claim).expect("nothing is refused");
        }
    }
    let orders = Target::of(&setups[2]);
    for number in 1..9 {
        let payment = PaymentRef::new("p").expect("well-formed");
        let order = orders.order(number);
        let pay = Command::Pay {
            order,
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        };
        if number % 2 == 0 {
            play(&mut book, OPENS, pay);
        }
    }
    let later = OPENS.plus_millis(HOLD_MS);
    play(&mut book, later, Command::Tick { events_max: 100 });
    for n in 7..14 {
        let claim = orders.one(&format!("u{n}"));
        book.claim(later, &claim).expect("nothing is refused");
    }
    for setup in &setups {
        let (campaign, action) = (setup.campaign.id, CampaignAction::Close);
        play(&mut book, later, Command::Act { campaign, action });
    }
    let tally = |setup: &Setup| {
        let id = setup.campaign.id;
        book.tally(later, id).map(|tally| (id, tally))
    };
    History {
        deposits: vec![(user("owner"), 2_000)],
        logs: book.logs().to_vec(),
        tallies: setups.iter().filter_map(tally).collect(),
        setups,
        ..History::default()
    }
}

fn finds(what: &str, plant: impl FnOnce(&mut History)) {
    let mut history = sound();
    plant(&mut history);
    let breaches = audit(&history).err().unwrap_or_default();
    let found = breaches.iter().any(|breach| breach.contains(what));
    assert!(found, "no breach contains `{what}`: {breaches:#?}");
}

/// Entries of one kind of the `n`-th campaign, in the order of the logs.
fn entries<'a>(history: &'a mut History, n: usize, name: &str) -> Vec<&'a mut Entry> {
    let id = history.setups[n].campaign.id;
    let all = history.logs.iter_mut().flatten();
    all.filter(|entry| entry.campaign == id && entry.event.name() == name)
        .collect()
}

fn number_of(event: &mut Event) -> &mut u32 {
    match event {
        Event::Granted { number, .. } | Event::Paid { number, .. } => number,
        other => panic!("{other:?} has no number"),
    }
}

#[test]
fn a_sound_history_passes_in_any_order_of_its_logs() {
    let mut history = sound();
    assert!(history.logs.iter().all(|log| log.len() > 15));
    for _ in 0..3 {
        let expected = audit(&history).unwrap_or_else(|breaches| panic!("{breaches:#?}"));
        for setup in &history.setups {
            assert_eq!(expected.accounts[&setup.campaign.id].phase(), Phase::Closed);
        }
        history.logs.rotate_left(1);
    }
}

#[test]
fn a_number_given_twice_is_found() {
    finds("was used before", |history| {
        let mut granted = entries(history, 2, "granted");
        let first = *number_of(&mut granted[0].event);
        let last = granted.last_mut().expect("there are some");
        *number_of(&mut last.event) = first;
    });
    finds("a share above the count", |history| {
        let mut granted = entries(history, 0, "granted");
        *number_of(&mut granted[2].event) = 10;
    });
}

#[test]
fn parts_that_contradict_each_other_are_found() {
    finds("opened with another number of shards", |history| {
        entries(history, 0, "opened")[1].event = Event::Opened { parts: 2 };
    });
    finds("opened twice", |history| {
        for entry in entries(history, 0, "opened") {
            entry.event = Event::Opened { parts: 2 };
        }
    });
    finds("happened before the shard was opened", |history| {
        entries(history, 0, "opened")[1].event = Event::Paused;
    });
}

#[test]
fn an_order_in_two_parts_is_found() {
    finds("changed in another shard's log", |history| {
        let mut paid = entries(history, 2, "paid");
        let number = *number_of(&mut paid[0].event);
        let last = paid.last_mut().expect("there are some");
        assert_ne!(*number_of(&mut last.event), number);
        *number_of(&mut last.event) = number;
    });
}

#[test]
fn what_is_lost_when_all_have_closed_is_found() {
    for n in 0..3 {
        finds(
            "the closes did not return exactly what was left",
            |history| {
                if let Event::Closed { returned, .. } = &mut entries(history, n, "closed")[1].event
                {
                    *returned += 1;
                }
            },
        );
    }
    finds(
        "the closes did not return exactly what was left",
        |history| {
            if let Event::Closed { refunded_minor, .. } =
                &mut entries(history, 0, "closed")[1].event
            {
                *refunded_minor -= 1;
            }
        },
    );
    finds("the tally of", |history| {
        // One part has not closed yet. That is no breach, but the engine's tally counts it as closed.
        let id = history.setups[1].campaign.id;
        history.logs[0].retain(|entry| entry.campaign != id || entry.event.name() != "closed");
    });
}

#[test]
fn overselling_in_parts_is_found() {
    finds("more units than the supply", |history| {
        history.setups[2] = sale(7).limit(3).setup(3);
        let id = history.setups[2].campaign.id;
        for log in &mut history.logs {
            log.retain(|entry| entry.campaign != id || entry.event.name() != "closed");
        }
    });
}

/// Two users in two shards get two units each and cancel one order each.
#[test]
fn overselling_that_was_taken_back_is_found() {
    let mut book = SpreadBook::new((0..3).map(PartitionId).collect());
    let setup = sale(4).limit(2).setup(1);
    let target = Target::of(&setup);
    let names: Vec<_> = (0..2)
        .map(|part| {
            let mut names = (0..).map(|n| format!("u{n}"));
            let own = names.find(|name| book.part_of(&user(name)) == part);
            own.expect("names do not end")
        })
        .collect();
    let open = Command::Open(Box::new(setup));
    assert!(book.apply(OPENS, &open).is_ok());
    for (name, key) in [(0, "a"), (0, "b"), (1, "a"), (1, "b")] {
        let outcome = book.claim(OPENS, &target.keyed(&names[name], 1, key));
        assert!(matches!(outcome, Ok(Outcome::Granted(_))), "{outcome:?}");
    }
    // The first order of each shard.
    for order in [target.order(1), target.order(2)] {
        let reply = book.apply(OPENS, &Command::Cancel { order, part: None });
        assert!(reply.is_ok(), "{order:?}: {reply:?}");
    }
    let audit_with_stock = |stock: u32| {
        audit(&History {
            setups: vec![sale(stock).limit(2).setup(1)],
            logs: book.logs().to_vec(),
            ..History::default()
        })
    };
    // With three units, one shard may have been first. With two units, both users cannot have had two, though at the
    // end only two are held.
    assert!(audit_with_stock(3).is_ok());
    let breaches = audit_with_stock(2).expect_err("two units must not suffice");
    assert!(
        breaches[0].contains("no order of its shards' entries"),
        "{breaches:?}"
    );
}

#[test]
fn a_grant_after_the_end_of_its_part_is_found() {
    finds("granted while paused or after the end", |history| {
        let ended = entries(history, 1, "ended")[0].event.clone();
        let mut granted = entries(history, 1, "granted");
        granted[0].event = ended;
    });
}
