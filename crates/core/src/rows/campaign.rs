//! Campaigns as rows of `campaigns`.

use std::str::FromStr;

use super::{Contradiction, Value, phase_of};
use crate::{
    admission::AdmissionRatio,
    book::Setup,
    campaign::{
        Campaign, CampaignKind, Details, Phase, RedPacket, Rules, STOCK_PRICE_MINOR_MAX, Sale,
    },
    id::{CampaignId, UserId},
    money::{Currency, Money},
    payment::{PaymentPolicy, PaymentPolicyKind},
    ports::{CampaignOutline, CampaignQuery, CampaignRecord, LiveCampaign},
    split::{
        ClientSeed, Commitment, SPLIT_VERSION, Seed, SeedOrigin, SeedParts, ServerSeed, Split,
        SplitRule,
    },
    time::{Timestamp, Window},
};

impl CampaignQuery {
    /// Ids between which the page lies, in the order of the list. It has neither of them.
    #[must_use]
    pub fn bounds(&self) -> [String; 2] {
        // Ids consist of digits and the letters a to f.
        let ends = match self.newest_first && self.product_id.is_none() {
            true => ["g", ""],
            false => ["", "g"],
        };
        let bound = |id: Option<CampaignId>, end: &str| {
            id.map_or_else(|| end.to_owned(), |id| id.to_string())
        };
        [bound(self.after, ends[0]), bound(self.until, ends[1])]
    }
}

/// Columns of a campaign.
#[derive(Debug)]
#[expect(
    missing_docs,
    reason = "the columns are described in docs/reference/tables-campaigns.md"
)]
pub struct CampaignRow {
    pub campaign_ref: i64,
    pub id: String,
    pub kind: String,
    pub owner: String,
    pub title: String,
    pub currency: String,
    pub ack: String,
    pub starts_at: i64,
    pub ends_at: i64,
    pub created_at: i64,
    pub supply: i64,
    pub per_user_limit: i64,
    pub total: Option<i64>,
    pub split_rule: Option<String>,
    pub split_min: Option<i64>,
    pub split_max: Option<i64>,
    pub split_version: Option<i64>,
    pub seed: Option<Vec<u8>>,
    pub server_seed: Option<Vec<u8>>,
    pub client_seed: Option<Vec<u8>>,
    pub unit_price: Option<i64>,
    pub hold_ms: Option<i64>,
    pub requirements: String,
    pub admission: Option<i64>,
    pub payment_policy: Option<String>,
    pub payment_tolerance: Option<i64>,
    pub phase: String,
    pub granted: i64,
    pub returned: i64,
    pub refunded: i64,
    pub terms_revision: i64,
    pub first_start: i64,
    pub product_id: Option<String>,
    pub description: Option<String>,
    pub image_url: Option<String>,
    pub gallery: Option<String>,
    pub list_price: Option<i64>,
    pub cover: Option<String>,
    pub archived_at: Option<i64>,
    pub updated_at: i64,
}

impl CampaignRow {
    /// Converts the row to the record of the port.
    ///
    /// # Errors
    /// If a column has an invalid value.
    pub fn record(&self) -> Result<CampaignRecord, Contradiction> {
        let bad = |what: &str| self.bad(what);
        let currency: Currency = self.currency.parse().map_err(|_| bad("currency"))?;
        let rules = match CampaignKind::from_name(&self.kind).ok_or_else(|| bad("kind"))? {
            CampaignKind::RedPacket => {
                let count = self.supply.try_into().map_err(|_| bad("supply"))?;
                Rules::RedPacket(self.packet(count, currency)?)
            }
            CampaignKind::Sale => {
                let stock = self.supply.try_into().map_err(|_| bad("supply"))?;
                // The limit may have been checked with a stock of another part that is not settled yet.
                let limit = self.per_user_limit.min(self.supply);
                let limit = limit.try_into().map_err(|_| bad("limit"))?;
                let price = self.unit_price.ok_or_else(|| bad("price"))?;
                let hold_ms = self.hold_ms.ok_or_else(|| bad("hold"))?;
                // The price may have been checked with a stock of another part that is not settled yet.
                let price = price.min(STOCK_PRICE_MINOR_MAX / self.supply.max(1));
                let sale = Sale::new(stock, limit, Money::new(price, currency), hold_ms);
                let percent = self.admission.and_then(|it| it.try_into().ok());
                let admission = percent.and_then(|it| AdmissionRatio::from_percent(it).ok());
                let admission = admission.ok_or_else(|| bad("admission"))?;
                let sale = sale.map_err(|_| bad("sale"))?;
                Rules::Sale(sale.with_admission(admission))
            }
        };
        let window = Window::new(
            Timestamp::from_millis(self.starts_at),
            Timestamp::from_millis(self.ends_at),
        );
        let count = |count: i64, what: &str| count.try_into().map_err(|_| bad(what));
        Ok(CampaignRecord {
            campaign: Campaign {
                id: self.id.parse().map_err(|_| bad("id"))?,
                owner: UserId::new(&self.owner).map_err(|_| bad("owner"))?,
                window: window.map_err(|_| bad("window"))?,
                ack: self.ack.parse().map_err(|_| bad("acknowledgement level"))?,
                requirements: self.requirements.parse().map_err(|_| bad("requirement"))?,
                payment_policy: self.policy().ok_or_else(|| bad("payment policy"))?,
                created_at: Timestamp::from_millis(self.created_at),
                rules,
                title: self.title.clone(),
            },
            phase: phase_of(&self.phase).ok_or_else(|| bad("phase"))?,
            granted: count(self.granted, "count of grants")?,
            returned: count(self.returned, "count of returns")?,
            refunded_minor: self.refunded,
            terms_revision: (self.terms_revision.try_into()).map_err(|_| bad("revision"))?,
            first_start: Timestamp::from_millis(self.first_start),
            details: self.details(),
            archived_at: self.archived_at.map(Timestamp::from_millis),
            updated_at: Timestamp::from_millis(self.updated_at),
        })
    }

