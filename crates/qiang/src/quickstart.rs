//! `qiang quickstart`: writes configuration, secrets and units of one of four set-ups. Asks nothing and starts nothing.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, chown},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};

/// The page with the access list of Redis.
const ACCESS_LIST: &str = include_str!("../../../docs/operate/redis.md");
const NODE_UNIT: &str = include_str!("../../../deploy/systemd/qiang.service");
const WORKER_UNIT: &str = include_str!("../../../deploy/systemd/qiang-worker.service");
const SYSUSERS: &str = include_str!("../../../deploy/systemd/qiang.sysusers.conf");
/// Paths in the shipped files.
const SHIPPED_PROGRAM: &str = "/usr/local/bin/qiang";
const SHIPPED_FOLDER: &str = "/etc/qiang";
/// User of the service.
const USER: &str = "qiang";

/// Servers that a node runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetupKind {
    /// One process on one file.
    Embedded,
    /// A Redis with a replica, PostgreSQL.
    RedisPostgres,
    /// A primary with replicas and Sentinels, PostgreSQL.
    SentinelPostgres,
    /// A Redis Cluster, RabbitMQ, MariaDB; workers settle.
    ClusterMariadbRabbitmq,
}

impl SetupKind {
    /// All set-ups.
    pub const ALL: [Self; 4] = [
        Self::Embedded,
        Self::RedisPostgres,
        Self::SentinelPostgres,
        Self::ClusterMariadbRabbitmq,
    ];

    /// Name on the command line, and of the example.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Embedded => "embedded",
            Self::RedisPostgres => "redis-postgres",
            Self::SentinelPostgres => "sentinel-postgres",
            Self::ClusterMariadbRabbitmq => "cluster-mariadb-rabbitmq",
        }
    }

    const fn example(self) -> &'static str {
        match self {
            Self::Embedded => include_str!("../../../deploy/examples/embedded.toml"),
            Self::RedisPostgres => include_str!("../../../deploy/examples/redis-postgres.toml"),
            Self::SentinelPostgres => {
                include_str!("../../../deploy/examples/sentinel-postgres.toml")
            }
            Self::ClusterMariadbRabbitmq => {
                include_str!("../../../deploy/examples/cluster-mariadb-rabbitmq.toml")
            }
        }
    }

    const fn has_worker(self) -> bool {
        matches!(self, Self::ClusterMariadbRabbitmq)
    }
}

/// Paths that [`write`] uses.
#[derive(Debug)]
pub struct SetupPaths<'p> {
    /// Folder of the configuration.
    pub folder: &'p Path,
    /// Folder of the units.
    pub units: &'p Path,
    /// Path of this program.
    pub program: &'p Path,
}

