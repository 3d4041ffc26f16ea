//! Tasks about large campaigns that are not in memory: they are decided from the rows of their users and orders, which
//! are found by key. So a request for a campaign of a million orders reads none of the others.
//!
//! Architecture invariant: the rows have all entries of such a campaign, see [`super::due`]. So a decision waits until
//! the whole log is settled, and its entries are settled in their own transaction. If the ledger stays behind, or if a
//! campaign has many tasks, it is reloaded whole, and its tasks wait for that.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    book::{Book, Claim, Refusal, Reply},
    campaign::AckLevel,
    event::Entry,
    id::CampaignId,
    outcome::Outcome,
    ports::{Claimed, EngineError, ReplySender},
    time::Timestamp,
};

use super::Writer;
use crate::{cold_rows::DecisionRows, error::DataFileError, task::WriterTask};

/// Maximum claims and commands of one transaction: some milliseconds. Tasks of other campaigns get their turn between
/// two of them.
const REQUESTS_MAX: usize = 64;
/// Grants after which a transaction reads no further campaign. One campaign has at most as many.
const GRANTS_MAX: usize = 512;
/// Maximum claims in a list of ordered ones.
const CLAIMS_MAX: usize = REQUESTS_MAX;
/// Waiting tasks above which a campaign is reloaded.
const WAITING_MAX: usize = 1_024;
/// Grants above which a campaign is reloaded that were read for its tasks. A task counts as at least one.
const READ_MAX: u32 = 16_384;
/// Campaigns whose grants are counted.
const COUNTED_MAX: usize = 1_024;
/// Maximum wait for the settlement of the log. After it, the campaign is reloaded whole.
const SETTLEMENT_WAIT_MAX: Duration = Duration::from_millis(100);
/// Wait after which a slice of the log is settled, although settlement rests.
const SETTLEMENT_URGENT_AFTER: Duration = Duration::from_millis(20);

/// Tasks by campaign.
#[derive(Default)]
pub(super) struct AbsentTasks {
    /// Campaigns with tasks, each once, and since when the oldest waits.
    queue: VecDeque<(CampaignId, Instant)>,
    /// Their tasks, in order of arrival.
    tasks: HashMap<CampaignId, Vec<WriterTask>>,
    len: usize,
    /// Number of grants that were read for tasks since the campaign was in memory.
    read: HashMap<CampaignId, u32>,
}

impl AbsentTasks {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Number of tasks.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether a campaign has tasks.
    pub(super) fn has(&self, id: CampaignId) -> bool {
        self.tasks.contains_key(&id)
    }

    /// Whether a task can be decided from rows.
    pub(super) fn takes(&self, task: &WriterTask) -> bool {
        match task {
            WriterTask::Claim(..) | WriterTask::Command(..) => true,
            WriterTask::Claims(claims) => claims.len() <= CLAIMS_MAX,
            _ => false,
        }
    }

    /// Whether a campaign is reloaded for its tasks: many wait, or many grants were read for them.
    pub(super) fn is_busy(&self, id: CampaignId) -> bool {
        let read = self.read.get(&id).copied().unwrap_or(0);
        let waiting = self.tasks.get(&id).map_or(0, Vec::len);
        read >= READ_MAX || waiting >= WAITING_MAX
    }

    pub(super) fn push(&mut self, id: CampaignId, task: WriterTask) {
        let tasks = self.tasks.entry(id).or_default();
        if tasks.is_empty() {
            self.queue.push_back((id, Instant::now()));
        }
        tasks.push(task);
        self.len += 1;
    }

    /// Takes all tasks of a campaign.
    pub(super) fn take_all_of(&mut self, id: CampaignId) -> Vec<WriterTask> {
        let Some(taken) = self.tasks.remove(&id) else {
            return Vec::new();
        };
        self.len -= taken.len();
        self.queue.retain(|(queued, _)| *queued != id);
        taken
    }

