//! Conformance suite of engines, on Redis and Valkey.
//!
//! Redis runs as one server, with campaigns spread over partitions, with Sentinels, and as a Cluster. Valkey runs as
//! one server with a replica that grants wait for, and as a Cluster. Each engine has an SQLite ledger. Cases set the
//! clock.

mod subject;

use std::{sync::OnceLock, time::Duration};

use qiang_redis::{RedisOptions, Topology};
use qiang_testkit::{
    engine_conformance,
    servers::redis::{Cluster, Options as ServerOptions, SentinelSet, Server, Standalone},
};

use crate::conformance::subject::{OnRedis, Servers};

/// One server with four partitions.
struct Alone;

fn server() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

impl Servers for Alone {
    fn options() -> RedisOptions {
        RedisOptions {
            urls: vec![server().url()],
            partitions: 4,
            ..RedisOptions::default()
        }
    }
}

/// The same, with every campaign of two or more units spread over three partitions.
struct Spread;

impl Servers for Spread {
    fn options() -> RedisOptions {
        RedisOptions {
            shard_supply_min: 2,
            shards_max: 3,
            ..Alone::options()
        }
    }
}

/// A primary with two replicas, watched by Sentinels. Grants wait for a replica.
struct UnderSentinels;

impl Servers for UnderSentinels {
    fn options() -> RedisOptions {
        static SERVERS: OnceLock<SentinelSet> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| SentinelSet::start(&ServerOptions::new()));
        RedisOptions {
            urls: servers.sentinel_urls(),
            topology: Topology::Sentinel {
                master: servers.master_name().to_owned(),
            },
            partitions: 2,
            replicas: 1,
            ..RedisOptions::default()
        }
    }
}

/// Three primaries with one replica each.
struct Clustered;

impl Servers for Clustered {
    fn options() -> RedisOptions {
        static SERVERS: OnceLock<Cluster> = OnceLock::new();
        let servers = SERVERS.get_or_init(|| Cluster::start(&ServerOptions::new()));
        RedisOptions {
            urls: servers.urls(),
            topology: Topology::Cluster,
            partitions: 8,
            replicas: 1,
            ..RedisOptions::default()
        }
    }
}

/// One Valkey server with a replica. Every campaign of two or more units is spread over two of three partitions.
struct OnValkey;

impl Servers for OnValkey {
    fn options() -> RedisOptions {
        static SERVERS: OnceLock<Standalone> = OnceLock::new();
        let with = ServerOptions::new().valkey().replicas(1);
        let servers = SERVERS.get_or_init(|| Standalone::start(&with));
        RedisOptions {
            urls: vec![servers.url()],
            partitions: 3,
            shard_supply_min: 2,
            shards_max: 2,
            replicas: 1,
            ..RedisOptions::default()
        }
    }
}

/// Three Valkey primaries with one replica each.
struct ValkeyCluster;

impl Servers for ValkeyCluster {
    fn options() -> RedisOptions {
        static SERVERS: OnceLock<Cluster> = OnceLock::new();
        let with = ServerOptions::new().valkey();
        let servers = SERVERS.get_or_init(|| Cluster::start(&with));
        RedisOptions {
            urls: servers.urls(),
            topology: Topology::Cluster,
            partitions: 8,
            replicas: 1,
            ..RedisOptions::default()
        }
    }
}

/// Ended campaigns are evicted as soon as they are settled, and reloaded on a request. Their retention time would never
/// pass on a clock that does not move, so it is skipped.
struct Leaving;

impl Servers for Leaving {
    fn options() -> RedisOptions {
        RedisOptions {
            closed_campaign_ttl: Duration::from_millis(1),
            // Cases read the whole log.
            retain: Duration::from_secs(3_600),
            ..Spread::options()
        }
    }

    fn leave() -> Option<&'static Server> {
        Some(server().primary())
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

mod leaving {
    use qiang_core::{
        book::{CampaignAction, Command},
        campaign::Phase,
    };
    use qiang_testkit::{
        campaign::{Target, sale},
        conformance::Scenario,
    };

    use super::*;

    engine_conformance!(settling OnRedis<Leaving>);
    engine_conformance!(downtimes OnRedis<Leaving>);

    /// Checks that ended campaigns are evicted and reloaded in these cases.
    #[test]
    fn a_campaign_leaves_by_itself() {
        qiang_testkit::conformance::run::<OnRedis<Leaving>>(|case| {
            Box::pin(a_campaign_leaves(case))
        });
    }

    async fn a_campaign_leaves(case: &mut Scenario) {
        // An id that no other case uses.
        while case.next_id() < 4_000 {}
        let target: Target = case.open(sale(5)).await;
        case.granted(target.one("a")).await;
        case.pay(case.nth(target, 1), "p").await;
        case.act(target.id, CampaignAction::Close).await;
        let pattern = format!("case*:c:{}", target.id);
        let is_here = || {
            let keys = server().primary().call(&["KEYS", &pattern]);
            !keys.expect("the server answers").array().is_empty()
        };
        while tokio::task::block_in_place(is_here) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(case.tally(target.id).await.phase, Phase::Closed);
        let campaign = target.id;
        let action = CampaignAction::Close;
        let again = case.submit(Command::Act { campaign, action }).await;
        assert!(again.is_ok(), "{again:?}");
    }
}
