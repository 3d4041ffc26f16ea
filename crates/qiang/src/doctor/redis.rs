//! Findings about Redis: version, role, persistence, eviction, replicas, memory, clients, clock, Sentinels and slots.

use std::collections::BTreeSet;

use qiang_core::ports::Clock as _;
use qiang_embedded::SystemClock;
use qiang_redis::{RedisOptions, Topology};
use redis::{
    AsyncConnectionConfig, Client, ConnectionAddr, ConnectionInfo, FromRedisValue,
    IntoConnectionInfo as _, RedisError, Value, aio::MultiplexedConnection,
};

use super::{Findings, WAIT_MAX};

/// Oldest version of Redis. Valkey tells one that is newer.
const VERSION_MIN: u32 = 7;
/// Greatest difference of clocks: windows and holds follow the clock of Redis.
const CLOCK_MS_MAX: i64 = 1_000;
/// Fewest Sentinels of which one may be lost.
const SENTINELS_MIN: usize = 3;
const SLOTS: i64 = 16_384;

/// The primaries, with their login.
pub(super) async fn primaries(
    options: &RedisOptions,
    findings: &mut Findings,
) -> Vec<ConnectionInfo> {
    match &options.topology {
        Topology::Standalone => {
            let urls = options.urls.iter();
            urls.filter_map(|url| login(url, options).ok()).collect()
        }
        Topology::Sentinel { master } => {
            let primary = primary_of_sentinels(master, options, findings).await;
            primary.into_iter().collect()
        }
        Topology::Cluster => primaries_of_cluster(options, findings).await,
    }
}

pub(super) async fn examine(options: &RedisOptions, findings: &mut Findings) {
    for primary in primaries(options, findings).await {
        let place = place(&primary);
        match ask(primary).await {
            Ok((info, offset_ms)) => {
                judge(&place, &info, options.replicas, findings);
                clock(&place, offset_ms, findings);
            }
            Err(error) => no_answer(&place, &error, findings),
        }
    }
}

fn no_answer(place: &str, error: &RedisError, findings: &mut Findings) {
    findings.wrong(
        place,
        format!("Redis does not answer ({error}): start it, or correct redis.urls, redis.username and redis.password"),
    );
}

/// Login of a data server, like a node's.
fn login(url: &str, options: &RedisOptions) -> Result<ConnectionInfo, RedisError> {
    let info = url.into_connection_info()?;
    let mut login = info.redis_settings().clone();
    if let (Some(username), None) = (&options.username, login.username()) {
        login = login.set_username(username);
    }
    if let (Some(password), None) = (&options.password, login.password()) {
        login = login.set_password(password);
    }
    Ok(info.set_redis_settings(login))
}

/// The same login at another address.
fn at(info: &ConnectionInfo, host: String, port: u16) -> ConnectionInfo {
    let addr = match info.addr() {
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
    info.clone().set_addr(addr)
}

fn place(info: &ConnectionInfo) -> String {
    info.addr().to_string()
}

async fn dial(info: ConnectionInfo) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(WAIT_MAX))
        .set_response_timeout(Some(WAIT_MAX));
    let client = Client::open(info)?;
    client
        .get_multiplexed_async_connection_with_config(&config)
        .await
}

async fn call<T: FromRedisValue>(info: ConnectionInfo, words: &[&str]) -> Result<T, RedisError> {
    let mut connection = dial(info).await?;
    command(words).query_async(&mut connection).await
}

