//! The lines of waiting rooms: a campaign's is in the campaign's partition, and each step is one script.
//!
//! Those who come or look while a call is under way are put together into the next one. Nothing follows from a line but
//! the order in which claims are put to the engine. So a line that a failover has cut off costs its last users their
//! places, and they are told so; it grants nobody anything.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::connection::{
    CallConnection, KeySpace, eval, eval_at_maxmemory, unavailable, unreadable,
};
use parking_lot::Mutex;
use qiang_core::{
    campaign::AckLevel,
    event::PartitionId,
    id::{CampaignId, UserId},
    ports::EngineError,
    waiting::{Decision, Place, Standing, WaitingLimits},
};
use redis::{Cmd, FromRedisValue};
use tokio::sync::oneshot;

use crate::partitions::Partitions;

const ENTER: &str = include_str!("lua/queue/enter.lua");
const LOOK: &str = include_str!("lua/queue/get_status.lua");
pub(crate) const HEAD: &str = include_str!("lua/queue/head.lua");
pub(crate) const RECORD: &str = include_str!("lua/queue/record.lua");
pub(crate) const LINES: &str = include_str!("lua/queue/lines.lua");

/// Users of one call.
const USERS_MAX: usize = 256;
/// Users who wait for a call in one partition; more are turned away as overload.
const QUEUED_MAX: usize = 16_384;

pub(crate) type Standings = Result<Option<Standing>, EngineError>;

/// What a user wants of a line.
pub(crate) enum Wish {
    /// A place, whose number the script gives, and how many there may be.
    Enter(Box<Place>, WaitingLimits),
    /// To know.
    Look,
}

struct Visitor {
    campaign: CampaignId,
    user: UserId,
    wish: Wish,
    since: Instant,
    answer: oneshot::Sender<Standings>,
}

/// The lines of one partition.
pub(crate) struct Lines {
    pub(crate) partition: PartitionId,
    /// Those who wait for the next call.
    queued: Mutex<Vec<Visitor>>,
    connection: tokio::sync::Mutex<CallConnection>,
}

/// The lines of all partitions.
pub(crate) struct WaitingLines {
    partitions: Arc<Partitions>,
    lines: Vec<Arc<Lines>>,
}

impl WaitingLines {
    pub(crate) fn new(partitions: &Arc<Partitions>) -> Self {
        let lines = |id| Lines {
            partition: id,
            queued: Mutex::default(),
            connection: tokio::sync::Mutex::new(partitions.connection(id, "waiting")),
        };
        let ids = partitions.list().iter().map(|partition| partition.id);
        Self {
            lines: ids.map(|id| Arc::new(lines(id))).collect(),
            partitions: Arc::clone(partitions),
        }
    }

    pub(crate) fn of(&self, campaign: CampaignId) -> &Arc<Lines> {
        &self.lines[usize::from(self.partitions.home(campaign).0)]
    }

    pub(crate) fn keys(&self) -> &KeySpace {
        self.partitions.keys()
    }

    /// A command about a line by a connection that nobody who comes waits for.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        self.partitions.query(partition, command).await
    }
}

/// The keys of a campaign's line, and one for each of these users.
pub(crate) fn keys_of<'a>(
    keys: &KeySpace,
    partition: PartitionId,
    campaign: CampaignId,
    users: impl IntoIterator<Item = &'a UserId>,
) -> Vec<String> {
    let of_campaign = |rest: &str| keys.of_campaign(partition, campaign, rest);
    let own = users
        .into_iter()
        .map(|user| of_campaign(&format!("place:{user}")));
    [of_campaign("line"), of_campaign("places")]
        .into_iter()
        .chain(own)
        .collect()
}

