//! Changes of a sale: its stock, its terms and its description.

use std::sync::Arc;

use axum::response::Response;
use qiang_core::{
    admission::{AdmissionBound, BadAdmissionRatio},
    book::{Command, Reply, SaleCorrection},
    campaign::{
        CampaignError, CampaignKind, Description, DetailsChange, ImageUrl, Phase, Sale,
        SaleSettings, SaleSettingsChange, Tally,
    },
    id::{CampaignId, ProductId},
    money::Currency,
    payment::PaymentPolicy,
    ports::{Action, ActionKind, CampaignRecord},
    time::Timestamp,
};
use qiang_wire::{
    answers,
    problem::{Problem, ProblemKind},
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::{
    extract::{self, ObjectRequest},
    http::{
        entity_tag::{Condition, IfMatch, StrongTag},
        problem::ApiProblem,
        wire::{MoneyBody, Rfc3339, Text, nullable},
    },
    idempotency::running_changes::SettingsUse,
    resources::{
        changes::{BegunChange, Change},
        operation_log,
        sales::{gallery, list_price_minor, sale_body},
    },
};

/// Changes of a sale: its stock, its terms and its description. Absent fields do not change.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SaleChange)]
pub(crate) struct SaleChange {
    /// Total units for sale, units of users included. At least the units that users have, and at least the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 9_007_199_254_740_991_i64)]
    stock: Option<u64>,
    /// New start: not in the past, and only until the sale has opened. A sale of up to a million units can move it
    /// until it has sold some.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    starts_at: Option<Rfc3339>,
    /// New end: not in the past, and only before the sale ends.
    #[schema(value_type = Option<String>, format = DateTime)]
    #[serde(skip_serializing_if = "Option::is_none")]
    ends_at: Option<Rfc3339>,
    /// Units that one user may have: 1 up to the stock. A user with more units keeps them.
    #[schema(minimum = 1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    per_user_limit: Option<u32>,
    /// Price of one unit, in the sale's currency, for orders from then on. Earlier orders keep their price. If the
    /// sale accepts more than its price, the price is at least 1. With a `payment_tolerance`, the price is above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit_price: Option<MoneyBody>,
    /// Users admitted to a decision at a time for each 100 units that are left: 100 to 10,000, or 0 for no limit.
    /// Nodes follow within seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 10_000)]
    admission_percent: Option<u32>,
    /// Title that users see.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    title: Option<String>,
    /// The seller's id of the product; null removes it.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 128)]
    product_id: Option<Option<Text<ProductId>>>,
    /// Description of the product; null removes it.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 4096)]
    description: Option<Option<Text<Description>>>,
    /// Image of the product; null removes it.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 2048)]
    image_url: Option<Option<Text<ImageUrl>>>,
    /// Further pictures of the product, at most 8; none or null removes them.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<Vec<String>>, max_items = 8)]
    gallery: Option<Option<Vec<Text<ImageUrl>>>>,
    /// Price of one unit before the discount: above the unit price, in the sale's currency; null removes it.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<MoneyBody>)]
    list_price: Option<Option<MoneyBody>>,
}

impl SaleChange {
    fn details(&self) -> Result<DetailsChange, ApiProblem> {
        fn inner<T: Clone>(change: Option<&Option<Text<T>>>) -> Option<Option<T>> {
            change.map(|to| to.as_ref().map(|to| to.0.clone()))
        }
        let change = DetailsChange {
            title: self.title.clone(),
            product_id: inner(self.product_id.as_ref()),
            description: inner(self.description.as_ref()),
            image_url: inner(self.image_url.as_ref()),
            gallery: match &self.gallery {
                None => None,
                Some(urls) => Some(gallery(urls.as_deref().unwrap_or_default())?),
            },
            list_price_minor: self.list_price.map(|price| price.map(|price| price.amount)),
        };
        change.check()?;
        Ok(change)
    }

    fn terms(&self) -> Result<SaleSettingsChange, BadAdmissionRatio> {
        let admission = self.admission_percent.map(AdmissionBound::from_percent);
        Ok(SaleSettingsChange {
            starts_at: self.starts_at.map(|when| when.0),
            ends_at: self.ends_at.map(|when| when.0),
            per_user_limit: self.per_user_limit,
            unit_price_minor: self.unit_price.map(|price| price.amount),
            admission: admission.transpose()?,
        })
    }

    /// Command for the engine, which is one atomic step; `None` if only title, product, description or image change.
    fn command(&self, campaign: CampaignId) -> Result<Option<Command>, ApiProblem> {
        let change = self.terms()?;
        match (self.stock, change == SaleSettingsChange::default()) {
            (Some(stock), true) => Ok(Some(Command::SetStock { campaign, stock })),
            (None, false) => Ok(Some(Command::SetTerms { campaign, change })),
            (Some(stock), false) => Ok(Some(Command::SetSale {
                campaign,
                stock,
                change,
            })),
            (None, true) => Ok(None),
        }
    }

    /// Detail for the operation log, without the texts of title, description and pictures.
    fn changed(&self) -> Value {
        // A struct of strings and numbers always serialises.
        let mut changed = serde_json::to_value(self).unwrap_or_default();
        for (field, value) in changed.as_object_mut().into_iter().flatten() {
            if ["title", "description", "image_url", "gallery"].contains(&&**field) {
                *value = Value::Null;
            }
        }
        changed
    }

    /// Detail for the operation log, with the earlier values of the changed fields, as read just before the change.
    /// Texts of title, description and image are in neither.
    fn changed_from(&self, record: &CampaignRecord, tally: &Tally) -> Value {
        let mut changed = self.changed();
        let before = self.before(record, tally);
        if let Some(fields) = changed.as_object_mut().filter(|_| before != json!({})) {
            fields.insert(operation_log::BEFORE.to_owned(), before);
        }
        changed
    }

    fn before(&self, record: &CampaignRecord, tally: &Tally) -> Value {
        let mut before = serde_json::Map::new();
        let mut note = |is_asked: bool, field: &str, value: Value| {
            if is_asked {
                before.insert(field.to_owned(), value);
            }
        };
        note(self.stock.is_some(), "stock", tally.supply.into());
        let product_id = record.details.product_id.as_ref().map(ProductId::as_str);
        note(self.product_id.is_some(), "product_id", product_id.into());
        if let Some(terms) = tally.terms {
            let time = |at: Timestamp| Value::from(Rfc3339(at).to_string());
            let (starts_at, ends_at) = (terms.window.starts_at(), terms.window.ends_at());
            let currency = record.campaign.currency().code();
            let price = json!({ "amount": terms.unit_price_minor, "currency": currency });
            let (limit, percent) = (terms.per_user_limit, terms.admission.percent());
            note(self.starts_at.is_some(), "starts_at", time(starts_at));
            note(self.ends_at.is_some(), "ends_at", time(ends_at));
            note(
                self.per_user_limit.is_some(),
                "per_user_limit",
                limit.into(),
            );
            note(self.unit_price.is_some(), "unit_price", price);
            note(
                self.admission_percent.is_some(),
                "admission_percent",
                percent.into(),
            );
        }
        before.into()
    }

    /// Refuses a price that does not fit the sale's payment policy, which never changes.
    fn check_policy(&self, policy: PaymentPolicy) -> Result<(), ApiProblem> {
        match self
            .unit_price
            .is_none_or(|price| policy.fits(price.amount))
        {
            true => Ok(()),
            false => {
                let why = CampaignError::PaymentPolicy.to_string();
                Err(ApiProblem::invalid_at("#/unit_price/amount", why))
            }
        }
    }

    /// Refuses a list price that is not above the unit price, or is in another currency.
    fn check_list_price(&self, record: &CampaignRecord) -> Result<(), ApiProblem> {
        let sold_at = record.campaign.rules.sale().map(Sale::unit_price);
        let price = self.unit_price.map(MoneyBody::money).or(sold_at);
        let list_price = self.list_price.flatten();
        price.map_or(Ok(()), |price| {
            list_price_minor(list_price, price).map(drop)
        })
    }

    fn check_currency(&self, sold_in: Currency) -> Result<(), ApiProblem> {
        let price = self.unit_price.map(MoneyBody::money);
        match price.is_some_and(|price| price.currency != sold_in) {
            true => Err(ApiProblem::invalid_at(
                "#/unit_price/currency",
                format!("the price of this sale is in {sold_in}"),
            )),
            false => Ok(()),
        }
    }
}

/// Changes a sale.
///
/// Stock, window, limit, price and admission can change until the sale is over, all in one step. If one of them is
/// refused, nothing changes. Title, product, description and image can change at any time. Fields that already have the
/// value do not change.
///
/// With `If-Match`, the sale changes only if nothing that this operation changes was changed since it was read. Its
/// `ETag` is strong if the caller may change it. Such a request changes the stock alone, the texts alone, or window,
/// limit, price and admission.
#[utoipa::path(patch, path = "/v1/sales/{id}", tag = "sales", request_body = SaleChange,
    operation_id = "changeSale", security(("bearer" = ["campaigns:write"]), ("bearer" = ["campaigns:write:any"])),
    params(("id" = String, Path, description = "The sale's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the change is made once"),
        ("If-Match" = Option<String>, Header, description = "Entity tags of the sale: it changes only if it still has \
            one of them. Units that were sold since do not count")),
    responses((status = 200, body = answers::Sale), (status = 403, body = Problem), (status = 404, body = Problem),
        (status = 409, description = "`stock-granted`: users have more; `phase-conflict`: it is over, or has opened; \
            `superseded`: an earlier request with this key broke off, and a later change may have set the same values; \
            `key-pending`: the same, and Redis lost entries in between",
            body = Problem),
        (status = 422, body = Problem),
        (status = 503, description = "no answer of the engine or the ledger, `ledger-incomplete`, or `uncertain`: the \
            ledger does not have it yet",
            body = Problem)))]
