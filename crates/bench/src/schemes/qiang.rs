//! `qiang`: a red packet in an engine of Qiang, claimed asynchronously and recounted from the engine's log.
//!
//! The code uses only the ports, so that it measures both engines.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    campaign::AckLevel,
    event::Event,
    id::CampaignId,
    ports::{Engine, EventLog, Ledger},
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_redis::{RedisEngine, RedisOptions};

use super::scheme::{About, Drive, Exact, Opened, Recount, Scheme, Site};
use crate::fixture;

const LOG_PAGE: usize = 1_000;

/// The embedded engine, for comparison: no Redis, and every grant is on the disk before it is acknowledged.
pub(super) const ABOUT_EMBEDDED: About = About {
    name: "embedded",
    source: "this program, without Redis",
    exact: Exact::SupplyAndUsers,
    on_redis: false,
    published: None,
};

/// Qiang on the Redis of the other schemes.
pub(super) const ABOUT: About = About {
    name: "qiang",
    source: "this program",
    exact: Exact::SupplyAndUsers,
    on_redis: true,
    published: None,
};

/// Red packet in an engine, with its resources.
pub(super) struct Qiang {
    engine: Arc<dyn Engine>,
    log: Arc<dyn EventLog>,
    /// Ledger that funds and records the red packet; `None` if only the engine knows it.
    ledger: Option<Arc<dyn Ledger>>,
    ack: AckLevel,
    /// Redis commands that the engine uses, in lower case. Their calls are its round trips.
    commands: &'static [&'static str],
    left_behind: LeftBehind,
    campaign: Mutex<Option<CampaignId>>,
}

enum LeftBehind {
    File(Embedded, Mutex<Option<tempfile::TempDir>>),
    Keys(RedisEngine),
}

impl Qiang {
    /// Embedded engine on a file in a temporary folder.
    pub(super) fn embedded() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let embedded = Embedded::open(&folder.path().join("qiang.db"), Arc::new(SystemClock))?;
        Ok(Self {
            engine: Arc::new(embedded.clone()),
            log: Arc::new(embedded.clone()),
            ledger: Some(Arc::new(embedded.clone())),
            ack: AckLevel::Fsync,
            commands: &[],
            left_behind: LeftBehind::File(embedded, Mutex::new(Some(folder))),
            campaign: Mutex::default(),
        })
    }

    /// Engine on Redis, with the red packet spread over all partitions. No ledger settles its log here.
    pub(super) async fn redis(
        url: &str,
        site: &Site,
        partitions: u16,
        ack: AckLevel,
    ) -> anyhow::Result<Self> {
        let options = RedisOptions {
            urls: vec![url.to_owned()],
            prefix: site.prefix.trim_end_matches(':').to_owned(),
            partitions,
            shard_supply_min: 1,
            shards_max: partitions,
            ..RedisOptions::default()
        };
        let engine = RedisEngine::connect(options, &[]).await?;
        Ok(Self {
            engine: Arc::new(engine.clone()),
            log: Arc::new(engine.clone()),
            ledger: None,
            ack,
            commands: &["evalsha"],
            left_behind: LeftBehind::Keys(engine),
            campaign: Mutex::default(),
        })
    }

    fn campaign(&self) -> anyhow::Result<CampaignId> {
        self.campaign.lock().context("no red packet was opened")
    }
}

#[async_trait]
impl Scheme for Qiang {
    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let (engine, ledger) = (&*self.engine, self.ledger.as_deref());
        let id = fixture::red_packet(engine, ledger, supply, self.ack).await?;
        *self.campaign.lock() = Some(id);
        Ok(())
    }

    async fn drive(&self, _connections: usize) -> anyhow::Result<Drive> {
        Ok(Drive::Engine(Opened {
            engine: Arc::clone(&self.engine),
            campaign: self.campaign()?,
        }))
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let campaign = self.campaign()?;
        let tally = self
            .engine
            .tally(campaign)
            .await?
            .context("the engine does not know the red packet")?;
        let mut recount = Recount {
            left: tally.remaining as i64,
            ..Recount::default()
        };
        for partition in self.log.partitions() {
            let head = self.log.head(partition).await?;
            let mut after = 0;
            while after < head {
                let page = self.log.read(partition, after, LOG_PAGE).await?;
                after = page.last().context("the log ends before its head")?.seq;
                let of_ours = page.into_iter().filter(|entry| entry.campaign == campaign);
                for entry in of_ours {
                    if let Event::Granted {
                        number,
                        user,
                        quantity,
                        ..
                    } = entry.event
                    {
                        ensure!(quantity == 1, "a share of {quantity}");
                        recount.holders.push(user.as_str().to_owned());
                        recount.units.push(u64::from(number));
                    }
                }
            }
        }
        Ok(recount)
    }

    async fn clean(&self) -> anyhow::Result<()> {
        match &self.left_behind {
            LeftBehind::File(embedded, folder) => {
                // The call waits for a thread to end.
                tokio::task::block_in_place(|| embedded.close());
                drop(folder.lock().take());
                Ok(())
            }
            LeftBehind::Keys(engine) => Ok(engine.erase().await?),
        }
    }

    fn commands(&self) -> &'static [&'static str] {
        self.commands
    }
}
