//! Rate limits of users and addresses.

use std::time::Duration;

use crate::node::http::common::{Reply, Service, call};
use qiang::config::{ForwardedHeader, LimitsConfig, NodeConfig};
use serde_json::json;

/// A service with one limit: a burst, and one more request per second or minute.
async fn limited(adjust: impl FnOnce(&mut LimitsConfig)) -> Service {
    Service::start_with(|config, _| adjust(&mut config.limits)).await
}

impl Service {
    async fn claim(&self, packet: &str, user: &str) -> Reply {
        let path = format!("/v1/red-packets/{packet}/claims");
        self.act(&path, &self.token(user, "claim")).await
    }

    async fn account(&self, user: &str, scope: &str) -> Reply {
        let path = format!("/v1/accounts/{user}");
        self.get(&path, &self.token(user, scope)).await
    }
}

#[track_caller]
fn assert_limited(reply: &Reply, kind: &str, policy: &str, quota: u32) {
    reply.assert_problem(429, kind);
    let wait: u32 = reply.header("retry-after").parse().unwrap();
    assert!(wait >= 1);
    assert_eq!(
        reply.header("ratelimit"),
        format!("\"{policy}\";r=0;t={wait}")
    );
    let expected = format!("\"{policy}\";q={quota};w={quota}");
    assert_eq!(reply.header("ratelimit-policy"), expected);
    assert_eq!(reply.json()["violated-policies"], json!([policy]));
}

