//! The stream of a campaign's events.

use std::time::Duration;

use crate::node::http::common::{Service, call, read_to_end};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A client that reads the events of a campaign.
struct Watcher {
    stream: TcpStream,
    read: String,
}

impl Watcher {
    async fn start(service: &Service, id: &str, token: Option<&str>, query: &str) -> Self {
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        let token = token.map_or_else(String::new, |token| {
            format!("Authorization: Bearer {token}\r\n")
        });
        let request = format!(
            "GET /v1/campaigns/{id}/events{query} HTTP/1.1\r\nHost: test\r\n{token}\
             Accept: text/event-stream\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let read = String::new();
        Self { stream, read }
    }

    /// Data of the complete events with this name.
    fn data(&self, name: &str) -> Vec<Value> {
        let name = format!("event: {name}");
        let events = self
            .read
            .split("\n\n")
            .filter(|event| event.lines().any(|line| line == name));
        let data = events.filter_map(|event| {
            event
                .lines()
                .find_map(|line| serde_json::from_str(line.strip_prefix("data: ")?).ok())
        });
        data.collect()
    }

    /// Reads until `enough` holds.
    async fn until(&mut self, enough: impl Fn(&Self) -> bool) {
        let reading = async {
            while !enough(self) {
                let mut buffer = [0; 4_096];
                let count = self.stream.read(&mut buffer).await.unwrap();
                assert!(count > 0, "it ended: {}", self.read);
                self.read
                    .push_str(&String::from_utf8_lossy(&buffer[..count]));
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), reading).await;
        assert!(in_time.is_ok(), "{}", self.read);
    }
}

fn drawn(watcher: &Watcher) -> Vec<u64> {
    let draws = watcher.data("draws");
    let claims = draws
        .iter()
        .flat_map(|draws| draws["claims"].as_array().unwrap());
    claims
        .map(|claim| claim["number"].as_u64().unwrap())
        .collect()
}

#[tokio::test]
async fn whoever_watches_a_packet_sees_its_numbers_and_its_draws() {
    let service = Service::start().await;
    let id = service.red_packet(3, |_| ()).await;
    let claims = format!("/v1/red-packets/{id}/claims");
    let first = service.act(&claims, &service.token("ann", "claim")).await;
    assert_eq!(first.status, 201);
    let token = service.token("zoe", "");
    let mut zoe = Watcher::start(&service, &id, Some(&token), "").await;
    let mut stranger = Watcher::start(&service, &id, None, "").await;
    zoe.until(|zoe| !zoe.data("state").is_empty() && drawn(zoe) == [1])
        .await;
    assert!(zoe.read.contains("text/event-stream"), "{}", zoe.read);
    assert!(zoe.read.contains("cache-control: no-store"), "{}", zoe.read);
    for user in ["bob", "cid"] {
        assert_eq!(
            service
                .act(&claims, &service.token(user, "claim"))
                .await
                .status,
            201
        );
    }
    let is_over = |watcher: &Watcher| {
        watcher
            .data("state")
            .last()
            .is_some_and(|state| state["remaining"] == json!(0))
    };
    zoe.until(|zoe| is_over(zoe) && drawn(zoe).len() == 3).await;
    assert_eq!(drawn(&zoe), [1, 2, 3]);
    // The draws equal the list.
    let listed = service.get(&claims, &token).await.json();
    let draws = zoe.data("draws");
    let told = draws
        .iter()
        .flat_map(|draws| draws["claims"].as_array().unwrap());
    assert_eq!(
        told.collect::<Vec<_>>(),
        listed["data"]
            .as_array()
            .unwrap()
            .iter()
            .collect::<Vec<_>>()
    );
    // A client without a token gets only the numbers.
    stranger.until(is_over).await;
    assert_eq!(drawn(&stranger), [0; 0]);
    // A new connection continues after the last known draw.
    let mut again = Watcher::start(&service, &id, Some(&token), "?after=2").await;
    again.until(|again| !drawn(again).is_empty()).await;
    assert!(drawn(&again).ends_with(&[3]), "{}", again.read);
    service.stop().await;
    let (rest, closed) = read_to_end(&mut zoe.stream, Duration::from_secs(10)).await;
    assert!(closed, "a stream ends with the service: {rest}");
}

#[tokio::test]
async fn draws_are_for_those_who_may_see_them() {
    let service = Service::start().await;
    let id = service
        .red_packet(2, |packet| packet["draws"] = json!("sender"))
        .await;
    let claims = format!("/v1/red-packets/{id}/claims");
    assert_eq!(
        service
            .act(&claims, &service.token("ann", "claim"))
            .await
            .status,
        201
    );
    let (sam, ann) = (service.token("sam", ""), service.token("ann", ""));
    let mut sender = Watcher::start(&service, &id, Some(&sam), "").await;
    let mut grabber = Watcher::start(&service, &id, Some(&ann), "").await;
    sender.until(|sender| drawn(sender) == [1]).await;
    grabber
        .until(|grabber| !grabber.data("state").is_empty())
        .await;
    assert_eq!(
        service
            .act(&claims, &service.token("bob", "claim"))
            .await
            .status,
        201
    );
    sender.until(|sender| drawn(sender) == [1, 2]).await;
    grabber
        .until(|grabber| grabber.data("state").len() > 1)
        .await;
    assert_eq!(drawn(&grabber), [0; 0], "{}", grabber.read);
    service.stop().await;
}

#[tokio::test]
async fn watchers_are_bounded_and_the_unwatched_is_forgotten() {
    let service = Service::start_with(|config, _| config.server.watchers_max = 1).await;
    let id = service.sale(3, |_| ()).await;
    let events = format!("/v1/campaigns/{id}/events");
    let mut first = Watcher::start(&service, &id, None, "").await;
    first.until(|first| !first.data("state").is_empty()).await;
    let second = call(service.addr, "GET", &events, None, &[], None).await;
    second.assert_problem(503, "overloaded");
    drop(first);
    // The stream ends without watchers. A later watcher sees the numbers of that time.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    let orders = format!("/v1/sales/{id}/orders");
    assert_eq!(
        service
            .act(&orders, &service.token("ann", "claim"))
            .await
            .status,
        201
    );
    let mut again = Watcher::start(&service, &id, None, "").await;
    again
        .until(|again| {
            again
                .data("state")
                .last()
                .is_some_and(|state| state["remaining"] == json!(2))
        })
        .await;
    // A request without a stream gets the current numbers.
    drop(again);
    let now = loop {
        let now = call(service.addr, "GET", &events, None, &[], None).await;
        if now.status != 503 {
            break now;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let body = String::from_utf8(now.body.to_vec()).unwrap();
    assert!(body.contains("\"remaining\":2"), "{body}");
    let absent = "/v1/campaigns/01934f1e-0000-7000-8000-000000000000/events";
    let absent = call(service.addr, "GET", absent, None, &[], None).await;
    absent.assert_problem(404, "unknown-campaign");
    service.stop().await;
}

/// A number that one watcher sends does not hide draws from other watchers.
#[tokio::test]
async fn a_number_that_no_draw_has_hides_no_draws() {
    let service = Service::start().await;
    let id = service.red_packet(3, |_| ()).await;
    let claims = format!("/v1/red-packets/{id}/claims");
    let token = service.token("zoe", "");
    let mut first = Watcher::start(&service, &id, Some(&token), "?after=4294967295").await;
    first.until(|first| !first.data("state").is_empty()).await;
    let mut second = Watcher::start(&service, &id, Some(&token), "").await;
    for user in ["ann", "bob"] {
        let claimed = service.act(&claims, &service.token(user, "claim")).await;
        assert_eq!(claimed.status, 201);
    }
    second.until(|second| drawn(second) == [1, 2]).await;
    // A watcher that joins others also sees earlier draws.
    let mut third = Watcher::start(&service, &id, Some(&token), "?after=1").await;
    third.until(|third| drawn(third) == [2]).await;
    service.stop().await;
}
