//! Campaigns that are entered together.
//!
//! If they have many shares, an engine writes the shares first, in slices that stay invisible. One small step then
//! enters the campaigns with their money and their keys.

use std::sync::Arc;

use qiang_core::{
    ports::{Creation, KeyBinding, LedgerError},
    time::Timestamp,
};
use rusqlite::Connection;
use tokio::sync::oneshot::{Receiver, Sender, channel};

use crate::{
    error::DataFileError,
    fence::FencedConnection,
    job::{Committed, JobContext, LedgerJob, result_of},
    ledger::{campaign_insert::CampaignInsert, keys, preparations},
    pace::LOAD_SHARES,
    transaction::{ChangeIsolation, TransactionContext},
};

/// Rows that a campaign writes besides its shares.
const CAMPAIGN_ROWS: u64 = 16;

/// Result of each campaign.
pub(crate) type Entered = Vec<Result<KeyBinding, LedgerError>>;

/// Request to enter campaigns together, with the channel of its answer.
pub(crate) struct NewCampaignIds {
    campaigns: Arc<[Creation]>,
    /// Whether a refusal of one campaign undoes all of them.
    pub(crate) is_whole: bool,
    /// Result of each campaign in the trial; empty before the trial.
    foreseen: Entered,
    /// Reserved `ref`s of the campaigns whose shares are written first; empty before the trial.
    reserved: Vec<Option<i64>>,
    /// Next share to write: index of its campaign, and its number.
    next: (usize, u32),
    entered: Option<Entered>,
    answer: Sender<Result<Entered, LedgerError>>,
}

impl NewCampaignIds {
    pub(crate) fn boxed(
        campaigns: impl Into<Arc<[Creation]>>,
    ) -> (Box<Self>, Receiver<Result<Entered, LedgerError>>) {
        let (answer, receiver) = channel();
        let campaigns = Self {
            campaigns: campaigns.into(),
            is_whole: false,
            foreseen: Vec::new(),
            reserved: Vec::new(),
            next: (0, 1),
            entered: None,
            answer,
        };
        (Box::new(campaigns), receiver)
    }

    /// Number of shares of all campaigns.
    pub(crate) fn shares(&self) -> u64 {
        self.campaigns.iter().map(|it| u64::from(shares(it))).sum()
    }

    /// Estimated number of rows of all campaigns.
    pub(crate) fn rows(&self) -> u64 {
        CAMPAIGN_ROWS * self.campaigns.len() as u64 + self.shares()
    }

    /// Whether the caller still waits for the result.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Whether the campaigns have more shares than one transaction should write while claims wait.
    pub(crate) fn has_many_shares(&self) -> bool {
        self.shares() > u64::from(LOAD_SHARES)
    }

    /// Enters the campaigns without shares as a trial, stores the results and rolls back. Returns whether any campaign
    /// is new, and would be entered.
    pub(crate) fn foresee(
        &mut self,
        conn: &FencedConnection,
        now: Timestamp,
    ) -> Result<bool, DataFileError> {
        let tx = conn.begin()?;
        let (mut any_new, mut opens) = (false, Vec::new());
        let (mut next, mut apart) = (
            preparations::next_ref(&tx)?,
            ChangeIsolation::by_savepoints(),
        );
        let mut entering = CampaignInsert::prepare(&TransactionContext::new(&tx, now))?;
        for campaign in &*self.campaigns {
            let reserved = (shares(campaign) > 0).then_some(next);
            let (entering, opens) = (&mut entering, &mut opens);
            let foreseen = keys::create(entering, &mut apart, campaign, reserved, opens)?;
            self.foreseen.push(foreseen);
            let before = std::mem::replace(&mut next, preparations::next_ref(&tx)?);
            let is_new = next > before;
            self.reserved.push(reserved.filter(|_| is_new));
            any_new |= is_new;
        }
        drop(entering);
        tx.rollback()?;
        Ok(any_new && !(self.is_whole && self.foreseen.iter().any(Result::is_err)))
    }

    /// Reserves the `ref`s under which shares are written.
    pub(crate) fn reserve(&self, conn: &Connection) -> Result<(), DataFileError> {
        let reserved = self.reserved.iter().flatten();
        reserved
            .copied()
            .try_for_each(|it| preparations::reserve(conn, it))
    }

    /// Writes up to `limit` shares. Returns whether all are written.
    pub(crate) fn write(&mut self, conn: &Connection, limit: u32) -> Result<bool, DataFileError> {
        let mut left = limit;
        while let Some(campaign) = self.campaigns.get(self.next.0) {
            let (place, number) = self.next;
            let end = shares(campaign) + 1;
            match self.reserved[place].filter(|_| number < end) {
                None => self.next = (place + 1, 1),
                Some(_) if left == 0 => return Ok(false),
                Some(reserved) => {
                    let next = end.min(number.saturating_add(left));
                    preparations::put_shares(conn, reserved, &campaign.setup, number..next)?;
                    left -= next - number;
                    self.next.1 = next;
                }
            }
        }
        Ok(true)
    }

