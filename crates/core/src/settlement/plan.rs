//! What a run of entries does to the ledger's rows. What many entries do to the same row is added up, so that it is
//! written once.

use std::collections::HashMap;

use super::{
    life::{Life, SpreadCampaign},
    orders::Orders,
    rows::{
        CampaignChange, ClosedPart, KnownCampaign, KnownOrder, NewOrder, OrderChange, PaymentRow,
        ReturnRow, ShareGrant, TermsRow,
    },
};
use crate::{
    campaign::CampaignKind,
    event::{Entry, Event, PartitionId},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    money::Money,
    order::{OrderState, ReturnPart},
    rows::{AccountKey, Contradiction, EventRow, OUTSIDE, PostingRow, Purpose},
    time::Timestamp,
};

/// Everything that is to be written for a run of entries, in this order.
#[derive(Debug, Default)]
pub struct Plan<'a> {
    /// Shares that go to users.
    pub shares: Vec<ShareGrant<'a>>,
    /// Orders that give up their units. Before the new ones: who may have one order may have given one back, and have
    /// taken another.
    pub leaving_orders: Vec<OrderChange>,
    /// Orders that are not in the ledger yet.
    pub new_orders: Vec<NewOrder<'a>>,
    /// Orders that change and have their units afterwards.
    pub keeping_orders: Vec<OrderChange>,
    /// Payments that arrived.
    pub payments: Vec<PaymentRow<'a>>,
    /// Returns of parts of orders.
    pub returns: Vec<ReturnRow<'a>>,
    /// Accounts that are moved, each once, with what is added to it: first users', by owner, then
    /// [shared](Purpose::is_shared) ones. An amount may be 0: the account is needed all the same.
    pub accounts: Vec<(AccountKey<'a>, i64)>,
    /// How many of the accounts are users'.
    pub user_accounts: usize,
    /// Orders that were made while a user of their sale could have one unit, and that take units again under other
    /// terms: campaign and number. From now on the table's key does not count them.
    pub loosened_orders: Vec<(i64, i64)>,
    /// Changes of terms, to be written down before the campaigns change.
    pub terms: Vec<TermsRow>,
    /// Movements between them; debits and credits are places in `accounts`.
    pub postings: Vec<PostingRow>,
    /// The partition's parts of spread campaigns, as far as these entries touch them. One that says over how many
    /// partitions its campaign is spread is opened by them, and has no row yet.
    pub parts: Vec<CampaignChange>,
    /// Campaigns that change, by their `ref`.
    pub campaigns: Vec<CampaignChange>,
    /// Campaigns whose phase follows from their parts.
    pub spread: Vec<SpreadCampaign>,
    /// Closes of red packets: what is left in escrow goes home.
    pub closes: Vec<Close<'a>>,
    /// Campaigns and parts that close: what repairs have withheld of them goes back with the rest.
    pub closed: Vec<ClosedPart>,
    /// What webhooks are told, in the order of the entries, last of all.
    pub told: Vec<EventRow<'a>>,
}

/// The close of a red packet, or of a part of one. Whatever is left in escrow once all parts are closed and all units
/// are accounted for is refunded, even if it is an earlier fault's residue.
#[derive(Debug, Clone, Copy)]
pub struct Close<'a> {
    /// The packet.
    pub known: &'a KnownCampaign,
    /// Whether it is spread: then the other parts may still be open.
    pub is_spread: bool,
    /// When it was closed.
    pub at: Timestamp,
    /// The places of the escrow's and the owner's accounts.
    pub escrow: usize,
    /// See `escrow`.
    pub owner: usize,
}

/// What happens to one campaign.
#[derive(Debug)]
pub(super) struct CampaignPlan<'a> {
    pub(super) known: &'a KnownCampaign,
    pub(super) life: Life,
    /// Its counts; its phase follows from `life` in the end.
    pub(super) change: CampaignChange,
    /// Whether a user may have one unit, and could at all times: then new orders say so.
    pub(super) one_per_user: bool,
    pub(super) touched: bool,
    close: Option<Close<'a>>,
}

pub(super) struct Planner<'a> {
    pub(super) source: i64,
    pub(super) plan: Plan<'a>,
    pub(super) account_places: HashMap<AccountKey<'a>, usize>,
    pub(super) campaigns: Vec<CampaignPlan<'a>>,
    campaign_places: HashMap<CampaignId, usize>,
    pub(super) orders: Orders<'a>,
    /// Units and minor units of the return that was planned last.
    pub(super) last_return: (i64, i64),
}

