//! Faults of a drill. Each is made by commands of Redis, of the database or by signals, and undoes itself.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail};
use qiang::config::{NodeConfig, TopologyKind};
use qiang_core::database::DatabaseKind;
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, FromRedisValue,
    IntoConnectionInfo as _,
};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection as _, MySqlConnection, PgConnection};

/// Time for which a fault lasts.
const LASTS: Duration = Duration::from_secs(3);
/// Maximum time of a failover, and interval of looks.
const FAILOVER_MAX: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Maximum time of the search for the drill's keys. A staging set-up has few others.
const FOUND_MAX: Duration = Duration::from_secs(20);
/// Maximum wait for an answer of a server.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// A fault that a drill makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    Connections,
    Scripts,
    Pause,
    Memory,
    Ledger,
    Node,
    Failover,
    Empty,
}

/// Servers and processes that faults hit.
pub(super) struct Targets<'a> {
    pub(super) config: &'a NodeConfig,
    /// Login for commands of administrators, in place of the configuration's.
    pub(super) admin: Option<(String, String)>,
    /// Processes on this machine.
    pub(super) pids: Vec<i32>,
    pub(super) allow_data_loss: bool,
}

impl Fault {
    pub(super) const ALL: [Self; 8] = [
        Self::Connections,
        Self::Scripts,
        Self::Pause,
        Self::Memory,
        Self::Ledger,
        Self::Node,
        Self::Failover,
        Self::Empty,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Scripts => "scripts",
            Self::Pause => "pause",
            Self::Memory => "memory",
            Self::Ledger => "ledger",
            Self::Node => "node",
            Self::Failover => "failover",
            Self::Empty => "empty",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }

    /// Effect of the fault, for the report.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Connections => "all connections to Redis are closed",
            Self::Scripts => "Redis forgets all scripts",
            Self::Pause => "Redis answers nothing for 3 s",
            Self::Memory => "Redis is at maxmemory for 3 s",
            Self::Ledger => "all sessions of the ledger's database are ended",
            Self::Node => "a node is frozen for 3 s",
            Self::Failover => "a replica becomes the primary",
            Self::Empty => "Redis loses all data",
        }
    }

    /// Reason why the fault cannot be made here; `None` if it can.
    pub(super) fn lacks(self, targets: &Targets<'_>) -> Option<&'static str> {
        let topology = targets.config.redis.topology;
        match self {
            Self::Ledger if targets.config.ledger.url().is_none() => Some("the ledger is a file"),
            Self::Node if targets.pids.is_empty() => Some("name a node's process by --node-pid"),
            Self::Failover if topology == TopologyKind::Standalone => {
                Some("a standalone Redis has no failover")
            }
            Self::Empty if !targets.allow_data_loss => Some("needs --allow-data-loss"),
            _ => None,
        }
    }

    /// Makes the fault. Returns when it is over, and what it changed is undone.
    ///
    /// # Errors
    /// If a server refuses.
    pub(super) async fn make(self, targets: &Targets<'_>) -> anyhow::Result<()> {
        match self {
            Self::Connections => {
                let kill = ["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"];
                targets.each_primary(&kill).await
            }
            Self::Scripts => targets.each_primary(&["SCRIPT", "FLUSH", "SYNC"]).await,
            Self::Pause => {
                let lasts_ms = LASTS.as_millis().to_string();
                let pause = ["CLIENT", "PAUSE", &lasts_ms, "ALL"];
                targets.each_primary(&pause).await?;
                tokio::time::sleep(LASTS).await;
                Ok(())
            }
            Self::Memory => full(targets).await,
            Self::Ledger => end_sessions(targets).await,
            Self::Node => freeze(targets.pids[0]).await,
            Self::Failover => fail_over(targets).await,
            Self::Empty => targets.each_primary(&["FLUSHALL"]).await,
        }
    }
}

