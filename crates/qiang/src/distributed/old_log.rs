//! The log of a Redis that the ledger leaves: entries of it that the ledger lacks would never be settled.

use anyhow::{Context as _, ensure};
use qiang_core::ports::{EngineBinding, Ledger};
use qiang_redis::{RedisOptions, Topology, log_ends};

/// How a move treats the log of the Redis that the ledger leaves.
#[derive(Debug, Clone, Default)]
pub struct OldLog {
    /// URLs of that Redis; none for the recorded location, with the login of the configuration.
    pub urls: Vec<String>,
    /// Whether entries that the ledger lacks are left behind. The log is not read then.
    pub leave: bool,
}

/// Checks that the ledger has all entries of the Redis that it leaves.
///
/// # Errors
/// If it lacks some, if a partition has lost its state, or if the log cannot be read.
pub(crate) async fn check(
    ledger: &dyn Ledger,
    bound: &EngineBinding,
    options: &RedisOptions,
    old: &OldLog,
) -> anyhow::Result<()> {
    // An engine that no process ever saw has no log.
    if old.leave || bound.beats == 0 {
        return Ok(());
    }
    let options = options_of(&bound.location, options, &old.urls);
    let ends = match log_ends(options.clone()).await {
        // The location does not tell a server from a Cluster.
        Err(_) if options.topology == Topology::Standalone => {
            log_ends(RedisOptions {
                topology: Topology::Cluster,
                ..options
            })
            .await
        }
        Err(_) if options.topology == Topology::Cluster => {
            log_ends(RedisOptions {
                topology: Topology::Standalone,
                ..options
            })
            .await
        }
        ends => ends,
    };
    let unreadable = || {
        format!(
            "the log of the Redis at {} cannot be read: name its servers with --old-url, or leave behind with --leave \
             what the ledger lacks of it",
            bound.location
        )
    };
    let (mut lacking, mut partitions, mut lost) = (0, Vec::new(), Vec::new());
    for (partition, end) in ends.with_context(unreadable)? {
        let settled = ledger.settled(partition).await?;
        let Some(end) = end else {
            lost.push(partition.0.to_string());
            continue;
        };
        let unsettled = end.saturating_sub(settled);
        if unsettled > 0 {
            lacking += unsettled;
            partitions.push(partition.0.to_string());
        }
    }
    ensure!(
        lacking == 0,
        "the ledger lacks {lacking} entries of the Redis at {}, in partitions {}: start a node or worker with the old \
         configuration and stop it with SIGTERM, which settles them, or leave them behind with --leave",
        bound.location,
        partitions.join(", ")
    );
    // A node gives each partition a state, so its entries were lost with it.
    ensure!(
        lost.is_empty(),
        "the Redis at {} has no state of partitions {}: start a node with the old configuration, which repairs them, \
         and stop it with SIGTERM, or leave behind with --leave what the ledger lacks of them",
        bound.location,
        lost.join(", ")
    );
    Ok(())
}

/// Options of the Redis at a location, see `location_of`.
fn options_of(location: &str, options: &RedisOptions, urls: &[String]) -> RedisOptions {
    let (prefix, rest) = location.rsplit_once('@').unwrap_or(("", location));
    let (rest, database) = match rest.rsplit_once('/') {
        Some((before, number)) => match number.parse() {
            Ok(number) => (before, number),
            Err(_) => (rest, 0),
        },
        None => (rest, 0),
    };
    let (places, master) = match rest.rsplit_once('#') {
        Some((places, master)) => (places, Some(master.to_owned())),
        None => (rest, None),
    };
    let first = options.urls.first();
    let is_tls = first.is_some_and(|url| url.starts_with("rediss://"));
    let scheme = if is_tls { "rediss" } else { "redis" };
    let url = |place: &str| format!("{scheme}://{place}");
    let topology = match (master, &options.topology) {
        (Some(master), _) => Topology::Sentinel { master },
        (None, Topology::Cluster) => Topology::Cluster,
        (None, _) => Topology::Standalone,
    };
    RedisOptions {
        prefix: prefix.to_owned(),
        urls: match urls.is_empty() {
            true => places.split(',').map(url).collect(),
            false => urls.to_vec(),
        },
        database,
        topology,
        read_urls: Vec::new(),
        ..options.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_gives_the_options() {
        let check = |location: &str, prefix: &str, urls: &[&str], database: i64| {
            let options = options_of(location, &RedisOptions::default(), &[]);
            assert_eq!(options.prefix, prefix);
            assert_eq!(options.urls, urls);
            assert_eq!(options.database, database);
            options.topology
        };
        check("qiang@redis:6379", "qiang", &["redis://redis:6379"], 0);
        check("a@b@r:1,s:2/3", "a@b", &["redis://r:1", "redis://s:2"], 3);
        let topology = check("q@s:26379#m", "q", &["redis://s:26379"], 0);
        let master = "m".to_owned();
        assert_eq!(topology, Topology::Sentinel { master });
    }
}