impl<'a> Plan<'a> {
    /// Works out what `entries`, which are all new, do to campaigns and orders as they are known.
    ///
    /// # Errors
    /// When entries contradict each other, or what is known.
    pub fn of(
        partition: PartitionId,
        entries: &'a [Entry],
        campaigns: &'a [KnownCampaign],
        orders: &'a [KnownOrder],
    ) -> Result<Self, Contradiction> {
        let mut planner = Planner::new(partition, campaigns, orders);
        for entry in entries {
            planner.settle(entry)?;
            planner.tell(entry)?;
        }
        Ok(planner.into_plan())
    }

    /// Puts the ids of the accounts in the place of their places.
    pub fn resolve_accounts(&mut self, ids: &[i64]) {
        for posting in &mut self.postings {
            posting.debit = ids[posting.debit as usize];
            posting.credit = ids[posting.credit as usize];
        }
    }

    fn sort_accounts(&mut self) {
        let mut order: Vec<usize> = (0..self.accounts.len()).collect();
        order.sort_by_key(|place| {
            let key = self.accounts[*place].0;
            let user = (!key.purpose.is_shared()).then_some(key);
            (key.purpose.is_shared(), user)
        });
        let mut places = vec![0; order.len()];
        for (new, old) in order.iter().enumerate() {
            places[*old] = new;
        }
        self.accounts = order.iter().map(|place| self.accounts[*place]).collect();
        self.user_accounts = self
            .accounts
            .partition_point(|(key, _)| !key.purpose.is_shared());
        for posting in &mut self.postings {
            posting.debit = places[posting.debit as usize] as i64;
            posting.credit = places[posting.credit as usize] as i64;
        }
        for close in &mut self.closes {
            (close.escrow, close.owner) = (places[close.escrow], places[close.owner]);
        }
    }
}

impl<'a> Close<'a> {
    /// The escrow's account.
    pub fn escrow_key(&self) -> AccountKey<'a> {
        AccountKey::new(&self.known.name, Purpose::Escrow, self.known.currency)
    }

    /// The owner's account.
    pub fn owner_key(&self) -> AccountKey<'a> {
        AccountKey::new(&self.known.owner, Purpose::User, self.known.currency)
    }
}

impl<'a> CampaignPlan<'a> {
    fn of(known: &'a KnownCampaign) -> Self {
        Self {
            known,
            life: Life::of(known),
            change: CampaignChange::nothing(known.campaign_ref),
            one_per_user: known.one_per_user,
            touched: false,
            close: None,
        }
    }

    /// Units leave users: for the stock, or after the close for the owner.
    fn restock(&mut self, units: i64) -> Result<(), Contradiction> {
        self.life.check_opened()?;
        self.change.granted -= units;
        if self.life.is_closed() {
            self.change.returned += units;
        }
        Ok(())
    }
}

/// Whether an event changes what users see of a campaign beside its counts: its phase, its stock or its terms.
fn updates_campaign(event: &Event) -> bool {
    matches!(
        event,
        Event::Opened { .. }
            | Event::Paused
            | Event::Resumed
            | Event::Ended
            | Event::Closed { .. }
            | Event::StockChanged { .. }
            | Event::TermsChanged { .. }
    )
}

impl<'a> Planner<'a> {
    pub(super) fn new(
        partition: PartitionId,
        campaigns: &'a [KnownCampaign],
        orders: &'a [KnownOrder],
    ) -> Self {
        Self {
            source: i64::from(partition.0),
            plan: Plan::default(),
            account_places: HashMap::new(),
            campaigns: campaigns.iter().map(CampaignPlan::of).collect(),
            campaign_places: campaigns.iter().map(|known| known.id).zip(0..).collect(),
            orders: Orders::of(orders, campaigns),
            last_return: (0, 0),
        }
    }

