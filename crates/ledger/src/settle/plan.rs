//! What a run of entries does to the books, worked out in memory: what many entries do to the same row is added up,
//! so that it is written once.

use std::collections::HashMap;

use qiang_core::{
    campaign::CampaignKind,
    event::{Entry, Event, PartitionId},
    id::{CampaignId, PaymentRef, UserId},
    order::OrderState,
};

use super::{life::Life, orders::Orders};
use crate::{
    error::StoreError,
    rows::{
        AccountKey, KnownCampaign, KnownOrder, NewOrder, OUTSIDE, OrderChange, PaymentRow,
        PostingRow, Purpose, ShareGrant,
    },
};

/// Everything that is to be written for a run of entries.
#[derive(Debug, Default)]
pub(crate) struct Plan<'a> {
    pub(crate) shares: Vec<ShareGrant<'a>>,
    pub(crate) new_orders: Vec<NewOrder<'a>>,
    pub(crate) changed_orders: Vec<OrderChange>,
    pub(crate) payments: Vec<PaymentRow<'a>>,
    /// Accounts that are moved, each once, with what is added to them.
    pub(crate) accounts: Vec<(AccountKey<'a>, i64)>,
    /// Their debits and credits are places in `accounts`.
    pub(crate) postings: Vec<PostingRow>,
    /// In the order of their `ref`.
    pub(crate) campaigns: Vec<CampaignPlan<'a>>,
}

/// What happens to one campaign.
#[derive(Debug)]
pub(crate) struct CampaignPlan<'a> {
    pub(crate) known: &'a KnownCampaign,
    pub(crate) life: Life,
    pub(crate) granted: i64,
    pub(crate) returned: i64,
    pub(crate) refunded: i64,
    /// The close, if the campaign or the partition's part of it is closed, and there is an escrow.
    pub(crate) close: Option<Close>,
}

/// A close that may leave something in escrow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Close {
    pub(crate) at: i64,
    /// The places of the escrow's and the owner's accounts.
    pub(crate) escrow: usize,
    pub(crate) owner: usize,
}

/// A plan in the making.
struct Planner<'a> {
    source: i64,
    plan: Plan<'a>,
    places: HashMap<AccountKey<'a>, usize>,
    campaigns: HashMap<CampaignId, usize>,
    orders: Orders<'a>,
}

/// Works out what `entries`, which are all new, do to campaigns and orders as they are known.
pub(crate) fn plan<'a>(
    partition: PartitionId,
    entries: &'a [Entry],
    campaigns: &'a [KnownCampaign],
    orders: &'a [KnownOrder],
) -> Result<Plan<'a>, StoreError> {
    let mut planner = Planner {
        source: i64::from(partition.0),
        plan: Plan::default(),
        places: HashMap::with_capacity(entries.len()),
        campaigns: HashMap::with_capacity(campaigns.len()),
        orders: Orders::of(orders, campaigns),
    };
    for known in campaigns {
        planner
            .campaigns
            .insert(known.id, planner.plan.campaigns.len());
        planner.plan.campaigns.push(CampaignPlan {
            known,
            life: Life::of(known),
            granted: 0,
            returned: 0,
            refunded: 0,
            close: None,
        });
    }
    for entry in entries {
        planner.carry(entry)?;
    }
    let Planner {
        mut plan, orders, ..
    } = planner;
    (plan.new_orders, plan.changed_orders) = orders.into_rows();
    plan.campaigns
        .sort_unstable_by_key(|campaign| campaign.known.r);
    Ok(plan)
}

impl<'a> Planner<'a> {
    fn carry(&mut self, entry: &'a Entry) -> Result<(), StoreError> {
        let place = self
            .campaigns
            .get(&entry.campaign)
            .copied()
            .ok_or_else(|| {
                StoreError::damaged(format!("campaign {} is not in the ledger", entry.campaign))
            })?;
        let campaign = &mut self.plan.campaigns[place];
        let r = campaign.known.r;
        match &entry.event {
            Event::Opened { parts } => campaign.life.open(*parts)?,
            Event::Paused | Event::Resumed | Event::Ended => campaign.life.carry(&entry.event)?,
            Event::Granted {
                number,
                user,
                quantity,
                amount_minor,
                ..
            } => {
                campaign.life.check_opened()?;
                campaign.granted += i64::from(*quantity);
                let number = i64::from(*number);
                match campaign.known.kind {
                    CampaignKind::Sale => self.order(
                        place,
                        entry,
                        number,
                        user,
                        i64::from(*quantity),
                        *amount_minor,
                    )?,
                    CampaignKind::RedPacket => {
                        self.share(place, entry, number, user, *amount_minor)?
                    }
                }
            }
            Event::Paid { number, payment } => {
                self.orders.step(r, *number, OrderState::Paid, entry.at)?;
                self.payment(place, entry, *number, payment)?;
            }
            Event::Reinstated { number, payment } => {
                let quantity = self.orders.step(r, *number, OrderState::Paid, entry.at)?;
                campaign.life.check_opened()?;
                campaign.granted += quantity;
                self.payment(place, entry, *number, payment)?;
            }
            Event::RefundDue { number, payment } => self.payment(place, entry, *number, payment)?,
            Event::Cancelled { number } => {
                self.give_back(place, entry, *number, OrderState::Cancelled)?
            }
            Event::Expired { number } => {
                self.give_back(place, entry, *number, OrderState::Expired)?
            }
            Event::Closed {
                returned,
                refunded_minor,
            } => self.close(place, entry, i64::from(*returned), *refunded_minor)?,
        }
        Ok(())
    }

