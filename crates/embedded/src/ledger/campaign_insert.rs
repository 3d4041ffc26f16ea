//! Enters campaigns: their rows, their shares and their funding.

use qiang_core::{
    book::Setup,
    campaign::{Campaign, Cover, Details, Phase},
    id::CampaignId,
    money::{AMOUNT_MINOR_MAX, Money},
    ports::{Creation, LedgerError},
    rows::{AccountKey, AccountPurpose, NewCampaign},
    time::Timestamp,
};
use rusqlite::{CachedStatement, Connection, params, params_from_iter};

use super::{
    accounts::{self, FundingAccounts},
    actions, audiences,
    bound_values::BoundValues,
    list_index, preparations,
};
use crate::{error::DataFileError, transaction::TransactionContext};

/// Statements and cursor that enter campaigns one after another in one transaction. Shared work is done once.
pub(crate) struct CampaignInsert<'c> {
    conn: &'c Connection,
    now: Timestamp,
    settles_openings: bool,
    insert: CachedStatement<'c>,
    funding: FundingAccounts<'c>,
    next: Option<NextCampaignKeys>,
}

/// Cursor: keys of the next campaign.
#[derive(Clone, Copy)]
struct NextCampaignKeys {
    campaign_ref: i64,
    /// Sequence number of its posting.
    seq: i64,
    /// Rows changed over the connection so far. If the number differs, another statement may have used these keys.
    changes: u64,
}

