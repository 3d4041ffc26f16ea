//! The suite that all engines pass, on Redis: one server, a campaign spread over partitions, Sentinels, a Cluster.
//!
//! The ledger beside each is an SQLite file; and once more on one server with PostgreSQL and with MariaDB. Time is
//! given, so that cases can move it.

mod carried;
#[path = "../shelves/mod.rs"]
mod shelves;
mod subject;

use std::sync::OnceLock;

use qiang_redis::{Options, Topology};
use qiang_testkit::{
    engine_conformance,
    servers::redis::{Cluster, Options as ServerOptions, SentinelSet, Standalone},
};

use crate::{
    shelves::{InMariaDb, InPostgres},
    subject::{OnRedis, Place},
};

/// One server, four partitions.
struct Alone;

fn alone() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

impl Place for Alone {
    fn options() -> Options {
        Options {
            urls: vec![alone().url()],
            partitions: 4,
            ..Options::default()
        }
    }
}

/// The same, with every campaign of two units or more spread over three of the partitions.
struct Spread;

impl Place for Spread {
    fn options() -> Options {
        Options {
            spread_from: 2,
            spread_over: 3,
            ..Alone::options()
        }
    }
}

/// A primary with two replicas, watched by Sentinels; grants wait for a replica.
struct Watched;

fn watched() -> &'static SentinelSet {
    static SERVERS: OnceLock<SentinelSet> = OnceLock::new();
    SERVERS.get_or_init(|| SentinelSet::start(&ServerOptions::new()))
}

impl Place for Watched {
    fn options() -> Options {
        Options {
            urls: watched().sentinel_urls(),
            topology: Topology::Sentinel {
                master: watched().master_name().to_owned(),
            },
            partitions: 2,
            replicas: 1,
            ..Options::default()
        }
    }
}

/// Three primaries with a replica each.
struct Clustered;

fn cluster() -> &'static Cluster {
    static SERVERS: OnceLock<Cluster> = OnceLock::new();
    SERVERS.get_or_init(|| Cluster::start(&ServerOptions::new()))
}

impl Place for Clustered {
    fn options() -> Options {
        Options {
            urls: cluster().urls(),
            topology: Topology::Cluster,
            partitions: 8,
            replicas: 1,
            ..Options::default()
        }
    }
}

mod alone {
    use super::*;
    engine_conformance!(OnRedis<Alone>);
}

mod spread {
    use super::*;
    engine_conformance!(OnRedis<Spread>);
}

mod watched {
    use super::*;
    engine_conformance!(OnRedis<Watched>);
}

mod clustered {
    use super::*;
    engine_conformance!(OnRedis<Clustered>);
}

mod into_postgres {
    use super::*;
    engine_conformance!(OnRedis<Spread, InPostgres>);
}

mod into_mariadb {
    use super::*;
    engine_conformance!(OnRedis<Spread, InMariaDb>);
}
