//! Keys of a partition are deleted, expire, or are overwritten manually. The partition grants again, nothing is granted
//! twice, and holds still expire.

use super::{
    damage::{DAMAGES, Damage},
    *,
};

/// Keys of a partition that belong to no campaign.
const KEYS: [&str; 17] = [
    "agenda",
    "closed",
    "nodes",
    "queue",
    "doing",
    "dead",
    "released",
    "lease",
    "answers",
    "repairs",
    "reconciler",
    "waiting",
    "waiting_all",
    "decider",
    "retirer",
    "log",
    "partition",
];

/// Those of them that are strings.
const STRINGS: [&str; 6] = [
    ":lease",
    ":reconciler",
    ":waiting_all",
    ":decider",
    ":retirer",
    ":entered",
];

/// Each key with each damage, in turn: users with a grant get the same answer, and others get a grant.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_of_a_partition() {
    let world = World::calm(false).await;
    let settling = world.settling();
    let (mut answers, mut users) = (world.grant(0, 20).await, 20);
    for key in KEYS {
        for damage in DAMAGES {
            println!("{key} {damage:?}");
            let keys = TAGS.map(|tag| format!("{}:{{{tag}}}:{key}", world.harness.options.prefix));
            for key in &keys {
                blocking(|| world.damage_partition_key(key, damage, true));
            }
            answers.extend(world.grant(users, users + 10).await);
            for key in &keys {
                blocking(|| world.damage_partition_key(key, damage, false));
            }
            world.granted(users + 10, users + 20, &mut answers).await;
            users += 20;
        }
        world.harness.replay_with_retries(&answers).await;
    }
    world.tallied().await;
    wait_for("open partitions", || {
        let all_open = |node: &RedisEngine| {
            let mut all = node.partitions().into_iter();
            all.all(|partition| node.state(partition) == PartitionHealth::Open)
        };
        world.harness.nodes.iter().all(all_open)
    })
    .await;
    world.harness.replay_with_retries(&answers).await;
    settling.abort();
    drop(settling.await);
    world.check().await;
    world.close().await;
}

/// A hold expires though the agenda was damaged after the order, or is the one from before the order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_expire_without_the_agenda() {
    let mut world = World::calm(false).await;
    for (n, damage) in (3..).zip(DAMAGES) {
        println!("{damage:?}");
        let builder = open_now(sale(10)).price(1).hold_ms(1_000);
        world.ledger.create(&builder.setup(n)).await.unwrap();
        let target = world.harness.open(builder).await;
        let keys = TAGS.map(|tag| format!("{}:{{{tag}}}:agenda", world.harness.options.prefix));
        let home = blocking(|| world.key_of(target, ""));
        let tag = TAGS.into_iter().find(|tag| home.contains(tag)).unwrap();
        let key = keys.into_iter().find(|key| key.contains(tag)).unwrap();
        blocking(|| world.damage_partition_key(&key, damage, true));
        let claimed = world.harness.ask_all(vec![target.one(&name(1))]).await;
        assert!(claimed[0].1.outcome.grant().is_some());
        blocking(|| world.damage_partition_key(&key, damage, false));
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let tally = world.harness.nodes[0].tally(target.id).await.unwrap();
            if tally.unwrap().remaining == 10 {
                break;
            }
            assert!(Instant::now() < until, "the hold has not expired");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl World {
    /// Keeps the value of a key for [`Damage::Older`], before it changes; then damages the key.
    pub(super) fn damage_partition_key(&self, key: &str, damage: Damage, is_before: bool) {
        let older = format!("older:{key}");
        let exists = |key: &str| self.server().call(&["EXISTS", key]).unwrap().integer() == Some(1);
        match damage {
            Damage::Older if is_before => {
                self.call(&["DEL", &older]);
                self.call(&["COPY", key, &older]);
            }
            _ if is_before => {}
            Damage::Older if exists(&older) => self.call(&["COPY", &older, key, "REPLACE"]),
            Damage::Deleted | Damage::Older => self.call(&["DEL", key]),
            Damage::Expired => self.call(&["PEXPIRE", key, "1"]),
            Damage::WrongType => {
                self.call(&["DEL", key]);
                let is_named = |it: &&str| key.contains(it);
                let is_string = [":place:", ":call:", ":mark:"].iter().any(is_named)
                    || STRINGS.iter().any(|it| key.ends_with(it));
                match is_string {
                    true => self.call(&["HSET", key, "a", "hash"]),
                    false => self.call(&["SET", key, "a string"]),
                }
            }
        }
    }

    /// Has these users granted, as soon as their partition grants again.
    async fn granted(&self, from: usize, upto: usize, answers: &mut Vec<Answered>) {
        let granted = self.grant(from, upto);
        let granted = tokio::time::timeout(3 * REPAIRED_MAX, granted).await;
        answers.extend(granted.expect("the partition grants again"));
    }
}
