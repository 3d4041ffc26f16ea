//! Queues of waiting rooms. A campaign's queue is in the campaign's partition, and each step is one script.
//!
//! Requests that arrive during a call form the next one. A queue only determines the order in which claims reach the
//! engine. So if a failover cuts off a queue, its last users lose their entries and receive that answer; no grant
//! depends on it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::EngineError,
    queue_entry::{QueueDecision, QueueEntry, QueueLimits, QueueStatus},
};
use redis::{Cmd, FromRedisValue};
use tokio::sync::oneshot;

use crate::{
    connection::{CallConnection, KeySpace, eval, eval_at_maxmemory, unavailable, unreadable},
    partitions::Partitions,
};

macro_rules! after_whole_line {
    ($file:literal) => {
        concat!(
            include_str!("lua/queue/whole_line.lua"),
            include_str!(concat!("lua/queue/", $file))
        )
    };
}

const ENTER: &str = after_whole_line!("enter.lua");
const LOOK: &str = after_whole_line!("get_status.lua");
pub(crate) const HEAD: &str = after_whole_line!("head.lua");
pub(crate) const RECORD: &str = after_whole_line!("record.lua");
pub(crate) const LINES: &str = include_str!("lua/queue/lines.lua");

/// Maximum users of one call.
const USERS_MAX: usize = 256;
/// Maximum users that wait for a call in one partition; more are refused as overload.
const QUEUED_MAX: usize = 16_384;

pub(crate) type Standings = Result<Option<QueueStatus>, EngineError>;

/// Request of a user to a queue.
pub(crate) enum QueueRequest {
    /// To enter, with the limits. The script assigns the number.
    Enter(Box<QueueEntry>, QueueLimits),
    /// To read the status.
    Look,
}

struct Visitor {
    campaign: CampaignId,
    user: UserId,
    wish: QueueRequest,
    since: Instant,
    answer: oneshot::Sender<Standings>,
}

/// Queues of one partition.
pub(crate) struct PartitionQueues {
    pub(crate) partition: PartitionId,
    /// Requests that wait for the next call.
    queued: Mutex<Vec<Visitor>>,
    connection: tokio::sync::Mutex<CallConnection>,
    rebuilt: Arc<AtomicU64>,
}

/// Queues of all partitions.
pub(crate) struct RedisQueues {
    partitions: Arc<Partitions>,
    lines: Vec<Arc<PartitionQueues>>,
    /// Calls of this process that found damaged keys of a queue.
    rebuilt: Arc<AtomicU64>,
}

impl RedisQueues {
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Self {
        let rebuilt = Arc::new(AtomicU64::new(0));
        let lines = |id| PartitionQueues {
            partition: id,
            queued: Mutex::default(),
            connection: tokio::sync::Mutex::new(partitions.connection(id, "waiting")),
            rebuilt: Arc::clone(&rebuilt),
        };
        let ids = partitions.list().iter().map(|partition| partition.id);
        Self {
            lines: ids.map(|id| Arc::new(lines(id))).collect(),
            partitions: Arc::clone(partitions),
            rebuilt,
        }
    }

    /// Calls of this process that found damaged keys of a queue.
    pub(crate) fn rebuilt(&self) -> u64 {
        self.rebuilt.load(Ordering::Relaxed)
    }

    pub(crate) fn for_campaign(&self, campaign: CampaignId) -> &Arc<PartitionQueues> {
        &self.lines[usize::from(self.partitions.home(campaign).0)]
    }

    pub(crate) fn keys(&self) -> &KeySpace {
        self.partitions.keys()
    }

    /// Sends a command about a queue on a connection that user requests do not wait for.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        self.partitions.query(partition, command).await
    }
}

/// Keys of a campaign's queue, and one per user.
pub(crate) fn keys_of<'a>(
    keys: &KeySpace,
    partition: PartitionId,
    campaign: CampaignId,
    users: impl IntoIterator<Item = &'a UserId>,
) -> Vec<String> {
    let of_campaign = |rest: &str| keys.for_campaign(partition, campaign, rest);
    let own = users
        .into_iter()
        .map(|user| of_campaign(&format!("place:{user}")));
    [of_campaign("line"), of_campaign("places")]
        .into_iter()
        .chain(own)
        .collect()
}