    /// Takes tasks of the first campaign with up to `limit` requests, and at least one task. If some are left, the
    /// campaign waits after the other ones.
    fn take(&mut self, id: CampaignId, limit: usize) -> Vec<WriterTask> {
        let mut requests = 0;
        let fits = |task: &&WriterTask| {
            let is_first = requests == 0;
            requests += requests_of(task);
            is_first || requests <= limit
        };
        let tasks = self.tasks.get(&id).into_iter().flatten();
        let fitting = tasks.take_while(fits).count();
        let mut taken = self.take_all_of(id);
        for task in taken.split_off(fitting) {
            self.push(id, task);
        }
        taken
    }

    /// Takes the tasks of all campaigns.
    pub(super) fn take_all(&mut self) -> Vec<WriterTask> {
        self.queue.clear();
        self.len = 0;
        self.tasks.drain().flat_map(|(_, tasks)| tasks).collect()
    }

    fn first(&self) -> Option<(CampaignId, Instant)> {
        self.queue.front().copied()
    }

    /// Counts grants that were read for tasks of a campaign.
    fn count(&mut self, id: CampaignId, grants: usize) {
        if self.read.len() >= COUNTED_MAX && !self.read.contains_key(&id) {
            self.read.clear();
        }
        let read = self.read.entry(id).or_default();
        *read = read.saturating_add(u32::try_from(grants).unwrap_or(u32::MAX));
    }

    /// Counts as many grants as may be read until a campaign is reloaded.
    #[cfg(test)]
    pub(super) fn make_busy(&mut self, id: CampaignId) {
        self.count(id, READ_MAX as usize);
    }

    /// Makes the oldest task look as if it had waited for this long.
    #[cfg(test)]
    fn age_first(&mut self, waited: Duration) {
        self.queue.front_mut().unwrap().1 -= waited;
    }

    /// Starts the count of a campaign anew, because it is reloaded.
    pub(super) fn forget(&mut self, id: CampaignId) {
        self.read.remove(&id);
    }
}

/// Number of claims and commands of a task.
fn requests_of(task: &WriterTask) -> usize {
    match task {
        WriterTask::Claims(claims) => claims.len(),
        _ => 1,
    }
}

/// Decision about a task.
enum Decision {
    /// One outcome per claim.
    Claims(Vec<Result<Outcome, Refusal>>),
    Command(Result<Reply, Refusal>),
}

/// Tasks of one campaign that cannot be decided from rows.
struct Undecided {
    tasks: Vec<WriterTask>,
    /// Error of the file, if there is one.
    error: Option<DataFileError>,
}

/// Tasks of one campaign, and their decisions.
struct Decided {
    campaign: CampaignId,
    /// Number of grants that were read.
    grants: usize,
    ack: AckLevel,
    tasks: Vec<WriterTask>,
    decisions: Vec<Decision>,
}

impl Writer {
    /// Whether tasks about campaigns that are not in memory can be decided at once.
    pub(super) fn may_decide_absent(&self) -> bool {
        !self.absent.asked.is_empty() && self.backlog() == 0
    }

    /// Decides such tasks, if the log is settled. Reloads the campaigns of tasks that have waited for long.
    pub(super) fn decide_absent(&mut self) {
        if self.repair_at.is_some() || self.absent.asked.is_empty() {
            return;
        }
        self.settle_for_absent();
        let mut inbox = Vec::new();
        if self.repair_at.is_some() {
            return;
        }
        if self.may_decide_absent() {
            self.decide_from_rows(&mut inbox);
        } else {
            while let Some((id, since)) = self.absent.asked.first()
                && since.elapsed() >= SETTLEMENT_WAIT_MAX
            {
                let mut tasks = self.absent.asked.take_all_of(id);
                let is_here = self.shared.book.read().has(id);
                match is_here {
                    true => inbox.append(&mut tasks),
                    false => self.await_whole(id, tasks, &mut inbox),
                }
            }
        }
        self.put_back(inbox);
    }

