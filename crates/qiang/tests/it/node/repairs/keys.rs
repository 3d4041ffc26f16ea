//! A repair restores a user's idempotency keys with the user's orders.

use qiang_core::{
    book::{Claim, Command},
    outcome::Outcome,
    ports::EngineError,
};
use qiang_testkit::campaign::sale;

use crate::node::repairs::world::World;

type Answer = Result<Outcome, EngineError>;

/// More keys than a buyer's row in Redis holds.
const MANY: usize = 12;

pub(crate) async fn a_retry_gets_its_order_after_redis_was_lost(mut world: World) {
    let hold_ms = 3_600_000;
    let three = world.open(sale(1_000).limit(3).hold_ms(hold_ms)).await;
    let one = world.open(sale(1_000).limit(1).hold_ms(hold_ms)).await;
    let many = world.open(sale(1_000).limit(20).hold_ms(hold_ms)).await;
    let long = |n: usize| format!("{n:0>128}");
    let mut claims = vec![
        three.keyed("ann", 1, "first"),
        three.keyed("ann", 1, "second"),
        three.keyed("bob", 2, "first"),
        three.one("eve"),
        one.keyed("ann", 1, "first"),
        one.keyed("bob", 1, "first"),
    ];
    claims.extend((0..MANY).map(|n| many.keyed("ann", 1, &long(n))));
    for claim in &claims {
        let outcome = world.claim(claim.clone()).await;
        assert!(matches!(outcome, Ok(Outcome::Granted(_))), "{outcome:?}");
    }
    // Ann cancels her second order, and her only order of the other sale.
    for order in [three.order(2), one.order(1)] {
        world.submit(Command::Cancel { order, part: None }).await;
    }
    // The same key with another quantity.
    claims.push(three.keyed("bob", 1, "first"));
    claims.retain(|claim| claim.key.is_some());
    let before = ask_all(&world, &claims).await;
    world.settle().await;

    world.lose_everything_but_the_ledger().await;
    assert_eq!(ask_all(&world, &claims).await, before);

    // Other keys give new orders, up to the limit.
    let granted = |answer: &Answer| matches!(answer, Ok(Outcome::Granted(_)));
    let again = [
        three.keyed("ann", 1, "third"),
        three.keyed("ann", 1, "fourth"),
        three.keyed("ann", 1, "fifth"),
        one.keyed("ann", 1, "second"),
    ];
    let answers = ask_all(&world, &again).await;
    assert_eq!(
        answers.iter().map(granted).collect::<Vec<_>>(),
        [true, true, false, true],
        "{answers:?}"
    );
    assert!(
        matches!(answers[2], Ok(Outcome::LimitReached { .. })),
        "{answers:?}"
    );

    // A second loss, with orders that the repaired partition has granted.
    claims.extend([again[0].clone(), again[3].clone()]);
    let before = ask_all(&world, &claims).await;
    world.settle().await;
    world.lose_everything_but_the_ledger().await;
    assert_eq!(ask_all(&world, &claims).await, before);
    world.ledger.close();
}

async fn ask_all(world: &World, claims: &[Claim]) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(claims.len());
    for claim in claims {
        answers.push(world.claim(claim.clone()).await);
    }
    answers
}
