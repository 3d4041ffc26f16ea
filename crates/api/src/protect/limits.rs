//! Rate limits per user and per address: `[limits]` of the configuration.
//!
//! Addresses are checked before anything else of a request, users after their tokens.

use std::{net::IpAddr, num::NonZeroU32, sync::Arc, time::Duration};

use axum::http::{HeaderMap, header};
use governor::Quota;
use ipnet::IpNet;
use qiang_core::{
    id::{CampaignId, OrderId, UserId},
    split::SHARES_MAX,
};
use qiang_wire::problem::ProblemKind;
use uuid::Uuid;

use crate::{
    auth::Caller,
    config::{ApiConfig, UsageError},
    http::{
        client_address::{AddressKey, LimitedOrigin, TrustedProxies, contain},
        problem::{ApiProblem, LimitHeaders, Policy, RATE_LIMIT},
        request_id::RequestId,
        traffic::{ExpensiveAnswer, Traffic, read_cost},
    },
    observe::metrics::Metrics,
    protect::throttle::{Throttle, quota},
};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
/// Refused reports of one reporter about unknown orders that are recorded per minute on this node.
const REFUSALS_PER_MINUTE: u32 = 60;

/// A limit whose state every answer within it has.
#[derive(Debug, Clone, Copy)]
enum ShownLimit {
    ClaimsOfUser,
    ClaimsOfAddress,
    ReadsOfUser,
    ReadsOfAddress,
    CreationsOfUser,
}

/// Limits of a service.
pub(crate) struct Limits {
    /// By the number of the [`ShownLimit`].
    shown: [Option<LimitHeaders>; 5],
    metrics: Arc<Metrics>,
    proxies: TrustedProxies,
    /// Addresses without limits.
    unlimited: Vec<IpNet>,
    connections_per_address_max: u32,
    claims_of_user: Throttle,
    claims_of_address: Throttle,
    reads_of_user: Throttle,
    reads_of_address: Throttle,
    pictures_of_node: Throttle,
    documents_of_node: Throttle,
    metrics_of_node: Throttle,
    unauthenticated_of_address: Throttle,
    creations_of_user: Throttle,
    shares_of_user: Throttle,
    changes_of_campaign: Throttle,
    cancellations_of_campaign: Throttle,
    refusals_of_reporter: Throttle,
}

impl Limits {
    pub(crate) fn new(config: &ApiConfig, metrics: &Arc<Metrics>) -> Result<Self, UsageError> {
        let limits = &config.limits;
        let metered = |policy: Policy, quota: Option<Quota>| {
            let refused = metrics.refused_by(policy.name);
            Throttle::new(policy, quota, limits.tracked_callers_max, refused)
        };
        let throttle = |name, problem, quota| {
            let policy = Policy {
                name,
                unit: None,
                problem,
            };
            metered(policy, quota)
        };
        let unauthenticated = limits.unauthenticated_per_address_per_minute;
        let creations = limits.creations_per_user_per_minute;
        let shares = limits.shares_per_user_per_minute;
        let changes = limits.changes_per_campaign_per_minute;
        // The burst allows one packet of the maximum size.
        let shares_burst = shares.max(limits.shares_max.min(SHARES_MAX));
        let shares_policy = Policy {
            name: "shares-of-user",
            unit: Some("shares"),
            problem: ProblemKind::CreationsThrottled,
        };
        let of_user =
            |name, rate, burst| throttle(name, ProblemKind::Throttled, quota(rate, SECOND, burst));
        let of_address = |name, rate, burst| {
            let quota = quota(rate, SECOND, burst);
            throttle(name, ProblemKind::AddressThrottled, quota)
        };
        let of_node = |name| {
            let policy = Policy {
                name,
                unit: None,
                problem: ProblemKind::Overloaded,
            };
            let (rate, burst) = (
                limits.expensive_per_node_per_second,
                limits.expensive_per_node_burst,
            );
            let refused = metrics.refused_by(name);
            Throttle::new(policy, quota(rate, SECOND, burst), 1, refused)
        };
        let limits = Self {
            shown: Default::default(),
            metrics: Arc::clone(metrics),
            proxies: config.server.proxies()?,
            unlimited: limits.unlimited()?,
            connections_per_address_max: limits.connections_per_address_max,
            claims_of_user: of_user(
                "claims-of-user",
                limits.claims_per_user_per_second,
                limits.claims_per_user_burst,
            ),
            claims_of_address: of_address(
                "claims-of-address",
                limits.claims_per_address_per_second,
                limits.claims_per_address_burst,
            ),
            reads_of_user: of_user(
                "reads-of-user",
                limits.reads_per_user_per_second,
                limits.reads_per_user_burst,
            ),
            reads_of_address: of_address(
                "reads-of-address",
                limits.reads_per_address_per_second,
                limits.reads_per_address_burst,
            ),
            pictures_of_node: of_node("pictures-of-node"),
            documents_of_node: of_node("documents-of-node"),
            metrics_of_node: of_node("metrics-of-node"),
            unauthenticated_of_address: throttle(
                "unauthenticated-of-address",
                ProblemKind::AddressThrottled,
                quota(unauthenticated, MINUTE, unauthenticated),
            ),
            creations_of_user: throttle(
                "creations-of-user",
                ProblemKind::CreationsThrottled,
                quota(creations, MINUTE, creations),
            ),
            shares_of_user: metered(shares_policy, quota(shares, MINUTE, shares_burst)),
            changes_of_campaign: throttle(
                "changes-of-campaign",
                ProblemKind::Throttled,
                quota(changes, MINUTE, changes),
            ),
            cancellations_of_campaign: throttle(
                "cancellations-of-campaign",
                ProblemKind::Throttled,
                quota(changes, MINUTE, changes),
            ),
            refusals_of_reporter: throttle(
                "refusals-of-reporter",
                ProblemKind::Throttled,
                quota(REFUSALS_PER_MINUTE, MINUTE, REFUSALS_PER_MINUTE),
            ),
        };
        Ok(Self {
            // In the order of `ShownLimit`.
            shown: [
                limits.claims_of_user.headers(),
                limits.claims_of_address.headers(),
                limits.reads_of_user.headers(),
                limits.reads_of_address.headers(),
                limits.creations_of_user.headers(),
            ],
            ..limits
        })
    }