    /// Payment policy. Null is the default.
    fn policy(&self) -> Option<PaymentPolicy> {
        let kind = match &self.payment_policy {
            None => PaymentPolicyKind::Owed,
            Some(name) => PaymentPolicyKind::from_name(name)?,
        };
        PaymentPolicy::from_parts(kind, self.payment_tolerance)
    }

    /// Details of the campaign. No decision depends on them, so unreadable ones are left out.
    fn details(&self) -> Details {
        fn read<T: FromStr>(column: Option<&String>) -> Option<T> {
            column.and_then(|text| text.parse().ok())
        }
        Details {
            product_id: read(self.product_id.as_ref()),
            description: read(self.description.as_ref()),
            image_url: read(self.image_url.as_ref()),
            gallery: read(self.gallery.as_ref()),
            list_price_minor: self.list_price,
            cover: read(self.cover.as_ref()),
        }
    }

    fn packet(&self, count: u32, currency: Currency) -> Result<RedPacket, Contradiction> {
        let bad = |what: &str| self.bad(what);
        if self.split_version != Some(i64::from(SPLIT_VERSION)) {
            return Err(bad(
                "split version: it was made by another release of the splitting rules",
            ));
        }
        let name = self.split_rule.as_deref().map(str::parse);
        let rule = name
            .and_then(Result::ok)
            .and_then(|name| SplitRule::from_parts(name, self.split_min, self.split_max).ok())
            .ok_or_else(|| bad("splitting rule"))?;
        let total = self.total.ok_or_else(|| bad("total"))?;
        let seed = bytes_of(self.seed.as_ref()).ok_or_else(|| bad("seed"))?;
        Ok(RedPacket {
            split: Split::new(total, count, rule).map_err(|_| bad("split"))?,
            currency,
            seed: Seed::from_bytes(seed),
            origin: self.origin().ok_or_else(|| bad("commitment"))?,
        })
    }

    /// Origin of the seed.
    fn origin(&self) -> Option<SeedOrigin> {
        match (&self.server_seed, &self.client_seed) {
            (None, None) => Some(SeedOrigin::Service),
            (server_seed, client_seed) => Some(SeedOrigin::Both(SeedParts {
                server_seed: ServerSeed::from_bytes(bytes_of(server_seed.as_ref())?),
                client_seed: ClientSeed::from_bytes(bytes_of(client_seed.as_ref())?),
            })),
        }
    }

    fn bad(&self, what: &str) -> Contradiction {
        Contradiction::new(format!("campaign {} has a bad {what}", self.id))
    }
}

fn bytes_of(column: Option<&Vec<u8>>) -> Option<[u8; 32]> {
    column.and_then(|bytes| bytes.as_slice().try_into().ok())
}

/// Row of a campaign that is inserted as a draft.
#[derive(Debug)]
pub struct NewCampaign<'a> {
    campaign: &'a Campaign,
    id: String,
    requirements: String,
    commitment: Option<Commitment>,
}

