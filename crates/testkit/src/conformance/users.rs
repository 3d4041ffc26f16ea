//! Users whose ids have letters of any script, and the longest ids and keys.

use qiang_core::{
    id::{IdempotencyKey, KEY_CHARS_MAX, USER_ID_BYTES_MAX, USER_ID_CHARS_MAX},
    ports::{KeyUse, OrderQuery},
    split::SplitRule,
};
use uuid::Uuid;

use super::{Scenario, histories::orders_query};
use crate::campaign::{red_packet, sale, user};

/// Ids as they are answered: normalized.
fn names() -> [String; 6] {
    [
        "李雷".to_owned(),
        "\u{e9}va".to_owned(),
        "👩\u{200d}🚀".to_owned(),
        "नमस्ते".to_owned(),
        "x".repeat(USER_ID_CHARS_MAX),
        "🚀".repeat(USER_ID_CHARS_MAX),
    ]
}

/// Users of any script send, claim, buy, pay and are found, also after a restart. An id is one user however a device
/// composes it.
pub async fn ids_of_any_script_are_users(case: &mut Scenario) {
    let names = names();
    assert_eq!(names[5].len(), USER_ID_BYTES_MAX);
    let sender = names[0].as_str();
    case.deposit(sender, 1_000).await;
    let packet = case
        .open(red_packet(600, 6, SplitRule::Equal).owner(sender))
        .await;
    let shop = case.open(sale(20).limit(2).price(50).owner(sender)).await;
    let key = "k".repeat(KEY_CHARS_MAX);
    let mut grants = Vec::new();
    for name in &names {
        let share = case.granted(packet.one(name)).await;
        let order = case.granted(shop.keyed(name, 2, &key)).await;
        assert_eq!(
            case.outcome(shop.keyed(name, 1, "other")).await,
            "limit_reached"
        );
        let (number, payment) = (order.number, format!("payment-{}", order.number));
        case.pay(shop.order(number), &payment).await;
        grants.push((name, share, order.number));
    }
    // Composed otherwise, it is the same user.
    let composed = case.replayed(packet.one("e\u{301}va")).await;
    assert_eq!(composed, grants[1].1);
    assert_eq!(
        case.outcome(shop.keyed("e\u{301}va", 1, "third")).await,
        "limit_reached"
    );
    case.restart().await;
    for (name, share, number) in &grants {
        assert_eq!(case.replayed(packet.one(name)).await, *share);
        assert_eq!(
            case.replayed(shop.keyed(name, 2, &key)).await.number,
            *number
        );
    }
    case.settle().await;
    for target in [packet, shop] {
        let rows = case.ledger().grants(target.id, 0, 100).await;
        let rows = rows.expect("the ledger answers");
        let mut users: Vec<_> = rows.into_iter().map(|row| row.user.to_string()).collect();
        let mut expected = names.to_vec();
        users.sort_unstable();
        expected.sort_unstable();
        assert_eq!(users, expected);
    }
    for name in &names {
        let query = OrderQuery {
            user: Some(user(name)),
            ..orders_query(10)
        };
        let orders = case.ledger().orders_of(&query).await;
        assert_eq!(orders.expect("the ledger answers").items.len(), 1, "{name}");
    }
    let key = IdempotencyKey::new(&key).expect("a key");
    let used = KeyUse::new(format!("{} POST /x", names[5]), key, [1; 32]);
    let id = Uuid::from_u128(7);
    let bound = case.ledger().bind_key(&used, id).await;
    assert_eq!(bound.map(|bound| bound.id), Ok(id));
    assert_eq!(case.ledger().bound_key(&used).await, Ok(Some(id)));
    for name in &names[1..] {
        assert_eq!(case.balance(name).await, (100, 0), "{name}");
    }
}