impl<'c> CampaignInsert<'c> {
    pub(crate) fn prepare(basis: &TransactionContext<'c>) -> Result<Self, DataFileError> {
        let TransactionContext {
            conn,
            now,
            settles_openings,
        } = *basis;
        // `RETURNING` would make SQLite keep a temporary table for the `ref`.
        let insert = conn.prepare_cached(
            "INSERT INTO campaigns (ref, id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, \
             supply, per_user_limit, total, split_rule, split_min, split_max, split_version, seed, commitment, \
             server_seed, client_seed, unit_price, hold_ms, requirements, admission, \
             payment_policy, payment_tolerance, updated_at, phase) \
             VALUES (?28, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
             ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?29) ON CONFLICT (id) DO NOTHING",
        )?;
        let funding = FundingAccounts::prepare(conn)?;
        Ok(Self {
            conn,
            now,
            settles_openings,
            insert,
            funding,
            next: None,
        })
    }

    pub(crate) fn conn(&self) -> &'c Connection {
        self.conn
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }

    /// Enters a campaign once per id: row, details, audience if it has one, shares, and the red packet's total from the
    /// sender to escrow. Shares written earlier are under the `reserved` key. If openings are settled with the entry,
    /// the campaign gets the phase after its opening.
    ///
    /// Returns false if the campaign existed.
    ///
    /// # Errors
    ///
    /// The amount is out of range, or the sender lacks funds.
    pub(crate) fn enter(
        &mut self,
        setup: &Setup,
        asked: &Creation,
        reserved: Option<i64>,
    ) -> Result<bool, DataFileError> {
        let campaign = &setup.campaign;
        if campaign.funded_minor() > AMOUNT_MINOR_MAX {
            return Err(DataFileError::Refused(LedgerError::AmountOutOfRange));
        }
        let NextCampaignKeys {
            campaign_ref, seq, ..
        } = *self.next()?;
        let mut funds = None;
        if let Some(packet) = campaign.rules.red_packet() {
            let sender = AccountKey::new(
                campaign.owner.as_str(),
                AccountPurpose::User,
                packet.currency,
            );
            let (purse, total) = (self.funding.purse(sender)?, packet.split.total());
            let Some(purse) = purse.filter(|purse| purse.held >= total) else {
                if is_there(self.conn, campaign.id)? {
                    return Ok(false);
                }
                let held = purse.map_or(0, |purse| purse.held);
                return Err(DataFileError::Refused(LedgerError::InsufficientFunds {
                    held: Money::new(held, packet.currency),
                    needed: Money::new(total, packet.currency),
                }));
            };
            funds = Some((packet, purse, total));
        }
        let new_ref = reserved.unwrap_or(campaign_ref);
        let phase = match asked.opens && self.settles_openings {
            true => Phase::Scheduled,
            false => Phase::Draft,
        };
        if !self.insert(campaign, new_ref, phase)? {
            return Ok(false);
        }
        enter_details(self.conn, new_ref, &asked.details)?;
        if let Some(rules) = &asked.audience {
            audiences::enter(self.conn, new_ref, rules)?;
        }
        if let Some(action) = &asked.by {
            actions::enter(self.conn, action)?;
        }
        let mut next_seq = seq;
        if let Some((packet, purse, total)) = funds {
            if reserved.is_some() {
                preparations::end(self.conn, new_ref)?;
                list_index::enter_reserved(self.conn, new_ref)?;
            } else {
                let numbers = 1..packet.split.count() + 1;
                preparations::put_shares(self.conn, new_ref, setup, numbers)?;
            }
            let id = campaign.id.to_string();
            let escrow = AccountKey::new(&id, AccountPurpose::Escrow, packet.currency);
            let at = (seq, new_ref, self.now);
            self.funding.fund(purse, escrow, total, at)?;
            next_seq += 1;
        }
        let changes = self.conn.total_changes();
        self.next = Some(NextCampaignKeys {
            campaign_ref: campaign_ref.max(new_ref + 1),
            seq: next_seq,
            changes,
        });
        Ok(true)
    }

    /// Keeps the cursor valid: changes after the last campaign used none of its keys.
    pub(crate) fn goes_on(&mut self) {
        if let Some(next) = &mut self.next {
            next.changes = self.conn.total_changes();
        }
    }

    /// Resets the cursor: the last campaign was undone.
    pub(crate) fn is_undone(&mut self) {
        self.next = None;
    }

    fn next(&mut self) -> Result<&mut NextCampaignKeys, DataFileError> {
        let changes = self.conn.total_changes();
        self.next.take_if(|next| next.changes != changes);
        let next = match self.next.take() {
            Some(next) => next,
            None => NextCampaignKeys {
                campaign_ref: preparations::next_ref(self.conn)?,
                seq: accounts::next_direct(self.conn)?,
                changes,
            },
        };
        Ok(self.next.insert(next))
    }

    /// Inserts a campaign's row. Returns false if the campaign exists.
    fn insert(
        &mut self,
        campaign: &Campaign,
        campaign_ref: i64,
        phase: Phase,
    ) -> Result<bool, DataFileError> {
        let row = NewCampaign::from_campaign(campaign);
        let own = [Some(campaign_ref).into(), Some(phase.name()).into()];
        let columns = row.columns().into_iter().chain(own);
        let inserted = self
            .insert
            .execute(params_from_iter(columns.map(BoundValues)))?;
        Ok(inserted == 1)
    }
}

/// Inserts the details of a new campaign, if it has any.
fn enter_details(
    conn: &Connection,
    campaign_ref: i64,
    details: &Details,
) -> Result<(), DataFileError> {
    if *details == Details::default() {
        return Ok(());
    }
    conn.prepare_cached(
        "INSERT INTO details (campaign, product_id, description, image_url, gallery, list_price, cover) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        campaign_ref,
        details.product_id.as_ref().map(|id| id.as_str()),
        details.description.as_ref().map(|text| text.as_str()),
        details.image_url.as_ref().map(|url| url.as_str()),
        details.gallery.as_ref().map(|gallery| gallery.as_str()),
        details.list_price_minor,
        details.cover.map(Cover::name),
    ])?;
    Ok(())
}

fn is_there(conn: &Connection, id: CampaignId) -> Result<bool, DataFileError> {
    let mut statement = conn.prepare_cached("SELECT 1 FROM campaigns WHERE id = ?1")?;
    Ok(statement.exists([id.to_string()])?)
}
