//! Cancellation of many held orders of a sale in one request.
//!
//! A request first records its plan: the orders that it found held. Then it cancels them. A retry under the same key
//! reads the plan and cancels exactly its orders, even if the first try broke off between two of them.

use std::sync::Arc;

use axum::response::Response;
use futures_util::{StreamExt as _, stream};
use qiang_core::{
    book::{Command, Refusal, Reply},
    campaign::CampaignKind,
    id::{CampaignId, OrderId, UserId},
    order::{OrderState, OrderStepError},
    ports::{Action, ActionKind, EngineError, KeyState, KeyUse, OrderPlace, OrderQuery},
};
use qiang_wire::{
    answers::{self, CancellationRefusals},
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    extract::{ObjectRequest, OptionalJson},
    http::{
        paging::{Cursor, Page, PagedList, created_range},
        problem::{ApiProblem, NoAnswer},
        request_id::RequestId,
        wire::{Rfc3339, Text},
    },
    resources::{
        operation_log,
        order_list::READS_MAX,
        stored_answer::{answer, replay},
    },
};

/// Largest number of orders that one request cancels.
const ORDERS_MAX: u32 = 500;
/// Cancellations of one request that wait for the engine at a time.
const CONCURRENT_MAX: usize = 32;

const HELD_ORDERS: PagedList = PagedList::with_limits("held_orders", 100, ORDERS_MAX).with_gaps();

/// Held orders of a sale to cancel. Without a filter these are all of them.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewOrderCancellations)]
pub(crate) struct CancelOrdersRequest {
    /// Only orders of this buyer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, max_length = 128)]
    user: Option<Text<UserId>>,
    /// Only orders from this time on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_after: Option<Rfc3339>,
    /// Only orders from before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    created_before: Option<Rfc3339>,
    /// Only orders after this cursor: `next` of the part before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// Cancel at most this many orders; default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 500)]
    limit: Option<u32>,
}

impl CancelOrdersRequest {
    fn page(&self) -> Result<Page<'static, OrderPlace>, ApiProblem> {
        if !self
            .limit
            .is_none_or(|limit| (1..=ORDERS_MAX).contains(&limit))
        {
            let why = format!("a limit is 1 to {ORDERS_MAX}");
            return Err(ApiProblem::invalid_at("#/limit", why));
        }
        let page = HELD_ORDERS.page(self.after.as_ref(), self.limit);
        page.map_err(|_| {
            let why = "it is no cursor of this operation: use `next` of the part before";
            ApiProblem::invalid_at("#/after", why)
        })
    }

    fn query(
        &self,
        sale: CampaignId,
        page: &Page<'_, OrderPlace>,
    ) -> Result<OrderQuery, ApiProblem> {
        Ok(OrderQuery {
            user: self.user.as_ref().map(|user| user.0.clone()),
            campaign: Some(sale),
            state: Some(OrderState::Held),
            created: created_range(self.created_after, self.created_before).map_err(|_| {
                let why = "`created_after` is earlier than `created_before`";
                ApiProblem::invalid_at("#/created_after", why)
            })?,
            after: page.after,
            limit: page.reads(),
            reads_max: READS_MAX,
        })
    }
}

/// Orders that a request cancels, as its action records them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct CancellationPlan {
    /// Numbers of the orders.
    orders: Vec<u32>,
    /// Cursor of the next part.
    next: Option<String>,
    /// Whether the ledger had all orders.
    settled: bool,
}