impl<'a> NewCampaign<'a> {
    /// Creates the row of a campaign.
    pub fn from_campaign(campaign: &'a Campaign) -> Self {
        let packet = campaign.rules.red_packet();
        Self {
            campaign,
            id: campaign.id.to_string(),
            requirements: campaign.requirements.to_string(),
            commitment: packet.map(|packet| packet.commitment(campaign.id)),
        }
    }

    /// Columns of a [`CampaignRow`] from `id` to `payment_tolerance`, with `commitment` after `seed`, followed by
    /// `updated_at`.
    pub fn columns(&self) -> [Value<'_>; 27] {
        let campaign = self.campaign;
        let (packet, sale) = (campaign.rules.red_packet(), campaign.rules.sale());
        // Null is the default.
        let policy = campaign.payment_policy;
        let policy = Some(policy).filter(|policy| *policy != PaymentPolicy::default());
        let rule = packet.map(|packet| packet.split.rule().parts());
        let commitment = self.commitment.as_ref();
        let parts = packet.and_then(|packet| packet.origin.parts());
        [
            self.id.as_str().into(),
            campaign.kind().name().into(),
            campaign.owner.as_str().into(),
            campaign.title.as_str().into(),
            campaign.currency().code().into(),
            campaign.ack.name().into(),
            campaign.window.starts_at().as_millis().into(),
            campaign.window.ends_at().as_millis().into(),
            campaign.created_at.as_millis().into(),
            (campaign.supply() as i64).into(),
            i64::from(campaign.per_user_limit()).into(),
            packet.map(|packet| packet.split.total()).into(),
            rule.map(|(name, ..)| name.name()).into(),
            rule.and_then(|(_, min, _)| min).into(),
            rule.and_then(|(.., max)| max).into(),
            packet.map(|_| i64::from(SPLIT_VERSION)).into(),
            packet.map(|packet| &packet.seed.as_bytes()[..]).into(),
            commitment.map(|hash| &hash.as_bytes()[..]).into(),
            parts.map(|parts| &parts.server_seed.as_bytes()[..]).into(),
            parts.map(|parts| &parts.client_seed.as_bytes()[..]).into(),
            sale.map(|sale| sale.unit_price().minor).into(),
            sale.map(Sale::hold_ms).into(),
            self.requirements.as_str().into(),
            sale.map(|sale| sale.admission().map_or(0, |it| i64::from(it.percent())))
                .into(),
            policy.map(|policy| policy.kind().name()).into(),
            policy.and_then(PaymentPolicy::tolerance_minor).into(),
            campaign.created_at.as_millis().into(),
        ]
    }
}

/// Whether the amounts of a campaign's shares are drawn before they are claimed. False for a lazy packet and for a
/// sale.
pub fn has_fixed_shares(campaign: &Campaign) -> bool {
    let packet = campaign.rules.red_packet();
    packet.is_some_and(|packet| !matches!(packet.split.rule(), SplitRule::Lazy { .. }))
}

/// Columns id, parts and phase of a campaign that may still change.
pub type LiveRow = (String, Option<i64>, String);

/// First `limit` campaigns in the order of their ids: one page from the pages of two lists.
///
/// # Errors
/// If an id cannot be read.
pub fn live_page<E>(
    mut rows: Vec<LiveRow>,
    limit: u32,
    read_id: impl Fn(&str) -> Result<CampaignId, E>,
) -> Result<Vec<LiveCampaign>, E> {
    rows.sort_unstable();
    rows.dedup_by(|later, earlier| later.0 == earlier.0);
    rows.truncate(limit as usize);
    let read = |(id, parts, phase): &LiveRow| {
        let parts = parts.and_then(|parts| u16::try_from(parts).ok());
        Ok(LiveCampaign {
            id: read_id(id)?,
            outline: CampaignOutline {
                parts: parts.unwrap_or(1),
                is_draft: parts.is_none() || phase == Phase::Draft.name(),
            },
        })
    };
    rows.iter().map(read).collect()
}

/// Combines a campaign with its fixed shares, after a check of their number and sum.
///
/// # Errors
/// If shares are missing, or their sum is not the packet's total.
pub fn setup_of(campaign: Campaign, shares: Vec<i64>) -> Result<Setup, Contradiction> {
    if let Some(packet) = campaign
        .rules
        .red_packet()
        .filter(|_| has_fixed_shares(&campaign))
    {
        let sum = shares
            .iter()
            .try_fold(0_i64, |sum, share| sum.checked_add(*share));
        if shares.len() != packet.split.count() as usize || sum != Some(packet.split.total()) {
            let reason = format!("the shares of red packet {} do not add up", campaign.id);
            return Err(Contradiction::new(reason));
        }
    }
    Ok(Setup { campaign, shares })
}
