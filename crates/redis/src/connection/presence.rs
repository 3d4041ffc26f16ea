//! Presence calls: each node regularly reports to each partition that it is alive and what it has observed. The answer
//! tells the partition's term and whether calls are carried out. Decision 0008 has the reasons.

use std::time::Duration;

use qiang_core::{
    event::{PartitionId, Seq},
    ports::EngineError,
};
use redis::{Cmd, ErrorKind, RedisError};

use crate::connection::{
    call_connection::CallConnection,
    connections::RedisConnections,
    error::{ConnectError, no_answer, unavailable},
    identity::{IdentityClaim, Mark},
    memory::MemoryUse,
    partition::{PartitionHealth, PresenceReply, PresenceReport, Term, TermCheck},
    script::eval_at_maxmemory,
};

const PRESENCE: &str = include_str!("lua/presence.lua");
/// Script that ends the halt of a repaired partition.
pub(crate) const RESUME: &str = include_str!("lua/resume.lua");

/// Maximum number of calls in one exchange: the first may learn a new term, the next one reports in it.
const CALLS_MAX: usize = 4;
/// Time limit for telling a partition that this node leaves.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// Result of a presence call.
enum PresenceResult {
    Answer(PresenceReply),
    /// Redis was set up with this number of partitions.
    Count(u16),
    /// The partition does not belong to this node's engine, for this reason.
    Mark(String),
}

