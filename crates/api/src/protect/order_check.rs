//! Order check: requests the shop's approval of an order before stock is deducted.

mod shop;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hyper::StatusCode;
use parking_lot::Mutex;
use qiang_core::{book::Claim, id::CampaignId, time::Timestamp};
use qiang_wire::problem::ProblemKind;
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::timeout};

use self::shop::{Shop, ShopRequest};
use crate::{
    config::{OrderCheckConfig, OrderCheckPolicy, UsageError, secret_of},
    http::{
        problem::ApiProblem,
        request_id::{RequestId, current_trace},
        wire::{Rfc3339, Text},
    },
    observe::metrics::{OrderCheckMetrics, OrderCheckOutcome as Outcome},
    protect::breaker::Breaker,
};

/// Maximum length of a shop's reason in an answer.
const REASON_CHARS_MAX: usize = 200;

/// Body of a request to the shop, in the form of Standard Webhooks.
#[derive(Serialize)]
struct QuestionBody<'a> {
    r#type: &'static str,
    timestamp: Rfc3339,
    data: CheckedOrder<'a>,
}

#[derive(Serialize)]
struct CheckedOrder<'a> {
    campaign: Text<CampaignId>,
    kind: &'static str,
    user: &'a str,
    quantity: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
}

/// Answer of the shop.
#[derive(Deserialize)]
struct ShopAnswer {
    ok: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Client of the shop's order check.
pub(crate) struct OrderCheck {
    shop: Shop,
    timeout: Duration,
    policy: OrderCheckPolicy,
    turns: Arc<Semaphore>,
    breaker: Mutex<Breaker>,
    metrics: OrderCheckMetrics,
}

impl OrderCheck {
    /// Client of the configured shop; `None` if there is no URL.
    ///
    /// # Errors
    /// [`UsageError`] that names the key; other errors if a file cannot be read.
    pub(crate) fn new(
        config: &OrderCheckConfig,
        metrics: impl FnOnce() -> OrderCheckMetrics,
    ) -> anyhow::Result<Option<Arc<Self>>> {
        if config.url.is_empty() {
            return Ok(None);
        }
        let secret = secret_of(&config.secret, &config.secret_file, "order_check.secret")?;
        let unset = || UsageError::new("order_check.url is set, and order_check.secret is not");
        let secret = secret.ok_or_else(unset)?;
        let turns = config.concurrent_max as usize;
        let open_for = Duration::from_millis(config.breaker_open_ms);
        Ok(Some(Arc::new(Self {
            shop: Shop::new(&config.url, &secret, turns)?,
            timeout: Duration::from_millis(config.timeout_ms),
            policy: config.policy,
            turns: Arc::new(Semaphore::new(turns)),
            breaker: Mutex::new(Breaker::new(config.breaker_failures, open_for)),
            metrics: metrics(),
        })))
    }

    /// Checks whether the shop allows a claim. The wait for a turn has the same time limit as the shop's answer.
    pub(crate) async fn check(
        self: &Arc<Self>,
        claim: &Claim,
        now: Timestamp,
    ) -> Result<(), ApiProblem> {
        let question = question(claim, now)?;
        let turn = timeout(self.timeout, Arc::clone(&self.turns).acquire_owned());
        let asked = match turn.await {
            // The semaphore is never closed.
            Ok(Err(_)) | Err(_) => Err(Outcome::Busy),
            Ok(Ok(turn)) => {
                // Continues after the user disconnects: the answer informs the breaker, and the connection is kept.
                let this = Arc::clone(self);
                let asked = tokio::spawn(async move {
                    let asked = this.ask(&question).await;
                    drop(turn);
                    asked
                });
                asked.await.unwrap_or(Err(Outcome::Failed))
            }
        };
        let outcome = match &asked {
            Ok(ShopAnswer { ok: true, .. }) => Outcome::Allowed,
            Ok(ShopAnswer { ok: false, .. }) => Outcome::Refused,
            Err(outcome) => *outcome,
        };
        self.metrics.count(outcome);
        match asked {
            Ok(ShopAnswer { ok: true, .. }) => Ok(()),
            Ok(ShopAnswer { reason, .. }) => {
                let reason = reason.as_deref().map(shown).unwrap_or_default();
                Err(ApiProblem::new(ProblemKind::OrderCheckRefused, reason))
            }
            // Too many claims wait, which says nothing about the shop.
            Err(Outcome::Busy) => Err(ApiProblem::order_check_unavailable()),
            Err(_) if self.policy == OrderCheckPolicy::Allow => Ok(()),
            Err(_) => Err(ApiProblem::order_check_unavailable()),
        }
    }

