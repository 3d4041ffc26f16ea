//! A connection of its own to one partition, on which one script call is under way at a time.
//!
//! Each call has a number, and Redis keeps the reply to a connection's last call beside the decision. When an answer
//! is lost (a timeout, a dropped connection, a failover), the same call is sent again until it is answered. If it had
//! been carried out, the kept reply comes back; if it had not, or the new primary never got it, it is carried out now.
//! Nothing is decided twice either way.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use qiang_core::{
    campaign::AckLevel,
    event::{PartitionId, Seq},
    id::CampaignId,
    ports::Clock,
};
use redis::{Cmd, ErrorKind, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection};

use crate::{
    directory::Directory,
    error::CallError,
    keys::{KeySpace, SCRIPT_KEYS},
    options::Options,
    partition::Partition,
    scripts::Script,
};

/// Pauses between attempts grow from the first to the second.
const PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));

/// What the connections of a node have in common.
pub(crate) struct ConnectionContext {
    pub(crate) options: Options,
    pub(crate) directory: Directory,
    pub(crate) keys: KeySpace,
    /// Names this node among all.
    pub(crate) node: String,
}

impl ConnectionContext {
    /// Milliseconds for scripts; empty where Redis' own clock counts.
    pub(crate) fn now(&self) -> String {
        let clock = self.options.clock.as_ref();
        clock.map_or_else(String::new, |clock: &Arc<dyn Clock>| {
            clock.now().as_millis().to_string()
        })
    }
}

/// What a script replied, other than that the partition is halted.
#[derive(Debug)]
pub(crate) struct ScriptReply {
    /// `ok`, `unknown`, `refused`, …: see the script.
    pub(crate) status: String,
    pub(crate) text: Vec<u8>,
    /// What the decision survives.
    pub(crate) reached: AckLevel,
}

impl ScriptReply {
    pub(crate) fn is_ok(&self) -> bool {
        self.status == "ok"
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.text).into_owned()
    }
}

/// One call: a script, and what it is told beyond what every script is told.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) campaign: CampaignId,
    pub(crate) arguments: &'a (dyn Fn(&mut Cmd) + Send + Sync),
    /// Whether replicas must have it.
    pub(crate) wait: bool,
}

pub(crate) struct CallConnection {
    context: Arc<ConnectionContext>,
    partition: PartitionId,
    name: String,
    calls: u64,
    connection: Option<MultiplexedConnection>,
}

impl CallConnection {
    pub(crate) fn new(
        context: Arc<ConnectionContext>,
        partition: PartitionId,
        place: &str,
    ) -> Self {
        let name = format!("{}:{place}", context.node);
        Self {
            context,
            partition,
            name,
            calls: 0,
            connection: None,
        }
    }

    /// Carries a call out, over as many attempts as time allows.
    pub(crate) async fn call(
        &mut self,
        partition: &Partition,
        call: &Call<'_>,
    ) -> Result<ScriptReply, CallError> {
        self.calls += 1;
        let until = Instant::now() + self.context.options.try_for;
        let (mut pause, mut sent) = (PAUSES.0, false);
        loop {
            // An earlier attempt whose answer was lost may have been carried out, whatever comes now.
            let earlier = sent;
            let unless_sent = |error: CallError| if earlier { error.uncertain() } else { error };
            if let Some(reason) = partition.halted() {
                return Err(unless_sent(CallError::Halted(reason)));
            }
            let error = match self.attempt(partition, call, &mut sent).await {
                Ok(reply) => return self.judge(partition, reply).map_err(unless_sent),
                Err(error) => error,
            };
            self.connection = None;
            if !is_transient(&error) {
                let reason = format!("{}: {error}", call.script.name);
                return Err(unless_sent(CallError::Unavailable(reason)));
            }
            self.context.directory.forget();
            if Instant::now() + pause >= until {
                let error = CallError::Unavailable(format!("Redis does not answer: {error}"));
                return Err(if sent { error.uncertain() } else { error });
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(PAUSES.1);
        }
    }

    /// A connection for plain commands.
    pub(crate) async fn connection(&mut self) -> Result<&mut MultiplexedConnection, RedisError> {
        if self.connection.is_none() {
            let connection = self.context.directory.connect(self.partition).await?;
            self.connection = Some(connection);
        }
        // It was put there just now if it was not there before.
        self.connection
            .as_mut()
            .ok_or_else(|| RedisError::from((ErrorKind::Client, "no connection")))
    }

    /// Lets the connection go: it has failed.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
        self.context.directory.forget();
    }

