//! Window, pause and close: precedence of outcomes, and the rest that returns to the owner.

use super::*;

#[test]
fn outcomes_come_in_their_order_of_precedence() {
    // Each step adds a reason that precedes all earlier ones.
    let setup = sale(1, 1, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.now = START - 1;
    assert_eq!(
        fixture.claim(&setup, "a"),
        Outcome::NotStarted {
            starts_at: at(START)
        }
    );
    fixture.now = START;
    let Outcome::Granted(grant) = fixture.claim(&setup, "a") else {
        panic!()
    };
    assert_eq!(
        fixture.claim(&setup, "b"),
        Outcome::SoldOut { remaining: 0 }
    );
    assert_eq!(
        fixture.claim_with(&setup, "b", 2, None),
        Ok(Outcome::LimitReached { limit: 1, held: 0 })
    );
    fixture.act(&setup, CampaignAction::Pause).unwrap();
    assert_eq!(fixture.claim(&setup, "b"), Outcome::Paused);
    fixture.now = END;
    assert_eq!(fixture.claim(&setup, "b"), Outcome::Paused);
    assert_eq!(fixture.claim(&setup, "a"), Outcome::AlreadyGranted(grant));
    fixture.tick();
    assert_eq!(fixture.claim(&setup, "b"), Outcome::Ended);
    let unknown = sale(2, 1, 1);
    assert_eq!(fixture.claim(&unknown, "a"), Outcome::UnknownCampaign);
}

#[test]
fn the_window_opens_and_ends_on_the_millisecond() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    let check = |fixture: &mut Fixture, now, user: &str, name| {
        fixture.now = now;
        assert_eq!(fixture.claim(&setup, user).name(), name, "{now}");
    };
    check(&mut fixture, START - 1, "a", "not_started");
    check(&mut fixture, START, "a", "granted");
    check(&mut fixture, END - 1, "b", "granted");
    check(&mut fixture, END, "c", "ended");
    // A clock that jumps back reopens the window, but undoes no grant.
    check(&mut fixture, START, "c", "granted");
    check(&mut fixture, START - 1, "a", "already_granted");
}

#[test]
fn a_tick_closes_what_is_over_and_refunds_once() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.now = END - 1;
    fixture.tick();
    assert_eq!(fixture.tally(&setup).phase, Phase::Live);
    fixture.now = END;
    fixture.tick();
    let tally = fixture.tally(&setup);
    assert_eq!(
        (tally.phase, tally.returned, tally.refunded_minor),
        (Phase::Closed, 4, 80)
    );
    let length = fixture.log.len();
    fixture.tick();
    fixture.act(&setup, CampaignAction::Close).unwrap();
    assert_eq!(
        fixture.log.len(),
        length,
        "closing a closed campaign writes no entry"
    );
    fixture.now = START; // the clock jumps back: refunded shares are not granted again
    assert_eq!(fixture.claim(&setup, "b"), Outcome::Ended);
}

#[test]
fn acting_by_phase() {
    let allowed = |phase: &str, action| match (phase, action) {
        ("paused", CampaignAction::Start) => false,
        ("scheduled" | "live" | "paused", _) | ("ended" | "closed", CampaignAction::Close) => true,
        _ => false,
    };
    for action in [
        CampaignAction::Pause,
        CampaignAction::Resume,
        CampaignAction::Start,
        CampaignAction::Close,
    ] {
        for phase in ["scheduled", "live", "paused", "ended", "closed"] {
            let setup = sale(1, 5, 1);
            let mut fixture = Fixture::with(std::slice::from_ref(&setup));
            match phase {
                "scheduled" => fixture.now = START - 1,
                "paused" => drop(fixture.act(&setup, CampaignAction::Pause).unwrap()),
                "ended" => fixture.now = END,
                "closed" => drop(fixture.act(&setup, CampaignAction::Close).unwrap()),
                _ => {}
            }
            assert_eq!(fixture.tally(&setup).phase.name(), phase);
            let before = fixture.log.len();
            let result = fixture.act(&setup, action);
            assert_eq!(
                result.is_ok(),
                allowed(phase, action),
                "{action:?} when {phase}: {result:?}"
            );
            assert!(
                result.is_ok() || fixture.log.len() == before,
                "a refused command changes nothing"
            );
        }
    }
}

