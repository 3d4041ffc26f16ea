//! Batches of sales: many in one request, each under its own key.

use std::sync::Arc;

use axum::{Json, extract::State};
use futures_util::{StreamExt as _, stream};
use qiang_core::{id::IdempotencyKey, ports::KeyUse};
use qiang_wire::{
    answers::SaleResult,
    lists::SaleResultList,
    problem::Problem,
    words::{BatchMode, CreationResult},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    auth::Caller,
    extract,
    http::{
        problem::ApiProblem,
        wire::{Text, ToWire as _},
    },
    idempotency::fingerprint::key_use,
    resources::{
        batches::{
            BatchPointers, READ_AT_ONCE, Repetitions, is_throttled, logged, refuse_if_invalid,
        },
        create::{CreatedCampaign, PreparedCampaign},
        sales::{ROUTE, SaleRequest},
    },
};

/// Maximum number of sales in one request.
const SALES_MAX: usize = 100;
const POINTERS: BatchPointers = BatchPointers("sales", "sale");

/// Sales to open: 1 to 100.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewSales)]
pub(crate) struct SaleBatchRequest {
    #[schema(min_items = 1, max_items = 100)]
    sales: Vec<KeyedSaleRequest>,
    /// `each`: a refused sale does not affect the others. `all`: if one sale is refused, none is created, and the
    /// whole request is refused. Default: `each`.
    #[serde(default)]
    #[schema(value_type = Option<String>)]
    mode: Option<Text<BatchMode>>,
}

/// A sale to open, under its key.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = KeyedSale)]
struct KeyedSaleRequest {
    /// Idempotency key, with the meaning of the header `Idempotency-Key` of a single sale. The same key identifies the
    /// same sale on both routes.
    #[schema(value_type = String)]
    idempotency_key: Text<IdempotencyKey>,
    sale: SaleRequest,
}

impl KeyedSaleRequest {
    fn used(&self, caller: &Caller) -> KeyUse {
        key_use(&caller.user, ROUTE, &self.idempotency_key.0, "", &self.sale)
    }
}

/// Opens sales, each as `createSale` does.
///
/// Each counts as one creation. They are recorded in their order and committed together. If one is refused, for
/// example because another campaign has its id, the others are not affected; with the mode `all`, the whole request is
/// refused with that problem, its `errors` name the refused sales, and none is created. An invalid field, or a seller
/// for whom the token may not act, always refuses the whole request before anything is done. Repeat the request after
/// a lost answer: created sales are replayed, and the others are created.
#[utoipa::path(post, path = "/v1/sales/batch", tag = "sales", request_body = SaleBatchRequest,
    operation_id = "createSales", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    responses((status = 200, body = SaleResultList), (status = 403, body = Problem),
        (status = 409, description = "A sale is refused, and the mode is `all`: none is created", body = Problem)))]
pub(crate) async fn create(
    State(app): State<Arc<App>>,
    caller: Caller,
    extract::Json(SaleBatchRequest { sales, mode }): extract::Json<SaleBatchRequest>,
) -> Result<Json<SaleResultList>, ApiProblem> {
    for asked in &sales {
        asked.sale.check_scope(&caller)?;
    }
    if !(1..=SALES_MAX).contains(&sales.len()) {
        let detail = format!("a batch has 1 to {SALES_MAX} sales");
        return Err(ApiProblem::invalid_at("#/sales", detail));
    }
    let mode = mode.map_or(BatchMode::Each, |mode| mode.0);
    let checked = sales
        .iter()
        .map(|it| (it.used(&caller), it.sale.check_fields(&app)));
    let counted = app.count_batch(&caller, (mode, POINTERS), checked.collect(), 0);
    let are_counted = counted.await?;
    let mut prepared = Vec::with_capacity(sales.len());
    let mut repetitions = Repetitions::new(&app, are_counted);
    for asked in &sales {
        prepared.push(prepare(&caller, asked, &mut repetitions).await);
    }
    refuse_if_invalid(&mut prepared, POINTERS)?;
    let audiences: Vec<_> = sales.iter().map(|it| it.sale.audience()).collect();
    let created = app.create_batch(prepared, (mode, POINTERS), &audiences);
    let created = created.await?;
    let results = sales.into_iter().zip(created);
    let results = results.map(|(asked, created)| result(&app, &caller, asked, created));
    let results: Vec<_> = stream::iter(results).buffered(READ_AT_ONCE).collect().await;
    Ok(Json(SaleResultList::whole(logged(results))))
}

/// Checks a sale. It counts towards the caller's creation limit, unless it was counted before.
async fn prepare(
    caller: &Caller,
    asked: &KeyedSaleRequest,
    repetitions: &mut Repetitions<'_>,
) -> Result<(KeyUse, PreparedCampaign), ApiProblem> {
    let (app, used) = (repetitions.app, asked.used(caller));
    let draft = match repetitions.are_counted {
        true => asked.sale.counted_draft(app, caller).await,
        false => asked.sale.draft(app, caller, false).await,
    };
    let draft = match repetitions.is_one(is_throttled(&draft), &used).await? {
        true => asked.sale.draft(app, caller, true).await?,
        false => draft?,
    };
    let prepared = app.prepare(caller, Some(&used), draft).await?;
    Ok((used, prepared))
}

/// Result of one sale, and the cause if the server is at fault.
async fn result(
    app: &App,
    caller: &Caller,
    asked: KeyedSaleRequest,
    created: Result<CreatedCampaign, ApiProblem>,
) -> (SaleResult, Option<String>) {
    let answered = match created {
        Ok(created) => {
            let fresh = created.is_fresh();
            let answer = asked.sale.answer(app, caller, created).await;
            answer.map(|body| (fresh, body))
        }
        Err(problem) => Err(problem),
    };
    let (result, sale, refused) = match answered {
        Ok((true, body)) => (CreationResult::Created, Some(body), None),
        Ok((false, body)) => (CreationResult::Replayed, Some(body), None),
        Err(problem) => (CreationResult::Refused, None, Some(problem.into_part())),
    };
    let (problem, cause) = refused.unzip();
    let body = SaleResult {
        idempotency_key: asked.idempotency_key.0.to_wire(),
        result,
        sale,
        problem,
    };
    (body, cause.flatten())
}