impl PartitionQueues {
    /// Logs and counts a call that found damaged keys of a queue, and has rebuilt the queue.
    pub(crate) fn note_rebuilt(&self, campaign: CampaignId) {
        self.rebuilt.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            partition = self.partition.0,
            %campaign,
            "keys of a queue in Redis were damaged; the queue is rebuilt, and users without an entry claim again"
        );
    }

    /// Adds a request to the next call.
    ///
    /// # Errors
    /// If too many requests wait.
    pub(crate) fn push(
        &self,
        (campaign, user): (CampaignId, &UserId),
        wish: QueueRequest,
    ) -> Result<oneshot::Receiver<Standings>, EngineError> {
        let (answer, answered) = oneshot::channel();
        let mut queued = self.queued.lock();
        if queued.len() >= QUEUED_MAX {
            return Err(EngineError::Overloaded);
        }
        queued.push(Visitor {
            campaign,
            user: user.clone(),
            wish,
            since: Instant::now(),
            answer,
        });
        Ok(answered)
    }

    /// Serves all waiting requests, `USERS_MAX` at a time and campaign by campaign.
    pub(crate) async fn serve(&self, partitions: &Partitions) {
        let mut connection = self.connection.lock().await;
        loop {
            let gathered: Vec<_> = {
                let mut queued = self.queued.lock();
                let count = queued.len().min(USERS_MAX);
                queued.drain(..count).collect()
            };
            if gathered.is_empty() {
                return;
            }
            let mut groups: BTreeMap<_, Vec<Visitor>> = BTreeMap::new();
            for visitor in gathered {
                let enters = matches!(visitor.wish, QueueRequest::Enter(..));
                let group = groups.entry((visitor.campaign, enters)).or_default();
                group.push(visitor);
            }
            for ((campaign, _), group) in groups {
                let group = in_time(group, partitions.options().claim_timeout);
                if group.is_empty() {
                    continue;
                }
                let standings = self.call(&mut connection, partitions, campaign, &group);
                let standings = standings.await;
                for (at, visitor) in group.into_iter().enumerate() {
                    let standing = match &standings {
                        Ok(all) => all.get(at).cloned().unwrap_or_else(|| Err(unreadable())),
                        Err(error) => Err(error.clone()),
                    };
                    // A disconnected user retries.
                    let _ = visitor.answer.send(standing);
                }
            }
        }
    }

    async fn call(
        &self,
        connection: &mut CallConnection,
        partitions: &Partitions,
        campaign: CampaignId,
        group: &[Visitor],
    ) -> Result<Vec<Standings>, EngineError> {
        let users = group.iter().map(|visitor| &visitor.user);
        let mut keys = keys_of(partitions.keys(), self.partition, campaign, users);
        let enters = matches!(group[0].wish, QueueRequest::Enter(..));
        let mut command = if enters {
            let (all, partition) = (partitions.keys(), self.partition);
            let entered = all.for_campaign(partition, campaign, "entered");
            let lines = [all.waiting(partition), entered, all.waiting_all(partition)];
            keys.splice(0..0, lines);
            eval(ENTER, &keys)
        } else {
            keys.insert(0, partitions.keys().waiting(self.partition));
            eval_at_maxmemory(LOOK, &keys)
        };
        command.arg(campaign.to_string());
        if let QueueRequest::Enter(_, limits) = &group[0].wish {
            command
                .arg(limits.entries_max)
                .arg(limits.partition_entries_max);
        }
        for visitor in group {
            command.arg(visitor.user.as_str());
            if let QueueRequest::Enter(place, _) = &visitor.wish {
                let text = place.to_text();
                command.arg(text.split_once(' ').map_or("", |(_, rest)| rest));
            }
        }
        let asked = asked_level(partitions, campaign).await?;
        let waits = asked.is_some_and(|asked| partitions.options().waits(asked));
        if enters
            && asked == Some(AckLevel::Replica)
            && let Some(reason) = partitions.lacks_replicas(self.partition).await
        {
            return Err(unavailable(reason));
        }
        let (mut replies, mut confirmed): (Vec<String>, bool) = match enters && waits {
            true => connection.query_replicated(&command).await?,
            false => (connection.query(&command).await?, true),
        };
        if replies.len() > group.len() {
            self.note_rebuilt(campaign);
        }
        // If a failover loses a grant among the queue's results, the claim is decided again as the same grant. A
        // refusal might become a grant, so it is answered only after replicas have it.
        let refused = read_all(group, &replies).any(|standing| is_refusal(&standing));
        if waits && refused {
            (replies, confirmed) = connection.query_replicated(&command).await?;
        }
        let enough = confirmed || asked != Some(AckLevel::Replica);
        let standings = read_all(group, &replies).map(|standing| {
            if enough || !(enters || is_refusal(&standing)) {
                return standing;
            }
            let reason = "the replicas did not confirm the queue entry or its result in time";
            Err(EngineError::uncertain(reason))
        });
        Ok(standings.collect())
    }
}

