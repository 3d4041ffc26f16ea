//! Coefficients of the capacity model, each with its source.

use serde::Serialize;

/// A coefficient: a cost, a size or a limit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Coefficient {
    /// Name, stable for programs.
    pub name: &'static str,
    /// Value.
    pub value: f64,
    /// Unit and meaning.
    pub unit: &'static str,
    /// Source.
    pub source: CoefficientSource,
}

/// Source of a coefficient.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum CoefficientSource {
    /// A measurement in docs/RESULTS.md.
    Measured {
        /// Heading of its section.
        section: &'static str,
        /// Date of the record.
        date: &'static str,
        /// Command.
        command: &'static str,
        /// Text in the section that has the figure. A test compares it.
        #[serde(skip)]
        quote: &'static str,
    },
    /// Default of a configuration key.
    Configured {
        /// The key.
        key: &'static str,
    },
    /// No measurement: an assumption.
    Assumed {
        /// Reason for the value.
        reason: &'static str,
    },
}

const COSTS: &str = "Costs";
const MODEL: &str = "The model";
const SCHEMES: &str = "Schemes";
const SIZES: &str = "Sizes";

/// Shorthand for a table of this length.
macro_rules! coefficients {
    ($($(#[$doc:meta])* $id:ident = $name:literal, $value:literal, $unit:literal, $source:expr;)*) => {
        $($(#[$doc])* pub(super) const $id: Coefficient = Coefficient {
            name: $name,
            value: $value,
            unit: $unit,
            source: $source,
        };)*

        /// All coefficients.
        #[cfg(test)]
        pub(super) const ALL: &[Coefficient] = &[$($id),*];
    };
}

const fn measured(
    section: &'static str,
    date: &'static str,
    command: &'static str,
    quote: &'static str,
) -> CoefficientSource {
    CoefficientSource::Measured {
        section,
        date,
        command,
        quote,
    }
}

const fn assumed(reason: &'static str) -> CoefficientSource {
    CoefficientSource::Assumed { reason }
}

const fn configured(key: &'static str) -> CoefficientSource {
    CoefficientSource::Configured { key }
}

coefficients! {
    /// Refusal by the gate.
    REFUSAL_US = "refusal", 10.0, "µs of a node's CPU per claim that the gate refuses",
        measured(COSTS, "2026-11-24", "qiang-bench http --baseline",
            "a refusal by the gate | 10 µs of the node's CPU");
    /// Claim on the embedded engine.
    EMBEDDED_CLAIM_US = "embedded-claim", 13.0, "µs of a node's CPU per granted claim, settlement apart",
        measured(COSTS, "2026-11-24", "qiang-bench http --baseline",
            "a durable claim over HTTP | 13 µs of the node's CPU");
    /// Share of a core's time at which answers stay quick.
    LOAD = "load", 0.6, "of each core used at the peak",
        assumed("at this load answers stay quick; docs/RESULTS.md uses it in its model");
    /// Commit of the embedded engine.
    COMMIT_US = "commit", 399.0, "µs per durable commit of the embedded engine, of any size",
        measured(MODEL, "2026-11-24", "qiang-bench engine", "`F` = 399 µs");
    /// Grant beside the commit.
    WRITER_GRANT_US = "writer-grant", 1.047, "µs of the writer per grant, beside the commit",
        measured(MODEL, "2026-11-24", "qiang-bench engine", "`g` = 1.047 µs");
    /// Grant in Redis.
    REDIS_GRANT_US = "redis-grant", 2.0, "µs of Redis' CPU per grant of large campaigns",
        measured(COSTS, "2026-11-24", "qiang-bench schemes --drain", "2.0 over several partitions");
    /// Order in Redis.
    REDIS_GRANT_BYTES = "redis-grant-bytes", 112.0, "bytes of Redis per live order",
        measured(SIZES, "2026-11-22", "qiang-bench schemes --drain", "a grant in Redis | 112 bytes");
    /// Log entry in Redis.
    REDIS_ENTRY_BYTES = "redis-entry-bytes", 100.0, "bytes of Redis per entry of the log, at most",
        measured(SIZES, "2026-11-26", "qiang-bench schemes --drain",
            "an entry of the log in Redis | 50 to 100 bytes");
    /// Order in an embedded node.
    EMBEDDED_GRANT_BYTES = "embedded-grant-bytes", 206.0, "bytes of an embedded node per live order, at most",
        measured(SIZES, "2026-11-24", "qiang-bench rebuild", "206 right after a million were read");
    /// Orders into PostgreSQL.
    POSTGRES_ORDERS = "postgres-orders", 243_000.0, "orders per second settled into PostgreSQL on two cores",
        measured("Settlement", "2026-11-21", "qiang-bench settlement", "PostgreSQL: 243,000 orders/s");
    /// Orders into MariaDB.
    MARIADB_ORDERS = "mariadb-orders", 227_000.0, "orders per second settled into MariaDB on two cores",
        measured("Settlement", "2026-11-21", "qiang-bench settlement", "MariaDB: 227,000");
    /// Entries into a file.
    FILE_ORDERS = "file-orders", 45_800.0, "entries per second settled into a file",
        measured("A million small packets", "2026-11-26", "qiang-bench campaigns", "| 45,800/s, 19.3 µs |");
    /// Connections of a node.
    CONNECTIONS = "connections", 10_000.0, "connections of a node", configured("server.connections_max");
    /// Streams of a node.
    STREAMS = "streams", 5_000.0, "streams of a node", configured("server.watchers_max");
    /// Unsettled entries.
    LAG_ENTRIES = "lag-entries", 2_000_000.0, "unsettled entries at which claims are refused",
        configured("settlement.lag_entries_max");
    /// Kept entries.
    RETAIN_BYTES = "retain-bytes", 268_435_456.0, "bytes of settled entries that Redis keeps",
        configured("redis.retain_bytes");
    /// Claim on Redis.
    REDIS_CLAIM_US = "redis-claim", 22.0, "µs of a node's CPU per granted claim, with its calls to Redis",
        measured(COSTS, "2026-11-30", "qiang-bench http --baseline --url",
            "a durable claim over HTTP, engine on Redis (11-30) | 22 µs of the node's CPU");
    /// Claim on Redis that waits for a replica.
    REPLICA_CLAIM_US = "replica-claim", 25.0, "µs of a node's CPU per granted claim that waits for a replica",
        measured(COSTS, "2026-11-30", "qiang-bench http --baseline --url",
            "the same with the level `replica` (11-30) | 25 µs of the node's CPU");
    /// Handshake.
    TLS_HANDSHAKE_US = "tls-handshake", 160.0, "µs of a node's CPU per TLS handshake, P-256, not resumed",
        measured(COSTS, "2026-11-30", "openssl s_time -new",
            "a TLS handshake with a P-256 certificate (11-30) | 160 µs of the node's CPU");
    /// Replica.
    REPLICA_FACTOR = "replica", 1.16, "times the CPU of Redis with a replica; the wait for it is not in this",
        measured(SCHEMES, "2026-11-30", "qiang-bench schemes --drain", "with a replica 1.16");
    /// Append-only file, synced each second.
    AOF_EVERYSEC_FACTOR = "aof-everysec", 1.23, "times the CPU of Redis with appendfsync everysec",
        measured(SCHEMES, "2026-11-30", "qiang-bench schemes --drain", "`appendfsync everysec` 1.23");
    /// Append-only file, synced before replies.
    AOF_ALWAYS_FACTOR = "aof-always", 1.61, "times the CPU of Redis with appendfsync always",
        measured(SCHEMES, "2026-11-30", "qiang-bench schemes --drain", "`appendfsync always` 1.61");
    /// Payment.
    PAYMENT_US = "payment", 100.0, "µs of a node's CPU per payment, settled",
        assumed("ten no-ops, as seen at low load; `qiang-bench costs` measures it");
    /// Payment in Redis.
    REDIS_PAYMENT_US = "redis-payment", 190.0, "µs of Redis' CPU per payment that comes alone",
        assumed("as seen at low load; `qiang-bench costs --redis` measures it");
    /// Sign-in.
    SIGN_IN_US = "sign-in", 12.0, "µs of a node's CPU per sign-in",
        assumed("1.2 no-ops, as seen at low load; `qiang-bench costs` measures it");
    /// Stream.
    STREAM_US = "stream", 6.0, "µs of a node's CPU per open stream and second, 5,000 streams on a node",
        assumed("47 µs per event, 500 events per second and node; `qiang-bench costs` measures it");
    /// Memory of a stream.
    STREAM_BYTES = "stream-bytes", 25_000.0, "bytes of a node per connection or stream",
        assumed("24 KB per stream were seen with 450 streams; `qiang-bench costs` measures it");
    /// Memory of a node.
    NODE_BYTES = "node-bytes", 50_000_000.0, "bytes of a node without users",
        assumed("resident memory of 42 to 54 MB was seen after starts; `qiang-bench costs` measures it");
    /// Request over TLS.
    TLS_REQUEST_US = "tls-request", 2.0, "µs of a node's CPU per request over TLS, beside the request",
        assumed("encryption of one KB; `qiang-bench costs` measures it");
    /// Paid order in the file.
    PAID_ORDER_BYTES = "paid-order-bytes", 600.0, "bytes of the ledger's disk per paid order",
        assumed("a packet with ten claims takes 2,700; `qiang-bench costs` measures it");
    /// Rows of a payment.
    PAYMENT_ROWS = "payment-rows", 3.0, "times the settlement of an order, per payment",
        assumed("as many rows as a share, which settles at a third of the rate of orders");
    /// Request and answer.
    REQUEST_BYTES = "request-bytes", 1_000.0, "bytes of a request and its answer",
        assumed("heads of browsers differ");
    /// Room in Redis.
    REDIS_ROOM = "redis-room", 1.33, "times the computed memory of Redis, for buffers and fragmentation",
        assumed("a third more");
}