fn command(words: &[&str]) -> redis::Cmd {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

/// `INFO`, and the milliseconds by which the server's clock is certainly ahead; negative if it is behind.
async fn ask(info: ConnectionInfo) -> Result<(Info, i64), RedisError> {
    let mut connection = dial(info).await?;
    let before = SystemClock.now().as_millis();
    let (seconds, micros): (i64, i64) = command(&["TIME"]).query_async(&mut connection).await?;
    let after = SystemClock.now().as_millis();
    let there = seconds * 1_000 + micros / 1_000;
    let offset_ms = match there {
        ahead if ahead > after => ahead - after,
        behind if behind < before => behind - before,
        _ => 0,
    };
    let text = command(&["INFO"]).query_async(&mut connection).await?;
    Ok((Info(text), offset_ms))
}

/// Reply to `INFO`: lines of `field:value`.
struct Info(String);

impl Info {
    fn field(&self, name: &str) -> &str {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap_or("").trim()
    }

    fn number(&self, name: &str) -> u64 {
        self.field(name).parse().unwrap_or(0)
    }
}

fn judge(place: &str, info: &Info, replicas: u32, findings: &mut Findings) {
    let mut wrong = |text: String| findings.wrong(place, text);
    let version = info.field("redis_version");
    let major = version
        .split('.')
        .next()
        .and_then(|it| it.parse::<u32>().ok());
    if major.is_some_and(|major| major < VERSION_MIN) {
        wrong(format!(
            "Redis {version} is too old: use {VERSION_MIN} or later, or Valkey"
        ));
    }
    if info.field("role") == "slave" {
        wrong(
            "this server is a replica: name the primary in redis.urls, or set redis.topology"
                .to_owned(),
        );
    }
    let policy = info.field("maxmemory_policy");
    if !policy.is_empty() && policy != "noeviction" {
        wrong(format!(
            "the server may evict keys ({policy}): set maxmemory-policy noeviction"
        ));
    }
    let connected = info.number("connected_slaves");
    if info.field("aof_enabled") == "0" && connected == 0 {
        wrong("a restart loses grants: set appendonly yes, or add replicas".to_owned());
    }
    for (field, kind) in [
        ("aof_last_write_status", "append-only file"),
        ("rdb_last_bgsave_status", "snapshot"),
    ] {
        if info.field(field) == "err" {
            wrong(format!(
                "the server cannot write its {kind}: make room on its disk and read its log"
            ));
        }
    }
    if u64::from(replicas) > connected {
        wrong(format!(
            "{connected} replicas are connected, and redis.replicas = {replicas} must confirm: start replicas"
        ));
    }
    let (used, memory_max) = (info.number("used_memory"), info.number("maxmemory"));
    if memory_max > 0 && used > memory_max / 10 * 9 {
        wrong(format!(
            "{used} of {memory_max} bytes of memory are used: raise maxmemory"
        ));
    }
    let (clients, clients_max) = (info.number("connected_clients"), info.number("maxclients"));
    if clients_max > 0 && clients > clients_max / 10 * 9 {
        wrong(format!(
            "{clients} of {clients_max} clients are connected: raise maxclients"
        ));
    }
    if memory_max == 0 && !policy.is_empty() {
        findings.advise(
            place,
            "maxmemory is not set: set it below the machine's memory (docs/operate/capacity.md)",
        );
    }
    if replicas > 0 && u64::from(replicas) == connected {
        findings.advise(
            place,
            format!("all {connected} replicas must confirm, so the loss of one stops grants: add one replica"),
        );
    }
}

fn clock(place: &str, offset_ms: i64, findings: &mut Findings) {
    if offset_ms.abs() > CLOCK_MS_MAX {
        let direction = if offset_ms > 0 { "ahead of" } else { "behind" };
        findings.wrong(
            place,
            format!(
                "its clock is {} ms {direction} this machine's: synchronise both by NTP",
                offset_ms.abs()
            ),
        );
    }
}

/// Asks all Sentinels. Returns the primary that most of them name.
async fn primary_of_sentinels(
    master: &str,
    options: &RedisOptions,
    findings: &mut Findings,
) -> Option<ConnectionInfo> {
    let mut named = Vec::new();
    let mut first = None;
    for url in &options.urls {
        let Ok(info) = url.as_str().into_connection_info() else {
            continue;
        };
        let place = place(&info);
        let words = ["SENTINEL", "get-master-addr-by-name", master];
        match call::<Option<(String, u16)>>(info, &words).await {
            Ok(Some(address)) => {
                first = first.or(Some(url));
                named.push(address);
            }
            Ok(None) => findings.wrong(
                &place,
                format!("this Sentinel does not know {master}: correct redis.master"),
            ),
            Err(error) => findings.wrong(
                &place,
                format!("this Sentinel does not answer ({error}): start it"),
            ),
        }
    }
    if options.urls.len() < SENTINELS_MIN {
        findings.wrong(
            "redis.urls",
            format!(
                "{} Sentinels are named: name all of at least {SENTINELS_MIN}",
                options.urls.len()
            ),
        );
    }
    let count = |address: &(String, u16)| named.iter().filter(|it| *it == address).count();
    let address = named.iter().max_by_key(|address| count(address))?;
    if count(address) * 2 <= options.urls.len() {
        findings.wrong(
            "redis.urls",
            "no primary is named by more than half of the Sentinels: start the Sentinels",
        );
        return None;
    }
    // TLS is as at the Sentinels, the login is of the options.
    let sentinel = first?.as_str().into_connection_info().ok()?;
    let there = at(&sentinel, address.0.clone(), address.1);
    let mut login = redis::RedisConnectionInfo::default();
    if let Some(username) = &options.username {
        login = login.set_username(username);
    }
    if let Some(password) = &options.password {
        login = login.set_password(password);
    }
    Some(there.set_redis_settings(login))
}

/// Asks the first node that answers for the primaries of all slots.
async fn primaries_of_cluster(
    options: &RedisOptions,
    findings: &mut Findings,
) -> Vec<ConnectionInfo> {
    for url in &options.urls {
        let Ok(info) = login(url, options) else {
            continue;
        };
        match call::<Value>(info.clone(), &["CLUSTER", "SLOTS"]).await {
            Ok(slots) => {
                let (served, primaries) = slots_of(&slots);
                if served < SLOTS {
                    let place = place(&info);
                    findings.wrong(
                        &place,
                        format!("{served} of {SLOTS} slots have a primary: repair the Cluster"),
                    );
                }
                return primaries
                    .into_iter()
                    .map(|(host, port)| at(&info, host, port))
                    .collect();
            }
            Err(error) => no_answer(&place(&info), &error, findings),
        }
    }
    Vec::new()
}

/// Number of served slots, and the primaries, in a reply to `CLUSTER SLOTS`.
fn slots_of(reply: &Value) -> (i64, BTreeSet<(String, u16)>) {
    let (mut served, mut primaries) = (0, BTreeSet::new());
    let ranges = match reply {
        Value::Array(ranges) => ranges.as_slice(),
        _ => &[],
    };
    for range in ranges {
        let Value::Array(range) = range else { continue };
        let [Value::Int(from), Value::Int(to), Value::Array(primary), ..] = range.as_slice() else {
            continue;
        };
        let [Value::BulkString(host), Value::Int(port), ..] = primary.as_slice() else {
            continue;
        };
        let port = u16::try_from(*port).unwrap_or_default();
        primaries.insert((String::from_utf8_lossy(host).into_owned(), port));
        served += to - from + 1;
    }
    (served, primaries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Severity;

    const WELL: &str = "redis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\naof_enabled:1\r\n\
        connected_slaves:2\r\nused_memory:10\r\nmaxmemory:100\r\nconnected_clients:3\r\nmaxclients:10000\r\n\
        aof_last_write_status:ok\r\nrdb_last_bgsave_status:ok\r\n";

    fn found(text: String, replicas: u32) -> Vec<(Severity, String)> {
        let mut findings = Findings::default();
        judge("x", &Info(text), replicas, &mut findings);
        findings
            .0
            .into_iter()
            .map(|it| (it.severity, it.text))
            .collect()
    }

    #[test]
    fn each_field_that_is_wrong_is_one_finding() {
        assert_eq!(found(WELL.to_owned(), 1), []);
        for (field, remedy) in [
            ("redis_version:6.2.9", "use 7 or later"),
            ("role:slave", "name the primary"),
            (
                "maxmemory_policy:allkeys-lru",
                "set maxmemory-policy noeviction",
            ),
            ("used_memory:91", "raise maxmemory"),
            ("connected_clients:9500", "raise maxclients"),
            ("aof_last_write_status:err", "append-only file"),
            ("rdb_last_bgsave_status:err", "snapshot"),
        ] {
            // The first of two lines counts.
            let found = found(format!("{field}\r\n{WELL}"), 1);
            assert_eq!(found.len(), 1, "{field}: {found:?}");
            assert_eq!(found[0].0, Severity::Wrong);
            assert!(found[0].1.contains(remedy), "{found:?}");
        }
        let alone = format!("aof_enabled:0\r\nconnected_slaves:0\r\n{WELL}");
        assert!(
            found(alone.clone(), 0)[0]
                .1
                .contains("a restart loses grants")
        );
        assert_eq!(found(alone, 1).len(), 2);
        assert!(
            found(WELL.to_owned(), 3)[0]
                .1
                .contains("2 replicas are connected")
        );
        let advice = found(WELL.to_owned(), 2);
        assert_eq!(advice[0].0, Severity::Advice);
        let unlimited = found(format!("maxmemory:0\r\n{WELL}"), 1);
        assert_eq!(unlimited[0].0, Severity::Advice);
    }

    #[test]
    fn a_clock_far_from_this_one_is_a_finding() {
        for (offset_ms, words) in [
            (0, ""),
            (-1_000, ""),
            (2_000, "2000 ms ahead of"),
            (-1_500, "1500 ms behind"),
        ] {
            let mut findings = Findings::default();
            clock("x", offset_ms, &mut findings);
            let text = findings.0.first().map_or("", |it| it.text.as_str());
            assert_eq!(text.is_empty(), words.is_empty(), "{text}");
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn primaries_and_slots_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let server =
            |host: &str, port| Value::Array(vec![text(host), Value::Int(port), text("id")]);
        let range = |from, to, host: &str| {
            Value::Array(vec![
                Value::Int(from),
                Value::Int(to),
                server(host, 7),
                server("replica", 8),
            ])
        };
        let reply = Value::Array(vec![
            range(0, 99, "a"),
            range(200, 299, "b"),
            range(100, 100, "a"),
        ]);
        let (served, primaries) = slots_of(&reply);
        let expected = [("a".to_owned(), 7), ("b".to_owned(), 7)];
        assert_eq!((served, primaries), (201, expected.into()));
    }
}
