//! Grants on Redis with the level `ledger`. Each waits for its own log position and for no later entry. The number of
//! waiting grants is limited.

use std::{
    fmt::Debug,
    pin::pin,
    task::{Context, Poll, Waker},
    time::Duration,
};

use qiang::{
    Backend,
    config::{EngineKind, NodeConfig},
};
use qiang_core::{
    book::{Claim, Command, Reply},
    campaign::AckLevel,
    event::{PartitionId, Seq},
    id::PaymentRef,
    payment::ReceivedMoney,
    ports::{Claimed, EngineError, PendingReply},
    time::Timestamp,
};
use qiang_testkit::{
    campaign::{Builder, OWNER, Target, sale},
    servers::redis::{Options, Standalone},
};

const PARTITION: PartitionId = PartitionId(0);
/// A partition that the modest seller's sale has to itself.
const MODEST_PARTITION: PartitionId = PartitionId(1);
/// Maximum number of claims of one campaign that wait for the ledger: a quarter of all permits.
const WAITING_MAX: u32 = 2_048;
/// Maximum number of commands of one owner that wait for the ledger: half of all permits.
const COMMANDS_OF_OWNER_MAX: usize = 2_048;

struct Case {
    backend: Backend,
    /// A sale with the level `ledger`.
    sure: Target,
    /// A sale with the level `memory`.
    fast: Target,
    /// Another sale with the level `ledger`.
    other: Target,
    _server: Standalone,
    _folder: tempfile::TempDir,
}

/// Opens a sale for twenty years.
async fn open(backend: &Backend, n: u64, sale: Builder) -> Target {
    let setup = sale
        .window(Timestamp::from_millis(1_577_836_800_000), 631_152_000_000)
        .admission(None)
        .setup(n);
    backend.ports.ledger.create(&setup).await.unwrap();
    let target = Target::of(&setup);
    let opening = Command::Open(Box::new(setup));
    let opened = backend.ports.engine.submit(opening).await;
    assert_eq!(opened, Ok(Reply::Opened));
    target
}

impl Case {
    /// Starts a node with one partition and without settlement. [`Self::settle`] settles.
    async fn new() -> Self {
        Self::with_partitions(1).await
    }

