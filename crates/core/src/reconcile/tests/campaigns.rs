//! Facts of campaigns: differences, and changes in flight.

use crate::{
    admission::AdmissionBound,
    campaign::{AckLevel, CampaignKind, Phase, SaleSettings},
    event::{Entry, Event, PartitionId},
    id::CampaignId,
    reconcile::{CampaignFacts, ComparedCampaign, DifferenceKind},
    time::{Timestamp, Window},
};

pub(super) fn window(ends_at: i64) -> Window {
    let instant = Timestamp::from_millis;
    Window::new(instant(1_000), instant(ends_at)).unwrap()
}

pub(super) fn sale() -> CampaignFacts {
    CampaignFacts {
        kind: CampaignKind::Sale,
        phase: Phase::Scheduled,
        supply: Some(100),
        total_minor: None,
        window: window(9_000),
        per_user_limit: 2,
        unit_price_minor: Some(500),
        hold_ms: 60_000,
        admission: Some(AdmissionBound::from_percent(150).unwrap()),
        ack: AckLevel::Memory,
        terms_revision: 0,
    }
}

pub(super) fn compared(
    engine: CampaignFacts,
    row: CampaignFacts,
    in_flight: &[Entry],
) -> ComparedCampaign {
    let campaign = id();
    let place = (campaign, PartitionId(0));
    ComparedCampaign::new(place, (1, 0), (engine, row), row.phase, in_flight, (7, 9))
}

pub(super) fn id() -> CampaignId {
    "00000000-0001-7000-8000-000000000000".parse().unwrap()
}

pub(super) fn entry(event: Event) -> Entry {
    Entry {
        seq: 8,
        at: Timestamp::from_millis(2_000),
        campaign: id(),
        event,
    }
}

pub(super) fn kinds(compared: &ComparedCampaign) -> Vec<DifferenceKind> {
    compared.differences().iter().map(|it| it.kind).collect()
}

#[test]
fn each_fact_that_differs_is_named() {
    type Change = fn(&mut CampaignFacts);
    let changes: [(DifferenceKind, Change); 9] = [
        (DifferenceKind::PhaseDiffers, |it| it.phase = Phase::Paused),
        (DifferenceKind::SupplyDiffers, |it| it.supply = Some(101)),
        (DifferenceKind::WindowDiffers, |it| {
            it.window = window(9_001)
        }),
        (DifferenceKind::LimitDiffers, |it| it.per_user_limit = 3),
        (DifferenceKind::PriceDiffers, |it| {
            it.unit_price_minor = Some(1)
        }),
        (DifferenceKind::HoldDiffers, |it| it.hold_ms = 1),
        (DifferenceKind::AdmissionDiffers, |it| {
            it.admission = Some(AdmissionBound::from(None));
        }),
        (DifferenceKind::AckDiffers, |it| it.ack = AckLevel::Replica),
        (DifferenceKind::TermsRevisionDiffers, |it| {
            it.terms_revision = 5
        }),
    ];
    assert_eq!(kinds(&compared(sale(), sale(), &[])), []);
    for (kind, change) in changes {
        let mut row = sale();
        change(&mut row);
        assert_eq!(kinds(&compared(sale(), row, &[])), [kind]);
        assert_eq!(kinds(&compared(row, sale(), &[])), [kind]);
    }
}

#[test]
fn a_fact_that_one_side_does_not_state_is_not_compared() {
    let part = CampaignFacts {
        supply: None,
        ..sale()
    };
    assert_eq!(kinds(&compared(part, sale(), &[])), []);
}

#[test]
fn a_change_in_flight_is_no_difference() {
    let terms = SaleSettings {
        window: window(8_000),
        per_user_limit: 4,
        unit_price_minor: 400,
        admission: AdmissionBound::from_percent(150).unwrap(),
    };
    let flight = [
        entry(Event::StockChanged { units: -10 }),
        entry(Event::TermsChanged { revision: 8, terms }),
        entry(Event::Paused),
    ];
    let engine = CampaignFacts {
        phase: Phase::Paused,
        supply: Some(90),
        window: window(8_000),
        per_user_limit: 4,
        unit_price_minor: Some(400),
        terms_revision: 8,
        ..sale()
    };
    assert_eq!(kinds(&compared(engine, sale(), &flight)), []);
    // A change by hand is a difference.
    let raised = CampaignFacts {
        supply: Some(150),
        ..sale()
    };
    let found = compared(engine, raised, &flight);
    assert_eq!(kinds(&found), [DifferenceKind::SupplyDiffers]);
    let opened = CampaignFacts {
        phase: Phase::Draft,
        ..sale()
    };
    let open = [entry(Event::Opened { parts: 1 })];
    assert_eq!(kinds(&compared(sale(), opened, &open)), []);
    assert_eq!(
        kinds(&compared(sale(), opened, &[])),
        [DifferenceKind::PhaseDiffers]
    );
}

#[test]
fn a_part_that_has_not_followed_yet_has_other_terms() {
    let row = CampaignFacts {
        terms_revision: 6,
        unit_price_minor: Some(400),
        ..sale()
    };
    let part = |index| ComparedCampaign {
        parts: 2,
        index,
        ..compared(sale(), row, &[])
    };
    assert_eq!(kinds(&part(1)), []);
    let expected = [
        DifferenceKind::PriceDiffers,
        DifferenceKind::TermsRevisionDiffers,
    ];
    assert_eq!(kinds(&part(0)), expected);
}

fn terms(price: i64) -> SaleSettings {
    SaleSettings {
        window: window(9_000),
        per_user_limit: 2,
        unit_price_minor: price,
        admission: sale().admission.unwrap(),
    }
}

/// The row has a price that was set by SQL, and a change of the terms is in flight. Settlement would overwrite that
/// price, and keep it as the price of earlier orders.
#[test]
fn a_row_changed_under_a_change_in_flight_differs() {
    let flight = [entry(Event::TermsChanged {
        revision: 8,
        terms: terms(400),
    })];
    let engine = CampaignFacts {
        unit_price_minor: Some(400),
        terms_revision: 8,
        ..sale()
    };
    let edited = CampaignFacts {
        unit_price_minor: Some(7),
        ..sale()
    };
    let found = |row, terms_before| ComparedCampaign {
        terms_before,
        ..compared(engine, row, &flight)
    };
    let before = Some((0, terms(500)));
    assert_eq!(kinds(&found(sale(), before)), []);
    let found_edited = found(edited, before);
    assert_eq!(kinds(&found_edited), [DifferenceKind::PriceDiffers]);
    let difference = &found_edited.differences()[0];
    let texts = (&*difference.engine, &*difference.ledger);
    assert_eq!(texts, ("500 before a change in flight", "7"));
    // The engine does not know the terms at the row's revision.
    assert_eq!(kinds(&found(edited, None)), []);
    assert_eq!(kinds(&found(edited, Some((5, terms(500))))), []);
}
