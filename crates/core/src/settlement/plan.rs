//! Plan of the changes that a run of entries makes to the ledger's rows. Changes of the same row are combined, so each
//! row is written once.

use std::collections::HashMap;

use uuid::Uuid;

use super::{
    campaign_life::{CampaignLife, SpreadCampaign},
    orders::PlannedOrders,
    rows::{
        CampaignChange, ClosedPart, KnownCampaign, KnownOrder, NewOrder, OrderChange, PaymentRow,
        ReturnRow, SaleSettingsRow, ShareGrant,
    },
};
use crate::{
    campaign::CampaignKind,
    event::{Entry, Event, PartitionId},
    id::{CampaignId, IdempotencyKey, PaymentRef, UserId},
    money::Money,
    order::{OrderState, PartKind, ReturnPart},
    rows::{AccountKey, AccountPurpose, Contradiction, EventRow, OUTSIDE, PostingRow},
    time::Timestamp,
};

/// All writes for a run of entries, in this order.
#[derive(Debug, Default)]
pub struct SettlementPlan<'a> {
    /// Shares that users receive.
    pub shares: Vec<ShareGrant<'a>>,
    /// Orders that release their units. They are written before new orders, because a user with a limit of one order
    /// may have released one and taken another.
    pub leaving_orders: Vec<OrderChange>,
    /// Orders that the ledger does not have yet.
    pub new_orders: Vec<NewOrder<'a>>,
    /// Changed orders that keep their units.
    pub keeping_orders: Vec<OrderChange>,
    /// Received payments.
    pub payments: Vec<PaymentRow<'a>>,
    /// Partial cancellations and returns of orders.
    pub returns: Vec<ReturnRow<'a>>,
    /// Distinct accounts with the sums of their changes: first users' accounts, by owner, then
    /// [shared](Purpose::is_shared) ones. A sum may be 0, because the account is needed in any case.
    pub accounts: Vec<(AccountKey<'a>, i64)>,
    /// Number of users' accounts among them.
    pub user_accounts: usize,
    /// Orders from the time when the limit per user was one unit, which take units again under other terms: campaign
    /// and number. The unique key of the table ignores them from now on.
    pub loosened_orders: Vec<(i64, i64)>,
    /// Changes of terms. They are recorded before the campaigns change.
    pub terms: Vec<SaleSettingsRow>,
    /// Postings. Debits and credits are indexes of `accounts`.
    pub postings: Vec<PostingRow>,
    /// Changed parts of spread campaigns in this partition. A part with a number of parts is opened by this run, and
    /// has no row yet.
    pub parts: Vec<CampaignChange>,
    /// Changed campaigns, by their `ref`.
    pub campaigns: Vec<CampaignChange>,
    /// Campaigns whose phase must be derived from their parts.
    pub spread: Vec<SpreadCampaign>,
    /// Closes of red packets. The remaining escrow goes to the owner.
    pub closes: Vec<PacketClose<'a>>,
    /// Closed campaigns and parts. The units that repairs have withheld of them go back with the rest.
    pub closed: Vec<ClosedPart>,
    /// Ids of changes under keys that were carried out.
    pub made_changes: Vec<Uuid>,
    /// Webhook events, in the order of the entries. They are written last.
    pub told: Vec<EventRow<'a>>,
}

/// Close of a red packet, or of a part of one. Once all parts are closed and all units are accounted for, the whole
/// remaining escrow is refunded. That includes a residue of an earlier fault.
#[derive(Debug, Clone, Copy)]
pub struct PacketClose<'a> {
    /// The packet.
    pub known: &'a KnownCampaign,
    /// Whether it is spread, so other parts may still be open.
    pub is_spread: bool,
    /// Time of the close.
    pub at: Timestamp,
    /// Index of the escrow account.
    pub escrow: usize,
    /// Index of the owner's account.
    pub owner: usize,
}

/// Changes of one campaign.
#[derive(Debug)]
pub(super) struct CampaignPlan<'a> {
    pub(super) known: &'a KnownCampaign,
    pub(super) life: CampaignLife,
    /// Changed counts. The phase is set from `life` at the end.
    pub(super) change: CampaignChange,
    /// Whether the limit is one unit per user, and always was. New orders record this.
    pub(super) one_per_user: bool,
    pub(super) touched: bool,
    close: Option<PacketClose<'a>>,
}

pub(super) struct Planner<'a> {
    pub(super) source: i64,
    pub(super) plan: SettlementPlan<'a>,
    pub(super) account_places: HashMap<AccountKey<'a>, usize>,
    pub(super) campaigns: Vec<CampaignPlan<'a>>,
    campaign_places: HashMap<CampaignId, usize>,
    pub(super) orders: PlannedOrders<'a>,
    /// Units and minor units of the last planned return or partial cancellation.
    pub(super) last_part: (i64, i64),
    /// Last entry of each watched campaign that granted units, by `ref`.
    pub(super) last_grants: HashMap<i64, &'a Entry>,
}

impl<'a> SettlementPlan<'a> {
    /// Plans the effects of `entries`, all of them new, on the known campaigns and orders.
    ///
    /// # Errors
    /// If entries contradict each other or the known rows.
    pub fn new(
        partition: PartitionId,
        entries: &'a [Entry],
        campaigns: &'a [KnownCampaign],
        orders: &'a [KnownOrder],
    ) -> Result<Self, Contradiction> {
        let mut planner = Planner::new(partition, campaigns, orders);
        for entry in entries {
            planner.settle(entry)?;
            planner.record_webhook_event(entry)?;
        }
        Ok(planner.into_plan())
    }

