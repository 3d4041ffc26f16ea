//! A server at its `maxmemory`: it makes no new grants, but calls that free memory continue.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{CampaignAction, Claim, Command, Reply},
    event::{Entry, PartitionId, Seq},
    id::PaymentRef,
    order::OrderState,
    outcome::Outcome,
    payment::ReceivedMoney,
    ports::{Engine as _, EngineError, EventLog as _, ProbeResult, Transport},
    split::SplitRule,
};
use qiang_redis::{LogTransportKind, RedisOptions, RedisTransport, TransportOptions};
use qiang_testkit::{
    ManualClock,
    campaign::{HOLD_MS, OPENS, Target, red_packet, sale},
    servers::redis::{Options as ServerOptions, Server, Standalone},
};
use qiang_worker::settlement::PartitionConsumer;

use crate::redis_faults::harness::{Harness, blocking, name, options};

const PARTITION: PartitionId = PartitionId(0);
/// Memory to fill, in bytes.
const ROOM_BYTES: i64 = 2_000_000;
/// Maximum bytes above Redis' limit. Redis refuses a call before it starts, and finishes a started one.
const PAST_BYTES_MAX: i64 = 500_000;
/// More claims than fit in the memory.
const CLAIMS_MAX: usize = 200_000;
const AT_ONCE: usize = 400;
const HELD: u32 = 10;
const SETTLE_MAX: Duration = Duration::from_secs(20);

/// Bytes that Redis counts toward its limit.
fn used(server: &Server) -> i64 {
    blocking(|| {
        let number = |field: &str| -> i64 {
            let text = server.info("memory", field).unwrap();
            text.parse().unwrap()
        };
        number("used_memory") - number("mem_not_counted_for_evict")
    })
}

fn limit(server: &Server, bytes: i64) {
    blocking(|| {
        let words = ["CONFIG", "SET", "maxmemory", &bytes.to_string()];
        server.call(&words).unwrap();
    });
}

/// Sets the limit below the memory in use.
fn leave_no_room(server: &Server) {
    limit(server, used(server) - 50_000);
}

/// Claims until Redis refuses, and returns the error.
async fn fill(harness: &Harness, made: impl Fn(usize) -> Claim) -> EngineError {
    for from in (0..CLAIMS_MAX).step_by(AT_ONCE) {
        let claims: Vec<_> = (from..from + AT_ONCE).map(&made).collect();
        let claim = |claim: &Claim| harness.nodes[from / AT_ONCE % 2].claim(claim.clone());
        let tickets: Vec<_> = claims.iter().map(claim).collect();
        let mut refused = None;
        for (claim, ticket) in claims.iter().zip(tickets) {
            let answer = ticket.await;
            harness.record.note_claim(claim, &answer);
            refused = answer.err().or(refused);
        }
        if let Some(error) = refused {
            return error;
        }
    }
    panic!("Redis did not reach its limit");
}

/// Checks that the outcome is certain, so that a user may retry.
#[track_caller]
fn check_overloaded(error: &EngineError) {
    assert_eq!(*error, EngineError::Overloaded);
}

/// Checks that the partition is up and reports why it grants nothing.
#[track_caller]
fn check_degraded(probed: Result<ProbeResult, EngineError>) {
    let Ok(ProbeResult::Degraded { reason }) = probed else {
        panic!("{probed:?}");
    };
    assert!(reason.contains("maxmemory"), "{reason}");
}

struct Full {
    server: Standalone,
    clock: Arc<ManualClock>,
    harness: Harness,
    held: Target,
    packet: Target,
    big: Target,
}

impl Full {
    /// A full server with held orders of one campaign, a packet with shares, and a sale with units left. `before` runs
    /// while there is memory.
    async fn new(replicas: u32, before: impl AsyncFnOnce(&RedisOptions)) -> Self {
        let with = ServerOptions::new().replicas(replicas as usize);
        let server = blocking(|| Standalone::start(&with.line("maxmemory-policy noeviction")));
        let clock = ManualClock::new(OPENS);
        let options = RedisOptions {
            partitions: 1,
            replicas,
            clock: Some(clock.clone()),
            ..options(server.url())
        };
        let mut harness = Harness::new(options).await;
        before(&harness.options).await;
        let split = SplitRule::DoubleAverage { min: 1 };
        let held = harness.open(sale(HELD + 5)).await;
        let packet = harness.open(red_packet(10_000_000, 50_000, split)).await;
        let big = harness.open(sale(1_000_000)).await;
        let claims = (0..HELD as usize).map(|n| held.one(&name(n))).collect();
        harness.ask_all(claims).await;
        let primary = server.primary();
        let most = used(primary) + ROOM_BYTES;
        limit(primary, most);
        check_overloaded(&fill(&harness, |n| big.one(&name(n))).await);
        let error = fill(&harness, |n| packet.one(&name(n))).await;
        check_overloaded(&error);
        let past = used(primary) - most;
        assert!(past < PAST_BYTES_MAX, "{past} bytes past the limit");
        Self {
            server,
            clock,
            harness,
            held,
            packet,
            big,
        }
    }

