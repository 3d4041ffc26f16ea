//! Ledger of a simulated world: rows in memory. The plans of the real settlement change them, and the simulated engine
//! reads them like the embedded engine reads its file.

mod campaign;

use std::collections::BTreeMap;

use qiang_core::{
    admission::AdmissionBound,
    book::{CampaignCounters, CampaignSnapshot, FormerGrant, InvalidRows, PaymentOutcome, Setup},
    campaign::{CampaignKind, Phase, Rules, Sale, SaleSettings},
    event::{Entry, PartitionId, Seq},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    order::{OrderState, PartKind, ReturnPart},
    payment::{PaymentState, ReceivedMoney},
    ports::{LedgerError, SettledPayment, SettledReturn, SettledRow},
    rows::{AccountPurpose, Contradiction, OUTSIDE},
    settlement::{
        self, CampaignChange, KnownCampaign, KnownOrder, NewOrder, OrderChange, PacketClose,
        SaleSettingsRow, SettlementPlan,
    },
    split::Seed,
    time::{Timestamp, Window},
};

use super::Bug;

const PARTITION: PartitionId = PartitionId(0);

/// A campaign with all its settled data.
#[derive(Debug)]
struct Row {
    setup: Setup,
    phase: Phase,
    granted: i64,
    returned: i64,
    refunded_minor: i64,
    terms_revision: i64,
    grants: BTreeMap<i64, SettledRow>,
    payments: Vec<SettledPayment>,
    returns: Vec<SettledReturn>,
}

/// A campaign and the end of its window; or the grant time of an order, with the hold of its sale and the extension.
pub(crate) type DueTime = (CampaignId, Timestamp, Option<(i64, i64)>);

/// Rows of a campaign, for a book that does not have it.
pub enum Loaded {
    /// Its opening is settled.
    Opened(Box<CampaignSnapshot>),
    /// Its opening is not settled.
    Draft(Box<CampaignSnapshot>),
    /// There is no such campaign.
    Unknown,
}

/// All rows. A campaign's `ref` is its index, from 1.
#[derive(Debug)]
pub struct Rows {
    campaigns: Vec<Row>,
    accounts: BTreeMap<(String, AccountPurpose), i64>,
    entries: Vec<Entry>,
    position: Seq,
    residue_minor: i64,
    bug: Option<Bug>,
}

impl Rows {
    /// Creates an empty ledger.
    #[must_use]
    pub fn new(bug: Option<Bug>) -> Self {
        Self {
            campaigns: Vec::new(),
            accounts: BTreeMap::new(),
            entries: Vec::new(),
            position: 0,
            residue_minor: 0,
            bug,
        }
    }

    /// Deposits money from outside.
    pub fn deposit(&mut self, user: &UserId, minor: i64) {
        self.add(OUTSIDE, AccountPurpose::Outside, -minor);
        self.add(user.as_str(), AccountPurpose::User, minor);
    }

    /// Enters a campaign, and moves a packet's total into escrow.
    pub fn create(&mut self, mut setup: Setup) {
        let (id, funded) = (setup.campaign.id, setup.campaign.funded_minor());
        self.add(setup.campaign.owner.as_str(), AccountPurpose::User, -funded);
        self.add(&id.to_string(), AccountPurpose::Escrow, funded);
        if self.bug == Some(Bug::KeepsAnotherSeed)
            && let Rules::RedPacket(packet) = &mut setup.campaign.rules
        {
            let mut bytes = *packet.seed.as_bytes();
            bytes[0] ^= 1;
            packet.seed = Seed::from_bytes(bytes);
        }
        self.campaigns.push(Row {
            setup,
            phase: Phase::Draft,
            granted: 0,
            returned: 0,
            refunded_minor: 0,
            terms_revision: 0,
            grants: BTreeMap::new(),
            payments: Vec::new(),
            returns: Vec::new(),
        });
    }

    /// Settles entries, all or none. Entries that are settled already change nothing. Returns the position afterwards.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if entries contradict each other or the rows.
    pub fn settle(&mut self, entries: &[Entry]) -> Result<Seq, LedgerError> {
        let fresh = settlement::fresh(entries, self.position)?;
        let taken = match self.bug {
            Some(Bug::SettlesTwice) => entries,
            _ => fresh,
        };
        let campaigns = self.known();
        let wanted = settlement::wanted_orders(taken, &campaigns);
        let orders: Vec<_> = (wanted.iter().filter_map(|key| self.known_order(*key))).collect();
        let plan = SettlementPlan::new(PARTITION, taken, &campaigns, &orders)?;
        self.check_shares(&plan)?;
        self.write(&plan)?;
        self.entries.extend_from_slice(taken);
        let last = taken.last().map_or(0, |entry| entry.seq);
        self.position = self.position.max(last);
        Ok(self.position)
    }

