//! Campaigns for users' claims: one of each kind and level at a time, replaced when it is sold out or old.

use std::{
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rand::RngExt as _;
use serde_json::{Value, json};
use tokio::sync::RwLock;

use crate::{
    client::{Nodes, Request, Verb},
    history::{Campaign, Level, Policy, TOLERANCE_MINOR, Window},
    installation::program::SHARD_SUPPLY_MIN,
};

/// Maximum time to repeat a request that creates something.
const CREATE_MAX: Duration = Duration::from_secs(90);
const AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Maximum age of a campaign in use.
const AGE_MAX: Duration = Duration::from_secs(40);

/// Sizes of campaigns that are not spread. Some are sold out within seconds.
const SUPPLY: std::ops::Range<u32> = 60..600;
/// Minor units of an average share, and of a unit.
const SHARE_MINOR: i64 = 100;
const UNIT_MINOR: i64 = 250;
/// Holds of a sale's orders. In every third sale, holds are short.
const HOLDS_S: [u32; 3] = [2, 3_600, 3_600];
/// Maximum units per user.
const LIMIT: u32 = 2;

/// Properties of a campaign to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) is_packet: bool,
    pub(crate) level: Level,
    pub(crate) supply: u32,
    pub(crate) limit: u32,
    pub(crate) hold_s: u32,
    pub(crate) rule: &'static str,
    /// Payment policy; for sales.
    pub(crate) policy: Policy,
    /// Window of claims; `None` opens at once, for a day.
    pub(crate) window: Option<Window>,
}

impl Form {
    /// A sale over all partitions for probes, with one unit per user.
    pub(crate) fn probe(level: Level) -> Self {
        Self {
            is_packet: false,
            level,
            supply: SHARD_SUPPLY_MIN,
            limit: 1,
            hold_s: HOLDS_S[1],
            rule: "",
            policy: Policy::Owed,
            window: None,
        }
    }

    /// A sale with one unit per user, for a fault that loses many grants.
    pub(crate) fn sale_of(supply: u32, level: Level) -> Self {
        Self {
            supply,
            ..Self::probe(level)
        }
    }

    fn draw(is_packet: bool, is_spread: bool, level: Level) -> Self {
        let mut random = rand::rng();
        let rules: &[&str] = match is_spread {
            true => &["double_average", "equal"],
            false => &["double_average", "equal", "lazy"],
        };
        Self {
            is_packet,
            level,
            supply: match is_spread {
                true => SHARD_SUPPLY_MIN,
                false => random.random_range(SUPPLY),
            },
            limit: if is_packet { 1 } else { LIMIT },
            hold_s: HOLDS_S[random.random_range(0..HOLDS_S.len())],
            rule: rules[random.random_range(0..rules.len())],
            policy: Policy::ALL[random.random_range(0..Policy::ALL.len())],
            window: None,
        }
    }
}

/// A campaign in use.
#[derive(Debug)]
struct Used {
    campaign: Campaign,
    since: Instant,
    sold_out: bool,
}

/// Combinations of kind and level: packet or sale, spread or not, each level.
const SLOTS: usize = 12;

/// The campaigns in use.
pub(crate) struct Campaigns {
    nodes: Nodes,
    /// Whether level `replica` exists. Without it, its campaigns are of level `memory`.
    has_replicas: bool,
    slots: Vec<Mutex<Option<Used>>>,
    names: AtomicU64,
    /// Set when requests are no longer repeated.
    gave_up: AtomicBool,
    /// Locked for writing while nothing may be created, because data that only the ledger has would be lost with it.
    pub(crate) creation: RwLock<()>,
}

impl Campaigns {
    pub(crate) fn new(nodes: Nodes, has_replicas: bool) -> Self {
        Self {
            nodes,
            has_replicas,
            slots: (0..SLOTS).map(|_| Mutex::default()).collect(),
            names: AtomicU64::new(1),
            gave_up: AtomicBool::new(false),
            creation: RwLock::default(),
        }
    }

    /// Stops all repetitions, because the service does not recover.
    pub(crate) fn give_up(&self) {
        self.gave_up.store(true, Ordering::Release);
    }

    /// A new, unique name.
    pub(crate) fn fresh_name(&self, what: &str) -> String {
        let number = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{}{what}-{number}", self.nodes.prefix())
    }

    /// One of the campaigns in use, if there is any.
    pub(crate) fn pick(&self) -> Option<Campaign> {
        let start = rand::rng().random_range(0..SLOTS);
        (start..start + SLOTS).find_map(|slot| {
            let used = self.slots[slot % SLOTS].lock();
            used.as_ref().map(|used| used.campaign.clone())
        })
    }

    pub(crate) fn sold_out(&self, id: &str) {
        for slot in &self.slots {
            if let Some(used) = slot.lock().as_mut().filter(|used| used.campaign.id == id) {
                used.sold_out = true;
            }
        }
    }

