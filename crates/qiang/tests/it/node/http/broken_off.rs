//! Interrupted changes with a key: the client disconnects, or the answer is uncertain. A retry gets the answer, carries
//! out a change that was not made, and undoes nothing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use qiang_core::{
    book::{Claim, Command, OrderView, Reply},
    campaign::{AckLevel, Tally},
    event::PartitionId,
    id::{CampaignId, OrderId},
    outcome::Outcome,
    ports::{Claimed, Engine, EngineError, PendingReply, ProbeResult, ReplySender},
};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use crate::node::http::common::{self, Service};

const PATIENCE: Duration = Duration::from_secs(30);

/// Fate of the next changes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    CarriedOut,
    /// Changes wait until the test releases them.
    Held,
    /// Changes are carried out, and their answers are lost.
    AnswerLost,
    /// Changes are lost.
    Lost,
}

/// Commands that wait, each with the sender of its answer.
type Waiting = Vec<(Command, ReplySender<Reply>)>;

/// An engine that carries out, holds or loses changes, as a test says.
#[derive(Clone)]
struct Fickle {
    engine: Arc<dyn Engine>,
    fate: Arc<Mutex<Fate>>,
    held: Arc<Mutex<Waiting>>,
    /// Whether a pause has reached only some of the shards.
    is_half_paused: Arc<AtomicBool>,
}

impl Fickle {
    fn lost<T>() -> Result<T, EngineError> {
        Err(EngineError::uncertain("its answer was lost"))
    }

