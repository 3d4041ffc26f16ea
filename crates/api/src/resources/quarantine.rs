//! Quarantine: entries that the ledger refused, and entries that wait for them.

use std::{fmt, str::FromStr, sync::Arc};

use axum::{Json, extract::State, http::Uri, response::Response};
use qiang_core::{
    event::{PartitionId, Seq},
    ports::{Action, ActionKind, LedgerError, QuarantinedEntry, THE_SERVICE},
};
use qiang_wire::{
    answers::{self, Redriven},
    ids,
    lists::QuarantineList,
    problem::{Problem, ProblemKind},
};
use serde::Deserialize;
use serde_json::json;
use utoipa::IntoParams;

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::{ObjectRequest, Params},
    http::{
        paging::{Cursor, PagedList},
        problem::{ApiProblem, NoAnswer},
        wire::{Text, ToWire as _},
    },
    resources::{operation_log, partitions::number, stored_answer::CommandTry},
};

/// Above any log's length. It has 18 digits, which databases can store.
const SEQ_MAX: Seq = 999_999_999_999_999_999;

/// Place of an entry: its partition, and its position in that partition's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EntryPlace(PartitionId, Seq);

impl FromStr for EntryPlace {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = || {
            let (partition, seq) = text.split_once('-')?;
            let place = Self(number(partition)?, seq.parse().ok()?);
            ((1..=SEQ_MAX).contains(&place.1) && place.to_string() == text).then_some(place)
        };
        place().ok_or("an entry is its partition and its position in the log, such as 0-17")
    }
}

impl fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0.0, self.1)
    }
}

/// Filter and page of the quarantine.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct QuarantineListQuery {
    /// Entries of this partition only.
    #[param(maximum = 65535)]
    partition: Option<u16>,
    /// Entries after this cursor: `next` of the page before.
    #[param(value_type = Option<String>)]
    after: Option<Text<Cursor>>,
    /// At most this many; default 100, at most 1000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
}

const ENTRIES: PagedList = PagedList::new("quarantine");

fn place_of(entry: &QuarantinedEntry) -> EntryPlace {
    EntryPlace(entry.partition, entry.entry.seq)
}

fn entry_body(quarantined: QuarantinedEntry) -> answers::QuarantinedEntry {
    answers::QuarantinedEntry {
        entry: ids::Id::from_service(&place_of(&quarantined)),
        partition: quarantined.partition.0,
        seq: quarantined.entry.seq,
        campaign: quarantined.entry.campaign.to_wire(),
        event: quarantined.entry.event.to_string(),
        at: quarantined.at.to_wire(),
        reason: quarantined.reason,
        waits_for: quarantined.waits_for,
        discarding: quarantined.is_discarded,
    }
}

fn missing() -> ApiProblem {
    ApiProblem::new(
        ProblemKind::NotQuarantined,
        "the entry is settled, or does not exist",
    )
}

impl ObjectRequest<EntryPlace> {
    async fn found(&self) -> Result<QuarantinedEntry, ApiProblem> {
        self.caller.require(Scope::Admin)?;
        let EntryPlace(partition, seq) = self.id;
        let ledger = &self.app.ports.ledger;
        let after = Some((partition, seq - 1));
        let found = ledger.list_quarantined(after, 1).await?.pop();
        found
            .filter(|it| place_of(it) == self.id)
            .ok_or_else(missing)
    }
}

/// Quarantined entries: refused by the ledger, or waiting for a refused one.
#[utoipa::path(get, path = "/v1/quarantine", tag = "operation", params(QuarantineListQuery),
    operation_id = "listQuarantine", security(("bearer" = ["admin"])),
    responses((status = 200, body = QuarantineList), (status = 403, body = Problem), NoAnswer))]
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    caller: Caller,
    uri: Uri,
    Params(list): Params<QuarantineListQuery>,
) -> Result<Response, ApiProblem> {
    caller.require(Scope::Admin)?;
    let page = ENTRIES.page::<EntryPlace>(list.after.as_ref(), list.limit)?;
    let before = list.partition.and_then(|number| number.checked_sub(1));
    let start = before.map(|number| (PartitionId(number), SEQ_MAX));
    let after = page.after.map(|place| (place.0, place.1));
    let ledger = &app.ports.ledger;
    let found = ledger.list_quarantined(start.max(after), page.reads());
    let mut found = found.await?;
    found.retain(|it| list.partition.is_none_or(|only| only == it.partition.0));
    let next = page.cut(&mut found, place_of);
    let entries: Vec<_> = found.into_iter().map(entry_body).collect();
    Ok(page.answer(&uri, entries, next, None))
}