impl Targets<'_> {
    /// The primaries of this moment, with the login for faults.
    async fn primaries(&self) -> anyhow::Result<Vec<ConnectionInfo>> {
        let primaries = qiang::doctor::primaries(self.config).await?;
        let with_login = |primary: ConnectionInfo| match &self.admin {
            None => primary,
            Some((user, password)) => {
                let login = primary.redis_settings().clone();
                let login = login.set_username(user).set_password(password);
                primary.set_redis_settings(login)
            }
        };
        Ok(primaries.into_iter().map(with_login).collect())
    }

    /// Refuses a configuration of another set-up than that of the nodes: its Redis and its ledger must have the sale.
    ///
    /// # Errors
    /// If one of them does not have it, or does not answer.
    pub(super) async fn check_has(&self, sale: &str) -> anyhow::Result<()> {
        let over = Instant::now() + FOUND_MAX;
        let mut found = false;
        for primary in self.primaries().await? {
            found |= has_key_of(primary, (&self.config.redis.prefix, sale), over).await?;
        }
        if !found {
            bail!(
                "the Redis of the configuration does not have the drill's sale: it is not that of --node"
            );
        }
        let Some(url) = self.config.ledger.url() else {
            return Ok(());
        };
        let known: Option<String> = match DatabaseKind::from_url(url) {
            Some(DatabaseKind::Postgres) => {
                let mut ledger = PgConnection::connect(url).await?;
                let find = "SELECT id FROM campaigns WHERE id = $1";
                let find = sqlx::query_scalar(find).bind(sale);
                find.fetch_optional(&mut ledger).await?
            }
            Some(DatabaseKind::MySql) => {
                let mut ledger = MySqlConnection::connect(url).await?;
                let find = "SELECT id FROM campaigns WHERE id = ?";
                let find = sqlx::query_scalar(find).bind(sale);
                find.fetch_optional(&mut ledger).await?
            }
            None => bail!("ledger.url names no known database"),
        };
        match known {
            Some(_) => Ok(()),
            None => bail!(
                "the ledger of the configuration does not have the drill's sale: it is not that of --node"
            ),
        }
    }

    async fn each_primary(&self, words: &[&str]) -> anyhow::Result<()> {
        for primary in self.primaries().await? {
            let _: redis::Value = call(primary, words).await?;
        }
        Ok(())
    }
}

/// Whether a server has a key of a campaign with this prefix.
async fn has_key_of(
    primary: ConnectionInfo,
    (prefix, campaign): (&str, &str),
    over: Instant,
) -> anyhow::Result<bool> {
    let (pattern, mut cursor) = (format!("*{campaign}*"), "0".to_owned());
    loop {
        let scan = ["SCAN", &cursor, "MATCH", &pattern, "COUNT", "10000"];
        let (next, keys): (String, Vec<String>) = call(primary.clone(), &scan).await?;
        if keys.iter().any(|key| key.starts_with(prefix)) {
            return Ok(true);
        }
        if next == "0" {
            return Ok(false);
        }
        if Instant::now() >= over {
            bail!("the Redis of the configuration has too many keys for a staging set-up");
        }
        cursor = next;
    }
}

/// Calls a server on a connection of its own.
async fn call<T: FromRedisValue>(server: ConnectionInfo, words: &[&str]) -> anyhow::Result<T> {
    let place = server.addr().to_string();
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(ANSWER_MAX))
        .set_response_timeout(Some(ANSWER_MAX));
    let answer = async {
        let client = Client::open(server)?;
        let mut connection = client
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query_async(&mut connection).await
    };
    let answer: Result<T, redis::RedisError> = answer.await;
    answer.with_context(|| format!("{} at {place}", words.join(" ")))
}

/// Limits each primary to the memory that it uses, for a while.
async fn full(targets: &Targets<'_>) -> anyhow::Result<()> {
    let get = ["CONFIG", "GET", "maxmemory"];
    let mut before = Vec::new();
    for primary in targets.primaries().await? {
        let (_, limit): (String, String) = call(primary.clone(), &get).await?;
        before.push((primary, limit));
    }
    let mut limited = Ok(());
    for (primary, _) in &before {
        // A server never uses as little as this.
        let limit: anyhow::Result<redis::Value> =
            call(primary.clone(), &["CONFIG", "SET", "maxmemory", "1"]).await;
        limited = limited.and(limit.map(drop));
    }
    if limited.is_ok() {
        tokio::time::sleep(LASTS).await;
    }
    let mut restored = Ok(());
    for (primary, limit) in before {
        let put_back = put_back(primary, &limit).await;
        // Every server is tried, and the first failure is named.
        restored = restored.and(put_back);
    }
    restored.and(limited)
}

