//! Position of a request in a distributed trace: [W3C Trace Context](https://www.w3.org/TR/trace-context/).

use std::{collections::HashSet, fmt};

/// Maximum members of `tracestate`.
const MEMBERS_MAX: usize = 32;
/// Maximum bytes of `tracestate` that are propagated.
const STATE_BYTES_MAX: usize = 512;
/// Length of `version-trace-parent-flags` in the version that is written.
const PARENT_BYTES: usize = 55;
/// Known flags: sampled, and random ids.
const FLAGS: u8 = 0b11;

/// Header with the trace of a request, and the span that sent it.
pub const TRACEPARENT: &str = "traceparent";
/// Header with data that systems on the path add.
pub const TRACESTATE: &str = "tracestate";

/// A trace, and the current span in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
    state: Box<str>,
}

impl TraceContext {
    /// Creates a context. `None` if an id is 0.
    #[must_use]
    pub fn new(trace: u128, span: u64, sampled: bool) -> Option<Self> {
        let flags = u8::from(sampled);
        let of = |state| Self {
            trace,
            span,
            flags,
            state,
        };
        (trace != 0 && span != 0).then(|| of(Box::default()))
    }

    /// Parses the headers of a request: the one `traceparent`, and all `tracestate` in their order. Returns `None` if
    /// `traceparent` is invalid. An invalid `tracestate` is dropped.
    pub fn parse<'a>(parent: &[u8], state: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let version = hex(parent.get(..2)?, 2)?;
        let is_long_enough = match version {
            0 => parent.len() == PARENT_BYTES,
            0xff => false,
            // A later version may append fields.
            _ => parent.len() == PARENT_BYTES || parent.get(PARENT_BYTES) == Some(&b'-'),
        };
        let dashes = [2, 35, 52].iter().all(|at| parent.get(*at) == Some(&b'-'));
        if !is_long_enough || !dashes {
            return None;
        }
        let trace = hex(&parent[3..35], 32)?;
        let span = u64::try_from(hex(&parent[36..52], 16)?).ok()?;
        let flags = u8::try_from(hex(&parent[53..55], 2)?).ok()? & FLAGS;
        let context = Self::new(trace, span, false)?;
        let state = parse_state(state).unwrap_or_default();
        Some(Self {
            flags,
            state,
            ..context
        })
    }

    /// Id of the trace.
    #[must_use]
    pub fn trace(&self) -> u128 {
        self.trace
    }

    /// Id of the span.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Whether the origin of the trace records it.
    #[must_use]
    pub fn is_sampled(&self) -> bool {
        self.flags & 1 != 0
    }

    /// The same trace in another span. `None` if the span is 0.
    #[must_use]
    pub fn in_span(&self, span: u64, sampled: bool) -> Option<Self> {
        let flags = self.flags & !1 | u8::from(sampled);
        let state = self.state.clone();
        (span != 0).then_some(Self {
            span,
            flags,
            state,
            ..*self
        })
    }

    /// Value of `traceparent` for requests that are sent from here.
    #[must_use]
    pub fn traceparent(&self) -> String {
        format!(
            "00-{:032x}-{:016x}-{:02x}",
            self.trace, self.span, self.flags
        )
    }

    /// Value of `tracestate`; may be empty.
    #[must_use]
    pub fn tracestate(&self) -> &str {
        &self.state
    }

    /// Headers for requests that are sent from here.
    pub fn headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let state = Some(&self.state).filter(|state| !state.is_empty());
        let state = state.map(|state| (TRACESTATE, state.clone().into_string()));
        [(TRACEPARENT, self.traceparent())].into_iter().chain(state)
    }
}

/// Formats the id of the trace, as logs and tools write it.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.trace)
    }
}

/// Parses a number of exactly `digits` lowercase hexadecimal digits.
fn hex(text: &[u8], digits: usize) -> Option<u128> {
    let is_small_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != digits || !text.iter().all(is_small_hex) {
        return None;
    }
    u128::from_str_radix(str::from_utf8(text).ok()?, 16).ok()
}

/// Joins all headers to one value. `None` if it is invalid.
fn parse_state<'a>(headers: impl IntoIterator<Item = &'a [u8]>) -> Option<Box<str>> {
    let mut members = Vec::new();
    let mut keys = HashSet::new();
    for header in headers {
        for member in str::from_utf8(header).ok()?.split(',') {
            let member = member.trim_matches([' ', '\t']);
            if member.is_empty() {
                continue;
            }
            let (key, value) = member.split_once('=')?;
            if !is_key(key) || !is_value(value) || !keys.insert(key) {
                return None;
            }
            members.push(member);
        }
    }
    if members.len() > MEMBERS_MAX {
        return None;
    }
    let state = members.join(",");
    (state.len() <= STATE_BYTES_MAX).then(|| state.into())
}