pub(crate) async fn change(
    call: ObjectRequest<CampaignId>,
    condition: Condition,
    extract::Json(request): extract::Json<SaleChange>,
) -> Result<Response, ApiProblem> {
    call.app.check_leads(&call.caller, call.id).await?;
    let details = request.details()?;
    let command = request.command(call.id)?;
    if details == DetailsChange::default() && command.is_none() {
        return Err(ApiProblem::invalid("there is nothing to change"));
    }
    let condition = match condition.check_strong() {
        Ok(condition) => condition,
        Err(problem) => {
            // An unknown sale is refused as that.
            call.app.record(call.id, CampaignKind::Sale).await?;
            return Err(problem);
        }
    };
    if condition.is_some() && command.is_some() && details != DetailsChange::default() {
        let detail = "under `If-Match`, change title, product, description and image in a request of their own";
        return Err(ApiProblem::invalid(detail));
    }
    if condition.is_some() && matches!(command, Some(Command::SetSale { .. })) {
        let detail = "under `If-Match`, change the stock in a request of its own";
        return Err(ApiProblem::invalid(detail));
    }
    let used = call.conditional_key_use("PATCH /v1/sales/{id}", &request, condition.as_ref());
    let app = Arc::clone(&call.app);
    let change = SalePatch {
        call,
        request,
        details,
        command,
        condition,
    };
    app.change(used, false, change).await
}

