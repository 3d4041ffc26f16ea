//! Connections to the Redis under test, scripts, and Redis's own statistics.

use std::{
    collections::HashMap,
    net::{IpAddr, ToSocketAddrs as _},
    time::Duration,
};

use anyhow::Context as _;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue,
    IntoConnectionInfo as _, RedisResult, ServerErrorKind, aio::MultiplexedConnection,
};
use sha1_smol::Sha1;

use qiang::UsageError;

/// Time limit for one answer of Redis. The library's 500 ms would count a busy machine as a fault.
const ANSWER_MAX: Duration = Duration::from_secs(10);
pub(super) const PAGE: usize = 1_000;

#[derive(Clone)]
pub(super) struct Server {
    client: Client,
}

impl Server {
    /// Redis of a URL. It must be on loopback unless `anywhere`.
    pub(super) fn new(url: &str, anywhere: bool) -> anyhow::Result<Self> {
        let info = url
            .into_connection_info()
            .map_err(|error| UsageError::new(format!("--redis: {error}")))?;
        if let ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } =
            info.addr()
            && !anywhere
        {
            require_loopback("--redis", host, *port)?;
        }
        // Otherwise a small request waits for the acknowledgement of the previous one.
        let tcp = info.tcp_settings().clone().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp))?;
        Ok(Self { client })
    }

    pub(super) async fn connect(&self) -> anyhow::Result<Wire> {
        self.connect_with(Some(ANSWER_MAX)).await
    }

    /// Opens a connection for blocking commands.
    pub(super) async fn connect_blocking(&self) -> anyhow::Result<Wire> {
        self.connect_with(None).await
    }

    async fn connect_with(&self, answer_max: Option<Duration>) -> anyhow::Result<Wire> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(ANSWER_MAX))
            .set_response_timeout(answer_max);
        let connection = self
            .client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .with_context(|| {
                format!(
                    "cannot connect to Redis at {}",
                    self.client.get_connection_info().addr()
                )
            })?;
        Ok(Wire {
            connection,
            calls: 0,
        })
    }
}

/// Refuses a host that is not this machine, because the owner of a target must agree to a benchmark.
pub(super) fn require_loopback(option: &str, host: &str, port: u16) -> anyhow::Result<()> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let addresses = (bare, port)
        .to_socket_addrs()
        .with_context(|| format!("cannot resolve {host}"))?;
    let mut addresses = addresses.map(|address| address.ip());
    if addresses.all(|ip: IpAddr| ip.is_loopback()) {
        return Ok(());
    }
    Err(UsageError::new(format!(
        "{option}: {host} is another machine: add --anywhere if you may load it"
    ))
    .into())
}

/// Connection for one command at a time, which it counts.
pub(super) struct Wire {
    connection: MultiplexedConnection,
    calls: u64,
}

impl Wire {
    pub(super) async fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        self.calls += 1;
        command.query_async(&mut self.connection).await
    }

    /// Runs a script as its article does.
    pub(super) async fn run<T: FromRedisValue>(
        &mut self,
        script: &Script,
        keys: &[&str],
        args: &[&str],
    ) -> RedisResult<T> {
        if script.sent != Sent::Text {
            let reply = self.ask(&call("EVALSHA", &script.sha, keys, args)).await;
            let unknown = matches!(&reply, Err(error)
                if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript));
            if !unknown || script.sent == Sent::Hash {
                return reply;
            }
        }
        self.ask(&call("EVAL", &script.text, keys, args)).await
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls
    }

    /// Reads a whole list, page by page.
    pub(super) async fn list(&mut self, key: &str) -> RedisResult<Vec<String>> {
        let mut items = Vec::new();
        loop {
            let (first, last) = (items.len(), items.len() + PAGE - 1);
            let mut range = redis::cmd("LRANGE");
            let page: Vec<String> = self.ask(range.arg(key).arg(first).arg(last)).await?;
            let done = page.len() < PAGE;
            items.extend(page);
            if done {
                return Ok(items);
            }
        }
    }

    /// Reads a whole set, page by page.
    pub(super) async fn set(&mut self, key: &str) -> RedisResult<Vec<String>> {
        let mut members = Vec::new();
        let mut cursor = 0_u64;
        loop {
            let mut scan = redis::cmd("SSCAN");
            scan.arg(key).arg(cursor).arg("COUNT").arg(PAGE);
            let (next, page): (u64, Vec<String>) = self.ask(&scan).await?;
            members.extend(page);
            cursor = next;
            if cursor == 0 {
                // A set that was resized during the scan may return a member twice.
                members.sort_unstable();
                members.dedup();
                return Ok(members);
            }
        }
    }
}

fn call(command: &str, script: &str, keys: &[&str], args: &[&str]) -> Cmd {
    let mut call = redis::cmd(command);
    call.arg(script).arg(keys.len()).arg(keys).arg(args);
    call
}

/// Form in which a script is sent with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    Text,
    Hash,
    /// The hash, or the text if Redis does not know it, as Spring's `DefaultRedisScript` does.
    HashFirst,
}

/// Script in the form in which it is sent.
pub(super) struct Script {
    text: String,
    sha: String,
    sent: Sent,
}

impl Script {
    /// Script from a file of this crate. Comments are removed: the articles send none, and Redis hashes the whole text.
    pub(super) fn new(file: &str, sent: Sent) -> Self {
        let code = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with("--");
        let text = file.lines().filter(code).collect::<Vec<_>>().join("\n");
        let sha = Sha1::from(&text).digest().to_string();
        Self { text, sha, sent }
    }