/// A campaign that is paused before its start stays paused at its start. A resume before the start waits for it.
#[test]
fn a_scheduled_campaign_is_paused_and_resumed() {
    for setup in [sale(1, 5, 1), packet(1, 100, 5, SplitRule::Equal)] {
        let mut fixture = Fixture::with(std::slice::from_ref(&setup));
        fixture.now = START - 2;
        fixture.act(&setup, CampaignAction::Pause).unwrap();
        assert_eq!(fixture.claim(&setup, "a"), Outcome::Paused);
        fixture.now = START;
        assert_eq!(fixture.claim(&setup, "a"), Outcome::Paused);
        fixture.now = START - 1;
        fixture.act(&setup, CampaignAction::Resume).unwrap();
        assert_eq!(fixture.tally(&setup).phase, Phase::Scheduled);
        let written = fixture.log.len();
        fixture.act(&setup, CampaignAction::Resume).unwrap();
        assert_eq!(
            fixture.log.len(),
            written,
            "a repeated resume writes nothing"
        );
        assert_eq!(fixture.claim(&setup, "a").name(), "not_started");
        fixture.now = START;
        assert_eq!(fixture.claim(&setup, "a").name(), "granted");
    }
}

/// A scheduled sale starts at the moment of the command, and ends when it would have ended.
#[test]
fn a_scheduled_sale_starts_now() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.now = START - 7;
    fixture.act(&setup, CampaignAction::Start).unwrap();
    let tally = fixture.tally(&setup);
    let window = tally.terms.unwrap().window;
    assert_eq!(
        (tally.phase, window.starts_at()),
        (Phase::Live, at(START - 7))
    );
    assert_eq!(window.ends_at(), at(END));
    fixture.claim(&setup, "a").grant().unwrap();
    let written = fixture.log.len();
    fixture.now = START - 3;
    fixture.act(&setup, CampaignAction::Start).unwrap();
    assert_eq!(
        fixture.log.len(),
        written,
        "a repeated start writes nothing"
    );
    fixture.act(&setup, CampaignAction::Pause).unwrap();
    assert!(fixture.act(&setup, CampaignAction::Start).is_err());
    let setup = packet(2, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    for now in [START - 1, START, END] {
        fixture.now = now;
        let refused = fixture.act(&setup, CampaignAction::Start);
        assert_eq!(
            refused,
            Err(Refusal::UnknownCampaign),
            "a packet has no terms, {now}"
        );
    }
}

fn set_start(fixture: &mut Fixture, setup: &Setup, millis: i64) -> Result<Reply, Refusal> {
    fixture.apply(Command::SetTerms {
        campaign: setup.campaign.id,
        change: SaleSettingsChange {
            starts_at: Some(at(millis)),
            ..SaleSettingsChange::default()
        },
    })
}

/// The start of an opened sale can be moved until it grants units.
#[test]
fn the_start_moves_until_units_are_granted() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.now = START + 5;
    set_start(&mut fixture, &setup, START + 10).unwrap();
    assert_eq!(fixture.tally(&setup).phase, Phase::Scheduled);
    assert_eq!(fixture.claim(&setup, "a").name(), "not_started");
    let past = set_start(&mut fixture, &setup, START + 4);
    assert_eq!(past, Err(Refusal::Rules(CampaignError::InThePast)));
    fixture.now = START + 10;
    let order = fixture.claim(&setup, "a");
    let number = order.grant().unwrap().number;
    for _ in 0..2 {
        let moved = set_start(&mut fixture, &setup, START + 20);
        assert_eq!(moved, Err(Refusal::Rules(CampaignError::HasOpened)));
        // An order that was cancelled was sold before.
        let order = fixture.order(&setup, number);
        fixture
            .apply(Command::Cancel { order, part: None })
            .unwrap();
    }
}

/// A user who did not receive the reply to a pause repeats it after the window is over.
#[test]
fn a_pause_is_done_until_the_campaign_is_closed() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.act(&setup, CampaignAction::Pause).unwrap();
    let before = fixture.log.len();
    fixture.now = END;
    assert!(fixture.act(&setup, CampaignAction::Pause).is_ok());
    assert_eq!(fixture.tally(&setup).phase, Phase::Ended);
    assert_eq!(
        fixture.log.len(),
        before,
        "a repeated pause writes no entry"
    );
    fixture.tick();
    assert!(fixture.act(&setup, CampaignAction::Pause).is_err());
}

