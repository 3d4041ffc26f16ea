//! A Sentinel that names the wrong primary. Nodes follow the majority of Sentinels, so a single liar has no effect.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use qiang_core::{event::PartitionId, ports::EventLog as _};
use qiang_redis::{PartitionHealth, RedisEngine, RedisOptions, Topology};
use qiang_testkit::{
    campaign::sale,
    servers::{
        redis::{Options as ServerOptions, SentinelSet, Server, Standalone},
        wait_for as wait_blocking,
    },
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use crate::redis_faults::harness::{
    Harness, SHORT_PAUSE, blocking, calls_of, grant_of, name, node, open_now, patient, wait_for,
    winners,
};

const CLAIMS: usize = 100;
const STOCK: u32 = 50_000;
const SYNC_MAX: Duration = Duration::from_secs(30);

/// Answers nodes like a Sentinel and names the server that the test sets.
struct Liar {
    addr: SocketAddr,
    named: Arc<Mutex<SocketAddr>>,
    asked: Arc<Mutex<usize>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Liar {
    async fn start(named: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (named, asked) = (Arc::new(Mutex::new(named)), Arc::default());
        let (whom, count) = (Arc::clone(&named), Arc::clone(&asked));
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(lie(stream, Arc::clone(&whom), Arc::clone(&count)));
            }
        });
        Self {
            addr,
            named,
            asked,
            task,
        }
    }

    fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }

    /// Names another server from here on, and waits until every node has asked since.
    async fn name(&self, whom: SocketAddr) {
        *self.named.lock().unwrap() = whom;
        let before = self.asked();
        wait_for("all nodes to query the liar", || self.asked() >= before + 6).await;
    }
}

/// Answers the commands of one connection. Each command is an array of texts.
async fn lie(mut stream: TcpStream, named: Arc<Mutex<SocketAddr>>, asked: Arc<Mutex<usize>>) {
    let mut read = Vec::new();
    let mut buffer = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        read.extend_from_slice(&buffer[..count]);
        while let Some((words, length)) = command(&read) {
            read.drain(..length);
            let answer = match words
                .get(1)
                .is_some_and(|word| word == "get-master-addr-by-name")
            {
                true => {
                    *asked.lock().unwrap() += 1;
                    let (ip, port) = {
                        let named = named.lock().unwrap();
                        (named.ip().to_string(), named.port().to_string())
                    };
                    format!(
                        "*2\r\n${}\r\n{ip}\r\n${}\r\n{port}\r\n",
                        ip.len(),
                        port.len()
                    )
                }
                false => "+OK\r\n".to_owned(),
            };
            if stream.write_all(answer.as_bytes()).await.is_err() {
                return;
            }
        }
    }
}

/// The first command in `read` with its length in bytes; `None` while it is incomplete.
fn command(read: &[u8]) -> Option<(Vec<String>, usize)> {
    let line = |from: usize| -> Option<(&str, usize)> {
        let end = read[from..].windows(2).position(|pair| pair == b"\r\n")?;
        Some((
            std::str::from_utf8(&read[from..from + end]).ok()?,
            from + end + 2,
        ))
    };
    let (count, mut at) = line(0)?;
    let count: usize = count.strip_prefix('*')?.parse().ok()?;
    let mut words = Vec::new();
    for _ in 0..count {
        let (length, from) = line(at)?;
        let length: usize = length.strip_prefix('$')?.parse().ok()?;
        let word = read.get(from..from + length)?;
        read.get(from + length..from + length + 2)?;
        words.push(String::from_utf8_lossy(word).to_lowercase());
        at = from + length + 2;
    }
    Some((words, at))
}

/// Script calls of nodes on a server so far.
fn scripts(server: &Server) -> u64 {
    blocking(|| calls_of(server, "evalsha") + calls_of(server, "eval"))
}

/// A server with all data of the primary that reports itself as a primary and is unknown to the Sentinels.
fn former_primary(set: &SentinelSet) -> Standalone {
    let server = Standalone::start(&ServerOptions::new());
    let of = set
        .servers()
        .iter()
        .find(|one| one.addr() != set.primary_addr());
    let (host, port) = {
        let addr = of.unwrap().addr();
        (addr.ip().to_string(), addr.port().to_string())
    };
    // A replica's replica is in no list.
    server.primary().call(&["REPLICAOF", &host, &port]).unwrap();
    wait_blocking("a copy of the primary", SYNC_MAX, || {
        let up = server.primary().info("replication", "master_link_status");
        (up.as_deref() == Some("up")).then_some(())
    });
    server.primary().call(&["REPLICAOF", "NO", "ONE"]).unwrap();
    server
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sentinel_that_lies_moves_nobody_and_halts_nothing() {
    let set = blocking(|| SentinelSet::start(&ServerOptions::new()));
    let primary = blocking(|| set.primary());
    let replica = set
        .servers()
        .iter()
        .find(|one| one.addr() != primary.addr())
        .unwrap();
    let liar = Liar::start(primary.addr()).await;
    // Two Sentinels tell the truth, and one does not.
    let mut urls = vec![liar.url()];
    urls.extend(set.sentinel_urls().into_iter().take(2));
    let mut harness = Harness::new(RedisOptions {
        topology: Topology::Sentinel {
            master: set.master_name().to_owned(),
        },
        urls,
        ..patient(String::new())
    })
    .await;
    let target = harness.open(open_now(sale(STOCK))).await;
    let claims = (0..CLAIMS).map(|n| target.one(&name(n))).collect();
    let mut answers = harness.ask_all(claims).await;

    let load = harness.start(move |n| Some(target.one(&name(CLAIMS + n))), SHORT_PAUSE);
    let is_open = |nodes: &[RedisEngine]| {
        let open = |node: &RedisEngine| {
            let states = node.partitions().into_iter().map(|it| node.state(it));
            states.eq([PartitionHealth::Open, PartitionHealth::Open])
        };
        nodes.iter().all(open)
    };
    // First a replica of the set, then a former primary that still answers and has all data.
    let former = blocking(|| former_primary(&set));
    let terms = |harness: &Harness| {
        let key = |n: u16| format!("{}:{{p{n:02}}}:partition", harness.options.prefix);
        let term = |n: u16| blocking(|| primary.call(&["HGET", &key(n), "term"]).unwrap());
        [0, 1].map(|n| term(n).text().map(str::to_owned))
    };
    let began = terms(&harness);
    for named in [replica, former.primary()] {
        let before = scripts(named);
        liar.name(named.addr()).await;
        load.more(CLAIMS).await;
        // A node that looks up the primary for the first time is not misled either.
        let late = node(&harness.options, &[]).await;
        let claimed = harness
            .record
            .ask(&late, &target.one(&name(0)))
            .await
            .unwrap();
        assert!(grant_of(&claimed).is_some(), "{claimed:?}");
        late.close().await;
        // New connections go to the primary too.
        blocking(|| primary.call(&["CLIENT", "KILL", "TYPE", "normal"]).unwrap());
        load.more(CLAIMS).await;
        wait_for("all partitions", || is_open(&harness.nodes)).await;
        assert_eq!(scripts(named), before, "a node has called the wrong server");
    }
    answers.extend(load.stop().await);
    assert_eq!(winners(&answers), answers.len());
    assert_eq!(harness.record.errors(), 0, "a user was refused");
    assert_eq!(terms(&harness), began, "a new term has started");
    let head = harness.nodes[0].head(PartitionId(1)).await.unwrap();
    assert_eq!(head, 1 + answers.len() as u64, "each grant is one entry");
    harness.replay(&answers[..CLAIMS]).await;
    harness.audit().await;
}