    /// Loads the script into Redis, before it is called by its hash.
    pub(super) async fn load(&self, wire: &mut Wire) -> RedisResult<()> {
        let mut load = redis::cmd("SCRIPT");
        wire.ask(load.arg("LOAD").arg(&self.text)).await
    }
}

/// Work of Redis so far, from its own statistics.
#[derive(Debug, Default, Clone)]
pub(super) struct Work {
    /// Processor time of all threads, in µs.
    pub(super) cpu_us: f64,
    /// Processor time of the thread that executes commands, in µs.
    pub(super) main_cpu_us: f64,
    pub(super) calls: HashMap<String, u64>,
}

impl Work {
    pub(super) async fn sample(wire: &mut Wire) -> anyhow::Result<Self> {
        let cpu: String = wire.ask(redis::cmd("INFO").arg("cpu")).await?;
        let commands: String = wire.ask(redis::cmd("INFO").arg("commandstats")).await?;
        Self::parse(&cpu, &commands)
    }

    fn parse(cpu: &str, commands: &str) -> anyhow::Result<Self> {
        let seconds = |name: &str| field(cpu, name).and_then(|text| text.parse::<f64>().ok());
        let both = |user: &str, system: &str| Some((seconds(user)? + seconds(system)?) * 1e6);
        let cpu_us =
            both("used_cpu_user", "used_cpu_sys").context("the reply to INFO has no CPU time")?;
        let main_cpu_us =
            both("used_cpu_user_main_thread", "used_cpu_sys_main_thread").unwrap_or(cpu_us);
        let calls = commands.lines().filter_map(|line| {
            let (name, stats) = line.strip_prefix("cmdstat_")?.split_once(':')?;
            let calls = stats.strip_prefix("calls=")?.split(',').next()?;
            Some((name.to_owned(), calls.parse().ok()?))
        });
        Ok(Self {
            cpu_us,
            main_cpu_us,
            calls: calls.collect(),
        })
    }

    pub(super) fn since(&self, before: &Self) -> Self {
        let calls = self.calls.iter().map(|(name, calls)| {
            let earlier = before.calls.get(name).copied().unwrap_or(0);
            (name.clone(), calls.saturating_sub(earlier))
        });
        Self {
            cpu_us: self.cpu_us - before.cpu_us,
            main_cpu_us: self.main_cpu_us - before.main_cpu_us,
            calls: calls.collect(),
        }
    }

    pub(super) fn calls_of(&self, commands: &[&str]) -> u64 {
        let calls = |command: &&str| self.calls.get(*command).copied().unwrap_or(0);
        commands.iter().map(calls).sum()
    }
}

/// Kind and version of the server, such as `Redis 7.0.15`.
pub(super) async fn version(wire: &mut Wire) -> anyhow::Result<String> {
    let info: String = wire.ask(redis::cmd("INFO").arg("server")).await?;
    let named = |name: &str, field_name: &str| {
        field(&info, field_name).map(|version| format!("{name} {version}"))
    };
    named("Valkey", "valkey_version")
        .or_else(|| named("Redis", "redis_version"))
        .context("the reply to INFO has no version")
}

fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim_end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_sent() {
        let script = Script::new(
            "-- KEYS[1] a key\n\nlocal a = 1 -- kept\n  -- gone\nreturn a\n",
            Sent::Hash,
        );
        assert_eq!(script.text, "local a = 1 -- kept\nreturn a");
        assert_eq!(
            script.sha,
            Sha1::from("local a = 1 -- kept\nreturn a")
                .digest()
                .to_string()
        );
    }

    #[test]
    fn reads_what_redis_says_of_its_work() {
        let cpu = "# CPU\r\nused_cpu_sys:1.500000\r\nused_cpu_user:2.250000\r\n\
                   used_cpu_sys_main_thread:1.000000\r\nused_cpu_user_main_thread:2.000000\r\n";
        let stats = |calls| {
            format!("# Commandstats\r\ncmdstat_evalsha:calls={calls},usec=90,failed_calls=0\r\n")
        };
        let before = Work::parse(cpu, &stats(3)).unwrap();
        assert!((before.cpu_us - 3.75e6).abs() < 1.0 && (before.main_cpu_us - 3e6).abs() < 1.0);
        let done = Work::parse(&cpu.replace("2.250000", "2.250100"), &stats(10))
            .unwrap()
            .since(&before);
        assert!((done.cpu_us - 100.0).abs() < 0.5, "{done:?}");
        assert_eq!(done.calls_of(&["evalsha", "eval"]), 7);
        assert!(Work::parse("# CPU\r\n", "").is_err());
    }

    #[test]
    fn another_machine_needs_a_word() {
        for host in ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"] {
            require_loopback("--redis", host, 6379).unwrap();
        }
        for host in ["192.0.2.1", "0.0.0.0", "2001:db8::1"] {
            let error = require_loopback("--redis", host, 6379).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains("--anywhere"));
        }
        assert!(Server::new("redis://192.0.2.1:6379", false).is_err());
        assert!(Server::new("redis://192.0.2.1:6379", true).is_ok());
        assert!(Server::new("redis://127.0.0.1:6379", false).is_ok());
        assert!(Server::new("nonsense", true).is_err());
    }
}
