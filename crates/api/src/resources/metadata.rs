//! Metadata of campaigns and orders: the shop's own number and texts. Sellers, senders and operators read and change
//! it.

use std::{collections::BTreeMap, sync::Arc};

use axum::{extract::State, http::HeaderMap, response::Response};
use qiang_core::{
    campaign::CampaignKind,
    id::{CampaignId, OrderId, ShopReference, UserId},
    metadata::{Metadata, MetadataChange, MetadataError, MetadataSubject},
    ports::{Action, ActionKind, MetadataResult},
};
use qiang_wire::{
    answers, ids,
    problem::{Problem, ProblemKind},
    words::ObjectKind,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{self, ObjectRequest, Param},
    http::{
        entity_tag::{Condition, IfMatch, StrongTag, tagged},
        metadata_bodies::{self, ChangedMetadata, WithMetadata},
        problem::{ApiProblem, NoAnswer},
        wire::{Text, nullable},
    },
    resources::{
        changes::{BegunChange, Change},
        operation_log,
    },
};

/// A change of metadata. Absent fields and names do not change.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MetadataChange)]
pub(crate) struct MetadataRequest {
    /// The shop's own number of the object; null removes it. Several objects may have the same one, unless it is
    /// unique.
    #[serde(
        default,
        deserialize_with = "nullable",
        skip_serializing_if = "Option::is_none"
    )]
    #[schema(value_type = Option<String>, max_length = 128)]
    reference: Option<Option<Text<ShopReference>>>,
    /// Whether the reference is unique, with `reference`: if another campaign of the owner, or another order of the
    /// seller, has it as a unique one, the change is refused. Default: as before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unique_reference: Option<bool>,
    /// New values by name; null removes a name. An object has at most 20 names.
    #[serde(default, skip_serializing_if = "ChangedMetadata::is_empty")]
    #[schema(schema_with = metadata_bodies::changed_metadata)]
    metadata: ChangedMetadata,
}

impl MetadataRequest {
    /// Detail for the operation log: the reference, and the changed names without their values.
    fn changed(&self) -> Value {
        let names: Vec<_> = self.metadata.0.keys().map(|name| name.as_str()).collect();
        match &self.reference {
            Some(reference) => match self.unique_reference {
                Some(is_unique) => json!({ "reference": reference, "unique_reference": is_unique,
                    "metadata": names }),
                None => json!({ "reference": reference, "metadata": names }),
            },
            None => json!({ "metadata": names }),
        }
    }
}

/// Whether a change with this detail in the operation log may have replaced one of the requested values.
fn is_replaced(asked: &Value, detail: &str) -> bool {
    let Ok(other) = serde_json::from_str::<Value>(detail) else {
        return true;
    };
    let names = |of: &Value| of["metadata"].as_array().cloned().unwrap_or_default();
    let later = names(&other);
    let is_renamed = asked.get("reference").is_some() && other.get("reference").is_some();
    is_renamed || names(asked).iter().any(|name| later.contains(name))
}

impl App {
    /// Refuses a caller who may not read the metadata of a campaign's objects.
    async fn check_reads_metadata(
        &self,
        caller: &Caller,
        campaign: CampaignId,
    ) -> Result<(), ApiProblem> {
        if caller.may(Scope::ReadAny) {
            return Ok(());
        }
        match self.meta(campaign).await? {
            Some(meta) if meta.owner == caller.user => Ok(()),
            Some(_) => caller.require(Scope::ReadAny),
            None => Err(self.missing(campaign).await),
        }
    }

    /// Stores the metadata of a new object. The object exists: a failure is `uncertain`, and a retry under the same key
    /// stores it.
    pub(crate) async fn add_metadata(
        &self,
        subject: MetadataSubject,
        owner: &UserId,
        metadata: &Metadata,
    ) -> Result<(), ApiProblem> {
        if metadata.is_empty() {
            return Ok(());
        }
        let ledger = &self.ports.ledger;
        let added = ledger.add_metadata(subject, owner, metadata).await;
        added.map_err(|error| ApiProblem::from(error).after_the_command())
    }

    /// Fills the metadata into bodies of objects that the caller may read it of.
    pub(crate) async fn fill_metadata<B: WithMetadata>(
        &self,
        bodies: &mut [B],
        subjects: &[MetadataSubject],
    ) -> Result<(), ApiProblem> {
        if subjects.is_empty() {
            return Ok(());
        }
        let found = self.ports.ledger.metadata(subjects).await?;
        for (body, metadata) in bodies.iter_mut().zip(&found) {
            body.set_metadata(metadata);
        }
        Ok(())
    }