    /// The settled position of the log.
    #[must_use]
    pub fn position(&self) -> Seq {
        self.position
    }

    /// All settled entries, in order.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Balance of an account, in minor units.
    #[must_use]
    pub fn balance(&self, owner: &str, purpose: AccountPurpose) -> i64 {
        let account = self.accounts.get(&(owner.to_owned(), purpose));
        account.copied().unwrap_or(0)
    }

    /// Money that closes found in escrow beyond the refunds of their entries, and the current sum in escrow.
    #[must_use]
    pub fn residue_and_escrow(&self) -> (i64, i64) {
        let escrow = |((_, purpose), minor): (&(String, AccountPurpose), &i64)| {
            (*purpose == AccountPurpose::Escrow).then_some(*minor)
        };
        let left = self.accounts.iter().filter_map(escrow).sum();
        (self.residue_minor, left)
    }

    /// Campaigns whose opening is not settled.
    #[must_use]
    pub fn drafts(&self) -> Vec<CampaignId> {
        self.ids(|row| row.phase == Phase::Draft)
    }

    /// Red packets that are not closed although all shares are granted.
    #[must_use]
    pub fn claimed_packets(&self) -> Vec<CampaignId> {
        let early = i64::from(self.bug == Some(Bug::ClosesEarly));
        self.ids(|row| {
            let is_open = !matches!(row.phase, Phase::Draft | Phase::Closed);
            is_open && row.is_packet() && row.granted + early >= row.supply()
        })
    }

    /// Red packets with a public seed, and the seeds.
    #[must_use]
    pub fn shown_seeds(&self) -> Vec<(CampaignId, Seed)> {
        let early = i64::from(self.bug == Some(Bug::ShowsSeedEarly));
        let shown = |row: &Row| {
            let packet = row.setup.campaign.rules.red_packet()?;
            let is_over = packet.is_over(row.phase, (row.granted + early) as u64);
            is_over.then(|| (row.setup.campaign.id, packet.seed.clone()))
        };
        self.campaigns.iter().filter_map(shown).collect()
    }

    /// All held orders.
    #[must_use]
    pub fn held_orders(&self) -> Vec<OrderId> {
        let mut orders = Vec::new();
        for row in self.campaigns.iter().filter(|row| !row.is_packet()) {
            let campaign = row.setup.campaign.id;
            let held = |grant: &&SettledRow| grant.state == OrderState::Held;
            orders.extend(row.grants.values().filter(held).map(|grant| OrderId {
                campaign,
                number: grant.number,
            }));
        }
        orders
    }

    /// A campaign as an engine opens it.
    #[must_use]
    pub fn setup(&self, id: CampaignId) -> Option<Setup> {
        Some(self.row(id)?.setup.clone())
    }

    /// Whether a campaign is a draft; `None` if there is no such campaign.
    #[must_use]
    pub fn is_draft(&self, id: CampaignId) -> Option<bool> {
        Some(self.row(id)?.phase == Phase::Draft)
    }

    /// End of each window. For sales also the grant times of the oldest held order and of held orders with extended
    /// holds, with the hold of the sale and the extension.
    #[must_use]
    pub fn dues(&self) -> Vec<DueTime> {
        let mut dues = Vec::new();
        for row in &self.campaigns {
            let campaign = &row.setup.campaign;
            if !matches!(row.phase, Phase::Draft | Phase::Closed) {
                dues.push((campaign.id, campaign.window.ends_at(), None));
            }
            let Some(sale) = campaign.rules.sale() else {
                continue;
            };
            let held = row.grants.values();
            let held = held.filter(|grant| grant.state == OrderState::Held);
            let (longer, others): (Vec<_>, Vec<_>) = held.partition(|it| it.extension_ms > 0);
            for grant in longer.into_iter().chain(others.into_iter().next()) {
                let since = grant.granted.as_ref().map(|(_, at)| *at);
                let hold = Some((sale.hold_ms(), grant.extension_ms));
                dues.extend(since.map(|since| (campaign.id, since, hold)));
            }
        }
        dues
    }

