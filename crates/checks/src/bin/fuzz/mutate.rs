//! Requests: some valid, some with odd contents, some malformed.

use rand::{Rng as _, RngExt as _, seq::IndexedRandom as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

use crate::corpus::{Corpus, Operation, USERS};

/// Texts that often reveal errors.
const TEXTS: [&str; 24] = [
    "",
    " ",
    "\0",
    "null",
    "-1",
    "0",
    "1e999",
    "NaN",
    "18446744073709551616",
    "9007199254740993",
    "true",
    "[]",
    "{}",
    "../../etc/passwd",
    "%00",
    "%",
    "%ff%fe",
    "'; DROP TABLE orders; --",
    "<script>alert(1)</script>",
    "恭喜发财",
    "\u{202e}abc",
    "\u{feff}",
    "\u{1f9e7}",
    "2026-13-45T25:61:61Z",
];
/// Media type that a browser accepts.
pub(crate) const PAGE: &str = "text/html";
/// Header fields that are added to or replace others; the framing stays valid.
const FIELDS: [(&str, &str); 22] = [
    ("Authorization", "Bearer"),
    (
        "Authorization",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbm4ifQ.",
    ),
    ("Authorization", "Basic YW5uOmFubg=="),
    ("Content-Type", "text/plain"),
    ("Content-Type", "application/json; charset=utf-16"),
    ("Content-Type", "application/json; charset=utf-8"),
    ("Content-Encoding", "gzip"),
    ("Accept", "text/event-stream"),
    ("Accept", PAGE),
    ("Accept-Encoding", "gzip, br"),
    ("Idempotency-Key", "\"half"),
    ("Idempotency-Key", "\"whole\""),
    ("Grab-Ticket", "e30.e30.e30"),
    ("If-None-Match", "W/\"1\", *"),
    ("X-Request-Id", "a b c"),
    ("X-Forwarded-For", "1.2.3.4, 999.1.1.1"),
    ("Forwarded", "for=\"[::1]:80\""),
    ("Expect", "100-continue"),
    ("Upgrade", "h2c"),
    ("Range", "bytes=0-10"),
    ("Cookie", "a=b; c"),
    ("Host", "other"),
];
/// Byte sequences that are inserted into a request.
const BYTES: [&[u8]; 14] = [
    b"\r\n\r\n",
    b"\n",
    b"\0",
    b"\r",
    b" HTTP/1.1\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 99999999999\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n",
    b"HTTP/1.0",
    b"HTTP/9.9",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"ffffffffffffffffff\r\n",
    b"\xff\xfe\x80",
];
/// Lengths of a header value, below and above the limits.
const LONG: [usize; 3] = [300, 9_000, 70_000];
/// Depths of nested lists in a body.
const DEPTHS: [usize; 3] = [10, 127, 2_000];

/// Request before it is serialized.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    pub(crate) method: String,
    target: String,
    fields: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Draft {
    /// Whether a page may answer: the request accepts one, and its path is not the API's.
    pub(crate) fn accepts_page(&self) -> bool {
        let accepts = |(name, value): &(String, String)| name == "Accept" && value == PAGE;
        !self.target.starts_with("/v1/") && self.fields.iter().any(accepts)
    }

    /// Valid request of the document.
    pub(crate) fn sound(corpus: &Corpus, random: &mut ChaCha8Rng) -> Option<Self> {
        let operation = corpus.operation(random)?;
        let mut fields = vec![("Host".to_owned(), "node".to_owned())];
        if let Some(token) = corpus.tokens.choose(random) {
            fields.push(("Authorization".to_owned(), token.clone()));
        }
        if operation.method != "GET" && random.random() {
            // Few keys, so that keys repeat, also with different bodies.
            let key = format!("key-{}", random.random_range(0..200));
            fields.push(("Idempotency-Key".to_owned(), key));
        }
        let sends_body = operation.body.is_some() && random.random_ratio(9, 10);
        Some(Self {
            method: operation.method.clone(),
            target: corpus.path(operation, random) + &query(operation, random),
            fields,
            body: operation.body.as_ref().filter(|_| sends_body).map(text),
        })
    }

    pub(crate) fn has_body(&self) -> bool {
        self.body.is_some()
    }

    /// Changes the content of the request, but not its framing.
    pub(crate) fn change(&mut self, random: &mut ChaCha8Rng) {
        match random.random_range(0..8) {
            0..=3 if self.body.is_some() => self.change_body(random),
            0 | 4 => self.change_target(random),
            1 | 5 => {
                if let Some((name, value)) = FIELDS.choose(random) {
                    if random.random() {
                        self.fields.retain(|(other, _)| other != name);
                    }
                    self.fields.push(((*name).to_owned(), (*value).to_owned()));
                }
            }
            2 => {
                let methods = [
                    "GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "QIANG",
                ];
                self.method = methods.choose(random).copied().unwrap_or("GET").to_owned();
            }
            3 => {
                let length = *LONG.choose(random).unwrap_or(&300);
                self.fields.push(("X-Long".to_owned(), "x".repeat(length)));
            }
            6 => {
                let at = random.random_range(0..self.fields.len().max(1));
                if at < self.fields.len() {
                    self.fields.remove(at);
                }
            }
            _ => self.body = Some(bytes(random)),
        }
    }

    fn change_target(&mut self, random: &mut ChaCha8Rng) {
        let text = odd_text(random);
        let escaped: String = text.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let parts: Vec<&str> = self.target.split('/').collect();
        let at = random.random_range(0..parts.len());
        self.target = match random.random_range(0..5) {
            0 => format!("{}?{escaped}={escaped}", self.target),
            1 => format!("{}/{escaped}", self.target),
            2 => format!("{}//..", self.target),
            3 => format!("{}&limit={escaped}&after={escaped}", self.target),
            _ => {
                let changed = parts.iter().enumerate();
                let changed =
                    changed.map(|(i, part)| if i == at && i > 0 { &escaped } else { *part });
                changed.collect::<Vec<_>>().join("/")
            }
        };
    }

    fn change_body(&mut self, random: &mut ChaCha8Rng) {
        let Some(body) = &mut self.body else { return };
        let Ok(mut value) = serde_json::from_slice::<Value>(body) else {
            return;
        };
        match random.random_range(0..12) {
            0 => {
                let depth = *DEPTHS.choose(random).unwrap_or(&10);
                *body = [vec![b'['; depth], vec![b']'; depth]].concat();
            }
            1 => *body = [body.as_slice(), body.as_slice()].concat(),
            2 => {
                let at = random.random_range(0..body.len().max(1));
                body.truncate(at);
            }
            3 => {
                let at = random.random_range(0..body.len().max(1));
                if let Some(byte) = body.get_mut(at) {
                    *byte = random.random();
                }
            }
            _ => {
                for _ in 0..random.random_range(1..4) {
                    change_value(&mut value, random);
                }
                *body = text(&value);
            }
        }
    }

    /// Serializes a request with valid framing.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        to.extend(format!("{} {} HTTP/1.1\r\n", self.method, self.target).bytes());
        for (name, value) in &self.fields {
            to.extend(format!("{name}: {value}\r\n").bytes());
        }
        if let Some(body) = &self.body {
            if !self.fields.iter().any(|(name, _)| name == "Content-Type") {
                to.extend_from_slice(b"Content-Type: application/json\r\n");
            }
            to.extend(format!("Content-Length: {}\r\n", body.len()).bytes());
        }
        to.extend_from_slice(b"\r\n");
        to.extend(self.body.iter().flatten());
    }
}

