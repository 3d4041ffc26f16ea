//! Repairs of facts of campaigns: rows, commands and refusals.

use super::{
    at,
    campaigns::{compared, entry, id, kinds, sale},
};
use crate::{
    book::{CampaignAction, Command, SaleCorrection},
    campaign::{CampaignError, CampaignKind, Phase, SaleSettings, SaleSettingsChange},
    event::Event,
    money::Currency,
    payment::PaymentPolicy,
    reconcile::{CampaignFacts, CampaignRefusal, ComparedCampaign, DifferenceKind},
    time::Window,
};

fn rules(policy: PaymentPolicy) -> (Currency, PaymentPolicy) {
    ("CNY".parse().unwrap(), policy)
}

fn commands(found: &ComparedCampaign) -> Result<Vec<Command>, CampaignRefusal> {
    found.commands(60, at(2_000), rules(PaymentPolicy::Owed))
}

fn correct(correction: SaleCorrection) -> Command {
    Command::Correct {
        campaign: id(),
        correction: Box::new(correction),
    }
}

fn terms_of(facts: &CampaignFacts) -> SaleSettings {
    SaleSettings {
        window: facts.window,
        per_user_limit: facts.per_user_limit,
        unit_price_minor: facts.unit_price_minor.unwrap(),
        admission: facts.admission.unwrap(),
    }
}

#[test]
fn the_row_gets_the_engines_facts_and_what_flies_settles_on_top() {
    let flight = [entry(Event::StockChanged { units: 20 })];
    let engine = CampaignFacts {
        supply: Some(120),
        ..sale()
    };
    let row = CampaignFacts {
        supply: Some(150),
        phase: Phase::Paused,
        unit_price_minor: Some(1),
        ..sale()
    };
    let found = compared(engine, row, &flight);
    assert_eq!(found.restated_row(), Ok(sale()));
}

#[test]
fn the_engine_gets_commands() {
    let row = CampaignFacts {
        supply: Some(150),
        phase: Phase::Paused,
        unit_price_minor: Some(1),
        ..sale()
    };
    let campaign = id();
    let change = SaleSettingsChange {
        unit_price_minor: Some(1),
        ..SaleSettingsChange::default()
    };
    let stock = 150;
    let expected = 100;
    let set_stock = correct(SaleCorrection::Stock { expected, stock });
    let expected = terms_of(&sale());
    let set_terms = correct(SaleCorrection::Terms { expected, change });
    let action = CampaignAction::Pause;
    let pause = Command::Act { campaign, action };
    let found = commands(&compared(sale(), row, &[]));
    assert_eq!(found, Ok(vec![set_stock, set_terms, pause]));
}

#[test]
fn a_start_that_moved_after_the_opening_is_restored_until_units_are_sold() {
    let later = CampaignFacts {
        window: Window::new(at(5_000), at(9_000)).unwrap(),
        ..sale()
    };
    let found = compared(sale(), later, &[]);
    let commands = |granted| found.commands(granted, at(2_000), rules(PaymentPolicy::Owed));
    let change = SaleSettingsChange {
        starts_at: Some(at(5_000)),
        ..SaleSettingsChange::default()
    };
    let expected = terms_of(&sale());
    let set_terms = correct(SaleCorrection::Terms { expected, change });
    assert_eq!(commands(0), Ok(vec![set_terms]));
    assert_eq!(commands(1), Err(CampaignError::HasOpened.into()));
}

#[test]
fn what_is_not_repaired_is_refused() {
    let check = |change: fn(&mut CampaignFacts), by_engine: bool, by_ledger: bool| {
        let mut row = sale();
        change(&mut row);
        let found = compared(sale(), row, &[]);
        let got = (found.restated_row().is_ok(), commands(&found).is_ok());
        assert_eq!(got, (by_engine, by_ledger), "{row:?}");
    };
    for phase in [Phase::Draft, Phase::Ended, Phase::Closed] {
        let row = CampaignFacts { phase, ..sale() };
        let found = compared(sale(), row, &[]);
        let refused = matches!(found.restated_row(), Err(CampaignRefusal::Phase { .. }));
        assert!(refused && commands(&found).is_err(), "{phase}");
        let found = compared(row, sale(), &[]);
        assert!(found.restated_row().is_err() && commands(&found).is_err());
    }
    check(|row| row.terms_revision = 3, false, false);
    check(|row| row.hold_ms = 1, true, false);
    // Users have 60 units.
    check(|row| row.supply = Some(59), true, false);
    check(|row| row.supply = Some(60), true, true);
    // The sale has opened, and time 1,500 has passed.
    let window = |from, upto| Window::new(at(from), at(upto)).unwrap();
    let early = CampaignFacts {
        window: window(500, 9_000),
        ..sale()
    };
    assert!(commands(&compared(sale(), early, &[])).is_err());
    let over = CampaignFacts {
        window: window(1_000, 1_500),
        ..sale()
    };
    assert!(commands(&compared(sale(), over, &[])).is_err());
    let packet = CampaignFacts {
        kind: CampaignKind::RedPacket,
        total_minor: Some(1_000),
        ..sale()
    };
    let richer = CampaignFacts {
        total_minor: Some(2_000),
        ..packet
    };
    let found = compared(packet, richer, &[]);
    assert_eq!(found.restated_row(), Err(CampaignRefusal::Money));
    let part = ComparedCampaign {
        parts: 2,
        ..compared(
            sale(),
            CampaignFacts {
                phase: Phase::Paused,
                ..sale()
            },
            &[],
        )
    };
    assert_eq!(part.restated_row(), Err(CampaignRefusal::PartPhase));
}

