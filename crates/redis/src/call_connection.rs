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

use qiang_core::{campaign::AckLevel, event::Seq, id::CampaignId, ports::EngineError};
use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};

use crate::{
    directory::Directory,
    error::{is_transient, no_answer, unavailable},
    keys::{KeySpace, SCRIPT_KEYS},
    options::Options,
    partition::Partition,
    reply::ScriptReply,
    scripts::Script,
};

/// Pauses between attempts of a call grow from the first to the second.
const CALL_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// How often a plain command is tried over lost connections; no longer than a call is.
const QUERIES_MAX: usize = 20;
/// The pause between two attempts of a plain command.
const QUERY_PAUSE: Duration = Duration::from_millis(100);
/// How long a mark for `WAIT` stays, in milliseconds.
const MARK_MS: u64 = 60_000;

/// What all connections of one node share.
pub(crate) struct ConnectionContext {
    pub(crate) options: Options,
    pub(crate) directory: Directory,
    pub(crate) keys: KeySpace,
    /// Names this node among all that use the same Redis.
    pub(crate) node: String,
}

impl ConnectionContext {
    /// Milliseconds for scripts; empty where they ask Redis' own clock.
    pub(crate) fn script_time(&self) -> String {
        let clock = self.options.clock.as_ref();
        clock.map_or_else(String::new, |clock| clock.now().as_millis().to_string())
    }
}

/// Adds a script's own arguments to a command.
pub(crate) type Arguments<'a> = &'a (dyn Fn(&mut Cmd) -> &mut Cmd + Send + Sync);

/// One call: a script, and its arguments beyond those that every script has.
pub(crate) struct Call<'a> {
    pub(crate) script: &'static Script,
    pub(crate) campaign: CampaignId,
    pub(crate) arguments: Arguments<'a>,
    /// Whether to wait for replicas.
    pub(crate) wait: bool,
}

/// A connection to one partition.
pub(crate) struct CallConnection {
    context: Arc<ConnectionContext>,
    partition: Arc<Partition>,
    /// Names this connection among all that use the same Redis.
    name: String,
    /// Calls so far.
    calls: u64,
    connection: Option<MultiplexedConnection>,
}

impl CallConnection {
    pub(crate) fn new(
        context: Arc<ConnectionContext>,
        partition: Arc<Partition>,
        name: &str,
    ) -> Self {
        Self {
            name: format!("{}:{name}", context.node),
            context,
            partition,
            calls: 0,
            connection: None,
        }
    }

