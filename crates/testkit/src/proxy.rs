//! TCP proxy that fails on command, like a faulty network between client and server.
//!
//! After a connection has lost bytes in one direction, the proxy stops forwarding in it. A stream with a hole
//! would give a client the answer to another request, which no network does.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{self, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::servers::Port;

/// Maximum bytes forwarded at once.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

/// Maximum chunks in flight per direction. Reading pauses at this number.
const CHUNKS_MAX: usize = 64;

/// Writes per second of a throttled direction, unless its rate is lower.
const PIECES_PER_SECOND: u32 = 50;

/// Fault of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    delay: Duration,
    bytes_per_second: Option<u32>,
    swallow: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    requests: Flow,
    responses: Flow,
}

impl Faults {
    /// Whether no bytes pass in either direction. The proxy then need not connect to the target.
    fn swallow_all(&self) -> bool {
        self.requests.swallow && self.responses.swallow
    }
}

/// A proxy on its own loopback port. It forwards everything until a fault is set. Each fault replaces the one before,
/// and cuts the connections that lost bytes by it. A fault is in force when its call returns. Dropping the value closes
/// the port and all connections.
#[derive(Debug)]
pub struct FaultProxy {
    port: Port,
    target: SocketAddr,
    faults: watch::Sender<Faults>,
    connections: Arc<Mutex<Vec<Connection>>>,
    /// `None` while connections are refused.
    acceptor: sync::Mutex<Option<Acceptor>>,
}

/// Accepts connections.
#[derive(Debug)]
struct Acceptor {
    /// The task has a clone of this listener. This one continues to listen while the task is replaced.
    listener: StdListener,
    task: JoinHandle<()>,
}

/// An accepted connection. It is cut when the sender is used or dropped.
#[derive(Debug)]
struct Connection {
    cut: oneshot::Sender<()>,
    /// Whether bytes were swallowed.
    holed: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// Starts a proxy to `target`. If the target does not accept, the client's connection is reset.
    ///
    /// # Panics
    /// If its port cannot be listened on.
    pub async fn start(target: SocketAddr) -> Self {
        let proxy = Self {
            port: Port::free(),
            target,
            faults: watch::Sender::default(),
            connections: Arc::default(),
            acceptor: sync::Mutex::default(),
        };
        proxy.accept().await;
        proxy
    }

    /// Address for clients.
    pub fn addr(&self) -> SocketAddr {
        self.port.addr()
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        let mut connections = lock(&self.connections);
        connections.retain(|connection| !connection.task.is_finished());
        connections.len()
    }

    /// Ends all faults.
    pub async fn pass(&self) {
        self.set(Flow::default(), Flow::default()).await;
    }

    /// Delays every byte by this time, per direction. Bytes in flight at the end of the fault stay late.
    pub async fn delay(&self, requests: Duration, responses: Duration) {
        let flow = |delay| Flow {
            delay,
            ..Flow::default()
        };
        self.set(flow(requests), flow(responses)).await;
    }

    /// Forwards at most this many bytes per second, in each direction of each connection.
    ///
    /// # Panics
    /// If it is 0: see [`half_open`](Self::half_open).
    pub async fn throttle(&self, bytes_per_second: u32) {
        assert!(bytes_per_second > 0, "use half_open for a rate of 0");
        let flow = Flow {
            bytes_per_second: Some(bytes_per_second),
            ..Flow::default()
        };
        self.set(flow, flow).await;
    }

    /// Accepts connections and swallows all bytes both ways, and the end of a connection too, on old and new
    /// connections. It acts like a peer that has disappeared without notice.
    pub async fn half_open(&self) {
        self.set(SWALLOW, SWALLOW).await;
    }

    /// Forwards requests and swallows responses: the outcome of every request is unknown.
    pub async fn drop_responses(&self) {
        self.set(Flow::default(), SWALLOW).await;
    }

    /// Resets all connections that clients have now, to the client and to the target. Later connections are not
    /// affected.
    pub async fn cut(&self) {
        let mut acceptor = self.acceptor.lock().await;
        let listener = match acceptor.take() {
            None => None,
            Some(acceptor) => Some(acceptor.stop().await),
        };
        // A client has its connection before the task accepts it.
        while let Some(Ok((waiting, _))) = listener.as_ref().map(StdListener::accept) {
            let waiting = waiting
                .set_nonblocking(true)
                .and_then(|()| TcpStream::from_std(waiting));
            reset(&waiting.expect("a socket for the runtime"));
        }
        self.cut_connections(|_| true).await;
        *acceptor = listener.map(|listener| self.take_from(listener));
    }