/// A requested change of a sale.
struct SalePatch {
    call: ObjectRequest<CampaignId>,
    request: SaleChange,
    details: DetailsChange,
    /// `None` if only title, product, description or image change.
    command: Option<Command>,
    condition: Option<IfMatch>,
}

impl SalePatch {
    /// Whether terms and stock already have the values.
    fn is_so(&self, tally: &Tally) -> bool {
        match &self.command {
            Some(Command::SetStock { stock, .. }) => {
                tally.phase != Phase::Closed && tally.supply == *stock
            }
            Some(Command::SetSale { stock, change, .. }) => {
                tally.phase != Phase::Closed
                    && tally.supply == *stock
                    && tally.terms.is_some_and(|terms| change.is_in(&terms))
            }
            Some(Command::SetTerms { change, .. }) => {
                tally.terms.is_some_and(|terms| change.is_in(&terms))
            }
            _ => true,
        }
    }

    /// The sale after the change.
    async fn body(
        &self,
        record: CampaignRecord,
        tally: &Tally,
    ) -> Result<answers::Sale, ApiProblem> {
        let mut body = self.body_now(record, tally).await?;
        // The parts of a spread sale are counted in turn, while units move between them.
        body.stock = self.request.stock.unwrap_or(body.stock);
        Ok(body)
    }

