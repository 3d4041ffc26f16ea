//! A hash of a sale is overwritten with an older value that has as many rows.

use qiang_core::{order::OrderState, ports::OperatorEngine as _};

use super::{damage::Damage, *};

/// A buyer with two orders is at the limit, also if the hash of buyers is from before the second one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_stays_at_the_limit_with_an_older_row() {
    let mut world = World::calm(false).await;
    let builder = open_now(sale(1_000)).limit(2).price(1).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let claim = |key: &str| world.harness.ask_all(vec![target.keyed(&name(1), 1, key)]);
    let mut answers = claim("a").await;
    let key = blocking(|| world.key_of(target, ":users"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    answers.extend(claim("b").await);
    let settling = world.settling();
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let third = claim("c").await;
    assert!(third[0].1.outcome.grant().is_none(), "{:?}", third[0].1);
    world.harness.replay(&answers).await;
    settling.abort();
}

/// A repair rebuilds the hash of buyers from before the second order, though no call has noticed it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repair_notices_an_older_row_of_a_buyer() {
    let mut world = World::calm(false).await;
    for repairs in world.repairs.drain(..) {
        repairs.abort();
    }
    let builder = open_now(sale(1_000)).limit(2).price(1).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(3)).await.unwrap();
    let target = world.harness.open(builder).await;
    let claim = |key: &str| world.harness.ask_all(vec![target.keyed(&name(1), 1, key)]);
    let mut answers = claim("a").await;
    let key = blocking(|| world.key_of(target, ":users"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    answers.extend(claim("b").await);
    world.settle().await;
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let node = &world.harness.nodes[0];
    for partition in node.partitions() {
        node.unite(partition, &*world.ledger).await.unwrap();
    }
    let third = claim("c").await;
    assert!(third[0].1.outcome.grant().is_none(), "{:?}", third[0].1);
    world.harness.replay_with_retries(&answers).await;
}

/// A paid order stays paid, also if the hash of orders is from before the payment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paid_order_stays_paid_with_an_older_row() {
    let world = World::calm(false).await;
    let number = world.buy("payer").await;
    let key = blocking(|| world.key_of(world.sale, ":orders"));
    blocking(|| world.damage_partition_key(&key, Damage::Older, true));
    world.pay(number).await;
    let settling = world.settling();
    blocking(|| world.damage_partition_key(&key, Damage::Older, false));
    let until = Instant::now() + REPAIRED_MAX;
    let view = loop {
        match world.harness.nodes[0].order(world.order(number)).await {
            Ok(view) => break view.unwrap(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let state = view.grant.order.map(|order| order.state);
    assert_eq!(state, Some(OrderState::Paid));
    settling.abort();
    drop(settling.await);
    world.check().await;
}

/// The row of a buyer is edited by hand, and it is not the one that was written last. The comparison finds it, and the
/// repair counts the buyer's orders again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edited_row_of_a_buyer_is_found_and_repaired() {
    for is_spread in [false, true] {
        let mut world = World::calm(is_spread).await;
        for repairs in world.repairs.drain(..) {
            repairs.abort();
        }
        let builder = open_now(sale(1_000)).limit(2).price(1).hold_ms(3_600_000);
        world.ledger.create(&builder.setup(3)).await.unwrap();
        let target = world.harness.open(builder).await;
        let claim = |n: usize, key: &str| {
            let claims = vec![target.keyed(&name(n), 1, key)];
            world.harness.ask_all(claims)
        };
        let mut answers = Vec::new();
        for n in 1..=20 {
            answers.extend(claim(n, "a").await);
            answers.extend(claim(n, "b").await);
        }
        world.settle().await;
        assert_eq!(world.found_users(target).await, [""; 0]);

        let user = name(1);
        let key = blocking(|| world.users_key(target, &user));
        blocking(|| {
            let row = world.server().call(&["HGET", &key, &user]).unwrap();
            let row = row.text().unwrap().to_owned();
            let edited = row.replacen("2\t", "0\t", 1);
            assert_ne!(row, edited);
            world.call(&["HSET", &key, &user, &edited]);
        });
        assert_eq!(world.found_users(target).await, [user.as_str()]);
        // A row of a user without orders, and one that is missing.
        let (other, stranger) = (name(2), name(99));
        let other_key = blocking(|| world.users_key(target, &other));
        blocking(|| {
            world.call(&["HDEL", &other_key, &other]);
            world.call(&["HSET", &other_key, &stranger, "2\t0\t1"]);
        });
        let mut all = [user.as_str(), &other, &stranger];
        all.sort_unstable();
        assert_eq!(world.found_users(target).await, all);

        let node = &world.harness.nodes[0];
        for partition in node.partitions() {
            node.unite(partition, &*world.ledger).await.unwrap();
        }
        assert_eq!(world.found_users(target).await, [""; 0]);
        for n in [1, 2] {
            let third = claim(n, "c").await;
            assert!(third[0].1.outcome.grant().is_none(), "{:?}", third[0].1);
        }
        assert!(claim(99, "a").await[0].1.outcome.grant().is_some());
        world.harness.replay_with_retries(&answers).await;
    }
}

impl World {
    /// Users whose units differ from their orders, after a comparison of all rows.
    async fn found_users(&self, target: Target) -> Vec<String> {
        let node = &self.harness.nodes[0];
        let (mut users, time_max) = (Vec::new(), Duration::from_secs(60));
        for partition in node.partitions() {
            let found = node.reconcile(partition, &*self.ledger, time_max).await;
            for difference in found.unwrap().differences {
                assert_eq!(difference.kind, DifferenceKind::UserDiffers, "{difference}");
                assert_eq!(difference.campaign, target.id);
                users.push(difference.user.to_string());
            }
        }
        users.sort();
        users.dedup(); // a user without a row is found by each order
        users
    }

    /// The key of the buyers among whom this user is.
    fn users_key(&self, target: Target, user: &str) -> String {
        let prefix = &self.harness.options.prefix;
        let keys = TAGS.map(|tag| format!("{prefix}:{{{tag}}}:c:{}:users", target.id));
        let has = |key: &String| {
            let reply = self.server().call(&["HEXISTS", key, user]);
            reply.unwrap().integer() == Some(1)
        };
        keys.into_iter().find(has).unwrap()
    }
}