    /// Creates a campaign that is missing, sold out or old. Some of the old ones are closed.
    ///
    /// # Errors
    /// If a campaign could not be created in time.
    pub(crate) async fn refresh(&self, slot: usize) -> Result<()> {
        let is_fresh = {
            let used = self.slots[slot].lock();
            used.as_ref()
                .is_some_and(|used| !used.sold_out && used.since.elapsed() < AGE_MAX)
        };
        if is_fresh {
            return Ok(());
        }
        let (is_packet, is_spread) = (slot.is_multiple_of(2), slot % 4 >= 2);
        let form = Form::draw(is_packet, is_spread, Level::ALL[slot / 4]);
        let campaign = self.create(form).await?;
        let used = Used {
            campaign,
            since: Instant::now(),
            sold_out: false,
        };
        let old = self.slots[slot].lock().replace(used);
        if let Some(old) = old
            && rand::rng().random_range(0..2) == 0
        {
            self.close(&old.campaign.id).await?;
        }
        Ok(())
    }

    pub(crate) const fn slots() -> usize {
        SLOTS
    }

    /// Creates a campaign, and repeats the request with its key until it is answered.
    ///
    /// # Errors
    /// If it is refused, or not answered in time.
    pub(crate) async fn create(&self, form: Form) -> Result<Campaign> {
        let form = Form {
            level: match form.level {
                Level::Replica if !self.has_replicas => Level::Memory,
                level => level,
            },
            ..form
        };
        let _creating = self.creation.read().await;
        let name = self.fresh_name("campaign");
        let money = |amount: i64| json!({ "amount": amount, "currency": "CNY" });
        let (sender, seller) = (self.nodes.sender(), self.nodes.seller());
        let (path, user, mut body, minor) = if form.is_packet {
            let total = i64::from(form.supply) * SHARE_MINOR;
            let deposit = format!("/v1/accounts/{sender}/deposits");
            let mut body = money(total);
            body["reference"] = json!(format!("deposit-{name}"));
            self.repeat(&deposit, seller, format!("deposit-{name}"), body)
                .await?;
            self.nodes.history().deposited(total);
            let body = json!({ "title": name, "total": money(total), "shares": form.supply,
                "split": { "rule": form.rule }, "ack": form.level.name() });
            ("/v1/red-packets", sender, body, total)
        } else {
            let mut body = json!({ "title": name, "stock": form.supply, "per_user_limit": form.limit,
                "unit_price": money(UNIT_MINOR), "hold_seconds": form.hold_s,
                "ack": form.level.name(), "payment_policy": form.policy.name() });
            if form.policy == Policy::Within {
                body["payment_tolerance"] = money(TOLERANCE_MINOR);
            }
            ("/v1/sales", seller, body, UNIT_MINOR)
        };
        if let Some(window) = form.window {
            body["starts_at"] = json!(in_words(window.starts_ms)?);
            body["ends_at"] = json!(in_words(window.ends_ms)?);
        }
        let created = self.repeat(path, user, name, body).await?;
        let id = created["id"].as_str().context("a campaign has an id")?;
        let campaign = Campaign {
            id: id.to_owned(),
            is_packet: form.is_packet,
            level: form.level,
            supply: form.supply,
            minor,
            limit: form.limit,
            policy: form.policy,
            window: form.window,
        };
        self.nodes.history().add_campaign(campaign.clone());
        Ok(campaign)
    }

    /// Closes a campaign finally.
    ///
    /// # Errors
    /// If it is refused, or not answered in time.
    pub(crate) async fn close(&self, id: &str) -> Result<()> {
        let path = format!("/v1/campaigns/{id}/close");
        let key = self.fresh_name("close");
        let seller = self.nodes.seller();
        self.repeat(&path, seller, key, Value::Null).await?;
        Ok(())
    }

    async fn repeat(&self, path: &str, user: &str, key: String, body: Value) -> Result<Value> {
        let since = Instant::now();
        let request = Request {
            path: path.to_owned(),
            user: user.to_owned(),
            verb: Verb::PostWithKey(key),
            body: (!body.is_null()).then_some(body),
        };
        for node in 0.. {
            let failed = match self.nodes.send(node, &request).await {
                Ok(answer) if answer.status.is_success() => return answer.json(),
                Ok(answer) if answer.status == hyper::StatusCode::UNPROCESSABLE_ENTITY => {
                    let text = String::from_utf8_lossy(&answer.body);
                    anyhow::bail!("POST {path}: {} {text}", answer.status);
                }
                Ok(answer) => format!(
                    "{} {}",
                    answer.status,
                    String::from_utf8_lossy(&answer.body)
                ),
                Err(error) => format!("{error:#}"),
            };
            if since.elapsed() > CREATE_MAX || self.gave_up.load(Ordering::Acquire) {
                anyhow::bail!("POST {path}: {failed}");
            }
            tokio::time::sleep(AGAIN_AFTER).await;
        }
        unreachable!("the loop ends by returning")
    }
}

/// A time in RFC 3339 format.
fn in_words(ms: i64) -> Result<String> {
    Ok(jiff::Timestamp::from_millisecond(ms)?.to_string())
}