impl RedisConnections {
    /// Reports this node to a partition, and learns the partition's state.
    ///
    /// # Errors
    /// If Redis was set up with another number of partitions. Any other error becomes the partition's state.
    pub(crate) async fn present(&self, id: PartitionId) -> Result<(), ConnectError> {
        let partition = self.get(id);
        let mut connection = self.presence_connections[usize::from(id.0)].lock().await;
        if partition.take_suspicion() {
            connection.disconnect();
        }
        for _ in 0..CALLS_MAX {
            let report = partition.report();
            let answer = match self.ask(&mut connection, id, &report).await {
                Ok(PresenceResult::Answer(answer)) => answer,
                Ok(PresenceResult::Count(found)) => {
                    return Err(ConnectError::Partitions {
                        found,
                        configured: self.options().partitions,
                    });
                }
                Ok(PresenceResult::Mark(reason)) => {
                    partition.refuse(reason);
                    return Ok(());
                }
                Err(error) => {
                    connection.disconnect();
                    partition.note_failure(no_answer(&error));
                    return Ok(());
                }
            };
            match partition.learn(&report, answer) {
                TermCheck::Known => return Ok(()),
                TermCheck::NewTerm => {}
                TermCheck::Stale => {
                    self.context.directory.suspect();
                    connection.disconnect();
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Tells a partition that this node leaves, so that new terms do not wait for it. If that fails, they wait for the
    /// grace.
    pub(crate) async fn leave(&self, id: PartitionId) {
        let mut connection = self.presence_connections[usize::from(id.0)].lock().await;
        let mut command = redis::cmd("HDEL");
        command.arg(self.keys().nodes(id)).arg(&self.context.node);
        let left = connection.once::<i64>(&command);
        let _ = tokio::time::timeout(LEAVE_MAX, left).await;
    }

    /// Resumes a repaired partition under a new epoch, after the entry `base` and all lost entries. `epoch` is the
    /// current one, `None` if the state is lost. Returns false if another process resumed it first.
    ///
    /// # Errors
    /// If Redis does not answer. The partition may still have resumed.
    pub(crate) async fn resume(
        &self,
        id: PartitionId,
        epoch: Option<&str>,
        base: Seq,
    ) -> Result<bool, EngineError> {
        let keys = self.keys();
        let keys = [keys.partition(id), keys.answers(id)];
        let mut command = eval_at_maxmemory(RESUME, &keys);
        command
            .arg(epoch.unwrap_or_default())
            .arg(new_epoch())
            .arg(base)
            .arg(self.options().partitions);
        let mut connection = self.presence_connections[usize::from(id.0)].lock().await;
        let resumed = connection.once::<(String, String)>(&command).await;
        let (status, _) = resumed.map_err(|error| {
            connection.disconnect();
            unavailable(no_answer(&error))
        })?;
        drop(connection);
        self.get(id).suspect();
        Ok(status == "ok")
    }

    async fn ask(
        &self,
        connection: &mut CallConnection,
        id: PartitionId,
        report: &PresenceReport,
    ) -> Result<PresenceResult, RedisError> {
        let identity = self.options().identity.as_deref();
        let claim = identity.map(|identity| identity.claim(id));
        let command = self.presence(id, report, claim.as_ref());
        let reply: Vec<String> = connection.once(&command).await?;
        let text = || reply.get(1).cloned().unwrap_or_default();
        let note = |mark: Mark| match (identity, claim) {
            (Some(identity), Some(claim)) => {
                let primary = reply.last().map_or("", String::as_str);
                identity.note(id, &claim, mark, primary)
            }
            _ => String::new(),
        };
        match reply.first().map(String::as_str) {
            Some("ok") => {
                note(Mark::Own);
                let answer = read(&reply).map(|(answer, replicas, memory)| {
                    self.note_replicas(id, replicas);
                    self.note_memory(id, memory);
                    PresenceResult::Answer(answer)
                });
                answer.ok_or_else(|| failure("cannot read a reply to a presence call"))
            }
            Some("count") => Ok(PresenceResult::Count(text().parse().unwrap_or(0))),
            Some("foreign") => Ok(PresenceResult::Mark(note(Mark::Foreign(text())))),
            Some("mark") => Ok(PresenceResult::Mark(note(Mark::Other(text())))),
            Some("evicts") => Err(evicts(&text())),
            _ => Err(failure("the server is not a primary")),
        }
    }

    fn presence(
        &self,
        id: PartitionId,
        report: &PresenceReport,
        claim: Option<&IdentityClaim>,
    ) -> Cmd {
        let (keys, options) = (self.keys(), self.options());
        let mut command = eval_at_maxmemory(PRESENCE, &[keys.partition(id), keys.nodes(id)]);
        command.arg(&self.context.node);
        for term in [&report.term, &report.before] {
            let term = term.as_ref();
            command
                .arg(term.map_or("", |term| &term.epoch))
                .arg(term.map_or(0, |term| term.number))
                .arg(term.map_or("", |term| &term.server));
        }
        command.arg(report.before.as_ref().map_or(0, |term| term.began));
        // A minority of Sentinels may name a primary that was cut off together with them.
        let stale_for = match self.context.directory.is_sure(options.term_grace) {
            true => report.stale_for,
            false => Duration::ZERO,
        };
        command
            .arg(report.observed)
            .arg(report.settled)
            .arg(options.term_grace.as_millis() as u64)
            .arg(options.partitions)
            .arg(
                if report.fresh && claim.is_none_or(|claim| claim.may_create) {
                    new_epoch()
                } else {
                    String::new()
                },
            )
            .arg(stale_for.as_millis() as u64)
            .arg(claim.map_or("", |claim| &claim.installation))
            .arg(claim.map_or("", |claim| &claim.engine))
            .arg(claim.map_or("", |claim| &claim.marks_on));
        command
    }
}

/// Name of a new epoch: 16 random hexadecimal digits.
#[must_use]
pub fn new_epoch() -> String {
    format!("{:016x}", rand::random::<u64>())
}

/// Parses a script's reply: the answer, the number of the server's online replicas, and its memory.
fn read(reply: &[String]) -> Option<(PresenceReply, u32, MemoryUse)> {
    let [
        _,
        epoch,
        number,
        server,
        began,
        state,
        _head,
        reason,
        from,
        to,
        replicas,
        used,
        max,
        _primary,
    ] = reply
    else {
        return None;
    };
    let lost = || Some(from.parse().ok()?..=to.parse().ok()?);
    let state = match state.as_str() {
        "open" => PartitionHealth::Open,
        "gathering" => PartitionHealth::Gathering,
        "halted" => PartitionHealth::Halted {
            reason: reason.clone(),
            lost: lost(),
        },
        _ => return None,
    };
    let term = Term {
        epoch: epoch.clone(),
        number: number.parse().ok()?,
        server: server.clone(),
        began: began.parse().ok()?,
    };
    let term = (!epoch.is_empty()).then_some(term);
    let memory = MemoryUse {
        used: used.parse().ok()?,
        max: max.parse().ok()?,
    };
    let answer = PresenceReply { term, state };
    Some((answer, replicas.parse().ok()?, memory))
}

fn evicts(policy: &str) -> RedisError {
    RedisError::from((
        ErrorKind::ClusterConnectionNotFound,
        "the primary may evict grants",
        format!("set `maxmemory-policy noeviction` there, not `{policy}`"),
    ))
}

fn failure(reason: &'static str) -> RedisError {
    RedisError::from((ErrorKind::ClusterConnectionNotFound, reason))
}