/// Requests that have waited no longer than a claim may; the others are refused.
fn in_time(mut group: Vec<Visitor>, patience: Duration) -> Vec<Visitor> {
    let is_late = |visitor: &mut Visitor| visitor.since.elapsed() > patience;
    for visitor in group.extract_if(.., is_late) {
        // A disconnected user retries.
        let _ = visitor.answer.send(Err(EngineError::Overloaded));
    }
    group
}

/// Ack level of a campaign's grants, if there are replicas that they may wait for.
async fn asked_level(
    partitions: &Partitions,
    campaign: CampaignId,
) -> Result<Option<AckLevel>, EngineError> {
    if partitions.options().replicas == 0 {
        return Ok(None);
    }
    let meta = partitions.meta(campaign).await?;
    Ok(meta.map(|meta| match meta.ack {
        // The ledger has no queues, so replicas are the highest level of an entry.
        AckLevel::Ledger => AckLevel::Replica,
        ack => ack,
    }))
}

fn is_refusal(standing: &Standings) -> bool {
    match standing {
        Ok(Some(QueueStatus::Decided { decision, .. })) => match decision {
            QueueDecision::Claimed(outcome, _) => outcome.grant().is_none(),
            QueueDecision::KeyReused => true,
        },
        Ok(Some(QueueStatus::Waiting { .. }) | None) | Err(_) => false,
    }
}

fn read_all(group: &[Visitor], replies: &[String]) -> impl Iterator<Item = Standings> {
    let all = group.iter().zip(replies);
    all.map(|(visitor, reply)| read(visitor, reply))
}

fn read(visitor: &Visitor, reply: &str) -> Standings {
    let standing = match reply.split_once(' ') {
        None => return Ok(None),
        Some(("w", rest)) => {
            let (first, place) = rest.split_once(' ').ok_or_else(unreadable)?;
            let place = QueueEntry::parse(visitor.campaign, visitor.user.clone(), place);
            let place = place.ok_or_else(unreadable)?;
            // A new entry always has the same claim.
            if let QueueRequest::Enter(wanted, _) = &visitor.wish {
                place.check_repeated(&wanted.claim)?;
            }
            let number = place.number;
            let first: u64 = first.parse().map_err(|_| unreadable())?;
            let ahead = number.saturating_sub(first);
            QueueStatus::Waiting { number, ahead }
        }
        Some((_, rest)) => {
            let (number, decision) = rest.split_once(' ').ok_or_else(unreadable)?;
            let decision = QueueDecision::parse(visitor.campaign, decision);
            QueueStatus::Decided {
                number: number.parse().map_err(|_| unreadable())?,
                decision: decision.ok_or_else(unreadable)?,
            }
        }
    };
    Ok(Some(standing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_those_who_waited_too_long_are_turned_away() {
        let patience = Duration::from_secs(10);
        let visitor = |name: &str, waited: Duration| {
            let (answer, answered) = oneshot::channel();
            let visitor = Visitor {
                campaign: crate::partitions::nobody(),
                user: UserId::new(name).expect("a user"),
                wish: QueueRequest::Look,
                since: Instant::now().checked_sub(waited).expect("a time"),
                answer,
            };
            (visitor, answered)
        };
        let (early, mut of_early) = visitor("early", 2 * patience);
        let (late, mut of_late) = visitor("late", Duration::ZERO);
        let left = in_time(vec![early, late], patience);
        let users: Vec<&str> = left.iter().map(|visitor| visitor.user.as_str()).collect();
        assert_eq!(users, ["late"]);
        assert_eq!(of_early.try_recv(), Ok(Err(EngineError::Overloaded)));
        assert!(of_late.try_recv().is_err(), "not answered yet");
    }
}
