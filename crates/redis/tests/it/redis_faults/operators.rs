//! Commands of operators on a live Redis, under load. Each user gets one final answer, nothing is lost or doubled, and
//! grants resume when the cause is gone.

use std::time::Duration;

use qiang_core::{ports::EventLog as _, split::SplitRule};
use qiang_redis::PartitionHealth;
use qiang_testkit::{
    campaign::{red_packet, sale},
    servers::{
        Ballast,
        redis::{Options as ServerOptions, Standalone},
    },
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, grant_of, name, node, open_now, options, probe, wait_for,
};

/// Claims before and after a mistake.
const CLAIMS: usize = 200;
const USERS: usize = 50;
const STOCK: u32 = 50_000;
/// Space for the append-only file.
pub(super) const DISK_BYTES: u64 = 16 << 20;
/// Duration of a mistake: longer than the retries of a call.
const MISTAKE: Duration = Duration::from_millis(1_500);

struct Live {
    server: Standalone,
    harness: Harness,
}

impl Live {
    fn call(&self, words: &[&str]) {
        let done = blocking(|| self.server.primary().call(words));
        done.unwrap_or_else(|error| panic!("{words:?}: {error}"));
    }

    fn set(&self, name: &str, value: &str) {
        self.call(&["CONFIG", "SET", name, value]);
    }

    /// Fills the server's small disk.
    fn fill_disk(&self) -> Ballast {
        let primary = self.server.primary();
        Ballast::fill(primary.pid(), primary.resources().folder())
    }

    /// Disconnects all clients, so that they connect again.
    fn kill_clients(&self) {
        self.call(&["CLIENT", "KILL", "TYPE", "normal"]);
    }

