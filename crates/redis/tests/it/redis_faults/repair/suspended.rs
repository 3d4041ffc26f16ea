//! A repair takes a campaign out of service if its row in the ledger is unreadable. Other campaigns of the partition
//! grant again. The campaign does too once its row is mended and its quarantine is redriven.

use std::{
    future::{Future, poll_fn},
    path::PathBuf,
    pin::Pin,
    task::Poll,
};

use qiang_core::{
    id::CampaignId,
    ports::{
        EngineError, QuarantineStore as _, RepairState, RetireEngine as _, SettlementStore as _,
    },
};

use super::*;
use crate::redis_faults::harness::{INSIST_MAX, node, patient};

const UNITS: u32 = 1_000;
const PARTITION: PartitionId = PartitionId(0);
const PAUSE: Duration = Duration::from_millis(20);

/// One partition with two sales, one of them unreadable in the ledger.
struct Scene {
    server: Standalone,
    harness: Harness,
    ledger: Arc<SqliteLedger>,
    path: PathBuf,
    bad: Target,
    good: Target,
    /// The currency before the damage.
    currency: Option<String>,
    _folder: tempfile::TempDir,
}

impl Scene {
    async fn new(options: impl FnOnce(String) -> RedisOptions) -> Self {
        let server = blocking(|| Standalone::start(&ServerOptions::new()));
        let options = RedisOptions {
            partitions: 1,
            term_grace: Duration::from_millis(600),
            ..options(server.url())
        };
        let mut harness = Harness::new(options).await;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let ledger = Arc::new(SqliteLedger::open(&path, ManualClock::new(OPENS)).unwrap());
        let mut targets = Vec::new();
        for n in 1..=2 {
            let builder = open_now(sale(UNITS)).price(1).hold_ms(3_600_000);
            ledger.create(&builder.setup(n)).await.unwrap();
            targets.push(harness.open(builder).await);
        }
        for node in &harness.nodes {
            node.recall_from(ledger.clone());
        }
        Self {
            server,
            harness,
            ledger,
            path,
            bad: targets[0],
            good: targets[1],
            currency: None,
            _folder: folder,
        }
    }

    fn call(&self, words: &[&str]) -> Option<i64> {
        blocking(|| self.server.primary().call(words).unwrap()).integer()
    }

    fn key(&self, rest: &str) -> String {
        format!("{}:{{p00}}:{rest}", self.harness.options.prefix)
    }

    fn has_field(&self, field: &str) -> bool {
        self.call(&["HEXISTS", &self.key("partition"), field]) == Some(1)
    }

    /// Whether a repair has taken the sale out of service and removed its keys.
    fn is_out(&self) -> bool {
        let hash = self.key(&format!("c:{}", self.bad.id));
        self.has_field(&format!("unreadable:{}", self.bad.id))
            && self.call(&["EXISTS", &hash]) == Some(0)
    }

    /// Waits until each node says that these campaigns are out of service, and no others.
    async fn nodes_name(&self, campaigns: &[CampaignId]) {
        let named = |node: &RedisEngine| node.campaigns_out_of_service().iter().eq(campaigns);
        wait_for("the campaigns out of service", || {
            self.harness.nodes.iter().all(named)
        })
        .await;
    }

    async fn grant(&self, target: Target, users: std::ops::Range<usize>) -> Vec<Answered> {
        let claims = users.map(|n| target.one(&name(n))).collect();
        self.harness.ask_all(claims).await
    }