/// A row's stock was lowered by SQL, and changes in flight lower it further. The sum is not clamped.
#[test]
fn a_row_below_what_is_in_flight_is_restated_exactly() {
    let flight = [entry(Event::StockChanged { units: -10 })];
    let engine = CampaignFacts {
        supply: Some(90),
        ..sale()
    };
    let low = CampaignFacts {
        supply: Some(5),
        ..sale()
    };
    let found = compared(engine, low, &flight);
    assert_eq!(found.ledger.supply, Some(0));
    assert_eq!(found.restated_row(), Ok(sale()));
    let granted = 60;
    let refused = CampaignRefusal::StockGranted { stock: 0, granted };
    assert_eq!(commands(&found), Err(refused));
    let nobody = found.commands(0, at(2_000), rules(PaymentPolicy::Owed));
    assert_eq!(nobody, Err(CampaignError::Stock.into()));
}

#[test]
fn a_row_never_gets_less_than_users_have() {
    let found = |units: i64, granted: u64| ComparedCampaign {
        granted,
        ..compared(
            sale(),
            CampaignFacts {
                supply: Some(150),
                ..sale()
            },
            &[entry(Event::StockChanged { units })],
        )
    };
    let supply = |found: ComparedCampaign| found.restated_row().map(|row| row.supply);
    assert_eq!(supply(found(40, 60)), Ok(Some(60)));
    let refused = |stock, granted| Err(CampaignRefusal::StockInFlight { stock, granted });
    assert_eq!(supply(found(40, 61)), refused(60, 61));
    assert_eq!(supply(found(120, 0)), refused(-20, 0));
    assert_eq!(supply(found(100, 0)), refused(0, 0));
}

/// A change of the terms in flight overwrites terms that were set by SQL. The row gets the previous terms back, or
/// stays.
#[test]
fn terms_under_a_change_in_flight_are_given_back_or_stay() {
    let engine = CampaignFacts {
        unit_price_minor: Some(400),
        terms_revision: 8,
        ..sale()
    };
    let terms = terms_of(&engine);
    let flight = [entry(Event::TermsChanged { revision: 8, terms })];
    let edited = CampaignFacts {
        unit_price_minor: Some(7),
        supply: Some(130),
        ..sale()
    };
    let found = ComparedCampaign {
        terms_before: Some((0, terms_of(&sale()))),
        ..compared(engine, edited, &flight)
    };
    let expected = [DifferenceKind::SupplyDiffers, DifferenceKind::PriceDiffers];
    assert_eq!(kinds(&found), expected);
    assert_eq!(found.restated_row(), Ok(sale()));
    assert_eq!(commands(&found), Err(CampaignRefusal::TermsInFlight));
    // The hash was changed by hand, so the terms before the change are not known.
    let other = CampaignFacts {
        unit_price_minor: Some(9),
        ..engine
    };
    let unknown = compared(other, sale(), &flight);
    assert_eq!(unknown.restated_row(), Err(CampaignRefusal::TermsInFlight));
}

/// Facts that the engine refused are restored in the row, unless they changed in between.
#[test]
fn a_row_gets_back_what_was_not_brought_over() {
    let edited = CampaignFacts {
        unit_price_minor: Some(7),
        supply: Some(130),
        phase: Phase::Paused,
        ..sale()
    };
    let found = compared(sale(), edited, &[]);
    let all = commands(&found).unwrap();
    assert_eq!(all.len(), 3);
    let back = |present: CampaignFacts, commands: &[Command]| {
        found.row_given_back(&sale(), &present, commands)
    };
    // Terms stay, because a change of them may be in flight.
    let edited = CampaignFacts {
        unit_price_minor: sale().unit_price_minor,
        ..edited
    };
    assert_eq!(back(sale(), &all), Some(edited));
    assert_eq!(back(sale(), &[]), None);
    assert!(!found.has_given_back(&edited, &all));
    // The engine has the stock, and it is settled.
    let settled = CampaignFacts {
        supply: Some(130),
        ..sale()
    };
    assert_eq!(back(settled, &all[1..]), Some(edited));
    // Another operator's change of the stock is settled, so its value stays.
    let other = CampaignFacts {
        supply: Some(120),
        ..sale()
    };
    let expected = CampaignFacts {
        supply: Some(120),
        ..edited
    };
    assert_eq!(back(other, &all), Some(expected));
    assert_eq!(back(other, &all[..1]), None);
    // Other operators have changed the terms and the phase.
    let other = CampaignFacts {
        per_user_limit: 1,
        terms_revision: 9,
        phase: Phase::Ended,
        ..sale()
    };
    let expected = CampaignFacts {
        supply: Some(130),
        ..other
    };
    assert_eq!(back(other, &all), Some(expected));
    assert_eq!(back(other, &all[1..]), None);
}

/// A price that was set by SQL does not reach an engine if the sale's payment policy does not allow it.
#[test]
fn a_price_that_the_payment_policy_does_not_allow_is_refused() {
    let found = |price| {
        let row = CampaignFacts {
            unit_price_minor: Some(price),
            ..sale()
        };
        compared(sale(), row, &[])
    };
    let refused = Err(CampaignError::PaymentPolicy.into());
    let within = PaymentPolicy::AcceptWithTolerance(5);
    for (policy, price, is_refused) in [
        (PaymentPolicy::Owed, 0, false),
        (PaymentPolicy::AcceptOver, 0, true),
        (PaymentPolicy::AcceptOver, 1, false),
        (within, 5, true),
        (within, 6, false),
    ] {
        let commands = found(price).commands(60, at(2_000), rules(policy));
        assert_eq!(commands == refused, is_refused, "{policy:?} {price}");
        assert_eq!(commands.is_err(), is_refused, "{policy:?} {price}");
    }
}
