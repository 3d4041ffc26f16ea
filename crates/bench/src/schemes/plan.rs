//! Plan from the command line: schemes, servers and loads.

use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use qiang_core::campaign::AckLevel;

use super::{
    counter, deduct,
    load::{self, Load, Users},
    lock::{self, Lock, Version},
    qiang, queue,
    row_lock::{self, Database},
    scheme::{About, Scheme, Site, on_redis},
    unlocked,
    wire::Server,
};
use ::qiang::UsageError;

/// Compare schemes.
#[derive(Debug, clap::Args)]
pub(crate) struct SchemesArgs {
    /// Redis to use, such as redis://127.0.0.1:6400.
    #[arg(long, value_name = "URL")]
    pub(super) redis: Option<String>,
    /// Database for row_lock: postgres://… or mysql://… The benchmark creates two tables there and drops them.
    #[arg(long, value_name = "URL")]
    pub(super) sql: Option<String>,
    /// Allow servers on other machines.
    #[arg(long)]
    pub(super) anywhere: bool,
    /// Run only this scheme; repeatable. By default all except lock_printed and embedded; row_lock needs --sql.
    #[arg(long, value_enum, value_name = "NAME")]
    pub(super) scheme: Vec<Name>,
    /// Run the rush: 10,000 users who all wait at once for 100 shares. Without --rush and --drain, both run.
    #[arg(long)]
    pub(super) rush: bool,
    /// Run the drain: 100,000 shares for users of whom 2,000 wait at a time.
    #[arg(long)]
    pub(super) drain: bool,
    /// Users of the load [default: 10,000 in the rush; shares plus waiting users in the drain].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(super) users: Option<u32>,
    /// Shares [default: 100 in the rush, 100,000 in the drain].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(super) shares: Option<u32>,
    /// Users who wait at a time [default: all in the rush, 2,000 in the drain].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=5_000_000))]
    pub(super) waiting: Option<u32>,
    /// Every Nth user clicks twice; 0 for none [default: 10 in the rush, 0 in the drain].
    #[arg(long, value_name = "N")]
    pub(super) twice: Option<u32>,
    /// Connections of each scheme.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(super) connections: u32,
    /// Partitions over which qiang spreads its packet.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(super) partitions: u16,
    /// Acknowledgement level of the scheme qiang: memory, or replica on a Redis with replicas.
    #[arg(long, value_name = "LEVEL", default_value = "memory", value_parser = ["memory", "replica"])]
    pub(super) ack: String,
    /// Runs of each scheme, in turn; the report has medians.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(super) repeat: u32,
    /// Print one JSON object.
    #[arg(long)]
    pub(super) json: bool,
    /// Draw the result to this file as SVG.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
}

/// Names of schemes, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(super) enum Name {
    /// Shares in a list, taken by EVAL.
    Queue,
    /// A hash of Total and Booked by EVALSHA, orders through a list.
    Counter,
    /// Check and deduct, with a status key, a queue and a rollback.
    Deduct,
    /// A lock for each user around a counter and a set.
    Lock,
    /// The same in its first version, without the guard: it oversells.
    LockPrinted,
    /// Read, then decrement: it oversells.
    Unlocked,
    /// UPDATE … WHERE stock > 0 in a database.
    RowLock,
    /// Qiang: a batch of claims per call.
    Qiang,
    /// Qiang without Redis, every grant on the disk.
    Embedded,
}

impl Name {
    pub(super) fn about(self) -> &'static About {
        match self {
            Self::Queue => &queue::ABOUT,
            Self::Counter => &counter::ABOUT,
            Self::Deduct => &deduct::ABOUT,
            Self::Lock => &lock::ABOUT,
            Self::LockPrinted => &lock::ABOUT_PRINTED,
            Self::Unlocked => &unlocked::ABOUT,
            Self::RowLock => &row_lock::ABOUT,
            Self::Qiang => &qiang::ABOUT,
            Self::Embedded => &qiang::ABOUT_EMBEDDED,
        }
    }

    /// Schemes that run by default.
    fn usual(sql: bool) -> Vec<Self> {
        let mut names = vec![
            Self::Queue,
            Self::Counter,
            Self::Deduct,
            Self::Lock,
            Self::Unlocked,
        ];
        if sql {
            names.push(Self::RowLock);
        }
        names.push(Self::Qiang);
        names
    }
}

pub(super) struct Plan {
    pub(super) names: Vec<Name>,
    pub(super) loads: Vec<Load>,
    pub(super) server: Option<Server>,
    pub(super) database: Option<Database>,
    url: Option<String>,
    partitions: u16,
    ack: AckLevel,
}

impl Plan {
    pub(super) fn new(args: &SchemesArgs) -> anyhow::Result<Self> {
        let mut names = Vec::new();
        for name in &args.scheme {
            if !names.contains(name) {
                names.push(*name);
            }
        }
        if names.is_empty() {
            names = Name::usual(args.sql.is_some());
        }
        let server = args
            .redis
            .as_deref()
            .map(|url| Server::new(url, args.anywhere))
            .transpose()?;
        let database = args
            .sql
            .as_deref()
            .map(|url| Database::new(url, args.anywhere))
            .transpose()?;
        ensure!(
            server.is_some() || !names.iter().any(|name| name.about().on_redis),
            UsageError::new(
                "--redis is missing: start a Redis, such as `redis-server --port 6400 --save ''`, and add --redis \
                 redis://127.0.0.1:6400"
            )
        );
        ensure!(
            database.is_some() || !names.contains(&Name::RowLock),
            UsageError::new("row_lock needs a database: add --sql postgres://… or mysql://…")
        );
        Ok(Self {
            names,
            loads: loads(args)?,
            server,
            database,
            url: args.redis.clone(),
            partitions: args.partitions,
            ack: args.ack.parse()?,
        })
    }

