//! One batch: decided in the book, committed in one transaction, then answered.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use qiang_core::{
    book::{Book, Command, Refusal, Reply},
    campaign::AckLevel,
    event::Entry,
    id::CampaignId,
    ports::{Claimed, EngineError, ProbeResult},
    time::Timestamp,
};

use super::{
    PARTITION, Writer,
    admission::BatchAdmission,
    claims::{ClaimDecider, UndecidedClaims},
    decided_task::DecidedTask,
    ledger_ack_queue::ack_of,
};
use crate::{
    error::DataFileError,
    file,
    grant_positions::AckAndOwner,
    job::{JobResult, LedgerJob, run_again, run_jobs},
    ledger::{campaigns, settle, webhooks},
    log,
    task::WriterTask,
    transaction::{ChangeIsolation, TransactionContext},
};

/// Events that one tick may make before claims get their turn again.
const TICK_EVENTS_MAX: usize = 1_024;

/// Prerequisite that a command lacks.
enum Prerequisite {
    Nothing,
    /// The campaign must be read first.
    Campaign(CampaignId),
    /// The command is answered without the campaign.
    Unopened(Result<Reply, Refusal>),
    /// The file could not be read.
    Unknown(EngineError),
}

impl Writer {
    /// Decides everything in `inbox`, commits its results, and answers. Both buffers are empty afterwards and are
    /// reused: a batch of a peak is so large that the allocator would get fresh pages for each.
    ///
    /// Before the commit, at most as many claims of a sale are decided as it admits. The gate answers the others after
    /// the commit, most of them with sold out; claims that it cannot answer are decided next.
    pub(super) fn batch(&mut self, inbox: &mut Vec<WriterTask>, decided: &mut Vec<DecidedTask>) {
        self.receive_recalled(inbox);
        while !inbox.is_empty() || self.left_over.fits() {
            self.decide_and_answer(inbox, decided);
            std::mem::swap(inbox, &mut self.held_back);
            if self.repair_at.is_some() {
                self.refuse_all(inbox);
            } else {
                self.answer_from_gate(inbox);
                self.send_for_absent(inbox);
            }
        }
    }

    /// Answers reads: earlier decisions are committed, and no new ones are made yet.
    pub(super) fn answer_reads(&self, inbox: &mut Vec<WriterTask>) {
        let is_read = |task: &mut WriterTask| matches!(task, WriterTask::Read(_));
        let reads = inbox.extract_if(.., is_read);
        let (now, book) = (self.clock.now(), self.shared.book.read());
        debug_assert!(book.head() <= self.shared.committed.load(Ordering::Acquire));
        for read in reads {
            match read {
                WriterTask::Read(errand) if book.has(errand.campaign()) => {
                    errand.answer(&book, now)
                }
                // The campaign has been evicted since.
                WriterTask::Read(errand) => self.shared.send_for(errand),
                _ => unreachable!("only reads are extracted"),
            }
        }
    }

    fn decide_and_answer(&mut self, inbox: &mut Vec<WriterTask>, decided: &mut Vec<DecidedTask>) {
        let now = self.clock.now();
        self.notice_pause();
        if self.repair_at.is_some() {
            self.refuse_all(inbox);
            return;
        }
        let ticks =
            |task: &WriterTask| matches!(task, WriterTask::Command(Command::Tick { .. }, _));
        let is_due = self.may_tick() && self.is_due(now);
        if (is_due || inbox.iter().any(ticks))
            && let Err(error) = self.recall_due(now, inbox)
        {
            self.stop(&error);
            self.refuse_all(inbox);
            return;
        }
        self.decide((now, is_due), inbox, decided);
        let writes =
            |task: &DecidedTask| matches!(task, DecidedTask::Ledger(_) | DecidedTask::Probe(_));
        let needs_commit = !self.entries.is_empty() || decided.iter().any(writes);
        if needs_commit {
            self.commit_and_answer(now, decided);
        } else {
            self.answer(decided);
        }
    }

    /// Commits what was decided, and answers.
    pub(super) fn commit_and_answer(&mut self, now: Timestamp, decided: &mut Vec<DecidedTask>) {
        match self.commit(now, decided) {
            Ok(()) => self.answer(decided),
            Err(error) => {
                // A failed commit may still have been kept: only the file can tell, and a retry will.
                let uncertain = EngineError::uncertain(error.chain());
                self.stop(&error);
                for task in decided.drain(..) {
                    task.refuse(&uncertain);
                }
            }
        }
    }

