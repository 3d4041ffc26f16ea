//! Connections to all partitions of an installation: what this node knows of each, and commands and script calls to it.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use qiang_core::{
    campaign::AckLevel,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::EngineError,
};
use redis::{Cmd, FromRedisValue};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};

use crate::{
    call::{Arguments, Call},
    call_connection::{CallConnection, ConnectionContext, TERM_OVER},
    confirmations::Confirmations,
    error::{ConnectError, is_transient, no_answer, unavailable},
    keys::KeySpace,
    lanes::{Lane, Lanes},
    options::Options,
    partition::{Partition, PartitionState},
    replicas::OnlineReplicas,
    reply::ScriptReply,
    script::Script,
};

/// Keys looked at by one step of a scan.
const SCAN_COUNT: usize = 1_000;
/// The pause between two attempts of a command that is sent in whatever term.
const UNFENCED_PAUSE: Duration = Duration::from_millis(50);
/// Why a call was not sent, when no connection was free in time.
const BUSY: &str = "earlier commands of the partition are still waiting for their answers";

/// All partitions, as this node sees them, and its connections to them.
pub struct Connections {
    /// What all of them share.
    pub context: Arc<ConnectionContext>,
    list: Vec<Arc<Partition>>,
    /// One per partition.
    replicas: Vec<OnlineReplicas>,
    /// For everything that is not a claim, one set a partition.
    lanes: Vec<Lanes>,
    /// Waits for replicas, one set of calls a partition at a time.
    confirmations: Vec<Confirmations>,
    /// One connection a partition, for saying that this node is there.
    pub(crate) presence_connections: Vec<Mutex<CallConnection>>,
    /// One connection a partition, for looking after it while it is not open.
    repair_connections: Vec<Mutex<CallConnection>>,
}

impl Connections {
    /// Tells every partition in Redis that this node is there, and where all is `fresh` sets it up if nothing was ever
    /// in it. What does not answer is unreachable for now. `settled` is how far the ledger has each partition.
    ///
    /// # Errors
    /// When Redis was set up with another number of partitions.
    pub async fn connect(
        context: ConnectionContext,
        settled: &[(PartitionId, Seq)],
        fresh: bool,
    ) -> Result<Self, ConnectError> {
        let grace = context.options.term_grace;
        let partition = |id: PartitionId| {
            let known = settled.iter().find(|(partition, _)| *partition == id);
            let settled = known.map_or(0, |(_, seq)| *seq);
            Arc::new(Partition::new(id, settled, fresh, grace))
        };
        let ids = (0..context.options.partitions).map(PartitionId);
        let mut connections = Self {
            replicas: ids.clone().map(|_| OnlineReplicas::unknown()).collect(),
            list: ids.map(partition).collect(),
            context: Arc::new(context),
            lanes: Vec::new(),
            confirmations: Vec::new(),
            presence_connections: Vec::new(),
            repair_connections: Vec::new(),
        };
        let lanes = |partition| Lanes::new(&connections.context, partition);
        connections.lanes = connections.list.iter().map(lanes).collect();
        let confirmations = |partition: &Arc<Partition>| {
            Confirmations::new(connections.connection(partition.id, "replicas"))
        };
        connections.confirmations = connections.list.iter().map(confirmations).collect();
        connections.presence_connections = connections.connections("presence");
        connections.repair_connections = connections.connections("repair");
        let ids = connections.list.iter().map(|partition| partition.id);
        let presences = join_all(ids.map(|id| connections.present(id))).await;
        presences.into_iter().collect::<Result<(), _>>()?;
        Ok(connections)
    }

    /// By number.
    pub fn list(&self) -> &[Arc<Partition>] {
        &self.list
    }

    /// What this node knows of a partition.
    ///
    /// # Panics
    /// When the installation has no such partition.
    pub fn get(&self, id: PartitionId) -> &Partition {
        &self.list[usize::from(id.0)]
    }

    /// What keys are called.
    pub fn keys(&self) -> &KeySpace {
        &self.context.keys
    }