    /// Whether all partitions of both nodes grant.
    async fn grants(&self) -> bool {
        for node in &self.harness.nodes {
            if probe(node).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Waits until all partitions of both nodes report why they grant nothing.
    async fn until_unreachable(&self, why: &str) {
        for node in &self.harness.nodes {
            for partition in node.partitions() {
                wait_for(why, || {
                    matches!(node.state(partition), PartitionHealth::Unreachable { reason }
                        if reason.contains(why))
                })
                .await;
            }
        }
    }
}

async fn lasts() {
    tokio::time::sleep(MISTAKE).await;
}

/// Claims packets and orders before, during and after a mistake. All claims are granted in the end.
async fn under_load(servers: ServerOptions, mistake: impl AsyncFnOnce(&Live)) {
    let server = blocking(|| Standalone::start(&servers));
    let harness = Harness::new(options(server.url())).await;
    let mut live = Live { server, harness };
    let many = open_now(sale(STOCK)).limit(STOCK);
    let many = live.harness.open(many).await;
    let split = SplitRule::DoubleAverage { min: 1 };
    let packet = open_now(red_packet(10_000_000, STOCK, split));
    let packet = live.harness.open(packet).await;
    let made = move |n: usize| {
        Some(match n % 2 {
            0 => packet.one(&name(n / 4)),
            _ => many.keyed(&name(n % USERS), 2, &format!("key-{}", n / 4)),
        })
    };
    let load = live.harness.start(made, SHORT_PAUSE);
    load.more(CLAIMS).await;
    mistake(&live).await;
    load.more(CLAIMS).await;
    let answers = load.stop().await;
    let granted = answers
        .iter()
        .filter(|(_, claimed)| grant_of(claimed).is_some());
    assert_eq!(granted.count(), answers.len());
    live.harness.audit().await;
    live.harness.replay(&answers).await;
    for node in &live.harness.nodes {
        assert_eq!(probe(node).await, Ok(()));
    }
}

fn plain() -> ServerOptions {
    ServerOptions::new()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_clients_connect_again() {
    under_load(plain(), async |live| {
        for _ in 0..10 {
            live.kill_clients();
            tokio::time::sleep(MISTAKE / 10).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_sleeps_is_waited_for() {
    under_load(plain().line("enable-debug-command yes"), async |live| {
        for _ in 0..3 {
            live.call(&["DEBUG", "SLEEP", "0.7"]);
        }
        live.call(&["CLIENT", "PAUSE", "1500", "ALL"]);
        lasts().await;
    })
    .await;
}

/// Redis closes connections that are idle for a second. The next call connects again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_that_redis_closes_are_made_again() {
    under_load(plain(), async |live| {
        live.set("timeout", "1");
        tokio::time::sleep(2 * MISTAKE).await;
        for node in &live.harness.nodes {
            assert_eq!(probe(node).await, Ok(()));
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_set_live_is_named() {
    under_load(plain(), async |live| {
        live.set("requirepass", "another");
        let auth: &[&str] = &["AUTH", "another"];
        blocking(|| {
            let kill: &[&str] = &["CLIENT", "KILL", "TYPE", "normal"];
            live.server.primary().calls(&[auth, kill]).unwrap()
        });
        live.until_unreachable("uthentication").await;
        blocking(|| {
            let unset: &[&str] = &["CONFIG", "SET", "requirepass", ""];
            live.server.primary().calls(&[auth, unset]).unwrap()
        });
    })
    .await;
}

/// The nodes' user loses the permission for a command and gets it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_taken_and_given_back_loses_nothing() {
    for (right, named) in [
        ("evalsha", None),
        ("info", Some("'info' command")),
        ("time", Some("can't run this command")),
    ] {
        let users = "user default off\nuser root on >secret ~* &* +@all";
        under_load(plain().acl(users, "root", "secret"), async |live| {
            live.call(&["ACL", "SETUSER", "root", &format!("-{right}")]);
            match named {
                Some(named) => live.until_unreachable(named).await,
                // The text of each script is sent instead.
                None => assert!(live.grants().await),
            }
            lasts().await;
            live.call(&["ACL", "SETUSER", "root", &format!("+{right}")]);
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_refused_are_tried_again() {
    under_load(plain(), async |live| {
        // One connection, which for a while is the only one.
        let words: [&[&str]; 4] = [
            &["CONFIG", "SET", "maxclients", "1"],
            &["CLIENT", "KILL", "TYPE", "normal"],
            &["BLPOP", "nothing", "0.8"],
            &["CONFIG", "SET", "maxclients", "1000"],
        ];
        blocking(|| live.server.primary().calls(&words).unwrap());
    })
    .await;
}

/// Writes wait for a replica that does not exist.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_when_replicas_are_no_longer_asked_for() {
    under_load(plain(), async |live| {
        live.set("min-replicas-to-write", "1");
        live.until_unreachable("NOREPLICAS").await;
        lasts().await;
        live.set("min-replicas-to-write", "0");
    })
    .await;
}

/// An operator makes the primary a replica of a server that does not exist, and undoes that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_made_a_replica_by_mistake_goes_on() {
    under_load(plain(), async |live| {
        live.call(&["REPLICAOF", "127.0.0.1", "1"]);
        lasts().await;
        live.call(&["REPLICAOF", "NO", "ONE"]);
    })
    .await;
}

/// Limits of a server are far too low for a batch, and are raised again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_buffers_lose_nothing() {
    under_load(plain(), async |live| {
        live.set("client-output-buffer-limit", "normal 1 0 0");
        live.set("maxmemory-clients", "1");
        live.set("busy-reply-threshold", "1");
        lasts().await;
        live.set("client-output-buffer-limit", "normal 0 0 0");
        live.set("maxmemory-clients", "0");
        live.set("busy-reply-threshold", "5000");
    })
    .await;
}

/// Scripts are killed all the time. Redis does not kill one that has written.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_scripts_are_called_again() {
    under_load(plain(), async |live| {
        for _ in 0..200 {
            // Usually, no script is running.
            drop(blocking(|| live.server.primary().call(&["SCRIPT", "KILL"])));
            tokio::time::sleep(MISTAKE / 200).await;
        }
    })
    .await;
}

/// An operator runs `SHUTDOWN NOSAVE`, and a supervisor starts the server again. Its append-only file has everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_shut_down_by_hand_goes_on() {
    under_load(plain().fsync_always(), async |live| {
        // The connection ends without an answer.
        drop(blocking(|| {
            live.server.primary().call(&["SHUTDOWN", "NOSAVE"])
        }));
        lasts().await;
        blocking(|| live.server.start_again());
    })
    .await;
}

/// The append-only file is switched off and on while users claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_only_file_may_be_switched() {
    under_load(plain().fsync_always(), async |live| {
        live.set("appendonly", "no");
        lasts().await;
        live.set("appendonly", "yes");
    })
    .await;
}

/// Nodes work without `EVALSHA`, and send the text of each script instead. If another command that they need is
/// renamed, its partitions grant nothing and report that command.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renamed_command_is_named() {
    for (command, named) in [
        ("INFO", Some("INFO")),
        ("TIME", Some("Unknown Redis command")),
        ("EVALSHA", None),
    ] {
        let line = format!("rename-command {command} \"\"");
        let server = blocking(|| Standalone::start(&plain().line(&line)));
        let engine = node(&options(server.url()), &[]).await;
        for partition in engine.partitions() {
            wait_for(command, || match (engine.state(partition), named) {
                (PartitionHealth::Unreachable { reason }, Some(named)) => reason.contains(named),
                (state, None) => state == PartitionHealth::Open,
                _ => false,
            })
            .await;
        }
        engine.close().await;
        if named.is_none() {
            let mut harness = Harness::new(options(server.url())).await;
            let target = harness.open(open_now(sale(STOCK))).await;
            let answers = harness.ask_all(vec![target.one("ann")]).await;
            assert!(grant_of(&answers[0].1).is_some());
        }
    }
}

/// `SWAPDB` replaces the nodes' database by an empty one, and is undone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_were_swapped_grant_nothing_until_they_are_swapped_back() {
    under_load(plain(), async |live| {
        live.call(&["SWAPDB", "0", "1"]);
        for node in &live.harness.nodes {
            for partition in node.partitions() {
                wait_for("a halt", || {
                    matches!(node.state(partition), PartitionHealth::Halted { .. })
                })
                .await;
            }
        }
        live.call(&["SWAPDB", "0", "1"]);
    })
    .await;
}

/// The disk of the append-only file is full for a while. Redis refuses writes until it can store them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_append_only_file_is_named() {
    let servers = plain().fsync_everysec().small_disk(DISK_BYTES);
    under_load(servers, async |live| {
        let ballast = blocking(|| live.fill_disk());
        live.until_unreachable("MISCONF").await;
        lasts().await;
        blocking(|| ballast.remove());
    })
    .await;
}

/// With `appendfsync always`, Redis acknowledges no write that it cannot store, and ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_ends_a_redis_that_stores_each_write_first() {
    let servers = plain().fsync_always().small_disk(DISK_BYTES);
    let server = blocking(|| Standalone::start(&servers));
    let harness = Harness::new(options(server.url())).await;
    let mut live = Live { server, harness };
    let target = live.harness.open(open_now(sale(STOCK))).await;
    let load = live.harness.start_once(move |n| Some(target.one(&name(n))));
    load.more(CLAIMS).await;
    let ballast = blocking(|| live.fill_disk());
    wait_for("the end of Redis", || !live.server.primary().is_running()).await;
    let said = live.server.primary().output();
    assert!(said.contains("AOF write error"), "{said}");
    live.until_unreachable("").await;
    drop((load.stop().await, ballast));
}
