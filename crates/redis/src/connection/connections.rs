//! Connections to all partitions of an installation, with this node's view of each partition.

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

use crate::connection::{
    call::{Arguments, ScriptCall},
    call_connection::{CallConnection, ConnectionContext, TERM_OVER},
    confirmations::ReplicaConfirmations,
    error::{ConnectError, is_transient, no_answer, unavailable},
    keys::KeySpace,
    lanes::{CallLane, CallLanes, LaneRefusal},
    memory::{MemoryUse, PrimaryMemory},
    options::RedisOptions,
    partition::{PartitionHandle, PartitionHealth},
    replicas::OnlineReplicas,
    reply::ScriptReply,
    script::Script,
};

/// Keys examined by one step of a scan.
const SCAN_COUNT: usize = 1_000;
/// Pause between two attempts of an unfenced command.
const UNFENCED_PAUSE: Duration = Duration::from_millis(50);
/// Reason of an unsent call: no connection was free in time.
const BUSY: &str = "earlier commands of the partition still wait for their answers";

/// All partitions as this node sees them, and its connections to them.
pub(crate) struct RedisConnections {
    /// State shared by all connections.
    pub context: Arc<ConnectionContext>,
    list: Vec<Arc<PartitionHandle>>,
    /// Online replicas, one entry per partition.
    replicas: Vec<OnlineReplicas>,
    /// Memory of primaries, one entry per partition.
    memory: Vec<PrimaryMemory>,
    /// Connections for everything except claims, one set per partition.
    lanes: Vec<CallLanes>,
    /// Confirmations by replicas. At most one `WAIT` per partition runs at a time.
    confirmations: Vec<ReplicaConfirmations>,
    /// Connections for presence calls, one per partition.
    pub(crate) presence_connections: Vec<Mutex<CallConnection>>,
    /// Connections for repairs of partitions that are not open, one per partition.
    repair_connections: Vec<Mutex<CallConnection>>,
}

impl RedisConnections {
    /// Reports this node to every partition in Redis. `settled` is the ledger's position of each partition. If `fresh`,
    /// partitions that were never used are set up. A partition that does not answer counts as unreachable.
    ///
    /// # Errors
    /// If Redis was set up with another number of partitions.
    pub(crate) async fn connect(
        context: ConnectionContext,
        settled: &[(PartitionId, Seq)],
        fresh: bool,
    ) -> Result<Self, ConnectError> {
        let grace = context.options.term_grace;
        let partition = |id: PartitionId| {
            let known = settled.iter().find(|(partition, _)| *partition == id);
            let settled = known.map_or(0, |(_, seq)| *seq);
            Arc::new(PartitionHandle::new(id, settled, fresh, grace))
        };
        let ids = (0..context.options.partitions).map(PartitionId);
        let mut connections = Self {
            replicas: ids.clone().map(|_| OnlineReplicas::unknown()).collect(),
            memory: ids.clone().map(|_| PrimaryMemory::default()).collect(),
            list: ids.map(partition).collect(),
            context: Arc::new(context),
            lanes: Vec::new(),
            confirmations: Vec::new(),
            presence_connections: Vec::new(),
            repair_connections: Vec::new(),
        };
        let lanes = |partition| CallLanes::new(&connections.context, partition);
        connections.lanes = connections.list.iter().map(lanes).collect();
        let confirmations = |partition: &Arc<PartitionHandle>| {
            ReplicaConfirmations::new(connections.connection(partition.id, "replicas"))
        };
        connections.confirmations = connections.list.iter().map(confirmations).collect();
        connections.presence_connections = connections.connections("presence");
        connections.repair_connections = connections.connections("repair");
        let ids = connections.list.iter().map(|partition| partition.id);
        let presences = join_all(ids.map(|id| connections.present(id))).await;
        presences.into_iter().collect::<Result<(), _>>()?;
        Ok(connections)
    }

    /// All partitions, ordered by number.
    pub(crate) fn list(&self) -> &[Arc<PartitionHandle>] {
        &self.list
    }