/// Files that were written, and the next steps.
#[derive(Debug)]
pub struct QuickstartResult {
    /// Their paths.
    pub files: Vec<PathBuf>,
    /// Variables of the environment file, as configuration keys with values.
    pub keys: Vec<(&'static str, String)>,
    /// Commands and edits that are left, in order.
    pub steps: Vec<String>,
}

/// File that is not written yet.
struct NewFile {
    path: PathBuf,
    text: String,
    mode: u32,
    /// Whether the service's user reads it, and not only root.
    is_of_service: bool,
}

/// Writes the files of a set-up.
///
/// # Errors
/// If one of the files exists already: nothing is written then. If a file cannot be written.
pub fn write(setup: SetupKind, paths: &SetupPaths<'_>) -> anyhow::Result<QuickstartResult> {
    let (files, keys) = new_files(setup, paths);
    for file in &files {
        if file.path.symlink_metadata().is_ok() {
            bail!(
                "{} exists already: move it, or name other folders",
                file.path.display()
            );
        }
    }
    for (folder, mode) in [(paths.folder, 0o750), (paths.units, 0o755)] {
        let made = fs::DirBuilder::new()
            .recursive(true)
            .mode(mode)
            .create(folder);
        made.with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let owner = owner(&fs::read_to_string("/etc/passwd").unwrap_or_default());
    if let Some((_, group)) = owner {
        drop(chown(paths.folder, None, Some(group)));
    }
    for file in &files {
        file.write(owner)
            .with_context(|| format!("cannot write {}", file.path.display()))?;
    }
    Ok(QuickstartResult {
        files: files.into_iter().map(|file| file.path).collect(),
        keys,
        steps: steps(setup, paths, owner.is_some()),
    })
}

impl NewFile {
    fn write(&self, owner: Option<(u32, u32)>) -> anyhow::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(self.mode)
            .open(&self.path)?;
        file.write_all(self.text.as_bytes())?;
        file.sync_all()?;
        if let Some((user, group)) = owner.filter(|_| self.is_of_service) {
            // Only root may. The steps say it too.
            drop(chown(&self.path, Some(user), Some(group)));
        }
        Ok(())
    }
}

fn new_files(
    setup: SetupKind,
    paths: &SetupPaths<'_>,
) -> (Vec<NewFile>, Vec<(&'static str, String)>) {
    let folder = paths.folder.display().to_string();
    let localized = |text: &str| {
        let text = text.replace(SHIPPED_PROGRAM, &paths.program.display().to_string());
        text.replace(SHIPPED_FOLDER, &folder)
    };
    let file = |path: PathBuf, text: String, mode| NewFile {
        path,
        text,
        mode,
        is_of_service: false,
    };
    let example = setup.example();
    let mut files = vec![
        NewFile {
            is_of_service: true,
            ..file(paths.folder.join("qiang.toml"), localized(example), 0o640)
        },
        NewFile {
            is_of_service: true,
            ..file(
                paths.folder.join("secret"),
                format!("{}\n", secret()),
                0o600,
            )
        },
        file(
            paths.folder.join("qiang.sysusers.conf"),
            SYSUSERS.to_owned(),
            0o644,
        ),
        file(
            paths.units.join("qiang.service"),
            localized(NODE_UNIT),
            0o644,
        ),
    ];
    if setup.has_worker() {
        files.push(file(
            paths.units.join("qiang-worker.service"),
            localized(WORKER_UNIT),
            0o644,
        ));
    }
    let mut keys = Vec::new();
    if setup != SetupKind::Embedded {
        let passwords = Passwords::new();
        keys = passwords.keys(example);
        let lines = keys.iter().map(|(key, value)| {
            let name = key.replace('.', "__").to_uppercase();
            format!("QIANG__{name}={value}\n")
        });
        files.push(file(
            paths.folder.join("environment"),
            lines.collect(),
            0o600,
        ));
        files.push(file(
            paths.folder.join("servers.txt"),
            passwords.servers(setup),
            0o600,
        ));
    }
    (files, keys)
}

/// Passwords of the servers.
struct Passwords {
    redis: String,
    ledger: String,
    rabbitmq: String,
}

impl Passwords {
    fn new() -> Self {
        Self {
            redis: secret(),
            ledger: secret(),
            rabbitmq: secret(),
        }
    }

    /// Secret keys of the configuration. URLs are those of the example, with passwords.
    fn keys(&self, example: &str) -> Vec<(&'static str, String)> {
        let url = |key: &str, password: &str| {
            let line = example
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            let url = line?.trim_end_matches('"');
            Some(url.replace(&format!("://{USER}@"), &format!("://{USER}:{password}@")))
        };
        let keys = [
            ("redis.password", Some(self.redis.clone())),
            ("ledger.url", url("url", &self.ledger)),
            (
                "settlement.rabbitmq_url",
                url("rabbitmq_url", &self.rabbitmq),
            ),
        ];
        keys.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .collect()
    }

    /// Commands that set the servers up with these passwords.
    fn servers(&self, setup: SetupKind) -> String {
        let (redis, ledger, rabbitmq) = (&self.redis, &self.ledger, &self.rabbitmq);
        let mut text = format!(
            "# Commands for your servers. Remove this file afterwards.\n\n\
             # Each Redis server, by redis-cli. Then ACL SAVE or CONFIG REWRITE.\n{}\n",
            access_list(redis)
        );
        text += &match setup {
            SetupKind::Embedded => String::new(),
            SetupKind::RedisPostgres | SetupKind::SentinelPostgres => format!(
                "\n# PostgreSQL, by psql.\n\
                 CREATE ROLE {USER} LOGIN PASSWORD '{ledger}';\nCREATE DATABASE {USER} OWNER {USER};\n"
            ),
            SetupKind::ClusterMariadbRabbitmq => format!(
                "\n# MariaDB, by mariadb.\n\
                 CREATE DATABASE {USER};\nCREATE USER '{USER}'@'%' IDENTIFIED BY '{ledger}';\n\
                 GRANT ALL ON {USER}.* TO '{USER}'@'%';\n\n\
                 # RabbitMQ, in a shell.\n\
                 rabbitmqctl add_user {USER} {rabbitmq}\n\
                 rabbitmqctl set_permissions {USER} '.*' '.*' '.*'\n"
            ),
        };
        text
    }
}

/// `ACL SETUSER` with the rules of docs/operate/redis.md, the default prefix, and what `qiang audit --redis` calls.
fn access_list(password: &str) -> String {
    let lines = ACCESS_LIST
        .lines()
        .skip_while(|line| !line.starts_with("user qiang "));
    let rules: Vec<&str> = lines.take_while(|line| !line.starts_with("```")).collect();
    let rules = rules
        .join(" ")
        .replace('\\', " ")
        .replace("PASSWORD", password);
    let rules = rules.replace("~P:", "~qiang:").replace("&P:", "&qiang:");
    let words: Vec<&str> = rules.split_whitespace().skip(1).collect();
    format!("ACL SETUSER {} +multi +exec", words.join(" "))
}

/// 256 random bits.
fn secret() -> String {
    hex::encode(rand::random::<[u8; 32]>())
}

/// User and group of the service in the text of /etc/passwd.
fn owner(passwd: &str) -> Option<(u32, u32)> {
    let line = passwd
        .lines()
        .find_map(|line| line.strip_prefix(&format!("{USER}:")))?;
    let mut fields = line.split(':').skip(1);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn steps(setup: SetupKind, paths: &SetupPaths<'_>, has_user: bool) -> Vec<String> {
    let folder = paths.folder.display();
    let mut steps = Vec::new();
    if !has_user {
        steps.push(format!("systemd-sysusers {folder}/qiang.sysusers.conf"));
        steps.push(format!(
            "chgrp {USER} {folder} {folder}/qiang.toml && chown {USER}: {folder}/secret"
        ));
    }
    if setup != SetupKind::Embedded {
        steps.push(format!(
            "edit {folder}/qiang.toml and {folder}/environment: the names of your servers"
        ));
        steps.push(format!(
            "run the commands of {folder}/servers.txt at your servers, and remove the file"
        ));
        steps.push(format!(
            "set -a; . {folder}/environment; set +a; qiang migrate --config {folder}/qiang.toml"
        ));
    }
    steps.push(format!("qiang doctor --config {folder}/qiang.toml"));
    let worker = if setup.has_worker() {
        " qiang-worker"
    } else {
        ""
    };
    steps.push(format!(
        "systemctl daemon-reload && systemctl enable --now qiang{worker}"
    ));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_the_services_user() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nqiangs:x:1:1::/:\nqiang:x:998:997:Qiang:/:/bin/false\n";
        assert_eq!(owner(passwd), Some((998, 997)));
        assert_eq!(owner("root:x:0:0::/:\n"), None);
    }

    #[test]
    fn the_access_list_is_one_command_with_the_password() {
        let line = access_list("geheim");
        assert!(
            line.starts_with(
                "ACL SETUSER qiang on >geheim ~qiang:* &qiang:*:agenda:news -@all +eval "
            ),
            "{line}"
        );
        assert!(
            line.ends_with("+xinfo|groups +multi +exec") && !line.contains(['\n', '\\']),
            "{line}"
        );
    }

    #[test]
    fn urls_get_passwords_of_their_own() {
        let passwords = Passwords::new();
        let keys = passwords.keys(SetupKind::ClusterMariadbRabbitmq.example());
        let names: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
        assert_eq!(
            names,
            ["redis.password", "ledger.url", "settlement.rabbitmq_url"]
        );
        let expected = format!(
            "mariadb://qiang:{}@mariadb.internal/qiang",
            passwords.ledger
        );
        assert_eq!(keys[1].1, expected);
        assert!(passwords.redis != passwords.ledger && passwords.ledger != passwords.rabbitmq);
    }
}
