//! Tools of a case for ledgers: a ledger, and a book with logs to settle.

use std::sync::Arc;

use qiang_core::{
    book::{CampaignAction, Claim, Command, Reply, Setup},
    campaign::Phase,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, OrderId, PaymentRef},
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{CampaignRecord, Clock as _, Ledger},
    time::Timestamp,
};

use super::{any_ledger::AnyLedger, partitions};
use crate::{
    ManualClock,
    auditor::{ExpectedLedger, History, assert_sound},
    campaign::{Builder, Target, user},
    conformance::{Start, enter, settled},
    spread::SpreadBook,
};

/// Shards of every campaign.
pub(super) const PARTS: u16 = 3;
/// Maximum events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;

/// A ledger, and the book with the logs that it settles.
pub struct Fixture {
    subject: Option<Box<dyn AnyLedger>>,
    clock: Arc<ManualClock>,
    book: SpreadBook,
    /// The campaigns and the deposits. The grants are in the logs.
    history: History,
    ids: u64,
}

impl Fixture {
    pub(super) async fn start(start: Start<dyn AnyLedger>, clock: Arc<ManualClock>) -> Self {
        Self {
            subject: Some(start(Arc::clone(&clock)).await),
            clock,
            book: SpreadBook::new(partitions(PARTS)),
            history: History {
                cut: true,
                ..History::default()
            },
            ids: 0,
        }
    }

    pub(super) async fn stop(mut self) {
        self.subject.take().expect("the ledger is up").stop().await;
    }

    /// The ledger.
    pub fn ledger(&self) -> &dyn Ledger {
        self.subject.as_ref().expect("the ledger is up").ledger()
    }

    /// Restarts the ledger.
    pub async fn restart(&mut self) {
        let subject = self.subject.take().expect("the ledger is up");
        self.subject = Some(subject.restart().await);
    }

    /// The partition of a shard.
    #[must_use]
    pub fn partition(&self, part: usize) -> PartitionId {
        self.book.partitions()[part]
    }

    /// The log of a shard.
    #[must_use]
    pub fn log(&self, part: usize) -> &[Entry] {
        &self.book.logs()[part]
    }

    /// Name of the `n`-th user with claims that this shard decides.
    #[must_use]
    pub fn somebody(&self, part: usize, n: usize) -> String {
        let names = (0..).map(|n| format!("u{n}"));
        let mut own = names.filter(|name| self.book.part_of(&user(name)) == part);
        own.nth(n).expect("names do not end")
    }

    /// Enters a campaign in the ledger, with the money that its owner needs, and opens it in all shards.
    pub async fn open(&mut self, builder: &Builder) -> Target {
        self.open_created(builder, None).await
    }

