//! `qiang`: ours. A red packet in an engine, claimed by tickets, counted again from the engine's log.
//!
//! It is written against the ports: a [`Subject`] is an engine, its log, and what else is needed to measure it.

use std::sync::Arc;

use anyhow::{Context as _, ensure};
use async_trait::async_trait;
use parking_lot::Mutex;
use qiang_core::{
    campaign::{AckLevel, CampaignKind},
    event::Event,
    id::CampaignId,
    ports::{Engine, EventLog, Ledger},
};
use qiang_embedded::{Embedded, SystemClock};
use qiang_redis::{Options, RedisEngine};

use super::scheme::{About, Drive, Exact, Opened, Recount, Scheme, Site};
use crate::fixture;

/// Entries of the log that are read at a time.
const LOG_PAGE: usize = 1_000;

/// The engine of one process, for comparison: no Redis, and every grant on the disk before it is acknowledged.
pub(super) const ABOUT_EMBEDDED: About = About {
    name: "embedded",
    source: "this program, without Redis",
    exact: Exact::SupplyAndUsers,
    on_redis: false,
    published: None,
};

/// Ours, on the Redis that the others are measured on.
pub(super) const ABOUT: About = About {
    name: "qiang",
    source: "this program",
    exact: Exact::SupplyAndUsers,
    on_redis: true,
    published: None,
};

/// An engine to measure, and what belongs to it.
pub(super) struct Subject {
    pub(super) about: &'static About,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) log: Arc<dyn EventLog>,
    /// The book that the packet is funded in and entered into; without one, the engine is all there is.
    pub(super) ledger: Option<Arc<dyn Ledger>>,
    /// The acknowledgement level that the packet asks for.
    pub(super) ack: AckLevel,
    /// The Redis commands by which it speaks, in small letters; their calls are its round trips.
    pub(super) commands: &'static [&'static str],
    /// Takes down what the engine leaves behind.
    take_down: TakeDown,
}

/// What an engine leaves behind.
enum TakeDown {
    File(Embedded, Mutex<Option<tempfile::TempDir>>),
    Keys(RedisEngine),
}

impl TakeDown {
    async fn run(&self) -> anyhow::Result<()> {
        match self {
            Self::File(embedded, folder) => {
                // It waits for a thread to end.
                tokio::task::block_in_place(|| embedded.close());
                drop(folder.lock().take());
                Ok(())
            }
            Self::Keys(engine) => Ok(engine.erase().await?),
        }
    }
}

impl Subject {
    /// The embedded engine on a file in a temporary folder.
    pub(super) fn embedded() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let embedded = Embedded::open(&folder.path().join("qiang.db"), Arc::new(SystemClock))?;
        let take_down = TakeDown::File(embedded.clone(), Mutex::new(Some(folder)));
        Ok(Self {
            about: &ABOUT_EMBEDDED,
            engine: Arc::new(embedded.clone()),
            log: Arc::new(embedded.clone()),
            ledger: Some(Arc::new(embedded)),
            ack: AckLevel::Fsync,
            commands: &[],
            take_down,
        })
    }

    /// The engine on Redis, with the packet spread over all of its partitions. No ledger follows its log here.
    pub(super) async fn redis(url: &str, site: &Site, partitions: u16) -> anyhow::Result<Self> {
        let options = Options {
            urls: vec![url.to_owned()],
            prefix: site.prefix.trim_end_matches(':').to_owned(),
            partitions,
            spread_from: 1,
            spread_over: partitions,
            ..Options::default()
        };
        let engine = RedisEngine::connect(options, &[]).await?;
        Ok(Self {
            about: &ABOUT,
            engine: Arc::new(engine.clone()),
            log: Arc::new(engine.clone()),
            ledger: None,
            ack: AckLevel::Memory,
            commands: &["evalsha"],
            take_down: TakeDown::Keys(engine),
        })
    }
}

pub(super) struct Qiang {
    subject: Subject,
    campaign: Mutex<Option<CampaignId>>,
}

impl Qiang {
    pub(super) fn new(subject: Subject) -> Self {
        Self {
            subject,
            campaign: Mutex::new(None),
        }
    }

    fn campaign(&self) -> anyhow::Result<CampaignId> {
        self.campaign.lock().context("no packet was opened")
    }
}

#[async_trait]
impl Scheme for Qiang {
    fn about(&self) -> &'static About {
        self.subject.about
    }

    async fn prepare(&self, supply: u32) -> anyhow::Result<()> {
        let Subject {
            engine,
            ledger,
            ack,
            ..
        } = &self.subject;
        let id = fixture::red_packet(&**engine, ledger.as_deref(), supply, *ack).await?;
        *self.campaign.lock() = Some(id);
        Ok(())
    }

    async fn drive(&self, _connections: usize) -> anyhow::Result<Drive> {
        Ok(Drive::Engine(Opened {
            engine: Arc::clone(&self.subject.engine),
            campaign: self.campaign()?,
            kind: CampaignKind::RedPacket,
        }))
    }

    async fn recount(&self) -> anyhow::Result<Recount> {
        let (engine, log) = (&self.subject.engine, &self.subject.log);
        let campaign = self.campaign()?;
        let tally = engine
            .tally(campaign)
            .await?
            .context("the engine has lost the packet")?;
        let mut recount = Recount {
            left: i64::from(tally.remaining),
            ..Recount::default()
        };
        for partition in log.partitions() {
            let head = log.head(partition).await?;
            let mut after = 0;
            while after < head {
                let page = log.read(partition, after, LOG_PAGE).await?;
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
        self.subject.take_down.run().await
    }

    fn commands(&self) -> &'static [&'static str] {
        self.subject.commands
    }
}