#[test]
fn a_paused_campaign_goes_on_where_it_was() {
    let setup = sale(1, 5, 1);
    let mut fixture = Fixture::with(std::slice::from_ref(&setup));
    fixture.claim(&setup, "a");
    fixture.act(&setup, CampaignAction::Pause).unwrap();
    assert_eq!(fixture.claim(&setup, "b"), Outcome::Paused);
    fixture.act(&setup, CampaignAction::Resume).unwrap();
    assert_eq!(fixture.claim(&setup, "b").grant().unwrap().number, 2);
}

#[test]
fn a_tick_is_bounded_and_says_when_more_is_due() {
    let setups: Vec<_> = (1..=10)
        .map(|n| packet(n, 100, 5, SplitRule::Equal))
        .collect();
    let mut fixture = Fixture::with(&setups);
    fixture.now = END;
    let mut ticks = 0;
    while fixture.apply(Command::Tick { events_max: 6 }) == Ok(Reply::Ticked { more: true }) {
        ticks += 1;
        assert!(ticks < 100, "ticks make progress");
    }
    assert!(
        ticks >= 3,
        "ten campaigns of two events do not fit in {ticks} ticks of six"
    );
    assert!(
        setups
            .iter()
            .all(|setup| fixture.tally(setup).phase == Phase::Closed)
    );
    assert_eq!(fixture.book.next_due(), None);
}

#[test]
fn the_stock_is_raised_and_lowered_down_to_what_is_granted() {
    let setup = sale(1, 10, 3);
    let packet = packet(2, 100, 5, SplitRule::Equal);
    let mut fixture = Fixture::with(&[setup.clone(), packet.clone()]);
    let set = |fixture: &mut Fixture, setup: &Setup, stock| {
        let campaign = setup.campaign.id;
        let before = fixture.log.len();
        let reply = fixture.apply(Command::SetStock { campaign, stock });
        (reply, fixture.log.len() - before)
    };
    let check = |fixture: &mut Fixture, stock, remaining, entries| {
        let (reply, logged) = set(fixture, &setup, stock);
        let Ok(Reply::Acted(tally)) = reply else {
            panic!("{reply:?}")
        };
        assert_eq!((tally.supply, tally.remaining), (stock, remaining));
        assert_eq!(logged, entries, "{stock}");
    };
    let refused = |fixture: &mut Fixture, setup: &Setup, stock| {
        let (reply, logged) = set(fixture, setup, stock);
        assert_eq!(logged, 0);
        reply.unwrap_err()
    };
    assert!(matches!(
        fixture.claim_with(&setup, "a", 3, None),
        Ok(Outcome::Granted(_))
    ));
    assert!(matches!(
        fixture.claim_with(&setup, "b", 3, None),
        Ok(Outcome::Granted(_))
    ));
    check(&mut fixture, 12, 6, 1);
    check(&mut fixture, 12, 6, 0);
    check(&mut fixture, 6, 0, 1);
    assert_eq!(
        fixture.claim_with(&setup, "c", 1, None),
        Ok(Outcome::SoldOut { remaining: 0 })
    );
    let least = Refusal::StockGranted { least: 6 };
    assert_eq!(refused(&mut fixture, &setup, 5), least);
    let rules = |error| Refusal::Rules(error);
    assert_eq!(
        refused(&mut fixture, &setup, 0),
        rules(CampaignError::Stock)
    );
    assert_eq!(
        refused(&mut fixture, &setup, 2),
        rules(CampaignError::Limit)
    );
    assert_eq!(refused(&mut fixture, &packet, 9), Refusal::UnknownCampaign);
    check(&mut fixture, 7, 1, 1);
    assert!(matches!(
        fixture.claim_with(&setup, "c", 1, None),
        Ok(Outcome::Granted(_))
    ));
    fixture.act(&setup, CampaignAction::Pause).unwrap();
    check(&mut fixture, 8, 1, 1);
    fixture.act(&setup, CampaignAction::Close).unwrap();
    assert!(matches!(
        refused(&mut fixture, &setup, 9),
        Refusal::Phase(_)
    ));
    check(&mut fixture, 8, 0, 0);
}