    /// Settles a slice of the log if tasks have waited for some time. Under load, or with a slow disk, settlement rests
    /// for longer than tasks may wait.
    fn settle_for_absent(&mut self) {
        let first = self.absent.asked.first();
        let is_urgent = first.is_some_and(|(_, since)| since.elapsed() >= SETTLEMENT_URGENT_AFTER);
        if !is_urgent || self.backlog() == 0 || self.settle_again_at.is_some() {
            return;
        }
        match self.settle_slice() {
            Ok(()) => {}
            Err(error) if error.is_io() => self.stop(&error),
            Err(error) => self.settling_is_stuck(&error),
        }
    }

    fn decide_from_rows(&mut self, inbox: &mut Vec<WriterTask>) {
        let now = self.clock.now();
        self.notice_pause();
        if self.repair_at.is_some() {
            return;
        }
        debug_assert!(self.entries.is_empty(), "a batch leaves no entries");
        let (mut all, mut whole) = (Vec::<Decided>::new(), Vec::<(_, Vec<_>)>::new());
        let (mut requests, mut grants) = (0, 0);
        while requests < REQUESTS_MAX
            && grants < GRANTS_MAX
            && let Some((id, _)) = self.absent.asked.first()
            // Each campaign once: its rows do not have the entries of this transaction.
            && all.iter().all(|decided| decided.campaign != id)
            && whole.iter().all(|(whole, _)| *whole != id)
        {
            if self.shared.book.read().has(id) {
                inbox.append(&mut self.absent.asked.take_all_of(id));
                continue;
            }
            let tasks = self.absent.asked.take(id, REQUESTS_MAX - requests);
            requests += tasks.iter().map(requests_of).sum::<usize>();
            if self.absent.waiting.contains_key(&id) {
                whole.push((id, tasks));
                continue;
            }
            match self.decide_tasks(now, id, tasks) {
                Ok(decided) => {
                    grants += decided.grants;
                    all.push(decided);
                }
                // The reload reports rows that contradict each other.
                Err(Undecided { tasks, error: None }) => whole.push((id, tasks)),
                Err(Undecided {
                    tasks,
                    error: Some(error),
                }) => {
                    self.stop(&error);
                    inbox.extend(tasks_of(all).chain(tasks));
                    inbox.extend(whole.into_iter().flat_map(|(_, tasks)| tasks));
                    return;
                }
            }
        }
        match self.commit_absent() {
            Ok(true) => self.answer_absent(all),
            Ok(false) => whole.extend(all.into_iter().map(|it| (it.campaign, it.tasks))),
            Err(error) => {
                // A failed commit may still have been kept: only the file can tell, and a retry will.
                let uncertain = EngineError::uncertain(error.chain());
                self.stop(&error);
                for task in tasks_of(all) {
                    task.refuse(&uncertain);
                }
                inbox.extend(whole.into_iter().flat_map(|(_, tasks)| tasks));
                return;
            }
        }
        for (id, mut tasks) in whole {
            tasks.append(&mut self.absent.asked.take_all_of(id));
            self.await_whole(id, tasks, inbox);
        }
    }

    /// Decides tasks of one campaign, whose entries wait for the commit.
    fn decide_tasks(
        &mut self,
        now: Timestamp,
        campaign: CampaignId,
        tasks: Vec<WriterTask>,
    ) -> Result<Decided, Undecided> {
        let mut rows = DecisionRows::default();
        for task in &tasks {
            match task {
                WriterTask::Claim(claim, _) => rows.add_claim(claim),
                WriterTask::Claims(claims) => claims.iter().for_each(|(it, _)| rows.add_claim(it)),
                WriterTask::Command(command, _) => rows.add_command(command),
                _ => {}
            }
        }
        let excerpt = match rows.read(&self.conn, campaign, GRANTS_MAX) {
            Ok(Some(excerpt)) => excerpt,
            Ok(None) => return Err(Undecided { tasks, error: None }),
            Err(error) => {
                let error = Some(error).filter(DataFileError::is_io);
                return Err(Undecided { tasks, error });
            }
        };
        let (ack, grants) = (excerpt.ack(), excerpt.grant_count());
        let (shared, entries) = (Arc::clone(&self.shared), &mut self.entries);
        let decisions = shared.book.write().decide_absent(excerpt, |book| {
            let decided = tasks.iter().map(|task| decide(book, now, task, entries));
            decided.collect()
        });
        Ok(Decided {
            campaign,
            grants,
            ack,
            tasks,
            decisions,
        })
    }