    /// Checks that grants are replayed and started work is finished.
    async fn finish_what_has_begun(&self) {
        let (harness, held) = (&self.harness, self.held);
        let node = &harness.nodes[0];
        leave_no_room(self.server.primary());
        for target in [self.big, self.held] {
            let again = harness.record.ask(node, &target.one(&name(0))).await;
            let again = again.unwrap().outcome;
            assert!(matches!(again, Outcome::AlreadyGranted(_)), "{again:?}");
        }
        check_degraded(node.probe(PARTITION).await);
        assert_eq!(node.stopped(), None);
        let payment = PaymentRef::new("payment").unwrap();
        let order = held.order(1);
        for command in [
            Command::Pay {
                order,
                payment,
                paid_at: None,
                received: ReceivedMoney::Price,
                cancelled: 0,
            },
            Command::Cancel {
                order: held.order(2),
                part: None,
            },
        ] {
            let reply = harness.submit(1, command).await;
            assert!(reply.is_ok(), "{reply:?}");
        }
        leave_no_room(self.server.primary());
        self.clock.advance(HOLD_MS);
        let until = Instant::now() + SETTLE_MAX;
        for number in 3..=HELD {
            let order = held.order(number);
            loop {
                let view = node.order(order).await.unwrap().unwrap();
                if view.grant.order.unwrap().state == OrderState::Expired {
                    break;
                }
                assert!(
                    Instant::now() < until,
                    "order {number} does not expire in time"
                );
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        leave_no_room(self.server.primary());
        let campaign = held.id;
        for action in [
            CampaignAction::Pause,
            CampaignAction::Resume,
            CampaignAction::Close,
        ] {
            let reply = harness.submit(0, Command::Act { campaign, action }).await;
            assert!(matches!(reply, Ok(Reply::Acted(_))), "{reply:?}");
        }
        leave_no_room(self.server.primary());
    }

    /// Settles everything through a worker that has just started, or directly from the log.
    async fn drain(&self, transport: Option<LogTransportKind>) -> Vec<Entry> {
        let node = &self.harness.nodes[0];
        let mut settled: Vec<Entry> = Vec::new();
        let worker = transport.map(|kind| worker(&self.harness.options, kind, "second"));
        let mut consumer =
            worker.map(|worker| PartitionConsumer::new(worker, Arc::new(node.clone()), PARTITION));
        let head = node.head(PARTITION).await.unwrap();
        let until = Instant::now() + SETTLE_MAX;
        while (settled.len() as Seq) < head {
            assert!(Instant::now() < until, "{} of {head}", settled.len());
            let after = settled.len() as Seq;
            let wait_max = Duration::from_millis(50);
            let run = match &mut consumer {
                Some(consumer) => consumer.take(after, 1_000, wait_max).await,
                None => node.read(PARTITION, after, 1_000).await,
            };
            settled.extend(run.unwrap());
            let after = settled.len() as Seq;
            if let Some(consumer) = &mut consumer {
                consumer.ack(after).await.unwrap();
            }
            node.release(PARTITION, after).await.unwrap();
        }
        settled
    }

    /// Frees memory, and checks that nothing was lost or left half done.
    async fn go_on(self, mut settled: Vec<Entry>) {
        let harness = &self.harness;
        for target in [self.big, self.packet] {
            let until = Instant::now() + SETTLE_MAX;
            let claim = target.one("late");
            while let Err(error) = harness.record.ask(&harness.nodes[0], &claim).await {
                check_overloaded(&error);
                assert!(Instant::now() < until, "claims are still refused");
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
        let (node, events_max) = (&harness.nodes[0], 1_000);
        while node.submit(Command::Tick { events_max }).await != Ok(Reply::Ticked { more: false }) {
        }
        let head = node.head(PARTITION).await.unwrap();
        while (settled.len() as Seq) < head {
            let after = settled.len() as Seq;
            settled.extend(node.read(PARTITION, after, 1_000).await.unwrap());
        }
        harness.audit_logs(vec![settled], true).await;
    }
}

fn worker(options: &RedisOptions, kind: LogTransportKind, name: &str) -> Arc<dyn Transport> {
    let transport_options = TransportOptions {
        lease: Duration::from_millis(200),
        ..TransportOptions::new(kind, name)
    };
    Arc::new(RedisTransport::new(options.clone(), transport_options).unwrap())
}

/// Starts a worker that dies before the memory is full.
async fn select(options: &RedisOptions, kind: LogTransportKind) {
    let first = worker(options, kind, "first");
    let received = first.receive(PARTITION, 0, 10, Duration::from_millis(10));
    received.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_drains_through_a_group() {
    let before = async |options: &RedisOptions| select(options, LogTransportKind::Stream).await;
    let full = Full::new(0, before).await;
    full.finish_what_has_begun().await;
    let settled = full.drain(Some(LogTransportKind::Stream)).await;
    full.go_on(settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_drains_through_a_group_that_is_new() {
    let full = Full::new(0, async |_| ()).await;
    leave_no_room(full.server.primary());
    let settled = full.drain(Some(LogTransportKind::Stream)).await;
    full.go_on(settled).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_drains_through_a_list() {
    let before = async |options: &RedisOptions| select(options, LogTransportKind::List).await;
    let full = Full::new(0, before).await;
    full.finish_what_has_begun().await;
    let settled = full.drain(Some(LogTransportKind::List)).await;
    full.go_on(settled).await;
}

/// Drains from the log, as RabbitMQ's relay does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_drains_by_its_log() {
    let full = Full::new(0, async |_| ()).await;
    leave_no_room(full.server.primary());
    let settled = full.drain(None).await;
    full.go_on(settled).await;
}

/// Only entries that the replica has are settled. The worker must find out which ones without memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_server_with_a_replica_drains() {
    let before = async |options: &RedisOptions| select(options, LogTransportKind::Stream).await;
    let full = Full::new(1, before).await;
    full.finish_what_has_begun().await;
    let settled = full.drain(Some(LogTransportKind::Stream)).await;
    full.go_on(settled).await;
}