    /// Refuses new connections. Old ones continue without faults until they are [`cut`](Self::cut).
    pub async fn refuse(&self) {
        self.set_faults(Flow::default(), Flow::default()).await;
        if let Some(acceptor) = self.acceptor.lock().await.take() {
            drop(acceptor.stop().await);
        }
    }

    async fn set(&self, requests: Flow, responses: Flow) {
        self.set_faults(requests, responses).await;
        self.accept().await;
    }

    async fn set_faults(&self, requests: Flow, responses: Flow) {
        self.faults.send_replace(Faults {
            requests,
            responses,
        });
        self.cut_connections(|connection| connection.holed.load(Ordering::Acquire))
            .await;
    }

    async fn cut_connections(&self, which: impl Fn(&Connection) -> bool) {
        let cut: Vec<Connection> = lock(&self.connections)
            .extract_if(.., |connection| which(connection))
            .collect();
        for Connection { cut, task, .. } in cut {
            // The connection may have ended already.
            let _ = cut.send(());
            task.await.expect("a connection's task does not panic");
        }
    }

    /// Starts to listen, unless it listens already.
    async fn accept(&self) {
        let mut acceptor = self.acceptor.lock().await;
        if acceptor.is_some() {
            return;
        }
        let addr = self.addr();
        let listener = TcpListener::bind(addr).await;
        let listener = listener.and_then(TcpListener::into_std);
        let listener = listener.unwrap_or_else(|error| panic!("listen on {addr}: {error}"));
        *acceptor = Some(self.take_from(listener));
    }

    fn take_from(&self, listener: StdListener) -> Acceptor {
        let shared = listener.try_clone().and_then(TcpListener::from_std);
        let shared = shared.unwrap_or_else(|error| panic!("share a listener: {error}"));
        let (target, faults) = (self.target, self.faults.subscribe());
        let connections = Arc::clone(&self.connections);
        let task = tokio::spawn(async move {
            // An accept fails if a client has given up already, or if files run out. Clients notice both.
            loop {
                if let Ok((client, _)) = shared.accept().await {
                    let mut connections = lock(&connections);
                    connections.retain(|connection| !connection.task.is_finished());
                    connections.push(Connection::start(client, target, faults.clone()));
                }
            }
        });
        Acceptor { listener, task }
    }
}

impl Acceptor {
    /// Stops the task. After that, the list contains every accepted connection.
    async fn stop(self) -> StdListener {
        self.task.abort();
        // The error only says that the task was aborted.
        let _ = self.task.await;
        self.listener
    }
}

const SWALLOW: Flow = Flow {
    delay: Duration::ZERO,
    bytes_per_second: None,
    swallow: true,
};

impl Drop for FaultProxy {
    fn drop(&mut self) {
        if let Some(Acceptor { task, .. }) = self.acceptor.get_mut() {
            task.abort();
        }
    }
}

impl Connection {
    fn start(client: TcpStream, target: SocketAddr, faults: watch::Receiver<Faults>) -> Self {
        let (cut, cut_received) = oneshot::channel();
        let holed = Arc::new(AtomicBool::new(false));
        let shared = Arc::clone(&holed);
        let task = tokio::spawn(async move {
            forward(client, target, &faults, &shared, cut_received).await;
        });
        Self { cut, holed, task }
    }
}

/// Forwards bytes both ways until both directions end, one fails, or the connection is cut.
async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    faults: &watch::Receiver<Faults>,
    holed: &AtomicBool,
    mut cut: oneshot::Receiver<()>,
) {
    let silent = {
        // The mark is set under the guard, so that the code that ends the faults sees every mark.
        let faults = faults.borrow();
        holed.store(faults.swallow_all(), Ordering::Release);
        faults.swallow_all()
    };
    if silent {
        swallow_until(&mut client, cut).await;
        reset(&client);
        return;
    }
    let mut server = tokio::select! {
        connected = TcpStream::connect(target) => match connected {
            Ok(server) => server,
            Err(_) => return reset(&client),
        },
        _ = &mut cut => return reset(&client),
    };
    // A proxy that gathers small writes would add a fault that no test set.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ended = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let mut requests = Direction::new(faults, |faults| faults.requests, holed);
        let mut responses = Direction::new(faults, |faults| faults.responses, holed);
        let both = async {
            tokio::try_join!(
                requests.forward(from_client, to_server),
                responses.forward(from_server, to_client),
            )
        };
        tokio::select! {
            ended = both => ended.is_ok(),
            _ = cut => false,
        }
    };
    if !ended {
        reset(&client);
        reset(&server);
    }
}