    /// This node's view of a partition.
    ///
    /// # Panics
    /// If the installation has no such partition.
    pub(crate) fn get(&self, id: PartitionId) -> &PartitionHandle {
        &self.list[usize::from(id.0)]
    }

    /// Builds the keys.
    pub(crate) fn keys(&self) -> &KeySpace {
        &self.context.keys
    }

    /// The settings.
    pub(crate) fn options(&self) -> &RedisOptions {
        &self.context.options
    }

    /// Connection with this name to a partition. It opens when it is first used.
    pub(crate) fn connection(&self, id: PartitionId, name: &str) -> CallConnection {
        let partition = Arc::clone(&self.list[usize::from(id.0)]);
        CallConnection::new(Arc::clone(&self.context), partition, name)
    }

    /// Connections with this name, one per partition.
    pub(crate) fn connections(&self, name: &str) -> Vec<Mutex<CallConnection>> {
        let ids = self.list.iter().map(|partition| partition.id);
        ids.map(|id| Mutex::new(self.connection(id, name)))
            .collect()
    }

    /// State of a partition, as this node sees it.
    pub(crate) fn state(&self, id: PartitionId) -> PartitionHealth {
        self.get(id).state()
    }

    /// Whether a partition makes decisions now, or will in a moment.
    pub(crate) fn is_serving(&self, id: PartitionId) -> bool {
        let state = self.state(id);
        matches!(state, PartitionHealth::Open | PartitionHealth::Gathering)
    }

    /// Number of required replicas that a partition's primary lacks, as of the last presence call.
    pub(crate) fn replicas_missing(&self, id: PartitionId) -> u32 {
        self.replicas[usize::from(id.0)].missing(self.options().replicas)
    }

    /// Memory of a partition's primary, as of the last presence call.
    pub(crate) fn memory(&self, id: PartitionId) -> Option<MemoryUse> {
        self.memory[usize::from(id.0)].get()
    }

    /// Records the memory of a partition's primary.
    pub(crate) fn note_memory(&self, id: PartitionId, memory: MemoryUse) {
        self.memory[usize::from(id.0)].note(memory);
    }

    /// Reason why the level `replica` is out of reach: too few replicas of the partition are online. `None` if enough
    /// are.
    ///
    /// If the last presence call reports missing replicas, another presence call checks it. So no claim is refused
    /// after a replica is online again.
    pub(crate) async fn lacks_replicas(&self, id: PartitionId) -> Option<String> {
        if self.replicas_missing(id) == 0 {
            return None;
        }
        // A failure becomes the partition's state. The following call reports that state.
        drop(self.present(id).await);
        let (missing, wanted) = (self.replicas_missing(id), self.options().replicas);
        let found = wanted - missing;
        (missing > 0).then(|| {
            format!("replicas missing: the primary has {found} of {wanted} (`redis.replicas`)")
        })
    }

    /// Records how many replicas of a partition's primary are online. Logs when replicas are missing, and when none is
    /// again.
    pub(crate) fn note_replicas(&self, id: PartitionId, found: u32) {
        let was_missing = self.replicas_missing(id) > 0;
        self.replicas[usize::from(id.0)].note(found);
        let (partition, wanted) = (id.0, self.options().replicas);
        match (was_missing, found < wanted) {
            (false, true) => tracing::error!(
                partition,
                found,
                wanted,
                "fewer replicas online than `redis.replicas`: claims that ask for `replica` get status 503"
            ),
            (true, false) => {
                tracing::info!(partition, found, wanted, "all required replicas are online");
            }
            _ => {}
        }
    }

    /// Sends a plain, repeatable command to a partition's primary. Retries over lost connections and terms.
    ///
    /// # Errors
    /// If the partition does not answer in time.
    pub(crate) async fn query<T: FromRedisValue>(
        &self,
        partition: PartitionId,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let mut connection = self.take(partition, CallLane::Read).await?;
        connection.query(command).await
    }