    pub(super) fn into_plan(mut self) -> Plan<'a> {
        let mut plan = self.plan;
        let (new_orders, changed) = self.orders.into_rows();
        plan.new_orders = new_orders;
        (plan.keeping_orders, plan.leaving_orders) = changed
            .into_iter()
            .partition(|change| change.state.keeps_units());
        self.campaigns.retain(|campaign| campaign.touched);
        self.campaigns
            .sort_unstable_by_key(|campaign| campaign.known.campaign_ref);
        for campaign in self.campaigns {
            let (life, mut change) = (campaign.life, campaign.change);
            (change.phase, change.parts) = (life.moved_to(), life.opened_parts());
            if life.is_spread() {
                plan.parts.push(change);
                // The campaign's own phase follows from those of all its parts.
                change.phase = None;
            }
            plan.campaigns
                .extend(change.changes_something().then_some(change));
            plan.spread.extend(life.moved_spread());
            plan.closes.extend(campaign.close);
        }
        plan.sort_accounts();
        plan
    }

    /// What is known of an entry's campaign.
    pub(super) fn known(&self, entry: &Entry) -> Option<&'a KnownCampaign> {
        let place = self.campaign_places.get(&entry.campaign)?;
        Some(self.campaigns[*place].known)
    }

    fn settle(&mut self, entry: &'a Entry) -> Result<(), Contradiction> {
        let place = self.campaign_places.get(&entry.campaign).copied();
        let place = place.ok_or_else(|| {
            Contradiction::new(format!("campaign {} is not in the ledger", entry.campaign))
        })?;
        let campaign = &mut self.campaigns[place];
        campaign.touched = true;
        let campaign_ref = campaign.known.campaign_ref;
        if updates_campaign(&entry.event) {
            campaign.change.update(entry.at);
        }
        match &entry.event {
            Event::Opened { parts } => campaign.life.open(*parts),
            Event::Paused | Event::Resumed | Event::Ended => campaign.life.follow(&entry.event),
            // Where the units of a spread campaign are is the engine's affair: no user and no account has them.
            Event::TransferredOut { .. }
            | Event::TransferredIn { .. }
            | Event::TransferReturned { .. } => campaign.life.check_opened(),
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                key,
            } => {
                campaign.life.check_opened()?;
                campaign.change.granted += i64::from(*quantity);
                let (known, number) = (campaign.known, i64::from(*number));
                let one_per_user = campaign.one_per_user;
                match known.kind {
                    CampaignKind::Sale => self.orders.add(NewOrder {
                        campaign: known.campaign_ref,
                        number,
                        user: user.as_str(),
                        quantity: i64::from(*quantity),
                        amount: *amount_minor,
                        state: OrderState::Held,
                        returned_in_parts: 0,
                        one_per_user,
                        granted_at: entry.at.as_millis(),
                        hold_until: entry.at.plus_millis(known.hold_ms).as_millis(),
                        updated_at: entry.at.as_millis(),
                        key: key.as_ref().map(IdempotencyKey::as_str),
                    }),
                    CampaignKind::RedPacket => {
                        self.share(known, entry, number, user, *amount_minor)
                    }
                }
            }
            Event::Paid {
                number, payment, ..
            } => {
                self.orders
                    .step(campaign_ref, *number, OrderState::Paid, entry.at)?;
                self.payment(place, entry, *number, payment)
            }
            Event::Reinstated {
                number, payment, ..
            } => {
                if !campaign.one_per_user {
                    let order = (campaign_ref, i64::from(*number));
                    self.plan.loosened_orders.push(order);
                }
                let quantity =
                    self.orders
                        .step(campaign_ref, *number, OrderState::Paid, entry.at)?;
                campaign.life.check_opened()?;
                campaign.change.granted += quantity;
                self.payment(place, entry, *number, payment)
            }
            Event::RefundDue {
                number, payment, ..
            } => self.payment(place, entry, *number, payment),
            Event::Cancelled { number } => {
                self.give_back(place, entry, *number, OrderState::Cancelled)
            }
            Event::Expired { number } => self.give_back(place, entry, *number, OrderState::Expired),
            Event::Closed {
                returned,
                refunded_minor,
            } => self.close(place, entry, *returned as i64, *refunded_minor),
            Event::Returned { number, part } => {
                self.return_order(place, entry, *number, part.as_ref())
            }
            Event::StockChanged { units } => {
                campaign.life.check_opened()?;
                campaign.change.supply += units;
                Ok(())
            }
            Event::TermsChanged { revision, terms } => {
                campaign.life.check_opened()?;
                let row = TermsRow::of(campaign_ref, *revision, entry.at, terms);
                campaign.change.change_terms(row);
                campaign.one_per_user = false;
                self.orders.loosen(campaign_ref);
                self.plan.terms.push(row);
                Ok(())
            }
        }
    }

    fn share(
        &mut self,
        known: &'a KnownCampaign,
        entry: &Entry,
        number: i64,
        user: &'a UserId,
        amount: i64,
    ) -> Result<(), Contradiction> {
        self.plan.shares.push(ShareGrant {
            campaign: known.campaign_ref,
            number,
            user: user.as_str(),
            amount,
            at: entry.at.as_millis(),
        });
        let escrow = self.account(known, &known.name, Purpose::Escrow);
        let user = self.account(known, user.as_str(), Purpose::User);
        self.post(known, entry, "grant", (escrow, user), amount, Some(number))
    }

    fn give_back(
        &mut self,
        place: usize,
        entry: &Entry,
        number: u32,
        state: OrderState,
    ) -> Result<(), Contradiction> {
        let campaign_ref = self.campaigns[place].known.campaign_ref;
        let quantity = self.orders.step(campaign_ref, number, state, entry.at)?;
        self.campaigns[place].restock(quantity)
    }

    /// A paid order is returned, or some units of it: the money that paid them moves from the seller to what the buyer
    /// is owed, whatever the seller has.
    fn return_order(
        &mut self,
        place: usize,
        entry: &Entry,
        number: u32,
        part: Option<&'a ReturnPart>,
    ) -> Result<(), Contradiction> {
        let known = self.campaigns[place].known;
        let campaign = known.campaign_ref;
        let quantity = part.map(|part| i64::from(part.quantity));
        let made = (self.orders).return_units(campaign, number, quantity, entry.at)?;
        let (units, amount) = (made.units, made.owed_minor);
        self.campaigns[place].restock(units)?;
        self.last_return = (units, amount);
        self.plan.returns.extend(part.map(|part| ReturnRow {
            campaign,
            number: i64::from(number),
            key: part.key.as_str(),
            quantity: units,
            amount,
            at: entry.at.as_millis(),
        }));
        if amount == 0 {
            return Ok(());
        }
        let debit = self.account(known, &known.owner, Purpose::User);
        let credit = self.account(known, made.user, Purpose::RefundsDue);
        let number = Some(i64::from(number));
        self.post(known, entry, "return", (debit, credit), amount, number)
    }

    fn payment(
        &mut self,
        place: usize,
        entry: &'a Entry,
        number: u32,
        payment: &'a PaymentRef,
    ) -> Result<(), Contradiction> {
        let known = self.campaigns[place].known;
        let (user, price) = self.orders.buyer(known.campaign_ref, number)?;
        let received = entry.event.received().unwrap_or_default();
        let money = received.money(Money::new(price, known.currency));
        let amount = money.minor;
        if !matches!(entry.event, Event::RefundDue { .. }) {
            self.orders.note_paid(known.campaign_ref, number, amount)?;
        }
        self.plan.payments.push(PaymentRow {
            campaign: known.campaign_ref,
            number: i64::from(number),
            payment: payment.as_str(),
            outcome: entry.event.name(),
            amount,
            at: entry.at.as_millis(),
            currency: received.other().map(|money| money.currency.code()),
        });
        if amount == 0 {
            return Ok(());
        }
        let (kind, owner, purpose) = match &entry.event {
            Event::RefundDue { .. } => ("refund_due", user, Purpose::RefundsDue),
            _ => ("payment", known.owner.as_str(), Purpose::User),
        };
        let debit = self.account_in(money.currency, OUTSIDE, Purpose::Outside);
        let credit = self.account_in(money.currency, owner, purpose);
        let number = Some(i64::from(number));
        self.post(known, entry, kind, (debit, credit), amount, number)
    }

    fn close(
        &mut self,
        place: usize,
        entry: &Entry,
        returned: i64,
        refunded: i64,
    ) -> Result<(), Contradiction> {
        let campaign = &mut self.campaigns[place];
        campaign.life.follow(&entry.event)?;
        campaign.change.returned += returned;
        campaign.change.refunded += refunded;
        let (known, is_spread) = (campaign.known, campaign.life.is_spread());
        self.plan.closed.push(ClosedPart {
            campaign: known.campaign_ref,
            at: entry.at.as_millis(),
        });
        if known.kind == CampaignKind::Sale {
            return Ok(());
        }
        // Both accounts are taken up, even if nothing is refunded: whether there is a residue is seen later, when it
        // is too late to lock the owner's.
        let escrow = self.account(known, &known.name, Purpose::Escrow);
        let owner = self.account(known, &known.owner, Purpose::User);
        self.campaigns[place].close = Some(Close {
            known,
            is_spread,
            at: entry.at,
            escrow,
            owner,
        });
        if refunded == 0 {
            return Ok(());
        }
        self.post(known, entry, "refund", (escrow, owner), refunded, None)
    }
}
