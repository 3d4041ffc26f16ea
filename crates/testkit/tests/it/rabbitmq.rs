//! Tests of the RabbitMQ fixture with a real node.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use qiang_testkit::servers::rabbitmq::RabbitMq;

const BOUND: Duration = Duration::from_secs(20);

/// Whether a node answers the protocol's header with a frame.
fn answers(server: &RabbitMq) -> bool {
    let answer = || {
        let mut stream = TcpStream::connect_timeout(&server.addr(), BOUND)?;
        stream.set_read_timeout(Some(BOUND))?;
        stream.write_all(b"AMQP\x00\x00\x09\x01")?;
        stream.read_exact(&mut [0; 7])
    };
    answer().is_ok()
}

#[test]
fn two_nodes_share_nothing_and_a_killed_one_comes_back() {
    let started = Instant::now();
    let (one, two) = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(RabbitMq::start), scope.spawn(RabbitMq::start));
        (one.join().unwrap(), two.join().unwrap())
    });
    println!("two nodes up after {:?}", started.elapsed());
    assert_ne!(one.addr(), two.addr());
    assert_eq!(one.url(), format!("amqp://guest:guest@{}/%2f", one.addr()));
    let pid = one.pid();
    one.kill();
    assert!(!answers(&one) && answers(&two));
    let started = Instant::now();
    one.start_again();
    println!("up again after {:?}", started.elapsed());
    assert_ne!(one.pid(), pid);
    assert!(answers(&one) && answers(&two));
}