    /// Sends a plain, repeatable command to a partition's server, in any term. Repairs use it while a partition is not
    /// open.
    ///
    /// # Errors
    /// If the server does not answer in time.
    pub(crate) async fn query_unfenced<T: FromRedisValue>(
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

    /// Calls a script on a campaign's shard. `asks` is the level that the decision must reach; `None` for a script that
    /// only reads.
    ///
    /// # Errors
    /// If the script does not answer in time, or refuses.
    pub(crate) async fn call(
        &self,
        partition: PartitionId,
        script: &'static Script,
        campaign: CampaignId,
        asks: Option<AckLevel>,
        arguments: Arguments<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let more_keys = &[];
        let call = ScriptCall {
            script,
            campaign,
            more_keys,
            arguments,
            asks,
        };
        self.carry_out(partition, &call).await
    }

    /// Carries a call out on the connection of its lane.
    ///
    /// # Errors
    /// If the call is not answered in time, or is refused.
    pub(crate) async fn carry_out(
        &self,
        partition: PartitionId,
        call: &ScriptCall<'_>,
    ) -> Result<ScriptReply, EngineError> {
        if call.waits(self.options()) {
            return self.carry_out_confirmed(partition, call).await;
        }
        let lane = match call.asks {
            None => CallLane::Read,
            Some(_) => CallLane::Command,
        };
        let mut connection = self.take(partition, lane).await?;
        connection.call(call).await
    }

    /// Carries a call out, then waits for replicas together with other calls. The call may be lost if the term ends in
    /// between.
    async fn carry_out_confirmed(
        &self,
        partition: PartitionId,
        call: &ScriptCall<'_>,
    ) -> Result<ScriptReply, EngineError> {
        let mut connection = self.take(partition, CallLane::Confirmed).await?;
        let (mut reply, term) = connection.call_unconfirmed(call).await?;
        drop(connection);
        if !reply.is_ok() {
            return Ok(reply);
        }
        let confirmations = &self.confirmations[usize::from(partition.0)];
        let uncertain = |reason: &str| EngineError::Uncertain {
            reason: reason.to_owned(),
        };
        let confirmed = confirmations
            .confirm(&term, self.options().claim_timeout)
            .await;
        if confirmed.map_err(|reason| uncertain(&reason))? {
            reply.reached = AckLevel::Replica;
        }
        let relied_on = call.relied_on(&reply, self.options());
        match self.get(partition).accept(&term, relied_on) {
            true => Ok(reply),
            false => Err(uncertain(TERM_OVER)),
        }
    }

    /// Reason why calls to a partition are refused at once: it has not answered for about as long as a call is retried.
    /// `None` if it has answered. So a dead partition delays neither its clients nor other partitions.
    pub(crate) fn given_up(&self, partition: PartitionId) -> Option<String> {
        // A call fails slightly before its time limit, if no time is left for another attempt.
        self.get(partition)
            .given_up(self.options().claim_timeout * 9 / 10)
    }

    /// Connection of a lane. Waits until it is free.
    async fn take(
        &self,
        partition: PartitionId,
        lane: CallLane,
    ) -> Result<MutexGuard<'_, CallConnection>, EngineError> {
        let check = || {
            self.given_up(partition)
                .map_or(Ok(()), |reason| Err(unavailable(reason)))
        };
        check()?;
        let lanes = &self.lanes[usize::from(partition.0)];
        let taken = lanes.take(lane, self.options().claim_timeout).await;
        // Earlier calls may have taken all the time.
        check()?;
        taken.map_err(|refusal| match refusal {
            LaneRefusal::Full => EngineError::Overloaded,
            LaneRefusal::Late => unavailable(BUSY),
        })
    }

    /// Calls a script that changes something, and checks that the campaign's acknowledgement level is reached.
    ///
    /// # Errors
    /// If the script does not answer in time or refuses, or the level is not reached.
    pub(crate) async fn change(
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
    /// If its server does not answer.
    pub(crate) async fn erase(&self, partition: PartitionId) -> Result<(), EngineError> {
        let mut connection = self.take(partition, CallLane::Command).await?;
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