    /// The settings.
    pub fn options(&self) -> &Options {
        &self.context.options
    }

    /// A connection of this name to a partition. It connects when it is used.
    pub fn connection(&self, id: PartitionId, name: &str) -> CallConnection {
        let partition = Arc::clone(&self.list[usize::from(id.0)]);
        CallConnection::new(Arc::clone(&self.context), partition, name)
    }

    /// A connection of this name to each partition.
    pub fn connections(&self, name: &str) -> Vec<Mutex<CallConnection>> {
        let ids = self.list.iter().map(|partition| partition.id);
        ids.map(|id| Mutex::new(self.connection(id, name)))
            .collect()
    }

    /// Whether a partition decides anything, as this node sees it.
    pub fn state(&self, id: PartitionId) -> PartitionState {
        self.get(id).state()
    }

    /// Whether a partition decides something, or will in a moment.
    pub fn is_serving(&self, id: PartitionId) -> bool {
        let state = self.state(id);
        matches!(state, PartitionState::Open | PartitionState::Gathering)
    }

    /// Replicas that grants of a partition wait for and its primary does not have, as of the last presence call.
    pub fn replicas_missing(&self, id: PartitionId) -> u32 {
        self.replicas[usize::from(id.0)].missing(self.options().replicas)
    }

    /// Why no grant of a partition can be on its replicas now, if too few are online. Where the last presence call says
    /// so, another one checks it, so that no claim is refused after a replica is online again.
    pub async fn lacks_replicas(&self, id: PartitionId) -> Option<String> {
        if self.replicas_missing(id) == 0 {
            return None;
        }
        // A failure becomes the partition's state, which the call that follows reports.
        drop(self.present(id).await);
        let (missing, wanted) = (self.replicas_missing(id), self.options().replicas);
        let found = wanted - missing;
        (missing > 0).then(|| {
            format!("replicas missing: the primary has {found} of {wanted} (`redis.replicas`)")
        })
    }

    /// Notes how many replicas of a partition's primary are online. Logs when some are missing, and when none is again.
    pub(crate) fn note_replicas(&self, id: PartitionId, found: u32) {
        let was_missing = self.replicas_missing(id) > 0;
        self.replicas[usize::from(id.0)].note(found);
        let (partition, wanted) = (id.0, self.options().replicas);
        match (was_missing, found < wanted) {
            (false, true) => tracing::error!(
                partition,
                found,
                wanted,
                "fewer replicas than `redis.replicas`: claims that ask for `replica` are answered 503"
            ),
            (true, false) => {
                tracing::info!(partition, found, wanted, "no replica is missing any longer");
            }
            _ => {}
        }
    }

