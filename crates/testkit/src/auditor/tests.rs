//! Audits of one log: a sound history passes, and every planted breach is found.

use qiang_core::{
    book::{Book, CampaignAction, Claim, Command, Reply, Setup},
    campaign::Phase,
    event::{Entry, Event},
    id::PaymentRef,
    outcome::Outcome,
    payment::ReceivedMoney,
    split::{Seed, SplitRule},
    time::Timestamp,
};

use super::{Exchange, History, Reveal, audit};
use crate::campaign::{HOLD_MS, OPENS, Target, red_packet, sale, user};

/// Applies commands to a book and records the history.
struct Player {
    book: Book,
    history: History,
    log: Vec<Entry>,
}

impl Player {
    fn play(&mut self, now: Timestamp, command: Command) -> Reply {
        let reply = self.book.apply(now, &command, &mut self.log);
        let reply = reply.expect("nothing is refused here");
        let exchange = Exchange::Command(command, Ok(reply.clone()));
        self.history.exchanges.push(exchange);
        reply
    }

    fn claim(&mut self, claim: Claim) {
        let outcome = self.book.claim(OPENS, &claim, &mut self.log);
        let outcome = Ok(outcome.expect("nothing is refused here"));
        self.history.exchanges.push(Exchange::Claim(claim, outcome));
    }
}