    /// Fills the metadata into the body of one campaign, if the caller may read it.
    pub(crate) async fn fill_metadata_for<B: WithMetadata>(
        &self,
        caller: Option<&Caller>,
        campaign: CampaignId,
        body: &mut B,
    ) -> Result<(), ApiProblem> {
        let Some(caller) = caller else { return Ok(()) };
        let owns = match caller.may(Scope::ReadAny) {
            true => true,
            false => {
                let meta = self.meta(campaign).await?;
                meta.is_some_and(|meta| meta.owner == caller.user)
            }
        };
        if !owns {
            return Ok(());
        }
        let subject = MetadataSubject::Campaign(campaign);
        self.fill_metadata(std::slice::from_mut(body), &[subject])
            .await
    }

    /// A deposit with its metadata.
    pub(crate) async fn with_deposit_metadata(
        &self,
        deposit: answers::Deposit,
        id: Uuid,
    ) -> Result<answers::Deposit, ApiProblem> {
        let found = self.deposit_metadata(&[id]).await?.pop();
        Ok(answers::Deposit {
            metadata: found.unwrap_or_default(),
            ..deposit
        })
    }

    /// Metadata of deposits, in their order.
    pub(crate) async fn deposit_metadata(
        &self,
        ids: &[Uuid],
    ) -> Result<Vec<BTreeMap<String, String>>, ApiProblem> {
        let subjects: Vec<_> = ids.iter().copied().map(MetadataSubject::Deposit).collect();
        let found = self.ports.ledger.metadata(&subjects).await?;
        Ok(found.iter().map(metadata_bodies::texts).collect())
    }

    async fn metadata_body(
        &self,
        subject: MetadataSubject,
        metadata: &Metadata,
    ) -> Result<answers::Metadata, ApiProblem> {
        let object = match subject {
            MetadataSubject::Order(_) => ObjectKind::Order,
            MetadataSubject::Deposit(_) => ObjectKind::Deposit,
            MetadataSubject::Campaign(id) => {
                let meta = self.meta(id).await?;
                let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(id))?;
                match meta.kind {
                    CampaignKind::RedPacket => ObjectKind::RedPacket,
                    CampaignKind::Sale => ObjectKind::Sale,
                }
            }
        };
        Ok(answers::Metadata {
            id: ids::Id::from_service(&subject.id()),
            object,
            reference: metadata.reference.as_ref().map(ToString::to_string),
            unique_reference: metadata.is_unique,
            metadata: metadata_bodies::texts(metadata),
        })
    }

    async fn read_metadata(
        &self,
        subject: MetadataSubject,
    ) -> Result<answers::Metadata, ApiProblem> {
        let found = self.ports.ledger.metadata(&[subject]).await?.pop();
        self.metadata_body(subject, &found.unwrap_or_default())
            .await
    }

    /// Refuses a campaign that does not exist.
    async fn check_campaign(&self, id: CampaignId) -> Result<(), ApiProblem> {
        match self.meta(id).await? {
            Some(_) => Ok(()),
            None => Err(self.missing(id).await),
        }
    }

    /// Refuses an order that does not exist.
    async fn check_order(&self, id: OrderId) -> Result<(), ApiProblem> {
        match self.ports.engine.order(id).await? {
            Some(_) => Ok(()),
            None => Err(ApiProblem::new(
                ProblemKind::NotFound,
                "there is no such order",
            )),
        }
    }
}

/// A requested change of an object's metadata.
struct MetadataPatch<T> {
    call: ObjectRequest<T>,
    campaign: CampaignId,
    subject: MetadataSubject,
    change: MetadataChange,
    changed: Value,
    condition: Option<IfMatch>,
}

