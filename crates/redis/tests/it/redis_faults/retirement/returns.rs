//! Partial returns of orders, of evicted sales.

use qiang_core::{id::IdempotencyKey, order::ReturnPart, ports::PayoutStore as _};

use super::*;

/// A part of an order is returned. After the eviction of the sale, another part and the rest are returned.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn parts_are_returned_after_the_sale_has_left() {
    let mut scene = Scene::new(here()).await;
    let target = scene
        .open(sale(20).limit(3).price(33).hold_ms(HOLD_MS))
        .await;
    let bought = scene.harness.nodes[0].claim(target.units("ann", 3)).await;
    let order = bought.unwrap().outcome.grant().unwrap().order_id();
    scene
        .command(0, pay(target, order.number, "p"))
        .await
        .unwrap();
    let part = |key| Command::Return {
        order,
        part: Some(ReturnPart {
            quantity: 1,
            key: IdempotencyKey::new(key).unwrap(),
        }),
    };
    scene.command(0, part("k1")).await.unwrap();
    scene.command(0, close(target)).await.unwrap();
    let rest = Command::Return { order, part: None };
    let steps = [
        (part("k1"), OrderState::Paid, 1),
        (part("k2"), OrderState::Paid, 2),
        (part("k1"), OrderState::Paid, 2),
        (rest, OrderState::Returned, 3),
        (part("k2"), OrderState::Returned, 3),
    ];
    for (step, state, units) in steps {
        scene.settle().await;
        scene.look_again(shared().primary(), target);
        scene.retire(0).await;
        assert_eq!(scene.keys_of(shared().primary(), target), [""; 0]);
        let returned = scene.command(1, step).await;
        let Ok(Reply::Returned(view)) = returned else {
            panic!("{returned:?}");
        };
        let order = view.grant.order.unwrap();
        assert_eq!((order.state, order.returned_quantity), (state, units));
    }
    scene.settle().await;
    let record = scene.ledger.campaign(target.id).await.unwrap().unwrap();
    assert_eq!((record.granted, record.returned), (0, 20));
    let owed = scene.ledger.owed(order).await.unwrap();
    assert_eq!(owed[0].due.minor, 99);
}