    async fn attempt(
        &mut self,
        partition: &Partition,
        call: &Call<'_>,
        sent: &mut bool,
    ) -> Result<ScriptReply, RedisError> {
        let before = *sent;
        let command = self.command(partition, call, before, ("EVALSHA", &call.script.sha1));
        self.connection().await?;
        *sent = true;
        let value = match self.send(&command).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // The cache was flushed, or this server is new: nothing has happened. The whole script goes at once,
                // for another flush might come between loading and calling it; the server keeps it.
                let whole = self.command(partition, call, before, ("EVAL", &call.script.text));
                self.send(&whole).await
            }
            answer => answer,
        };
        let value = value.inspect_err(|error| {
            // A refusal by the server is an answer: it did not happen.
            if matches!(error.kind(), ErrorKind::Server(_)) {
                *sent = before;
            }
        })?;
        let (status, text) = parts_of(value)?;
        let reached = if call.wait && status == "ok" {
            self.wait().await?
        } else {
            AckLevel::Memory
        };
        Ok(ScriptReply {
            status,
            text,
            reached,
        })
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let connection = self.connection().await?;
        let answer = connection.send_packed_command(command).await;
        answer.and_then(Value::extract_error)
    }

    fn command(
        &self,
        partition: &Partition,
        call: &Call<'_>,
        again: bool,
        (how, script): (&str, &str),
    ) -> Cmd {
        let mut command = redis::cmd(how);
        command.arg(script).arg(SCRIPT_KEYS);
        for key in self
            .context
            .keys
            .of_script(self.partition, &self.name, call.campaign)
        {
            command.arg(key);
        }
        command
            .arg(&partition.epoch)
            .arg(partition.min_head())
            .arg(self.context.now())
            .arg(self.calls)
            .arg(if again { "1" } else { "0" })
            .arg(call.campaign.to_string());
        (call.arguments)(&mut command);
        command
    }

    /// One `WAIT` for all that this server has written so far. It waits only for what its own connection wrote, and
    /// a replay writes nothing: hence the mark.
    async fn wait(&mut self) -> Result<AckLevel, RedisError> {
        let options = &self.context.options;
        let (replicas, timeout) = (options.replicas, options.replica_timeout);
        let mark = self.context.keys.mark(self.partition, &self.name);
        let connection = self.connection().await?;
        let mut pipeline = redis::pipe();
        pipeline
            .cmd("SET")
            .arg(mark)
            .arg("1")
            .arg("PX")
            .arg(60_000)
            .ignore();
        pipeline
            .cmd("WAIT")
            .arg(replicas)
            .arg(timeout.as_millis() as u64);
        let (have,): (u32,) = pipeline.query_async(connection).await?;
        Ok(if have >= replicas {
            AckLevel::Replica
        } else {
            AckLevel::Memory
        })
    }

    fn judge(&self, partition: &Partition, reply: ScriptReply) -> Result<ScriptReply, CallError> {
        if reply.status == "halted" {
            let reason = reply.text();
            partition.halt(&reason);
            return Err(CallError::Halted(reason));
        }
        Ok(reply)
    }

    /// Waits until replicas have everything up to the partition's present end.
    pub(crate) async fn replicated(&mut self) -> Result<bool, RedisError> {
        self.wait().await.map(|level| level == AckLevel::Replica)
    }

    /// The last entry of the log.
    pub(crate) async fn head(&mut self, partition: &Partition) -> Result<Option<Seq>, RedisError> {
        let key = self.context.keys.partition(self.partition);
        let connection = self.connection().await?;
        let (epoch, seq): (Option<String>, Option<Seq>) = redis::cmd("HMGET")
            .arg(key)
            .arg("epoch")
            .arg("seq")
            .query_async(connection)
            .await?;
        Ok(seq.filter(|_| epoch.as_ref() == Some(&partition.epoch)))
    }
}

/// Whether another attempt may fare better: the network, a failover, a server that is starting.
pub(crate) fn is_transient(error: &RedisError) -> bool {
    match error.kind() {
        ErrorKind::Io
        | ErrorKind::Parse
        | ErrorKind::ClusterConnectionNotFound
        | ErrorKind::MasterNameNotFoundBySentinel => true,
        ErrorKind::Server(kind) => matches!(
            kind,
            ServerErrorKind::BusyLoading
                | ServerErrorKind::Moved
                | ServerErrorKind::Ask
                | ServerErrorKind::TryAgain
                | ServerErrorKind::ClusterDown
                | ServerErrorKind::MasterDown
                | ServerErrorKind::ReadOnly
        ),
        _ => {
            error.is_io_error()
                || error.is_timeout()
                || matches!(error.code(), Some("UNBLOCKED" | "MISCONF" | "NOREPLICAS"))
        }
    }
}

fn parts_of(value: Value) -> Result<(String, Vec<u8>), RedisError> {
    if let Value::Array(mut parts) = value
        && parts.len() == 2
        && let (Some(Value::BulkString(text)), Some(Value::BulkString(status))) =
            (parts.pop(), parts.pop())
    {
        return Ok((String::from_utf8_lossy(&status).into_owned(), text));
    }
    Err(RedisError::from((
        ErrorKind::UnexpectedReturnType,
        "a script's reply is a status and a text",
    )))
}
