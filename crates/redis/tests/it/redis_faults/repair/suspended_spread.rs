//! A repair takes a spread campaign out of service if the ledger cannot read it. Other campaigns of its partitions
//! grant again, and so do the shards that lost nothing. The campaign returns once its row is mended and its quarantine
//! is redriven.

use std::collections::HashSet;

use qiang_core::{
    campaign::CampaignKind,
    id::CampaignId,
    ports::{EngineError, QuarantineStore as _, RetireEngine as _, SettlementStore as _},
    split::SplitRule,
};
use qiang_testkit::campaign::Builder;

use super::*;

const UNITS: u32 = 200;
const PAUSE: Duration = Duration::from_millis(20);
/// Users that claim the last units.
const LAST_USERS: usize = 2 * UNITS as usize;

/// Partitions that lose everything.
type Lost = &'static [u16];

/// A spread campaign over two partitions, which the ledger cannot read, and a sale in each partition.
struct Scene {
    server: Standalone,
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    path: std::path::PathBuf,
    bad: Target,
    /// A sale in each partition.
    good: Vec<Target>,
    currency: Option<String>,
    answers: Vec<Answered>,
    users: usize,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn new(kind: CampaignKind) -> Self {
        let server = blocking(|| Standalone::start(&ServerOptions::new()));
        let mut harness = Harness::new(RedisOptions {
            term_grace: Duration::from_millis(600),
            shard_supply_min: UNITS,
            shards_max: 2,
            ..options(server.url())
        })
        .await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        let total = qiang_core::money::Money::new(100 * i64::from(UNITS), currency());
        let id = uuid::Uuid::from_u128(1);
        ledger.deposit(id, &user(OWNER), total).await.unwrap();
        let small = || open_now(sale(UNITS - 1)).price(1).hold_ms(3_600_000);
        let bad = match kind {
            CampaignKind::Sale => open_now(sale(UNITS)).price(1).hold_ms(3_600_000),
            CampaignKind::RedPacket => {
                let split = SplitRule::DoubleAverage { min: 1 };
                open_now(red_packet(total.minor, UNITS, split))
            }
        };
        let mut open = async |builder: Builder| {
            let setup = builder.setup(harness.setups.len() as u64 + 1);
            ledger.create(&setup).await.unwrap();
            harness.open(builder).await
        };
        let bad = open(bad).await;
        let mut good = Vec::new();
        for _ in 0..4 {
            good.push(open(small()).await);
        }
        for node in &harness.nodes {
            node.recall_from(ledger.clone());
        }
        Self {
            server,
            harness,
            ledger,
            path,
            bad,
            good,
            currency: None,
            answers: Vec::new(),
            users: 0,
            _folder: folder,
        }
    }

    fn call(&self, words: &[&str]) -> Option<i64> {
        blocking(|| self.server.primary().call(words).unwrap()).integer()
    }

    fn key(&self, partition: u16, rest: &str) -> String {
        format!("{}:{{p{partition:02}}}:{rest}", self.harness.options.prefix)
    }

    fn is_noted(&self, partition: u16) -> bool {
        let field = format!("unreadable:{}", self.bad.id);
        self.call(&["HEXISTS", &self.key(partition, "partition"), &field]) == Some(1)
    }

    fn has_shard(&self, partition: u16) -> bool {
        let hash = self.key(partition, &format!("c:{}", self.bad.id));
        self.call(&["EXISTS", &hash]) == Some(1)
    }

    async fn grant(&mut self, target: Target, count: usize) {
        let users = self.users..self.users + count;
        self.users += count;
        let claims = users.map(|n| target.one(&name(n))).collect();
        self.answers.extend(self.harness.ask_all(claims).await);
    }

    async fn grant_good(&mut self) {
        for target in self.good.clone() {
            self.grant(target, 5).await;
        }
    }

    /// Further users claim once. Returns how many are granted; all others learn that the campaign is out of service.
    async fn claim_bad(&mut self, count: usize) -> usize {
        let mut granted = 0;
        for n in self.users..self.users + count {
            let (claim, node) = (self.bad.one(&name(n)), &self.harness.nodes[n % 2]);
            match self.harness.record.ask(node, &claim).await {
                Ok(claimed) => {
                    self.answers.push((claim, claimed));
                    granted += 1;
                }
                Err(EngineError::Unavailable { reason }) => {
                    assert!(reason.contains("is out of service"), "{reason}");
                }
                error => panic!("{error:?}"),
            }
        }
        self.users += count;
        granted
    }