    /// Carries a call out, over as many attempts as time allows.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] when an attempt whose answer was lost may have been carried out, else
    /// [`EngineError::Unavailable`].
    pub(crate) async fn call(&mut self, call: &Call<'_>) -> Result<ScriptReply, EngineError> {
        self.calls += 1;
        let until = Instant::now() + self.context.options.try_for;
        let (mut pause, mut sent) = (CALL_PAUSES.0, false);
        loop {
            if let Some(reason) = self.partition.halted() {
                return Err(failure(reason, sent));
            }
            let earlier = sent;
            let error = match self.attempt(call, &mut sent).await {
                Ok(reply) if reply.status == "halted" => {
                    let reason = reply.text();
                    self.partition.halt(&reason);
                    return Err(failure(reason, earlier));
                }
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            self.connection = None;
            if !is_transient(&error) {
                return Err(failure(format!("{}: {error}", call.script.name), earlier));
            }
            self.context.directory.forget();
            if Instant::now() + pause >= until {
                return Err(failure(no_answer(&error), sent));
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(CALL_PAUSES.1);
        }
    }

    /// Sends a plain command that may be repeated, again after lost connections and failovers.
    pub(crate) async fn query<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
    ) -> Result<T, RedisError> {
        let until = Instant::now() + self.context.options.try_for;
        let mut tried = 0;
        loop {
            tried += 1;
            let error = match self.connection().await {
                Ok(connection) => match command.query_async(connection).await {
                    Err(error) => error,
                    answer => return answer,
                },
                Err(error) => error,
            };
            if !is_transient(&error) {
                return Err(error);
            }
            self.disconnect();
            if tried >= QUERIES_MAX || Instant::now() >= until {
                return Err(error);
            }
            tokio::time::sleep(QUERY_PAUSE).await;
        }
    }

    /// The last entry of the log. None where Redis does not have the partition's state any more.
    pub(crate) async fn head(&mut self) -> Result<Option<Seq>, RedisError> {
        let key = self.context.keys.partition(self.partition.id);
        let mut command = redis::cmd("HMGET");
        command.arg(key).arg("epoch").arg("seq");
        let (epoch, seq): (Option<String>, Option<Seq>) = self.query(&command).await?;
        Ok(seq.filter(|_| epoch.as_ref() == Some(&self.partition.epoch)))
    }

    /// Waits until replicas have everything up to the log's present end; false when they did not confirm in time.
    pub(crate) async fn replicated(&mut self) -> Result<bool, RedisError> {
        self.wait().await.inspect_err(|_| self.disconnect())
    }

    async fn connection(&mut self) -> Result<&mut MultiplexedConnection, RedisError> {
        let open = match self.connection.take() {
            Some(connection) => connection,
            None => self.context.directory.connect(self.partition.id).await?,
        };
        Ok(self.connection.insert(open))
    }

    /// Drops a connection that has failed.
    fn disconnect(&mut self) {
        self.connection = None;
        self.context.directory.forget();
    }

    async fn attempt(
        &mut self,
        call: &Call<'_>,
        sent: &mut bool,
    ) -> Result<ScriptReply, RedisError> {
        let before = *sent;
        let command = self.command(call, before, ("EVALSHA", &call.script.sha1));
        self.connection().await?;
        *sent = true;
        let value = match self.send(&command).await {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                // The cache was flushed, or this server is new: nothing has happened. The whole script is sent at once,
                // for another flush might come between loading and calling it; the server keeps it.
                let whole = self.command(call, before, ("EVAL", &call.script.text));
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
        let mut reply = ScriptReply::read(value)?;
        if call.wait && reply.is_ok() && self.wait().await? {
            reply.reached = AckLevel::Replica;
        }
        Ok(reply)
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let connection = self.connection().await?;
        let answer = connection.send_packed_command(command).await;
        answer.and_then(Value::extract_error)
    }

    fn command(&self, call: &Call<'_>, again: bool, (how, script): (&str, &str)) -> Cmd {
        let mut command = redis::cmd(how);
        command.arg(script).arg(SCRIPT_KEYS);
        let (context, partition) = (&self.context, &self.partition);
        for key in context
            .keys
            .of_script(partition.id, &self.name, call.campaign)
        {
            command.arg(key);
        }
        command
            .arg(&partition.epoch)
            .arg(partition.min_head())
            .arg(context.script_time())
            .arg(self.calls)
            .arg(if again { "1" } else { "0" })
            .arg(call.campaign.to_string());
        (call.arguments)(&mut command);
        command
    }

    async fn wait(&mut self) -> Result<bool, RedisError> {
        let mark = self.context.keys.mark(self.partition.id, &self.name);
        let context = Arc::clone(&self.context);
        wait(self.connection().await?, mark, &context.options).await
    }
}

/// One `WAIT` for all that this server has written so far: whether the replicas that grants wait for have it. It waits
/// only for what its own connection wrote, and a replay writes nothing: hence the mark.
pub(crate) async fn wait(
    connection: &mut MultiplexedConnection,
    mark: String,
    options: &Options,
) -> Result<bool, RedisError> {
    let mut pipeline = redis::pipe();
    let set = pipeline.cmd("SET").arg(mark).arg("1");
    set.arg("PX").arg(MARK_MS).ignore();
    let timeout_ms = options.replica_timeout.as_millis() as u64;
    pipeline.cmd("WAIT").arg(options.replicas).arg(timeout_ms);
    let (have,): (u32,) = pipeline.query_async(connection).await?;
    Ok(have >= options.replicas)
}

/// Why a call gave no decision; `uncertain` when it may have been carried out all the same.
fn failure(reason: String, uncertain: bool) -> EngineError {
    if uncertain {
        EngineError::Uncertain { reason }
    } else {
        unavailable(reason)
    }
}
