//! Settlement: transport_options log entries into the books.
//!
//! One transaction takes a run of entries and the position after it, so an entry is settled exactly once however
//! often it comes. What many entries do to the same row (a packet's escrow, a campaign's counts) is added up and
//! written once.
//!
//! Partitions are settled independently. What an entry says of a campaign's life is true of the part in its
//! partition; `parts.rs` makes a whole of it.

use std::collections::BTreeMap;

use qiang_core::{
    campaign::{Campaign, CampaignKind, Phase, Rules},
    event::{Entry, Event, PartitionId, Seq},
    id::{CampaignId, PaymentRef},
    order::OrderState,
    ports::LedgerError,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{
    accounts::{self, OUTSIDE, Posting, Purpose},
    campaigns,
    parts::{Counts, Life},
    quarantine::Asides,
};
use crate::{error::StoreError, log::Refs};

/// What is known of a campaign while its entries are carried over.
struct Open {
    r: i64,
    campaign: Campaign,
    life: Life,
    escrow: Option<i64>,
    escrow_delta: i64,
    /// What is to be added to the campaign's counts.
    counts: Counts,
}

/// How far a partition is settled.
pub(crate) fn position(conn: &Connection, partition: PartitionId) -> Result<Seq, StoreError> {
    let mut statement = conn.prepare_cached("SELECT seq FROM settled WHERE partition = ?1")?;
    let seq = statement.query_row([partition.0], |row| row.get::<_, i64>(0));
    Ok(seq.optional()?.unwrap_or(0) as Seq)
}

/// How far every partition is settled of which something is.
pub(crate) fn positions(conn: &Connection) -> Result<Vec<(PartitionId, Seq)>, StoreError> {
    let mut statement = conn.prepare("SELECT partition, seq FROM settled ORDER BY partition")?;
    let rows = statement.query_map([], |row| {
        Ok((PartitionId(row.get(0)?), row.get::<_, i64>(1)? as Seq))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

/// Carries entries over, skipping those at or before the position. They must follow it without a gap. Those that have
/// to wait for one that is set aside are set aside behind it.
pub(crate) fn settle(
    conn: &Connection,
    refs: &mut Refs,
    partition: PartitionId,
    entries: &[Entry],
) -> Result<Seq, StoreError> {
    let mut position = position(conn, partition)?;
    let mut open = BTreeMap::new();
    let mut asides = Asides::default();
    let settled_before = position;
    for entry in entries
        .iter()
        .skip_while(|entry| entry.seq <= settled_before)
    {
        if entry.seq != position + 1 {
            // The caller's mistake: the file is sound.
            let reason = format!("settlement at {position} was given entry {}", entry.seq);
            return Err(StoreError::Refused(LedgerError::Damaged { reason }));
        }
        position = entry.seq;
        if asides.keep(conn, partition, entry)? {
            continue;
        }
        let state = match open.entry(entry.campaign) {
            std::collections::btree_map::Entry::Occupied(found) => found.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(load(conn, refs, partition, entry.campaign)?)
            }
        };
        carry(conn, partition, state, entry)?;
    }
    for state in open.into_values() {
        state.write(conn)?;
    }
    if position > settled_before {
        move_position(conn, partition, position)?;
    }
    Ok(position)
}

/// Moves a partition's position.
pub(super) fn move_position(
    conn: &Connection,
    partition: PartitionId,
    position: Seq,
) -> Result<(), StoreError> {
    let mut statement = conn.prepare_cached(
        "INSERT INTO settled (partition, seq) VALUES (?1, ?2) \
         ON CONFLICT (partition) DO UPDATE SET seq = excluded.seq",
    )?;
    statement.execute(params![partition.0, position as i64])?;
    Ok(())
}

/// Carries over an entry that was set aside.
pub(super) fn carry_late(
    conn: &Connection,
    refs: &mut Refs,
    partition: PartitionId,
    entry: &Entry,
) -> Result<(), StoreError> {
    let mut state = load(conn, refs, partition, entry.campaign)?;
    carry(conn, partition, &mut state, entry)?;
    state.write(conn)
}

fn load(
    conn: &Connection,
    refs: &mut Refs,
    partition: PartitionId,
    id: CampaignId,
) -> Result<Open, StoreError> {
    let r = refs.of(conn, id)?;
    let (record, parts) = campaigns::campaign_and_parts(conn, id)?
        .ok_or_else(|| StoreError::damaged(format!("campaign {id} is not in the ledger")))?;
    let life = Life::load(conn, r, partition, record.phase, parts)?;
    let campaign = record.campaign;
    let escrow = match campaign.kind() {
        CampaignKind::RedPacket => Some(accounts::add(
            conn,
            &id.to_string(),
            Purpose::Escrow,
            campaign.currency(),
            0,
        )?),
        CampaignKind::Sale => None,
    };
    Ok(Open {
        r,
        campaign,
        life,
        escrow,
        escrow_delta: 0,
        counts: Counts::default(),
    })
}

fn carry(
    conn: &Connection,
    partition: PartitionId,
    open: &mut Open,
    entry: &Entry,
) -> Result<(), StoreError> {
    match &entry.event {
        Event::Opened { parts } => open.life.open(conn, *parts),
        Event::Resumed => open.life.enter(conn, Phase::Scheduled),
        Event::Paused => open.life.enter(conn, Phase::Paused),
        Event::Ended => open.life.enter(conn, Phase::Ended),
        Event::Granted { .. } => open.grant(conn, partition, entry),
        Event::Paid { number, payment } => {
            open.order(conn, entry, *number, OrderState::Paid)?;
            open.payment(conn, partition, entry, *number, payment)
        }
        Event::Reinstated { number, payment } => {
            open.counts.granted += open.order(conn, entry, *number, OrderState::Paid)?;
            open.payment(conn, partition, entry, *number, payment)
        }
        Event::RefundDue { number, payment } => {
            open.payment(conn, partition, entry, *number, payment)
        }
        Event::Cancelled { number } => open.give_back(conn, entry, *number, OrderState::Cancelled),
        Event::Expired { number } => open.give_back(conn, entry, *number, OrderState::Expired),
        Event::Closed {
            returned,
            refunded_minor,
        } => open.close(conn, partition, entry, *returned, *refunded_minor),
    }
}

impl Open {
    fn grant(
        &mut self,
        conn: &Connection,
        partition: PartitionId,
        entry: &Entry,
    ) -> Result<(), StoreError> {
        let Event::Granted {
            number,
            user,
            quantity,
            amount_minor,
            ..
        } = &entry.event
        else {
            return Ok(());
        };
        let at = entry.at.as_millis();
        self.counts.granted += i64::from(*quantity);
        if let Rules::Sale(sale) = &self.campaign.rules {
            let mut insert = conn.prepare_cached(
                "INSERT INTO orders (campaign, number, user, quantity, amount, state, one_per_user, granted_at, \
                 hold_until, updated_at) VALUES (?1, ?2, ?3, ?4, ?5, 'held', ?6, ?7, ?8, ?7)",
            )?;
            let one_per_user = sale.per_user_limit() == 1;
            let hold_until = entry.at.plus_millis(sale.hold_ms()).as_millis();
            insert.execute(params![
                self.r,
                number,
                user.as_str(),
                quantity,
                amount_minor,
                one_per_user,
                at,
                hold_until
            ])?;
            return Ok(());
        }
        let mut assign = conn.prepare_cached(
            "UPDATE shares SET user = ?3, granted_at = ?4, amount = ?5 \
             WHERE campaign = ?1 AND number = ?2 AND user IS NULL AND coalesce(amount, ?5) = ?5",
        )?;
        if assign.execute(params![self.r, number, user.as_str(), at, amount_minor])? != 1 {
            let id = self.campaign.id;
            return Err(StoreError::damaged(format!(
                "share {number} of {id} is gone, or has another amount"
            )));
        }
        self.escrow_delta -= amount_minor;
        let credit = accounts::add(
            conn,
            user.as_str(),
            Purpose::User,
            self.campaign.currency(),
            *amount_minor,
        )?;
        self.post(
            conn,
            partition,
            entry,
            "grant",
            self.escrow()?,
            credit,
            *amount_minor,
            Some(*number),
        )
    }

    fn order(
        &self,
        conn: &Connection,
        entry: &Entry,
        number: u32,
        state: OrderState,
    ) -> Result<i64, StoreError> {
        let mut statement = conn.prepare_cached(
            "UPDATE orders SET state = ?3, updated_at = ?4 WHERE campaign = ?1 AND number = ?2 RETURNING quantity",
        )?;
        let at = entry.at.as_millis();
        Ok(statement.query_row(params![self.r, number, state.name(), at], |row| row.get(0))?)
    }

    fn give_back(
        &mut self,
        conn: &Connection,
        entry: &Entry,
        number: u32,
        state: OrderState,
    ) -> Result<(), StoreError> {
        let quantity = self.order(conn, entry, number, state)?;
        self.counts.granted -= quantity;
        if self.life.is_closed() {
            // There is no stock to go back to: the owner has the units.
            self.counts.returned += quantity;
        }
        Ok(())
    }

    fn payment(
        &mut self,
        conn: &Connection,
        partition: PartitionId,
        entry: &Entry,
        number: u32,
        payment: &PaymentRef,
    ) -> Result<(), StoreError> {
        let outcome = entry.event.name();
        let mut insert = conn.prepare_cached(
            "INSERT INTO payments (campaign, number, payment, outcome, amount, at) \
             SELECT campaign, number, ?3, ?4, amount, ?5 FROM orders WHERE campaign = ?1 AND number = ?2 \
             RETURNING amount, (SELECT user FROM orders WHERE campaign = ?1 AND number = ?2)",
        )?;
        let at = entry.at.as_millis();
        let (amount, user): (i64, String) = insert.query_row(
            params![self.r, number, payment.as_str(), outcome, at],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )?;
        if amount == 0 {
            return Ok(());
        }
        let currency = self.campaign.currency();
        let (kind, owner, purpose) = match &entry.event {
            Event::RefundDue { .. } => ("refund_due", user.as_str(), Purpose::RefundsDue),
            _ => ("payment", self.campaign.owner.as_str(), Purpose::User),
        };
        let debit = accounts::add(conn, OUTSIDE, Purpose::Outside, currency, -amount)?;
        let credit = accounts::add(conn, owner, purpose, currency, amount)?;
        self.post(
            conn,
            partition,
            entry,
            kind,
            debit,
            credit,
            amount,
            Some(number),
        )
    }

    fn close(
        &mut self,
        conn: &Connection,
        partition: PartitionId,
        entry: &Entry,
        returned: u32,
        refunded_minor: i64,
    ) -> Result<(), StoreError> {
        self.counts.returned += i64::from(returned);
        self.counts.refunded += refunded_minor;
        self.write_counts(conn)?;
        self.life.enter(conn, Phase::Closed)?;
        let Some(escrow) = self.escrow else {
            return Ok(());
        };

        let owner = self.campaign.owner.as_str();
        let currency = self.campaign.currency();
        let in_escrow = accounts::balance(
            conn,
            &self.campaign.id.to_string(),
            Purpose::Escrow,
            currency,
        )? + self.escrow_delta;
        let residue = in_escrow - refunded_minor;
        if residue < 0 {
            let id = self.campaign.id;
            return Err(StoreError::damaged(format!(
                "escrow of {id} holds {in_escrow}, less than {refunded_minor}"
            )));
        }
        if refunded_minor > 0 {
            let credit = accounts::add(conn, owner, Purpose::User, currency, refunded_minor)?;
            self.escrow_delta -= refunded_minor;
            self.post(
                conn,
                partition,
                entry,
                "refund",
                escrow,
                credit,
                refunded_minor,
                None,
            )?;
        }
        if residue > 0 && self.life.is_over(conn)? {
            // Money that an earlier fault left behind goes home with the rest, in a posting of its own.
            let credit = accounts::add(conn, owner, Purpose::User, currency, residue)?;
            let posting = Posting {
                source: accounts::DIRECT,
                seq: accounts::next_direct(conn)?,
                kind: "residue",
                debit: escrow,
                credit,
                amount: residue,
                campaign: Some(self.r),
                number: None,
                at: entry.at,
            };
            accounts::post(conn, &posting)?;
            self.escrow_delta -= residue;
        }
        Ok(())
    }

    fn escrow(&self) -> Result<i64, StoreError> {
        self.escrow
            .ok_or_else(|| StoreError::damaged(format!("{} has no escrow", self.campaign.id)))
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "a posting has this many parts, and every caller gives them all"
    )]
    fn post(
        &self,
        conn: &Connection,
        partition: PartitionId,
        entry: &Entry,
        kind: &str,
        debit: i64,
        credit: i64,
        amount: i64,
        number: Option<u32>,
    ) -> Result<(), StoreError> {
        let posting = Posting {
            source: i64::from(partition.0),
            seq: entry.seq as i64,
            kind,
            debit,
            credit,
            amount,
            campaign: Some(self.r),
            number,
            at: entry.at,
        };
        accounts::post(conn, &posting)
    }

    fn write_counts(&mut self, conn: &Connection) -> Result<(), StoreError> {
        self.life.count(conn, std::mem::take(&mut self.counts))
    }

    fn write(mut self, conn: &Connection) -> Result<(), StoreError> {
        self.write_counts(conn)?;
        if self.escrow_delta != 0 {
            let id = self.campaign.id.to_string();
            accounts::take(
                conn,
                &id,
                Purpose::Escrow,
                self.campaign.currency(),
                -self.escrow_delta,
            )?;
        }
        Ok(())
    }
}
