//! JSON types of the API. They wrap types of the core, which never serialise themselves, so that a change of the core
//! cannot change the API by accident.

use std::{fmt, io::Write as _, str::FromStr};

use axum::{
    Json,
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
};
use jiff::{Timestamp as Calendar, fmt::temporal::DateTimeParser};
use qiang_core::{
    campaign::{AckLevel, Cover, Phase, Requirement, Tally},
    id::{CampaignId, IdempotencyKey, OrderId, PaymentRef, UserId},
    money::{Currency, Money},
    order::OrderState,
    payment::{PaymentOutcome, PaymentPolicyKind},
    ports::{ActionKind, PostingKind, UserAccount},
    split::RuleName,
    time::{Timestamp, Window},
    webhook::{AttemptState, EventType},
};
use qiang_wire::{answers, ids, values};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, Error as _, Visitor},
    ser::Error as _,
};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;
use uuid::Uuid;

use crate::http::request_id::RequestId;

/// Buffer size for an id, a time or a code.
const TEXT_BYTES: usize = 64;

/// Status of an object that was created now, or earlier; the latter answer is a replay.
pub(crate) fn created(fresh: bool) -> StatusCode {
    if fresh {
        return StatusCode::CREATED;
    }
    RequestId::mark_replay();
    StatusCode::OK
}

/// Header `Location` of an object that was created now; none for an earlier one.
pub(crate) type Location = Option<[(HeaderName, String); 1]>;

/// Header `Location` for this status.
pub(crate) fn location(status: StatusCode, path: impl FnOnce() -> String) -> Location {
    (status == StatusCode::CREATED).then(|| [(header::LOCATION, path())])
}

/// Caching of answers that depend on the caller: the caller's own cache keeps them, and revalidates them each time.
pub(crate) const OWN_CACHING: &str = "private, no-cache";

/// A body with the time of its answer, which its entity tag does not cover.
pub(crate) trait TimedBody: Serialize + Clone {
    /// The numbers that have the time.
    fn state_mut(&mut self) -> &mut answers::State;
}

impl TimedBody for answers::State {
    fn state_mut(&mut self) -> &mut answers::State {
        self
    }
}

impl TimedBody for answers::Sale {
    fn state_mut(&mut self) -> &mut answers::State {
        &mut self.state
    }
}

impl TimedBody for answers::RedPacket {
    fn state_mut(&mut self) -> &mut answers::State {
        &mut self.state
    }
}

/// A body with its entity tag; 304 without a body if the request names that tag.
pub(crate) fn tagged(asked: &HeaderMap, caching: &str, body: &impl TimedBody) -> Response {
    let Ok(json) = serde_json::to_string(body) else {
        return Json(body).into_response(); // fails as well, with the error
    };
    let etag = etag(body);
    let kept = [
        (header::CACHE_CONTROL, caching),
        (header::ETAG, etag.as_str()),
    ];
    match has_tag(asked, &etag) {
        true => (StatusCode::NOT_MODIFIED, kept).into_response(),
        false => (kept, [(header::CONTENT_TYPE, "application/json")], json).into_response(),
    }
}

/// Weak entity tag of a body without its time. It is the same on each node.
pub(crate) fn etag(body: &impl TimedBody) -> String {
    format!("W/\"{}\"", body_hash(body))
}

/// Hash of a text, in hexadecimal digits.
pub(crate) fn text_hash(text: &str) -> String {
    hex::encode(&Sha256::digest(text)[..8])
}

/// Hash of a body without its time, in hexadecimal digits.
pub(crate) fn body_hash(body: &impl TimedBody) -> String {
    let mut body = body.clone();
    body.state_mut().now = Timestamp::from_millis(0).to_wire();
    // Structs of texts and numbers always serialise.
    text_hash(&serde_json::to_string(&body).unwrap_or_default())
}

/// Whether `If-None-Match` has this entity tag or `*` (RFC 9110, 13.1.2). The comparison is weak.
pub(crate) fn has_tag(headers: &HeaderMap, etag: &str) -> bool {
    let opaque = |tag: &str| tag.trim().trim_start_matches("W/").to_owned();
    let wanted = opaque(etag);
    let lists = headers.get_all(header::IF_NONE_MATCH).into_iter();
    lists
        .filter_map(|list| list.to_str().ok())
        .flat_map(|list| list.split(','))
        .any(|tag| tag.trim() == "*" || opaque(tag) == wanted)
}

