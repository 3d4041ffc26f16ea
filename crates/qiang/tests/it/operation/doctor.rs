//! `qiang doctor` finds what is wrong with real servers, and `qiang quickstart` writes set-ups that it finds well.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use qiang_testkit::servers::{
    postgres::{self, Postgres},
    redis::{Cluster, Options, SentinelSet, Standalone},
};
use tempfile::TempDir;
use tokio::task::block_in_place;

use crate::common::{SECRET, output};
use crate::operation::{maintenance::Ended, program::Program};

/// A configuration, as variables, that can be changed by one key at a time.
struct Patient {
    folder: TempDir,
    keys: Vec<(String, String)>,
}

impl Patient {
    fn new(keys: &[(&str, &str)]) -> Self {
        let usual = [
            ("auth.hs256_secret", SECRET),
            // The limits of this machine's shell do not count.
            ("server.connections_max", "100"),
            // No node runs.
            ("admin.listen", ""),
        ];
        let mut patient = Self {
            folder: tempfile::tempdir().unwrap(),
            keys: Vec::new(),
        };
        for (key, value) in usual.iter().chain(keys) {
            patient.keys.push(((*key).to_owned(), (*value).to_owned()));
        }
        patient
    }

    /// A node on a Redis.
    fn on_redis(url: &str, keys: &[(&str, &str)]) -> Self {
        let redis = [("engine.kind", "redis"), ("redis.urls", url)];
        Self::new(&[&redis[..], keys].concat())
    }

    /// The command's result with further keys.
    fn examined(&self, keys: &[(&str, &str)]) -> Ended {
        let name = |key: &str| format!("QIANG__{}", key.replace('.', "__").to_uppercase());
        let own = self
            .keys
            .iter()
            .map(|(key, value)| (name(key), value.clone()));
        let more = keys
            .iter()
            .map(|(key, value)| (name(key), (*value).to_owned()));
        let env: Vec<(String, String)> = own.chain(more).collect();
        let env: Vec<(&str, &str)> = env.iter().map(|(key, value)| (&**key, &**value)).collect();
        Ended::of(output(self.folder.path(), &["doctor"], &env))
    }

    /// Expects that nothing is wrong.
    fn is_well(&self, keys: &[(&str, &str)]) {
        let ended = self.examined(keys);
        assert_eq!(ended.code, Some(0), "{}{}", ended.printed, ended.said);
        assert!(!ended.printed.contains("wrong:"), "{}", ended.printed);
    }

    /// Expects one wrong line with these words.
    fn lacks(&self, keys: &[(&str, &str)], words: &[&str]) {
        let ended = self.examined(keys);
        assert_eq!(ended.code, Some(1), "{}{}", ended.printed, ended.said);
        let wrong: Vec<&str> = ended
            .printed
            .lines()
            .filter(|line| line.starts_with("wrong: "))
            .collect();
        assert_eq!(wrong.len(), 1, "{}", ended.printed);
        for word in words {
            assert!(wrong[0].contains(word), "{word}: {}", wrong[0]);
        }
    }
}

#[test]
fn an_embedded_node_needs_a_folder_a_secret_and_files() {
    let patient = Patient::new(&[]);
    patient.is_well(&[]);
    patient.lacks(
        &[("engine.data", "none/qiang.db")],
        &["no folder none", "create it"],
    );
    patient.lacks(&[("log.level", "loud=?")], &["configuration", "log.level"]);
    patient.lacks(
        &[("server.listen", "here")],
        &["configuration", "server.listen"],
    );
    patient.lacks(
        &[("server.connections_max", "4000000000")],
        &["may open", "LimitNOFILE"],
    );
    let secret = patient.folder.path().join("secret");
    fs::write(&secret, SECRET).unwrap();
    let open = [
        ("auth.hs256_secret", ""),
        ("auth.hs256_secret_file", secret.to_str().unwrap()),
    ];
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).unwrap();
    patient.lacks(&open, &["every user", "chmod o="]);
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o640)).unwrap();
    patient.is_well(&open);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_not_ready_is_found() {
    let patient = Patient::new(&[]);
    let node = Program::serve(patient.folder.path(), &[]);
    node.ready(200).await;
    let listen = node.addr().await.to_string();
    let keys = [
        ("admin.listen", "server"),
        ("server.listen", listen.as_str()),
    ];
    block_in_place(|| patient.is_well(&keys));
    drop(node);
    let ended = block_in_place(|| patient.examined(&keys));
    ended.did("advice: 127.0.0.1");
    // Nothing but /readyz tells that a node waits for its database.
    let folder = tempfile::tempdir().unwrap();
    let lost = [
        ("engine.kind", "redis"),
        ("ledger.url", "postgres://nobody@127.0.0.1:1/none"),
    ];
    let node = Program::serve(folder.path(), &lost);
    node.ready(503).await;
    let listen = node.addr().await.to_string();
    let keys = [
        ("admin.listen", "server"),
        ("server.listen", listen.as_str()),
    ];
    block_in_place(|| patient.lacks(&keys, &["/readyz answers 503"]));
}