    /// Replaces the indexes of accounts by their ids.
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

impl<'a> PacketClose<'a> {
    /// Key of the escrow account.
    pub fn escrow_key(&self) -> AccountKey<'a> {
        AccountKey::new(
            &self.known.name,
            AccountPurpose::Escrow,
            self.known.currency,
        )
    }

    /// Key of the owner's account.
    pub fn owner_key(&self) -> AccountKey<'a> {
        AccountKey::new(&self.known.owner, AccountPurpose::User, self.known.currency)
    }
}

impl<'a> CampaignPlan<'a> {
    fn from_known_campaign(known: &'a KnownCampaign) -> Self {
        Self {
            known,
            life: CampaignLife::from_known_campaign(known),
            change: CampaignChange::nothing(known.campaign_ref),
            one_per_user: known.one_per_user,
            touched: false,
            close: None,
        }
    }

    /// Takes units from users. They go to the stock, or after the close to the owner.
    fn restock(&mut self, units: i64) -> Result<(), Contradiction> {
        self.life.check_opened()?;
        self.change.granted -= units;
        if self.life.is_closed() {
            self.change.returned += units;
        }
        Ok(())
    }
}

/// Whether an event changes what users see of a campaign apart from its counts: phase, stock or terms.
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
            plan: SettlementPlan::default(),
            account_places: HashMap::new(),
            campaigns: campaigns
                .iter()
                .map(CampaignPlan::from_known_campaign)
                .collect(),
            campaign_places: campaigns.iter().map(|known| known.id).zip(0..).collect(),
            orders: PlannedOrders::from_known_orders(orders, campaigns),
            last_part: (0, 0),
            last_grants: HashMap::new(),
        }
    }

    pub(super) fn into_plan(mut self) -> SettlementPlan<'a> {
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
                // The phase of the campaign depends on all its parts.
                change.phase = None;
            }
            plan.campaigns
                .extend(change.changes_something().then_some(change));
            plan.spread.extend(life.moved_spread());
            plan.closes.extend(campaign.close);
        }
        plan.record_sold_out(self.source, &self.last_grants);
        plan.sort_accounts();
        plan
    }

    /// Known data of an entry's campaign.
    pub(super) fn known_campaign(&self, entry: &Entry) -> Option<&'a KnownCampaign> {
        let place = self.campaign_places.get(&entry.campaign)?;
        Some(self.campaigns[*place].known)
    }

    fn settle(&mut self, entry: &'a Entry) -> Result<(), Contradiction> {
        if let Event::ChangeMade { id } = &entry.event {
            self.plan.made_changes.push(*id);
            return Ok(());
        }
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
            // Transfers between parts change no row, because only the engine knows where units are.
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
                        cancelled_in_parts: 0,
                        one_per_user,
                        granted_at: entry.at.as_millis(),
                        hold_until: entry.at.plus_millis(known.hold_ms).as_millis(),
                        extension_ms: 0,
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
            Event::PartCancelled { number, part } => self.cancel_part(place, entry, *number, part),
            Event::Expired { number } => self.give_back(place, entry, *number, OrderState::Expired),
            Event::HoldExtended {
                number,
                extension_ms,
            } => (self.orders).extend_hold(campaign_ref, *number, *extension_ms),
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
                let row = SaleSettingsRow::from_campaign(campaign_ref, *revision, entry.at, terms);
                campaign.change.change_terms(row);
                campaign.one_per_user = false;
                self.orders.loosen(campaign_ref);
                self.plan.terms.push(row);
                Ok(())
            }
            Event::ChangeMade { .. } => Ok(()),
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
        let escrow = self.account(known, &known.name, AccountPurpose::Escrow);
        let user = self.account(known, user.as_str(), AccountPurpose::User);
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
        let quantity = self
            .orders
            .end_hold(campaign_ref, number, state, entry.at)?;
        self.campaigns[place].restock(quantity)
    }

    /// Cancels some units of a held order. No money moves.
    fn cancel_part(
        &mut self,
        place: usize,
        entry: &Entry,
        number: u32,
        part: &'a ReturnPart,
    ) -> Result<(), Contradiction> {
        let campaign = self.campaigns[place].known.campaign_ref;
        let units = i64::from(part.quantity);
        let price = self.orders.cancel_units(campaign, number, units)?;
        self.campaigns[place].restock(units)?;
        self.last_part = (units, price);
        self.plan.returns.push(ReturnRow {
            campaign,
            number: i64::from(number),
            key: part.key.as_str(),
            quantity: units,
            amount: 0,
            at: entry.at.as_millis(),
            kind: PartKind::Cancellation,
        });
        Ok(())
    }

    /// Returns a paid order, or some of its units. The money that paid them moves from the seller to the buyer's
    /// refunds due, even if the seller's account becomes negative.
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
        self.last_part = (units, amount);
        self.plan.returns.extend(part.map(|part| ReturnRow {
            campaign,
            number: i64::from(number),
            key: part.key.as_str(),
            quantity: units,
            amount,
            at: entry.at.as_millis(),
            kind: PartKind::Return,
        }));
        if amount == 0 {
            return Ok(());
        }
        let debit = self.account(known, &known.owner, AccountPurpose::User);
        let credit = self.account(known, made.user, AccountPurpose::RefundsDue);
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
            Event::RefundDue { .. } => ("refund_due", user, AccountPurpose::RefundsDue),
            _ => ("payment", known.owner.as_str(), AccountPurpose::User),
        };
        let debit = self.account_in(money.currency, OUTSIDE, AccountPurpose::Outside);
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
        // Both accounts are locked even if nothing is refunded: a residue is found later, when the owner's account can
        // no longer be locked.
        let escrow = self.account(known, &known.name, AccountPurpose::Escrow);
        let owner = self.account(known, &known.owner, AccountPurpose::User);
        self.campaigns[place].close = Some(PacketClose {
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