    async fn body_now(
        &self,
        record: CampaignRecord,
        tally: &Tally,
    ) -> Result<answers::Sale, ApiProblem> {
        let (app, caller, id) = (&self.call.app, &self.call.caller, self.call.id);
        let mut body = sale_body(record, tally, app).await?;
        app.fill_metadata_for(Some(caller), id, &mut body).await?;
        Ok(body)
    }

    /// The sale before the change, which fulfils the condition.
    async fn compared(&self) -> Result<(CampaignRecord, Tally), ApiProblem> {
        let (app, id) = (&self.call.app, self.call.id);
        let Some(condition) = &self.condition else {
            return app.record(id, CampaignKind::Sale).await;
        };
        let Some((record, tally)) = app.settled_sale(id).await? else {
            return Err(ApiProblem::unavailable(
                "the ledger does not have earlier changes of the sale yet",
            ));
        };
        let body = sale_body(record.clone(), &tally, app).await?;
        condition.check(&StrongTag::from_sale(&body))?;
        Ok((record, tally))
    }

    /// The command; with a condition, the engine compares the values that it replaces.
    fn compared_command(&self, record: &CampaignRecord, tally: &Tally) -> Option<Command> {
        let command = self.command.clone()?;
        if self.condition.is_none() {
            return Some(command);
        }
        let (campaign, correction) = match command {
            Command::SetStock { campaign, stock } => {
                let expected = tally.supply;
                (campaign, SaleCorrection::Stock { expected, stock })
            }
            Command::SetTerms { campaign, change } => {
                let expected = tally.terms;
                let expected =
                    expected.or_else(|| SaleSettings::from_campaign(&record.campaign))?;
                (campaign, SaleCorrection::Terms { expected, change })
            }
            other => return Some(other),
        };
        Some(Command::Correct {
            campaign,
            correction: Box::new(correction),
        })
    }
}

impl Change for SalePatch {
    type Body = answers::Sale;

    fn campaign(&self) -> CampaignId {
        self.call.id
    }

    fn settings_use(&self) -> SettingsUse {
        match self.condition {
            Some(_) => SettingsUse::Alone,
            None => SettingsUse::Shared,
        }
    }

    fn tag(body: &answers::Sale) -> Option<StrongTag> {
        Some(StrongTag::from_sale(body))
    }

