//! Work that a retry or a restart finishes, reported acknowledgement levels, and failing engines.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::node::http::common::{Service, call, packet};
use async_trait::async_trait;
use parking_lot::Mutex;
use qiang::{Backend, SystemClock, id_at};
use qiang_core::{
    book::{Claim, Command, OrderView, Reply, Setup},
    campaign::{AckLevel, Campaign, RedPacket, Requirements, Rules, Tally},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, OrderId, UserId},
    outcome::Outcome,
    ports::{
        Claimed, Clock as _, Engine, EngineError, EventLog, Ledger, LedgerError, PendingReply,
        ProbeResult, ReplySender,
    },
    split::{Seed, Split, SplitRule},
    time::{Timestamp, Window},
};
use serde_json::json;

/// Maximum wait. No step takes this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// An engine that accepts no commands, as if the process had just ended.
struct Deaf(Arc<dyn Engine>);

impl Engine for Deaf {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.0.claim(claim)
    }
    fn submit(&self, _: Command) -> PendingReply<Reply> {
        PendingReply::ready(Err(EngineError::Stopping))
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.0.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.0.tally(campaign)
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.0.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.0.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.0.ack_levels()
    }
}

/// A service with an engine that opens nothing, and a draft packet of sam. A process that dies between the commits of
/// ledger and engine leaves such a draft.
async fn with_a_draft() -> (Service, CampaignId) {
    let ledger: Mutex<Option<Arc<dyn Ledger>>> = Mutex::new(None);
    let service = Service::start_with(|_, backend| {
        *ledger.lock() = Some(backend.ports.ledger.clone());
        backend.ports.engine = Arc::new(Deaf(backend.ports.engine.clone()));
    })
    .await;
    service.deposit("sam", 1_000).await;
    let now = SystemClock.now();
    let campaign = Campaign {
        id: CampaignId::new(id_at(now)).unwrap(),
        owner: UserId::new("sam").unwrap(),
        title: "draft".to_owned(),
        // Open at any time, because the service has its own clock.
        window: Window::new(Timestamp::default(), now.plus_millis(100_000_000_000)).unwrap(),
        ack: AckLevel::Fsync,
        requirements: Requirements::default(),
        payment_policy: qiang_core::payment::PaymentPolicy::default(),
        created_at: now,
        rules: Rules::RedPacket(RedPacket::new(
            Split::new(1_000, 2, SplitRule::Equal).unwrap(),
            "CNY".parse().unwrap(),
            Seed::from_bytes([7; 32]),
        )),
    };
    let (id, shares) = (campaign.id, campaign.shares());
    let ledger = ledger.into_inner().unwrap();
    let draft = Setup { campaign, shares };
    ledger.create(&draft).await.unwrap();
    (service, id)
}

