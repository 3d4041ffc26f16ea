//! Campaigns and shares: entering, reading, listing.

use qiang_core::{
    book::Setup,
    campaign::{CampaignKind, Rules},
    id::CampaignId,
    money::{AMOUNT_MINOR_MAX, Money},
    ports::{CampaignRecord, GrantRecord, LedgerError},
    split::SplitRule,
    time::Timestamp,
};

use crate::{
    dialect::Dialect,
    error::{StoreError, raced},
    rows::{AccountKey, DIRECT, PostingRow, Purpose, grant_of},
};

/// Shares entered by one call to the dialect.
const SHARES_AT_ONCE_MAX: usize = 16_384;

/// Enters a campaign once per id: its row, its shares, and the packet's total from the sender into escrow.
pub(crate) async fn create<D: Dialect>(
    conn: &mut D::Connection,
    now: Timestamp,
    setup: &Setup,
) -> Result<(), StoreError> {
    let campaign = &setup.campaign;
    if campaign.funded_minor() > AMOUNT_MINOR_MAX {
        return Err(LedgerError::AmountOutOfRange.into());
    }
    let id = campaign.id.to_string();
    if D::has_campaign(conn, &id).await? {
        return Ok(());
    }
    let r = raced(D::enter_campaign(conn, campaign).await)?;
    let Rules::RedPacket(packet) = &campaign.rules else {
        return Ok(());
    };

    enter_shares::<D>(conn, r, packet.split.count(), &setup.shares).await?;
    let total = packet.split.total();
    let account = |owner, purpose| AccountKey {
        owner,
        purpose,
        currency: packet.currency,
    };
    let sender = D::hold(conn, account(campaign.owner.as_str(), Purpose::User)).await?;
    let held = sender.map_or(0, |(_, balance)| balance);
    let (Some((debit, _)), true) = (sender, held >= total) else {
        let (held, needed) = (
            Money::new(held, packet.currency),
            Money::new(total, packet.currency),
        );
        return Err(LedgerError::InsufficientFunds { held, needed }.into());
    };
    D::shift(conn, &[(debit, -total)]).await?;
    let escrow = D::credit(conn, &[(account(&id, Purpose::Escrow), total)]).await?;
    let &[credit] = &escrow[..] else {
        return Err(StoreError::damaged(format!("{id} has no escrow")));
    };
    let posting = PostingRow {
        source: DIRECT,
        seq: D::next_direct(conn).await?,
        kind: "fund",
        debit,
        credit,
        amount: total,
        campaign: Some(r),
        number: None,
        at: now.as_millis(),
    };
    Ok(D::post(conn, &[posting]).await?)
}

/// Enters the shares of a packet; a lazy one's amounts are not known yet.
async fn enter_shares<D: Dialect>(
    conn: &mut D::Connection,
    r: i64,
    count: u32,
    amounts: &[i64],
) -> Result<(), StoreError> {
    let count = count as usize;
    let mut entered = 0;
    let mut run = Vec::with_capacity(count.min(SHARES_AT_ONCE_MAX));
    while entered < count {
        let places = entered..count.min(entered + SHARES_AT_ONCE_MAX);
        run.clear();
        run.extend(places.clone().map(|place| amounts.get(place).copied()));
        D::enter_shares(conn, r, places.start as i64 + 1, &run).await?;
        entered = places.end;
    }
    Ok(())
}

/// One campaign.
pub(crate) async fn campaign<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
) -> Result<Option<CampaignRecord>, StoreError> {
    let row = D::campaign(conn, &id.to_string()).await?;
    row.map(|row| row.record()).transpose()
}

/// Campaigns that no engine has taken up, with their shares.
pub(crate) async fn drafts<D: Dialect>(conn: &mut D::Connection) -> Result<Vec<Setup>, StoreError> {
    let mut drafts = Vec::new();
    for row in D::drafts(conn).await? {
        let r = row.r;
        let campaign = row.record()?.campaign;
        let shares = match &campaign.rules {
            Rules::RedPacket(packet) if !matches!(packet.split.rule(), SplitRule::Lazy { .. }) => {
                let shares: Vec<i64> = D::amounts(conn, r).await?.into_iter().flatten().collect();
                let whole = shares.len() == packet.split.count() as usize;
                if !whole || shares.iter().sum::<i64>() != packet.split.total() {
                    let reason = format!("the shares of red packet {} do not add up", campaign.id);
                    return Err(StoreError::damaged(reason));
                }
                shares
            }
            _ => Vec::new(),
        };
        drafts.push(Setup { campaign, shares });
    }
    Ok(drafts)
}

/// Settled grants with numbers above `after`, in order.
pub(crate) async fn grants<D: Dialect>(
    conn: &mut D::Connection,
    id: CampaignId,
    after: u32,
    limit: u32,
) -> Result<Vec<GrantRecord>, StoreError> {
    let Some(row) = D::campaign(conn, &id.to_string()).await? else {
        return Ok(Vec::new());
    };
    let (after, limit) = (i64::from(after), i64::from(limit));
    let grants = if row.kind == CampaignKind::RedPacket.name() {
        D::granted_shares(conn, row.r, after, limit).await?
    } else {
        D::granted_orders(conn, row.r, after, limit).await?
    };
    grants.into_iter().map(grant_of).collect()
}
