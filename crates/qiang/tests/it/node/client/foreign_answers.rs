//! Answers of other programs than the service.

use crate::node::client::common::builder;
use qiang_client::Error;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

/// Answers of a proxy or a load balancer.
#[tokio::test]
async fn answers_without_problem_details_are_errors_too() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let serve = tokio::spawn(async move {
        let answers = [
            "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\noops",
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            "HTTP/1.1 301 Moved\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n",
        ];
        let mut keys = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = String::new();
            while !head.contains("\r\n\r\n") {
                let mut buffer = [0; 1_024];
                let count = stream.read(&mut buffer).await.unwrap();
                head.push_str(str::from_utf8(&buffer[..count]).unwrap());
            }
            let key = |line: &&str| line.starts_with("idempotency-key");
            keys.push(head.lines().find(key).unwrap().to_owned());
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        keys
    });
    let client = builder(addr).build().unwrap();
    let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap();
    let error = client.pause(&id).await.unwrap_err();
    assert!(
        matches!(error, Error::Answer(_)) && error.may_have_happened(),
        "{error:?}"
    );
    let moved = client.pause(&id).await.unwrap_err();
    assert_eq!(
        moved.problem().map(|problem| problem.status),
        Some(301),
        "{moved:?}"
    );
    let keys = serve.await.unwrap();
    assert_eq!(keys[0], keys[1], "the attempt after 502 had another key");
    assert_ne!(keys[1], keys[2], "two calls had the same key");
}
