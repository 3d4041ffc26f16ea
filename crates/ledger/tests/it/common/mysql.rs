//! MySQL or MariaDB for the conformance suite: a server that is started, or one that the environment names.

use std::{
    env,
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
};

use sqlx::Connection as _;

use super::{Databases, MariaDb, Server as _};

/// URL of a server, with a user who may create databases. Each case creates one, and drops it at its end.
const URL: &str = "QIANG_TEST_MYSQL_URL";

/// The server of [`URL`], or a MariaDB of the test.
pub(crate) enum MySql {
    Named(NamedServer),
    Started(MariaDb),
}

/// A server that other programs started.
pub(crate) struct NamedServer {
    /// URL without a database, and what follows the database's name in it.
    url: (String, String),
    created: Mutex<Vec<String>>,
}

impl NamedServer {
    fn from_env() -> Option<Self> {
        let url = env::var(URL).ok().filter(|url| !url.is_empty())?;
        let (scheme, rest) = url.split_once("://").expect("a URL has a scheme");
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let server = place.split('/').next().unwrap_or(place);
        let query = match query {
            "" => String::new(),
            query => format!("?{query}"),
        };
        Some(Self {
            url: (format!("{scheme}://{server}/"), query),
            created: Mutex::default(),
        })
    }

    fn url_of(&self, database: &str) -> String {
        format!("{}{database}{}", self.url.0, self.url.1)
    }

    /// Creates a database with a random name.
    fn create(&self) -> String {
        let name = format!("qiang_test_{:016x}", RandomState::new().hash_one(0));
        self.run(format!("CREATE DATABASE {name} CHARACTER SET utf8mb4"));
        let url = self.url_of(&name);
        let mut created = self.created.lock().unwrap_or_else(PoisonError::into_inner);
        created.push(name);
        url
    }

    /// Runs a statement on a thread of its own, because the callers do not wait.
    fn run(&self, sql: String) {
        let url = self.url_of("");
        let work = async move {
            let mut conn = sqlx::MySqlConnection::connect(&url).await?;
            sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
                .execute(&mut conn)
                .await?;
            conn.close().await
        };
        let runtime = || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().expect("a runtime")
        };
        let done = thread::spawn(move || runtime().block_on(work)).join();
        done.expect("no panic")
            .unwrap_or_else(|error| panic!("{URL}: {error}"));
    }
}

impl Drop for NamedServer {
    fn drop(&mut self) {
        let created = self.created.get_mut();
        for name in std::mem::take(created.unwrap_or_else(PoisonError::into_inner)) {
            self.run(format!("DROP DATABASE {name}"));
        }
    }
}

impl Databases for MySql {
    fn empty(&self) -> String {
        match self {
            Self::Named(server) => server.create(),
            Self::Started(server) => server.create_database(),
        }
    }

    fn counts(url: &str, queries: &[&'static str]) -> impl Future<Output = Vec<i64>> + Send {
        MariaDb::counts(url, queries)
    }

    fn shared() -> Arc<Self> {
        static SHARED: Mutex<Weak<MySql>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let started = || Self::Started(MariaDb::start_with(MariaDb::QUICK));
            let server = NamedServer::from_env().map_or_else(started, Self::Named);
            let server = Arc::new(server);
            *shared = Arc::downgrade(&server);
            server
        })
    }
}