#[test]
fn a_redis_that_loses_grants_is_found() {
    let redis = Standalone::start(&Options::new().fsync_everysec().replicas(1));
    redis.wait_for_replicas();
    let patient = Patient::on_redis(&redis.url(), &[]);
    patient.is_well(&[]);
    patient.lacks(
        &[("redis.replicas", "2"), ("redis.wait_for", "asked")],
        &["1 replicas", "start replicas"],
    );
    let replica = redis.replica(0).url();
    patient.lacks(
        &[("redis.urls", &replica)],
        &["is a replica", "name the primary"],
    );
    patient.lacks(
        &[("redis.urls", "redis://127.0.0.1:1")],
        &["does not answer", "start it"],
    );
    let set = |key, value| {
        redis
            .primary()
            .call(&["CONFIG", "SET", key, value])
            .unwrap()
    };
    set("maxmemory-policy", "allkeys-lru");
    patient.lacks(&[], &["allkeys-lru", "set maxmemory-policy noeviction"]);
    set("maxmemory-policy", "noeviction");
    set("maxmemory", "1000000");
    patient.lacks(&[], &["raise maxmemory"]);
    set("maxmemory", "0");
    set("requirepass", "geheim");
    patient.lacks(&[], &["does not answer", "redis.password"]);
    patient.is_well(&[("redis.password", "geheim")]);

    let alone = Standalone::start(&Options::new());
    let patient = Patient::on_redis(&alone.url(), &[]);
    patient.lacks(&[], &["a restart loses grants", "appendonly yes"]);
}

#[test]
fn sentinels_and_a_cluster_lead_to_their_primaries() {
    let set = SentinelSet::start(&Options::new());
    let urls = set.sentinel_urls();
    let keys = [
        ("redis.topology", "sentinel"),
        ("redis.master", set.master_name()),
    ];
    let patient = Patient::on_redis(&urls.join(","), &keys);
    patient.is_well(&[]);
    patient.lacks(&[("redis.replicas", "3")], &["2 replicas are connected"]);
    let unknown = patient.examined(&[("redis.master", "another")]);
    assert_eq!(unknown.code, Some(1));
    assert!(
        unknown.printed.contains("does not know another"),
        "{}",
        unknown.printed
    );
    patient.lacks(
        &[("redis.urls", &urls[..2].join(","))],
        &["2 Sentinels are named"],
    );

    let cluster = Cluster::start(&Options::new());
    let keys = [("redis.topology", "cluster"), ("redis.partitions", "3")];
    let patient = Patient::on_redis(&cluster.urls().join(","), &keys);
    patient.is_well(&[]);
    cluster
        .node(0)
        .call(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])
        .unwrap();
    patient.lacks(&[], &["allkeys-lru"]);
    cluster
        .node(0)
        .call(&["CONFIG", "SET", "maxmemory-policy", "noeviction"])
        .unwrap();
    cluster.node(0).call(&["CLUSTER", "DELSLOTS", "0"]).unwrap();
    let missing = patient.examined(&[]);
    assert_eq!(missing.code, Some(1));
    assert!(
        missing.printed.contains("of 16384 slots"),
        "{}",
        missing.printed
    );
}

/// Lines of a file after one that begins with these words.
fn after<'t>(text: &'t str, words: &str) -> impl Iterator<Item = &'t str> {
    text.lines()
        .skip_while(move |line| !line.starts_with(words))
        .skip(1)
}

/// Variables of the environment file.
fn environment(folder: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(folder.join("environment")).unwrap_or_default();
    let pair = |line: &str| {
        let (name, value) = line.split_once('=').unwrap();
        (name.to_owned(), value.to_owned())
    };
    text.lines().map(pair).collect()
}