    /// Loads a campaign's settled state for a book that does not have it.
    ///
    /// # Errors
    /// If its rows do not add up.
    pub fn load(&self, id: CampaignId) -> Result<Loaded, InvalidRows> {
        let Some(row) = self.row(id) else {
            return Ok(Loaded::Unknown);
        };
        let setup = row.setup.clone();
        if row.phase == Phase::Draft {
            let restored = CampaignSnapshot::unopened(setup, self.position);
            return Ok(Loaded::Draft(Box::new(restored)));
        }
        let standing = CampaignCounters {
            phase: row.phase,
            granted: row.granted as u64,
            returned: row.returned as u64,
            refunded_minor: row.refunded_minor,
        };
        let mut restored = CampaignSnapshot::opened(setup, standing, self.position);
        for grant in row.grants.values() {
            let (Some((user, granted_at)), Some(amount_minor)) =
                (&grant.granted, grant.amount_minor)
            else {
                continue;
            };
            restored.add(&FormerGrant {
                number: grant.number,
                user,
                quantity: grant.quantity,
                amount_minor,
                granted_at: *granted_at,
                key: grant.key.as_ref(),
                state: grant.state,
                returned: grant.returned,
                cancelled: grant.cancelled,
                extension_ms: grant.extension_ms,
            })?;
        }
        for payment in &row.payments {
            restored.add_payment(payment.number, &payment.payment, payment.outcome)?;
        }
        for SettledReturn { number, kind, part } in &row.returns {
            restored.add_part(*number, *kind, part)?;
        }
        Ok(Loaded::Opened(Box::new(restored.finish()?)))
    }

    fn row(&self, id: CampaignId) -> Option<&Row> {
        self.campaigns
            .iter()
            .find(|row| row.setup.campaign.id == id)
    }

    fn row_of(&mut self, campaign_ref: i64) -> &mut Row {
        &mut self.campaigns[campaign_ref as usize - 1]
    }

    fn ids(&self, which: impl Fn(&Row) -> bool) -> Vec<CampaignId> {
        let rows = self.campaigns.iter().filter(|row| which(row));
        rows.map(|row| row.setup.campaign.id).collect()
    }

    fn add(&mut self, owner: &str, purpose: AccountPurpose, minor: i64) {
        let account = self.accounts.entry((owner.to_owned(), purpose));
        *account.or_default() += minor;
    }

    fn known(&self) -> Vec<KnownCampaign> {
        let rows = (1..).zip(&self.campaigns);
        rows.map(|(campaign_ref, row)| row.known(campaign_ref))
            .collect()
    }

    fn known_order(&self, (campaign, number): (i64, i64)) -> Option<KnownOrder> {
        let grant = self.campaigns[campaign as usize - 1].grants.get(&number)?;
        let (user, _) = grant.granted.as_ref()?;
        Some(KnownOrder {
            campaign,
            number,
            user: user.to_string(),
            quantity: grant.quantity.into(),
            amount: grant.amount_minor?,
            state: grant.state,
            returned_in_parts: {
                let parts = self.campaigns[campaign as usize - 1].returns.iter();
                let own = parts.filter(|it| i64::from(it.number) == number);
                let own = own.filter(|it| it.kind == PartKind::Return);
                own.map(|it| i64::from(it.part.quantity)).sum()
            },
            cancelled_in_parts: grant.cancelled.into(),
            extension_ms: grant.extension_ms,
            paid_minor: self.paid_minor(campaign, number, grant.amount_minor?),
        })
    }

    /// Minor units that paid an order; `None` if no payment did.
    fn paid_minor(&self, campaign: i64, number: i64, price_minor: i64) -> Option<i64> {
        let mut payments = self.campaigns[campaign as usize - 1].payments.iter();
        let paid = payments.find(|payment| {
            i64::from(payment.number) == number && payment.outcome != PaymentOutcome::RefundDue
        })?;
        let other = paid.received.other();
        Some(other.map_or(price_minor, |money| money.minor))
    }

    /// Checks that each share is free and has either no planned amount or this one.
    fn check_shares(&self, plan: &SettlementPlan<'_>) -> Result<(), Contradiction> {
        for share in &plan.shares {
            let row = &self.campaigns[share.campaign as usize - 1];
            let planned = row.setup.shares.get(share.number as usize - 1);
            let is_taken = row.grants.contains_key(&share.number);
            let is_other = planned.is_some_and(|amount| *amount != share.amount);
            if (is_taken && self.bug != Some(Bug::SettlesTwice)) || is_other {
                let number = share.number;
                let reason = format!("share {number} is gone, or has another amount");
                return Err(Contradiction::new(reason));
            }
        }
        Ok(())
    }

