//! Connection to one partition that carries out one script call at a time.
//!
//! Each call of a connection has a number. Redis stores the number and the reply of the connection's last call in the
//! same atomic step as the decision. If an answer is lost (timeout, dropped connection, failover), the connection sends
//! the same call again until it is answered. If the call was carried out before, Redis answers with the stored reply.
//! Otherwise, also on a new primary that never got the call, it is carried out now. The stored reply expires, by a
//! clock that may be ahead; the number does not. So no call is decided twice.
//!
//! Every call states the partition's leadership term. If that term is over, the script does nothing. The connection is
//! dropped, and the call is sent again once the partition is open in another term. An answer that arrives after its
//! term is over counts as lost.

use std::{sync::Arc, time::Duration};

use qiang_core::{campaign::AckLevel, event::Seq, ports::EngineError};
use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError, ServerErrorKind, Value, aio::MultiplexedConnection,
};
use tokio::time::Instant;

use crate::connection::{
    call::ScriptCall,
    directory::Directory,
    error::{
        ConnectError, failure, is_before_writes, is_no_evalsha, is_transient, no_answer, read,
        refused, unavailable, unreadable,
    },
    keys::{KeySpace, PARTITIONS_MAX},
    options::RedisOptions,
    partition::PartitionHandle,
    replicas::{replicas_have, wait_commands},
    reply::ScriptReply,
    script::head_in_term,
};

/// First and longest pause between two attempts of a call; each pause doubles the one before.
const CALL_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(200));
/// Attempts of a plain command over lost connections. The time limit of a call applies too.
const QUERIES_MAX: u32 = 20;
/// Pause between two attempts of a plain command.
const QUERY_PAUSE: Duration = Duration::from_millis(100);
/// Reason of a failed attempt: the partition is in another leadership term.
pub(crate) const TERM_OVER: &str = "the partition's primary has changed";
/// Reason of a missing answer: the call was carried out and its stored reply has expired.
const REPLY_LOST: &str = "the call was carried out, but its stored reply has expired";

/// State shared by all connections of one node.
pub(crate) struct ConnectionContext {
    /// The settings.
    pub options: RedisOptions,
    /// Finds the primary of each partition.
    pub directory: Directory,
    /// Builds the keys.
    pub keys: KeySpace,
    /// Random name of this node, unique among all nodes that use the same Redis.
    pub node: String,
}

impl ConnectionContext {
    /// Context of a node with a new random name. Opens no connection.
    ///
    /// # Errors
    /// If an option is invalid.
    pub(crate) fn new(options: RedisOptions) -> Result<Self, ConnectError> {
        if !(1..=PARTITIONS_MAX).contains(&options.partitions) {
            let text = format!("invalid number of partitions: it must be 1 to {PARTITIONS_MAX}");
            return Err(ConnectError::Options(text));
        }
        Ok(Self {
            keys: KeySpace::new(&options),
            node: format!("{:016x}", rand::random::<u64>()),
            directory: Directory::new(&options)?,
            options,
        })
    }

    /// Current time in milliseconds for scripts; empty if scripts read Redis' own clock.
    #[must_use]
    pub(crate) fn script_time(&self) -> String {
        let clock = self.options.clock.as_ref();
        clock.map_or_else(String::new, |clock| clock.now().as_millis().to_string())
    }
}

/// A connection to one partition.
pub(crate) struct CallConnection {
    context: Arc<ConnectionContext>,
    partition: Arc<PartitionHandle>,
    /// Name of this connection, unique among all that use the same Redis.
    name: String,
    /// Number of calls so far.
    calls: u64,
    /// The connection, and the directory's generation in which it was opened.
    connection: Option<(u64, MultiplexedConnection)>,
}

