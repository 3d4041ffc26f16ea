//! The operators' listener, and the paths that only it serves.

use std::{net::SocketAddr, sync::Arc};

use crate::node::http::common::{Reply, SECRET, call};
use qiang::{
    Admin, Backend, Listeners, NodeStarter, RunningNode,
    config::{NodeConfig, Secret},
};
use qiang_embedded::{Embedded, SystemClock};
use tokio::net::TcpListener;

const PROFILE: &str = "/debug/pprof/profile";

/// A node with these listeners, and the folder of its file.
async fn start(admin: Admin<TcpListener>) -> (RunningNode, tempfile::TempDir) {
    start_with(admin, |_| ()).await
}

async fn start_with(
    admin: Admin<TcpListener>,
    adjust: impl FnOnce(&mut NodeConfig),
) -> (RunningNode, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::defaults().unwrap();
    adjust(&mut config);
    config.auth.hs256_secret = Secret::new(SECRET);
    let clock = Arc::new(SystemClock);
    let embedded = Embedded::open(&folder.path().join("qiang.db"), clock.clone()).unwrap();
    let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let listeners = Listeners { public, admin };
    let started = NodeStarter::start(config, Backend::embedded(embedded, clock), listeners).await;
    (started.unwrap(), folder)
}

async fn start_apart() -> (RunningNode, SocketAddr, tempfile::TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (running, folder) = start(Admin::Apart(listener)).await;
    assert_eq!(running.admin_addr(), Some(addr));
    (running, addr, folder)
}

async fn get(addr: SocketAddr, path: &str) -> Reply {
    call(addr, "GET", path, None, &[], None).await
}

#[tokio::test]
async fn everybody_finds_nothing_that_is_for_operators() {
    let (running, admin, _folder) = start_apart().await;
    for (path, public, operators) in [
        ("/healthz", 200, 200),
        ("/readyz", 404, 200),
        ("/readyz?partition=0", 404, 200),
        ("/metrics", 404, 200),
        ("/docs/", 200, 200),
        ("/openapi.json", 200, 200),
        ("/problems", 200, 200),
        ("/v1/red-packets", 401, 404),
        (&format!("{PROFILE}?seconds=0"), 404, 400),
    ] {
        assert_eq!(get(running.addr(), path).await.status, public, "{path}");
        assert_eq!(get(admin, path).await.status, operators, "{path}");
    }
    // Requests on both listeners are counted.
    let metrics = get(admin, "/metrics").await.body;
    let metrics = String::from_utf8_lossy(&metrics);
    let counted = |line: &&str| line.starts_with("qiang_http_responses_total{class=\"4xx\"}");
    let refused = metrics.lines().find(counted).unwrap();
    assert!(!refused.ends_with(" 0"), "{refused}");
    // The readiness probe shows that the node stops.
    running.drain();
    assert_eq!(get(admin, "/readyz").await.status, 503);
    running.shutdown().await.unwrap();
    assert!(tokio::net::TcpStream::connect(admin).await.is_err());
}

#[tokio::test]
async fn the_document_is_for_operators_alone_where_it_is_so_configured() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = listener.local_addr().unwrap();
    let apart = Admin::Apart(listener);
    let (running, _folder) = start_with(apart, |config| config.server.docs = false).await;
    for path in ["/docs", "/docs/", "/openapi.json"] {
        let reply = get(running.addr(), path).await;
        reply.assert_problem(404, "not-found");
        assert_ne!(get(admin, path).await.status, 404, "{path}");
    }
    assert_eq!(get(running.addr(), "/problems").await.status, 200);
    running.shutdown().await.unwrap();
}

#[tokio::test]
async fn without_a_place_of_their_own_operators_have_no_profiles() {
    for (admin, status) in [(Admin::Shared, 200), (Admin::Nowhere, 404)] {
        let (running, _folder) = start(admin).await;
        assert_eq!(running.admin_addr(), None);
        for path in ["/readyz", "/metrics"] {
            assert_eq!(get(running.addr(), path).await.status, status, "{path}");
        }
        assert_eq!(get(running.addr(), PROFILE).await.status, 404);
        running.shutdown().await.unwrap();
    }
}

#[cfg(not(feature = "profiles"))]
#[tokio::test]
async fn a_program_without_profiles_says_how_to_get_them() {
    let (running, admin, _folder) = start_apart().await;
    let reply = get(admin, PROFILE).await;
    reply.assert_problem(404, "not-found");
    let text = String::from_utf8(reply.body.to_vec()).unwrap();
    assert!(text.contains("--features profiles"), "{text}");
    running.shutdown().await.unwrap();
}

#[cfg(feature = "profiles")]
mod profiles {
    use std::{
        hint::black_box,
        sync::{
            Arc,
            atomic::{AtomicBool, Ordering},
        },
        time::Duration,
    };

    use super::{PROFILE, get, start_apart};

    #[inline(never)]
    fn spin_for_the_profile(stop: &AtomicBool) {
        let mut sum = 0_u64;
        while !stop.load(Ordering::Relaxed) {
            sum = black_box(sum.wrapping_add(1));
        }
        black_box(sum);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_profile_says_where_the_time_goes() {
        let (running, admin, _folder) = start_apart().await;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let spinning = std::thread::Builder::new()
            .name("spinner".to_owned())
            .spawn(move || spin_for_the_profile(&stopped))
            .unwrap();
        let path = format!("{PROFILE}?seconds=5");
        let taking = tokio::spawn(async move { get(admin, &path).await });
        // Only one profile runs at a time.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let second = get(admin, &format!("{PROFILE}?seconds=1")).await;
        second.assert_problem(503, "overloaded");
        let profile = taking.await.unwrap();
        stop.store(true, Ordering::Relaxed);
        spinning.join().unwrap();
        assert_eq!(profile.status, 200, "{profile:?}");
        let text = String::from_utf8(profile.body.to_vec()).unwrap();
        let of_thread = |line: &&str| line.starts_with("spinner;");
        let samples = text.lines().filter(of_thread).filter_map(|line| {
            let (stack, count) = line.rsplit_once(' ')?;
            stack
                .contains("spin_for_the_profile")
                .then(|| count.parse::<u32>().unwrap())
        });
        // Five seconds of a busy machine, at 99 samples a second.
        assert!(samples.sum::<u32>() >= 10, "{text}");
        for seconds in ["61", "-1", "x"] {
            let reply = get(admin, &format!("{PROFILE}?seconds={seconds}")).await;
            reply.assert_problem(400, "bad-request");
        }
        running.shutdown().await.unwrap();
    }
}
