//! Grants of a campaign over its whole life, for charts.

use std::sync::Arc;

use axum::{
    Json,
    extract::State,
    http::{HeaderName, header},
};
use qiang_core::{
    campaign::CampaignKind,
    id::CampaignId,
    ports::{GrantTimes, LedgerError},
};
use qiang_wire::{
    answers::{GrantPoint, GrantTimeline},
    problem::Problem,
};

use crate::{
    app::App,
    auth::{Caller, Scope},
    extract::Param,
    http::{
        problem::{ApiProblem, NoAnswer},
        wire::ToWire as _,
    },
};

/// Maximum number of grants in a timeline: the rows that one read touches, however large the campaign is.
const POINTS_MAX: u32 = 512;
/// Caching of a timeline: the caller's own cache, as long as the node's.
const CACHING: (HeaderName, &str) = (header::CACHE_CONTROL, "private, max-age=5");

/// Grants of a campaign over its whole life.
///
/// A campaign with more than 512 grants has 512 evenly spaced ones, with the last one. Its curve of grants is exact at
/// these points; the share of paid orders is an estimate. The rows are read by key, and a node answers from memory for
/// five seconds. Owners see those of their own campaigns.
#[utoipa::path(get, path = "/v1/campaigns/{id}/grant-timeline", tag = "campaigns",
    operation_id = "getGrantTimeline", security(("bearer" = []), ("bearer" = ["read:any"])),
    params(("id" = String, Path, description = "The campaign's id")),
    responses((status = 200, body = GrantTimeline), (status = 403, body = Problem),
        (status = 404, body = Problem), NoAnswer))]
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    caller: Caller,
    Param(id): Param<CampaignId>,
) -> Result<([(HeaderName, &'static str); 1], Json<GrantTimeline>), ApiProblem> {
    let Some(meta) = app.meta(id).await? else {
        return Err(app.missing(id).await);
    };
    if meta.owner != caller.user {
        caller.require(Scope::ReadAny)?;
    }
    let timeline = app.timelines.get(id, read(&app, id, meta.kind)).await?;
    Ok(([CACHING], Json(GrantTimeline::clone(&timeline))))
}

async fn read(app: &App, id: CampaignId, kind: CampaignKind) -> Result<GrantTimeline, LedgerError> {
    let settled = app.settled().await.unwrap_or(false);
    let ledger = &app.ports.ledger;
    let last_number = match kind {
        CampaignKind::Sale => ledger.last_order(id).await?,
        CampaignKind::RedPacket => {
            let record = ledger.campaign(id).await?;
            let supply = record.map_or(0, |record| record.campaign.supply());
            u32::try_from(supply).unwrap_or(u32::MAX)
        }
    };
    let times = ledger.grant_times(id, numbers(last_number)).await?;
    Ok(GrantTimeline {
        campaign: id.to_wire(),
        last_number,
        sampled: last_number > POINTS_MAX,
        points: times.into_iter().map(point).collect(),
        settled,
    })
}

/// Evenly spaced numbers from 1 to the last one, ascending.
fn numbers(last: u32) -> Vec<u32> {
    let count = u64::from(last.min(POINTS_MAX));
    let spaced = (1..=count).map(|n| (n * u64::from(last)).div_ceil(count));
    spaced.filter_map(|number| number.try_into().ok()).collect()
}

fn point(times: GrantTimes) -> GrantPoint {
    GrantPoint {
        number: times.number,
        created_at: times.granted_at.to_wire(),
        paid_at: times.paid_at.map(|at| at.to_wire()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_few_ascend_and_end_with_the_last_one() {
        assert!(numbers(0).is_empty());
        assert_eq!(numbers(1), [1]);
        assert_eq!(numbers(3), [1, 2, 3]);
        assert_eq!(numbers(POINTS_MAX), Vec::from_iter(1..=POINTS_MAX));
        for last in [POINTS_MAX + 1, 1_000, 1_000_000, u32::MAX] {
            let numbers = numbers(last);
            assert_eq!(numbers.len(), POINTS_MAX as usize);
            assert_eq!(numbers.last(), Some(&last));
            assert!(numbers.is_sorted_by(|one, next| one < next), "{last}");
            let widest = numbers.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(widest <= Some(last.div_ceil(POINTS_MAX)), "{last}");
        }
    }
}
