//! Engine on a recorded disk, with its answers.

use std::{path::Path, sync::Arc};

use qiang_checks::powerloss::{Disk, Journal};
use qiang_core::{
    book::{CampaignAction, Claim, Command, Reply, Setup},
    campaign::Details,
    event::PartitionId,
    id::IdempotencyKey,
    metadata::Metadata,
    ports::{
        AccountStore as _, ArchiveLog as _, CampaignStore as _, Creation, Engine as _,
        KeyStore as _, KeyUse, SettlementStore as _,
    },
    time::{Month, Timestamp},
};
use qiang_embedded::Embedded;
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, currency, user},
};
use tempfile::TempDir;
use uuid::Uuid;

use crate::{
    answers::{Fact, What},
    system_calls::{Watch, watch},
};

pub(crate) const FILE: &str = "qiang.db";

/// Folder in memory if possible, for speed. The journal simulates durability.
pub(crate) fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() {
        TempDir::new_in(memory)
    } else {
        TempDir::new()
    };
    made.unwrap()
}

pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

pub(crate) fn open_at(
    path: &Path,
    now: Timestamp,
) -> Result<Embedded, qiang_embedded::DataFileError> {
    Embedded::open(path, ManualClock::new(now))
}

/// Archives every ended month of an engine's log.
pub(crate) fn archive(embedded: &Embedded, folder: &Path) -> Result<usize, String> {
    let log = embedded.archives_in(folder.to_owned());
    let mut archives = 0;
    loop {
        match block_on(log.archive_next(Month::containing(Timestamp::MAX))) {
            Ok(Some(_)) => archives += 1,
            Ok(None) => return Ok(archives),
            Err(error) => return Err(error.to_string()),
        }
    }
}

pub(crate) struct Life {
    pub(crate) disk: Arc<Disk>,
    pub(crate) facts: Vec<Fact>,
    embedded: Option<Embedded>,
    _watch: Watch,
    folder: TempDir,
}

impl Life {
    /// Life in a folder with this journal.
    pub(crate) fn new(folder: TempDir, journal: Journal) -> Self {
        let disk = Disk::new(folder.path(), journal);
        Self {
            _watch: watch(&disk),
            disk,
            facts: Vec::new(),
            embedded: None,
            folder,
        }
    }

    pub(crate) fn journal(&self) -> Journal {
        self.disk.journal().clone()
    }

    pub(crate) fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn open(&mut self) {
        self.open_at(OPENS);
    }

    /// Opens the engine at this time and runs a tick.
    pub(crate) fn open_at(&mut self, now: Timestamp) {
        self.embedded = Some(open_at(&self.path(FILE), now).unwrap());
        let events_max = 1_000;
        let ticked = self.embedded().submit(Command::Tick { events_max });
        block_on(ticked).unwrap();
    }

    pub(crate) fn archive(&mut self) {
        let archived = archive(self.embedded(), self.folder.path());
        assert_eq!(archived, Ok(1));
        self.answered(What::Archived);
    }

    pub(crate) fn embedded(&self) -> &Embedded {
        self.embedded.as_ref().expect("the engine is open")
    }

    pub(crate) fn close(&mut self) {
        let embedded = self.embedded.take().expect("the engine is open");
        embedded.close();
    }

    /// Records an answer.
    pub(crate) fn answered(&mut self, what: What) {
        self.facts.push(Fact {
            at: self.disk.operations(),
            file: FILE,
            what,
        });
    }

    pub(crate) fn deposit(&mut self, n: u128, minor: i64) {
        let (id, funds) = (
            Uuid::from_u128(n << 80),
            qiang_core::money::Money::new(minor, currency()),
        );
        block_on(self.embedded().deposit(id, &user("owner"), funds)).unwrap();
        self.answered(What::Deposit(id));
    }

    pub(crate) fn create(&mut self, setup: &Setup) {
        block_on(self.embedded().create(setup)).unwrap();
        self.answered(What::Created(setup.campaign.id));
        let command = Command::Open(Box::new(setup.clone()));
        block_on(self.embedded().submit(command)).unwrap();
        self.answered(What::Opened(setup.campaign.id));
    }

    /// Creates and opens a campaign under a key, while other users claim one by one.
    pub(crate) fn create_beside(&mut self, setup: &Setup, claims: Vec<Claim>) {
        let key = IdempotencyKey::new(&setup.campaign.id.to_string()).unwrap();
        let creation = Creation {
            used: Some(KeyUse::new("owner POST /x", key, [1; 32])),
            setup: setup.clone(),
            details: Details::default(),
            metadata: Metadata::default(),
            audience: None,
            waiting_room: false,
            by: None,
            opens: true,
        };
        let embedded = self.embedded().clone();
        let again = creation.clone();
        std::thread::scope(|scope| {
            let created = scope.spawn(|| block_on(embedded.create_under(creation)));
            for claim in claims {
                self.claim(vec![claim]);
            }
            assert!(created.join().unwrap().unwrap().fresh);
        });
        self.answered(What::CreatedUnder(Box::new(again)));
        self.answered(What::Opened(setup.campaign.id));
    }

    /// Sends concurrent claims.
    pub(crate) fn claim(&mut self, claims: Vec<Claim>) {
        let tickets: Vec<_> = claims
            .iter()
            .map(|claim| self.embedded().claim(claim.clone()))
            .collect();
        for (claim, ticket) in claims.into_iter().zip(tickets) {
            let outcome = block_on(ticket).unwrap().outcome;
            if let Some(grant) = outcome.grant() {
                self.answered(What::Granted(claim, *grant));
            }
        }
    }

    pub(crate) fn order(&mut self, command: Command) {
        let view = match block_on(self.embedded().submit(command)).unwrap() {
            Reply::Payment(_, view) | Reply::Cancelled(view) | Reply::Returned(view) => view,
            other => panic!("{other:?}"),
        };
        let state = view.grant.order.unwrap().state;
        self.answered(What::Order(view.grant.order_id(), state));
    }

    pub(crate) fn end(&mut self, setup: &Setup) {
        let campaign = setup.campaign.id;
        let action = CampaignAction::Close;
        block_on(self.embedded().submit(Command::Act { campaign, action })).unwrap();
        self.answered(What::Closed(campaign));
    }

    pub(crate) fn settle(&mut self) {
        let (head, _) = self.embedded().positions();
        let wait = std::time::Duration::from_secs(30);
        let settled = self.embedded().await_settled(PartitionId(0), head, wait);
        assert_eq!(block_on(settled), Ok(true));
        self.answered(What::Settled(head));
    }

    /// Moves the write-ahead log into the file, as SQLite does automatically once the log is long.
    pub(crate) fn checkpoint(&mut self) {
        let conn = rusqlite::Connection::open(self.path(FILE)).unwrap();
        let moved: i64 = conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get(2))
            .unwrap();
        assert!(moved > 0);
    }
}
