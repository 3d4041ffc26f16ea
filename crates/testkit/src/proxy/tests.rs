//! Tests of each fault, between a client and a server that echoes.

use std::io::ErrorKind;
use std::sync::atomic::AtomicUsize;

use tokio::time::timeout;

use super::*;

/// Longer than any step here takes.
const SOON: Duration = Duration::from_secs(20);

/// Time to wait before concluding that nothing arrives. A shorter time could miss a bug but not cause a failure.
const SILENCE: Duration = Duration::from_millis(100);

/// A server that echoes its input and counts the bytes.
struct Echo {
    addr: SocketAddr,
    bytes: Arc<AtomicUsize>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let bytes = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    let mut buffer = [0; 1024];
                    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
                        count.fetch_add(length, Ordering::SeqCst);
                        if stream.write_all(&buffer[..length]).await.is_err() {
                            break;
                        }
                    }
                });
            }
        });
        Self { addr, bytes }
    }

    async fn wait_for_bytes(&self, count: usize) {
        let reached = async {
            while self.bytes.load(Ordering::SeqCst) < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(SOON, reached)
            .await
            .expect("the bytes arrive in time");
    }
}

async fn both() -> (Echo, FaultProxy) {
    let echo = Echo::start().await;
    let proxy = FaultProxy::start(echo.addr).await;
    (echo, proxy)
}

async fn connect(proxy: &FaultProxy) -> TcpStream {
    TcpStream::connect(proxy.addr()).await.expect("connect")
}

async fn ask(stream: &mut TcpStream, text: &[u8]) -> io::Result<Vec<u8>> {
    let asked = async {
        stream.write_all(text).await?;
        let mut answer = vec![0; text.len()];
        stream.read_exact(&mut answer).await?;
        Ok(answer)
    };
    timeout(SOON, asked)
        .await
        .expect("the answer arrives in time")
}

async fn assert_passes(stream: &mut TcpStream) {
    assert_eq!(ask(stream, b"fine").await.expect("an answer"), b"fine");
}

async fn assert_silent(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(SILENCE, stream.read(&mut byte)).await;
    assert!(read.is_err(), "{read:?}");
}