    /// Waits until the engine holds a change.
    async fn holds(&self) {
        let until = Instant::now() + PATIENCE;
        while self.held.lock().is_empty() {
            assert!(
                Instant::now() < until,
                "the change does not reach the engine"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Carries out the held changes, and all changes from now on.
    async fn let_go(&self) {
        *self.fate.lock() = Fate::CarriedOut;
        let held = std::mem::take(&mut *self.held.lock());
        for (command, answer) in held {
            answer.send(self.engine.submit(command).await);
        }
    }
}

impl Engine for Fickle {
    fn claim(&self, claim: Claim) -> PendingReply<Claimed> {
        self.engine.claim(claim)
    }
    fn submit(&self, command: Command) -> PendingReply<Reply> {
        let fate = match command.without_key() {
            Command::Act { .. }
            | Command::SetStock { .. }
            | Command::SetTerms { .. }
            | Command::SetSale { .. }
            | Command::Correct { .. } => *self.fate.lock(),
            _ => Fate::CarriedOut,
        };
        match fate {
            Fate::CarriedOut => self.engine.submit(command),
            Fate::Held => {
                let (answer, ticket) = PendingReply::new();
                self.held.lock().push((command, answer));
                ticket
            }
            Fate::AnswerLost => {
                drop(self.engine.submit(command));
                PendingReply::ready(Self::lost())
            }
            Fate::Lost => PendingReply::ready(Self::lost()),
        }
    }
    fn try_gate_outcome(&self, claim: &Claim) -> Option<Outcome> {
        self.engine.try_gate_outcome(claim)
    }
    fn has_opened(&self, campaign: CampaignId) -> bool {
        self.engine.has_opened(campaign)
    }
    fn tally(&self, campaign: CampaignId) -> PendingReply<Option<Tally>> {
        self.engine.tally(campaign)
    }
    fn is_paused_throughout(&self, _: CampaignId) -> PendingReply<bool> {
        PendingReply::ready(Ok(!self.is_half_paused.load(Ordering::Relaxed)))
    }
    fn order(&self, order: OrderId) -> PendingReply<Option<OrderView>> {
        self.engine.order(order)
    }
    fn probe(&self, partition: PartitionId) -> PendingReply<ProbeResult> {
        self.engine.probe(partition)
    }
    fn ack_levels(&self) -> &'static [AckLevel] {
        self.engine.ack_levels()
    }
}

async fn start() -> (Service, Fickle) {
    let fickle = Mutex::new(None);
    let service = Service::start_with(|_, backend| {
        let engine = Fickle {
            engine: Arc::clone(&backend.ports.engine),
            fate: Arc::new(Mutex::new(Fate::CarriedOut)),
            held: Arc::default(),
            is_half_paused: Arc::default(),
        };
        backend.ports.engine = Arc::new(engine.clone());
        *fickle.lock() = Some(engine);
    })
    .await;
    (service, fickle.into_inner().unwrap())
}

/// A change: its request, the field that shows it, and the request that undoes it.
struct Case {
    name: &'static str,
    ask: Ask,
    undo: Ask,
    /// An independent change of the same sale.
    aside: Ask,
    field: &'static str,
    after: Value,
}

#[derive(Clone)]
enum Ask {
    Act(&'static str),
    Patch(Value),
}

impl Ask {
    async fn under(&self, service: &Service, sale: &str, key: &str) -> common::Reply {
        // Changes of one millisecond have no order, so the clock moves.
        service.clock.advance_ms(1);
        self.again(service, sale, key).await
    }

    fn request(&self, sale: &str) -> (&'static str, String, Option<Value>) {
        match self {
            Self::Act(verb) => ("POST", format!("/v1/campaigns/{sale}/{verb}"), None),
            Self::Patch(body) => ("PATCH", format!("/v1/sales/{sale}"), Some(body.clone())),
        }
    }

    /// Sends the request without reading an answer.
    async fn begin(&self, service: &Service, sale: &str, key: &str) -> TcpStream {
        service.clock.advance_ms(1);
        self.begin_with(service, sale, &format!("idempotency-key: {key}"))
            .await
    }

    /// The same with this header.
    async fn begin_with(&self, service: &Service, sale: &str, header: &str) -> TcpStream {
        let (method, path, body) = self.request(sale);
        let (token, body) = (
            service.operator(),
            body.map_or_else(String::new, |it| it.to_string()),
        );
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: test\r\nauthorization: Bearer {token}\r\n{header}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(service.addr).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn again(&self, service: &Service, sale: &str, key: &str) -> common::Reply {
        let (method, path, body) = self.request(sale);
        let (token, headers) = (service.operator(), [("Idempotency-Key", key)]);
        common::call(service.addr, method, &path, Some(&token), &headers, body).await
    }
}

fn cases() -> [Case; 5] {
    let price =
        |amount: i64| Ask::Patch(json!({ "unit_price": { "amount": amount, "currency": "CNY" } }));
    let stock = |stock: u64| Ask::Patch(json!({ "stock": stock }));
    let both = |title: &str| Ask::Patch(json!({ "title": title, "per_user_limit": title.len() }));
    [
        Case {
            name: "price",
            ask: price(10),
            undo: price(100),
            aside: stock(6),
            field: "/unit_price/amount",
            after: json!(10),
        },
        Case {
            name: "stock",
            ask: stock(7),
            undo: stock(9),
            aside: price(600),
            field: "/stock",
            after: json!(7),
        },
        Case {
            name: "title",
            ask: both("old"),
            undo: both("anew"),
            aside: stock(6),
            field: "/title",
            after: json!("old"),
        },
        Case {
            name: "pause",
            ask: Ask::Act("pause"),
            undo: Ask::Act("resume"),
            aside: price(600),
            field: "/state/phase",
            after: json!("paused"),
        },
        Case {
            name: "resume",
            ask: Ask::Act("resume"),
            undo: Ask::Act("pause"),
            aside: stock(6),
            field: "/state/phase",
            after: json!("live"),
        },
    ]
}

impl Case {
    async fn sale(&self, service: &Service) -> String {
        let sale = service.sale(5, |_| ()).await;
        if self.name == "resume" {
            let paused = self.undo.under(service, &sale, &self.key(&sale)).await;
            assert_eq!(paused.status, 200, "{paused:?}");
        }
        sale
    }

    fn key(&self, name: &str) -> String {
        format!("{}-{name}", self.name)
    }

    async fn seen(&self, service: &Service, sale: &str) -> Value {
        let read = service
            .get(&format!("/v1/sales/{sale}"), &service.operator())
            .await;
        assert_eq!(read.status, 200, "{read:?}");
        read.json().pointer(self.field).cloned().unwrap_or_default()
    }
}

#[tokio::test]
async fn a_change_goes_on_when_its_client_disconnects() {
    let (service, engine) = start().await;
    let service = Arc::new(service);
    for case in cases() {
        let sale = case.sale(&service).await;
        *engine.fate.lock() = Fate::Held;
        let first = case.ask.begin(&service, &sale, &case.key("first")).await;
        engine.holds().await;
        // The client disconnects.
        drop(first);
        let mut again = tokio::spawn({
            let (service, ask) = (Arc::clone(&service), case.ask.clone());
            let (sale, key) = (sale.clone(), case.key("first"));
            async move { ask.again(&service, &sale, &key).await }
        });
        // The retry waits for the first request, and no second command reaches the engine.
        let waits = tokio::time::timeout(Duration::from_millis(100), &mut again).await;
        assert!(waits.is_err(), "{}: {waits:?}", case.name);
        assert_eq!(engine.held.lock().len(), 1, "{}", case.name);
        engine.let_go().await;
        let again = again.await.unwrap();
        assert_eq!(again.status, 200, "{}: {again:?}", case.name);
        assert_eq!(again.header("idempotency-replayed"), "true");
        assert_eq!(
            case.seen(&service, &sale).await,
            case.after,
            "{}",
            case.name
        );
        // The answer is stored, so a later change stays.
        let undone = case.undo.under(&service, &sale, &case.key("undo")).await;
        assert_eq!(undone.status, 200, "{}: {undone:?}", case.name);
        let since = case.seen(&service, &sale).await;
        let late = case.ask.under(&service, &sale, &case.key("first")).await;
        assert_eq!(late.json(), again.json(), "{}", case.name);
        assert_eq!(case.seen(&service, &sale).await, since, "{}", case.name);
    }
    let service = Arc::into_inner(service).unwrap();
    service.stop().await;
}

/// Without a key, the client of a change under `If-Match` disconnects. The change is carried out, and keeps neither the
/// campaign's turn nor a part of a change in two steps.
#[tokio::test]
async fn a_conditional_change_whose_client_disconnects_keeps_no_turn() {
    let (service, engine) = start().await;
    let sale = service.sale(5, |_| ()).await;
    let path = format!("/v1/sales/{sale}");
    let seen = async || service.get(&path, &service.operator()).await;
    let tag = seen().await.header("etag").to_owned();
    *engine.fate.lock() = Fate::Held;
    let stock = Ask::Patch(json!({ "stock": 7 }));
    let condition = format!("if-match: {tag}");
    let first = stock.begin_with(&service, &sale, &condition).await;
    engine.holds().await;
    drop(first);
    // The service notices it while the engine holds the change.
    tokio::time::sleep(Duration::from_millis(200)).await;
    engine.let_go().await;
    let tag = seen().await.header("etag").to_owned();
    let (token, headers) = (service.operator(), [("if-match", &*tag)]);
    let body = Some(json!({ "stock": 8 }));
    let next = common::call(service.addr, "PATCH", &path, Some(&token), &headers, body).await;
    // The tag was read before or after the change, and no dead turn refuses the next one.
    assert!([200, 412].contains(&next.status), "{next:?}");
    let both = Ask::Patch(json!({ "title": "lamps", "per_user_limit": 2 }));
    *engine.fate.lock() = Fate::Held;
    let first = both.begin_with(&service, &sale, "accept: */*").await;
    engine.holds().await;
    drop(first);
    tokio::time::sleep(Duration::from_millis(200)).await;
    engine.let_go().await;
    let until = Instant::now() + PATIENCE;
    while seen().await.json()["title"] != json!("lamps") {
        assert!(Instant::now() < until, "{:?}", seen().await.json());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(seen().await.json()["per_user_limit"], json!(2));
    service.stop().await;
}

#[tokio::test]
async fn a_retry_waits_for_a_first_try_that_hangs_no_longer_than_it_may() {
    let (service, engine) = start().await;
    let sale = service.sale(5, |_| ()).await;
    *engine.fate.lock() = Fate::Held;
    let pause = Ask::Act("pause");
    let first = pause.again(&service, &sale, "k");
    let rest = async {
        engine.holds().await;
        let again = pause.again(&service, &sale, "k").await;
        again.assert_problem(503, "uncertain");
        assert_eq!(again.header("retry-after"), "1");
        engine.let_go().await;
    };
    let (first, ()) = tokio::join!(first, rest);
    assert_eq!(first.status, 200, "{first:?}");
    let again = pause.again(&service, &sale, "k").await;
    assert_eq!((again.status, again.json()), (200, first.json()));
    service.stop().await;
}

/// Some shards of a spread campaign are paused, and others still grant.
#[tokio::test]
async fn a_pause_that_stopped_half_way_is_completed() {
    let (service, engine) = start().await;
    let sale = service.sale(5, |_| ()).await;
    let pause = Ask::Act("pause");
    assert_eq!(pause.under(&service, &sale, "k").await.status, 200);
    engine.is_half_paused.store(true, Ordering::Relaxed);
    *engine.fate.lock() = Fate::Held;
    let second = pause.under(&service, &sale, "l");
    let rest = async {
        engine.holds().await;
        engine.let_go().await;
    };
    let (second, ()) = tokio::join!(second, rest);
    assert_eq!(second.status, 200, "{second:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_retry_after_an_uncertain_answer_carries_out_what_was_not() {
    let (service, engine) = start().await;
    for case in cases() {
        for fate in [Fate::AnswerLost, Fate::Lost] {
            let sale = case.sale(&service).await;
            let key = case.key(if fate == Fate::Lost { "lost" } else { "answer" });
            *engine.fate.lock() = fate;
            let first = case.ask.under(&service, &sale, &key).await;
            first.assert_problem(503, "uncertain");
            *engine.fate.lock() = Fate::CarriedOut;
            // An independent change of the same sale.
            let aside = case
                .aside
                .under(&service, &sale, &format!("{key}-aside"))
                .await;
            assert_eq!(aside.status, 200, "{}", case.name);
            let again = case.ask.under(&service, &sale, &key).await;
            assert_eq!(again.status, 200, "{key}: {again:?}");
            assert_eq!(again.header("idempotency-replayed"), "true", "{key}");
            assert_eq!(case.seen(&service, &sale).await, case.after, "{key}");
            // The key has an answer now.
            let undone = case
                .undo
                .under(&service, &sale, &format!("{key}-undo"))
                .await;
            assert_eq!(undone.status, 200, "{key}");
            let since = case.seen(&service, &sale).await;
            let late = case.ask.under(&service, &sale, &key).await;
            assert_eq!((late.status, late.json()), (200, again.json()), "{key}");
            assert_eq!(case.seen(&service, &sale).await, since, "{key}");
            // The change is listed once, beside the creation, an earlier pause, the independent change and the undo.
            let path = format!("/v1/operation-log?subject={sale}");
            let actions = service.get(&path, &service.operator()).await.json();
            let listed = actions["data"].as_array().map(Vec::len);
            let before = usize::from(case.name == "resume");
            assert_eq!(listed, Some(4 + before), "{key}: {actions}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_retry_undoes_no_change_that_was_made_since() {
    let (service, engine) = start().await;
    for case in cases() {
        for fate in [Fate::AnswerLost, Fate::Lost] {
            let sale = case.sale(&service).await;
            let key = case.key(if fate == Fate::Lost { "lost" } else { "answer" });
            *engine.fate.lock() = fate;
            let first = case.ask.under(&service, &sale, &key).await;
            first.assert_problem(503, "uncertain");
            *engine.fate.lock() = Fate::CarriedOut;
            let undo = case
                .undo
                .under(&service, &sale, &format!("{key}-undo"))
                .await;
            assert_eq!(undo.status, 200, "{key}");
            let since = case.seen(&service, &sale).await;
            assert_ne!(since, case.after, "{key}");
            // If a pause or resumption was lost, its undo changed nothing, so there is no later change to keep.
            let is_act = matches!(case.ask, Ask::Act(_));
            if fate == Fate::Lost && is_act {
                continue;
            }
            // The second one of two changes in one request was not made.
            let is_made = fate == Fate::AnswerLost && case.name != "title";
            let again = case.ask.under(&service, &sale, &key).await;
            match is_made {
                true => {
                    assert_eq!(again.status, 200, "{key}: {again:?}");
                    let field = match is_act {
                        true => "/phase",
                        false => case.field,
                    };
                    assert_eq!(again.json().pointer(field), Some(&since), "{key}");
                }
                false => again.assert_problem(409, "superseded"),
            }
            assert_eq!(case.seen(&service, &sale).await, since, "{key}");
            // The answer is stored: it stays when the field has the value of the change again.
            let anew = format!("{key}-anew");
            assert_eq!(case.ask.under(&service, &sale, &anew).await.status, 200);
            let late = case.ask.under(&service, &sale, &key).await;
            assert_eq!(late.status, again.status, "{key}");
        }
    }
    service.stop().await;
}

/// The first try is lost, its retry is carried out, and the answer of that is lost. The next retry undoes nothing.
#[tokio::test]
async fn a_retry_whose_own_answer_is_lost_is_found() {
    let (service, engine) = start().await;
    for case in cases().into_iter().filter(|case| case.name != "title") {
        let sale = case.sale(&service).await;
        let key = case.key("retried");
        for fate in [Fate::Lost, Fate::AnswerLost] {
            *engine.fate.lock() = fate;
            let broken_off = case.ask.under(&service, &sale, &key).await;
            broken_off.assert_problem(503, "uncertain");
        }
        *engine.fate.lock() = Fate::CarriedOut;
        let other = case.key("undone");
        let undo = case.undo.under(&service, &sale, &other).await;
        assert_eq!(undo.status, 200, "{key}");
        let since = case.seen(&service, &sale).await;
        assert_ne!(since, case.after, "{key}");
        let again = case.ask.under(&service, &sale, &key).await;
        assert_eq!(again.status, 200, "{key}: {again:?}");
        assert_eq!(case.seen(&service, &sale).await, since, "{key}");
    }
    service.stop().await;
}

/// The key is bound, and nothing was recorded or changed, as after an `uncertain` or `unavailable` answer of a ledger.
/// Keys of versions without stored answers look the same.
#[tokio::test]
async fn a_key_that_was_bound_for_nothing_is_carried_out() {
    let service = Service::start().await;
    let sale = service.sale(5, |_| ()).await;
    let title = Ask::Patch(json!({ "title": "new" }));
    let pause = Ask::Act("pause");
    for (ask, key) in [(&title, "t"), (&pause, "p")] {
        assert_eq!(ask.under(&service, &sale, key).await.status, 200);
    }
    assert_eq!(
        Ask::Act("resume").under(&service, &sale, "r").await.status,
        200
    );
    // A stop settles all entries.
    let service = service.restart().await;
    let file = rusqlite::Connection::open(service.folder.path().join("qiang.db")).unwrap();
    file.execute_batch(
        "UPDATE campaigns SET title = 'phones';
         UPDATE idempotency_keys SET answer = NULL;
         DELETE FROM made_changes;
         DELETE FROM actions WHERE kind <> 'create';",
    )
    .unwrap();
    drop(file);
    let service = service.restart().await;
    for (ask, key, field, after) in [
        (&title, "t", "/title", "new"),
        (&pause, "p", "/state/phase", "paused"),
    ] {
        let again = ask.under(&service, &sale, key).await;
        assert_eq!(again.status, 200, "{key}: {again:?}");
        let path = format!("/v1/sales/{sale}");
        let read = service.get(&path, &service.operator()).await.json();
        assert_eq!(read.pointer(field), Some(&json!(after)), "{key}");
    }
    service.stop().await;
}