impl<T: std::fmt::Display + Send + Sync + 'static> MetadataPatch<T> {
    async fn run(
        call: ObjectRequest<T>,
        route: &str,
        (campaign, subject): (CampaignId, MetadataSubject),
        (request, condition): (&MetadataRequest, Option<IfMatch>),
    ) -> Result<Response, ApiProblem> {
        let reference = request.reference.as_ref();
        let change = request
            .metadata
            .change(reference, request.unique_reference)?;
        if change == MetadataChange::default() {
            return Err(ApiProblem::invalid("there is nothing to change"));
        }
        let used = call.conditional_key_use(route, request, condition.as_ref());
        let app = Arc::clone(&call.app);
        let patch = Self {
            call,
            campaign,
            subject,
            change,
            changed: request.changed(),
            condition,
        };
        app.change(used, false, patch).await
    }

    /// Metadata that the condition expects.
    async fn expected(&self, condition: &IfMatch) -> Result<Metadata, ApiProblem> {
        let app = &self.call.app;
        let found = app.ports.ledger.metadata(&[self.subject]).await?.pop();
        let found = found.unwrap_or_default();
        let body = app.metadata_body(self.subject, &found).await?;
        condition.check(&StrongTag::from_metadata(&body))?;
        Ok(found)
    }
}

impl<T: std::fmt::Display + Send + Sync + 'static> Change for MetadataPatch<T> {
    type Body = answers::Metadata;

    fn campaign(&self) -> CampaignId {
        self.campaign
    }

    fn tag(body: &answers::Metadata) -> Option<StrongTag> {
        Some(StrongTag::from_metadata(body))
    }

    fn subject(&self) -> String {
        self.subject.id()
    }

    fn check_limit(&self, app: &App) -> Result<(), ApiProblem> {
        match self.subject {
            MetadataSubject::Order(order) => app.limits.check_order_change(order),
            _ => app.limits.check_change(self.campaign),
        }
    }

    async fn already(&self) -> Result<Option<answers::Metadata>, ApiProblem> {
        let app = &self.call.app;
        let found = app.ports.ledger.metadata(&[self.subject]).await?.pop();
        let before = found.unwrap_or_default();
        match self.change.apply(before.clone()) {
            Ok(after) if after == before => {
                Ok(Some(app.metadata_body(self.subject, &before).await?))
            }
            _ => Ok(None),
        }
    }

    fn is_undone_by(&self, action: &Action) -> bool {
        action.kind == ActionKind::Change && is_replaced(&self.changed, &action.detail)
    }

    async fn present(&self) -> Result<answers::Metadata, ApiProblem> {
        self.call.app.read_metadata(self.subject).await
    }

    async fn make(&self, begun: &BegunChange) -> Result<answers::Metadata, ApiProblem> {
        let app = &self.call.app;
        let meta = app.meta(self.campaign).await?;
        let meta = meta.ok_or_else(|| ApiProblem::ledger_incomplete(self.campaign))?;
        let expected = match &self.condition {
            Some(condition) => Some(self.expected(condition).await?),
            None => None,
        };
        begun.check_in_time()?;
        let action = self
            .call
            .action_begun(begun, ActionKind::Change, &self.changed);
        let ledger = &app.ports.ledger;
        let (change, by) = ((&self.change, expected.as_ref()), (&action, begun.made()));
        let changed = ledger.change_metadata(self.subject, &meta.owner, change, by);
        let metadata = match changed.await? {
            MetadataResult::Changed(metadata) => metadata,
            MetadataResult::TooManyNames => {
                let detail = MetadataError::Count.to_string();
                return Err(ApiProblem::invalid_at("#/metadata", detail));
            }
            MetadataResult::Differs => return Err(ProblemKind::PreconditionFailed.into()),
        };
        operation_log::log(&action);
        let body = app.metadata_body(self.subject, &metadata).await;
        body.map_err(ApiProblem::after_the_command)
    }
}

/// Metadata of a campaign.
///
/// Its seller or sender reads it; others need the scope `read:any`.
#[utoipa::path(get, path = "/v1/campaigns/{id}/metadata", tag = "campaigns",
    operation_id = "getCampaignMetadata", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The campaign's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = answers::Metadata), (status = 304, description = "Unchanged since the tag"),
        (status = 403, body = Problem), (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn of_campaign(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    app.check_reads_metadata(&caller, id).await?;
    app.check_campaign(id).await?;
    let body = app.read_metadata(MetadataSubject::Campaign(id)).await?;
    let tag = StrongTag::from_metadata(&body);
    Ok(tagged(&headers, &tag, &body))
}

/// Changes the metadata of a campaign. Users do not see it.
#[utoipa::path(patch, path = "/v1/campaigns/{id}/metadata", tag = "campaigns", request_body = MetadataRequest,
    operation_id = "changeCampaignMetadata", security(("bearer" = ["send"]), ("bearer" = ["campaigns:write:any"]),
        ("bearer" = ["campaigns:write"])),
    params(("id" = String, Path, description = "The campaign's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the change is made once"),
        ("If-Match" = Option<String>, Header, description = "Entity tags of the metadata: it changes only if it still \
            has one of them")),
    responses((status = 200, body = answers::Metadata), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`superseded`: an earlier request with this key broke off, and a later change may \
            have set the same values; `key-pending`: the same, and Redis lost entries in between; \
            `reference-taken`: another object has the unique reference", body = Problem),
        (status = 422, body = Problem), NoAnswer))]