    async fn with_partitions(partitions: u16) -> Self {
        let server = tokio::task::block_in_place(|| Standalone::start(&Options::new()));
        let folder = tempfile::tempdir().unwrap();
        let mut config = NodeConfig::defaults().unwrap();
        config.engine.kind = EngineKind::Redis;
        config.engine.data = folder.path().join("ledger.db");
        config.redis.urls = server.url();
        config.redis.partitions = partitions;
        config.settlement.in_process = false;
        let backend = Backend::open(&config).await.unwrap();
        let mut targets = Vec::new();
        let levels = [AckLevel::Ledger, AckLevel::Memory, AckLevel::Ledger];
        for (n, ack) in (1..).zip(levels) {
            targets.push(open(&backend, n, sale(20_000).ack(ack)).await);
        }
        Self {
            backend,
            sure: targets[0],
            fast: targets[1],
            other: targets[2],
            _server: server,
            _folder: folder,
        }
    }

    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.backend.ports.engine.claim(claim)
    }

    async fn head(&self) -> Seq {
        self.head_of(PARTITION).await
    }

    async fn head_of(&self, partition: PartitionId) -> Seq {
        self.backend.ports.log.head(partition).await.unwrap()
    }

    /// Waits until the log ends with this entry.
    async fn logged(&self, seq: Seq) {
        self.logged_in(PARTITION, seq).await;
    }

    async fn logged_in(&self, partition: PartitionId, seq: Seq) {
        while self.head_of(partition).await < seq {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Settles up to an entry.
    async fn settle(&self, upto: Seq) {
        self.settle_in(PARTITION, upto).await;
    }

    async fn settle_in(&self, partition: PartitionId, upto: Seq) {
        let ports = &self.backend.ports;
        let entries = ports.log.read(partition, 0, upto as usize).await.unwrap();
        let settled = ports.ledger.settle(partition, &entries).await;
        assert_eq!(settled, Ok(upto));
    }

    /// Numbers from 11 whose campaigns have this home partition.
    fn at_home_in(&self, partition: PartitionId) -> impl Iterator<Item = u64> {
        (11..).filter(move |n| {
            let claim = Target::of(&sale(1).setup(*n)).one("ann");
            self.backend.ports.engine.partition_for(&claim) == Some(partition)
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_waits_for_its_own_entry_and_not_for_those_behind_it() {
    let case = Case::new().await;
    let [first, second] = ["a", "b"].map(|name| case.sure.one(name));
    let opened = case.head().await;
    let ticket = case.claim(first.clone());
    case.logged(opened + 1).await;
    case.settle(opened + 1).await;
    assert_eq!(ticket.await.unwrap().ack, AckLevel::Ledger);

    let gone = case.claim(second.clone());
    case.logged(opened + 2).await;
    case.claim(case.fast.one("c")).await.unwrap();
    assert_eq!(case.head().await, opened + 3);
    // The ledger has this grant.
    let again = case.claim(first).await.unwrap();
    assert_eq!(again.outcome.name(), "already_granted");
    assert_eq!(again.ack, AckLevel::Ledger);
    // This claim waits for its own entry. The entry after it is never settled.
    let mut again = case.claim(second);
    let polled = tokio::time::timeout(Duration::from_millis(200), &mut again).await;
    assert!(polled.is_err(), "{polled:?}");
    case.settle(opened + 2).await;
    let again = again.await.unwrap();
    assert_eq!(again.outcome.name(), "already_granted");
    assert_eq!(again.ack, AckLevel::Ledger);
    assert_eq!(gone.await.unwrap().ack, AckLevel::Ledger);
    case.backend.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_wait_for_the_ledger_are_bounded() {
    let case = Case::new().await;
    let opened = case.head().await;
    let sure = |n: u32| case.claim(case.sure.one(&format!("u{n}")));
    let mut waiting = vec![sure(1)];
    case.logged(opened + 1).await; // now this node knows the campaign
    waiting.extend((2..=WAITING_MAX).map(sure));
    let polled = pin!(sure(WAITING_MAX + 1)).poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(Err(EngineError::LedgerShareFull)));
    let fast = case.claim(case.fast.one("fast")).await.unwrap();
    assert_eq!(fast.outcome.name(), "granted");
    case.logged(opened + 1 + Seq::from(WAITING_MAX)).await;
    // Another campaign has its own share of permits. Its claim is decided, and waits for the ledger as well.
    let mut other = case.claim(case.other.one("ann"));
    case.logged(opened + 2 + Seq::from(WAITING_MAX)).await;
    let polled = pin!(&mut other).poll(&mut Context::from_waker(Waker::noop()));
    assert!(polled.is_pending(), "{polled:?}");
    let tally = case.backend.ports.engine.tally(case.sure.id).await.unwrap();
    assert_eq!(tally.unwrap().grants, WAITING_MAX);
    drop(waiting); // returns all permits
    loop {
        let again = pin!(sure(1)).poll(&mut Context::from_waker(Waker::noop()));
        if again.is_pending() {
            break;
        }
        assert_eq!(again, Poll::Ready(Err(EngineError::LedgerShareFull)));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    case.backend.close().await.unwrap();
}

/// Takes tickets until one is answered, which is a refusal. Returns the others.
fn fill<T: PartialEq + Debug + Unpin>(
    tickets: impl Iterator<Item = PendingReply<T>>,
) -> Vec<PendingReply<T>> {
    let mut waiting = Vec::new();
    for mut ticket in tickets {
        match pin!(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => waiting.push(ticket),
            Poll::Ready(answer) => {
                assert_eq!(answer, Err(EngineError::LedgerShareFull));
                break;
            }
        }
    }
    waiting
}

/// Claims and payments of one seller's sales fill the share of that seller. Claims and payments of another seller's
/// sale are decided and acknowledged. That sale has a partition of its own, so that settling its entries does not take
/// longer than a claim waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_owner_leaves_permits_for_others() {
    const SALES: usize = 20;
    let case = Case::with_partitions(2).await;
    let sure = sale(20_000).ack(AckLevel::Ledger);
    let mut sales = Vec::new();
    for n in case.at_home_in(PARTITION).take(SALES) {
        sales.push(open(&case.backend, n, sure.clone().owner(OWNER)).await);
    }
    let n = case.at_home_in(MODEST_PARTITION).next().unwrap();
    let modest = open(&case.backend, n, sure.owner("other")).await;
    let opened = case.head().await;
    let users = 1..=2 * WAITING_MAX;
    let (mut claims, mut payments) = (Vec::new(), Vec::new());
    for sale in &sales {
        let own = users
            .clone()
            .map(|n| case.claim(sale.one(&format!("u{n}"))));
        claims.extend(fill(own));
    }
    assert_eq!(claims.len() as u32, 2 * WAITING_MAX, "half of all permits");
    case.logged(opened + claims.len() as Seq).await;
    let pay = |sale: &Target, number: u32| {
        let payment = format!("{}-{number}", sale.id);
        case.backend.ports.engine.submit(Command::Pay {
            order: sale.order(number),
            payment: PaymentRef::new(&payment).unwrap(),
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        })
    };
    for sale in &sales {
        payments.extend(fill((1..=WAITING_MAX).map(|number| pay(sale, number))));
    }
    assert_eq!(payments.len(), COMMANDS_OF_OWNER_MAX);
    case.logged(opened + (claims.len() + payments.len()) as Seq)
        .await;

    let opened = case.head_of(MODEST_PARTITION).await;
    let claim = case.claim(modest.one("ann"));
    case.logged_in(MODEST_PARTITION, opened + 1).await;
    let payment = pay(&modest, 1);
    case.logged_in(MODEST_PARTITION, opened + 2).await;
    case.settle_in(MODEST_PARTITION, opened + 2).await;
    let claimed = claim.await.unwrap();
    let answer = (claimed.outcome.name(), claimed.ack);
    assert_eq!(answer, ("granted", AckLevel::Ledger));
    payment.await.unwrap();
    case.backend.close().await.unwrap();
}