    /// Adds the state of a request's closest limit to its answer, unless the answer has that of an exceeded one, or is
    /// kept for other callers too.
    pub(crate) fn show(&self, (number, remaining): (u16, u32), headers: &mut HeaderMap) {
        let shown = self.shown.get(usize::from(number)).and_then(Option::as_ref);
        if let Some(shown) = shown
            && !headers.contains_key(RATE_LIMIT)
            && !is_public(headers)
        {
            shown.add(remaining, headers);
        }
    }

    /// Maximum number of connections of an address; `None` without a limit. A proxy has none, because its connections
    /// carry many users.
    pub(crate) fn connections_of_address(&self, peer: IpAddr) -> Option<u32> {
        let limited = self.connections_per_address_max > 0
            && !self.proxies.contain(peer)
            && !contain(&self.unlimited, peer);
        limited.then_some(self.connections_per_address_max)
    }

    /// Origin of a request from a limited address.
    pub(crate) fn limited_origin(
        &self,
        client: IpAddr,
        peer: IpAddr,
        connection: u64,
    ) -> LimitedOrigin {
        LimitedOrigin {
            address: Some(AddressKey::from_address(client)),
            connection: Some(connection).filter(|_| !self.proxies.contain(peer)),
        }
    }

    /// Refuses a request of an address above its limit, and an expensive one above the limit of the node. Returns the
    /// address of users' requests, if it is limited.
    pub(crate) fn check_address(
        &self,
        (traffic, path): (Option<Traffic>, &str),
        peer: IpAddr,
        headers: &HeaderMap,
    ) -> Result<Option<IpAddr>, ApiProblem> {
        let Some(cost) = read_cost(path) else {
            return Ok(None);
        };
        let client = self.proxies.client(peer, headers);
        if contain(&self.unlimited, client) {
            return Ok(None);
        }
        let key = AddressKey::from_address(client);
        match traffic {
            Some(Traffic::Claims) => {
                let checked = self.claims_of_address.remaining_after(&key);
                self.claim(within(ShownLimit::ClaimsOfAddress, checked))?;
            }
            Some(Traffic::Reads) | None => {
                let checked = self.reads_of_address.remaining_after_cost(&key, cost);
                within(ShownLimit::ReadsOfAddress, checked)?;
            }
        }
        if let Some(answer) = ExpensiveAnswer::from_path(path) {
            self.of_node(answer).check(&())?;
        }
        Ok(traffic.map(|_| client))
    }

    /// Limit of all addresses together.
    fn of_node(&self, answer: ExpensiveAnswer) -> &Throttle {
        match answer {
            ExpensiveAnswer::Picture => &self.pictures_of_node,
            ExpensiveAnswer::Document => &self.documents_of_node,
            ExpensiveAnswer::Metrics => &self.metrics_of_node,
        }
    }