    /// Settles or quarantines everything, and reports the position to the nodes.
    async fn settle(&self) {
        let until = Instant::now() + REPAIRED_MAX;
        let node = &self.harness.nodes[1];
        for partition in node.partitions() {
            loop {
                match settle_once(node, &*self.ledger, partition, ENTRIES_MAX).await {
                    Ok(step) if step.settled == step.head => break,
                    step => assert!(Instant::now() < until, "{step:?}"),
                }
                tokio::time::sleep(PAUSE).await;
            }
        }
        let positions = self.ledger.positions().await.unwrap();
        for node in &self.harness.nodes {
            for (partition, settled) in &positions {
                node.note_settled(*partition, *settled);
            }
            node.release_kept(&positions);
        }
    }

    fn set_currency(&self, currency: &str) -> String {
        blocking(|| {
            let file = rusqlite::Connection::open(&self.path).unwrap();
            let id = self.bad.id.to_string();
            let before = "SELECT currency FROM campaigns WHERE id = ?1";
            let before = file.query_row(before, [&id], |row| row.get(0)).unwrap();
            let set = "UPDATE campaigns SET currency = ?2 WHERE id = ?1";
            assert_eq!(file.execute(set, [id.as_str(), currency]), Ok(1));
            before
        })
    }

    fn damage(&mut self) {
        self.currency = Some(self.set_currency("?"));
    }

    fn mend(&mut self) {
        let currency = self.currency.take().unwrap();
        self.set_currency(&currency);
    }

    async fn redrive(&self) -> usize {
        let quarantined = self.ledger.list_quarantined(None, 1_000).await.unwrap();
        for it in &quarantined {
            let redriven = self.ledger.redrive(it.partition, it.entry.seq).await;
            assert_eq!(redriven, Ok(true));
        }
        quarantined.len()
    }

    /// Removes everything of these partitions from Redis, and waits until all nodes have offered their answers.
    async fn lose(&self, lost: Lost) {
        let pattern = |partition| self.key(partition, "*");
        blocking(|| {
            for partition in lost {
                let server = self.server.primary();
                let keys = server.call(&["KEYS", &pattern(*partition)]).unwrap();
                let mut words = vec!["DEL"];
                words.extend(keys.array().iter().filter_map(|it| it.text()));
                server.call(&words).unwrap();
            }
        });
        for partition in lost {
            let has = |field| {
                let state = self.key(*partition, "partition");
                self.call(&["HEXISTS", &state, field]) == Some(1)
            };
            let offered = || {
                blocking(|| {
                    let answers = self.key(*partition, "answers");
                    let answers = self.server.primary().call(&["HVALS", &answers]).unwrap();
                    let texts = answers.array().iter().filter_map(|it| it.text());
                    texts
                        .filter(|it| it.split(' ').count() == 3 && !it.contains('\n'))
                        .count()
                        >= 2
                })
            };
            wait_for("the offers", || has("lost_to") && offered()).await;
        }
    }

