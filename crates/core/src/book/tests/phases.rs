//! The window, pausing, closing: which outcome comes first, and what goes back.

use super::*;

#[test]
fn outcomes_come_in_their_order_of_precedence() {
    // Each step adds a reason that stands before all earlier ones.
    let setup = sale(1, 1, 1);
    let mut bench = Bench::with(std::slice::from_ref(&setup));
    bench.now = START - 1;
    assert_eq!(
        bench.claim(&setup, "a"),
        Outcome::NotStarted {
            starts_at: at(START)
        }
    );
    bench.now = START;
    let Outcome::Granted(grant) = bench.claim(&setup, "a") else {
        panic!()
    };
    assert_eq!(bench.claim(&setup, "b"), Outcome::SoldOut { remaining: 0 });
    assert_eq!(
        bench.claim_with(&setup, "b", 2, None),
        Ok(Outcome::LimitReached { limit: 1, held: 0 })
    );
    bench.act(&setup, CampaignAction::Pause).unwrap();
    assert_eq!(bench.claim(&setup, "b"), Outcome::Paused);
    bench.now = END;
    assert_eq!(bench.claim(&setup, "b"), Outcome::Paused);
    assert_eq!(bench.claim(&setup, "a"), Outcome::AlreadyGranted(grant));
    bench.tick();
    assert_eq!(bench.claim(&setup, "b"), Outcome::Ended);
    let unknown = sale(2, 1, 1);
    assert_eq!(bench.claim(&unknown, "a"), Outcome::UnknownCampaign);
}

#[test]
fn the_window_opens_and_ends_on_the_millisecond() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut bench = Bench::with(std::slice::from_ref(&setup));
    let check = |bench: &mut Bench, now, user: &str, name| {
        bench.now = now;
        assert_eq!(bench.claim(&setup, user).name(), name, "{now}");
    };
    check(&mut bench, START - 1, "a", "not_started");
    check(&mut bench, START, "a", "granted");
    check(&mut bench, END - 1, "b", "granted");
    check(&mut bench, END, "c", "ended");
    // A clock that jumps back reopens the window, but takes nothing back.
    check(&mut bench, START, "c", "granted");
    check(&mut bench, START - 1, "a", "already_granted");
}

#[test]
fn a_tick_closes_what_is_over_and_refunds_once() {
    let setup = packet(1, 100, 5, SplitRule::Equal);
    let mut bench = Bench::with(std::slice::from_ref(&setup));
    bench.claim(&setup, "a");
    bench.now = END - 1;
    bench.tick();
    assert_eq!(bench.tally(&setup).phase, Phase::Live);
    bench.now = END;
    bench.tick();
    let tally = bench.tally(&setup);
    assert_eq!(
        (tally.phase, tally.returned, tally.refunded_minor),
        (Phase::Closed, 4, 80)
    );
    let length = bench.log.len();
    bench.tick();
    bench.act(&setup, CampaignAction::Close).unwrap();
    assert_eq!(bench.log.len(), length, "a closed campaign is closed");
    bench.now = START; // the clock jumps back: what was refunded is not handed out again
    assert_eq!(bench.claim(&setup, "b"), Outcome::Ended);
}

#[test]
fn acting_by_phase() {
    let allowed = |phase: &str, action| match (phase, action) {
        ("scheduled", CampaignAction::Close)
        | ("live" | "paused", _)
        | ("ended" | "closed", CampaignAction::Close) => true,
        (_, CampaignAction::Pause | CampaignAction::Resume | CampaignAction::Close) => false,
    };
    for action in [
        CampaignAction::Pause,
        CampaignAction::Resume,
        CampaignAction::Close,
    ] {
        for phase in ["scheduled", "live", "paused", "ended", "closed"] {
            let setup = packet(1, 100, 5, SplitRule::Equal);
            let mut bench = Bench::with(std::slice::from_ref(&setup));
            match phase {
                "scheduled" => bench.now = START - 1,
                "paused" => drop(bench.act(&setup, CampaignAction::Pause).unwrap()),
                "ended" => bench.now = END,
                "closed" => drop(bench.act(&setup, CampaignAction::Close).unwrap()),
                _ => {}
            }
            assert_eq!(bench.tally(&setup).phase.name(), phase);
            let before = bench.log.len();
            let result = bench.act(&setup, action);
            assert_eq!(
                result.is_ok(),
                allowed(phase, action),
                "{action:?} when {phase}: {result:?}"
            );
            assert!(
                result.is_ok() || bench.log.len() == before,
                "a refused command changes nothing"
            );
        }
    }
}

#[test]
fn a_paused_campaign_goes_on_where_it_was() {
    let setup = sale(1, 5, 1);
    let mut bench = Bench::with(std::slice::from_ref(&setup));
    bench.claim(&setup, "a");
    bench.act(&setup, CampaignAction::Pause).unwrap();
    assert_eq!(bench.claim(&setup, "b"), Outcome::Paused);
    bench.act(&setup, CampaignAction::Resume).unwrap();
    assert_eq!(bench.claim(&setup, "b").grant().unwrap().number, 2);
}

#[test]
fn a_tick_is_bounded_and_says_when_more_is_due() {
    let setups: Vec<_> = (1..=10)
        .map(|n| packet(n, 100, 5, SplitRule::Equal))
        .collect();
    let mut bench = Bench::with(&setups);
    bench.now = END;
    let mut ticks = 0;
    while bench.apply(Command::Tick { events_max: 6 }) == Ok(Reply::Ticked { more: true }) {
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
            .all(|setup| bench.tally(setup).phase == Phase::Closed)
    );
    assert_eq!(bench.book.next_due(), None);
}
