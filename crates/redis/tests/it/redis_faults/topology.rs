//! Another topology than configured, and TLS: a node refuses to start, and says why.

use std::{error::Error as _, fs};

use qiang_redis::{RedisEngine, RedisOptions, Topology};
use qiang_testkit::servers::{
    Port,
    redis::{Cluster, Options as ServerOptions, Standalone},
};

use crate::redis_faults::harness::{blocking, node, options, shared};

/// Partitions whose keys no primary of a Cluster has alone.
const PARTITIONS: u16 = 16;

/// The node's message with its causes. The node refuses these options.
async fn refusal(options: RedisOptions) -> String {
    let error = match RedisEngine::connect(options, &[]).await {
        Err(error) => error,
        Ok(engine) => {
            engine.close().await;
            panic!("the node has started");
        }
    };
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A Redis that became a Cluster, and a Cluster that became one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_topology_than_configured_is_refused() {
    let cluster = blocking(|| Cluster::start(&ServerOptions::new()));
    let of_cluster = RedisOptions {
        urls: cluster.urls(),
        topology: Topology::Cluster,
        partitions: PARTITIONS,
        ..options(String::new())
    };
    node(&of_cluster, &[]).await.close().await;
    let as_one = RedisOptions {
        urls: cluster.urls().into_iter().take(1).collect(),
        topology: Topology::Standalone,
        ..of_cluster.clone()
    };
    let refused = refusal(as_one).await;
    println!("{refused}");
    assert!(refused.contains("MOVED"), "{refused}");

    let of_one = RedisOptions {
        partitions: PARTITIONS,
        ..options(shared().url())
    };
    node(&of_one, &[]).await.close().await;
    let as_cluster = RedisOptions {
        topology: Topology::Cluster,
        ..of_one.clone()
    };
    let refused = refusal(as_cluster).await;
    println!("{refused}");
    assert!(refused.contains("cluster"), "{refused}");
    // Neither attempt has changed anything.
    node(&of_cluster, &[]).await.close().await;
    node(&of_one, &[]).await.close().await;
}

/// A certificate that no known authority has signed, and a server that speaks TLS to a node that does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_not_trusted_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let certificate = file("cert.pem", made.cert.pem());
    let key = file("key.pem", made.signing_key.serialize_pem());
    let port = Port::free();
    let tls = ServerOptions::new()
        .line(&format!("tls-port {}", port.number()))
        .line(&format!("tls-cert-file {certificate}"))
        .line(&format!("tls-key-file {key}"))
        .line(&format!("tls-ca-cert-file {certificate}"))
        .line("tls-auth-clients no");
    let server = blocking(|| Standalone::start(&tls));
    let refused = refusal(options(format!("rediss://localhost:{}", port.number()))).await;
    println!("{refused}");
    assert!(refused.contains("certificate"), "{refused}");
    let plain = refusal(options(format!("redis://127.0.0.1:{}", port.number()))).await;
    println!("{plain}");
    // The server itself serves others.
    node(&options(server.url()), &[]).await.close().await;
}