/// Restores the limit of a server, with some attempts.
async fn put_back(primary: ConnectionInfo, limit: &str) -> anyhow::Result<()> {
    let over = Instant::now() + FAILOVER_MAX;
    loop {
        let set = ["CONFIG", "SET", "maxmemory", limit];
        let restored: anyhow::Result<redis::Value> = call(primary.clone(), &set).await;
        if restored.is_ok() || Instant::now() >= over {
            let place = primary.addr().to_string();
            let why = || format!("maxmemory of {place} is not restored: set it to {limit}");
            return restored.map(drop).with_context(why);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Ends all other sessions of the ledger's user in its database.
async fn end_sessions(targets: &Targets<'_>) -> anyhow::Result<()> {
    let url = targets
        .config
        .ledger
        .url()
        .context("the ledger is a file")?;
    match DatabaseKind::from_url(url) {
        Some(DatabaseKind::Postgres) => {
            let mut own = PgConnection::connect(url).await?;
            let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()";
            sqlx::query(end).execute(&mut own).await?;
        }
        Some(DatabaseKind::MySql) => {
            let mut own = MySqlConnection::connect(url).await?;
            let list = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
                WHERE db = DATABASE() AND user = SUBSTRING_INDEX(USER(), '@', 1) AND id <> CONNECTION_ID()";
            let sessions: Vec<i64> = sqlx::query_scalar(list).fetch_all(&mut own).await?;
            for session in sessions {
                let kill = sqlx::AssertSqlSafe(format!("KILL {session}"));
                // It may have ended already.
                drop(sqlx::query(kill).execute(&mut own).await);
            }
        }
        None => bail!("ledger.url names no known database"),
    }
    Ok(())
}

/// Stops a process for a while.
async fn freeze(pid: i32) -> anyhow::Result<()> {
    let process = Pid::from_raw(pid).context("--node-pid is 0")?;
    kill_process(process, Signal::STOP).with_context(|| format!("stop process {pid}"))?;
    tokio::time::sleep(LASTS).await;
    kill_process(process, Signal::CONT)
        .with_context(|| format!("process {pid} is stopped: run `kill -CONT {pid}`"))
}

/// Fails over, and waits until another server is the primary.
async fn fail_over(targets: &Targets<'_>) -> anyhow::Result<()> {
    let places = |primaries: Vec<ConnectionInfo>| -> BTreeSet<String> {
        primaries.iter().map(|it| it.addr().to_string()).collect()
    };
    let before = places(targets.primaries().await?);
    request_failover(targets).await?;
    let over = Instant::now() + FAILOVER_MAX;
    while Instant::now() < over {
        // During the failover some servers do not answer.
        if let Ok(primaries) = targets.primaries().await
            && places(primaries.clone()) != before
            && all_are_primaries(primaries).await
        {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    bail!("no other server became the primary")
}

async fn all_are_primaries(servers: Vec<ConnectionInfo>) -> bool {
    for server in servers {
        let info: anyhow::Result<String> = call(server, &["INFO", "replication"]).await;
        if !info.is_ok_and(|info| info.contains("role:master")) {
            return false;
        }
    }
    true
}

/// Asks the Sentinels, or a replica of a Cluster, for a failover.
async fn request_failover(targets: &Targets<'_>) -> anyhow::Result<()> {
    let redis = &targets.config.redis;
    if redis.topology == TopologyKind::Sentinel {
        let mut refused = None;
        for url in redis.urls.split(',') {
            let sentinel = url.trim().into_connection_info()?;
            match call::<redis::Value>(sentinel, &["SENTINEL", "FAILOVER", &redis.master]).await {
                Ok(_) => return Ok(()),
                Err(error) => refused = Some(error),
            }
        }
        return Err(refused.context("redis.urls names no Sentinel")?);
    }
    let mut lacking = None;
    for primary in targets.primaries().await? {
        let id: String = call(primary.clone(), &["CLUSTER", "MYID"]).await?;
        let replicas: Vec<String> = call(primary.clone(), &["CLUSTER", "REPLICAS", &id]).await?;
        let address = replicas.iter().find_map(|line| address_of(line));
        let Some((host, port)) = address else {
            lacking = Some(primary.addr().to_string());
            continue;
        };
        let replica = at(primary, host, port);
        let _: redis::Value = call(replica, &["CLUSTER", "FAILOVER"]).await?;
        return Ok(());
    }
    bail!("{} has no replica", lacking.unwrap_or_default())
}

/// Address in a line of `CLUSTER REPLICAS`: `id host:port@bus …`.
fn address_of(line: &str) -> Option<(String, u16)> {
    let place = line.split(' ').nth(1)?.split('@').next()?;
    let (host, port) = place.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// The same login at another address.
fn at(server: ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match server.addr() {
        ConnectionAddr::TcpTls {
            insecure,
            tls_params,
            ..
        } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    server.set_addr(addr)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_replica_is_read() {
        let line = "07c3 127.0.0.1:30004@31004 slave e7d1 0 1426238317239 4 connected";
        assert_eq!(address_of(line), Some(("127.0.0.1".to_owned(), 30_004)));
        assert_eq!(address_of("none"), None);
        for fault in Fault::ALL {
            assert_eq!(Fault::from_name(fault.name()), Some(fault));
        }
    }
}