/// Whether a text is a name, or a tenant's name at a system.
fn is_key(key: &str) -> bool {
    let plain = |text: &str| {
        let byte = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'*' | b'/');
        text.bytes().all(byte)
    };
    let small = |text: &str| text.starts_with(|first: char| first.is_ascii_lowercase());
    match key.split_once('@') {
        None => (1..=256).contains(&key.len()) && small(key) && plain(key),
        Some((tenant, system)) => {
            let starts = small(tenant) || tenant.starts_with(|first: char| first.is_ascii_digit());
            (1..=241).contains(&tenant.len())
                && (1..=14).contains(&system.len())
                && starts
                && small(system)
                && plain(tenant)
                && plain(system)
        }
    }
}

fn is_value(value: &str) -> bool {
    let printable = |byte: u8| matches!(byte, 0x20..=0x7e) && !b",=".contains(&byte);
    (1..=256).contains(&value.len()) && value.bytes().all(printable) && !value.ends_with(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn read(parent: &str, state: &[&str]) -> Option<TraceContext> {
        TraceContext::parse(parent.as_bytes(), state.iter().map(|text| text.as_bytes()))
    }

    #[test]
    fn a_context_is_passed_on_as_it_came() {
        let context = read(GOOD, &["congo=t61rcWkgMzE", " rojo=00f0 , ,a1@b-c=x y"]).unwrap();
        assert_eq!(context.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(context.span(), 0xb7ad_6b71_6920_3331);
        assert!(context.is_sampled());
        let headers: Vec<_> = context.headers().collect();
        let state = "congo=t61rcWkgMzE,rojo=00f0,a1@b-c=x y".to_owned();
        assert_eq!(
            headers,
            [(TRACEPARENT, GOOD.to_owned()), (TRACESTATE, state)]
        );
        let below = context.in_span(7, false).unwrap();
        let expected = "00-0af7651916cd43dd8448eb211c80319c-0000000000000007-00";
        assert_eq!(below.traceparent(), expected);
        assert_eq!(below.tracestate(), context.tracestate());
        assert_eq!(context.in_span(0, true), None);
        assert_eq!(read(GOOD, &[]).unwrap().headers().count(), 1);
    }

    #[test]
    fn what_is_no_parent_is_left_out() {
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        let zeros = |digits: usize| "0".repeat(digits);
        for bad in [
            String::new(),
            GOOD[..54].to_owned(),
            format!("{GOOD}-"),
            format!("{GOOD}0"),
            GOOD.to_uppercase(),
            GOOD.replace('-', "_"),
            format!("00-{}-{span}-01", zeros(32)),
            format!("00-{trace}-{}-01", zeros(16)),
            format!("ff-{trace}-{span}-01"),
            format!("0g-{trace}-{span}-01"),
            format!("00-{trace}-{span}-0g"),
            format!("00-{}-{span}-01", trace.replace('a', "+")),
            format!("cc-{trace}-{span}-01.what"),
            format!(" {GOOD}"),
            "€".repeat(20),
        ] {
            assert_eq!(read(&bad, &[]), None, "{bad}");
        }
        // The known fields of later versions are used.
        for later in ["01", "cc", "fe"] {
            let text = format!("{later}-{trace}-{span}-ff-what-the-future-holds");
            let context = read(&text, &[]).unwrap();
            assert_eq!(context.traceparent(), format!("00-{trace}-{span}-03"));
            assert!(read(&text[..55], &[]).is_some());
        }
    }

    #[test]
    fn a_state_that_does_not_hold_is_left_out_alone() {
        let long = format!("a={}", "x".repeat(257));
        let many: Vec<_> = (0..33).map(|n| format!("k{n}=x")).collect();
        let much: Vec<_> = (0..3)
            .map(|n| format!("k{n}={}", "x".repeat(200)))
            .collect();
        for bad in [
            "a",
            "=x",
            "a=",
            "A=x",
            "1=x",
            "a=x=y",
            "a=x,a=y",
            "a=\u{7f}",
            "a=é",
            "@b=x",
            "a@=x",
            "a@1=x",
            "a@b@c=x",
            "a@abcdefghijklmno=x",
            &long,
            &many.join(","),
            &much.join(","),
        ] {
            let context = read(GOOD, &["fine=1", bad]).unwrap();
            assert_eq!(context.tracestate(), "", "{bad}");
        }
        let most = many[1..].join(",");
        assert_eq!(read(GOOD, &[&most]).unwrap().tracestate(), most);
    }
}