    /// Sends a plain command that may be repeated to a partition's primary, over lost connections and terms.
    ///
    /// # Errors
    /// When the partition does not answer in time.
    pub async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let mut connection = self.take(partition, Lane::Read).await?;
        connection.query(command).await
    }

    /// Sends a plain command that may be repeated to a partition's server, in whatever term: for those who look after a
    /// partition that is not open.
    ///
    /// # Errors
    /// When its server does not answer in time.
    pub async fn query_unfenced<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let mut connection = self.repair_connections[usize::from(partition.0)]
            .lock()
            .await;
        let until = Instant::now() + self.options().call_timeout;
        loop {
            let error = match connection.once(command).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            connection.disconnect();
            if !is_transient(&error) || Instant::now() >= until {
                return Err(unavailable(no_answer(&error)));
            }
            tokio::time::sleep(UNFENCED_PAUSE).await;
        }
    }

    /// Calls a script of a campaign's part; `asks` is the level that it is to reach, none for one that only reads.
    ///
    /// # Errors
    /// When it does not answer in time, or refuses.
    pub async fn call(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        asks: Option<AckLevel>,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let more_keys = &[];
        let call = Call {
            script,
            campaign,
            more_keys,
            arguments,
            asks,
        };
        self.carry_out(partition, &call).await
    }

    /// Carries a call out.
    ///
    /// # Errors
    /// When it is not answered in time, or refused.
    pub async fn carry_out(
        &self,
        partition: PartitionId,
        call: &Call<'_>,
    ) -> Result<ScriptReply, EngineError> {
        if call.waits(self.options()) {
            return self.carry_out_confirmed(partition, call).await;
        }
        let lane = match call.asks {
            None => Lane::Read,
            Some(_) => Lane::Command,
        };
        let mut connection = self.take(partition, lane).await?;
        connection.call(call).await
    }

    /// Carries a call out, and then waits for replicas together with the other calls that do. Where the term ends in
    /// between, the call may be lost.
    async fn carry_out_confirmed(
        &self,
        partition: PartitionId,
        call: &Call<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let mut connection = self.take(partition, Lane::Confirmed).await?;
        let (mut reply, term) = connection.call_unconfirmed(call).await?;
        drop(connection);
        if !reply.is_ok() {
            return Ok(reply);
        }
        let confirmations = &self.confirmations[usize::from(partition.0)];
        let uncertain = |reason: &str| EngineError::Uncertain {
            reason: reason.to_owned(),
        };
        let confirmed = confirmations.confirm(&term, self.options().try_for).await;
        if confirmed.map_err(|reason| uncertain(&reason))? {
            reply.reached = AckLevel::Replica;
        }
        let relied_on = call.relied_on(&reply, self.options());
        match self.get(partition).accept(&term, relied_on) {
            true => Ok(reply),
            false => Err(uncertain(TERM_OVER)),
        }
    }

    /// Why nobody waits for a partition, if it has not answered for as long as a call is tried. Claims and commands are
    /// refused at once then, so that they hold up neither their clients nor other partitions.
    pub fn given_up(&self, partition: PartitionId) -> Option<String> {
        // A call gives up a little before its time, if there is none left for one more attempt.
        self.get(partition)
            .given_up(self.options().try_for * 9 / 10)
    }

    /// The connection of a lane, as soon as it is free.
    async fn take(
        &self,
        partition: PartitionId,
        lane: Lane,
    ) -> Result<MutexGuard<'_, CallConnection>, EngineError> {
        let check = || {
            self.given_up(partition)
                .map_or(Ok(()), |reason| Err(unavailable(reason)))
        };
        check()?;
        let lanes = &self.lanes[usize::from(partition.0)];
        let taken = lanes.take(lane, self.options().try_for).await;
        // Those before it may have taken all the time that there was.
        check()?;
        taken.ok_or_else(|| unavailable(BUSY))
    }

    /// Calls a script that changes something, and sees to the level that the campaign asks for.
    ///
    /// # Errors
    /// When it does not answer in time or refuses, or the level is not reached.
    pub async fn change(
        &self,
        partition: PartitionId,
        script: &'static Script,
        (campaign, asked): (CampaignId, AckLevel),
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let reply = self
            .call(partition, script, campaign, Some(asked), arguments)
            .await?;
        if self.options().waits(asked) && reply.is_ok() {
            reply.level(asked)?;
        }
        Ok(reply)
    }

    /// Removes a partition's keys.
    ///
    /// # Errors
    /// When its server does not answer.
    pub async fn erase(&self, partition: PartitionId) -> Result<(), EngineError> {
        let mut connection = self.take(partition, Lane::Command).await?;
        let failed = |error| unavailable(no_answer(&error));
        let mut cursor = "0".to_owned();
        loop {
            let mut scan = redis::cmd("SCAN");
            scan.arg(&cursor)
                .arg("MATCH")
                .arg(self.keys().all(partition))
                .arg("COUNT")
                .arg(SCAN_COUNT);
            let (next, keys): (String, Vec<String>) =
                connection.once(&scan).await.map_err(failed)?;
            if !keys.is_empty() {
                let mut unlink = redis::cmd("UNLINK");
                let _: i64 = connection.once(unlink.arg(keys)).await.map_err(failed)?;
            }
            if next == "0" {
                return Ok(());
            }
            cursor = next;
        }
    }
}