    async fn already(&self) -> Result<Option<answers::Sale>, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        let (record, tally) = app.present_record(campaign, CampaignKind::Sale).await?;
        self.request.check_currency(record.campaign.currency())?;
        self.request.check_list_price(&record)?;
        match self.is_so(&tally) && self.details.is_in(&record.campaign.title, &record.details) {
            true => Ok(Some(self.body(record, &tally).await?)),
            false => Ok(None),
        }
    }

    fn is_undone_by(&self, action: &Action) -> bool {
        match action.kind {
            ActionKind::Change => {}
            ActionKind::Start => return self.request.starts_at.is_some(),
            _ => return false,
        }
        is_replaced(&self.request.changed(), &action.detail)
    }

    async fn present(&self) -> Result<answers::Sale, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        let (record, tally) = app.present_record(campaign, CampaignKind::Sale).await?;
        self.body_now(record, &tally).await
    }

    async fn make(&self, begun: &BegunChange) -> Result<answers::Sale, ApiProblem> {
        let app = &self.call.app;
        let (record, tally) = self.compared().await?;
        self.request.check_currency(record.campaign.currency())?;
        self.request.check_policy(record.campaign.payment_policy)?;
        self.request.check_list_price(&record)?;
        let detail = self.request.changed_from(&record, &tally);
        let action = self.call.action_begun(begun, ActionKind::Change, &detail);
        let Some(command) = self.compared_command(&record, &tally) else {
            begun.check_in_time()?;
            return self.describe(begun, (&action, Some(&record)), &tally).await;
        };
        app.record_begun(begun, &action).await?;
        // The last step is under the key, so the record says that all of the change was made.
        let command = match self.details == DetailsChange::default() {
            true => begun.keyed_command(command),
            false => command,
        };
        let Reply::Acted(tally) = app.submit_recorded(&action, command).await? else {
            return Err(ApiProblem::unexpected_reply());
        };
        let begun = begun.recorded();
        let changed = self.describe(&begun, (&action, None), &tally).await;
        changed.map_err(ApiProblem::after_the_command)
    }
}

impl SalePatch {
    /// Changes title, product, description and image, and records the action unless it is recorded. Under a condition,
    /// they must be those of the record, unless the engine has compared before. A failure of any step after the first
    /// is `uncertain`.
    async fn describe(
        &self,
        begun: &BegunChange,
        (action, compared): (&Action, Option<&CampaignRecord>),
        tally: &Tally,
    ) -> Result<answers::Sale, ApiProblem> {
        let (app, campaign) = (&self.call.app, self.call.id);
        app.campaigns.outdate(campaign);
        let ledger = &app.ports.ledger;
        if self.details != DetailsChange::default() {
            let by = (!begun.is_recorded).then_some(action);
            let (change, made) = (&self.details, begun.made());
            match compared.filter(|_| self.condition.is_some()) {
                None => ledger.describe(campaign, change, by, made).await?,
                Some(record) => {
                    let expected = (record.campaign.title.as_str(), &record.details);
                    let described = ledger.describe_if(campaign, expected, change, (by, made));
                    if !described.await? {
                        return Err(ProblemKind::PreconditionFailed.into());
                    }
                }
            }
        }
        let record = ledger.campaign(campaign).await;
        let record = record.map_err(|error| ApiProblem::from(error).after_the_command())?;
        let record = record.ok_or_else(|| ApiProblem::ledger_incomplete(campaign))?;
        operation_log::log(action);
        let body = self.body(record, tally).await;
        body.map_err(ApiProblem::after_the_command)
    }
}

/// Whether a later change, with this detail in the operation log, replaced one of the requested values.
fn is_replaced(asked: &Value, detail: &str) -> bool {
    let (Value::Object(asked), Ok(Value::Object(other))) = (asked, serde_json::from_str(detail))
    else {
        return true;
    };
    // A repair that copied the ledger's values to the engine has other field names in its record.
    let source = other.get("campaigns_from");
    if source.is_some_and(|source| source == "ledger") {
        return true;
    }
    // The log does not record the new text of a field.
    asked.iter().any(|(field, to)| {
        let also = other.get(field);
        also.is_some_and(|also| also.is_null() || to.is_null() || also != to)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_replaced;

    #[test]
    fn change_that_a_later_one_or_a_repair_replaced_is_found() {
        let asked = json!({ "unit_price": { "amount": 600, "currency": "CNY" } });
        let is_replaced = |detail: serde_json::Value| is_replaced(&asked, &detail.to_string());
        assert!(is_replaced(
            json!({ "unit_price": { "amount": 500, "currency": "CNY" } })
        ));
        assert!(is_replaced(
            json!({ "campaigns_from": "ledger", "unit_price_minor": 500 })
        ));
        assert!(!is_replaced(
            json!({ "campaigns_from": "engine", "unit_price_minor": 500 })
        ));
        assert!(!is_replaced(json!({ "stock": 5 })));
        assert!(!is_replaced(asked.clone()));
    }
}