#[tokio::test]
async fn a_user_claims_so_often() {
    let service = limited(|limits| {
        limits.claims_per_user_per_second = 1;
        limits.claims_per_user_burst = 2;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    assert_eq!(service.claim(&id, "ann").await.status, 201);
    assert_eq!(service.claim(&id, "ann").await.status, 200);
    let third = service.claim(&id, "ann").await;
    assert_limited(&third, "throttled", "claims-of-user", 2);
    // Another campaign and another kind of claim count for the same user.
    let sale = service.sale(9, |_| ()).await;
    let ann = service.token("ann", "claim");
    for what in ["orders", "tickets"] {
        let reply = service.act(&format!("/v1/sales/{sale}/{what}"), &ann).await;
        reply.assert_problem(429, "throttled");
    }
    assert_eq!(service.claim(&id, "bob").await.status, 201);
    // After the announced time, one more claim passes.
    tokio::time::sleep(Duration::from_millis(1_050)).await;
    assert_eq!(service.claim(&id, "ann").await.status, 200);
    let metrics = call(service.addr, "GET", "/metrics", None, &[], None).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for line in [
        "qiang_rate_limited_total{limit=\"claims-of-user\"} 3",
        "qiang_claims_total{outcome=\"throttled\"} 3",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let page = call(service.addr, "GET", "/problems/throttled", None, &[], None).await;
    assert_eq!(page.status, 200);
    service.stop().await;
}

/// Each answer within a limit has the state of the limit that leaves least to the caller.
#[tokio::test]
async fn an_answer_has_the_state_of_the_closest_limit() {
    let service = limited(|limits| {
        limits.claims_per_user_per_second = 1;
        limits.claims_per_user_burst = 3;
        limits.claims_per_address_per_second = 1;
        limits.claims_per_address_burst = 5;
        limits.reads_per_address_per_second = 1;
        limits.reads_per_address_burst = 1_000;
        limits.reads_per_user_per_second = 1;
        limits.reads_per_user_burst = 9;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    let state = |reply: &Reply| {
        let of = |name| reply.header(name).to_owned();
        (of("ratelimit"), of("ratelimit-policy"))
    };
    let shown = |name: &str, left: u32, quota: u32| {
        (
            format!("\"{name}\";r={left}"),
            format!("\"{name}\";q={quota};w={quota}"),
        )
    };
    for left in [2, 1] {
        let claimed = service.claim(&id, "ann").await;
        assert_eq!(
            state(&claimed),
            shown("claims-of-user", left, 3),
            "{claimed:?}"
        );
    }
    // Two more of the address are the address's closest limit, also for a refusal.
    let other = service.claim(&id, "bob").await;
    assert_eq!(state(&other), shown("claims-of-user", 2, 3));
    let unknown = "/v1/red-packets/01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80/claims";
    let refused = service.act(unknown, &service.token("cat", "claim")).await;
    assert_eq!(
        (refused.status, state(&refused)),
        (404, shown("claims-of-address", 1, 5))
    );
    let unsigned = call(service.addr, "POST", unknown, None, &[], None).await;
    let found = (unsigned.status, state(&unsigned));
    assert_eq!(found, (401, shown("claims-of-address", 0, 5)));
    let read = service.account("ann", "").await;
    assert_eq!(state(&read), shown("reads-of-user", 8, 9));
    // Services read without a limit of users.
    let read = service.account("ann", "read:any").await;
    assert!(
        state(&read).0.starts_with("\"reads-of-address\";r=99"),
        "{read:?}"
    );
    let probe = call(service.addr, "GET", "/healthz", None, &[], None).await;
    assert_eq!(state(&probe), Default::default());
    service.stop().await;
    let service = Service::start().await;
    let free = service.account("ann", "").await;
    assert_eq!(state(&free), Default::default(), "without a limit");
    service.stop().await;
}

#[tokio::test]
async fn an_address_claims_so_often() {
    let service = limited(|limits| {
        limits.claims_per_address_per_second = 1;
        limits.claims_per_address_burst = 3;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    for user in ["ann", "bob", "cat"] {
        assert_eq!(service.claim(&id, user).await.status, 201);
    }
    let fourth = service.claim(&id, "dan").await;
    assert_limited(&fourth, "address-throttled", "claims-of-address", 3);
    // The limit of addresses also counts requests without a token.
    let path = format!("/v1/red-packets/{id}/claims");
    let nobody = call(service.addr, "POST", &path, None, &[], None).await;
    nobody.assert_problem(429, "address-throttled");
    assert_eq!(service.account("dan", "").await.status, 200);
    service.stop().await;
}

#[tokio::test]
async fn a_user_reads_so_often_and_an_operator_without_limit() {
    let service = limited(|limits| {
        limits.reads_per_user_per_second = 1;
        limits.reads_per_user_burst = 2;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    for _ in 0..2 {
        assert_eq!(service.account("ann", "").await.status, 200);
    }
    let third = service.account("ann", "").await;
    assert_limited(&third, "throttled", "reads-of-user", 2);
    assert_eq!(service.account("bob", "").await.status, 200);
    assert_eq!(service.claim(&id, "ann").await.status, 201);
    for _ in 0..9 {
        assert_eq!(service.account("olga", "read:any").await.status, 200);
    }
    service.stop().await;
}

#[tokio::test]
async fn an_address_reads_so_often_with_whatever_token() {
    let service = limited(|limits| {
        limits.reads_per_address_per_second = 1;
        limits.reads_per_address_burst = 4;
    })
    .await;
    let get = async |path: &str, token: Option<&str>| {
        call(service.addr, "GET", path, token, &[], None).await
    };
    let account = "/v1/accounts/ann";
    assert_eq!(get(account, Some("no token")).await.status, 401);
    assert_eq!(get(account, None).await.status, 401);
    assert_eq!(get("/nothing", None).await.status, 404);
    assert_eq!(get("/problems", None).await.status, 200);
    let fifth = get(account, Some("no token")).await;
    assert_limited(&fifth, "address-throttled", "reads-of-address", 4);
    get("/problems", None)
        .await
        .assert_problem(429, "address-throttled");
    for path in ["/healthz", "/readyz"] {
        for _ in 0..6 {
            assert_eq!(get(path, None).await.status, 200, "{path}");
        }
    }
    service.stop().await;
}

/// An expensive answer without a token counts as many reads.
#[tokio::test]
async fn an_address_reads_expensive_answers_less_often() {
    for path in [
        "/metrics",
        "/openapi.json",
        "/docs/",
        "/p/1/qr.svg",
        "/s/1/qr.svg",
    ] {
        let service = limited(|limits| {
            limits.reads_per_address_per_second = 1;
            limits.reads_per_address_burst = 50;
        })
        .await;
        let get = async || {
            call(service.addr, "GET", path, None, &[], None)
                .await
                .status
        };
        let statuses = [get().await, get().await, get().await];
        assert_eq!(statuses, [200, 200, 429], "{path}");
        service.stop().await;
    }
}

/// Expensive answers have budgets of the node, for any number of addresses.
#[tokio::test]
async fn many_addresses_share_the_budget_of_expensive_answers() {
    const BURST: u32 = 5;
    const ADDRESSES: u32 = 60;
    let service = Service::start_with(|config, _| {
        config.server.trusted_proxies = "127.0.0.1".to_owned();
        let limits = &mut config.limits;
        limits.unlimited_addresses = "198.51.100.0/24".to_owned();
        limits.reads_per_address_per_second = 1;
        limits.reads_per_address_burst = 60;
        limits.expensive_per_node_per_second = 1;
        limits.expensive_per_node_burst = BURST;
    })
    .await;
    let get = async |path: &str, client: String| {
        let headers = [("x-forwarded-for", client.as_str())];
        call(service.addr, "GET", path, None, &headers, None).await
    };
    for (paths, policy) in [
        (&["/p/1/qr.svg", "/s/1/qr.svg"][..], "pictures-of-node"),
        (&["/openapi.json", "/docs/"], "documents-of-node"),
        (&["/metrics"], "metrics-of-node"),
    ] {
        let begun = std::time::Instant::now();
        let (mut answered, mut refused) = (0, 0);
        for (n, path) in (0..ADDRESSES).zip(paths.iter().cycle()) {
            let reply = get(path, format!("203.0.{n}.1")).await;
            if reply.status == 200 {
                answered += 1;
                continue;
            }
            reply.assert_problem(503, "overloaded");
            assert_eq!(reply.json()["violated-policies"], json!([policy]));
            assert!(reply.header("retry-after").parse::<u32>().unwrap() >= 1);
            refused += 1;
        }
        let budget = BURST + u32::try_from(begun.elapsed().as_secs()).unwrap() + 1;
        assert!((BURST..=budget).contains(&answered), "{policy}: {answered}");
        assert_eq!(answered + refused, ADDRESSES);
        // An address of the installation is answered, and cheap pages are.
        for _ in 0..9 {
            let own = get(paths[0], "198.51.100.7".to_owned()).await;
            assert_eq!(own.status, 200, "{policy}");
        }
        let cheap = get("/problems", "203.0.250.1".to_owned()).await;
        assert_eq!(cheap.status, 200, "{policy}");
    }
    let metrics = get("/metrics", "198.51.100.7".to_owned()).await;
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    for policy in ["pictures", "documents", "metrics"] {
        let series = format!("qiang_rate_limited_total{{limit=\"{policy}-of-node\"}} ");
        assert!(metrics.contains(&series), "{series}");
    }
    service.stop().await;
}

/// Reads once with each of these header values, with a limit of one read per address. Returns which reads passed.
async fn read_from(
    adjust: impl FnOnce(&mut NodeConfig),
    name: &'static str,
    clients: &[&str],
) -> Vec<bool> {
    let service = Service::start_with(|config, _| {
        config.limits.reads_per_address_per_second = 1;
        config.limits.reads_per_address_burst = 1;
        adjust(config);
    })
    .await;
    let mut answered = Vec::new();
    for client in clients {
        let reply = call(
            service.addr,
            "GET",
            "/problems",
            None,
            &[(name, client)],
            None,
        )
        .await;
        assert!([200, 429].contains(&reply.status), "{reply:?}");
        answered.push(reply.status == 200);
    }
    service.stop().await;
    answered
}

const CLIENTS: [&str; 4] = [
    "198.51.100.1",
    "198.51.100.2",
    "203.0.113.5, 198.51.100.2",
    "198.51.100.3",
];

#[tokio::test]
async fn nobody_says_by_a_header_who_they_are() {
    for name in ["x-forwarded-for", "forwarded"] {
        let answered = read_from(|_| (), name, &CLIENTS).await;
        assert_eq!(answered, [true, false, false, false]);
    }
    let elsewhere =
        |config: &mut NodeConfig| config.server.trusted_proxies = "10.0.0.0/8".to_owned();
    let answered = read_from(elsewhere, "x-forwarded-for", &CLIENTS).await;
    assert_eq!(answered, [true, false, false, false]);
}

#[tokio::test]
async fn a_trusted_proxy_says_who_it_asks_for() {
    let trusting = |config: &mut NodeConfig| {
        config.server.trusted_proxies = "10.0.0.0/8, 127.0.0.1".to_owned();
    };
    let answered = read_from(trusting, "x-forwarded-for", &CLIENTS).await;
    assert_eq!(answered, [true, true, false, true]);
    // Only the configured header counts: proxies pass on any other header that clients send.
    let answered = read_from(
        trusting,
        "forwarded",
        &["for=198.51.100.1", "for=198.51.100.2"],
    )
    .await;
    assert_eq!(answered, [true, false]);
    let by_rfc = |config: &mut NodeConfig| {
        trusting(config);
        config.server.forwarded_header = ForwardedHeader::Forwarded;
    };
    let named = [
        "for=198.51.100.1",
        "for=\"[2001:db8::1]:4711\";proto=https",
        "for=203.0.113.5, for=\"[2001:db8::2]\"",
    ];
    let answered = read_from(by_rfc, "forwarded", &named).await;
    assert_eq!(answered, [true, true, false]);
}

#[tokio::test]
async fn own_addresses_are_not_limited() {
    let own = |config: &mut NodeConfig| {
        config.limits.unlimited_addresses = "127.0.0.0/8, ::1".to_owned();
    };
    let answered = read_from(own, "x-forwarded-for", &CLIENTS).await;
    assert_eq!(answered, [true; 4]);
}

#[tokio::test]
async fn limits_are_on_by_default() {
    let service = Service::start_with(|config, _| {
        config.limits = NodeConfig::defaults().unwrap().limits;
    })
    .await;
    let id = service.red_packet(9, |_| ()).await;
    let token = service.token("ann", "claim read");
    let path = format!("/v1/red-packets/{id}/claims");
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..600 {
        let (addr, path, token) = (service.addr, path.clone(), token.clone());
        let method = if n % 2 == 0 { "POST" } else { "GET" };
        tasks.spawn(async move {
            let reply = call(addr, method, &path, Some(&token), &[], None).await;
            (method, reply.status)
        });
    }
    let statuses = tasks.join_all().await;
    let limited = |method| {
        statuses
            .iter()
            .filter(|reply| **reply == (method, 429))
            .count()
    };
    assert!(limited("POST") > 0 && limited("GET") > 0, "{statuses:?}");
    service.stop().await;
}
