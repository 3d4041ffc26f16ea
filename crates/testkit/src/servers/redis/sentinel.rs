//! A primary with two replicas, watched by three Sentinels that promote a replica when the primary is down.

use std::net::SocketAddr;
use std::time::Duration;

use super::server::in_parallel;
use super::{Login, Options, Reply, Server};
use crate::servers::wait_for;

const MASTER: &str = "qiang";
const REPLICAS: usize = 2;
const SENTINELS: usize = 3;
const QUORUM: usize = 2;

/// A primary that is silent for this long counts as down. The third Sentinel is slower. If all three were candidates at
/// once, each would vote for itself, and the election would take seconds.
const DOWN_AFTER_MS: [u32; SENTINELS] = [500, 500, 1_500];

/// A failed failover is retried after twice this time.
const FAILOVER_MS: u32 = 2_000;

/// Sentinels learn of each other from messages every 2 s, and of replicas from requests every 10 s. That is too slow
/// for tests. The period of pings stays the same: a replica is not promoted if its last reply is older than five of its
/// periods.
const SENTINEL_PERIODS: [&str; 6] = [
    "PUBLISH-PERIOD",
    "100",
    "INFO-PERIOD",
    "1000",
    "ASK-PERIOD",
    "100",
];

/// Maximum time for the Sentinels to see all servers, and for a failover.
const WATCH_MAX: Duration = Duration::from_secs(60);

/// Three servers and three Sentinels.
#[derive(Debug)]
pub struct SentinelSet {
    servers: Vec<Server>,
    sentinels: Vec<Server>,
}

impl SentinelSet {
    /// Starts everything and waits until every Sentinel sees the replicas and the other Sentinels.
    pub fn start(options: &Options) -> Self {
        let primary = Server::start(options, &[]);
        let port = primary.addr().port();
        let following = [format!("replicaof 127.0.0.1 {port}")];
        let mut servers = vec![primary];
        servers.extend(Server::start_all(options, REPLICAS, &following));
        let login = options.login.as_ref();
        let start = |down_after_ms| start_sentinel(&watching(port, down_after_ms, login));
        let sentinels = in_parallel(DOWN_AFTER_MS, start);
        let set = Self { servers, sentinels };
        set.wait_until_watched();
        set
    }

    /// Waits until every Sentinel sees a primary, two replicas in sync, and two other Sentinels. Only then can a
    /// failover happen. All servers and Sentinels must run.
    pub fn wait_until_watched(&self) {
        let what = "the Sentinels to see all servers and each other";
        wait_for(what, WATCH_MAX, || self.is_watched().then_some(()));
        let primary = self.primary();
        wait_for("the replicas to acknowledge", WATCH_MAX, || {
            primary.is_acknowledged_by(REPLICAS).then_some(())
        });
    }

    /// Whether every Sentinel sees a primary, two replicas in sync, and two other Sentinels now.
    pub fn is_watched(&self) -> bool {
        self.sentinels.iter().all(sees_everything)
    }

    /// Shortens the periods of a restarted Sentinel again, because it does not store them.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn make_quick(&self, index: usize) {
        make_quick(&self.sentinels[index]);
    }

    /// The name of the primary in the Sentinels.
    pub fn master_name(&self) -> &'static str {
        MASTER
    }

    /// URLs of the Sentinels.
    pub fn sentinel_urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Server::url).collect()
    }

    /// The Sentinels, for tests that kill or halt them.
    pub fn sentinels(&self) -> &[Server] {
        &self.sentinels
    }

    /// The three servers. The first one is the primary at the start.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The primary that most Sentinels name, up or down. Waits while they disagree.
    pub fn primary_addr(&self) -> SocketAddr {
        wait_for("the Sentinels to agree", WATCH_MAX, || self.agreed_addr())
    }

    /// The server that most Sentinels name as the primary.
    pub fn primary(&self) -> &Server {
        let addr = self.primary_addr();
        let known = self.servers.iter().find(|server| server.addr() == addr);
        known.unwrap_or_else(|| panic!("the Sentinels name an unknown server: {addr}"))
    }

    /// The primary's process id.
    pub fn primary_pid(&self) -> u32 {
        self.primary().pid()
    }

    /// Kills the primary and returns it for a restart.
    pub fn kill_primary(&self) -> &Server {
        let primary = self.primary();
        primary.kill();
        primary
    }

    /// Waits until most Sentinels name another primary than `old`, and it serves as a primary.
    pub fn wait_for_failover(&self, old: &Server) -> &Server {
        wait_for("a failover", WATCH_MAX, || {
            let addr = self.agreed_addr().filter(|addr| *addr != old.addr())?;
            let new = self.servers.iter().find(|server| server.addr() == addr)?;
            let role = new.info("replication", "role")?;
            (role == "master").then_some(new)
        })
    }

    /// The primary that most Sentinels name now; `None` while they disagree.
    pub fn agreed_addr(&self) -> Option<SocketAddr> {
        let named: Vec<SocketAddr> = self.sentinels.iter().filter_map(named_by).collect();
        let votes = |addr: &SocketAddr| named.iter().filter(|other| *other == addr).count();
        named.iter().find(|addr| votes(addr) >= QUORUM).copied()
    }
}

fn watching(port: u16, down_after_ms: u32, login: Option<&Login>) -> Vec<String> {
    let mut lines = vec![
        format!("sentinel monitor {MASTER} 127.0.0.1 {port} {QUORUM}"),
        format!("sentinel down-after-milliseconds {MASTER} {down_after_ms}"),
        format!("sentinel failover-timeout {MASTER} {FAILOVER_MS}"),
    ];
    if let Some(Login { user, password }) = login {
        lines.push(format!("sentinel auth-user {MASTER} {user}"));
        lines.push(format!("sentinel auth-pass {MASTER} {password}"));
    }
    lines
}

fn start_sentinel(watching: &[String]) -> Server {
    let sentinel = Server::start_sentinel(watching);
    make_quick(&sentinel);
    sentinel
}

fn make_quick(sentinel: &Server) {
    let debug = [&["SENTINEL", "DEBUG"][..], &SENTINEL_PERIODS].concat();
    let quick = sentinel.call(&debug);
    quick.unwrap_or_else(|error| panic!("make a Sentinel quick: {error}"));
}

fn named_by(sentinel: &Server) -> Option<SocketAddr> {
    let request = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER];
    let reply = sentinel.call(&request).ok()?;
    let [host, port] = reply.array() else {
        return None;
    };
    format!("{}:{}", host.text()?, port.text()?).parse().ok()
}

fn sees_everything(sentinel: &Server) -> bool {
    let all_have = |list: &str, count: usize, expected: &[(&str, &str)]| {
        let Ok(reply) = sentinel.call(&["SENTINEL", list, MASTER]) else {
            return false;
        };
        let as_expected = |one: &Reply| {
            expected
                .iter()
                .all(|(name, value)| one.field(name).and_then(Reply::text) == Some(value))
        };
        reply.array().len() == count && reply.array().iter().all(as_expected)
    };
    let quorum = || sentinel.call(&["SENTINEL", "CKQUORUM", MASTER]).is_ok();
    let primary = sentinel.call(&["SENTINEL", "MASTER", MASTER]);
    let is_up = |reply: Reply| reply.field("flags").and_then(Reply::text) == Some("master");
    let synced = [("flags", "slave"), ("master-link-status", "ok")];
    primary.is_ok_and(is_up)
        && all_have("REPLICAS", REPLICAS, &synced)
        && all_have("SENTINELS", SENTINELS - 1, &[("flags", "sentinel")])
        && quorum()
}
