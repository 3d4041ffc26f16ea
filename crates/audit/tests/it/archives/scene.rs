//! An engine with archives, campaigns that are open for years, and a clock that tests move.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use qiang_core::{
    book::{Claim, Command, PaymentOutcome, Reply, Setup},
    event::{PartitionId, Seq},
    id::PaymentRef,
    money::Money,
    outcome::{Grant, Outcome},
    payment::ReceivedMoney,
    ports::{
        AccountStore as _, ArchiveLog as _, CampaignStore as _, Engine as _, EngineError,
        LogArchive, SettlementStore as _,
    },
    split::SplitRule,
    time::{Month, Timestamp},
};
use qiang_embedded::{Embedded, EmbeddedOptions, LogArchives};
use qiang_testkit::{
    ManualClock,
    campaign::{Builder, OPENS, Target, currency, red_packet, sale, user},
};
use rusqlite::Connection;

pub(crate) const DAY_MS: i64 = 86_400_000;
pub(crate) const PARTITION: PartitionId = PartitionId(0);
const WAIT_MAX: Duration = Duration::from_secs(20);

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

/// A month after all others.
pub(crate) fn ever() -> Month {
    Month::containing(Timestamp::MAX)
}

pub(crate) struct Scene {
    folder: tempfile::TempDir,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) engine: Embedded,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = ManualClock::new(OPENS);
        let engine = open(&folder.path().join("qiang.db"), &clock);
        Self {
            folder,
            clock,
            engine,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn sql(&self) -> Connection {
        let conn = Connection::open(self.path("qiang.db")).unwrap();
        conn.busy_timeout(WAIT_MAX).unwrap();
        conn
    }

    /// Runs a statement concurrently with the engine. Returns the number of changed rows.
    pub(crate) fn run(&self, sql: &str) -> usize {
        self.sql().execute(sql, []).unwrap()
    }

    pub(crate) fn number(&self, sql: &str) -> i64 {
        self.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn create(&self, setup: Setup) -> Target {
        let target = Target::of(&setup);
        let id = setup.campaign.id.uuid();
        let funds = Money::new(100_000, currency());
        block_on(self.engine.deposit(id, &user("owner"), funds)).unwrap();
        block_on(self.engine.create(&setup)).unwrap();
        self.command(Command::Open(Box::new(setup))).unwrap();
        target
    }

    pub(crate) fn command(&self, command: Command) -> Result<Reply, EngineError> {
        block_on(self.engine.submit(command))
    }

    pub(crate) fn claim(&self, claim: Claim) -> Outcome {
        block_on(self.engine.claim(claim)).unwrap().outcome
    }

    pub(crate) fn grant(&self, claim: Claim) -> Grant {
        match self.claim(claim) {
            Outcome::Granted(grant) => grant,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn pay(&self, sale: Target, number: u32, payment: &str) -> PaymentOutcome {
        let order = sale.order(number);
        let payment = PaymentRef::new(payment).unwrap();
        let paid_at = None;
        match self
            .command(Command::Pay {
                order,
                payment,
                paid_at,
                received: ReceivedMoney::Price,
                cancelled: 0,
            })
            .unwrap()
        {
            Reply::Payment(outcome, _) => outcome,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn settle(&self) -> Seq {
        let (head, _) = self.engine.positions();
        let settled = self.engine.await_settled(PARTITION, head, WAIT_MAX);
        assert_eq!(block_on(settled), Ok(true));
        head
    }

    /// Moves the clock by days, and lets due events happen.
    pub(crate) fn pass(&self, days: i64) {
        self.clock.advance(days * DAY_MS);
        let events_max = 10_000;
        self.command(Command::Tick { events_max }).unwrap();
    }

    pub(crate) fn archives(&self) -> LogArchives {
        self.engine.archives_in(self.folder.path().to_owned())
    }

    /// Archives everything that can be archived.
    pub(crate) fn archive(&self) -> Vec<LogArchive> {
        self.settle();
        let (log, mut archives) = (self.archives(), Vec::new());
        while let Some(archive) = block_on(log.archive_next(ever())).unwrap() {
            archives.push(archive);
        }
        assert_eq!(block_on(log.archivable(ever())), Ok(vec![]));
        archives
    }

    /// Number of entries in the file.
    pub(crate) fn entries(&self) -> u64 {
        self.number("SELECT count(*) FROM events").unsigned_abs()
    }

    pub(crate) fn restart(&mut self) {
        self.engine.close();
        self.engine = open(&self.path("qiang.db"), &self.clock);
    }

    /// Checks that the file and its archives are sound.
    pub(crate) fn audit(&self) {
        let report = qiang_audit::audit_served(&self.path("qiang.db")).unwrap();
        assert!(report.ok, "{report}");
    }

    /// Grants of some users within a month. The first user has a share and an unpaid order, the others a share and a
    /// paid order. Also returns the last entry of the month.
    pub(crate) fn month(&self, packet: Target, sale: Target, month: u32) -> (Grant, Grant, Seq) {
        let name = |n: u32| format!("u{month}-{n}");
        let grants = (
            self.grant(packet.one(&name(0))),
            self.grant(sale.one(&name(0))),
        );
        for n in 1..20 {
            self.grant(packet.one(&name(n)));
            let order = self.grant(sale.one(&name(n)));
            self.pay(sale, order.number, &name(n));
        }
        let head = self.settle();
        self.pass(31);
        (grants.0, grants.1, head)
    }
}

pub(crate) fn open(path: &Path, clock: &Arc<ManualClock>) -> Embedded {
    let options = EmbeddedOptions {
        idle_campaign_ttl: Duration::ZERO,
        ..EmbeddedOptions::default()
    };
    let opened = Embedded::open_with(path, clock.clone(), options);
    opened.unwrap_or_else(|error| panic!("{error}"))
}

/// Campaigns that are open for years.
pub(crate) fn years(campaign: Builder, n: u64) -> Setup {
    campaign.window(OPENS, 4_000 * DAY_MS).setup(n)
}

pub(crate) fn long_packet(n: u64) -> Setup {
    years(red_packet(10_000, 500, SplitRule::Lazy { min: 1 }), n)
}

/// A sale with holds of 30 days.
pub(crate) fn long_sale(n: u64) -> Setup {
    years(sale(500).hold_ms(30 * DAY_MS).limit(3), n)
}