    /// Refuses an address with too many requests that lack a valid token.
    pub(crate) fn check_unauthenticated(&self, client: IpAddr) -> Result<(), ApiProblem> {
        self.unauthenticated_of_address
            .check(&AddressKey::from_address(client))
    }

    /// Refuses a campaign of a user above the creation limits. Drawing shares and passing them to the engine delays
    /// all claims, so a packet costs its number of shares. A repetition under its key costs the same. If it is known to
    /// be one, it is no campaign more, and costs only the shares.
    pub(crate) fn check_creation(
        &self,
        user: &UserId,
        shares: u32,
        is_repetition: bool,
    ) -> Result<(), ApiProblem> {
        self.check_creations(user, u32::from(!is_repetition), shares)
    }

    /// [`Self::check_creation`] for several campaigns that are created together. If the limit of campaigns refuses,
    /// nothing is counted, so a client that repeats the request as told is accepted in the end. If the limit of shares
    /// refuses, the campaigns are counted.
    pub(crate) fn check_creations(
        &self,
        user: &UserId,
        campaigns: u32,
        shares: u32,
    ) -> Result<(), ApiProblem> {
        if let Some(campaigns) = NonZeroU32::new(campaigns) {
            let checked = self.creations_of_user.remaining_after_cost(user, campaigns);
            within(ShownLimit::CreationsOfUser, checked)?;
        }
        match NonZeroU32::new(shares) {
            Some(shares) => self.shares_of_user.check_cost(user, shares),
            None => Ok(()),
        }
    }

    /// Refuses a change of a campaign above its limit: each change stores an entry, an action and a key.
    pub(crate) fn check_change(&self, campaign: CampaignId) -> Result<(), ApiProblem> {
        self.changes_of_campaign.check(&campaign)
    }

    /// Refuses a cancellation of many orders of a campaign above its limit: each one stores an action and a key.
    pub(crate) fn check_bulk_cancellation(&self, campaign: CampaignId) -> Result<(), ApiProblem> {
        self.cancellations_of_campaign.check(&campaign)
    }

    /// Refuses a keyed change of an order above the limit of a campaign: a refused one stores a key, too.
    pub(crate) fn check_order_change(&self, order: OrderId) -> Result<(), ApiProblem> {
        self.changes_of_campaign.check(&order)
    }

    /// Refuses a change of a webhook above the limit of a campaign: each one stores a key or an action, and a test is a
    /// request to another service.
    pub(crate) fn check_webhook_change(&self, webhook: Uuid) -> Result<(), ApiProblem> {
        self.changes_of_campaign.check(&webhook)
    }

    /// Refuses a webhook of a seller above the limit of a campaign. The seller may delete each one and create another.
    pub(crate) fn check_webhook_creation(&self, seller: &UserId) -> Result<(), ApiProblem> {
        self.changes_of_campaign.check(seller)
    }

    /// Whether a refused report of this reporter about an unknown order is recorded. The reporter invents such orders,
    /// so the bound of records per order does not limit the rows.
    pub(crate) fn may_record_refusal(&self, reporter: &UserId) -> bool {
        self.refusals_of_reporter.check(reporter).is_ok()
    }

    /// Refuses a request of a user above the limit. Reads of services are not limited, because they act for many
    /// users.
    pub(crate) fn check_user(
        &self,
        traffic: Option<Traffic>,
        caller: &Caller,
    ) -> Result<(), ApiProblem> {
        match traffic {
            Some(Traffic::Claims) => {
                let checked = self.claims_of_user.remaining_after(&caller.user);
                self.claim(within(ShownLimit::ClaimsOfUser, checked))
            }
            Some(Traffic::Reads) if !caller.is_service() => {
                let checked = self.reads_of_user.remaining_after(&caller.user);
                within(ShownLimit::ReadsOfUser, checked)
            }
            _ => Ok(()),
        }
    }

    /// Counts a claim that ends at a limit.
    fn claim(&self, checked: Result<(), ApiProblem>) -> Result<(), ApiProblem> {
        checked.inspect_err(|_| self.metrics.throttled())
    }
}

/// Records the state of a limit for the answer.
fn within(limit: ShownLimit, checked: Result<Option<u32>, ApiProblem>) -> Result<(), ApiProblem> {
    if let Some(remaining) = checked? {
        RequestId::mark_limit(limit as u16, remaining);
    }
    Ok(())
}

/// Whether shared caches may keep an answer.
fn is_public(headers: &HeaderMap) -> bool {
    let control = headers.get(header::CACHE_CONTROL);
    control.is_some_and(|control| control.as_bytes().starts_with(b"public"))
}