    /// Decides what the time has made due, if something is, and then the tasks.
    fn decide(
        &mut self,
        (now, is_due): (Timestamp, bool),
        inbox: &mut Vec<WriterTask>,
        decided: &mut Vec<DecidedTask>,
    ) {
        let mut book = self.shared.book.write();
        if is_due {
            tick_in(&mut book, now, &mut self.entries);
        }
        let mut admission = BatchAdmission::default();
        let mut claims = 0;
        let committed = self.shared.committed.load(Ordering::Acquire);
        self.parked.begin();
        while let Some(campaigns) = self.left_over.next() {
            decided.push(DecidedTask::Ledger(campaigns));
        }
        for task in inbox.drain(..) {
            if admission.holds_back(&book, &task) {
                self.held_back.push(task);
                continue;
            }
            decided.push(match task {
                WriterTask::Claim(..) | WriterTask::Claims(_) => {
                    let mut decider = ClaimDecider {
                        book: &mut book,
                        now,
                        committed,
                        last_ack: &mut self.last_ack,
                        parked: &mut self.parked,
                        entries: &mut self.entries,
                        admission: &mut admission,
                        decided,
                        claims: &mut claims,
                    };
                    match decider.run(task) {
                        None => {}
                        Some(UndecidedClaims::Absent(id, task)) => {
                            self.absent.found.push((id, task));
                        }
                        Some(UndecidedClaims::HeldBack(task)) => {
                            admission.holds_back = true;
                            self.held_back.push(task);
                        }
                    }
                    continue;
                }
                WriterTask::Command(Command::Tick { .. }, _) if self.absent.awaits_due() => {
                    self.absent.hold_tick(task);
                    continue;
                }
                WriterTask::Command(command, answer) => match self.missing(&book, &command) {
                    Prerequisite::Nothing => {
                        DecidedTask::Command(book.apply(now, &command, &mut self.entries), answer)
                    }
                    Prerequisite::Campaign(id) => {
                        self.absent
                            .found
                            .push((id, WriterTask::Command(command, answer)));
                        continue;
                    }
                    Prerequisite::Unopened(result) => DecidedTask::Command(result, answer),
                    Prerequisite::Unknown(error) => {
                        answer.send(Err(error));
                        continue;
                    }
                },
                WriterTask::Probe(answer) => DecidedTask::Probe(answer),
                WriterTask::Ledger(job) => DecidedTask::Ledger(job),
                WriterTask::Enter(campaigns) if campaigns.has_many_shares() => {
                    self.preparing.add(campaigns);
                    continue;
                }
                WriterTask::Enter(campaigns) => match self.left_over.admit(campaigns) {
                    Some(campaigns) => DecidedTask::Ledger(campaigns),
                    None => continue,
                },
                WriterTask::Recalled(..) | WriterTask::Read(_) => continue, // taken out before
            });
        }
        self.shared.gate_answers.decided(claims);
    }

    /// The prerequisite that a command lacks in the book.
    fn missing(&self, book: &Book, command: &Command) -> Prerequisite {
        let Some(id) = command.campaign() else {
            return Prerequisite::Nothing;
        };
        if book.has(id) {
            return Prerequisite::Nothing;
        }
        if !matches!(command, Command::Open(_)) {
            return Prerequisite::Campaign(id);
        }
        match campaigns::may_open(&self.conn, id) {
            Ok(Some(true)) => Prerequisite::Nothing,
            Ok(Some(false)) => Prerequisite::Unopened(Ok(Reply::Opened)), // it opened before, and is not here
            // Its entries would belong to no campaign of the ledger.
            Ok(None) => Prerequisite::Unopened(Err(Refusal::UnknownCampaign)),
            Err(error) => Prerequisite::Unknown(EngineError::unavailable(error.chain())),
        }
    }

    /// Answers claims that were held back and that the gate can answer, up to the first command, which keeps its turn.
    /// Other tasks stay in order.
    fn answer_from_gate(&self, held_back: &mut Vec<WriterTask>) {
        if held_back.is_empty() {
            return;
        }
        let (now, committed) = (
            self.clock.now(),
            self.shared.committed.load(Ordering::Acquire),
        );
        let book = self.shared.book.read();
        let outcome_of = |task: &WriterTask| match task {
            // A replayed grant has a level, which the writer knows.
            WriterTask::Claim(claim, _) => Some(
                book.try_gate_outcome(now, claim, committed)
                    .filter(|outcome| outcome.grant().is_none()),
            ),
            _ => None,
        };
        let outcomes: Vec<_> = held_back.iter().map_while(outcome_of).collect();
        drop(book);
        let mut is_answered = outcomes.iter().map(Option::is_some);
        let answered = held_back.extract_if(..outcomes.len(), |_| is_answered.next() == Some(true));
        for (task, outcome) in answered.zip(outcomes.iter().flatten()) {
            if let WriterTask::Claim(_, answer) = task {
                self.shared.gate_answers.answered(outcome);
                let (outcome, ack) = (*outcome, AckLevel::Fsync);
                answer.send(Ok(Claimed { outcome, ack }));
            }
        }
    }