/// Cancels the held orders of a sale that match a filter, in parts.
///
/// The units of a cancelled order are for sale again, unless the sale is closed, and free the buyer's limit. Pause or
/// close the sale first if they must not be sold. Each buyer sees the order `cancelled`, and the shop's webhooks get
/// `order.cancelled`. A buyer who pays a cancelled order is owed the money.
///
/// One request cancels up to `limit` orders, the newest first. Repeat it with `after` from `next` until there is no
/// `next`. A part may have no order and still a `next`. An order that is paid, or expires, at the same moment does not
/// change: `refusals` counts them by reason. The operation log lists the orders of each part under the sale. The
/// parts of a sale per minute are limited, apart from its changes.
///
/// Sellers cancel held orders of their own sales with `campaigns:write`. A repetition with the same key cancels the
/// same orders, even if the first request broke off between two of them.
#[utoipa::path(post, path = "/v1/sales/{id}/orders/cancel", tag = "orders",
    request_body = Option<CancelOrdersRequest>, operation_id = "cancelOrders",
    security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("id" = String, Path, description = "The sale's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the same orders are meant")),
    responses((status = 200, body = answers::OrderCancellations), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 422, description = "`invalid`: a limit above 500, a cursor of another list, or no time in the range; \
            `key-reused`", body = Problem),
        (status = 503, description = "No answer of the engine or the ledger; `uncertain`: some orders may be \
            cancelled. Repeat it with the same key", body = Problem), NoAnswer))]
pub(crate) async fn cancel(
    call: ObjectRequest<CampaignId>,
    OptionalJson(request): OptionalJson<CancelOrdersRequest>,
) -> Result<Response, ApiProblem> {
    let app = Arc::clone(&call.app);
    app.check_leads(&call.caller, call.id).await?;
    match app.meta(call.id).await? {
        Some(meta) if meta.kind == CampaignKind::Sale => {}
        Some(_) => return Err(ProblemKind::UnknownCampaign.into()),
        None => return Err(app.missing(call.id).await),
    }
    let page = request.page()?;
    request.query(call.id, &page)?;
    let used = call.key_use("POST /v1/sales/{id}/orders/cancel", &request);
    let is_bound = app.is_bound(used.as_ref()).await?;
    if !is_bound {
        // Each request stores rows. Its parts use up no changes of the sale, which may be needed at the same time.
        app.limits.check_bulk_cancellation(call.id)?;
    }
    let bulk = BulkCancellation { call, request };
    let Some(used) = used else {
        let id = app.fresh_id();
        return bulk.carry_out(id, None).await.map(answer);
    };
    let run = move |used| async move { bulk.carry_out_under(used).await };
    app.detached.run(used, run).await
}

/// A requested cancellation of many orders.
struct BulkCancellation {
    call: ObjectRequest<CampaignId>,
    request: CancelOrdersRequest,
}

impl BulkCancellation {
    async fn carry_out_under(&self, used: KeyUse) -> Result<Response, ApiProblem> {
        let app = &self.call.app;
        let fresh = app.fresh_id();
        let (id, plan) = match app.ports.ledger.begin_key(&used, fresh).await? {
            KeyState::Fresh => (fresh, None),
            KeyState::Answered(kept) => return replay(&kept),
            KeyState::Pending(bound) => {
                RequestId::mark_replay();
                (bound, self.recorded_plan(bound).await?)
            }
        };
        let decided = self.carry_out(id, plan).await;
        app.keep(&used, id, decided).await
    }

    /// Cancels the orders of a plan, or those of a new plan that it records under this id.
    async fn carry_out(
        &self,
        id: Uuid,
        plan: Option<CancellationPlan>,
    ) -> Result<answers::OrderCancellations, ApiProblem> {
        let plan = match plan {
            Some(plan) => plan,
            None => self.plan(id).await?,
        };
        // From here on, some orders may be cancelled, by this try or by an earlier one.
        let refusals = self.cancel_all(&plan.orders).await;
        let refusals = refusals.map_err(ApiProblem::after_the_command)?;
        let matched = u32::try_from(plan.orders.len()).unwrap_or(u32::MAX);
        let unchanged = refusals.paid + refusals.expired + refusals.returned + refusals.unknown;
        Ok(answers::OrderCancellations {
            matched,
            cancelled: matched - unchanged,
            unchanged,
            refusals,
            next: plan.next,
            settled: plan.settled,
        })
    }

