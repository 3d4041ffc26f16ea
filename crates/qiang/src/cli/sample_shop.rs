//! Sample shop of `qiang serve --dev`: a few sales and red packets of the user `market`, made by the API.

use anyhow::Context as _;
use futures_util::TryStreamExt as _;
use qiang::{NodeConfig, run};
use qiang_client::{
    Client, Currency, Error, IdempotencyKey, Listing, Money, NewRedPacket, NewSale, Phase,
    SplitRuleName, Timestamp, UserId,
};

/// Seller of the sales, and sender of the packets.
const USER: &str = "market";
/// Duration of each campaign: 30 days.
const LASTS_MS: i64 = 30 * 86_400_000;
const HOUR_MS: i64 = 3_600_000;

/// A sale of the shop.
struct SampleSale {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    stock: u64,
    limit: u32,
    price_minor: i64,
    /// Milliseconds until it opens.
    opens_in_ms: i64,
}

const SALES: [SampleSale; 5] = [
    SampleSale {
        name: "phone",
        title: "Phone 10 · 手机",
        description: "One per person. A hold lasts 15 minutes.",
        stock: 100,
        limit: 1,
        price_minor: 299_900,
        opens_in_ms: 0,
    },
    SampleSale {
        name: "lamp",
        title: "Desk lamp · 台灯",
        description: "Up to two per person.",
        stock: 20,
        limit: 2,
        price_minor: 9_900,
        opens_in_ms: 0,
    },
    SampleSale {
        name: "tea",
        title: "Longjing tea · 龙井茶",
        description: "Spring harvest, 250 g. Up to five per person.",
        stock: 500,
        limit: 5,
        price_minor: 4_900,
        opens_in_ms: 0,
    },
    SampleSale {
        name: "headphones",
        title: "Headphones · 耳机",
        description: "Opens an hour after the first start of this service.",
        stock: 50,
        limit: 1,
        price_minor: 59_900,
        opens_in_ms: HOUR_MS,
    },
    SampleSale {
        name: "mug",
        title: "Mug · 马克杯",
        description: "A gift: it costs nothing.",
        stock: 10,
        limit: 1,
        price_minor: 0,
        opens_in_ms: 0,
    },
];

/// Red packets: name, title, total in minor units, shares, rule.
const PACKETS: [(&str, &str, i64, u32, SplitRuleName); 2] = [
    (
        "luck",
        "恭喜发财 · Good luck",
        8_888,
        10,
        SplitRuleName::DoubleAverage,
    ),
    ("lunch", "Team lunch · 午餐", 6_000, 6, SplitRuleName::Equal),
];

/// A shop to open.
#[derive(Clone)]
pub(crate) struct SampleShop {
    token: String,
    /// Time of the service, in milliseconds.
    now_ms: i64,
}

impl SampleShop {
    pub(crate) fn new(config: &NodeConfig) -> anyhow::Result<Self> {
        Ok(Self {
            token: run::development_token(config, &qiang_core::id::UserId::new(USER)?)?,
            now_ms: run::development_time(config)?.as_millis(),
        })
    }

    /// Opens each campaign of the shop that is not open or scheduled. A failure is logged: the service goes without.
    pub(crate) async fn open(self, url: String) {
        match self.fill(&url).await {
            Ok(0) => {}
            Ok(opened) => tracing::info!(opened, "the sample shop is open"),
            Err(error) => {
                tracing::warn!(
                    reason = format!("{error:#}"),
                    "the sample shop is not complete"
                )
            }
        }
    }

    async fn fill(&self, url: &str) -> anyhow::Result<u32> {
        let client = Client::builder(url).token(&self.token).build()?;
        let mut opened = 0;
        for sale in &SALES {
            opened += u32::from(self.add_sale(&client, sale).await?);
        }
        for packet in &PACKETS {
            opened += u32::from(add_packet(&client, packet).await?);
        }
        Ok(opened)
    }

    /// Opens a sale, unless it is there. Returns whether it did.
    async fn add_sale(&self, client: &Client, sample: &SampleSale) -> anyhow::Result<bool> {
        let listing = listing(sample.name);
        let phases = client.sales(&listing).map_ok(|sale| sale.state.phase);
        let phases: Vec<Phase> = phases.try_collect().await?;
        let Some(key) = next_key(sample.name, &phases)? else {
            return Ok(false);
        };
        let starts_ms = self.now_ms + sample.opens_in_ms;
        let price = Money::new(sample.price_minor, currency()?);
        let sale = NewSale {
            per_user_limit: Some(sample.limit),
            starts_at: match sample.opens_in_ms {
                0 => None,
                _ => Some(Timestamp::from_millis(starts_ms)?),
            },
            ends_at: Some(Timestamp::from_millis(starts_ms + LASTS_MS)?),
            product_id: Some(sample.name.parse()?),
            description: Some(sample.description.to_owned()),
            image_url: Some(format!("/assets/shop/{}.svg", sample.name)),
            reference: Some(reference(sample.name)),
            ..NewSale::new(sample.title, sample.stock, price)
        };
        client.with_key(key).create_sale(&sale).await?;
        Ok(true)
    }
}

/// Sends a red packet, unless it is there. Returns whether it did.
async fn add_packet(
    client: &Client,
    &(name, title, total, shares, rule): &(&str, &str, i64, u32, SplitRuleName),
) -> anyhow::Result<bool> {
    let listing = listing(name);
    let phases = client.red_packets(&listing);
    let phases = phases.map_ok(|packet| packet.state.phase);
    let phases: Vec<Phase> = phases.try_collect().await?;
    let Some(key) = next_key(name, &phases)? else {
        return Ok(false);
    };
    let (user, total): (UserId, _) = (USER.parse()?, Money::new(total, currency()?));
    // The reference is kept for good, so the money of one packet is deposited once.
    let money = client.deposit(&user, key.as_str(), total).await;
    money.context("cannot pay for a red packet")?;
    let packet = NewRedPacket {
        reference: Some(reference(name)),
        ..NewRedPacket::new(title, total, shares, rule)
    };
    client.with_key(key).create_red_packet(&packet).await?;
    Ok(true)
}

fn currency() -> Result<Currency, Error> {
    "CNY"
        .parse()
        .map_err(|_| Error::Usage("no currency".to_owned()))
}

/// The shop's own number of a campaign.
fn reference(name: &str) -> String {
    format!("sample-{name}")
}

fn listing(name: &str) -> Listing {
    Listing {
        reference: Some(reference(name)),
        archived: true,
        ..Listing::default()
    }
}

/// Key of the next campaign with this name; `None` if one is not over. Earlier ones are counted, so that a later start
/// opens the shop again.
fn next_key(name: &str, phases: &[Phase]) -> anyhow::Result<Option<IdempotencyKey>> {
    let is_over = |phase: &Phase| matches!(phase, Phase::Ended | Phase::Closed);
    match phases.iter().all(is_over) {
        true => Ok(Some(format!("sample-{name}-{}", phases.len()).parse()?)),
        false => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_is_opened_again_once_it_is_over() {
        let key = |phases: &[Phase]| next_key("tea", phases).unwrap();
        let named = |key: &str| Some(key.parse::<IdempotencyKey>().unwrap());
        assert_eq!(key(&[]), named("sample-tea-0"));
        assert_eq!(key(&[Phase::Closed]), named("sample-tea-1"));
        assert_eq!(key(&[Phase::Closed, Phase::Ended]), named("sample-tea-2"));
        for phase in [Phase::Scheduled, Phase::Live, Phase::Paused, Phase::Draft] {
            assert_eq!(key(&[Phase::Closed, phase]), None);
        }
    }
}
