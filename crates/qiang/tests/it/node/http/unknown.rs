//! Campaigns that do not exist: requests do not query engine and ledger each time.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use crate::node::http::common::{Service, call};
use parking_lot::Mutex;
use qiang::Backend;
use qiang_api::id_at;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply, Setup},
    campaign::{AckLevel, Campaign, Details, Requirements, Rules, Sale, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId, UserId},
    money::Money,
    outcome::Outcome,
    ports::{Claimed, Clock as _, Engine, PendingReply, ProbeResult},
    time::Window,
};

/// An engine that counts queries of a campaign's numbers.
struct Counted(Arc<dyn Engine>, Arc<AtomicUsize>);

impl Engine for Counted {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.0.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<Reply> {
        self.0.submit(command)
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.0.try_gate_outcome(claim)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.1.fetch_add(1, Ordering::Relaxed);
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

/// A service, its backend, and the number of queries to its engine.
async fn counted(unknown_campaign_ttl_ms: u32) -> (Service, Backend, Arc<AtomicUsize>) {
    let (kept, asked) = (Mutex::new(None), Arc::<AtomicUsize>::default());
    let service = Service::start_with(|config, backend| {
        config.limits.unknown_campaign_ttl_ms = unknown_campaign_ttl_ms;
        *kept.lock() = Some(backend.clone());
        let engine = Counted(backend.ports.engine.clone(), Arc::clone(&asked));
        backend.ports.engine = Arc::new(engine);
    })
    .await;
    (service, kept.into_inner().unwrap(), asked)
}

/// Creates a sale like another node.
async fn make(service: &Service, backend: &Backend, id: CampaignId) {
    let now = service.clock.now();
    let price = Money::new(500, "CNY".parse().unwrap());
    let campaign = Campaign {
        id,
        owner: UserId::new("shop").unwrap(),
        title: "phones".to_owned(),
        window: Window::new(now, now.plus_millis(3_600_000)).unwrap(),
        ack: AckLevel::Fsync,
        requirements: Requirements::default(),
        payment_policy: qiang_core::payment::PaymentPolicy::default(),
        created_at: now,
        rules: Rules::Sale(Sale::new(9, 1, price, 60_000).unwrap()),
    };
    let setup = Setup {
        campaign,
        shares: Vec::new(),
    };
    let ledger = &backend.ports.ledger;
    let made = ledger.create_with(&setup, &Details::default(), None).await;
    made.unwrap();
    let open = Command::Open(Box::new(setup));
    backend.ports.engine.submit(open).await.unwrap();
}

async fn statuses(service: &Service, id: CampaignId) -> [u16; 4] {
    let token = service.token("ann", "claim");
    let state = format!("/v1/campaigns/{id}/state");
    [
        call(service.addr, "GET", &state, None, &[], None).await,
        service.get(&format!("/v1/sales/{id}"), &token).await,
        service
            .act(&format!("/v1/sales/{id}/tickets"), &token)
            .await,
        service.act(&format!("/v1/sales/{id}/orders"), &token).await,
    ]
    .map(|reply| reply.status)
}

#[tokio::test]
async fn what_does_not_exist_is_asked_for_once_a_second() {
    let (service, backend, asked) = counted(1_000).await;
    let id = CampaignId::new(id_at(service.clock.now())).unwrap();
    for _ in 0..5 {
        assert_eq!(statuses(&service, id).await, [404; 4]);
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // The ledger is not queried either.
    make(&service, &backend, id).await;
    service.clock.advance_ms(999);
    assert_eq!(statuses(&service, id).await, [404; 4]);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    service.clock.advance_ms(1);
    assert_eq!(statuses(&service, id).await, [200, 200, 409, 201]);
    drop(backend);
    service.stop().await;
}

#[tokio::test]
async fn it_need_not_be_remembered() {
    let (service, backend, asked) = counted(0).await;
    let id = CampaignId::new(id_at(service.clock.now())).unwrap();
    assert_eq!(statuses(&service, id).await, [404; 4]);
    assert!(asked.load(Ordering::Relaxed) > 1);
    make(&service, &backend, id).await;
    assert_eq!(statuses(&service, id).await, [200, 200, 409, 201]);
    drop(backend);
    service.stop().await;
}

#[tokio::test]
async fn what_is_made_here_is_known_at_once() {
    let service = Service::start().await;
    let id = service.sale(9, |_| ()).await;
    let id: CampaignId = id.parse().unwrap();
    assert_eq!(statuses(&service, id).await, [200, 200, 409, 201]);
    service.stop().await;
}
