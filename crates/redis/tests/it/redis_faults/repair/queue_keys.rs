//! Keys of a queue are deleted, expire, or are overwritten manually. The queue continues, no user gets two orders, no
//! user waits forever, and the damage is counted.

use qiang_core::{
    book::Claim,
    outcome::Outcome,
    ports::{EngineError, WaitingRoom},
    queue_entry::{QueueDecision, QueueLimits, QueueStatus},
};

use super::{
    damage::{DAMAGES, Damage},
    *,
};

/// Keys of a queue and of the partition's queues. The last one is of one user.
const KEYS: [&str; 6] = [
    "c:ID:line",
    "c:ID:places",
    "c:ID:entered",
    "waiting",
    "waiting_all",
    "c:ID:place:USER",
];
const USERS: usize = 30;
const LIMITS: QueueLimits = QueueLimits {
    entries_max: 1_000,
    partition_entries_max: 1_000,
    result_ttl_ms: 600_000,
};
const LEASE: Duration = Duration::from_secs(5);

/// A sale with a queue, its node, and the home of its keys.
struct Queue<'a> {
    node: &'a RedisEngine,
    target: Target,
    partition: PartitionId,
}

impl Queue<'_> {
    fn claim(&self, user: usize) -> Claim {
        self.target.keyed(&name(user), 1, "queued")
    }

    async fn enter(&self, user: usize) -> Result<Option<QueueStatus>, EngineError> {
        let now = qiang_core::ports::Clock::now(&qiang_embedded::SystemClock);
        self.node.enter(&self.claim(user), now, LIMITS).await
    }

    /// Decides the first entries of all listed queues, as a worker does. Returns their number.
    async fn decide(&self, limit: usize) -> Result<usize, EngineError> {
        let mut count = 0;
        for campaign in self.node.lines(self.partition, LEASE).await?.campaigns {
            let mut decided = Vec::new();
            for place in WaitingRoom::head(self.node, campaign, limit).await?.places {
                let claimed = self.node.claim(place.keyed_claim()).await?;
                decided.push((place, QueueDecision::Claimed(claimed.outcome, claimed.ack)));
            }
            if !decided.is_empty() {
                let now = qiang_core::ports::Clock::now(&qiang_embedded::SystemClock);
                self.node.record(campaign, &decided, now, LIMITS).await?;
            }
            count += decided.len();
        }
        Ok(count)
    }

    /// Result of a user who reads the status, enters again without an entry, and waits.
    async fn result(&self, user: usize) -> Result<Option<Outcome>, EngineError> {
        let claim = self.claim(user);
        match self.node.standing(claim.campaign, &claim.user).await? {
            None => {
                self.enter(user).await?;
                Ok(None)
            }
            Some(QueueStatus::Waiting { .. }) => Ok(None),
            Some(QueueStatus::Decided { decision, .. }) => match decision {
                QueueDecision::Claimed(outcome, _) => Ok(Some(outcome)),
                QueueDecision::KeyReused => {
                    panic!("the key of user {user} was used for another order")
                }
            },
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_of_a_queue() {
    let mut world = World::calm(false).await;
    let mut wrong = Vec::new();
    let mut n = 3;
    for key in KEYS {
        for damage in DAMAGES {
            println!("{key} {damage:?}");
            if let Err(why) = check(&mut world, n, key, damage).await {
                wrong.push(format!("{key} {damage:?}: {why}"));
            }
            n += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

async fn check(world: &mut World, n: u64, key: &str, damage: Damage) -> Result<(), String> {
    let builder = open_now(sale(1_000)).limit(5).price(1).hold_ms(3_600_000);
    world.ledger.create(&builder.setup(n)).await.unwrap();
    let target = world.harness.open(builder).await;
    let node = world.harness.nodes[0].clone();
    let tag = blocking(|| {
        let home = world.key_of(target, "");
        TAGS.into_iter().find(|tag| home.contains(tag)).unwrap()
    });
    let partition = PartitionId(tag[1..].parse().unwrap());
    let queue = Queue {
        node: &node,
        target,
        partition,
    };
    let prefix = &world.harness.options.prefix;
    let key = key
        .replace("ID", &target.id.to_string())
        .replace("USER", &name(1));
    let key = format!("{prefix}:{{{tag}}}:{key}");
    // The kept value has entries that are decided since, and lacks the last ones.
    for user in 0..USERS / 3 {
        queue.enter(user).await.unwrap();
    }
    blocking(|| world.damage_partition_key(&key, damage, true));
    queue.decide(USERS / 3 / 2).await.unwrap();
    for user in USERS / 3..USERS / 3 + USERS / 3 / 2 {
        queue.enter(user).await.unwrap();
    }
    let before = node.rebuilt();
    blocking(|| world.damage_partition_key(&key, damage, false));
    // An expiry is seen by the next command.
    tokio::time::sleep(Duration::from_millis(5)).await;
    for user in USERS / 3 + USERS / 3 / 2..USERS {
        if let Err(error) = queue.enter(user).await {
            println!("user {user}: {error}");
        }
    }
    let until = Instant::now() + Duration::from_secs(10);
    let mut numbers = BTreeSet::new();
    for user in 0..USERS {
        let outcome = loop {
            match queue.result(user).await {
                Ok(Some(outcome)) => break outcome,
                Ok(None) => {}
                Err(error) if Instant::now() < until => println!("user {user}: {error}"),
                Err(error) => return Err(format!("user {user} is stuck: {error}")),
            }
            if Instant::now() >= until {
                return Err(format!("user {user} waits forever"));
            }
            drop(queue.decide(10).await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        let grant = outcome.grant().ok_or(format!("user {user}: {outcome:?}"))?;
        if !numbers.insert(grant.number) {
            return Err(format!("user {user} has the order of another one"));
        }
    }
    let tally = node.tally(target.id).await.unwrap().unwrap();
    if tally.granted != USERS as u64 {
        return Err(format!("{} of {USERS} orders", tally.granted));
    }
    let is_said = node.rebuilt() > before;
    let must_be_said = key.ends_with(":line") || key.ends_with(":places");
    match must_be_said && !is_said {
        true => Err("nothing says that the queue was damaged".to_owned()),
        false => Ok(()),
    }
}