pub(crate) async fn change_campaign(
    call: ObjectRequest<CampaignId>,
    condition: Condition,
    extract::Json(request): extract::Json<MetadataRequest>,
) -> Result<Response, ApiProblem> {
    let id = call.id;
    call.app.check_leads(&call.caller, id).await?;
    call.app.check_campaign(id).await?;
    let of = (id, MetadataSubject::Campaign(id));
    let request = (&request, condition.check_strong()?);
    MetadataPatch::run(call, "PATCH /v1/campaigns/{id}/metadata", of, request).await
}

/// Metadata of an order.
///
/// The seller of its sale reads it; others need the scope `read:any`. The buyer does not see it.
#[utoipa::path(get, path = "/v1/orders/{id}/metadata", tag = "orders",
    operation_id = "getOrderMetadata", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The order's id"),
        ("If-None-Match" = Option<String>, Header, description = "Entity tags that the caller has")),
    responses((status = 200, body = answers::Metadata), (status = 304, description = "Unchanged since the tag"),
        (status = 403, body = Problem), (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn of_order(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<OrderId>,
    headers: HeaderMap,
) -> Result<Response, ApiProblem> {
    app.check_reads_metadata(&caller, id.campaign).await?;
    app.check_order(id).await?;
    let body = app.read_metadata(MetadataSubject::Order(id)).await?;
    let tag = StrongTag::from_metadata(&body);
    Ok(tagged(&headers, &tag, &body))
}

/// Changes the metadata of an order. The buyer does not see it.
///
/// The seller of its sale may do this, and others with the scope `campaigns:write:any`.
#[utoipa::path(patch, path = "/v1/orders/{id}/metadata", tag = "orders", request_body = MetadataRequest,
    operation_id = "changeOrderMetadata", security(("bearer" = ["campaigns:write"]),
        ("bearer" = ["campaigns:write:any"])),
    params(("id" = String, Path, description = "The order's id"),
        ("Idempotency-Key" = Option<String>, Header, description = "Makes repetition safe: the change is made once"),
        ("If-Match" = Option<String>, Header, description = "Entity tags of the metadata: it changes only if it still \
            has one of them")),
    responses((status = 200, body = answers::Metadata), (status = 403, body = Problem),
        (status = 404, body = Problem),
        (status = 409, description = "`superseded`: an earlier request with this key broke off, and a later change may \
            have set the same values; `key-pending`: the same, and Redis lost entries in between; \
            `reference-taken`: another object has the unique reference", body = Problem),
        (status = 422, body = Problem), NoAnswer))]
pub(crate) async fn change_order(
    call: ObjectRequest<OrderId>,
    condition: Condition,
    extract::Json(request): extract::Json<MetadataRequest>,
) -> Result<Response, ApiProblem> {
    let id = call.id;
    call.app.check_leads(&call.caller, id.campaign).await?;
    call.app.check_order(id).await?;
    let of = (id.campaign, MetadataSubject::Order(id));
    let request = (&request, condition.check_strong()?);
    MetadataPatch::run(call, "PATCH /v1/orders/{id}/metadata", of, request).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::is_replaced;

    #[test]
    fn a_later_change_of_the_same_name_or_reference_is_found() {
        let asked = json!({ "reference": "PO-1", "metadata": ["a"] });
        let is_replaced = |detail: serde_json::Value| is_replaced(&asked, &detail.to_string());
        assert!(is_replaced(json!({ "metadata": ["b", "a"] })));
        assert!(is_replaced(json!({ "reference": null, "metadata": [] })));
        assert!(!is_replaced(json!({ "metadata": ["b"] })));
        assert!(!is_replaced(json!({ "stock": 5 })));
    }
}
