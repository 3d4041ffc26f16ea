//! Fixtures of the benchmarks: a folder, a funded red packet, a sale.

use std::{
    collections::VecDeque,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use qiang::Backend;
use qiang_core::{
    admission::AdmissionRatio,
    book::{Claim, Command, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, RedPacket, Requirements, Rules, Sale},
    id::{CampaignId, UserId},
    money::{Currency, Money},
    payment::PaymentPolicy,
    ports::{Clock as _, Engine, Ledger},
    split::{Seed, Split, SplitRule},
    time::Window,
};
use qiang_embedded::{Embedded, SystemClock};
use tempfile::TempDir;

/// Time limit of settlement.
pub(crate) const SETTLE_MAX: Duration = Duration::from_secs(600);
/// Concurrent claims while a log is filled.
const WAITING: usize = 4_000;

/// The given folder, or a temporary one that is removed on drop.
pub(crate) fn folder(given: Option<&Path>) -> anyhow::Result<(PathBuf, Option<TempDir>)> {
    if let Some(path) = given {
        std::fs::create_dir_all(path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        return Ok((path.to_owned(), None));
    }
    let folder = tempfile::tempdir()?;
    Ok((folder.path().to_owned(), Some(folder)))
}

pub(crate) fn embedded(file: &Path) -> anyhow::Result<Backend> {
    let clock = Arc::new(SystemClock);
    let embedded = Embedded::open(file, clock.clone())
        .with_context(|| format!("cannot open {}", file.display()))?;
    Ok(Backend::embedded(embedded, clock))
}

/// Claim of one unit.
pub(crate) fn claim(campaign: CampaignId, kind: CampaignKind, user: &str) -> anyhow::Result<Claim> {
    Ok(Claim {
        campaign,
        kind,
        user: UserId::new(user)?,
        quantity: 1,
        key: None,
    })
}

/// Claims for some users, many at a time. Every claim must be granted.
pub(crate) async fn claim_all(
    engine: &dyn Engine,
    campaign: CampaignId,
    kind: CampaignKind,
    mut users: Range<u32>,
) -> anyhow::Result<()> {
    let mut tickets = VecDeque::with_capacity(WAITING);
    loop {
        while tickets.len() < WAITING
            && let Some(n) = users.next()
        {
            tickets.push_back(engine.claim(claim(campaign, kind, &format!("user-{n}"))?));
        }
        let Some(ticket) = tickets.pop_front() else {
            return Ok(());
        };
        let claimed = ticket.await?;
        ensure!(claimed.outcome.grant().is_some(), "a claim was not granted");
    }
}

/// Funds a sender and opens a red packet of `shares` shares, ¥1.00 on average. Without a ledger, only the engine knows
/// it.
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
        let id = qiang::id_at(SystemClock.now());
        ledger.deposit(id, &sender, total).await?;
    }
    let split = Split::new(total.minor, shares, SplitRule::DoubleAverage { min: 1 })?;
    let rules = Rules::RedPacket(RedPacket::new(
        split,
        currency,
        Seed::from_bytes(rand::random()),
    ));
    open(engine, ledger, sender, rules, ack).await
}

/// Opens a sale of `units` units at ¥1.00, one per user.
pub(crate) async fn sale(
    engine: &dyn Engine,
    ledger: &dyn Ledger,
    units: u32,
    ack: AckLevel,
) -> anyhow::Result<CampaignId> {
    let rules = Rules::Sale(Sale::new(
        units.into(),
        1,
        Money::new(100, "CNY".parse()?),
        3_600_000,
    )?);
    open(engine, Some(ledger), UserId::new("seller")?, rules, ack).await
}

/// Opens such a sale with this admission ratio. Without a ledger, only the engine knows it.
pub(crate) async fn sale_with(
    engine: &dyn Engine,
    ledger: Option<&dyn Ledger>,
    units: u32,
    ack: AckLevel,
    admission: Option<AdmissionRatio>,
) -> anyhow::Result<CampaignId> {
    let price = Money::new(100, "CNY".parse()?);
    let sale = Sale::new(units.into(), 1, price, 3_600_000)?.with_admission(admission);
    open(
        engine,
        ledger,
        UserId::new("seller")?,
        Rules::Sale(sale),
        ack,
    )
    .await
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
        id: CampaignId::new(qiang::id_at(now))?,
        owner,
        title: "bench".to_owned(),
        // The clock of another machine may decide.
        window: Window::new(now.plus_millis(-3_600_000), now.plus_millis(24 * 3_600_000))?,
        ack,
        requirements: Requirements::default(),
        payment_policy: PaymentPolicy::default(),
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
