//! The suite that all engines pass, on Redis with PostgreSQL and with MariaDB, and with settlement running. Cases set
//! the time.

mod over_transports;
mod subject;

use std::sync::OnceLock;

use qiang_redis::RedisOptions;
use qiang_testkit::{
    engine_conformance,
    servers::redis::{Options as ServerOptions, Standalone},
};

use crate::node::conformance::subject::{OnRedis, Place};
use crate::node::ledgers::{InMariaDb, InPostgres};

/// One server with four partitions.
struct Alone;

fn alone() -> &'static Standalone {
    static SERVER: OnceLock<Standalone> = OnceLock::new();
    SERVER.get_or_init(|| Standalone::start(&ServerOptions::new()))
}

impl Place for Alone {
    fn options() -> RedisOptions {
        RedisOptions {
            urls: vec![alone().url()],
            partitions: 4,
            ..RedisOptions::default()
        }
    }
}

/// The same server. Each campaign of two units or more is spread over three partitions.
struct Spread;

impl Place for Spread {
    fn options() -> RedisOptions {
        RedisOptions {
            shard_supply_min: 2,
            shards_max: 3,
            ..Alone::options()
        }
    }
}

mod into_postgres {
    use super::*;
    engine_conformance!(OnRedis<Spread, InPostgres>);
}

mod into_mariadb {
    use super::*;
    engine_conformance!(OnRedis<Spread, InMariaDb>);
}