    /// Repairs partitions until this holds.
    async fn repaired_until(&self, what: &str, holds: impl Fn() -> bool) {
        let until = Instant::now() + REPAIRED_MAX;
        let mut last = HashSet::new();
        while !holds() {
            for (node, partition) in self.harness.nodes.iter().cycle().zip([0, 1]) {
                let partition = PartitionId(partition);
                let repaired = node.repair(partition, &*self.ledger, false).await;
                if let Err(error) = repaired
                    && last.insert(error.to_string())
                {
                    println!("partition {}: {error}", partition.0);
                }
            }
            assert!(Instant::now() < until, "{what}: {last:?}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn is_open(&self) -> bool {
        let is_open = |node: &RedisEngine, n| node.state(PartitionId(n)) == PartitionHealth::Open;
        let mut nodes = self.harness.nodes.iter();
        nodes.all(|node| is_open(node, 0) && is_open(node, 1))
    }

    /// Repairs what is lost. The campaign leaves the service in these partitions.
    async fn repair(&self, out: Lost) {
        self.repaired_until("the partitions", || self.is_open())
            .await;
        for partition in [0, 1] {
            assert_eq!(self.is_noted(partition), out.contains(&partition));
            assert_eq!(self.has_shard(partition), !out.contains(&partition));
        }
        self.nodes_name(&[self.bad.id]).await;
    }

    async fn nodes_name(&self, campaigns: &[CampaignId]) {
        let named = |node: &RedisEngine| node.campaigns_out_of_service().iter().eq(campaigns);
        wait_for("the campaigns out of service", || {
            self.harness.nodes.iter().all(named)
        })
        .await;
    }

    /// Waits until the campaign grants again without a user's call, and checks that nothing is lost or doubled.
    async fn returned(mut self) {
        let is_whole = |partition| self.has_shard(partition) && !self.is_noted(partition);
        self.repaired_until("the campaign", || {
            is_whole(0) && is_whole(1) && self.is_open()
        })
        .await;
        self.nodes_name(&[]).await;
        let answers = std::mem::take(&mut self.answers);
        self.harness.replay_with_retries(&answers).await;
        self.grant(self.bad, LAST_USERS).await;
        self.grant_good().await;
        self.settle().await;
        let quarantined = self.ledger.list_quarantined(None, 10).await.unwrap();
        assert!(quarantined.is_empty(), "{quarantined:?}");
        let (mut users, mut sold) = (BTreeSet::new(), 0);
        for ((campaign, _), (user, _)) in self.harness.grants() {
            assert!(users.insert((campaign, user)), "a user has two grants");
            sold += u32::from(campaign == self.bad.id);
        }
        assert_eq!(sold, UNITS);
        let node = &self.harness.nodes[0];
        let tally = node.tally(self.bad.id).await.unwrap().unwrap();
        assert!(tally.conserves(), "{tally:?}");
        let units = u64::from(UNITS);
        assert_eq!(
            (tally.supply, tally.granted, tally.remaining),
            (units, units, 0)
        );
        let record = self.ledger.campaign(self.bad.id).await.unwrap().unwrap();
        assert_eq!(record.granted, units);
        for partition in node.partitions() {
            let found = node.differences(partition, self.bad.id, &*self.ledger);
            assert_eq!(found.await.unwrap(), [], "{partition:?}");
        }
    }
}

/// Loses these partitions, and later others, while the ledger cannot read the campaign or has entries of it in
/// quarantine.
async fn leaves_and_returns(kind: CampaignKind, lost: Lost, then: Option<(Lost, bool)>) {
    println!("{kind:?}, {lost:?}, then {then:?}");
    let mut scene = Scene::new(kind).await;
    scene.grant_good().await;
    scene.grant(scene.bad, 20).await;
    scene.settle().await;
    scene.grant_good().await;
    scene.grant(scene.bad, 20).await;
    scene.damage();
    scene.lose(lost).await;
    scene.repair(lost).await;
    scene.grant_good().await;
    let granted = scene.claim_bad(20).await;
    assert_eq!(granted > 0, lost.len() == 1, "{granted}");
    scene.settle().await;
    let mut out = lost;
    match then {
        Some((lost, false)) => {
            scene.lose(lost).await;
            out = if out == lost { out } else { &[0, 1] };
            scene.repair(out).await;
            scene.grant_good().await;
            scene.mend();
        }
        Some((lost, true)) => {
            scene.mend();
            scene.lose(lost).await;
            out = if out == lost { out } else { &[0, 1] };
            scene.repair(out).await;
            scene.grant_good().await;
        }
        None => scene.mend(),
    }
    // Nodes try to reload it, and halt nothing before its entries are redriven.
    scene.claim_bad(20).await;
    assert!(scene.is_open());
    assert!(out.iter().all(|partition| scene.is_noted(*partition)));
    scene.settle().await;
    assert!(scene.redrive().await > 0);
    scene.returned().await;
}

const KINDS: [CampaignKind; 2] = [CampaignKind::Sale, CampaignKind::RedPacket];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_spread_campaign_is_taken_out_of_service_alone() {
    for kind in KINDS {
        leaves_and_returns(kind, &[0, 1], None).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shard_that_lost_nothing_still_grants() {
    for kind in KINDS {
        for lost in [&[0], &[1]] as [Lost; 2] {
            leaves_and_returns(kind, lost, None).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spread_campaign_out_of_service_may_lose_more() {
    let (sale, packet) = (CampaignKind::Sale, CampaignKind::RedPacket);
    leaves_and_returns(packet, &[0, 1], Some((&[0, 1], false))).await;
    leaves_and_returns(sale, &[0, 1], Some((&[0, 1], true))).await;
    leaves_and_returns(sale, &[1], Some((&[1], false))).await;
    for kind in KINDS {
        leaves_and_returns(kind, &[0], Some((&[1], false))).await;
        leaves_and_returns(kind, &[1], Some((&[0], true))).await;
    }
}