async fn swallow_until(client: &mut TcpStream, mut cut: oneshot::Receiver<()>) {
    let mut buffer = vec![0; CHUNK_BYTES_MAX];
    loop {
        tokio::select! {
            read = client.read(&mut buffer) => if !matches!(read, Ok(1..)) { break },
            _ = &mut cut => return,
        }
    }
    // The client has gone. Its end is swallowed like all bytes.
    let _ = cut.await;
}

/// Makes the close of this stream a reset instead of an orderly end.
fn reset(stream: &TcpStream) {
    // An error means that the other side has reset the socket already.
    let _ = stream.set_zero_linger();
}

/// One direction of a connection.
struct Direction<'a> {
    faults: &'a watch::Receiver<Faults>,
    flow: fn(&Faults) -> Flow,
    /// Shared by both directions, and read by the code that ends the faults.
    connection_holed: &'a AtomicBool,
    holed: bool,
}

impl<'a> Direction<'a> {
    fn new(
        faults: &'a watch::Receiver<Faults>,
        flow: fn(&Faults) -> Flow,
        connection_holed: &'a AtomicBool,
    ) -> Self {
        Self {
            faults,
            flow,
            connection_holed,
            holed: false,
        }
    }

    /// Forwards bytes until the source ends, and then the end. It reads on while earlier bytes are delayed.
    async fn forward(&mut self, mut from: ReadHalf<'_>, to: WriteHalf<'_>) -> io::Result<()> {
        let (sender, chunks) = mpsc::channel(CHUNKS_MAX);
        let (faults, flow) = (self.faults, self.flow);
        let read = async move {
            let mut buffer = vec![0; CHUNK_BYTES_MAX];
            loop {
                // A reset is forwarded like an end: late or not at all.
                let read = from.read(&mut buffer).await;
                let due = Instant::now() + flow(&faults.borrow()).delay;
                let over = !matches!(read, Ok(1..));
                let chunk = read.map(|length| buffer[..length].to_vec());
                if sender.send((due, chunk)).await.is_err() || over {
                    return Ok(());
                }
            }
        };
        tokio::try_join!(read, self.write(chunks, to)).map(|_| ())
    }

    async fn write(
        &mut self,
        mut chunks: mpsc::Receiver<(Instant, io::Result<Vec<u8>>)>,
        mut to: WriteHalf<'_>,
    ) -> io::Result<()> {
        while let Some((due, chunk)) = chunks.recv().await {
            sleep_until(due).await;
            let bytes = match chunk {
                Ok(bytes) => bytes,
                Err(_) if self.is_swallowed() => continue,
                Err(error) => return Err(error),
            };
            if bytes.is_empty() && !self.is_swallowed() {
                return to.shutdown().await;
            }
            self.write_chunk(&bytes, &mut to).await?;
        }
        // The end was swallowed, so this side stays open until it is cut.
        std::future::pending().await
    }

    /// Writes in pieces, so that a fault that starts or ends during the write takes effect.
    async fn write_chunk(&mut self, mut bytes: &[u8], to: &mut WriteHalf<'_>) -> io::Result<()> {
        while !bytes.is_empty() && !self.is_swallowed() {
            let rate = (self.flow)(&self.faults.borrow()).bytes_per_second;
            let Some(rate) = rate else {
                return to.write_all(bytes).await;
            };
            let length = rate.div_ceil(PIECES_PER_SECOND);
            let length = usize::try_from(length).map_or(bytes.len(), |l| l.min(bytes.len()));
            let (piece, rest) = bytes.split_at(length);
            to.write_all(piece).await?;
            sleep(Duration::from_secs(1).mul_f64(length as f64 / f64::from(rate))).await;
            bytes = rest;
        }
        Ok(())
    }

    /// Whether the current bytes are swallowed, and so all later ones.
    fn is_swallowed(&mut self) -> bool {
        // The mark is set under the guard, so that the code that ends the faults sees every mark.
        let faults = self.faults.borrow();
        if (self.flow)(&faults).swallow {
            self.holed = true;
            self.connection_holed.store(true, Ordering::Release);
        }
        self.holed
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
