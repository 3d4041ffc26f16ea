//! Readiness, partition by partition: a node is ready while it can serve any of them.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::node::http::common::{Reply, Service, call};
use parking_lot::Mutex;
use qiang_api::{Gauges, Role, Server};
use qiang_core::{
    book::{Claim, Command, OrderView},
    campaign::{AckLevel, Tally},
    event::{PartitionId, Seq},
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{
        Claimed, Engine, EngineError, PendingReply, ProbeResult, QuarantineCount, ReplySender,
    },
    reconcile::{DifferenceKind, PartitionFindings},
    time::Timestamp,
};
use serde_json::json;

/// Reaction of a partition to a probe.
#[derive(Clone)]
enum Does {
    Answer(Result<ProbeResult, EngineError>),
    Hang,
    /// Has stopped, and is not probed.
    Stopped,
}

/// An engine of several partitions. It accepts claims and never answers them.
#[derive(Default)]
struct Parts {
    does: Mutex<Vec<Does>>,
    hanging: Mutex<Vec<ReplySender<ProbeResult>>>,
    claims: Mutex<Vec<ReplySender<Claimed>>>,
    clock_offset: Mutex<Option<f64>>,
    out_of_service: Mutex<u8>,
}

impl Engine for Parts {
    fn claim(&self, _: Claim) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.claims.lock().push(answer);
        ticket
    }
    fn submit(&self, _: Command) -> PendingReply<qiang_core::book::Reply> {
        PendingReply::ready(Err(EngineError::Stopping))
    }
    fn try_gate_outcome(&self, _: &Claim) -> Option<Outcome> {
        None
    }
    fn tally(&self, _: CampaignId) -> PendingReply<Option<Tally>> {
        PendingReply::ready(Ok(None))
    }
    fn order(&self, _: OrderId) -> PendingReply<Option<OrderView>> {
        PendingReply::ready(Ok(None))
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        match &self.does.lock()[usize::from(partition.0)] {
            Does::Answer(answer) => PendingReply::ready(answer.clone()),
            Does::Hang => {
                let (answer, ticket) = PendingReply::new();
                self.hanging.lock().push(answer);
                ticket
            }
            Does::Stopped => panic!("a partition that has stopped is not probed"),
        }
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Memory]
    }
}

impl Gauges for Parts {
    fn queued(&self) -> usize {
        0
    }
    fn positions(&self) -> (Seq, Seq) {
        (0, 0)
    }
    fn stuck(&self) -> Option<String> {
        None
    }
    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        Vec::new()
    }
    fn replicas_missing(&self) -> Vec<(PartitionId, u32)> {
        vec![(PartitionId(0), 0), (PartitionId(3), 2)]
    }
    fn clock_offset_seconds(&self) -> Option<f64> {
        *self.clock_offset.lock()
    }
    fn campaigns_out_of_service(&self) -> BTreeSet<CampaignId> {
        let campaigns = 0..*self.out_of_service.lock();
        campaigns.map(|n| campaign_id(n).parse().unwrap()).collect()
    }
    fn reconciliation(&self) -> Option<Vec<PartitionFindings>> {
        let report = |n, differences: [u64; 5]| PartitionFindings {
            out_of_service: 0,
            partition: PartitionId(n),
            differences: DifferenceKind::FAULTS
                .into_iter()
                .zip(differences)
                .collect(),
            withheld: 10 * u64::from(n) + u64::from(n == 0),
            ran_at: Some(Timestamp::from_millis(1_800_000_000_500)),
            passed_at: None,
        };
        Some(vec![report(0, [1, 0, 0, 2, 0]), report(3, [4, 0, 0, 0, 0])])
    }
    fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
        let stopped = |does: &Does| matches!(does, Does::Stopped).then(|| "lost".to_owned());
        let does = self.does.lock();
        (0..)
            .zip(does.iter())
            .map(|(n, does)| (PartitionId(n), stopped(does)))
            .collect()
    }
}

fn campaign_id(n: u8) -> String {
    format!("01932c07-8e5a-7a3c-9f1e-{n:012}")
}

async fn start(does: Vec<Does>) -> (Service, Arc<Parts>) {
    let parts = Arc::new(Parts::default());
    *parts.does.lock() = does;
    let service = Service::start_with(|_, backend| {
        backend.ports.engine = parts.clone();
        backend.ports.gauges = parts.clone();
    })
    .await;
    (service, parts)
}