    /// Finds the orders, and records them as an action with this id. A plan without an order is not recorded.
    async fn plan(&self, id: Uuid) -> Result<CancellationPlan, ApiProblem> {
        let (app, sale) = (&self.call.app, self.call.id);
        let page = self.request.page()?;
        let query = self.request.query(sale, &page)?;
        let settled = app.settled().await?;
        let found = app.ports.ledger.orders_of(&query).await?;
        let mut orders = found.items;
        let early = found.read_from.map(|at| OrderPlace { at, order: None });
        let next = page.cut(&mut orders, |order| order.place()).or(early);
        let plan = CancellationPlan {
            orders: orders.iter().map(|order| order.grant.number).collect(),
            next: next.map(|next| page.cursor(next)),
            settled,
        };
        if plan.orders.is_empty() {
            return Ok(plan);
        }
        let detail = json!({ "filter": &self.request, "plan": &plan });
        let action = Action {
            id,
            ..self.call.action(ActionKind::Cancel, &detail)
        };
        if let Err(error) = app.ports.ledger.record(&action).await {
            // Another try with the same key may have recorded its plan in between.
            let recorded = self.recorded_plan(id).await?;
            return recorded.ok_or_else(|| error.into());
        }
        operation_log::log(&action);
        Ok(plan)
    }

    /// Plan that an earlier try with the same key recorded.
    async fn recorded_plan(&self, id: Uuid) -> Result<Option<CancellationPlan>, ApiProblem> {
        let subject = self.call.id.to_string();
        let before = Uuid::from_u128(id.as_u128().saturating_sub(1));
        let actions = self
            .call
            .app
            .ports
            .ledger
            .actions(&subject, Some(before), 1);
        let actions = actions.await?;
        let Some(action) = actions.into_iter().find(|action| action.id == id) else {
            return Ok(None);
        };
        let unreadable = |error: serde_json::Error| ApiProblem::internal(error.to_string());
        let mut detail: serde_json::Value =
            serde_json::from_str(&action.detail).map_err(unreadable)?;
        let plan = serde_json::from_value(detail["plan"].take());
        plan.map(Some).map_err(unreadable)
    }

    /// Cancels these orders, and counts the orders that are not cancelled now, once each is decided or uncertain.
    async fn cancel_all(&self, numbers: &[u32]) -> Result<CancellationRefusals, ApiProblem> {
        let (engine, campaign) = (&self.call.app.ports.engine, self.call.id);
        let cancel = |number: u32| {
            let order = OrderId { campaign, number };
            engine.submit(Command::Cancel { order, part: None })
        };
        let replies = stream::iter(numbers.iter().copied().map(cancel));
        let replies = replies.buffer_unordered(CONCURRENT_MAX);
        // After an error the others are still awaited, so that none is under way when the answer says so.
        let replies: Vec<_> = replies.collect().await;
        let mut refusals = CancellationRefusals {
            paid: 0,
            expired: 0,
            returned: 0,
            unknown: 0,
        };
        for reply in replies {
            if let Some(reason) = refused_count(reply, &mut refusals)? {
                *reason += 1;
            }
        }
        Ok(refusals)
    }
}

/// Count to which a refused cancellation belongs; `None` if the order is cancelled.
///
/// # Errors
/// If the order may be cancelled later, or never, for a reason that is not the order's.
fn refused_count(
    reply: Result<Reply, EngineError>,
    counts: &mut CancellationRefusals,
) -> Result<Option<&mut u32>, ApiProblem> {
    match reply {
        Ok(Reply::Cancelled(_)) => Ok(None),
        Err(EngineError::Refused(Refusal::Order(OrderStepError { from, .. }))) => match from {
            OrderState::Paid => Ok(Some(&mut counts.paid)),
            OrderState::Expired => Ok(Some(&mut counts.expired)),
            OrderState::Returned => Ok(Some(&mut counts.returned)),
            OrderState::Held | OrderState::Cancelled => Err(ApiProblem::unexpected_reply()),
        },
        Err(EngineError::Refused(Refusal::UnknownOrder | Refusal::UnknownCampaign)) => {
            Ok(Some(&mut counts.unknown))
        }
        Ok(_) => Err(ApiProblem::unexpected_reply()),
        Err(error) => Err(error.into()),
    }
}
