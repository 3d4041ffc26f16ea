//! Money and time.

use std::{
    fmt,
    io::Write as _,
    str::FromStr,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};

/// Error of a text that is no currency, amount or time. It states the right form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidValue(&'static str);

/// Currency: an ISO 4217 code such as `CNY`. The service checks that the code exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Currency([u8; 3]);

#[cfg(feature = "service")]
crate::bodies::text_schema!(Currency);
#[cfg(feature = "service")]
crate::bodies::text_schema!(WebhookSecret);

impl Currency {
    /// The code.
    pub fn as_str(&self) -> &str {
        // Three capital letters are valid UTF-8.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Currency {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        const INVALID: InvalidValue =
            InvalidValue("a currency must be three capital letters, such as CNY");
        let code: [u8; 3] = text.as_bytes().try_into().map_err(|_| INVALID)?;
        let is_code = code.iter().all(u8::is_ascii_uppercase);
        is_code.then_some(Self(code)).ok_or(INVALID)
    }
}

impl TryFrom<String> for Currency {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        text.parse()
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Money in whole minor units (fen, cents) of one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "service", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// Whole minor units.
    #[cfg_attr(feature = "service", schema(example = 10_000))]
    pub amount: i64,
    /// ISO 4217 code.
    #[cfg_attr(feature = "service", schema(example = "CNY"))]
    pub currency: Currency,
}

impl Money {
    /// Money of this many minor units.
    pub const fn new(amount: i64, currency: Currency) -> Self {
        Self { amount, currency }
    }
}

/// Formats as `49900 CNY`: minor units and currency.
impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount, self.currency)
    }
}

/// Buffer size for the printed form of an instant.
const TIMESTAMP_BYTES_MAX: usize = 32;

/// Instant in milliseconds since 1970 in UTC. JSON and text use RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Timestamp(i64);

#[cfg(feature = "service")]
impl utoipa::PartialSchema for Timestamp {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::Schema> {
        use utoipa::openapi::schema::{KnownFormat, ObjectBuilder, SchemaFormat, Type};
        ObjectBuilder::new()
            .schema_type(Type::String)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::DateTime)))
            .into()
    }
}

#[cfg(feature = "service")]
impl utoipa::ToSchema for Timestamp {}

impl Timestamp {
    const INVALID: InvalidValue =
        InvalidValue("a time must have the form of RFC 3339, such as 2026-11-21T20:00:00+08:00");

    const LATE: InvalidValue = InvalidValue("a time must be before the year 9999 (UTC)");

    /// Instant this many milliseconds after the start of 1970.
    ///
    /// # Errors
    /// If it is outside the years -9999 to 9999.
    pub fn from_millis(millis: i64) -> Result<Self, InvalidValue> {
        let instant = jiff::Timestamp::from_millisecond(millis);
        instant.map_err(|_| Self::INVALID).map(|_| Self(millis))
    }

    /// Instant this many milliseconds after the start of 1970, or the nearest end of the calendar.
    #[must_use]
    pub fn from_millis_saturating(millis: i64) -> Self {
        // The calendar of `jiff` has milliseconds up to its last whole second.
        let [first, last] = [jiff::Timestamp::MIN, jiff::Timestamp::MAX];
        Self(millis.clamp(first.as_millisecond(), last.as_second() * 1_000))
    }

    /// Milliseconds since the start of 1970.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

impl FromStr for Timestamp {
    type Err = InvalidValue;

    fn from_str(text: &str) -> Result<Self, InvalidValue> {
        let instant: jiff::Timestamp = text.parse().map_err(|_| {
            // The supported calendar ends some hours before the year 9999 does.
            let in_time = text.strip_prefix("9999").map(|rest| format!("9998{rest}"));
            match in_time.is_some_and(|it| it.parse::<jiff::Timestamp>().is_ok()) {
                true => Self::LATE,
                false => Self::INVALID,
            }
        })?;
        Ok(Self(instant.as_millisecond()))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = InvalidValue;

    fn try_from(text: String) -> Result<Self, InvalidValue> {
        text.parse()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The value was created from a valid instant, so the conversion cannot fail.
        let instant = jiff::Timestamp::from_millisecond(self.0).unwrap_or_default();
        write!(f, "{instant:.3}")
    }
}

/// Writes the printed form from a buffer: the serialiser then looks for characters to escape once, instead of once per
/// printed piece.
impl Serialize for Timestamp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut room = [0; TIMESTAMP_BYTES_MAX];
        let mut rest = room.as_mut_slice();
        if write!(rest, "{self}").is_err() {
            return serializer.collect_str(self);
        }
        let written = TIMESTAMP_BYTES_MAX - rest.len();
        match str::from_utf8(&room[..written]) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => serializer.collect_str(self),
        }
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = InvalidValue;

    fn try_from(time: SystemTime) -> Result<Self, InvalidValue> {
        let millis = match time.duration_since(SystemTime::UNIX_EPOCH) {
            Ok(since) => i64::try_from(since.as_millis()),
            Err(before) => i64::try_from(before.duration().as_millis()).map(|millis| -millis),
        };
        Self::from_millis(millis.map_err(|_| Self::INVALID)?)
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_millis(time.0.unsigned_abs());
        match time.0 < 0 {
            true => Self::UNIX_EPOCH - distance,
            false => Self::UNIX_EPOCH + distance,
        }
    }
}

/// Secret that signs requests to an endpoint, as in Standard Webhooks. `Debug` does not show it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WebhookSecret(String);

#[cfg(feature = "service")]
impl From<String> for WebhookSecret {
    fn from(secret: String) -> Self {
        Self(secret)
    }
}

impl WebhookSecret {
    /// The text: `whsec_` and bytes in base64.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        let time: Timestamp = "2026-11-21T20:00:00+08:00".parse().unwrap();
        assert_eq!(time.to_string(), "2026-11-21T12:00:00.000Z");
        assert_eq!(time.as_millis(), 1_795_262_400_000);
        assert_eq!(Timestamp::try_from(SystemTime::from(time)), Ok(time));
        assert!("2026-11-21T12:00:00".parse::<Timestamp>().is_err());
        let late = "9999-12-31T23:59:59Z".parse::<Timestamp>();
        assert_eq!(late, Err(Timestamp::LATE));
        for (millis, written) in [
            (i64::MIN, "-009999-01-02T01:59:59.000Z"),
            (i64::MAX, "9999-12-30T22:00:00.000Z"),
        ] {
            let shown = Timestamp::from_millis_saturating(millis).to_string();
            assert_eq!(shown, written);
        }
        for bad in ["", "cny", "CN", "CNYY", "C€"] {
            assert!(bad.parse::<Currency>().is_err(), "{bad}");
        }
        let money = Money::new(-5, "CNY".parse().unwrap());
        assert_eq!(
            serde_json::to_string(&money).unwrap(),
            r#"{"amount":-5,"currency":"CNY"}"#
        );
        assert_eq!(money.to_string(), "-5 CNY");
    }
}
