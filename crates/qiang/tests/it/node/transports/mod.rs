//! The suite that all transports pass, on every combination of transport and ledger. The log is on Redis. The ledger is
//! in a file, in PostgreSQL or in MariaDB.
//!
//! Cases share servers, and each case has its own keys, queues and database. Cases that kill servers have their own
//! servers. RabbitMQ takes seconds to start, so such a case passes its server on to the next one.

mod copies;
mod on_rabbit;
mod on_redis;
mod rabbit_mistakes;
mod rabbit_only;
mod redis_only;
mod worker;

macro_rules! on_every_ledger {
    ($($transport:ident: $subject:ident;)*) => {
        $(mod $transport {
            mod into_a_file {
                qiang_testkit::transport_conformance!(super::super::$subject<crate::node::ledgers::InFile>);
            }

            mod into_postgres {
                qiang_testkit::transport_conformance!(super::super::$subject<crate::node::ledgers::InPostgres>);
            }

            mod into_mariadb {
                qiang_testkit::transport_conformance!(super::super::$subject<crate::node::ledgers::InMariaDb>);
            }
        })*
    };
}

use crate::node::transports::{
    on_rabbit::OnRabbit,
    on_redis::{List, Stream},
};

on_every_ledger! {
    stream: Stream;
    list: List;
    rabbitmq: OnRabbit;
}
