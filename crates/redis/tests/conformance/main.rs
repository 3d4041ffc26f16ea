//! The suite that all engines pass, on Redis: one server, campaigns spread over partitions, Sentinels, a Cluster. And
//! on Valkey: one server with replicas that grants wait for, a Cluster.
//!
//! The ledger behind each is an SQLite file. Time is given, so that cases can move it.

mod subject;

use std::sync::OnceLock;

use qiang_redis::{Options, Topology};
use qiang_testkit::{
    engine_conformance,
    servers::redis::{Cluster, Options as ServerOptions, SentinelSet, Standalone},
};

use crate::subject::{OnRedis, Servers};

/// One server, four partitions.
struct Alone;

impl Servers for Alone {
    fn options() -> Options {
        static SERVER: OnceLock<Standalone> = OnceLock::new();
        let server = SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()));
        Options {
            urls: vec![server.url()],
            partitions: 4,
            ..Options::default()
        }
    }
}

/// The same, with every campaign of two units or more spread over three of the partitions.
struct Spread;

impl Servers for Spread {
    fn options() -> Options {
        Options {
            spread_from: 2,
            spread_over: 3,
            ..Alone::options()
        }
    }
}

/// A primary with two replicas, watched by Sentinels; grants wait for a replica.
struct UnderSentinels;

impl Servers for UnderSentinels {
    fn options() -> Options {
        static SERVERS: OnceLock<SentinelSet> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| SentinelSet::start(&ServerOptions::new()));
        Options {
            urls: servers.sentinel_urls(),
            topology: Topology::Sentinel {
                master: servers.master_name().to_owned(),
            },
            partitions: 2,
            replicas: 1,
            ..Options::default()
        }
    }
}

/// Three primaries with a replica each.
struct Clustered;

impl Servers for Clustered {
    fn options() -> Options {
        static SERVERS: OnceLock<Cluster> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| Cluster::start(&ServerOptions::new()));
        Options {
            urls: servers.urls(),
            topology: Topology::Cluster,
            partitions: 8,
            replicas: 1,
            ..Options::default()
        }
    }
}

/// One server of Valkey and a replica, every campaign of two units or more spread over two partitions of three.
struct OnValkey;

impl Servers for OnValkey {
    fn options() -> Options {
        static SERVERS: OnceLock<Standalone> = OnceLock::new();
        let with = ServerOptions::new().valkey().replicas(1);
        let servers = SERVERS.get_or_init(|| Standalone::start(&with));
        Options {
            urls: vec![servers.url()],
            partitions: 3,
            spread_from: 2,
            spread_over: 2,
            replicas: 1,
            ..Options::default()
        }
    }
}

/// Three primaries of Valkey with a replica each.
struct ValkeyCluster;

impl Servers for ValkeyCluster {
    fn options() -> Options {
        static SERVERS: OnceLock<Cluster> = OnceLock::new();
        let with = ServerOptions::new().valkey();
        let servers = SERVERS.get_or_init(|| Cluster::start(&with));
        Options {
            urls: servers.urls(),
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
    engine_conformance!(downtimes OnRedis<Alone>);
}

mod spread {
    use super::*;
    engine_conformance!(OnRedis<Spread>);
    engine_conformance!(downtimes OnRedis<Spread>);
}

mod under_sentinels {
    use super::*;
    engine_conformance!(OnRedis<UnderSentinels>);
    engine_conformance!(downtimes OnRedis<UnderSentinels>);
}

mod clustered {
    use super::*;
    engine_conformance!(OnRedis<Clustered>);
    engine_conformance!(downtimes OnRedis<Clustered>);
}

mod valkey {
    use super::*;
    engine_conformance!(OnRedis<OnValkey>);
    engine_conformance!(downtimes OnRedis<OnValkey>);
}

mod valkey_cluster {
    use super::*;
    engine_conformance!(OnRedis<ValkeyCluster>);
    engine_conformance!(downtimes OnRedis<ValkeyCluster>);
}