fn text(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

fn query(of: &Operation, random: &mut ChaCha8Rng) -> String {
    let values = [
        "1",
        "true",
        "live",
        USERS[0],
        "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80",
    ];
    let mut query = String::new();
    for name in &of.query {
        if random.random_ratio(1, 3) {
            let value = values.choose(random).copied().unwrap_or_default();
            let mark = if query.is_empty() { '?' } else { '&' };
            query = format!("{query}{mark}{name}={value}");
        }
    }
    query
}

/// Replaces a value by something odd, or adds something odd.
fn change_value(value: &mut Value, random: &mut ChaCha8Rng) {
    match value {
        Value::Object(object) if random.random_ratio(4, 5) => {
            let key = object
                .keys()
                .nth(random.random_range(0..object.len().max(1)));
            let Some(key) = key.cloned() else { return };
            match random.random_range(0..6) {
                0 => drop(object.remove(&key)),
                1 => drop(object.insert(odd_text(random), odd_value(random))),
                _ => {
                    if let Some(inner) = object.get_mut(&key) {
                        change_value(inner, random);
                    }
                }
            }
        }
        Value::Array(list) if !list.is_empty() && random.random_ratio(4, 5) => {
            let at = random.random_range(0..list.len());
            if let Some(inner) = list.get_mut(at) {
                change_value(inner, random);
            }
        }
        _ => *value = odd_value(random),
    }
}

fn odd_value(random: &mut ChaCha8Rng) -> Value {
    match random.random_range(0..10) {
        0 => Value::Null,
        1 => random.random::<bool>().into(),
        2 => random.random::<i64>().into(),
        3 => random.random::<u64>().into(),
        4 => json!(random.random_range(-3..100)),
        5 => json!(random.random::<f64>() * 1e300),
        6 => json!([odd_text(random)]),
        7 => json!({ odd_text(random): odd_text(random) }),
        _ => odd_text(random).into(),
    }
}

fn odd_text(random: &mut ChaCha8Rng) -> String {
    let text = TEXTS.choose(random).copied().unwrap_or_default();
    match random.random_range(0..12) {
        0 => text.repeat(200),
        1 => {
            let chars = random.random_range(1..40);
            (0..chars).map(|_| random.random::<char>()).collect()
        }
        _ => text.to_owned(),
    }
}

fn bytes(random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; random.random_range(0..400)];
    random.fill_bytes(&mut bytes);
    bytes
}

/// Changes bytes anywhere in requests, so that even their number becomes unclear.
pub(crate) fn break_bytes(request: &mut Vec<u8>, random: &mut ChaCha8Rng) {
    for _ in 0..random.random_range(1..4) {
        let at = random.random_range(0..=request.len());
        match random.random_range(0..5) {
            0 => request.truncate(at),
            1 => {
                let piece = BYTES.choose(random).copied().unwrap_or_default();
                request.splice(at..at, piece.iter().copied());
            }
            2 => {
                let end = (at + random.random_range(0..20)).min(request.len());
                request.drain(at..end);
            }
            3 => {
                let piece = bytes(random);
                request.splice(at..at, piece);
            }
            _ => {
                if let Some(byte) = request.get_mut(at) {
                    *byte = random.random();
                }
            }
        }
    }
}