    fn commit(&mut self, now: Timestamp, decided: &mut [DecidedTask]) -> Result<(), DataFileError> {
        let shared = Arc::clone(&self.shared);
        let commit = shared.under_way.begin();
        let settles_openings = self.settles_openings();
        let Self {
            conn,
            refs,
            entries,
            known,
            unlisted,
            watch,
            ..
        } = self;
        let probe = decided.iter().any(|it| matches!(it, DecidedTask::Probe(_)));
        let mut tx = conn.begin()?;
        let (mut apart, mut done) = (ChangeIsolation::default(), JobResult::default());
        let basis = TransactionContext {
            conn: &tx,
            now,
            settles_openings,
        };
        let all = jobs(decided).inspect(|_| commit.gets_on());
        run_jobs(basis, all, &mut apart, &mut done)?;
        if apart.is_mixed() {
            let all = jobs(decided).inspect(|_| commit.gets_on());
            (tx, _, done) = run_again((&*conn, now), settles_openings, tx, all)?;
        }
        commit.gets_on();
        let (mut moved, mut opens) = (done.moved, done.opens);
        let has_moved = !moved.is_empty();
        if done.forgets {
            known.clear();
        }
        if probe {
            file::probe(&tx, now)?;
        }
        if !opens.is_empty() {
            let mut book = shared.book.write();
            for setup in opens.drain(..) {
                let opened = book.apply(now, &Command::Open(Box::new(setup)), entries);
                debug_assert!(opened.is_ok(), "an opening is never refused");
            }
        }
        log::append(&tx, refs, entries)?;
        if let Some(last) = entries.last().filter(|_| settles_openings) {
            settle::move_position(&tx, PARTITION, last.seq)?;
            webhooks::insert_openings(&tx, PARTITION, entries)?;
            moved.push((PARTITION, last.seq));
        }
        if jobs(decided).next().is_some() {
            unlisted.has_changed();
        }
        if unlisted.is_due(&tx, false) {
            commit.gets_on();
            unlisted.write(&tx)?;
        }
        commit.gets_on();
        watch.commit(conn, tx)?;
        drop(commit);
        if let Some(last) = entries.last() {
            shared.committed.store(last.seq, Ordering::Release);
        }
        self.note_places();
        self.entries.clear();
        if let Some((_, settled)) = moved.last() {
            self.settled = *settled;
            self.shared.positions.advance(PARTITION, *settled);
            if has_moved {
                self.count_quarantine_at = Some(Instant::now());
            }
            self.answer_settled();
        }
        Ok(())
    }

    /// Whether campaigns that the next transaction enters and opens are settled with it: everything before them is,
    /// and no entry waits for another one.
    fn settles_openings(&self) -> bool {
        self.entries.is_empty() && self.backlog() == 0 && self.nothing_is_quarantined()
    }

    fn answer(&mut self, decided: &mut Vec<DecidedTask>) {
        for task in decided.drain(..) {
            match task {
                DecidedTask::Claim(Err(refusal), answer) => answer.send(Err(refusal.into())),
                DecidedTask::Claim(Ok(outcome), answer) => {
                    let grant = outcome.grant();
                    match grant.and_then(|grant| self.ack_of(grant.campaign)) {
                        Some((AckLevel::Ledger, owner)) => {
                            if let Some(answer) = self.parked.park(answer, outcome, owner) {
                                answer.send(self.in_ledger(outcome));
                            }
                        }
                        known => {
                            // The commit gives more than some campaigns ask for.
                            let ack = known.map_or(AckLevel::Fsync, |(ack, _)| ack);
                            let ack = ack.max(AckLevel::Fsync);
                            answer.send(Ok(Claimed { outcome, ack }));
                        }
                    }
                }
                DecidedTask::Command(result, answer) => {
                    answer.send(result.map_err(EngineError::from))
                }
                DecidedTask::Probe(answer) => answer.send(Ok(ProbeResult::Ready)),
                DecidedTask::Ledger(job) => job.answer(Ok(())),
            }
        }
    }

    fn ack_of(&mut self, id: CampaignId) -> AckAndOwner {
        ack_of(&self.shared.book.read(), id, &mut self.last_ack)
    }

    fn is_due(&self, now: Timestamp) -> bool {
        let due = self.shared.book.read().next_due();
        due.is_some_and(|due| due <= now)
    }

    /// Does what the time has made due while no batch did: ends of windows, expired holds.
    pub(super) fn tick(&mut self) {
        let now = self.clock.now();
        self.notice_pause();
        if self.repair_at.is_some() || !self.is_due(now) {
            return;
        }
        let mut inbox = Vec::new();
        if let Err(error) = self.recall_due(now, &mut inbox) {
            self.stop(&error);
            self.refuse_all(&mut inbox);
            return;
        }
        tick_in(&mut self.shared.book.write(), now, &mut self.entries);
        if !self.entries.is_empty()
            && let Err(error) = self.commit(now, &mut [])
        {
            self.stop(&error);
        }
        self.put_back(inbox); // ticks that wait no longer
    }
}

fn tick_in(book: &mut Book, now: Timestamp, entries: &mut Vec<Entry>) {
    let events_max = TICK_EVENTS_MAX;
    let ticked = book.apply(now, &Command::Tick { events_max }, entries);
    debug_assert!(ticked.is_ok(), "a tick is never refused");
}

fn jobs(decided: &mut [DecidedTask]) -> impl Iterator<Item = &mut dyn LedgerJob> {
    decided.iter_mut().filter_map(|task| match task {
        DecidedTask::Ledger(job) => Some(job.as_mut() as &mut dyn LedgerJob),
        _ => None,
    })
}

#[cfg(test)]
mod tests;
