//! Tests of the Sentinel majority.

use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use super::*;

/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(600);

/// Sentinel that names a primary on this port. It stops when it is dropped.
struct Sentinel {
    url: String,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Sentinel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sentinel {
    async fn naming(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("redis://{}", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((connection, _)) = listener.accept().await {
                connections.spawn(answer_all(connection, port));
            }
        });
        Self { url, task }
    }

    /// Stops the Sentinel.
    async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

async fn answer_all(connection: TcpStream, port: u16) {
    let mut connection = BufReader::new(connection);
    while let Some(words) = words(&mut connection).await {
        let reply = match words[0].eq_ignore_ascii_case("SENTINEL") {
            true => {
                let port = port.to_string();
                format!("*2\r\n$4\r\nhost\r\n${}\r\n{port}\r\n", port.len())
            }
            false => "+OK\r\n".to_owned(),
        };
        if connection.write_all(reply.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Reads a command; `None` at the end of the connection.
async fn words(connection: &mut BufReader<TcpStream>) -> Option<Vec<String>> {
    let count = number(connection).await?;
    let mut words = Vec::new();
    for _ in 0..count {
        let mut word = vec![0; number(connection).await? + 2];
        connection.read_exact(&mut word).await.ok()?;
        words.push(String::from_utf8(word).ok()?.trim_end().to_owned());
    }
    Some(words)
}

/// The number after the first character of a line.
async fn number(connection: &mut BufReader<TcpStream>) -> Option<usize> {
    let mut line = String::new();
    connection.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim().parse().ok()
}

/// One Sentinel that was cut off with a former primary is not believed, even if no other one answers. The primary
/// remains the one that most Sentinels named, but the directory is no longer sure of it.
#[tokio::test]
async fn fewer_than_most_sentinels_name_nobody() {
    let (former, first) = (Sentinel::naming(1).await, Sentinel::naming(2).await);
    let second = Sentinel::naming(2).await;
    let urls = [&former, &first, &second].map(|sentinel| sentinel.url.clone());
    let of = |urls: &[String]| {
        let topology = Topology::Sentinel {
            master: "primary".to_owned(),
        };
        let urls = urls.to_vec();
        let options = RedisOptions {
            urls,
            topology,
            ..RedisOptions::default()
        };
        Directory::new(&options).unwrap()
    };
    let ports = async |directory: &Directory| {
        let servers = directory.servers_of(PartitionId(0)).await?;
        let port = |server: &ConnectionInfo| match server.addr() {
            redis::ConnectionAddr::Tcp(_, port) => *port,
            _ => 0,
        };
        Ok::<_, RedisError>(servers.iter().map(port).collect::<Vec<_>>())
    };
    let directory = of(&urls);
    assert!(!directory.is_sure(LONG));
    assert_eq!(ports(&directory).await.unwrap(), [2]);
    assert!(directory.is_sure(LONG));
    assert!(!directory.is_sure(Duration::ZERO));
    first.stop().await;
    second.stop().await;
    directory.forget();
    directory.follow().await;
    assert_eq!(ports(&directory).await.unwrap(), [2]);
    assert_eq!(directory.generation(), 0);
    // A new directory has no last known primary.
    let new = of(&urls);
    assert!(ports(&new).await.is_err());
    assert!(!new.is_sure(LONG));
    drop(former);
}

#[test]
fn most_sentinels_decide() {
    let check = |votes: &[u16], voters: usize, expected: Option<u16>| {
        let votes: Vec<_> = votes
            .iter()
            .map(|port| ("host".to_owned(), *port))
            .collect();
        let found = majority(&votes, voters).map(|(_, port)| *port);
        assert_eq!(found, expected, "{votes:?} of {voters}");
    };
    check(&[], 0, None);
    check(&[1], 1, Some(1));
    // One was cut off with the former primary; the order of answers does not matter.
    check(&[1, 2, 2], 3, Some(2));
    check(&[2, 1, 2], 3, Some(2));
    // Two are enough before the third has answered; one is not.
    check(&[2, 2], 3, Some(2));
    check(&[2], 3, None);
    // The Sentinels have just begun to learn of a failover.
    check(&[1, 2], 2, None);
    check(&[1, 1, 2, 2], 5, None);
}