/// Wrapper that writes a type of the core as its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_text(&self.0, serializer)
    }
}

impl<'de, T: FromStr<Err: fmt::Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

/// Id made by the service: a UUID of version 7, parsed like a campaign's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id(pub(crate) Uuid);

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Id {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let id = text.parse::<CampaignId>();
        id.map(|id| Self(id.uuid()))
            .map_err(|_| "an id is a UUID of version 7, with its hyphens")
    }
}

/// Serialises the printed form. It is buffered, because most are short: the serialiser then looks for characters to
/// escape once, instead of once per printed piece.
fn serialize_text<S: Serializer>(
    text: &impl fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut room = [0; TEXT_BYTES];
    let mut rest = room.as_mut_slice();
    if write!(rest, "{text}").is_err() {
        return serializer.collect_str(text);
    }
    let written = TEXT_BYTES - rest.len();
    match str::from_utf8(&room[..written]) {
        Ok(text) => serializer.serialize_str(text),
        Err(error) => Err(S::Error::custom(error)),
    }
}

/// Reads a field with three different cases: absent, null or a value.
pub(crate) fn nullable<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

/// A time: RFC 3339 with milliseconds, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rfc3339(pub(crate) Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A token may expire after the calendar's end. Its expiry is shown as that end, because `to_string` panics on
        // an error.
        let last = match self.0.as_millis() < 0 {
            true => Calendar::MIN,
            false => Calendar::MAX,
        };
        let instant = Calendar::from_millisecond(self.0.as_millis()).unwrap_or(last);
        write!(f, "{instant:.3}")
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serialize_text(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Rfc3339 {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Rfc3339Visitor)
    }
}

static TIME_PARSER: DateTimeParser = DateTimeParser::new();

struct Rfc3339Visitor;

impl Visitor<'_> for Rfc3339Visitor {
    type Value = Rfc3339;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a time, which is a text as in RFC 3339, such as \"2026-11-21T20:00:00+08:00\", and no number",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Rfc3339, E> {
        let instant = TIME_PARSER.parse_timestamp(text.as_bytes());
        let instant = instant.map_err(|_| E::custom(what_is_no_time(text)))?;
        Ok(Rfc3339(Timestamp::from_millis(instant.as_millisecond())))
    }
}

/// Reason why a text is not a time.
fn what_is_no_time(text: &str) -> &'static str {
    // The calendar ends some hours before the year 9999.
    let in_time = text.strip_prefix("9999").map(|rest| format!("9998{rest}"));
    let is_late = in_time.is_some_and(|it| TIME_PARSER.parse_timestamp(it.as_bytes()).is_ok());
    if is_late {
        "a time is before the year 9999 (UTC)"
    } else if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        "a time is written as in RFC 3339, such as 2026-11-21T20:00:00+08:00, and not as a number of seconds or \
         milliseconds"
    } else {
        "a time is written as in RFC 3339, such as 2026-11-21T20:00:00+08:00"
    }
}

/// Money: minor units (fen, cents) of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Money)]
pub(crate) struct MoneyBody {
    /// Whole minor units.
    #[schema(example = 10_000)]
    pub(crate) amount: i64,
    /// ISO 4217 code.
    #[schema(value_type = String, example = "CNY")]
    pub(crate) currency: Text<Currency>,
}

impl From<Money> for MoneyBody {
    fn from(money: Money) -> Self {
        Self {
            amount: money.minor,
            currency: Text(money.currency),
        }
    }
}

impl MoneyBody {
    pub(crate) fn money(self) -> Money {
        Money::new(self.amount, self.currency.0)
    }
}

/// Body of a campaign's numbers. Uses the engine's window if there is one, because it may be newer than `window`.
pub(crate) fn state_body(tally: &Tally, window: Window, now: Timestamp) -> answers::State {
    let window = tally.terms.map_or(window, |terms| terms.window);
    answers::State {
        phase: tally.phase.to_wire(),
        supply: tally.supply,
        granted: tally.granted,
        remaining: tally.remaining,
        returned: tally.returned,
        withheld: tally.withheld,
        starts_at: window.starts_at().to_wire(),
        ends_at: window.ends_at().to_wire(),
        now: now.to_wire(),
    }
}