    fn order(
        &mut self,
        place: usize,
        entry: &Entry,
        number: i64,
        user: &'a UserId,
        quantity: i64,
        amount: i64,
    ) -> Result<(), StoreError> {
        let known = self.plan.campaigns[place].known;
        self.orders.enter(NewOrder {
            campaign: known.r,
            number,
            user: user.as_str(),
            quantity,
            amount,
            state: OrderState::Held,
            one_per_user: known.one_per_user,
            granted_at: entry.at.as_millis(),
            hold_until: entry.at.plus_millis(known.hold_ms).as_millis(),
            updated_at: entry.at.as_millis(),
        })
    }

    fn share(
        &mut self,
        place: usize,
        entry: &Entry,
        number: i64,
        user: &'a UserId,
        amount: i64,
    ) -> Result<(), StoreError> {
        let known = self.plan.campaigns[place].known;
        self.plan.shares.push(ShareGrant {
            campaign: known.r,
            number,
            user: user.as_str(),
            amount,
            at: entry.at.as_millis(),
        });
        let escrow = self.account(known, &known.name, Purpose::Escrow);
        let user = self.account(known, user.as_str(), Purpose::User);
        self.post(place, entry, "grant", (escrow, user), amount, Some(number))
    }

    fn give_back(
        &mut self,
        place: usize,
        entry: &Entry,
        number: u32,
        state: OrderState,
    ) -> Result<(), StoreError> {
        let campaign = &mut self.plan.campaigns[place];
        let quantity = self
            .orders
            .step(campaign.known.r, number, state, entry.at)?;
        campaign.life.check_opened()?;
        campaign.granted -= quantity;
        if campaign.life.is_closed() {
            // There is no stock to go back to: the owner has the units.
            campaign.returned += quantity;
        }
        Ok(())
    }

    fn payment(
        &mut self,
        place: usize,
        entry: &'a Entry,
        number: u32,
        payment: &'a PaymentRef,
    ) -> Result<(), StoreError> {
        let known = self.plan.campaigns[place].known;
        let (user, amount) = self.orders.buyer(known.r, number)?;
        self.plan.payments.push(PaymentRow {
            campaign: known.r,
            number: i64::from(number),
            payment: payment.as_str(),
            outcome: entry.event.name(),
            amount,
            at: entry.at.as_millis(),
        });
        let outside = (OUTSIDE, Purpose::Outside);
        let (kind, (owner, purpose)) = match &entry.event {
            Event::RefundDue { .. } => ("refund_due", (user, Purpose::RefundsDue)),
            _ => ("payment", (known.owner.as_str(), Purpose::User)),
        };
        if amount == 0 {
            return Ok(());
        }
        let debit = self.account(known, outside.0, outside.1);
        let credit = self.account(known, owner, purpose);
        self.post(
            place,
            entry,
            kind,
            (debit, credit),
            amount,
            Some(i64::from(number)),
        )
    }

    fn close(
        &mut self,
        place: usize,
        entry: &Entry,
        returned: i64,
        refunded: i64,
    ) -> Result<(), StoreError> {
        let campaign = &mut self.plan.campaigns[place];
        campaign.life.carry(&entry.event)?;
        campaign.returned += returned;
        campaign.refunded += refunded;
        let known = campaign.known;
        if known.kind == CampaignKind::Sale {
            return Ok(());
        }
        // Both accounts are taken up, even if nothing is refunded: whether there is a residue is seen later, when it
        // is too late to lock the owner's.
        let escrow = self.account(known, &known.name, Purpose::Escrow);
        let owner = self.account(known, &known.owner, Purpose::User);
        self.plan.campaigns[place].close = Some(Close {
            at: entry.at.as_millis(),
            escrow,
            owner,
        });
        if refunded == 0 {
            return Ok(());
        }
        self.post(place, entry, "refund", (escrow, owner), refunded, None)
    }

    /// The place of an account among those that are moved.
    fn account(&mut self, known: &KnownCampaign, owner: &'a str, purpose: Purpose) -> usize {
        let key = AccountKey {
            owner,
            purpose,
            currency: known.currency,
        };
        *self.places.entry(key).or_insert_with(|| {
            self.plan.accounts.push((key, 0));
            self.plan.accounts.len() - 1
        })
    }

    /// A movement of money that follows from an entry.
    fn post(
        &mut self,
        place: usize,
        entry: &Entry,
        kind: &'static str,
        (debit, credit): (usize, usize),
        amount: i64,
        number: Option<i64>,
    ) -> Result<(), StoreError> {
        let overflow =
            || StoreError::damaged(format!("entry {} moves more than there can be", entry.seq));
        for (account, amount) in [(debit, amount.checked_neg()), (credit, Some(amount))] {
            let sum = &mut self.plan.accounts[account].1;
            *sum = amount
                .and_then(|amount| sum.checked_add(amount))
                .ok_or_else(overflow)?;
        }
        self.plan.postings.push(PostingRow {
            source: self.source,
            seq: entry.seq as i64,
            kind,
            debit: debit as i64,
            credit: credit as i64,
            amount,
            campaign: Some(self.plan.campaigns[place].known.r),
            number,
            at: entry.at.as_millis(),
        });
        Ok(())
    }
}
