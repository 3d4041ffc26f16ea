//! Repairs from every ledger: in a file, in PostgreSQL and in MariaDB. Redis loses all its data, and the node that
//! answered requests is gone too.

mod keys;
mod world;

macro_rules! on_every_ledger {
    ($($case:path as $name:ident;)*) => {
        on_every_ledger! { @ into_a_file InFile $($case as $name;)* }
        on_every_ledger! { @ into_postgres InPostgres $($case as $name;)* }
        on_every_ledger! { @ into_mariadb InMariaDb $($case as $name;)* }
    };
    (@ $module:ident $ledger:ident $($case:path as $name:ident;)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $case(crate::node::repairs::world::World::new::<crate::node::ledgers::$ledger>().await).await;
            })*
        }
    };
}

on_every_ledger! {
    super::keys::a_retry_gets_its_order_after_redis_was_lost as a_retry_gets_its_order_after_redis_was_lost;
}