    /// The same for a campaign that was created at this time.
    pub async fn open_created(
        &mut self,
        builder: &Builder,
        created_at: Option<Timestamp>,
    ) -> Target {
        self.ids += 1;
        let mut setup = builder.setup(self.ids);
        setup.campaign.created_at = created_at.unwrap_or(setup.campaign.created_at);
        let subject = self.subject.as_ref().expect("the ledger is up");
        enter(subject.ledger(), &setup, &mut self.history).await;
        self.play(Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    /// Applies a command to the book. Returns `None` if the book refuses it.
    pub fn play(&mut self, command: Command) -> Option<Reply> {
        self.book.apply(self.clock.now(), &command).ok()
    }

    /// Claims. Returns `None` if the book refuses the claim.
    pub fn claim(&mut self, claim: &Claim) -> Option<Outcome> {
        self.book.claim(self.clock.now(), claim).ok()
    }

    /// Claims, and requires a new grant.
    pub fn granted(&mut self, claim: Claim) -> Grant {
        match self.claim(&claim) {
            Some(Outcome::Granted(grant)) => grant,
            other => panic!("{claim:?} got {other:?}"),
        }
    }

    /// Pays an order.
    pub fn pay(&mut self, order: OrderId, payment: &str) {
        let payment = PaymentRef::new(payment).expect("a payment in a test is well-formed");
        self.play(Command::Pay {
            order,
            payment,
            paid_at: None,
            received: ReceivedMoney::Price,
            cancelled: 0,
        });
    }

    /// Cancels an order.
    pub fn cancel(&mut self, order: OrderId) {
        self.play(Command::Cancel { order, part: None });
    }

    /// Applies an action to a campaign.
    pub fn act(&mut self, campaign: CampaignId, action: CampaignAction) {
        self.play(Command::Act { campaign, action });
    }

    /// Sets the clock and does all due work.
    pub fn at(&mut self, now: Timestamp) {
        self.clock.set(now);
        let events_max = TICK_EVENTS_MAX;
        while self.play(Command::Tick { events_max }) == Some(Reply::Ticked { more: true }) {}
    }

    /// Advances the clock and does all due work.
    pub fn later(&mut self, millis: i64) {
        let now = self.clock.now().plus_millis(millis);
        self.at(now);
    }

    /// The settled position of a shard.
    pub async fn settled(&self, part: usize) -> Seq {
        self.ledger().settled(self.partition(part)).await.unwrap()
    }

    /// Settles a shard up to the entry `upto`, starting `overlap` entries before the settled position.
    pub async fn settle(&self, part: usize, upto: Seq, overlap: u64) {
        let from = self.settled(part).await.saturating_sub(overlap).min(upto);
        let run = &self.log(part)[from as usize..upto as usize];
        let partition = self.partition(part);
        let settled = self.ledger().settle(partition, run).await.unwrap();
        assert_eq!(settled, self.settled(part).await);
        assert!(settled >= upto, "settled up to {settled}, not {upto}");
    }

    /// Settles a shard to its head.
    pub async fn settle_all(&self, part: usize) {
        self.settle(part, self.log(part).len() as Seq, 0).await;
    }

    /// Expected ledger, for the settled entries of each log.
    pub async fn expected(&self) -> ExpectedLedger {
        let mut history = self.history.clone();
        for (part, log) in self.book.logs().iter().enumerate() {
            let settled = self.settled(part).await as usize;
            history.logs.push(log[..settled].to_vec());
        }
        assert_sound(&history)
    }

    /// Compares the ledger with the expected one, for the settled entries of each log.
    pub async fn compare(&self) {
        let expected = self.expected().await;
        settled::compare(self.ledger(), &expected).await;
        // An open shard may have changed the stock already.
        let accounts = self.history.setups.iter();
        let accounts = accounts.map(|setup| &expected.accounts[&setup.campaign.id]);
        let drafts = accounts.filter(|account| account.phase() == Phase::Draft);
        let drafts: Vec<&Setup> = drafts.map(|account| &account.setup).collect();
        let found = self.ledger().drafts(None, u32::MAX).await.unwrap();
        let ids = drafts.iter().map(|setup| setup.campaign.id);
        assert!(found.iter().copied().eq(ids), "drafts are {found:?}");
        for draft in drafts {
            let kept = self.ledger().setup(draft.campaign.id).await.unwrap();
            assert_eq!(kept.as_ref(), Some(draft));
        }
    }

    /// A campaign's phase in the ledger.
    pub async fn phase(&self, id: CampaignId) -> Phase {
        self.record(id).await.phase
    }

    /// A campaign's counts in the ledger: granted, returned, refunded.
    pub async fn counts(&self, id: CampaignId) -> (u64, u64, i64) {
        let record = self.record(id).await;
        (record.granted, record.returned, record.refunded_minor)
    }

    async fn record(&self, id: CampaignId) -> CampaignRecord {
        self.ledger().campaign(id).await.unwrap().unwrap()
    }

    /// A user's spendable balance.
    pub async fn balance(&self, name: &str) -> i64 {
        let balances = self.ledger().balances(&user(name)).await.unwrap();
        balances.iter().map(|balance| balance.available.minor).sum()
    }
}
