//! What the benchmarks set up: a folder, a funded red packet, a sale.

use std::{path::Path, time::Duration};

use anyhow::Context as _;
use qiang_core::{
    book::{Command, Setup},
    campaign::{AckLevel, Campaign, RedPacket, Rules, Sale},
    event::PartitionId,
    id::{CampaignId, UserId},
    money::{Currency, Money},
    ports::{Clock as _, Engine, EventLog as _, Ledger, SettlementStore as _},
    split::{Seed, Split, SplitRule},
    time::Window,
};
use qiang_embedded::{Embedded, SystemClock};

/// A folder of the caller's, or a temporary one that is removed at the end.
pub(crate) enum Folder {
    Given(std::path::PathBuf),
    Temporary(tempfile::TempDir),
}

impl Folder {
    pub(crate) fn new(given: Option<&Path>) -> anyhow::Result<Self> {
        match given {
            Some(path) => {
                std::fs::create_dir_all(path)
                    .with_context(|| format!("cannot make {}", path.display()))?;
                Ok(Self::Given(path.to_owned()))
            }
            None => Ok(Self::Temporary(tempfile::tempdir()?)),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Given(path) => path,
            Self::Temporary(folder) => folder.path(),
        }
    }
}

/// Funds a sender and opens a red packet of `shares` shares, ¥1.00 on average. Without a ledger, the engine is all
/// there is.
pub(crate) async fn red_packet(
    engine: &dyn Engine,
    ledger: Option<&dyn Ledger>,
    shares: u32,
    ack: AckLevel,
) -> anyhow::Result<CampaignId> {
    let currency: Currency = "CNY".parse()?;
    let total = Money::new(i64::from(shares) * 100, currency);
    let sender = UserId::new("sender")?;
    if let Some(ledger) = ledger {
        let id = qiang_node::id_at(SystemClock.now());
        ledger.deposit(id, &sender, total).await?;
    }
    let split = Split::new(total.minor, shares, SplitRule::DoubleAverage { min: 1 })?;
    let rules = Rules::RedPacket(RedPacket {
        split,
        currency,
        seed: Seed::from_bytes(rand::random()),
    });
    open(engine, ledger, sender, rules, ack).await
}

/// Opens a sale of `units` units at ¥1.00, one a user.
pub(crate) async fn sale(
    engine: &dyn Engine,
    ledger: &dyn Ledger,
    units: u32,
    ack: AckLevel,
) -> anyhow::Result<CampaignId> {
    let rules = Rules::Sale(Sale::new(
        units,
        1,
        Money::new(100, "CNY".parse()?),
        3_600_000,
    )?);
    open(engine, Some(ledger), UserId::new("seller")?, rules, ack).await
}

async fn open(
    engine: &dyn Engine,
    ledger: Option<&dyn Ledger>,
    owner: UserId,
    rules: Rules,
    ack: AckLevel,
) -> anyhow::Result<CampaignId> {
    let now = SystemClock.now();
    let campaign = Campaign {
        id: CampaignId::new(qiang_node::id_at(now))?,
        owner,
        title: "bench".to_owned(),
        // The clock of another machine may decide.
        window: Window::new(now.plus_millis(-3_600_000), now.plus_millis(24 * 3_600_000))?,
        ack,
        created_at: now,
        rules,
    };
    let id = campaign.id;
    let setup = Setup {
        shares: campaign.shares(),
        campaign,
    };
    if let Some(ledger) = ledger {
        ledger.create(&setup).await?;
    }
    engine.submit(Command::Open(Box::new(setup))).await?;
    Ok(id)
}

/// Waits until everything granted is in the ledger's tables.
pub(crate) async fn settle(embedded: &Embedded, wait_max: Duration) -> anyhow::Result<()> {
    let partition = PartitionId(0);
    let head = embedded.head(partition).await?;
    let settled = embedded.await_settled(partition, head, wait_max).await?;
    anyhow::ensure!(
        settled,
        "the ledger did not catch up within {} s",
        wait_max.as_secs()
    );
    Ok(())
}