impl Lines {
    /// Puts a visitor into the next call.
    ///
    /// # Errors
    /// Where too many wait for it.
    pub(crate) fn push(
        &self,
        (campaign, user): (CampaignId, &UserId),
        wish: Wish,
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

    /// Serves everybody who has gathered, `USERS_MAX` at a time and campaign by campaign.
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
                let enters = matches!(visitor.wish, Wish::Enter(..));
                let group = groups.entry((visitor.campaign, enters)).or_default();
                group.push(visitor);
            }
            for ((campaign, _), group) in groups {
                let group = in_time(group, partitions.options().try_for);
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
                    // Who has gone asks again.
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
        let enters = matches!(group[0].wish, Wish::Enter(..));
        let mut command = if enters {
            let (all, partition) = (partitions.keys(), self.partition);
            let entered = all.of_campaign(partition, campaign, "entered");
            let lines = [all.waiting(partition), entered, all.waiting_all(partition)];
            keys.splice(0..0, lines);
            eval(ENTER, &keys)
        } else {
            eval_at_maxmemory(LOOK, &keys)
        };
        if let Wish::Enter(_, limits) = &group[0].wish {
            command.arg(campaign.to_string());
            command.arg(limits.places_max).arg(limits.partition_max);
        }
        for visitor in group {
            command.arg(visitor.user.as_str());
            if let Wish::Enter(place, _) = &visitor.wish {
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
        // A grant that a failover takes out of the line's results is decided again as the same grant. A refusal might
        // become a grant, so it is not told before replicas have it.
        let refused = read_all(group, &replies).any(|standing| is_refusal(&standing));
        if waits && refused {
            (replies, confirmed) = connection.query_replicated(&command).await?;
        }
        let enough = confirmed || asked != Some(AckLevel::Replica);
        let standings = read_all(group, &replies).map(|standing| {
            if enough || !(enters || is_refusal(&standing)) {
                return standing;
            }
            let reason = "the replicas did not confirm the place, or what became of it, in time";
            Err(EngineError::uncertain(reason))
        });
        Ok(standings.collect())
    }
}

/// Those who have not waited for longer than a claim would; the others are turned away.
fn in_time(mut group: Vec<Visitor>, patience: Duration) -> Vec<Visitor> {
    let is_late = |visitor: &mut Visitor| visitor.since.elapsed() > patience;
    for visitor in group.extract_if(.., is_late) {
        // Who has gone asks again.
        let _ = visitor.answer.send(Err(EngineError::Overloaded));
    }
    group
}

/// What the grants of a campaign ask for, where there are replicas that they may wait for.
async fn asked_level(
    partitions: &Partitions,
    campaign: CampaignId,
) -> Result<Option<AckLevel>, EngineError> {
    if partitions.options().replicas == 0 {
        return Ok(None);
    }
    let meta = partitions.meta(campaign).await?;
    Ok(meta.map(|meta| match meta.ack {
        // The ledger has no lines: replicas are the most that a place can be on.
        AckLevel::Ledger => AckLevel::Replica,
        ack => ack,
    }))
}

fn is_refusal(standing: &Standings) -> bool {
    match standing {
        Ok(Some(Standing::Decided { decision, .. })) => match decision {
            Decision::Claimed(outcome, _) => outcome.grant().is_none(),
            Decision::KeyReused => true,
        },
        Ok(Some(Standing::Waiting { .. }) | None) | Err(_) => false,
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
            let place = Place::parse(visitor.campaign, visitor.user.clone(), place);
            let place = place.ok_or_else(unreadable)?;
            // A place that the script has just given is for the same claim.
            if let Wish::Enter(wanted, _) = &visitor.wish {
                place.check_repeated(&wanted.claim)?;
            }
            let number = place.number;
            let first: u64 = first.parse().map_err(|_| unreadable())?;
            let ahead = number.saturating_sub(first);
            Standing::Waiting { number, ahead }
        }
        Some((_, rest)) => {
            let (number, decision) = rest.split_once(' ').ok_or_else(unreadable)?;
            let decision = Decision::parse(visitor.campaign, decision);
            Standing::Decided {
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
                wish: Wish::Look,
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