async fn assert_reset(stream: &mut TcpStream) {
    let mut byte = [0];
    let read = timeout(SOON, stream.read(&mut byte)).await;
    let error = read
        .expect("the reset arrives in time")
        .expect_err("a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn without_a_fault_everything_passes_and_ends_in_order() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    let long: Vec<u8> = (0..3_000_000_u32).map(|i| i.to_le_bytes()[0]).collect();
    let (mut read, mut write) = stream.split();
    let mut answer = vec![0; long.len()];
    let (written, _) = tokio::join!(write.write_all(&long), read.read_exact(&mut answer));
    written.unwrap();
    assert!(answer == long);
    assert_eq!(proxy.connections(), 1);
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

#[tokio::test]
async fn a_delay_is_added_in_each_direction_but_does_not_add_up() {
    let (echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    let (there, back) = (Duration::from_millis(60), Duration::from_millis(90));
    proxy.delay(there, back).await;
    let started = Instant::now();
    stream.write_all(b"fine").await.unwrap();
    echo.wait_for_bytes(4).await;
    assert!(started.elapsed() >= there);
    stream.read_exact(&mut [0; 4]).await.unwrap();
    assert!(started.elapsed() >= there + back);
    // Two connections would take this time at once, as would ten requests on one.
    let started = Instant::now();
    for _ in 0..10 {
        stream.write_all(b"x").await.unwrap();
        sleep(Duration::from_millis(5)).await;
    }
    stream.read_exact(&mut [0; 10]).await.unwrap();
    assert!(started.elapsed() < 10 * (there + back));
    proxy.pass().await;
    assert_passes(&mut stream).await;
}

#[tokio::test]
async fn a_half_open_connection_is_silent_and_then_cut() {
    let (echo, proxy) = both().await;
    let mut old = connect(&proxy).await;
    assert_passes(&mut old).await;
    proxy.half_open().await;
    let mut new = connect(&proxy).await;
    for stream in [&mut old, &mut new] {
        stream.write_all(b"lost").await.unwrap();
        assert_silent(stream).await;
    }
    assert_eq!(echo.bytes.load(Ordering::SeqCst), 4);
    let mut unused = connect(&proxy).await;
    let taken = async {
        while proxy.connections() < 3 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, taken)
        .await
        .expect("the bytes are accepted in time");
    proxy.pass().await;
    for stream in [&mut old, &mut new, &mut unused] {
        assert_reset(stream).await;
    }
    assert_passes(&mut connect(&proxy).await).await;
}

#[tokio::test]
async fn an_end_is_swallowed_as_well() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    assert_passes(&mut stream).await;
    proxy.half_open().await;
    stream.shutdown().await.unwrap();
    assert_silent(&mut stream).await;
    proxy.cut().await;
    assert_reset(&mut stream).await;
}

#[tokio::test]
async fn without_responses_requests_still_arrive() {
    let (echo, proxy) = both().await;
    let mut old = connect(&proxy).await;
    assert_passes(&mut old).await;
    proxy.drop_responses().await;
    let mut new = connect(&proxy).await;
    for (stream, bytes) in [(&mut old, 8), (&mut new, 12)] {
        stream.write_all(b"done").await.unwrap();
        echo.wait_for_bytes(bytes).await;
        assert_silent(stream).await;
    }
    // Later answers would belong to other requests, so the connections do not continue.
    proxy.pass().await;
    for stream in [&mut old, &mut new] {
        assert_reset(stream).await;
    }
    assert_passes(&mut connect(&proxy).await).await;
}

#[tokio::test]
async fn a_cut_resets_every_connection_and_no_later_one() {
    let (_echo, proxy) = both().await;
    let mut streams = [connect(&proxy).await, connect(&proxy).await];
    for stream in &mut streams {
        assert_passes(stream).await;
    }
    assert_eq!(proxy.connections(), 2);
    let mut waiting = connect(&proxy).await;
    proxy.cut().await;
    assert_reset(&mut waiting).await;
    assert_eq!(proxy.connections(), 0);
    for stream in &mut streams {
        assert_reset(stream).await;
    }
    assert_passes(&mut connect(&proxy).await).await;
}

#[tokio::test]
async fn refusing_is_for_new_connections_and_ends() {
    let (_echo, proxy) = both().await;
    let mut old = connect(&proxy).await;
    assert_passes(&mut old).await;
    proxy.refuse().await;
    let refused = TcpStream::connect(proxy.addr()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_passes(&mut old).await;
    proxy.pass().await;
    assert_passes(&mut connect(&proxy).await).await;
}

#[tokio::test]
async fn a_throttled_connection_is_as_slow_as_said_until_it_is_not() {
    let (_echo, proxy) = both().await;
    let mut stream = connect(&proxy).await;
    proxy.throttle(10_000).await;
    let started = Instant::now();
    ask(&mut stream, &[7; 2_000]).await.unwrap();
    // The last piece of each direction is sent without a wait.
    assert!(started.elapsed() >= Duration::from_millis(180));
    // A chunk that would take an hour is released.
    proxy.throttle(1).await;
    stream.write_all(&[7; 3_600]).await.unwrap();
    proxy.pass().await;
    let mut answer = [0; 3_600];
    let read = timeout(SOON, stream.read_exact(&mut answer)).await;
    read.unwrap().unwrap();
}

#[tokio::test]
async fn a_target_that_is_down_resets_the_client() {
    let port = Port::free();
    let proxy = FaultProxy::start(port.addr()).await;
    assert_reset(&mut connect(&proxy).await).await;
}

#[tokio::test]
async fn with_the_proxy_its_connections_are_gone() {
    let (_echo, proxy) = both().await;
    let (mut stream, addr) = (connect(&proxy).await, proxy.addr());
    assert_passes(&mut stream).await;
    drop(proxy);
    assert_reset(&mut stream).await;
    assert!(TcpStream::connect(addr).await.is_err());
}