/// Conversion of a core type to its type in bodies.
pub(crate) trait ToWire {
    /// Type in bodies.
    type Wire;

    fn to_wire(&self) -> Self::Wire;
}

macro_rules! ids_to_wire {
    ($($core:ty => $wire:ty,)*) => { $(
        impl ToWire for $core {
            type Wire = $wire;

            fn to_wire(&self) -> $wire {
                <$wire>::from_service(self)
            }
        }
    )* };
}

ids_to_wire! {
    CampaignId => ids::CampaignId,
    OrderId => ids::OrderId,
    UserId => ids::UserId,
    PaymentRef => ids::Id,
    IdempotencyKey => ids::IdempotencyKey,
    Uuid => ids::Id,
}

impl ToWire for Timestamp {
    type Wire = values::Timestamp;

    fn to_wire(&self) -> values::Timestamp {
        values::Timestamp::from_millis_saturating(self.as_millis())
    }
}

impl ToWire for Money {
    type Wire = values::Money;

    fn to_wire(&self) -> values::Money {
        let code = self.currency.code().parse();
        values::Money::new(
            self.minor,
            code.expect("an ISO 4217 code has three capital letters"),
        )
    }
}

/// Converts words. A word of the core without one in bodies does not compile.
macro_rules! words_to_wire {
    ($($core:ty => $wire:ident { $($variant:ident),* $(,)? $(; $($other:ident => $to:ident),*)? })*) => { $(
        impl $crate::http::wire::ToWire for $core {
            type Wire = qiang_wire::words::$wire;

            fn to_wire(&self) -> qiang_wire::words::$wire {
                match self {
                    $(Self::$variant => qiang_wire::words::$wire::$variant,)*
                    $($(Self::$other => qiang_wire::words::$wire::$to,)*)?
                }
            }
        }
    )* };
}
pub(crate) use words_to_wire;

words_to_wire! {
    Phase => Phase { Draft, Scheduled, Live, Paused, Ended, Closed }
    AckLevel => AckLevel { Memory, Replica, Fsync, Ledger }
    Cover => Cover { Classic, Blossom, Lantern, Cloud, Birthday, Wedding }
    OrderState => OrderState { Held, Paid, Cancelled, Expired, Returned }
    PaymentPolicyKind => PaymentPolicy { Owed, AcceptOver, AcceptWithTolerance }
    PaymentOutcome => PaymentOutcome { Paid, Reinstated, RefundDue }
    Requirement => Requirement { Ticket, OrderCheck }
    RuleName => SplitRuleName { Normal, DoubleAverage, Equal, Lazy }
    ActionKind => ActionKind {
        Deposit, Create, Change, Pause, Resume, Start, Close, Archive, Pay, Refund, Withdraw, Reverse, Transfer,
        Cancel, ExtendHold, Return, Delete,
        Redrive, Repair, Release, Audit, Reconcile, Discard, Run,
    }
    PostingKind => PostingKind {
        Deposit, Fund, Grant, Refund, Residue, Payment, RefundDue, Return, RefundPaid, Withdrawal, Reversal,
        RefundReversal, Transfer,
    }
    UserAccount => UserAccount { Available, RefundsDue }
    EventType => WebhookEventType {
        ShareGranted, OrderHeld, OrderPaid, OrderCancelled, OrderExpired, OrderHoldExtended,
        OrderReturned, OrderRefundDue, OrderRefunded,
        CampaignOpened, CampaignSoldOut, CampaignChanged, CampaignClosed;
        Test => Other
    }
    AttemptState => WebhookDeliveryState { Delivered, Failed, GivenUp }
}

#[cfg(test)]
mod tests {
    use qiang_wire::words;

    use super::*;