async fn get(service: &Service, path: &str) -> Reply {
    call(service.addr, "GET", path, None, &[], None).await
}

fn ready() -> Does {
    Does::Answer(Ok(ProbeResult::Ready))
}

fn failing() -> Does {
    let reason = "no server answers".to_owned();
    Does::Answer(Err(EngineError::Unavailable { reason }))
}

fn degraded() -> Does {
    let reason = "no replica".to_owned();
    Does::Answer(Ok(ProbeResult::Degraded { reason }))
}

#[tokio::test]
async fn a_node_is_ready_while_it_can_serve_any_partition() {
    let does = vec![ready(), failing(), Does::Stopped, degraded(), Does::Hang];
    let (service, _parts) = start(does).await;
    let reply = get(&service, "/readyz").await;
    assert_eq!(
        (reply.status, reply.text("status")),
        (200, "degraded".to_owned())
    );
    let one = |n, status, reason| json!({ "partition": n, "status": status, "reason": reason });
    let listed = json!([
        one(1, "not_ready", "no server answers"),
        one(2, "not_ready", "lost"),
        one(3, "degraded", "no replica"),
        one(4, "not_ready", "it does not answer the probe"),
    ]);
    assert_eq!(reply.json()["partitions"], listed);

    let expected = ["ready", "not_ready", "not_ready", "degraded", "not_ready"];
    for (n, expected) in expected.into_iter().enumerate() {
        let reply = get(&service, &format!("/readyz?partition={n}")).await;
        let status = if expected == "not_ready" { 503 } else { 200 };
        assert_eq!(
            (reply.status, reply.text("status")),
            (status, expected.to_owned())
        );
    }
    get(&service, "/readyz?partition=5")
        .await
        .assert_problem(404, "not-found");
    get(&service, "/readyz?partition=x")
        .await
        .assert_problem(400, "bad-request");
    let metrics = get(&service, "/metrics").await;
    let text = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "qiang_partition_ready{partition=\"0\"} 1\n",
        "qiang_partition_ready{partition=\"2\"} 0\n",
        "qiang_redis_replicas_missing{partition=\"0\"} 0\n",
        "qiang_redis_replicas_missing{partition=\"3\"} 2\n",
        "qiang_engine_stopped 1\n",
        "qiang_reconcile_differences{kind=\"missing_in_ledger\"} 5\n",
        "qiang_reconcile_differences{kind=\"missing_in_engine\"} 0\n",
        "qiang_reconcile_differences{kind=\"double\"} 2\n",
        "qiang_withheld_units 31\n",
        "qiang_reconcile_last_run_timestamp_seconds{partition=\"3\"} 1800000000.5\n",
    ] {
        assert!(text.contains(line), "no {line} in {text}");
    }
    service.stop().await;
}

/// A node is ready although its clock differs from the engine's: campaigns open and end by the engine's clock.
#[tokio::test]
async fn a_clock_that_differs_from_the_engines_is_named() {
    let (service, parts) = start(vec![ready()]).await;
    for (offset, named) in [
        (None, json!(null)),
        (Some(0.75), json!(null)),
        (Some(-0.75), json!(null)),
        (Some(-300.5), json!(-300.5)),
        (Some(1.5), json!(1.5)),
    ] {
        *parts.clock_offset.lock() = offset;
        let reply = get(&service, "/readyz").await;
        assert_eq!(
            (reply.status, reply.text("status")),
            (200, "ready".to_owned())
        );
        assert_eq!(reply.json()["clock_offset_seconds"], named, "{offset:?}");
    }
    service.stop().await;
}

/// The node stays ready: it serves the others.
#[tokio::test]
async fn a_campaign_out_of_service_is_named() {
    let (service, parts) = start(vec![ready()]).await;
    let named = async || {
        let reply = get(&service, "/readyz").await;
        let said = (reply.status, reply.text("status"));
        assert_eq!(said, (200, "ready".to_owned()));
        reply.json()["campaigns_out_of_service"].clone()
    };
    assert_eq!(named().await, json!(null));
    *parts.out_of_service.lock() = 2;
    let ids = [0, 1].map(campaign_id);
    assert_eq!(named().await, json!(ids));
    *parts.out_of_service.lock() = 30;
    assert_eq!(named().await.as_array().map(Vec::len), Some(20));
    service.stop().await;
}

