//! Work and memory of Redis, from `INFO`.

use anyhow::Context as _;
use redis::aio::MultiplexedConnection;

pub(super) struct Server {
    connection: MultiplexedConnection,
}

/// Work of Redis so far.
pub(super) struct Work {
    pub(super) cpu_seconds: f64,
    /// Number of script calls.
    pub(super) calls: u64,
}

impl Server {
    pub(super) async fn connect(url: &str) -> anyhow::Result<Self> {
        let client = redis::Client::open(url).context("--redis")?;
        let connection = client.get_multiplexed_async_connection().await?;
        Ok(Self { connection })
    }

    pub(super) async fn work(&mut self) -> anyhow::Result<Work> {
        let (cpu, stats) = (self.info("cpu").await?, self.info("commandstats").await?);
        let scripts = ["cmdstat_evalsha:", "cmdstat_eval:"];
        let calls = scripts.iter().filter_map(|name| {
            let stats = stats.lines().find_map(|line| line.strip_prefix(name))?;
            number(stats.split(',').next()?, "calls=")
        });
        let seconds = |name| number(&cpu, name).context("the reply to INFO has no CPU time");
        Ok(Work {
            cpu_seconds: seconds("used_cpu_user:")? + seconds("used_cpu_sys:")?,
            calls: calls.sum::<f64>() as u64,
        })
    }

    pub(super) async fn used_bytes(&mut self) -> anyhow::Result<f64> {
        let memory = self.info("memory").await?;
        number(&memory, "used_memory:").context("the reply to INFO has no used memory")
    }

    async fn info(&mut self, section: &str) -> anyhow::Result<String> {
        let mut info = redis::cmd("INFO");
        Ok(info.arg(section).query_async(&mut self.connection).await?)
    }
}

/// Number after a name at the beginning of a line.
fn number(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.trim_end().parse().ok()
}