/// Two red packets and a sale, with entries of every kind.
fn sound() -> History {
    let packet = red_packet(1_000, 5, SplitRule::Lazy { min: 1 }).setup(1);
    let equal = red_packet(1_000, 4, SplitRule::Equal).setup(2);
    let sale = sale(6).limit(3).setup(3);
    let mut player = Player {
        book: Book::new(),
        history: History {
            complete: true,
            in_order: true,
            deposits: vec![(user("owner"), 2_000)],
            ..History::default()
        },
        log: Vec::new(),
    };
    let open = |setup: &Setup| Command::Open(Box::new(setup.clone()));
    for setup in [&packet, &equal, &sale] {
        player.play(OPENS, open(setup));
    }
    for name in ["a", "b", "a"] {
        player.claim(Target::of(&packet).one(name));
        player.claim(Target::of(&equal).one(name));
    }
    let orders = Target::of(&sale);
    for (name, quantity, key) in [("a", 2, "x"), ("a", 1, "y"), ("b", 1, "x"), ("a", 2, "x")] {
        player.claim(orders.keyed(name, quantity, key));
    }
    let pay = |number: u32, payment: &str| Command::Pay {
        order: orders.order(number),
        payment: PaymentRef::new(payment).expect("well-formed"),
        paid_at: None,
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    let order = orders.order(2);
    for command in [
        pay(1, "p"),
        pay(1, "p"),
        pay(1, "q"),
        Command::Cancel { order, part: None },
    ] {
        player.play(OPENS, command);
    }
    let events_max = 100;
    let later = OPENS.plus_millis(HOLD_MS);
    player.play(later, Command::Tick { events_max });
    player.play(later, pay(3, "late"));
    for (setup, action) in [
        (&sale, CampaignAction::Pause),
        (&sale, CampaignAction::Resume),
        (&packet, CampaignAction::Close),
    ] {
        let campaign = setup.campaign.id;
        player.play(later, Command::Act { campaign, action });
    }
    let tally = |setup: &Setup| {
        let id = setup.campaign.id;
        player.book.tally(later, id).map(|tally| (id, tally))
    };
    let tallies = [&packet, &equal, &sale].into_iter().filter_map(tally);
    player.history.tallies = tallies.collect();
    player.history.reveals = vec![reveal(&packet, player.log.len() as u64)];
    player.history.logs = vec![player.log];
    player.history.setups = vec![packet, equal, sale];
    player.history
}

fn reveal(packet: &Setup, upto: u64) -> Reveal {
    let id = packet.campaign.id;
    let of = packet.campaign.rules.red_packet().expect("a packet");
    Reveal {
        campaign: id,
        commitment: of.commitment(id),
        seed: of.seed.clone(),
        upto,
    }
}

fn finds(what: &str, plant: impl FnOnce(&mut History)) {
    let mut history = sound();
    plant(&mut history);
    let breaches = audit(&history).err().unwrap_or_default();
    let found = breaches.iter().any(|breach| breach.contains(what));
    assert!(found, "no breach contains `{what}`: {breaches:#?}");
}

fn event(history: &mut History, name: &str) -> usize {
    let log = &history.logs[0];
    let found = log.iter().position(|entry| entry.event.name() == name);
    found.expect("the history has one")
}

fn nth_granted(history: &mut History, n: usize) -> &mut Event {
    let granted = |event: &&mut Event| matches!(event, Event::Granted { .. });
    let events = history.logs[0].iter_mut().map(|entry| &mut entry.event);
    events.filter(granted).nth(n).expect("there are as many")
}

#[test]
fn a_sound_history_passes() {
    let history = sound();
    let expected = audit(&history).unwrap_or_else(|breaches| panic!("{breaches:#?}"));
    let packet = &expected.accounts[&history.setups[0].campaign.id];
    assert_eq!(packet.returned(), 3);
    assert_eq!(packet.phase(), Phase::Closed);
    // The owner spent all on red packets. Then the rest of one packet returned, and two payments for three units
    // arrived.
    let owner = expected.balances[&user("owner")];
    assert_eq!(owner, (packet.refunded_minor() + 300, 0));
    assert_eq!(expected.balances[&user("a")].1, 200);
}

#[test]
fn a_gap_in_the_log_is_found() {
    finds("is at position", |history| {
        history.logs[0].remove(4);
    });
}

#[test]
fn a_second_share_is_found() {
    finds("more than the limit", |history| {
        if let Event::Granted { user: of, .. } = nth_granted(history, 2) {
            *of = user("a");
        }
    });
}

#[test]
fn overselling_is_found() {
    finds("more units than the supply", |history| {
        history.setups[2] = sale(3).limit(3).setup(3);
    });
}

#[test]
fn invented_money_is_found() {
    finds("not the next planned share", |history| {
        if let Event::Granted { amount_minor, .. } = nth_granted(history, 1) {
            *amount_minor += 1;
        }
    });
    finds(
        "the closes did not return exactly what was left",
        |history| {
            let place = event(history, "closed");
            if let Event::Closed { refunded_minor, .. } = &mut history.logs[0][place].event {
                *refunded_minor -= 1;
            }
        },
    );
}

#[test]
fn a_lost_grant_is_found() {
    finds("the log does not contain this grant", |history| {
        let place = history.logs[0].len();
        let lost = sound()
            .exchanges
            .into_iter()
            .find_map(|exchange| match exchange {
                Exchange::Claim(claim, Ok(Outcome::Granted(mut grant))) => {
                    grant.number = place as u32;
                    Some(Exchange::Claim(claim, Ok(Outcome::Granted(grant))))
                }
                _ => None,
            });
        history.exchanges.extend(lost);
    });
    finds("no answer contains grant 1", |history| {
        let granted =
            |exchange: &Exchange| matches!(exchange, Exchange::Claim(_, Ok(Outcome::Granted(_))));
        let place = history.exchanges.iter().position(granted);
        history
            .exchanges
            .remove(place.expect("something was granted"));
    });
}

#[test]
fn a_retry_with_another_amount_is_found() {
    finds("amount", |history| {
        for exchange in &mut history.exchanges {
            if let Exchange::Claim(_, Ok(Outcome::AlreadyGranted(grant))) = exchange {
                grant.amount_minor += 1;
            }
        }
    });
}

#[test]
fn a_grant_answered_twice_is_found() {
    finds("was made 2 times", |history| {
        for exchange in &mut history.exchanges {
            if let Exchange::Claim(_, Ok(outcome)) = exchange
                && let Outcome::AlreadyGranted(grant) = outcome
            {
                *outcome = Outcome::Granted(*grant);
            }
        }
    });
}

#[test]
fn a_payment_that_counts_twice_is_found() {
    finds("one payment counted twice", |history| {
        let place = event(history, "refund_due");
        if let Event::RefundDue { payment, .. } = &mut history.logs[0][place].event {
            *payment = PaymentRef::new("p").expect("well-formed");
        }
    });
}

#[test]
fn an_early_expiry_is_found() {
    finds("expired before", |history| {
        let place = event(history, "expired");
        history.logs[0][place].at = OPENS;
    });
}

#[test]
fn a_grant_outside_the_window_is_found() {
    finds("outside the window", |history| {
        history.logs[0][3].at = OPENS.plus_millis(-1);
    });
}

#[test]
fn a_wrong_tally_is_found() {
    finds("the tally of", |history| history.tallies[0].1.granted += 1);
}

#[test]
fn a_user_who_is_told_otherwise_is_found() {
    let finds = |outcome: Outcome| {
        finds("an earlier answer was grant 1", |history| {
            for exchange in &mut history.exchanges {
                if let Exchange::Claim(_, Ok(told)) = exchange
                    && matches!(told, Outcome::AlreadyGranted(_))
                {
                    *told = outcome;
                }
            }
        });
    };
    finds(Outcome::Ended);
    finds(Outcome::UnknownCampaign);
}

#[test]
fn a_seed_that_proves_nothing_is_found() {
    finds("whose seed was shown", |history| {
        history.reveals[0].upto = event(history, "granted") as u64;
    });
    finds("is not the one committed to", |history| {
        history.reveals[0].seed = Seed::from_bytes([8; 32]);
    });
    // The commitment is of the other seed too.
    finds("does not follow from its seed", |history| {
        let other = red_packet(1_000, 5, SplitRule::Lazy { min: 1 }).seed(8);
        history.reveals[0] = reveal(&other.setup(1), 1_000);
    });
    finds("does not follow from its seed", |history| {
        let other = red_packet(1_000, 5, SplitRule::DoubleAverage { min: 1 });
        let (mut setup, id) = (other.setup(1), history.setups[0].campaign.id);
        let of_it = |entry: &&Entry| entry.campaign == id;
        let amount = |entry: &Entry| match entry.event {
            Event::Granted { amount_minor, .. } => Some(amount_minor),
            _ => None,
        };
        // The planned shares are set to the granted ones.
        let entries = history.logs[0].iter().filter(of_it);
        setup.shares = entries.filter_map(amount).collect();
        history.setups[0] = setup;
        history.reveals[0] = reveal(&other.seed(8).setup(1), 1_000);
    });
    finds("which is no red packet", |history| {
        history.reveals[0].campaign = history.setups[2].campaign.id;
    });
}
