//! Engine whose turns a test takes one by one.

use qiang_core::{
    book::{Grace, Setup},
    campaign::Details,
    id::IdempotencyKey,
    metadata::Metadata,
    money::Money,
    outcome::Outcome,
    ports::{Claimed, Clock, Creation, KeyBinding, KeyUse, LedgerError, PendingReply},
    rows::{AccountKey, AccountPurpose},
    split::SplitRule,
};
use qiang_testkit::{
    ManualClock,
    campaign::{OPENS, Target, currency, red_packet, user},
};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::sync::oneshot::{Receiver, error::TryRecvError};

use super::*;
use crate::{
    EmbeddedOptions, EngineShared, data_file,
    file::{self, DataFileKind},
    ledger::accounts,
    log::EventRefs,
    new_campaign_ids::{Entered, NewCampaignIds},
    rebuild,
};

/// Initial funds of `sender`.
pub(super) const FUNDS: i64 = 1_000_000;

/// Engine without a writer thread.
pub(super) struct ManualEngine {
    pub(super) folder: TempDir,
    pub(super) writer: Writer,
    pub(super) reader: Connection,
    pub(super) clock: Arc<ManualClock>,
}

impl ManualEngine {
    pub(super) fn new() -> Self {
        let engine = Self::open(TempDir::new().unwrap());
        let funds = (&user("sender"), Money::new(FUNDS, currency()));
        let tx = engine.writer.conn.begin().unwrap();
        accounts::deposit(&tx, OPENS, uuid::Uuid::nil(), funds, None).unwrap();
        tx.commit().unwrap();
        engine
    }

    pub(super) fn open(folder: TempDir) -> Self {
        let engine = Self::open_without_readers(folder);
        engine.writer.shared.recalls.close(); // // without reload threads, the writer reloads
        engine
    }

    /// An engine whose reload requests wait until the test serves them.
    pub(super) fn open_without_readers(folder: TempDir) -> Self {
        Self::open_with_grace(folder, Grace::default())
    }

    pub(super) fn open_with_grace(folder: TempDir, grace: Grace) -> Self {
        let path = folder.path().join("qiang.db");
        Self::open_at(&path, folder, grace).unwrap()
    }

    /// A second engine on the same file. It takes no lock on the file, as the first one took none.
    pub(super) fn open_beside(path: &Path) -> Result<Self, DataFileError> {
        let engine = Self::open_at(path, TempDir::new().unwrap(), Grace::default())?;
        engine.writer.shared.recalls.close();
        Ok(engine)
    }

    fn open_at(path: &Path, folder: TempDir, grace: Grace) -> Result<Self, DataFileError> {
        data_file::open_unlocked(path);
        let conn = file::open_writer(path, DataFileKind::Engine, OPENS)?;
        let (mut options, mut refs) = (EmbeddedOptions::default(), EventRefs::default());
        options.grace = grace;
        let rebuilt = rebuild::rebuild(&conn, &mut refs, options.grace)?;
        let shared = Arc::new(EngineShared::new(rebuilt.book));
        let clock = ManualClock::new(OPENS);
        let read: Arc<dyn Clock> = clock.clone();
        let parts = (conn, refs, rebuilt.places);
        Ok(Self {
            writer: Writer::new(path, &shared, &read, parts, options)?,
            reader: file::open_reader(path)?,
            folder,
            clock,
        })
    }

    /// Drops the engine as if the process died, and opens the file again.
    pub(super) fn crash(self) -> Self {
        let Self { folder, writer, .. } = self; // // drops the reader too
        drop(writer);
        Self::open(folder)
    }

    pub(super) fn turn(&mut self) {
        assert!(self.writer.turn(&mut Vec::new(), &mut Vec::new()));
        assert_eq!(*self.writer.shared.stopped.read(), None);
    }

    pub(super) fn push(&self, task: WriterTask) {
        assert!(self.writer.shared.queue.push(task).is_ok());
    }

    /// Tasks that wait for the next turn.
    pub(super) fn take(&self) -> Vec<WriterTask> {
        let mut tasks = Vec::new();
        let taken = self.writer.shared.queue.take(&mut tasks, 0, Duration::ZERO);
        assert_eq!(taken, TakeResult::Tasks);
        tasks
    }

    pub(super) fn enter(&self, creation: Creation) -> Receiver<Result<Entered, LedgerError>> {
        let (campaigns, receiver) = NewCampaignIds::boxed(vec![creation]);
        self.push(WriterTask::Enter(campaigns));
        receiver
    }

    pub(super) fn claim(&self, setup: &Setup, name: &str) -> PendingReply<Claimed> {
        let (answer, ticket) = PendingReply::new();
        self.push(WriterTask::Claim(Target::of(setup).one(name), answer));
        ticket
    }

    /// Takes turns until the result of a campaign arrives.
    pub(super) fn entered(&mut self, mut receiver: Receiver<Result<Entered, LedgerError>>) -> One {
        loop {
            if let Some(entered) = one(&mut receiver) {
                return entered;
            }
            self.turn();
        }
    }

    pub(super) fn count(&self, sql: &str) -> u32 {
        self.reader.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    pub(super) fn sender_has(&self) -> i64 {
        let sender = AccountKey::new("sender", AccountPurpose::User, currency());
        accounts::balance(&self.reader, sender).unwrap()
    }
}

pub(super) type One = Result<KeyBinding, LedgerError>;

/// Result of a campaign, once it is sent.
pub(super) fn one(receiver: &mut Receiver<Result<Entered, LedgerError>>) -> Option<One> {
    match receiver.try_recv() {
        Ok(entered) => Some(entered.and_then(|mut entered| entered.remove(0))),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Closed) => panic!("the sender is gone"),
    }
}

pub(super) fn outcome(ticket: &mut PendingReply<Claimed>) -> Outcome {
    block_on(ticket).unwrap().outcome
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.build().unwrap().block_on(future)
}

/// The `n`-th packet, with this total and number of shares, under a key.
pub(super) fn packet(n: u64, total: i64, shares: u32) -> Creation {
    let packet = red_packet(total, shares, SplitRule::Equal).owner("sender");
    creation(packet.setup(n), Some(&format!("key-{n}")))
}

pub(super) fn creation(setup: Setup, key: Option<&str>) -> Creation {
    let key = key.map(|key| IdempotencyKey::new(key).unwrap());
    Creation {
        used: key.map(|key| KeyUse::new("sender POST /x", key, [1; 32])),
        setup,
        details: Details::default(),
        metadata: Metadata::default(),
        audience: None,
        waiting_room: false,
        by: None,
        opens: true,
    }
}

pub(super) fn fresh(entered: &One) -> Option<bool> {
    entered.as_ref().ok().map(|binding| binding.fresh)
}