    pub(super) async fn build(&self, name: Name) -> anyhow::Result<Box<dyn Scheme>> {
        let random = format!("{:016x}", rand::random::<u64>());
        let site = || {
            let server = self.server.clone().context("no Redis")?;
            let prefix = format!("qiang-bench:{random}:");
            Ok::<_, anyhow::Error>(Site { server, prefix })
        };
        Ok(match name {
            Name::Queue => on_redis(site()?, queue::Queue::new),
            Name::Counter => on_redis(site()?, counter::Counter::new),
            Name::Deduct => on_redis(site()?, deduct::Deduct::new),
            Name::Lock => on_redis(site()?, |site| Lock::new(site, Version::Guarded)),
            Name::LockPrinted => on_redis(site()?, |site| Lock::new(site, Version::Printed)),
            Name::Unlocked => on_redis(site()?, unlocked::Unlocked::new),
            Name::RowLock => {
                let database = self.database.clone().context("no database")?;
                Box::new(row_lock::RowLock::new(database, &random))
            }
            Name::Qiang => {
                let url = self.url.as_deref().context("no Redis")?;
                Box::new(qiang::Qiang::redis(url, &site()?, self.partitions, self.ack).await?)
            }
            Name::Embedded => Box::new(qiang::Qiang::embedded()?),
        })
    }
}

fn loads(args: &SchemesArgs) -> anyhow::Result<Vec<Load>> {
    let both = args.rush == args.drain;
    ensure!(
        !both || (args.users, args.shares, args.waiting) == (None, None, None),
        UsageError::new("--users, --shares and --waiting apply to one load: add --rush or --drain")
    );
    let mut loads = Vec::new();
    if both || args.rush {
        let users = args.users.unwrap_or(10_000);
        loads.push(Load {
            load: load::Name::Rush,
            users,
            shares: args.shares.unwrap_or(100),
            waiting: args.waiting.unwrap_or(users),
            connections: args.connections,
            twice_every: args.twice.unwrap_or(10),
        });
    }
    if both || args.drain {
        let shares = args.shares.unwrap_or(100_000);
        let waiting = args.waiting.unwrap_or(2_000);
        loads.push(Load {
            load: load::Name::Drain,
            users: args.users.unwrap_or(shares + waiting),
            shares,
            waiting,
            connections: args.connections,
            twice_every: args.twice.unwrap_or(0),
        });
    }
    for load in &mut loads {
        let clicks = Users::new(load).claims();
        if load.load == load::Name::Rush && args.waiting.is_none() {
            // All at once, including second clicks.
            load.waiting = u32::try_from(clicks)?;
        }
        ensure!(
            load.waiting >= load.connections,
            UsageError::new("--connections: more connections than users waiting at a time")
        );
    }
    Ok(loads)
}

#[cfg(test)]
pub(super) mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: SchemesArgs,
    }

    pub(in super::super) fn plan(line: &str) -> anyhow::Result<Plan> {
        let words = std::iter::once("schemes").chain(line.split_whitespace());
        Plan::new(&Program::try_parse_from(words)?.args)
    }

    /// Expects a refusal with this hint.
    fn refuse(line: &str, hint: &str) {
        let error = plan(line).err().unwrap();
        assert!(error.is::<UsageError>(), "{error:#}");
        assert!(error.to_string().contains(hint), "{error}");
    }

    const REDIS: &str = "--redis redis://127.0.0.1:6400";

    #[test]
    fn the_loads_are_the_articles() {
        let plan = plan(REDIS).unwrap();
        let [rush, drain] = plan.loads[..] else {
            panic!("not two loads");
        };
        assert_eq!(
            (rush.users, rush.shares, rush.twice_every),
            (10_000, 100, 10)
        );
        assert_eq!((rush.waiting, rush.connections), (11_000, 20));
        assert_eq!(
            (drain.users, drain.shares, drain.twice_every),
            (102_000, 100_000, 0)
        );
        assert_eq!((drain.waiting, drain.connections), (2_000, 20));
        assert_eq!(plan.names, Name::usual(false));
    }

    #[test]
    fn figures_can_be_changed() {
        let plan = plan(&format!(
            "{REDIS} --drain --shares 5 --waiting 7 --connections 3 --scheme lock --scheme queue --scheme lock"
        ))
        .unwrap();
        assert_eq!(plan.loads.len(), 1);
        let drain = plan.loads[0];
        assert_eq!((drain.users, drain.shares, drain.waiting), (12, 5, 7));
        assert_eq!(plan.names, [Name::Lock, Name::Queue]);
    }

    #[test]
    fn says_what_is_missing() {
        refuse("", "redis-server --port");
        refuse("--redis redis://192.0.2.1", "--anywhere");
        refuse(&format!("{REDIS} --scheme row_lock"), "--sql");
        refuse(&format!("{REDIS} --users 9"), "--rush or --drain");
        refuse(&format!("{REDIS} --rush --users 9"), "--connections");
        assert!(plan("--sql postgres://u@127.0.0.1/b --scheme row_lock").is_ok());
        assert!(plan("--scheme embedded").is_ok());
    }
}
