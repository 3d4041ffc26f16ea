//! Campaigns and shares: entering, reading, listing.

use qiang_core::{
    book::Setup,
    campaign::{Campaign, CampaignKind, Phase, RedPacket, Rules, Sale},
    id::{CampaignId, UserId},
    money::{AMOUNT_MINOR_MAX, Currency, Money},
    ports::{CampaignRecord, GrantRecord, LedgerError},
    split::{SPLIT_VERSION, Seed, Split, SplitRule, commit},
    time::{Timestamp, Window},
};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::accounts::{self, DIRECT, Posting, Purpose};
use crate::error::StoreError;

const COLUMNS: &str = "id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, \
                       per_user_limit, total, split_rule, split_min, split_max, split_version, seed, unit_price, \
                       hold_ms, phase, granted, returned, refunded, parts, ref";

/// Which campaigns to go through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    /// Those that an engine has not taken up.
    Drafts,
    /// Those that the log knows, settled or not.
    Opened,
}

/// Enters a campaign once per id: its row, its shares, and the packet's total from the sender into escrow.
pub(crate) fn create(conn: &Connection, now: Timestamp, setup: &Setup) -> Result<(), StoreError> {
    let campaign = &setup.campaign;
    if campaign.funded_minor() > AMOUNT_MINOR_MAX {
        return Err(StoreError::Refused(LedgerError::AmountOutOfRange));
    }
    let Some(r) = insert(conn, campaign)? else {
        return Ok(());
    };
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Ok(());
    };

    let mut share =
        conn.prepare_cached("INSERT INTO shares (campaign, number, amount) VALUES (?1, ?2, ?3)")?;
    for number in 1..=packet.split.count() {
        let amount = setup.shares.get(number as usize - 1);
        share.execute(params![r, number, amount])?;
    }

    let total = packet.split.total();
    let owner = campaign.owner.as_str();
    let held = accounts::balance(conn, owner, Purpose::User, packet.currency)?;
    if held < total {
        let (held, needed) = (
            Money::new(held, packet.currency),
            Money::new(total, packet.currency),
        );
        return Err(StoreError::Refused(LedgerError::InsufficientFunds {
            held,
            needed,
        }));
    }
    let debit = accounts::take(conn, owner, Purpose::User, packet.currency, total)?;
    let credit = accounts::add(
        conn,
        &campaign.id.to_string(),
        Purpose::Escrow,
        packet.currency,
        total,
    )?;
    let posting = Posting {
        source: DIRECT,
        seq: accounts::next_direct(conn)?,
        kind: "fund",
        debit,
        credit,
        amount: total,
        campaign: Some(r),
        number: None,
        at: now,
    };
    accounts::post(conn, &posting)
}

/// The new row, or nothing if the campaign is there already.
fn insert(conn: &Connection, campaign: &Campaign) -> Result<Option<i64>, StoreError> {
    let (packet, sale) = (campaign.rules.red_packet(), campaign.rules.sale());
    let rule = packet.map(|packet| packet.split.rule().parts());
    let mut statement = conn.prepare_cached(
        "INSERT INTO campaigns (id, kind, owner, title, currency, ack, starts_at, ends_at, created_at, supply, \
         per_user_limit, total, split_rule, split_min, split_max, split_version, seed, commitment, unit_price, \
         hold_ms, phase) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, 'draft') \
         ON CONFLICT (id) DO NOTHING RETURNING ref",
    )?;
    let r = statement.query_row(
        params![
            campaign.id.to_string(),
            campaign.kind().name(),
            campaign.owner.as_str(),
            campaign.title,
            campaign.currency().code(),
            campaign.ack.name(),
            campaign.window.starts_at().as_millis(),
            campaign.window.ends_at().as_millis(),
            campaign.created_at.as_millis(),
            campaign.supply(),
            campaign.per_user_limit(),
            packet.map(|packet| packet.split.total()),
            rule.map(|(name, ..)| name.as_str()),
            rule.and_then(|(_, min, _)| min),
            rule.and_then(|(.., max)| max),
            packet.map(|_| SPLIT_VERSION),
            packet.map(|packet| packet.seed.as_bytes()),
            packet.map(|packet| *commit(&packet.seed, &packet.split).as_bytes()),
            sale.map(|sale| sale.unit_price().minor),
            sale.map(Sale::hold_ms),
        ],
        |row| row.get(0),
    );
    Ok(r.optional()?)
}