impl CallConnection {
    /// Connection with this name. It opens when it is first used.
    pub(crate) fn new(
        context: Arc<ConnectionContext>,
        partition: Arc<PartitionHandle>,
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

    /// Carries a call out. Retries over lost connections and terms until `Options::claim_timeout` has passed. Waits for
    /// replicas if the requested level needs them.
    ///
    /// # Errors
    /// [`EngineError::Uncertain`] if an attempt may have been carried out: its answer was lost, or it failed after it
    /// had begun. Otherwise [`EngineError::Unavailable`].
    pub(crate) async fn call(&mut self, call: &ScriptCall<'_>) -> Result<ScriptReply, EngineError> {
        let waits = call.waits(&self.context.options);
        let (reply, _) = self.carry_out(call, waits).await?;
        Ok(reply)
    }

    /// Carries a call out like [`call`](Self::call), but never waits for replicas. Returns the reply of the primary and
    /// the term in which the call was carried out.
    ///
    /// # Errors
    /// As for [`call`](Self::call).
    pub(crate) async fn call_unconfirmed(
        &mut self,
        call: &ScriptCall<'_>,
    ) -> Result<(ScriptReply, Arc<str>), EngineError> {
        self.carry_out(call, false).await
    }

    /// Whether `Options::replicas` replicas have everything that the partition's primary wrote before this call. `None`
    /// if the term is over.
    ///
    /// # Errors
    /// If the primary does not answer.
    pub(crate) async fn replicas_have(&mut self, term: &str) -> Result<Option<bool>, RedisError> {
        let commands = self.wait_commands();
        let answers = match self.attempt_fenced(&commands, term).await {
            Ok(answers) => answers,
            Err(error) => {
                self.disconnect();
                return Err(error);
            }
        };
        let Some((_, answers)) = answers else {
            self.leave_term(term);
            return Ok(None);
        };
        let mut have = Value::Nil;
        for answer in answers {
            have = answer.extract_error()?;
        }
        Ok(Some(self.is_enough(have)))
    }

    async fn carry_out(
        &mut self,
        call: &ScriptCall<'_>,
        waits: bool,
    ) -> Result<(ScriptReply, Arc<str>), EngineError> {
        self.calls += 1;
        let until = Instant::now() + self.context.options.claim_timeout;
        let (mut pause, mut sent) = (CALL_PAUSES.0, false);
        loop {
            let open = self.partition.open_term(until).await;
            let term = open.map_err(|reason| failure(reason, sent))?;
            let earlier = sent;
            let reason = match self.attempt(call, waits, &term, &mut sent).await {
                Ok(reply) if reply.is_refused() => {
                    sent = earlier;
                    self.leave_term(&term);
                    TERM_OVER.to_owned()
                }
                Ok(reply) if reply.is_lost() => {
                    return Err(failure(REPLY_LOST.to_owned(), true));
                }
                Ok(mut reply) => {
                    let relied_on = call.relied_on(&reply, &self.context.options);
                    reply.unkept = self.partition.accept_reply(&term, relied_on);
                    if reply.unkept.is_some() {
                        return Ok((reply, term));
                    }
                    self.connection = None;
                    TERM_OVER.to_owned()
                }
                Err(error) => {
                    self.disconnect();
                    if !is_transient(&error) {
                        return Err(failure(refused(call.script.name, &error), sent));
                    }
                    no_answer(&error)
                }
            };
            if Instant::now() + pause >= until {
                return Err(failure(reason, sent));
            }
            tokio::time::sleep(pause).await;
            pause = (2 * pause).min(CALL_PAUSES.1);
        }
    }

    /// Sends a plain command to the primary of the current term. Retries after lost connections and failovers, so the
    /// command must be repeatable.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub(crate) async fn query<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
    ) -> Result<T, EngineError> {
        let (_, [answer]) = self.fenced([command.clone()]).await?;
        read(answer)
    }