    /// Answers with the results of the trial: no campaign is new.
    pub(crate) fn answer_as_foreseen(self) {
        drop(self.answer.send(Ok(self.foreseen))); // // the caller may have stopped waiting
    }

    /// Answers with an error.
    pub(crate) fn fail(self, error: DataFileError) {
        drop(self.answer.send(Err(error.into())));
    }
}

impl LedgerJob for NewCampaignIds {
    /// Enters the campaigns and the shares not written yet. A refusal of the trial stays.
    fn run(&mut self, context: &mut JobContext<'_, '_>) -> Result<(), DataFileError> {
        let mut entering = match context.entering.take() {
            Some(entering) => entering,
            None => CampaignInsert::prepare(context.basis)?,
        };
        let mut entered = Vec::with_capacity(self.campaigns.len());
        for (place, campaign) in self.campaigns.iter().enumerate() {
            entered.push(match self.foreseen.get(place) {
                Some(Err(refusal)) => Err(refusal.clone()),
                _ => {
                    let reserved = self.reserved.get(place).copied().flatten();
                    let (entering, opens) = (&mut entering, &mut context.done.opens);
                    keys::create(entering, context.apart, campaign, reserved, opens)?
                }
            });
        }
        let refusal = entered.iter().find_map(|it| it.as_ref().err().cloned());
        let undone = refusal.filter(|_| self.is_whole);
        if undone.is_some() {
            entering.is_undone();
        }
        *context.entering = Some(entering);
        self.entered = Some(entered);
        undone.map_or(Ok(()), |refusal| Err(DataFileError::Refused(refusal)))
    }

    fn entries(&self) -> usize {
        0
    }

    fn answer(self: Box<Self>, committed: Committed<'_>) {
        let result = result_of(committed, self.entered.map(Ok));
        drop(self.answer.send(result)); // // the caller may have stopped waiting
    }
}