/// One campaign.
pub(crate) fn campaign(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, StoreError> {
    Ok(campaign_and_parts(conn, id)?.map(|(record, _)| record))
}

/// One campaign, and over how many partitions it is spread.
pub(crate) fn campaign_and_parts(
    conn: &Connection,
    id: CampaignId,
) -> Result<Option<(CampaignRecord, u16)>, StoreError> {
    let mut statement =
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM campaigns WHERE id = ?1"))?;
    let mut rows = statement.query([id.to_string()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    Ok(Some((record_of(row)?, row.get("parts")?)))
}

/// Goes through campaigns with their shares, oldest first.
pub(crate) fn each_setup(
    conn: &Connection,
    which: Which,
    mut each: impl FnMut(i64, Setup),
) -> Result<(), StoreError> {
    let condition = match which {
        Which::Drafts => "phase = 'draft'",
        // The phase is as settled: a campaign opened a moment ago may still read `draft`.
        Which::Opened => {
            "phase <> 'draft' OR ref IN (SELECT campaign FROM events WHERE kind = 0 AND seq > \
                          coalesce((SELECT seq FROM settled WHERE partition = 0), 0))"
        }
    };
    let mut statement = conn.prepare(&format!(
        "SELECT {COLUMNS} FROM campaigns WHERE {condition} ORDER BY ref"
    ))?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let campaign = record_of(row)?.campaign;
        let r: i64 = row.get("ref")?;
        let shares = shares(conn, r, &campaign)?;
        each(r, Setup { campaign, shares });
    }
    Ok(())
}

fn shares(conn: &Connection, r: i64, campaign: &Campaign) -> Result<Vec<i64>, StoreError> {
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Ok(Vec::new());
    };
    if matches!(packet.split.rule(), SplitRule::Lazy { .. }) {
        return Ok(Vec::new());
    }
    let mut statement =
        conn.prepare_cached("SELECT amount FROM shares WHERE campaign = ?1 ORDER BY number")?;
    let shares: Vec<i64> = statement
        .query_map([r], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    if shares.len() != packet.split.count() as usize
        || shares.iter().sum::<i64>() != packet.split.total()
    {
        return Err(StoreError::damaged(format!(
            "the shares of red packet {} do not add up",
            campaign.id
        )));
    }
    Ok(shares)
}

fn record_of(row: &Row<'_>) -> Result<CampaignRecord, StoreError> {
    let id: String = row.get("id")?;
    let bad = |what: &str| StoreError::damaged(format!("campaign {id} has a bad {what}"));
    let currency: Currency = row
        .get::<_, String>("currency")?
        .parse()
        .map_err(|_| bad("currency"))?;
    let time = |column: &str| row.get(column).map(Timestamp::from_millis);
    let rules = match row.get::<_, String>("kind")?.as_str() {
        "red_packet" => {
            if row.get::<_, u8>("split_version")? != SPLIT_VERSION {
                return Err(bad(
                    "split version: it was made by another release of the splitting rules",
                ));
            }
            let name = row.get::<_, String>("split_rule")?.parse();
            let (min, max) = (row.get("split_min")?, row.get("split_max")?);
            let rule = name
                .ok()
                .and_then(|name| SplitRule::from_parts(name, min, max).ok())
                .ok_or_else(|| bad("splitting rule"))?;
            let split = Split::new(row.get("total")?, row.get("supply")?, rule)
                .map_err(|_| bad("split"))?;
            Rules::RedPacket(RedPacket {
                split,
                currency,
                seed: Seed::from_bytes(row.get("seed")?),
            })
        }
        "sale" => {
            let price = Money::new(row.get("unit_price")?, currency);
            let sale = Sale::new(
                row.get("supply")?,
                row.get("per_user_limit")?,
                price,
                row.get("hold_ms")?,
            );
            Rules::Sale(sale.map_err(|_| bad("sale"))?)
        }
        _ => return Err(bad("kind")),
    };
    let phase = row.get::<_, String>("phase")?;
    let phases = [
        Phase::Draft,
        Phase::Scheduled,
        Phase::Paused,
        Phase::Ended,
        Phase::Closed,
    ];
    Ok(CampaignRecord {
        campaign: Campaign {
            id: id.parse().map_err(|_| bad("id"))?,
            owner: UserId::new(&row.get::<_, String>("owner")?).map_err(|_| bad("owner"))?,
            title: row.get("title")?,
            window: Window::new(time("starts_at")?, time("ends_at")?).map_err(|_| bad("window"))?,
            ack: row
                .get::<_, String>("ack")?
                .parse()
                .map_err(|_| bad("acknowledgement level"))?,
            created_at: time("created_at")?,
            rules,
        },
        phase: phases
            .into_iter()
            .find(|p| p.name() == phase)
            .ok_or_else(|| bad("phase"))?,
        granted: row.get("granted")?,
        returned: row.get("returned")?,
        refunded_minor: row.get("refunded")?,
    })
}

/// Settled grants with numbers above `after`, in order.
pub(crate) fn grants(
    conn: &Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, StoreError> {
    let mut campaign = conn.prepare_cached("SELECT ref, kind FROM campaigns WHERE id = ?1")?;
    let found: Option<(i64, String)> = campaign
        .query_row([id.to_string()], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let Some((r, kind)) = found else {
        return Ok(Vec::new());
    };
    let sql = if kind == CampaignKind::RedPacket.name() {
        "SELECT number, user, 1, amount, granted_at FROM shares \
         WHERE campaign = ?1 AND number > ?2 AND user IS NOT NULL ORDER BY number LIMIT ?3"
    } else {
        "SELECT number, user, quantity, amount, granted_at FROM orders \
         WHERE campaign = ?1 AND number > ?2 ORDER BY number LIMIT ?3"
    };
    let mut statement = conn.prepare_cached(sql)?;
    let mut rows = statement.query(params![r, after, limit])?;
    let mut grants = Vec::new();
    while let Some(row) = rows.next()? {
        let user: String = row.get(1)?;
        grants.push(GrantRecord {
            number: row.get(0)?,
            user: UserId::new(&user)
                .map_err(|_| StoreError::damaged(format!("a grant of {id} has a bad user")))?,
            quantity: row.get(2)?,
            amount_minor: row.get(3)?,
            granted_at: Timestamp::from_millis(row.get(4)?),
        });
    }
    Ok(grants)
}
