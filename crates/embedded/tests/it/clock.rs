//! A jump of the clock ends nothing, expires nothing and dates no grant until it has lasted.

use std::time::{Duration, Instant};

use qiang_core::{
    order::OrderState,
    outcome::Outcome,
    ports::{CampaignStore as _, Clock as _, Engine as _},
};
use qiang_embedded::{Embedded, GuardedClock};
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPEN_MS, OPENS, Target, sale},
};

const GLITCH_MS: i64 = 10 * OPEN_MS;
/// Time in which a writer with a due time ticks: it ticks within a second.
const TICKS: Duration = Duration::from_millis(2_500);

/// A grant during a glitch has a time like all others. A campaign and a hold that end during the glitch continue.
#[tokio::test(flavor = "multi_thread")]
async fn a_glitch_of_the_clock_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let wall = ManualClock::new(OPENS);
    let guarded = GuardedClock::from_wall_clock(wall.clone());
    let started = Instant::now();
    let embedded = Embedded::open(&folder.path().join("qiang.db"), guarded.clone()).unwrap();
    let setup = sale(5).setup(1);
    embedded.create(&setup).await.unwrap();
    let target = Target::of(&setup);
    let open = qiang_core::book::Command::Open(Box::new(setup));
    embedded.submit(open).await.unwrap();
    let claim = async |name: &str| match embedded.claim(target.one(name)).await.unwrap().outcome {
        Outcome::Granted(grant) => grant,
        other => panic!("{other:?}"),
    };
    let first = claim("a").await;

    wall.advance(GLITCH_MS);
    let in_glitch = claim("b").await;
    assert!(guarded.jump_ms() > GLITCH_MS / 2);
    tokio::time::sleep(TICKS).await;
    let of = async |grant: qiang_core::outcome::Grant| {
        let view = embedded.order(grant.order_id()).await.unwrap().unwrap();
        view.grant.order.unwrap()
    };
    assert_eq!(of(first).await.state, OrderState::Held);
    wall.advance(-GLITCH_MS);
    let after = claim("c").await;
    let latest = OPENS.plus_millis(started.elapsed().as_millis() as i64);
    for grant in [first, in_glitch, after] {
        assert!((OPENS..=latest).contains(&grant.granted_at), "{grant:?}");
        let hold = of(grant).await.hold_until.millis_since(grant.granted_at);
        assert_eq!(hold, HOLD_MS);
    }
    assert_eq!((guarded.jump_ms(), guarded.now()), (0, OPENS));
    embedded.close();
}