    #[test]
    fn words_of_bodies_are_those_of_the_core() {
        fn check<T: ToWire<Wire = W> + Copy, W: std::fmt::Display>(
            all: &[T],
            name: fn(T) -> &'static str,
            known: &[W],
        ) {
            let core: Vec<_> = all.iter().map(|it| name(*it)).collect();
            let wire: Vec<_> = all.iter().map(|it| it.to_wire().to_string()).collect();
            assert_eq!(core, wire);
            assert_eq!(all.len(), known.len());
        }
        check(Phase::ALL, Phase::name, words::Phase::KNOWN);
        check(AckLevel::ALL, AckLevel::name, words::AckLevel::KNOWN);
        check(Cover::ALL, Cover::name, words::Cover::KNOWN);
        check(OrderState::ALL, OrderState::name, words::OrderState::KNOWN);
        check(
            PaymentPolicyKind::ALL,
            PaymentPolicyKind::name,
            words::PaymentPolicy::KNOWN,
        );
        check(
            PaymentOutcome::ALL,
            PaymentOutcome::name,
            words::PaymentOutcome::KNOWN,
        );
        check(
            Requirement::ALL,
            Requirement::name,
            words::Requirement::KNOWN,
        );
        check(RuleName::ALL, RuleName::name, words::SplitRuleName::KNOWN);
        check(ActionKind::ALL, ActionKind::name, words::ActionKind::KNOWN);
        check(
            PostingKind::ALL,
            PostingKind::name,
            words::PostingKind::KNOWN,
        );
        check(
            UserAccount::ALL,
            UserAccount::name,
            words::UserAccount::KNOWN,
        );
        check(
            AttemptState::ALL,
            AttemptState::name,
            words::WebhookDeliveryState::KNOWN,
        );
        let settled: Vec<_> = EventType::settled().collect();
        check(&settled, EventType::name, words::WebhookEventType::KNOWN);
    }

    #[test]
    fn times_are_rfc_3339() {
        let check = |json: &str, written: Option<&str>| {
            let parsed = serde_json::from_str::<Rfc3339>(json).ok();
            assert_eq!(
                parsed.map(|when| when.to_string()).as_deref(),
                written,
                "{json}"
            );
        };
        check(
            "\"2026-11-21T20:00:00+08:00\"",
            Some("2026-11-21T12:00:00.000Z"),
        );
        check(
            "\"2026-11-21T12:00:00.5Z\"",
            Some("2026-11-21T12:00:00.500Z"),
        );
        check("\"2026-11-21T12:00:00\"", None);
        check("\"tomorrow\"", None);
        check("1763726400", None);
    }

    #[test]
    fn what_is_wrong_with_a_time_is_said() {
        let check = |json: &str, expected: &str| {
            let error = serde_json::from_str::<Rfc3339>(json)
                .unwrap_err()
                .to_string();
            assert!(error.contains(expected), "{json}: {error}");
        };
        check("\"9999-12-31T23:59:59Z\"", "before the year 9999");
        check("\"9999-99-31T23:59:59Z\"", "as in RFC 3339");
        check(
            "1795262400000",
            "as in RFC 3339, such as \"2026-11-21T20:00:00+08:00\", and no number",
        );
        check(
            "\"1795262400000\"",
            "not as a number of seconds or milliseconds",
        );
        check("\"tomorrow\"", "as in RFC 3339");
    }

    #[test]
    fn every_instant_can_be_shown() {
        for (millis, written) in [
            (i64::MIN, "-009999-01-02T01:59:59.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-30T22:00:00.999Z"),
        ] {
            assert_eq!(Rfc3339(Timestamp::from_millis(millis)).to_string(), written);
        }
    }

    #[test]
    fn money_is_whole_minor_units() {
        let check = |json: &str, good: bool| {
            assert_eq!(
                serde_json::from_str::<MoneyBody>(json).is_ok(),
                good,
                "{json}"
            );
        };
        check(r#"{"amount":1,"currency":"CNY"}"#, true);
        check(r#"{"amount":-1,"currency":"CNY"}"#, true);
        check(r#"{"amount":1.5,"currency":"CNY"}"#, false);
        check(r#"{"amount":"1","currency":"CNY"}"#, false);
        check(r#"{"amount":1,"currency":"cny"}"#, false);
        check(r#"{"amount":9223372036854775808,"currency":"CNY"}"#, false);
        check(r#"{"amount":1,"currency":"CNY","x":1}"#, false);
    }
}