    /// Answers tasks whose entries are in the ledger.
    fn answer_absent(&mut self, all: Vec<Decided>) {
        for decided in all {
            let (id, ack) = (decided.campaign, decided.ack);
            let read = decided.grants.max(decided.tasks.len());
            self.absent.asked.count(id, read);
            for (task, decision) in decided.tasks.into_iter().zip(decided.decisions) {
                match (task, decision) {
                    (WriterTask::Claim(_, answer), Decision::Claims(outcomes)) => {
                        self.answer_claims(ack, outcomes, [answer]);
                    }
                    (WriterTask::Claims(claims), Decision::Claims(outcomes)) => {
                        let answers = claims.into_iter().map(|(_, answer)| answer);
                        self.answer_claims(ack, outcomes, answers);
                    }
                    (WriterTask::Command(_, answer), Decision::Command(result)) => {
                        answer.send(result.map_err(EngineError::from));
                    }
                    // Other tasks are not taken.
                    (task, _) => task.refuse(&EngineError::unavailable("it was not decided")),
                }
            }
        }
    }

    fn answer_claims(
        &self,
        ack: AckLevel,
        outcomes: Vec<Result<Outcome, Refusal>>,
        answers: impl IntoIterator<Item = ReplySender<Claimed>>,
    ) {
        // Later claims of a list are answered like the first one that the phase refuses.
        let first_alike = outcomes.iter().position(is_refused_by_phase);
        let decided = first_alike.map_or(outcomes.len(), |place| place + 1);
        self.shared.gate_answers.decided(decided as u64);
        for (outcome, answer) in outcomes.into_iter().zip(answers) {
            answer.send(match outcome {
                Err(refusal) => Err(refusal.into()),
                Ok(outcome) if outcome.grant().is_none() => Ok(Claimed {
                    outcome,
                    ack: AckLevel::Fsync,
                }),
                Ok(outcome) if ack == AckLevel::Ledger => self.in_ledger(outcome),
                // The commit gives more than some campaigns ask for.
                Ok(outcome) => Ok(Claimed {
                    outcome,
                    ack: ack.max(AckLevel::Fsync),
                }),
            });
        }
    }
}

fn tasks_of(all: Vec<Decided>) -> impl Iterator<Item = WriterTask> {
    all.into_iter().flat_map(|decided| decided.tasks)
}

fn decide(
    book: &mut Book,
    now: Timestamp,
    task: &WriterTask,
    entries: &mut Vec<Entry>,
) -> Decision {
    match task {
        WriterTask::Claim(claim, _) => Decision::Claims(vec![book.claim(now, claim, entries)]),
        WriterTask::Claims(claims) => {
            let claims = claims.iter().map(|(claim, _)| claim);
            Decision::Claims(decide_in_order(book, now, claims, entries))
        }
        WriterTask::Command(command, _) => Decision::Command(book.apply(now, command, entries)),
        _ => Decision::Claims(Vec::new()),
    }
}

fn is_refused_by_phase(outcome: &Result<Outcome, Refusal>) -> bool {
    matches!(outcome, Ok(Outcome::Paused | Outcome::NotStarted { .. }))
}

/// Decides claims of one campaign in their order. If one is not granted because of the campaign's phase, no later one
/// is.
fn decide_in_order<'a>(
    book: &mut Book,
    now: Timestamp,
    claims: impl Iterator<Item = &'a Claim>,
    entries: &mut Vec<Entry>,
) -> Vec<Result<Outcome, Refusal>> {
    let mut closed = None;
    let mut decide = |claim| match closed {
        Some(outcome) => Ok(outcome),
        None => {
            let outcome = book.claim(now, claim, entries);
            closed = outcome.ok().filter(|_| is_refused_by_phase(&outcome));
            outcome
        }
    };
    claims.map(&mut decide).collect()
}

#[cfg(test)]
mod tests;