    /// Settles or quarantines everything, and reports the position to the nodes.
    async fn settle(&self) {
        let until = Instant::now() + REPAIRED_MAX;
        let node = &self.harness.nodes[1];
        loop {
            match settle_once(node, &*self.ledger, PARTITION, ENTRIES_MAX).await {
                Ok(step) if step.settled == step.head => break,
                step => assert!(Instant::now() < until, "{step:?}"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        self.tell().await;
    }

    async fn tell(&self) {
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

    async fn redrive(&self) {
        for quarantined in self.ledger.list_quarantined(None, 1_000).await.unwrap() {
            let (partition, seq) = (quarantined.partition, quarantined.entry.seq);
            assert_eq!(self.ledger.redrive(partition, seq).await, Ok(true));
        }
    }

    /// Empties Redis, and waits until all nodes have offered their answers.
    async fn empty(&self, nodes: usize) {
        self.call(&["FLUSHALL"]);
        self.offered(nodes).await;
    }

    async fn offered(&self, nodes: usize) {
        let offered = || {
            blocking(|| {
                let answers = self.server.primary().call(&["HVALS", &self.key("answers")]);
                let answers = answers.unwrap();
                let texts = answers.array().iter().filter_map(|it| it.text());
                // The value is `LOSS ATTEMPT ALL-FROM` once the last chunk is there.
                texts
                    .filter(|it| it.split(' ').count() == 3 && !it.contains('\n'))
                    .count()
                    >= nodes
            })
        };
        wait_for("the offers", || self.has_field("lost_to") && offered()).await;
    }

    async fn all_open(&self) {
        let open = |node: &RedisEngine| node.state(PARTITION) == PartitionHealth::Open;
        wait_for("the partition", || self.harness.nodes.iter().all(open)).await;
    }

    /// Repairs the partition, which leaves the sale out of service.
    async fn repair(&self) {
        let repaired = repaired(&self.harness.nodes[0], &self.ledger).await;
        let Ok(RepairState::Repaired(report)) = repaired else {
            panic!("{repaired:?}");
        };
        assert_eq!((report.out_of_service, report.withheld), (1, 0));
        self.all_open().await;
        assert!(self.is_out());
    }

    async fn check_refused(&self, because: &str) {
        let refused = self.harness.nodes[1].claim(self.bad.one("late")).await;
        let Err(EngineError::Unavailable { reason }) = refused else {
            panic!("{refused:?}");
        };
        assert!(reason.contains(because), "{reason}");
    }

    /// Waits until the sale grants again without a user's call.
    async fn returned(&self) {
        let hash = self.key(&format!("c:{}", self.bad.id));
        wait_for("the sale", || self.call(&["EXISTS", &hash]) == Some(1)).await;
        assert!(!self.has_field(&format!("unreadable:{}", self.bad.id)));
    }

    /// Checks that nothing is lost or doubled.
    async fn check(&self) {
        self.settle().await;
        let quarantined = self.ledger.list_quarantined(None, 10).await.unwrap();
        assert!(quarantined.is_empty(), "{quarantined:?}");
        let mut users = BTreeSet::new();
        for ((campaign, _), (user, _)) in self.harness.grants() {
            assert!(users.insert((campaign, user)), "a user has two grants");
        }
        for target in [self.bad, self.good] {
            let node = &self.harness.nodes[0];
            let tally = node.tally(target.id).await.unwrap().unwrap();
            assert!(tally.conserves(), "{tally:?}");
            let grants = users.iter().filter(|(id, _)| *id == target.id).count();
            let expected = (u64::from(UNITS), grants as u64);
            assert_eq!((tally.supply, tally.granted), expected);
            let record = self.ledger.campaign(target.id).await.unwrap().unwrap();
            assert_eq!(record.granted, tally.granted);
            let found = node.differences(PARTITION, target.id, &*self.ledger).await;
            assert_eq!(found.unwrap(), []);
        }
    }
}

async fn repaired(node: &RedisEngine, ledger: &SqliteLedger) -> Result<RepairState, EngineError> {
    loop {
        match node.repair(PARTITION, ledger, false).await {
            Ok(RepairState::Waiting) => tokio::time::sleep(PAUSE).await,
            repaired => return repaired,
        }
    }
}

/// Polls a future this many times, and returns its output if it is ready by then.
async fn for_polls<F: Future>(mut future: Pin<&mut F>, polls: usize) -> Option<F::Output> {
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

/// Time of a second loss.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Again {
    Never,
    /// While the ledger cannot read the sale.
    Unreadable,
    /// When its row is mended and its entries are still in quarantine.
    Mended,
}

async fn loses_an_unreadable_sale(again: Again) {
    let mut scene = Scene::new(options).await;
    let (bad, good) = (scene.bad, scene.good);
    let mut good_answers = scene.grant(good, 0..20).await;
    let mut bad_answers = scene.grant(bad, 0..20).await;
    scene.settle().await;
    good_answers.extend(scene.grant(good, 20..30).await);
    bad_answers.extend(scene.grant(bad, 20..30).await);
    scene.damage();
    scene.empty(2).await;
    scene.repair().await;
    good_answers.extend(scene.grant(good, 30..40).await);
    scene.harness.replay(&good_answers).await;
    scene.check_refused("out of service").await;
    let quarantined = scene.ledger.list_quarantined(None, 100).await.unwrap();
    let numbers = quarantined.iter().filter_map(|it| it.entry.event.number());
    assert_eq!(numbers.collect::<BTreeSet<u32>>(), (21..=30).collect());
    assert!(quarantined.iter().all(|it| it.entry.campaign == bad.id));
    scene.settle().await;
    if again == Again::Unreadable {
        scene.empty(2).await;
        scene.repair().await;
    }
    scene.mend();
    scene.check_refused("redrive").await;
    if again == Again::Mended {
        scene.empty(2).await;
        scene.repair().await;
        scene.check_refused("redrive").await;
    }
    scene.redrive().await;
    scene.returned().await;
    bad_answers.extend(scene.grant(bad, 30..40).await);
    good_answers.extend(scene.grant(good, 40..50).await);
    scene.harness.replay(&bad_answers).await;
    scene.harness.replay(&good_answers).await;
    scene.check().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_sale_is_taken_out_of_service_alone() {
    loses_an_unreadable_sale(Again::Never).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_sale_stays_out_when_redis_is_emptied_again() {
    loses_an_unreadable_sale(Again::Unreadable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quarantined_sale_stays_out_when_redis_is_emptied_again() {
    loses_an_unreadable_sale(Again::Mended).await;
}

/// Redis has lost nothing, and the log has entries that the ledger refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsettled_entries_of_an_unreadable_sale_are_kept() {
    let mut scene = Scene::new(options).await;
    let mut answers = scene.grant(scene.bad, 0..20).await;
    scene.settle().await;
    answers.extend(scene.grant(scene.bad, 20..30).await);
    let good = scene.grant(scene.good, 0..20).await;
    scene.damage();
    let united = scene.harness.nodes[0]
        .unite(PARTITION, &*scene.ledger)
        .await;
    assert!(matches!(united, Ok(RepairState::Repaired(_))), "{united:?}");
    scene.all_open().await;
    assert!(scene.is_out());
    scene.nodes_name(&[scene.bad.id]).await;
    scene.harness.replay(&good).await;
    scene.check_refused("out of service").await;
    scene.mend();
    scene.redrive().await;
    scene.returned().await;
    scene.nodes_name(&[]).await;
    scene.harness.replay(&answers).await;
    scene.check().await;
}

/// Lost entries that no node can name may belong to the sale, so the partition stays halted until the row is mended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_sale_with_unknown_entries_halts_its_partition() {
    let mut scene = Scene::new(options).await;
    let answers = scene.grant(scene.bad, 0..20).await;
    scene.settle().await;
    // A dead node has observed two more entries.
    let state = scene.key("partition");
    let head = scene.harness.nodes[0].head(PARTITION).await.unwrap();
    let lost = [head + 1, head + 2].map(|seq| seq.to_string());
    scene.call(&["HSET", &scene.key("nodes"), "gone", "0 1 0"]);
    scene.call(&["HSET", &state, "lost_from", &lost[0], "lost_to", &lost[1]]);
    scene.call(&["HSET", &state, "halted", "by the test"]);
    scene.call(&["HDEL", &state, "open"]);
    scene.damage();
    let node = scene.harness.nodes[0].clone();
    let refused = node.repair(PARTITION, &*scene.ledger, true).await;
    let said = refused.as_ref().err().map(ToString::to_string);
    let said = said.is_some_and(|said| said.contains("2 lost entries are unknown"));
    assert!(said, "{refused:?}");
    scene.mend();
    let repaired = node.repair(PARTITION, &*scene.ledger, true).await;
    assert!(
        matches!(repaired, Ok(RepairState::Repaired(_))),
        "{repaired:?}"
    );
    scene.all_open().await;
    scene.harness.replay(&answers).await;
}

/// Fate of a repairer that is stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stopped {
    Gone,
    /// It is killed, and Redis is emptied again.
    GoneAndEmptied,
    /// It continues after another process has repaired the partition.
    Late,
}

/// Stops a repair at every step, and lets another process repair the rest.
async fn stops_everywhere(stopped: Stopped) {
    let mut scene = Scene::new(|url| RedisOptions {
        // No call may fail, even on a busy machine.
        call_timeout: Duration::from_secs(10),
        ..patient(url)
    })
    .await;
    let (mut answers, mut polls, mut granted) = (scene.grant(scene.good, 0..5).await, 1, 0);
    loop {
        answers.extend(scene.grant(scene.bad, granted..granted + 4).await);
        scene.settle().await;
        answers.extend(scene.grant(scene.bad, granted + 4..granted + 10).await);
        granted += 10;
        scene.damage();
        scene.empty(2).await;

        let first = node(&scene.harness.options, &[]).await;
        first.recall_from(scene.ledger.clone());
        tokio::time::sleep(scene.harness.options.term_grace).await;
        let ledger = Arc::clone(&scene.ledger);
        let mut repairing = Box::pin(repaired(&first, &ledger));
        let done = for_polls(repairing.as_mut(), polls).await;
        println!("{stopped:?} after {polls} polls: {done:?}");
        let late = (stopped == Stopped::Late && done.is_none()).then_some(repairing);
        scene.tell().await;
        if stopped == Stopped::GoneAndEmptied {
            scene.call(&["FLUSHALL"]);
            scene.offered(3).await;
        }
        // Simulates the expiry of the dead repairer's lease.
        let key = scene.key("partition");
        scene.call(&["HDEL", &key, "repairer", "repair_until"]);
        let until = Instant::now() + INSIST_MAX;
        let is_open = |node: &RedisEngine| node.state(PARTITION) == PartitionHealth::Open;
        while !scene.harness.nodes.iter().all(is_open) {
            let second = &scene.harness.nodes[1];
            let repaired = second.repair(PARTITION, &*scene.ledger, false).await;
            assert!(repaired.is_ok() || Instant::now() < until, "{repaired:?}");
            assert!(Instant::now() < until, "not repaired in time");
            tokio::time::sleep(PAUSE).await;
        }
        if let Some(late) = late {
            let ended = tokio::time::timeout(INSIST_MAX, late).await;
            println!("the late one: {ended:?}");
        }
        first.abort();
        assert!(scene.is_out());
        scene.mend();
        scene.redrive().await;
        scene.returned().await;
        scene.check().await;
        scene.harness.replay(&answers).await;
        if done.is_some() {
            return;
        }
        polls += 1 + polls / 3;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repairer_of_an_unreadable_sale_may_die_at_every_step() {
    stops_everywhere(Stopped::Gone).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_may_be_emptied_at_every_step_with_an_unreadable_sale() {
    stops_everywhere(Stopped::GoneAndEmptied).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn late_steps_with_an_unreadable_sale_change_nothing() {
    stops_everywhere(Stopped::Late).await;
}