#[test]
fn quickstart_writes_each_set_up_once_with_secrets_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut secrets = Vec::new();
    for setup in [
        "embedded",
        "redis-postgres",
        "sentinel-postgres",
        "cluster-mariadb-rabbitmq",
    ] {
        let to = folder.path().join(setup);
        let units = folder.path().join(format!("{setup}-units"));
        let (to_text, units_text) = (to.to_str().unwrap(), units.to_str().unwrap());
        let args = ["quickstart", setup, "--to", to_text, "--units", units_text];
        let path = [("PATH", "/usr/bin:/bin")];
        let ended = Ended::of(output(folder.path(), &args, &path));
        ended.did("next steps:");
        let mode = |name: &str| fs::metadata(to.join(name)).unwrap().permissions().mode() & 0o777;
        let is_embedded = setup == "embedded";
        let mut private = vec!["secret"];
        private.extend(
            ["environment", "servers.txt"]
                .iter()
                .filter(|_| !is_embedded),
        );
        for name in private {
            assert_eq!(mode(name), 0o600, "{setup} {name}");
        }
        assert_eq!(
            fs::metadata(&to).unwrap().permissions().mode() & 0o007,
            0,
            "{setup}"
        );
        secrets.push(fs::read_to_string(to.join("secret")).unwrap());

        let env = environment(&to);
        let env: Vec<(&str, &str)> = env
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        assert_eq!(env.is_empty(), is_embedded);
        let file = to.join("qiang.toml");
        let check = ["config", "check", "--config", file.to_str().unwrap()];
        Ended::of(output(folder.path(), &check, &env)).did("the configuration is valid");
        for unit in fs::read_dir(&units).unwrap() {
            let unit = unit.unwrap().path();
            let text = fs::read_to_string(&unit).unwrap();
            let start = format!("ExecStart={} ", env!("CARGO_BIN_EXE_qiang"));
            assert!(
                text.contains(&start) && text.contains(&format!("--config {to_text}/qiang.toml")),
                "{text}"
            );
            let known = text.replace("=qiang\n", "=daemon\n");
            fs::write(&unit, known).unwrap();
            let judged = Command::new("systemd-analyze")
                .arg("verify")
                .arg(&unit)
                .output()
                .unwrap();
            Ended::of(judged).did("");
        }
        let has_worker = units.join("qiang-worker.service").exists();
        assert_eq!(has_worker, setup.starts_with("cluster"), "{setup}");

        // Nothing is overwritten, and nothing is written beside an existing file.
        fs::remove_file(to.join("secret")).unwrap();
        let again = Ended::of(output(folder.path(), &args, &path));
        again.failed(1, "exists already");
        assert!(!to.join("secret").exists(), "{setup}");
    }
    secrets.sort();
    secrets.dedup();
    assert_eq!(secrets.len(), 4);
}

#[test]
fn a_set_up_of_quickstart_is_well_once_its_servers_are_set_up() {
    let folder = tempfile::tempdir().unwrap();
    let to: PathBuf = folder.path().join("etc");
    let args = [
        "quickstart",
        "redis-postgres",
        "--to",
        to.to_str().unwrap(),
        "--units",
        "units",
    ];
    Ended::of(output(folder.path(), &args, &[])).did("next steps:");
    let servers = fs::read_to_string(to.join("servers.txt")).unwrap();

    let redis = Standalone::start(&Options::new().fsync_everysec());
    let acl: Vec<&str> = after(&servers, "# Each Redis")
        .next()
        .unwrap()
        .split(' ')
        .collect();
    redis.primary().call(&acl).unwrap();
    let postgres = Postgres::start(&postgres::Options::new());
    // The test's server has a role and a database `qiang` already.
    for line in after(&servers, "# PostgreSQL") {
        postgres.sql(&line.replace(" qiang", " shop"));
    }
    let env = environment(&to);
    let get = |name: &str| &*env.iter().find(|(it, _)| it == name).unwrap().1;
    // The names of servers that an operator edits.
    let at = postgres.url();
    let at = at.rsplit('@').next().unwrap().split('/').next().unwrap();
    let ledger = get("QIANG__LEDGER__URL").replace("postgres.internal", at);
    let ledger = ledger
        .replace("://qiang:", "://shop:")
        .replace("/qiang", "/shop");
    let url = redis.url();
    let env = [
        ("QIANG__LEDGER__URL", ledger.as_str()),
        ("QIANG__REDIS__PASSWORD", get("QIANG__REDIS__PASSWORD")),
        ("QIANG__REDIS__URLS", url.as_str()),
        ("QIANG__REDIS__READ_URLS", ""),
        ("QIANG__SERVER__CONNECTIONS_MAX", "100"),
        ("QIANG__ADMIN__LISTEN", ""),
        ("QIANG__ENGINE__DATA", "unused.db"),
    ];
    let file = to.join("qiang.toml");
    let run = |words: &[&str]| {
        let args = [words, &["--config", file.to_str().unwrap()]].concat();
        Ended::of(output(folder.path(), &args, &env))
    };
    let before = run(&["doctor"]);
    assert_eq!(before.code, Some(1), "{}", before.printed);
    let wrong = before
        .printed
        .lines()
        .filter(|line| line.starts_with("wrong:"));
    let wrong: Vec<&str> = wrong.collect();
    assert!(
        wrong.len() == 1 && wrong[0].contains("no tables: run `qiang migrate`"),
        "{}",
        before.printed
    );
    run(&["migrate"]).did("the schema went");
    let after = run(&["doctor"]);
    assert_eq!(after.code, Some(0), "{}", after.printed);
}
