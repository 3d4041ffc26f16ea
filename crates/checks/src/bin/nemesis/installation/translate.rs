//! Proxy to a Sentinel that replaces the servers' addresses by a program's own proxies.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
};

use qiang_testkit::servers::Port;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

/// Buffer size. A Sentinel's answers are shorter.
const CHUNK_BYTES: usize = 16 * 1024;

/// Forwards bytes, and replaces ports in the Sentinel's answers.
#[derive(Debug)]
pub(crate) struct Translator {
    port: Port,
    task: JoinHandle<()>,
}

impl Translator {
    /// Starts forwarding to `sentinel`. `ports` maps each port to its replacement.
    pub(crate) async fn start(sentinel: SocketAddr, ports: BTreeMap<u16, u16>) -> io::Result<Self> {
        let port = Port::free();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port.number())).await?;
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let ports = ports.clone();
                tokio::spawn(async move {
                    // An error ends the connection, which both sides notice.
                    let _ = forward(client, sentinel, &ports).await;
                });
            }
        });
        Ok(Self { port, task })
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.port.addr()
    }
}

impl Drop for Translator {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(
    mut client: TcpStream,
    sentinel: SocketAddr,
    ports: &BTreeMap<u16, u16>,
) -> io::Result<()> {
    let mut server = TcpStream::connect(sentinel).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        tokio::io::copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answers = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let length = from_server.read(&mut buffer).await?;
            if length == 0 {
                return to_client.shutdown().await;
            }
            translate(&mut buffer[..length], ports);
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::try_join!(requests, answers).map(|_| ())
}

/// Replaces each port that is a whole bulk string. All ports have five digits, so no length changes.
fn translate(bytes: &mut [u8], ports: &BTreeMap<u16, u16>) {
    for (from, to) in ports {
        let bulk = |port: &u16| format!("$5\r\n{port:05}\r\n").into_bytes();
        let (from, to) = (bulk(from), bulk(to));
        let mut place = 0;
        while let Some(found) = bytes[place..].windows(from.len()).position(|w| w == from) {
            place += found;
            bytes[place..place + to.len()].copy_from_slice(&to);
            place += to.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_replaced_where_they_stand_alone() {
        let ports = BTreeMap::from([(12_345, 20_000), (12_346, 20_001)]);
        let check = |answer: &str, expected: &str| {
            let mut bytes = answer.as_bytes().to_vec();
            translate(&mut bytes, &ports);
            assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        };
        check(
            "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n12345\r\n",
            "*2\r\n$9\r\n127.0.0.1\r\n$5\r\n20000\r\n",
        );
        check(
            "$5\r\n12346\r\n$5\r\n12345\r\n",
            "$5\r\n20001\r\n$5\r\n20000\r\n",
        );
        check("$7\r\n1234567\r\n", "$7\r\n1234567\r\n");
        check(":12345\r\n", ":12345\r\n");
    }
}
