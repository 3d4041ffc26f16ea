//! The same for window, limit and price. All shards get the terms of the first one, whichever node dies and whichever
//! shard is repaired.

use qiang_core::{
    campaign::{SaleSettings, SaleSettingsChange},
    outcome::Outcome,
};

use super::*;

fn price(minor: i64) -> SaleSettingsChange {
    SaleSettingsChange {
        unit_price_minor: Some(minor),
        per_user_limit: Some(2),
        ..SaleSettingsChange::default()
    }
}

async fn change(node: &RedisEngine, target: Target, change: SaleSettingsChange) -> SaleSettings {
    let campaign = target.id;
    for _ in 0..ATTEMPTS_MAX {
        match node.submit(Command::SetTerms { campaign, change }).await {
            Ok(Reply::Acted(tally)) => return tally.terms.unwrap(),
            Err(EngineError::Refused(refusal)) => panic!("{refusal}"),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            Ok(other) => panic!("{other:?}"),
        }
    }
    panic!("the terms cannot be changed");
}

impl World {
    /// A shard's terms in Redis: revision, price and limit.
    fn terms_of(&self, partition: PartitionId) -> Vec<i64> {
        let prefix = &self.harness.options.prefix;
        let key = format!("{prefix}:{{p{:02}}}:c:{}", partition.0, self.target.id);
        let field = |name: &str| {
            let reply = blocking(|| shared().primary().call(&["HGET", &key, name]));
            let reply = reply.unwrap();
            reply.text().map_or(0, |text| text.parse::<i64>().unwrap())
        };
        ["terms", "price", "limit"].map(field).into()
    }

    /// Price at which this user is granted one unit.
    async fn cost(&self, name: &str) -> i64 {
        match self.harness.nodes[1].claim(self.target.one(name)).await {
            Ok(claimed) => match claimed.outcome {
                Outcome::Granted(grant) => grant.amount_minor,
                other => panic!("{other:?}"),
            },
            Err(error) => panic!("{error}"),
        }
    }

    async fn settled_price(&self) -> i64 {
        self.settle().await;
        let record = self.ledger.campaign(self.target.id).await.unwrap().unwrap();
        SaleSettings::from_campaign(&record.campaign)
            .unwrap()
            .unit_price_minor
    }
}

/// A node dies at later and later steps of a change. A tick of another node updates all shards, and from then on no
/// unit is granted at another price.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_dies_while_it_changes_the_terms() {
    let mut changed = 0;
    for n in 0..12_u64 {
        let world = World::new(2).await;
        let runtime = blocking(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_all().build().unwrap()
        });
        let options = world.harness.options.clone();
        let connecting = runtime.spawn(async move { node(&options, &[]).await });
        let dying = connecting.await.unwrap();
        let command = Command::SetTerms {
            campaign: world.target.id,
            change: price(300),
        };
        let ticket = dying.submit(command);
        tokio::time::sleep(Duration::from_micros(250 * n)).await;
        runtime.shutdown_background();
        drop(ticket);
        tokio::time::sleep(Duration::from_millis(20)).await;
        let events_max = 1_000;
        while world.harness.nodes[0]
            .submit(Command::Tick { events_max })
            .await
            != Ok(Reply::Ticked { more: false })
        {}
        let (first, second) = world.partitions();
        let terms = world.terms_of(first);
        assert_eq!(world.terms_of(second), terms, "{n}");
        let expected = if terms[0] > 0 { 300 } else { 1 };
        changed += u32::from(terms[0] > 0);
        for user in 0..6 {
            assert_eq!(world.cost(&name(user)).await, expected);
        }
        assert_eq!(world.settled_price().await, expected);
        assert_eq!(
            change(&world.harness.nodes[0], world.target, price(400))
                .await
                .unit_price_minor,
            400
        );
        assert_eq!(world.settled_price().await, 400);
        world.check().await;
    }
    println!("{changed} of 12 nodes had changed them when they died");
}

/// Each shard is repaired in turn, before its last changes are settled. None returns to older terms, and further
/// changes reach it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_is_repaired_with_the_latest_terms() {
    for parts in [1, 2] {
        let world = World::new(parts).await;
        assert_eq!(world.grant(0, 3).await, 3);
        world.settle().await;
        let (first, second) = world.partitions();
        let all: &[PartitionId] = if parts == 1 {
            &[first]
        } else {
            &[first, second]
        };
        let mut cost = 200;
        for part in [all, all].concat() {
            cost += 10;
            change(&world.harness.nodes[0], world.target, price(cost)).await;
            let before = world.terms_of(part);
            world.unite(part).await;
            for part in all {
                assert_eq!(world.terms_of(*part), before);
            }
            assert_eq!(world.cost(&format!("buyer-{cost}")).await, cost);
            world.check().await;
            assert_eq!(world.settled_price().await, cost);
        }
    }
}

/// The log has lost the entry, and the hash has the terms. The repair appends the entry again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn terms_that_only_the_first_part_has_are_said_again() {
    for parts in [1, 2] {
        let world = World::new(parts).await;
        assert_eq!(world.grant(0, 3).await, 3);
        world.settle().await;
        let (first, _) = world.partitions();
        change(&world.harness.nodes[0], world.target, price(250)).await;
        for partition in world.harness.nodes[0].partitions() {
            let prefix = &world.harness.options.prefix;
            let log = format!("{prefix}:{{p{:02}}}:log", partition.0);
            let node = &world.harness.nodes[0];
            let after = world.ledger.settled(partition).await.unwrap();
            for entry in node.read(partition, after, ENTRIES_MAX).await.unwrap() {
                let id = format!("{}-0", entry.seq);
                let deleted = blocking(|| shared().primary().call(&["XDEL", &log, &id]));
                assert_eq!(deleted.unwrap().integer(), Some(1));
            }
        }
        world.unite(first).await;
        if parts == 2 {
            let (_, second) = world.partitions();
            world.unite(second).await;
        }
        assert_eq!(world.settled_price().await, 250);
        assert_eq!(world.cost("late").await, 250);
        world.check().await;
    }
}