    /// Sends several commands like [`query`](Self::query). Each has its own answer.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub(crate) async fn query_all<T: FromRedisValue>(
        &mut self,
        commands: &[Cmd],
    ) -> Result<Vec<Result<T, EngineError>>, EngineError> {
        let (_, answers) = self.fenced_all(commands).await?;
        Ok(answers.into_iter().map(read).collect())
    }

    /// Last entry of the log in the current term.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub(crate) async fn head(&mut self) -> Result<Seq, EngineError> {
        Ok(self.fenced([]).await?.0)
    }

    /// Waits until replicas have the log up to its current end. Returns false if they do not confirm in time.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub(crate) async fn replicated(&mut self) -> Result<bool, EngineError> {
        let [mark, wait] = self.wait_commands();
        let (_, [_, have]) = self.fenced([mark, wait]).await?;
        Ok(self.is_enough(have))
    }

    /// Sends a command like [`query`](Self::query). Also returns whether replicas have what the command wrote and read.
    ///
    /// # Errors
    /// [`EngineError::Unavailable`].
    pub(crate) async fn query_replicated<T: FromRedisValue>(
        &mut self,
        command: &Cmd,
    ) -> Result<(T, bool), EngineError> {
        let [mark, wait] = self.wait_commands();
        let (_, [answer, _, have]) = self.fenced([command.clone(), mark, wait]).await?;
        Ok((read(answer)?, self.is_enough(have)))
    }

    /// Whether a reply to `WAIT` reports at least `Options::replicas` replicas.
    fn is_enough(&self, have: Value) -> bool {
        let have: Result<u32, _> = redis::from_redis_value(have);
        have.is_ok_and(|have| have >= self.context.options.replicas)
    }

    /// Sends a command once, in any term.
    ///
    /// # Errors
    /// If there is no connection, no answer, or an answer of another type.
    pub(crate) async fn once<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        let value = self.send(command).await?;
        Ok(redis::from_redis_value(value)?)
    }

    /// Drops a failed connection and forgets the cached address of the primary.
    pub(crate) fn disconnect(&mut self) {
        self.connection = None;
        self.context.directory.forget();
    }

    /// Handles a call that a server refused because of its term: the server or this node is in another term.
    fn leave_term(&mut self, term: &str) {
        self.disconnect();
        self.partition.refused(term);
    }

    async fn fenced<const N: usize>(
        &mut self,
        commands: [Cmd; N],
    ) -> Result<(Seq, [Value; N]), EngineError> {
        let (head, answers) = self.fenced_all(&commands).await?;
        let answers: Result<Vec<_>, _> = answers.into_iter().map(Value::extract_error).collect();
        let answers = answers.map_err(|error| unavailable(no_answer(&error)))?;
        Ok((head, answers.try_into().map_err(|_| unreadable())?))
    }

    /// Sends commands, followed on the same connection by a check that the term still runs. So the answers are those of
    /// the term's primary. Some may be errors that a retry does not fix. Also returns the last entry of the log.
    async fn fenced_all(&mut self, commands: &[Cmd]) -> Result<(Seq, Vec<Value>), EngineError> {
        let patience = (QUERIES_MAX * QUERY_PAUSE).min(self.context.options.claim_timeout);
        let until = Instant::now() + patience;
        loop {
            let term = self.partition.open_term(until).await.map_err(unavailable)?;
            let reason = match self.attempt_fenced(commands, &term).await {
                Ok(Some(answer)) if self.partition.accept(&term, None) => return Ok(answer),
                Ok(Some(_)) => {
                    self.connection = None;
                    TERM_OVER.to_owned()
                }
                Ok(None) => {
                    self.leave_term(&term);
                    TERM_OVER.to_owned()
                }
                Err(error) => {
                    self.disconnect();
                    if !is_transient(&error) {
                        return Err(unavailable(no_answer(&error)));
                    }
                    no_answer(&error)
                }
            };
            if Instant::now() + QUERY_PAUSE >= until {
                return Err(unavailable(reason));
            }
            tokio::time::sleep(QUERY_PAUSE).await;
        }
    }

    /// Sends commands and the check of the term once. `None` if the term is over.
    async fn attempt_fenced(
        &mut self,
        commands: &[Cmd],
        term: &str,
    ) -> Result<Option<(Seq, Vec<Value>)>, RedisError> {
        let key = self.context.keys.partition(self.partition.id);
        let fence = head_in_term(key, term, self.partition.min_head());
        let mut all = commands.to_vec();
        all.push(fence);
        let mut answers = self.send_all(&all).await?;
        let fence = ScriptReply::read(answers.pop().unwrap_or(Value::Nil).extract_error()?)?;
        if fence.is_refused() {
            return Ok(None);
        }
        let unreadable = || RedisError::from((ErrorKind::Parse, "wrong number of answers"));
        let head = fence.text().parse().map_err(|_| unreadable())?;
        if answers.len() != commands.len() {
            return Err(unreadable());
        }
        Ok(Some((head, answers)))
    }

    /// The connection to the current primary; opens one if there is none.
    async fn connection(&mut self) -> Result<&mut MultiplexedConnection, RedisError> {
        let directory = &self.context.directory;
        let generation = directory.generation();
        let open = match self.connection.take() {
            Some((made, connection)) if made == generation => connection,
            _ => directory.connect(self.partition.id).await?,
        };
        let (_, connection) = self.connection.insert((generation, open));
        Ok(connection)
    }

    async fn attempt(
        &mut self,
        call: &ScriptCall<'_>,
        waits: bool,
        term: &str,
        sent: &mut bool,
    ) -> Result<ScriptReply, RedisError> {
        let before = *sent;
        let command = self.command(call, term, before, ("EVALSHA", &call.script.sha1));
        self.connection().await?;
        *sent = true;
        let value = match self.send(&command).await {
            Err(error)
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript)
                    || is_no_evalsha(&error) =>
            {
                // The cache was flushed, or this server is new, or an operator took the command away: the script did
                // nothing. The whole script is sent at once, because another flush could come between loading and
                // calling it. The server caches it.
                let whole = self.command(call, term, before, ("EVAL", &call.script.text));
                self.send(&whole).await
            }
            answer => answer,
        };
        let value = value.inspect_err(|error| {
            if is_before_writes(error) {
                *sent = before;
            }
        })?;
        let mut reply = ScriptReply::read(value)?;
        if waits && reply.is_ok() && self.wait().await? {
            reply.reached = AckLevel::Replica;
        }
        Ok(reply)
    }

    async fn send(&mut self, command: &Cmd) -> Result<Value, RedisError> {
        let connection = self.connection().await?;
        let answer = connection.send_packed_command(command).await;
        match answer.and_then(Value::extract_error) {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                let answers = self
                    .send_asking(std::slice::from_ref(command), &error)
                    .await?;
                answers.into_iter().next().ok_or(error)
            }
            answer => answer,
        }
    }

    /// Sends commands in order, as one pipeline. Errors that a retry does not fix are among the answers.
    async fn send_all(&mut self, commands: &[Cmd]) -> Result<Vec<Value>, RedisError> {
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.add_command(command.clone());
        }
        let connection = self.connection().await?;
        let answers = connection
            .send_packed_commands(&pipeline, 0, commands.len())
            .await?;
        let mut errors = answers.iter().filter_map(|answer| match answer {
            Value::ServerError(error) => Some(RedisError::from(error.clone())),
            _ => None,
        });
        match errors.find(is_transient) {
            Some(error) if error.kind() == ErrorKind::Server(ServerErrorKind::Ask) => {
                self.send_asking(commands, &error).await
            }
            Some(error) => Err(error),
            None => Ok(answers),
        }
    }

    /// Sends commands once to the node of the Cluster that imports the partition's slot. That node has the keys
    /// already.
    async fn send_asking(
        &self,
        commands: &[Cmd],
        redirection: &RedisError,
    ) -> Result<Vec<Value>, RedisError> {
        let (address, _) = redirection
            .redirect_node()
            .ok_or_else(|| redirection.clone())?;
        let mut pipeline = redis::pipe();
        for command in commands {
            pipeline.cmd("ASKING").add_command(command.clone());
        }
        let mut connection = self.context.directory.connect_at(address).await?;
        let answers = connection
            .send_packed_commands(&pipeline, 0, 2 * commands.len())
            .await?;
        let answers = answers.into_iter().skip(1).step_by(2);
        answers.map(Value::extract_error).collect()
    }

    fn command(
        &self,
        call: &ScriptCall<'_>,
        term: &str,
        again: bool,
        (how, script): (&str, &str),
    ) -> Cmd {
        let mut command = redis::cmd(how);
        command
            .arg(script)
            .arg(call.script.keys + call.more_keys.len());
        let (context, partition) = (&self.context, &self.partition);
        for key in context
            .keys
            .for_script(partition.id, &self.name, call.campaign)
            .into_iter()
            .take(call.script.keys)
        {
            command.arg(key);
        }
        command
            .arg(call.more_keys)
            .arg(term)
            .arg(partition.min_head())
            .arg(context.script_time())
            .arg(self.calls)
            .arg(if again { "1" } else { "0" })
            .arg(call.campaign.to_string());
        (call.arguments)(&mut command);
        command
    }

    /// Waits until replicas have what the current connection wrote.
    async fn wait(&mut self) -> Result<bool, RedisError> {
        let mark = self.context.keys.mark(self.partition.id, &self.name);
        let (_, connection) = self
            .connection
            .as_mut()
            .ok_or_else(|| RedisError::from((ErrorKind::Io, "the connection was dropped")))?;
        replicas_have(connection, mark, &self.context.options).await
    }

    fn wait_commands(&self) -> [Cmd; 2] {
        let mark = self.context.keys.mark(self.partition.id, &self.name);
        wait_commands(mark, &self.context.options)
    }
}
