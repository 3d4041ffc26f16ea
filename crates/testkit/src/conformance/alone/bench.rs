//! What a case for ledgers works with: a ledger, a book whose logs it follows, and how far it was told them.

use std::sync::Arc;

use qiang_core::{
    book::{CampaignAction, Claim, Command, Reply, Setup},
    campaign::Phase,
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, OrderId, PaymentRef},
    money::Money,
    outcome::{Grant, Outcome},
    ports::{Clock as _, Ledger},
    time::Timestamp,
};
use uuid::Uuid;

use super::{LedgerSubject, partitions};
use crate::{
    ManualClock,
    auditor::{Books, History, assert_sound},
    campaign::{Builder, Target, currency, user},
    conformance::settled,
    spread::SpreadBook,
};

/// Parts of every campaign.
pub(super) const PARTS: u16 = 3;
/// Events of one tick.
const TICK_EVENTS_MAX: usize = 1_000;

/// A ledger at work.
pub struct Bench<L> {
    subject: Option<L>,
    clock: Arc<ManualClock>,
    book: SpreadBook,
    /// The campaigns and the deposits; what was granted stands in the logs.
    history: History,
    ids: u64,
}

impl<L: LedgerSubject> Bench<L> {
    pub(super) async fn start(clock: Arc<ManualClock>) -> Self {
        Self {
            subject: Some(L::start(Arc::clone(&clock)).await),
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

    /// The partition of a part.
    #[must_use]
    pub fn partition(&self, part: usize) -> PartitionId {
        self.book.partitions()[part]
    }

    /// The log of a part.
    #[must_use]
    pub fn log(&self, part: usize) -> &[Entry] {
        &self.book.logs()[part]
    }

    /// Somebody whose claims this part decides: the `n`-th of them.
    #[must_use]
    pub fn somebody(&self, part: usize, n: usize) -> String {
        let names = (0..).map(|n| format!("u{n}"));
        let mut own = names.filter(|name| self.book.part_of(&user(name)) == part);
        own.nth(n).expect("names do not end")
    }

    /// Enters a campaign in the ledger, with the money that its owner needs for it, and opens it in all parts.
    pub async fn open(&mut self, builder: &Builder) -> Target {
        self.ids += 1;
        let setup = builder.setup(self.ids);
        let minor = setup.campaign.funded_minor();
        if minor > 0 {
            let owner = setup.campaign.owner.clone();
            let id = Uuid::from_u128(u128::from(self.ids));
            let amount = Money::new(minor, currency());
            let deposited = self.ledger().deposit(id, &owner, amount).await;
            deposited.expect("a deposit is taken");
            self.history.deposits.push((owner, minor));
        }
        let created = self.ledger().create(&setup).await;
        created.expect("the campaign is entered");
        self.history.setups.push(setup.clone());
        self.play(Command::Open(Box::new(setup.clone())));
        Target::of(&setup)
    }

    /// Carries out a command. Nobody asks whether it was refused.
    pub fn play(&mut self, command: Command) -> Option<Reply> {
        self.book.apply(self.clock.now(), &command).ok()
    }

    /// Claims. Nobody asks whether it was refused.
    pub fn claim(&mut self, claim: &Claim) -> Option<Outcome> {
        self.book.claim(self.clock.now(), claim).ok()
    }

    /// Claims, and must be granted.
    pub fn granted(&mut self, claim: Claim) -> Grant {
        match self.claim(&claim) {
            Some(Outcome::Granted(grant)) => grant,
            other => panic!("{claim:?} was answered {other:?}"),
        }
    }

    /// Pays an order.
    pub fn pay(&mut self, order: OrderId, payment: &str) {
        let payment = PaymentRef::new(payment).expect("a payment in a test is well-formed");
        self.play(Command::Pay { order, payment });
    }

    /// Cancels an order.
    pub fn cancel(&mut self, order: OrderId) {
        self.play(Command::Cancel { order });
    }

    /// Steers a campaign.
    pub fn act(&mut self, campaign: CampaignId, action: CampaignAction) {
        self.play(Command::Act { campaign, action });
    }

    /// Sets the clock, and does all that is due then.
    pub fn at(&mut self, now: Timestamp) {
        self.clock.set(now);
        let events_max = TICK_EVENTS_MAX;
        while self.play(Command::Tick { events_max }) == Some(Reply::Ticked { more: true }) {}
    }

    /// Sets the clock on, and does all that is due then.
    pub fn later(&mut self, millis: i64) {
        let now = self.clock.now().plus_millis(millis);
        self.at(now);
    }

    /// How far a part is settled.
    pub async fn settled(&self, part: usize) -> Seq {
        let settled = self.ledger().settled(self.partition(part)).await;
        settled.expect("the ledger tells its position")
    }

    /// Settles a part up to an entry, whose place is not beyond its log, from `overlap` entries before the position on.
    pub async fn settle(&self, part: usize, upto: Seq, overlap: u64) {
        let from = self.settled(part).await.saturating_sub(overlap).min(upto);
        let run = &self.log(part)[from as usize..upto as usize];
        let settled = self.ledger().settle(self.partition(part), run).await;
        let settled = settled.expect("the ledger settles");
        assert_eq!(settled, self.settled(part).await);
        assert!(settled >= upto, "settled up to {settled}, not {upto}");
    }

    /// Settles a part to its head.
    pub async fn settle_all(&self, part: usize) {
        self.settle(part, self.log(part).len() as Seq, 0).await;
    }

    /// The books that follow from what is settled of each log.
    pub async fn books(&self) -> Books {
        let mut history = self.history.clone();
        for (part, log) in self.book.logs().iter().enumerate() {
            let settled = self.settled(part).await as usize;
            history.logs.push(log[..settled].to_vec());
        }
        assert_sound(&history)
    }

    /// Compares the ledger with the books that follow from what is settled of each log.
    pub async fn compare(&self) {
        let books = self.books().await;
        settled::compare(self.ledger(), &books).await;
        let draft = |setup: &&Setup| books.accounts[&setup.campaign.id].phase() == Phase::Draft;
        let drafts: Vec<_> = self.history.setups.iter().filter(draft).collect();
        let found = self.ledger().drafts().await;
        let found = found.expect("the ledger lists drafts");
        assert!(found.iter().eq(drafts), "drafts are {found:?}");
    }

    /// Where a campaign stands in the ledger.
    pub async fn phase(&self, id: CampaignId) -> Phase {
        let record = self.ledger().campaign(id).await;
        let record = record.expect("the ledger answers");
        record.expect("the campaign was entered").phase
    }

    /// A campaign's counts in the ledger: granted, returned, refunded.
    pub async fn counts(&self, id: CampaignId) -> (u32, u32, i64) {
        let record = self.ledger().campaign(id).await;
        let record = record.expect("the ledger answers");
        let record = record.expect("the campaign was entered");
        (record.granted, record.returned, record.refunded_minor)
    }

    /// What a user can spend.
    pub async fn balance(&self, name: &str) -> i64 {
        let balances = self.ledger().balances(&user(name)).await;
        let balances = balances.expect("the ledger tells balances");
        balances.iter().map(|balance| balance.available.minor).sum()
    }
}
