//! Pool of servers that cells use one after another. A cell uses its server alone, because it may kill it.

use std::{
    ops::Deref,
    sync::{Mutex, MutexGuard, PoisonError},
};

use qiang_testkit::servers::{
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    rabbitmq::RabbitMq,
};

/// Servers that no cell uses now.
pub(crate) struct Pool<T: 'static>(Mutex<Vec<T>>);

static POSTGRES: Pool<Postgres> = Pool(Mutex::new(Vec::new()));
static MARIADB: Pool<MariaDb> = Pool(Mutex::new(Vec::new()));
static RABBITMQ: Pool<RabbitMq> = Pool(Mutex::new(Vec::new()));

/// Lends a PostgreSQL that syncs commits, as in production.
pub(crate) fn postgres() -> Lent<Postgres> {
    POSTGRES.lend(|| Postgres::start(&postgres::Options::new()))
}

pub(crate) fn mariadb() -> Lent<MariaDb> {
    MARIADB.lend(|| MariaDb::start(&mariadb::Options::new()))
}

pub(crate) fn rabbitmq() -> Lent<RabbitMq> {
    RABBITMQ.lend(RabbitMq::start)
}

impl<T> Pool<T> {
    fn idle(&self) -> MutexGuard<'_, Vec<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&'static self, start: impl FnOnce() -> T) -> Lent<T> {
        let idle = self.idle().pop();
        let server = Some(idle.unwrap_or_else(start));
        Lent { server, pool: self }
    }
}

/// Server that a cell uses alone. It returns to the pool, unless the cell fails.
pub(crate) struct Lent<T: 'static> {
    server: Option<T>,
    pool: &'static Pool<T>,
}

impl<T> Deref for Lent<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.server
            .as_ref()
            .expect("the server is present until the drop")
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(server) = self.server.take()
            && !std::thread::panicking()
        {
            self.pool.idle().push(server);
        }
    }
}