    fn write(&mut self, plan: &SettlementPlan<'_>) -> Result<(), LedgerError> {
        for share in &plan.shares {
            let grant = SettledRow {
                number: share.number as u32,
                amount_minor: Some(share.amount),
                granted: Some((user(share.user)?, Timestamp::from_millis(share.at))),
                quantity: 1,
                state: OrderState::Held,
                returned: 0,
                cancelled: 0,
                extension_ms: 0,
                key: None,
            };
            let row = self.row_of(share.campaign);
            row.grants.insert(share.number, grant);
        }
        self.change_orders(&plan.leaving_orders);
        for order in &plan.new_orders {
            let grant = new_order(order)?;
            self.row_of(order.campaign)
                .grants
                .insert(order.number, grant);
        }
        self.change_orders(&plan.keeping_orders);
        for payment in &plan.payments {
            let received = ReceivedMoney::from_columns(payment.amount, payment.currency)
                .ok_or_else(|| damaged("a payment has a bad currency"))?;
            let state = PaymentState::new(outcome(payment.outcome)?, received);
            let settled = SettledPayment {
                number: payment.number as u32,
                payment: PaymentRef::new(payment.payment).map_err(damaged)?,
                outcome: state.outcome,
                received: state.received,
            };
            self.row_of(payment.campaign).payments.push(settled);
        }
        for it in &plan.returns {
            let settled = SettledReturn {
                number: it.number as u32,
                kind: it.kind,
                part: ReturnPart {
                    quantity: it.quantity as u32,
                    key: IdempotencyKey::new(it.key).map_err(damaged)?,
                },
            };
            self.row_of(it.campaign).returns.push(settled);
        }
        for (key, minor) in &plan.accounts {
            self.add(key.owner, key.purpose, *minor);
        }
        for change in &plan.campaigns {
            self.row_of(change.campaign).change(change);
        }
        plan.closes.iter().for_each(|close| self.sweep(close));
        Ok(())
    }

    fn change_orders(&mut self, orders: &[OrderChange]) {
        for order in orders {
            let row = self.row_of(order.campaign);
            if let Some(grant) = row.grants.get_mut(&order.number) {
                grant.state = order.state;
                grant.quantity = order.quantity as u32;
                grant.amount_minor = Some(order.amount);
                grant.cancelled = order.cancelled_in_parts as u32;
                grant.extension_ms += order.extension_ms;
                grant.returned = match order.state {
                    OrderState::Returned => grant.quantity,
                    _ => order.returned_in_parts as u32,
                };
            }
        }
    }

    /// Refunds all money left in escrow to the sender.
    fn sweep(&mut self, close: &PacketClose<'_>) {
        let escrow = close.escrow_key().owner;
        let residue = self.balance(escrow, AccountPurpose::Escrow);
        if residue > 0 {
            self.add(escrow, AccountPurpose::Escrow, -residue);
            self.add(close.owner_key().owner, AccountPurpose::User, residue);
            self.residue_minor += residue;
        }
    }
}

fn new_order(order: &NewOrder<'_>) -> Result<SettledRow, LedgerError> {
    let key = order.key.map(IdempotencyKey::new);
    Ok(SettledRow {
        number: order.number as u32,
        amount_minor: Some(order.amount),
        granted: Some((user(order.user)?, Timestamp::from_millis(order.granted_at))),
        quantity: order.quantity as u32,
        state: order.state,
        returned: match order.state {
            OrderState::Returned => order.quantity as u32,
            _ => order.returned_in_parts as u32,
        },
        cancelled: order.cancelled_in_parts as u32,
        extension_ms: order.extension_ms,
        key: key.transpose().map_err(damaged)?,
    })
}

fn user(name: &str) -> Result<UserId, LedgerError> {
    UserId::new(name).map_err(damaged)
}

fn outcome(name: &str) -> Result<PaymentOutcome, LedgerError> {
    let all = [
        PaymentOutcome::Paid,
        PaymentOutcome::Reinstated,
        PaymentOutcome::RefundDue,
    ];
    let known = all.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| LedgerError::damaged(format!("a payment is {name}")))
}

fn damaged(error: impl std::fmt::Display) -> LedgerError {
    LedgerError::damaged(error.to_string())
}