#[tokio::test]
async fn a_node_that_can_serve_none_is_not_ready() {
    for does in [failing(), Does::Stopped, Does::Hang] {
        let (service, parts) = start(vec![failing(), does]).await;
        let reply = get(&service, "/readyz").await;
        let said = (reply.status, reply.text("status"), reply.text("reason"));
        let expected = (503, "not_ready".to_owned(), "no server answers".to_owned());
        assert_eq!(said, expected);
        // A later probe finds the partitions ready.
        *parts.does.lock() = vec![ready(), ready()];
        let until = Instant::now() + Duration::from_secs(60);
        while get(&service, "/readyz").await.text("status") != "ready" {
            assert!(Instant::now() < until, "the node does not become ready");
        }
        service.stop().await;
    }
}

/// Gauges of a worker with some partitions that cannot settle.
struct Settling {
    stuck: Mutex<Vec<u16>>,
}

impl Gauges for Settling {
    fn queued(&self) -> usize {
        0
    }
    fn positions(&self) -> (Seq, Seq) {
        (9, 5)
    }
    fn stuck(&self) -> Option<String> {
        self.partitions()
            .iter()
            .find_map(|(it, _)| self.stuck_in(*it))
    }
    fn stuck_in(&self, partition: PartitionId) -> Option<String> {
        let stuck = self.stuck.lock().contains(&partition.0);
        stuck.then(|| format!("partition {}: it fails", partition.0))
    }
    fn quarantine(&self) -> Vec<(PartitionId, QuarantineCount)> {
        Vec::new()
    }
    fn partitions(&self) -> Vec<(PartitionId, Option<String>)> {
        let lost = |n| (n == 2).then(|| "lost".to_owned());
        (0..3).map(|n| (PartitionId(n), lost(n))).collect()
    }
}

/// A worker stays ready for other partitions while one partition cannot settle.
#[tokio::test]
async fn a_worker_is_ready_while_it_can_settle_any_partition() {
    let stuck = Mutex::new(vec![1]);
    let gauges = Arc::new(Settling { stuck });
    let config = qiang::NodeConfig::defaults().unwrap().server;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let worker = Server::start_operation(config, Role::Worker, gauges.clone(), listener).unwrap();
    let get = async |path: &str| call(worker.addr(), "GET", path, None, &[], None).await;
    let reply = get("/readyz").await;
    let said = (reply.status, reply.text("status"));
    assert_eq!(said, (200, "degraded".to_owned()));
    assert_eq!(reply.text("settlement_stuck"), "partition 1: it fails");
    let one = |n, reason| json!({ "partition": n, "status": "not_ready", "reason": reason });
    let listed = json!([one(1, "partition 1: it fails"), one(2, "lost")]);
    assert_eq!(reply.json()["partitions"], listed);
    for (n, expected) in [(0, 200), (1, 503), (2, 503), (3, 404)] {
        let reply = get(&format!("/readyz?partition={n}")).await;
        assert_eq!(reply.status, expected, "{n}: {reply:?}");
    }
    *gauges.stuck.lock() = vec![0, 1];
    let reply = get("/readyz").await;
    let said = (reply.status, reply.text("status"));
    assert_eq!(said, (503, "not_ready".to_owned()));
    worker.shutdown(async { Ok(()) }).await.unwrap();
}

/// A claim ends with its client's connection. If it was not sent to the engine's servers yet, it is not decided.
#[tokio::test]
async fn a_client_that_goes_abandons_its_claim() {
    let service = Service::start().await;
    let path = format!("/v1/sales/{}/orders", service.sale(9, |_| ()).await);
    let parts = Arc::new(Parts::default());
    let service = service
        .restart_with(|_, backend| backend.ports.engine = parts.clone())
        .await;
    let (addr, token) = (service.addr, service.token("ann", "claim"));
    let client = tokio::spawn(async move {
        call(addr, "POST", &path, Some(&token), &[], None).await;
    });
    let until = Instant::now() + Duration::from_secs(60);
    let wait = async |so: &dyn Fn(&[ReplySender<Claimed>]) -> bool| {
        while !so(&parts.claims.lock()) {
            assert!(Instant::now() < until, "the engine does not see the change");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    wait(&|claims| claims.len() == 1).await;
    assert!(!parts.claims.lock()[0].is_abandoned());
    client.abort();
    wait(&|claims| claims[0].is_abandoned()).await;
    service.stop().await;
}
