//! Load of red packets: creations and claims.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{bail, ensure};
use qiang::Backend;
use qiang_core::{
    book::{Command, Setup},
    campaign::{AckLevel, Campaign, CampaignKind, Details, RedPacket, Requirements, Rules},
    id::{CampaignId, IdempotencyKey, UserId},
    metadata::Metadata,
    money::{Currency, Money},
    outcome::Outcome,
    payment::PaymentPolicy,
    ports::{Clock as _, Creation, Engine, KeyUse},
    split::{Seed, Split, SplitRule},
    time::Window,
};
use qiang_embedded::SystemClock;

use crate::fixture;

/// Number of senders.
const SENDERS: u32 = 1_000;
/// Average money of a share, in minor units.
const SHARE_MINOR: u32 = 100;
/// Number of users who claim, in each round over the red packets.
const CLAIMERS: u64 = 10_000;
/// Distance between the red packets of consecutive claims: a prime.
const STRIDE: u64 = 15_485_863;

/// Red packets to create.
pub(super) struct Packets {
    count: u32,
    shares: u32,
    currency: Currency,
}

impl Packets {
    pub(super) fn new(count: u32, shares: u32) -> anyhow::Result<Self> {
        let currency = "CNY".parse()?;
        Ok(Self {
            count,
            shares,
            currency,
        })
    }

    /// Deposits the money for all red packets to their senders.
    pub(super) async fn fund(&self, backend: &Backend) -> anyhow::Result<()> {
        let packets = self.count.div_ceil(SENDERS);
        let needed = i64::from(packets) * i64::from(self.shares * SHARE_MINOR);
        for n in 0..SENDERS {
            let id = qiang::id_at(SystemClock.now());
            let amount = Money::new(needed, self.currency);
            backend
                .ports
                .ledger
                .deposit(id, &sender(n)?, amount)
                .await?;
        }
        Ok(())
    }

    /// Creates all red packets, each under its own key as a request does, `in_flight` at a time.
    pub(super) async fn create_all(
        &self,
        backend: &Backend,
        in_flight: u32,
    ) -> anyhow::Result<Vec<CampaignId>> {
        let next = Arc::new(AtomicU32::new(0));
        let creators: Vec<_> = (0..in_flight)
            .map(|_| {
                let creator = Creator {
                    backend: backend.clone(),
                    packets: Self { ..*self },
                    next: Arc::clone(&next),
                };
                tokio::spawn(creator.run())
            })
            .collect();
        let mut ids = Vec::with_capacity(self.count as usize);
        for creator in creators {
            ids.extend(creator.await??);
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn setup(&self, n: u32) -> anyhow::Result<Setup> {
        let now = SystemClock.now();
        let total = i64::from(self.shares * SHARE_MINOR);
        let campaign = Campaign {
            id: CampaignId::new(qiang::id_at(now))?,
            owner: sender(n % SENDERS)?,
            title: "恭喜发财".to_owned(),
            window: Window::new(now, now.plus_millis(24 * 3_600_000))?,
            ack: AckLevel::Fsync,
            requirements: Requirements::default(),
            payment_policy: PaymentPolicy::default(),
            created_at: now,
            rules: Rules::RedPacket(RedPacket::new(
                Split::new(total, self.shares, SplitRule::DoubleAverage { min: 1 })?,
                self.currency,
                Seed::from_bytes(rand::random()),
            )),
        };
        let shares = campaign.shares();
        Ok(Setup { campaign, shares })
    }
}

fn sender(n: u32) -> anyhow::Result<UserId> {
    Ok(UserId::new(&format!("sender-{n}"))?)
}

struct Creator {
    backend: Backend,
    packets: Packets,
    next: Arc<AtomicU32>,
}

impl Creator {
    async fn run(self) -> anyhow::Result<Vec<CampaignId>> {
        let (ledger, engine) = (&self.backend.ports.ledger, &self.backend.ports.engine);
        // The default level of requests.
        let offered = engine.ack_levels().iter().copied();
        let ack = offered.filter(|level| *level != AckLevel::Ledger).max();
        let mut ids = Vec::new();
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.packets.count {
                return Ok(ids);
            }
            let mut setup = self.packets.setup(n)?;
            setup.campaign.ack = ack.unwrap_or(AckLevel::Ledger);
            let scope = format!("{} POST /v1/red-packets", setup.campaign.owner);
            let key = IdempotencyKey::new(&format!("packet-{n}"))?;
            let used = KeyUse::new(scope, key, rand::random());
            let asked = Creation {
                used: Some(used),
                setup: setup.clone(),
                details: Details::default(),
                metadata: Metadata::default(),
                audience: None,
                waiting_room: false,
                by: None,
                opens: true,
            };
            let id = CampaignId::new(ledger.create_under(asked).await?.id)?;
            if !engine.has_opened(id) {
                engine.submit(Command::Open(Box::new(setup))).await?;
            }
            ids.push(id);
        }
    }
}

/// Claims with these numbers, `in_flight` at a time, each for a new user. They iterate the red packets in order if
/// `in_turn`, otherwise by `STRIDE`. Every claim must be granted.
pub(super) async fn claim_all(
    backend: &Backend,
    ids: &[CampaignId],
    mut claims: Range<u64>,
    (in_flight, in_turn): (u32, bool),
) -> anyhow::Result<()> {
    let engine: &dyn Engine = &*backend.ports.engine;
    let packets = ids.len() as u64;
    ensure!(
        !packets.is_multiple_of(STRIDE),
        "choose a number of packets that is no multiple of {STRIDE}"
    );
    let mut tickets = VecDeque::new();
    loop {
        while tickets.len() < in_flight as usize
            && let Some(claim) = claims.next()
        {
            let (round, place) = (claim / packets, claim % packets);
            let packet = if in_turn {
                place
            } else {
                place * STRIDE % packets
            };
            let user = format!("user-{round}-{}", packet % CLAIMERS);
            let id = ids[packet as usize];
            tickets.push_back(engine.claim(fixture::claim(id, CampaignKind::RedPacket, &user)?));
        }
        let Some(ticket) = tickets.pop_front() else {
            return Ok(());
        };
        match ticket.await?.outcome {
            Outcome::Granted(_) => {}
            other => bail!("unexpected outcome of a new user's claim: {}", other.name()),
        }
    }
}