/// Waits until a packet is not a draft.
async fn opened(service: &Service, id: CampaignId) {
    let (until, sam) = (Instant::now() + PATIENCE, service.token("sam", "send"));
    loop {
        let seen = service.get(&format!("/v1/red-packets/{id}"), &sam).await;
        if seen.json()["state"]["phase"] != json!("draft") {
            return;
        }
        assert!(Instant::now() < until, "{seen:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// An engine that accepts commands and never answers them.
struct Silent(Arc<dyn Engine>, Arc<Mutex<Vec<ReplySender<Reply>>>>);

impl Engine for Silent {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.0.claim(claim)
    }
    fn submit(&self, _: Command) -> PendingReply<Reply> {
        let (answer, ticket) = PendingReply::new();
        self.1.lock().push(answer);
        ticket
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.0.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.0.tally(campaign)
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.0.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.0.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.0.ack_levels()
    }
}

#[tokio::test]
async fn a_node_serves_while_a_draft_hangs() {
    let (service, _) = with_a_draft().await;
    let asked = Arc::<Mutex<Vec<ReplySender<Reply>>>>::default();
    let starting = service.restart_with(|_, backend| {
        backend.ports.engine = Arc::new(Silent(backend.ports.engine.clone(), asked.clone()));
    });
    let service = tokio::time::timeout(PATIENCE, starting).await;
    let service = service.expect("the start does not wait for drafts");
    let until = Instant::now() + PATIENCE;
    while asked.lock().is_empty() {
        assert!(Instant::now() < until, "the draft is not opened");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for path in ["/healthz", "/readyz"] {
        let reply = call(service.addr, "GET", path, None, &[], None).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_packet_that_was_paid_for_is_opened_at_the_next_start() {
    let (service, id) = with_a_draft().await;
    let sam = service.token("sam", "send");
    assert_eq!(service.balance("sam").await, 0); // in escrow
    let seen = service.get(&format!("/v1/red-packets/{id}"), &sam).await;
    assert_eq!(seen.json()["state"]["phase"], json!("draft"));
    // The engine does not know the packet, but it exists. So the answer is not 404.
    let path = format!("/v1/red-packets/{id}/claims");
    let early = service.act(&path, &service.token("ann", "claim")).await;
    early.assert_problem(503, "unavailable");

    let service = service.restart().await;
    opened(&service, id).await;
    let claimed = service.act(&path, &service.token("ann", "claim")).await;
    assert_eq!(claimed.status, 201);
    assert_eq!(service.balance("sam").await, 0);
    service.stop().await;
}

#[tokio::test]
async fn a_draft_that_cannot_be_opened_keeps_no_node_from_starting() {
    let (service, id) = with_a_draft().await;
    let deaf = |backend: &mut Backend| {
        backend.ports.engine = Arc::new(Deaf(backend.ports.engine.clone()));
    };
    let service = service.restart_with(|_, backend| deaf(backend)).await;
    let until = Instant::now() + PATIENCE;
    loop {
        let ready = call(service.addr, "GET", "/readyz", None, &[], None).await;
        assert_eq!(
            (ready.status, ready.text("status")),
            (200, "ready".to_owned())
        );
        if let Some(why) = ready.json()["upkeep_stuck"].as_str() {
            assert!(why.starts_with("drafts: cannot open campaign "), "{why}");
            break;
        }
        assert!(Instant::now() < until, "{ready:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let service = service.restart().await;
    opened(&service, id).await;
    let path = format!("/v1/red-packets/{id}/claims");
    let claimed = service.act(&path, &service.token("ann", "claim")).await;
    assert_eq!(claimed.status, 201);
    let ready = call(service.addr, "GET", "/readyz", None, &[], None).await;
    assert_eq!(ready.json()["upkeep_stuck"], json!(null));
    service.stop().await;
}

#[tokio::test]
async fn a_grant_says_the_level_it_reached() {
    let service = Service::start().await;
    // The file is written in any case, so no lower level is reported.
    for (asked, reached) in [
        ("memory", "fsync"),
        ("fsync", "fsync"),
        ("ledger", "ledger"),
    ] {
        let id = service
            .red_packet(2, |body| body["ack"] = json!(asked))
            .await;
        let path = format!("/v1/red-packets/{id}/claims");
        let ann = service.token("ann", "claim");
        let (first, again) = (
            service.act(&path, &ann).await,
            service.act(&path, &ann).await,
        );
        assert_eq!((first.status, again.status), (201, 200));
        assert_eq!(
            (first.text("ack"), &first.body),
            (reached.to_owned(), &again.body),
            "{asked}"
        );
    }
    service.stop().await;
}

#[tokio::test]
async fn grants_are_replayed_after_a_restart() {
    let service = Service::start().await;
    let (packet, sale) = (
        service.red_packet(2, |_| ()).await,
        service.sale(2, |_| ()).await,
    );
    let paths = [
        format!("/v1/red-packets/{packet}/claims"),
        format!("/v1/sales/{sale}/orders"),
    ];
    let ann = service.token("ann", "claim");
    let before = [
        service.act(&paths[0], &ann).await,
        service.act(&paths[1], &ann).await,
    ];
    let service = service.restart().await;
    for (path, before) in paths.iter().zip(before) {
        let after = service.act(path, &ann).await;
        assert_eq!(
            (before.status, after.status, before.body),
            (201, 200, after.body)
        );
    }
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_key_sent_many_times_at_once_makes_one_packet() {
    let service = Arc::new(Service::start().await);
    service.deposit("sam", 10_000).await;
    let sam = service.token("sam", "send");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let (service, sam) = (Arc::clone(&service), sam.clone());
        tasks.spawn(async move {
            service
                .post_key("/v1/red-packets", &sam, "k", packet(1_000, 5))
                .await
        });
    }
    let replies = tasks.join_all().await;
    assert_eq!(
        replies.iter().filter(|reply| reply.status == 201).count(),
        1
    );
    let of_first = |field: &str| replies[0].text(field);
    for reply in &replies {
        assert!([200, 201].contains(&reply.status), "{reply:?}");
        assert_eq!(
            (reply.text("id"), reply.text("commitment")),
            (of_first("id"), of_first("commitment"))
        );
    }
    assert_eq!(service.balance("sam").await, 9_000);
}

/// An engine that fails with this error.
struct Ailing(EngineError);

impl Engine for Ailing {
    fn claim(&self, _: Claim) -> PendingReply<Claimed> {
        PendingReply::ready(Err(self.0.clone()))
    }
    fn submit(&self, _: Command) -> PendingReply<Reply> {
        PendingReply::ready(Err(self.0.clone()))
    }
    fn try_gate_outcome(&self, _: &Claim) -> Option<Outcome> {
        None
    }
    fn tally(&self, _: CampaignId) -> PendingReply<Option<Tally>> {
        PendingReply::ready(Err(self.0.clone()))
    }
    fn order(&self, _: OrderId) -> PendingReply<Option<OrderView>> {
        PendingReply::ready(Err(self.0.clone()))
    }
    fn probe(&self, _: PartitionId) -> PendingReply<ProbeResult> {
        PendingReply::ready(Err(self.0.clone()))
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        &[AckLevel::Fsync]
    }
}

#[tokio::test]
async fn an_engine_in_trouble_is_told_apart() {
    let reason = || "the disk is full".to_owned();
    let cases = [
        (EngineError::Overloaded, "overloaded"),
        (EngineError::LedgerShareFull, "overloaded"),
        (EngineError::Unavailable { reason: reason() }, "unavailable"),
        (EngineError::Uncertain { reason: reason() }, "uncertain"),
        (EngineError::Stopping, "stopping"),
        (EngineError::NotAdmitted, "not-admitted"),
    ];
    for (error, kind) in cases {
        let service =
            Service::start_with(|_, backend| backend.ports.engine = Arc::new(Ailing(error))).await;
        let order = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80-1";
        let campaign = &order[..36];
        let claim = service
            .act(
                &format!("/v1/red-packets/{campaign}/claims"),
                &service.token("ann", "claim"),
            )
            .await;
        claim.assert_problem(503, kind);
        assert_eq!(claim.header("retry-after"), "1");
        assert!(!String::from_utf8_lossy(&claim.body).contains("disk"));
        service
            .get(&format!("/v1/orders/{order}"), &service.operator())
            .await
            .assert_problem(503, kind);
        let ready = call(service.addr, "GET", "/readyz", None, &[], None).await;
        assert_eq!(
            (ready.status, ready.text("status")),
            (503, "not_ready".to_owned())
        );
        service.stop().await;
    }
}

/// A log with a second partition that does not answer.
struct Half(Arc<dyn EventLog>);

#[async_trait]
impl EventLog for Half {
    fn partitions(&self) -> Vec<PartitionId> {
        vec![PartitionId(0), PartitionId(1)]
    }
    async fn epoch(&self, partition: PartitionId) -> Result<String, LedgerError> {
        self.0.epoch(partition).await
    }
    async fn head(&self, partition: PartitionId) -> Result<Seq, LedgerError> {
        if partition == PartitionId(0) {
            return self.0.head(partition).await;
        }
        let reason = "no server answers".to_owned();
        Err(LedgerError::Unavailable { reason })
    }
    async fn read(
        &self,
        partition: PartitionId,
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Entry>, LedgerError> {
        self.0.read(partition, after, limit).await
    }
}

#[tokio::test]
async fn a_partition_that_does_not_answer_hides_no_balance() {
    let service = Service::start_with(|_, backend| {
        backend.ports.log = Arc::new(Half(backend.ports.log.clone()));
    })
    .await;
    service.deposit("sam", 10_000).await;
    let reply = service
        .get("/v1/accounts/sam", &service.token("sam", ""))
        .await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let body = reply.json();
    assert_eq!(body["settled"], json!(false));
    assert_eq!(
        body["balances"][0]["available"]["amount"],
        json!(10_000),
        "{body}"
    );
    service.stop().await;
}