    /// Sends the question if the breaker allows it, and reports the result to the breaker.
    async fn ask(&self, question: &ShopRequest) -> Result<ShopAnswer, Outcome> {
        let call = self.breaker.lock().begin(Instant::now());
        let call = call.ok_or(Outcome::NotAsked)?;
        let began = Instant::now();
        let answer = match timeout(self.timeout, self.shop.ask(question)).await {
            Err(_) => Err((Outcome::TimedOut, "no answer in time".to_owned())),
            Ok(Err(error)) => Err((Outcome::Failed, error.to_string())),
            Ok(Ok((status, body))) => {
                understood(status, &body).map_err(|why| (Outcome::Failed, why))
            }
        };
        self.metrics.took(began.elapsed());
        let (changed, is_open) = {
            let mut breaker = self.breaker.lock();
            let changed = breaker.end(call, answer.is_ok(), Instant::now());
            (changed, breaker.is_open())
        };
        self.metrics.show_open(is_open);
        match &answer {
            Err((_, reason)) if changed => {
                tracing::error!(
                    reason,
                    "the shop does not check orders; requests to it pause"
                );
            }
            Ok(_) if changed => tracing::info!("the shop checks orders again"),
            _ => {}
        }
        answer.map_err(|(outcome, _)| outcome)
    }
}

/// Parsed answer of the shop; the fault if it is not one.
fn understood(status: StatusCode, body: &[u8]) -> Result<ShopAnswer, String> {
    if status != StatusCode::OK {
        return Err(format!("status {status}"));
    }
    serde_json::from_slice(body).map_err(|error| format!("not an answer: {error}"))
}

fn question(claim: &Claim, now: Timestamp) -> Result<ShopRequest, ApiProblem> {
    let request = RequestId::current();
    let body = QuestionBody {
        r#type: "order.check",
        timestamp: Rfc3339(now),
        data: CheckedOrder {
            campaign: Text(claim.campaign),
            kind: claim.kind.name(),
            user: claim.user.as_str(),
            quantity: claim.quantity,
            request_id: request.as_ref().map(RequestId::as_str),
        },
    };
    let body =
        serde_json::to_vec(&body).map_err(|error| ApiProblem::internal(error.to_string()))?;
    let id = uuid::Uuid::from_bytes(rand::random());
    Ok(ShopRequest {
        id: format!("msg_{}", id.simple()),
        timestamp: now.as_millis().div_euclid(1_000),
        body: body.into(),
        trace: current_trace(),
    })
}

/// Reason in a form for users: of limited length, without control characters.
fn shown(reason: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    reason.chars().take(REASON_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use qiang_core::{campaign::CampaignKind, id::UserId};
    use tokio::net::TcpListener;

    use super::*;
    use crate::{config::Secret, observe::metrics::Metrics};

    /// All turns are taken: no request reaches the shop, and no claim is allowed, for either policy.
    #[tokio::test]
    async fn who_gets_no_turn_is_neither_asked_about_nor_let_through() {
        let shop = TcpListener::bind("127.0.0.1:0").await.unwrap();
        for policy in [OrderCheckPolicy::Refuse, OrderCheckPolicy::Allow] {
            let config = OrderCheckConfig {
                url: format!("http://{}/", shop.local_addr().unwrap()),
                secret: Secret::new(format!("whsec_{}", "a".repeat(32))),
                secret_file: std::path::PathBuf::new(),
                timeout_ms: 20,
                concurrent_max: 2,
                breaker_failures: 1,
                breaker_open_ms: 1,
                policy,
            };
            let metrics = Metrics::new(&utoipa::openapi::OpenApi::default());
            let counted = || OrderCheckMetrics::new(&metrics);
            let check = OrderCheck::new(&config, counted).unwrap().unwrap();
            let turns = Arc::clone(&check.turns);
            let turns = turns.acquire_many_owned(config.concurrent_max).await;
            let claim = Claim {
                campaign: "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap(),
                kind: CampaignKind::Sale,
                user: UserId::new("ann").unwrap(),
                quantity: 1,
                key: None,
            };
            let asked = check.check(&claim, Timestamp::from_millis(0)).await;
            let status = asked.map_err(|problem| problem.kind_status());
            assert_eq!(status, Err(StatusCode::SERVICE_UNAVAILABLE), "{policy:?}");
            drop(turns);
        }
        let asked = timeout(Duration::from_millis(100), shop.accept()).await;
        assert!(asked.is_err(), "the shop received a request");
    }

    #[test]
    fn a_reason_is_bounded_and_has_no_control_characters() {
        assert_eq!(shown("no\u{1b}[31m\r\nway"), "no [31m  way");
        assert_eq!(shown(&"地".repeat(300)), "地".repeat(200));
    }

    #[test]
    fn only_an_answer_is_understood() {
        let check = |status: u16, body: &str, expected: Option<bool>| {
            let status = StatusCode::from_u16(status).unwrap();
            let ok = understood(status, body.as_bytes()).ok().map(|it| it.ok);
            assert_eq!(ok, expected, "{status} {body}");
        };
        check(200, r#"{"ok":true}"#, Some(true));
        check(
            200,
            r#"{"ok":false,"reason":"no address","more":1}"#,
            Some(false),
        );
        check(200, r#"{"ok":"true"}"#, None);
        check(200, r#"{"reason":"x"}"#, None);
        check(200, "", None);
        check(201, r#"{"ok":true}"#, None);
        check(302, r#"{"ok":true}"#, None);
        check(500, r#"{"ok":true}"#, None);
    }
}
