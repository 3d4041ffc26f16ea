//! Holds pause during each downtime of the engine and continue after it.

use std::{path::Path, sync::Arc};

use qiang_core::{
    book::{Command, Grace, PaymentOutcome, Reply},
    id::PaymentRef,
    order::OrderState,
    payment::ReceivedMoney,
    ports::{CampaignStore as _, Engine as _},
    time::Timestamp,
};
use qiang_embedded::{DataFileError, Embedded, EmbeddedOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPENS, Target, sale},
};
use tempfile::TempDir;

fn open(path: &Path, now: Timestamp) -> (Embedded, Arc<ManualClock>) {
    let clock = ManualClock::new(now);
    let options = EmbeddedOptions {
        grace: Grace { ms: 0, since: now },
        ..EmbeddedOptions::default()
    };
    let opened = Embedded::open_with(path, Arc::clone(&clock) as _, options);
    (opened.unwrap(), clock)
}

async fn state(embedded: &Embedded, target: Target, number: u32) -> OrderState {
    let tick = Command::Tick { events_max: 1_000 };
    embedded.submit(tick).await.unwrap();
    let view = embedded.order(target.order(number)).await.unwrap().unwrap();
    view.grant.order.unwrap().state
}

async fn pay(
    embedded: &Embedded,
    target: Target,
    number: u32,
    paid_at: Timestamp,
) -> PaymentOutcome {
    let payment = PaymentRef::new(&format!("payment-{number}")).unwrap();
    let pay = Command::Pay {
        order: target.order(number),
        payment,
        paid_at: Some(paid_at),
        received: ReceivedMoney::Price,
        cancelled: 0,
    };
    match embedded.submit(pay).await.unwrap() {
        Reply::Payment(outcome, _) => outcome,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_go_on_where_they_were_when_the_engine_went_down() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let (mut embedded, mut clock) = open(&path, OPENS);
    let setup = sale(10).setup(1);
    let target = Target::of(&setup);
    embedded.create(&setup).await.unwrap();
    let command = Command::Open(Box::new(setup));
    embedded.submit(command).await.unwrap();
    for name in ["a", "b", "c"] {
        let claimed = embedded.claim(target.one(name)).await.unwrap();
        assert_eq!(claimed.outcome.name(), "granted");
    }
    // Uptime, whether the engine closes in order, and downtime.
    let (mut now, mut up_ms) = (OPENS, 0);
    for (up, is_clean, down) in [
        (10_000, true, 90_000),
        (0, false, 100_000),
        (5_000, true, 1),
    ] {
        now = now.plus_millis(up);
        up_ms += up;
        clock.set(now);
        match is_clean {
            true => embedded.close(),
            false => embedded.abort(),
        }
        drop(embedded);
        now = now.plus_millis(down);
        (embedded, clock) = open(&path, now);
        assert_eq!(state(&embedded, target, 1).await, OrderState::Held);
    }
    let end = now.plus_millis(HOLD_MS - up_ms);
    let before = end.plus_millis(-1);
    clock.set(before);
    for number in 1..=3 {
        assert_eq!(state(&embedded, target, number).await, OrderState::Held);
    }
    let outcome = pay(&embedded, target, 1, before).await;
    assert_eq!(outcome, PaymentOutcome::Paid);
    clock.set(end);
    let outcome = pay(&embedded, target, 2, end).await;
    assert_eq!(outcome, PaymentOutcome::Reinstated, "its hold was over");
    assert_eq!(state(&embedded, target, 3).await, OrderState::Expired);
    embedded.close();
}

/// A refused start dates back neither the newest entry nor its mark: with the right clock, everything is unchanged.
#[tokio::test(flavor = "multi_thread")]
async fn a_clock_behind_the_newest_entry_is_refused() {
    const HOUR_MS: i64 = 3_600_000;
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("qiang.db");
    let open_at = |now: Timestamp| {
        let options = EmbeddedOptions {
            clock_behind_max: std::time::Duration::from_secs(60),
            ..EmbeddedOptions::default()
        };
        Embedded::open_with(&path, ManualClock::new(now), options)
    };
    let embedded = open_at(OPENS).unwrap();
    let setup = sale(10).setup(1);
    let target = Target::of(&setup);
    embedded.create(&setup).await.unwrap();
    let command = Command::Open(Box::new(setup));
    embedded.submit(command).await.unwrap();
    embedded.claim(target.one("ann")).await.unwrap();
    embedded.close();
    for _ in 0..2 {
        let refused = open_at(OPENS.plus_millis(-8 * HOUR_MS)).map(drop);
        assert!(
            matches!(
                refused,
                Err(DataFileError::ClockBehind {
                    behind_s: 28_800,
                    ..
                })
            ),
            "{refused:?}"
        );
    }
    assert!(open_at(OPENS.plus_millis(-60_001)).is_err());
    open_at(OPENS.plus_millis(-60_000)).unwrap().close();
    open_at(OPENS.plus_millis(1_000 * HOUR_MS)).unwrap().close();
}