/// An entry in quarantine, with the reason why the ledger refused it.
#[utoipa::path(get, path = "/v1/quarantine/{entry}", tag = "operation",
    operation_id = "getQuarantinedEntry", security(("bearer" = ["admin"])),
    params(("entry" = String, Path, description = "Partition and position of the entry, such as 0-17")),
    responses((status = 200, body = answers::QuarantinedEntry), (status = 403, body = Problem),
        (status = 404, description = "`not-quarantined`", body = Problem), NoAnswer))]
pub(crate) async fn get(
    call: ObjectRequest<EntryPlace>,
) -> Result<Json<answers::QuarantinedEntry>, ApiProblem> {
    Ok(Json(entry_body(call.found().await?)))
}

/// Settles a quarantined entry after its cause was removed.
///
/// If it is refused again, or waits for another entry, it stays in quarantine. A repetition with the same key gets the
/// first answer, or `settled` if that was lost and the entry is settled since.
#[utoipa::path(post, path = "/v1/quarantine/{entry}/redrive", tag = "operation",
    operation_id = "redriveEntry", security(("bearer" = ["admin"])),
    params(("entry" = String, Path, description = "Partition and position of the entry, such as 0-17")),
    responses((status = 200, body = Redriven), (status = 403, body = Problem),
        (status = 404, description = "`not-quarantined`", body = Problem),
        (status = 409, description = "`still-refused`", body = Problem), NoAnswer))]
pub(crate) async fn redrive(call: ObjectRequest<EntryPlace>) -> Result<Response, ApiProblem> {
    call.caller.require(Scope::Admin)?;
    let app = Arc::clone(&call.app);
    let used = call.key_use("POST /v1/quarantine/{entry}/redrive", &());
    // An entry that this key has settled is not in quarantine.
    if !app.is_bound(used.as_ref()).await? {
        call.found().await?;
    }
    let is_keyed = used.is_some();
    app.once_by_id(used, move |begun| async move {
        redrive_once(&call, &begun, is_keyed).await
    })
    .await
}

/// Settles the entry. Its place is never used again, so an entry that has left the quarantine since is settled or
/// discarded. All tries under a key have one action, so none removes a record with which another may have settled it.
async fn redrive_once(
    call: &ObjectRequest<EntryPlace>,
    begun: &CommandTry,
    is_keyed: bool,
) -> Result<Redriven, ApiProblem> {
    let EntryPlace(partition, seq) = call.id;
    let detail = json!({ "entry": call.id.to_string() });
    let action = Action {
        id: begun.id,
        ..(call.app).action(&call.caller.user, ActionKind::Redrive, THE_SERVICE, &detail)
    };
    let ledger = &call.app.ports.ledger;
    let recorded = call.app.recorded_action(THE_SERVICE, begun.id);
    let is_recorded = begun.is_retry && recorded.await?.is_some();
    if !is_recorded {
        // Another try may have recorded it, so a failure releases no key.
        let recorded = ledger.record(&action).await;
        recorded.map_err(|error| ApiProblem::from(error).after_the_command())?;
    }
    let redriven = ledger.redrive(partition, seq).await;
    let was_settled = redriven == Ok(false) && !ledger.is_discarded(partition, seq).await?;
    let changes_nothing = matches!(
        redriven,
        Ok(false) | Err(LedgerError::Damaged { .. } | LedgerError::Overflow)
    );
    let is_of_another_try = is_recorded || (is_keyed && !begun.is_retry);
    if changes_nothing && !(was_settled && is_of_another_try) {
        operation_log::strike(&**ledger, action.id).await;
    }
    match redriven {
        Ok(true) => {}
        Ok(false) if was_settled => {}
        Ok(false) => return Err(missing()),
        Err(LedgerError::Damaged { reason }) => {
            return Err(ApiProblem::new(ProblemKind::StillRefused, reason));
        }
        Err(error @ LedgerError::Overflow) => {
            return Err(ApiProblem::new(
                ProblemKind::StillRefused,
                error.to_string(),
            ));
        }
        Err(error) => return Err(error.into()),
    }
    if !was_settled {
        operation_log::log(&action);
    }
    Ok(Redriven {
        entry: ids::Id::from_service(&call.id),
        settled: true,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_named_in_one_way() {
        let check = |text: &str, place: Option<(u16, Seq)>| {
            let place = place.map(|(partition, seq)| EntryPlace(PartitionId(partition), seq));
            assert_eq!(text.parse().ok(), place, "{text}");
        };
        check("0-17", Some((0, 17)));
        check("65535-999999999999999999", Some((65_535, SEQ_MAX)));
        for bad in [
            "",
            "0",
            "0-0",
            "00-1",
            "0-01",
            "+0-1",
            "0-+1",
            "65536-1",
            "0-1-1",
            "0-1000000000000000000",
        ] {
            check(bad, None);
        }
    }
}