/// Number of shares of a campaign; 0 for a sale.
fn shares(campaign: &Creation) -> u32 {
    let packet = campaign.setup.campaign.rules.red_packet();
    packet.map_or(0, |packet| packet.split.count())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qiang_core::{
        campaign::Details,
        id::{CampaignId, IdempotencyKey},
        metadata::Metadata,
        money::Money,
        ports::KeyUse,
        split::SplitRule,
    };
    use qiang_testkit::campaign::{OPENS, currency, red_packet, sale, user};
    use rand::{RngExt as _, SeedableRng as _};
    use rand_chacha::ChaCha8Rng;
    use rusqlite::types::Value;
    use tempfile::TempDir;
    use uuid::Uuid;

    use super::*;
    use crate::{
        file::{self, DataFileKind},
        job::{Job, JobResult, run_again, run_jobs},
        ledger::accounts,
    };

    const FUNDS: i64 = 1_500;

    fn open(folder: &Path) -> FencedConnection {
        let path = folder.join("qiang.db");
        let conn = file::open_writer(&path, DataFileKind::Engine, OPENS).unwrap();
        let tx = conn.begin().unwrap();
        for (n, name) in [(1, "ann"), (2, "bob")] {
            let funds = (&user(name), Money::new(FUNDS, currency()));
            accounts::deposit(&tx, OPENS, Uuid::from_u128(n), funds, None).unwrap();
        }
        tx.commit().unwrap();
        conn
    }

    /// A random campaign. At times its id or key is used, or its sender lacks funds.
    fn campaign(rng: &mut ChaCha8Rng) -> Creation {
        let owner = if rng.random_ratio(1, 2) { "ann" } else { "bob" };
        let total = rng.random_range(1..400);
        let built = match rng.random_range(0..4) {
            0 => sale(3),
            _ => red_packet(total.max(11), 11, SplitRule::Equal),
        };
        let key = IdempotencyKey::new(&format!("key-{}", rng.random_range(0..12))).unwrap();
        let fingerprint = [u8::from(rng.random_ratio(1, 8)); 32];
        Creation {
            used: (rng.random_ratio(3, 4)).then(|| KeyUse::new("scope", key, fingerprint)),
            setup: built.owner(owner).setup(rng.random_range(0..60)),
            details: Details::default(),
            metadata: Metadata::default(),
            audience: None,
            waiting_room: rng.random_ratio(1, 8),
            by: None,
            opens: rng.random_ratio(1, 2),
        }
    }

    fn deposit(n: u128, name: &'static str) -> Box<dyn LedgerJob> {
        let (job, _) = Job::boxed(0, move |context| {
            let funds = (&user(name), Money::new(100, currency()));
            accounts::deposit(context.conn, OPENS, Uuid::from_u128(n), funds, None)
        });
        job
    }

    /// A random job. The same seed gives the same job.
    fn job(rng: &mut ChaCha8Rng) -> Box<dyn LedgerJob> {
        match rng.random_range(0..8) {
            0 => deposit(rng.random_range(3..20), "ann"),
            1 => {
                let campaign = campaign(rng);
                let (job, _) = Job::boxed(0, move |context| {
                    let mut entering = CampaignInsert::prepare(context.basis)?;
                    entering.enter(&campaign.setup, &campaign, None)?;
                    Err::<(), _>(DataFileError::Refused(LedgerError::IdUsed))
                });
                job
            }
            _ => {
                let campaigns: Vec<_> =
                    (0..rng.random_range(1..4)).map(|_| campaign(rng)).collect();
                NewCampaignIds::boxed(campaigns).0
            }
        }
    }

    fn each(jobs: &mut [Box<dyn LedgerJob>]) -> impl Iterator<Item = &mut dyn LedgerJob> {
        jobs.iter_mut()
            .map(|job| job.as_mut() as &mut dyn LedgerJob)
    }

    /// Runs the jobs in one transaction, as a writer does. Returns the campaigns that it opens.
    fn commit(conn: &FencedConnection, jobs: &mut [Box<dyn LedgerJob>]) -> Vec<CampaignId> {
        let mut tx = conn.begin().unwrap();
        let (mut apart, mut done) = (ChangeIsolation::default(), JobResult::default());
        let basis = TransactionContext::new(&tx, OPENS);
        run_jobs(basis, each(jobs), &mut apart, &mut done).unwrap();
        if apart.is_mixed() {
            let again = run_again((conn, OPENS), false, tx, each(jobs));
            (tx, _, done) = again.unwrap();
        }
        tx.commit().unwrap();
        let opens = done.opens.iter().map(|setup| setup.campaign.id);
        opens.collect()
    }

    fn rows(conn: &Connection) -> Vec<Vec<Value>> {
        let tables = [
            ("campaigns", "ref"),
            ("shares", "campaign, number"),
            ("accounts", "id"),
            ("postings", "source, seq"),
            ("idempotency_keys", "key, scope"),
            ("waiting_rooms", "campaign"),
        ];
        let mut rows = Vec::new();
        for (table, order) in tables {
            let sql = format!("SELECT * FROM {table} ORDER BY {order}");
            let mut statement = conn.prepare(&sql).unwrap();
            let columns = statement.column_count();
            let found = statement.query_map([], |row| {
                (0..columns)
                    .map(|at| row.get(at))
                    .collect::<Result<Vec<Value>, _>>()
            });
            rows.extend(found.unwrap().map(Result::unwrap));
        }
        rows
    }

    /// Asserts that the same jobs leave the same rows and open the same campaigns, in one transaction or in one each.
    fn assert_same(mut together: Vec<Box<dyn LedgerJob>>, mut alone: Vec<Box<dyn LedgerJob>>) {
        let (folder, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (conn, by_themselves) = (open(folder.path()), open(other.path()));
        let opened = commit(&conn, &mut together);
        let each = alone.chunks_mut(1);
        let expected: Vec<_> = each.flat_map(|job| commit(&by_themselves, job)).collect();
        assert_eq!(opened, expected);
        assert_eq!(rows(&conn), rows(&by_themselves));
    }

    /// Campaigns of one transaction are entered as with one transaction per job, for any jobs and refusals between
    /// them.
    #[test]
    fn campaigns_of_one_transaction_are_entered_as_in_many() {
        for seed in 0..30 {
            let jobs = || {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                (0..rng.random_range(1..30))
                    .map(|_| job(&mut rng))
                    .collect()
            };
            assert_same(jobs(), jobs());
        }
    }

    /// A sender who has spent all funds on a red packet repeats the request after a posting of another user.
    #[test]
    fn what_was_entered_before_does_not_hide_what_others_have_posted() {
        let packet = |n: u64, owner: &str, total| Creation {
            used: Some(KeyUse::new(
                owner.to_owned(),
                IdempotencyKey::new("key").unwrap(),
                [1; 32],
            )),
            setup: red_packet(total, 10, SplitRule::Equal)
                .owner(owner)
                .setup(n),
            details: Details::default(),
            metadata: Metadata::default(),
            audience: None,
            waiting_room: false,
            by: None,
            opens: true,
        };
        let all = || -> Vec<Box<dyn LedgerJob>> {
            let ann = packet(1, "ann", FUNDS);
            vec![
                NewCampaignIds::boxed([ann.clone()]).0,
                deposit(3, "bob"),
                NewCampaignIds::boxed([ann]).0,
                NewCampaignIds::boxed([packet(2, "bob", 100)]).0,
            ]
        };
        let folder = TempDir::new().unwrap();
        let opened = commit(&open(folder.path()), &mut all());
        assert_eq!(opened.len(), 2);
        assert_same(all(), all());
    }
}
