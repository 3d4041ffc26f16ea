//! TLS from a process to Redis, to the ledger's database and to RabbitMQ: a certificate is replaced while users buy,
//! one expires, one has another name, and one is of an unknown authority. The reason is reported, and nothing has to be
//! restarted once the certificate is right.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use qiang_testkit::servers::{
    Port,
    mariadb::{self, MariaDb},
    postgres::{self, Postgres},
    rabbitmq::RabbitMq,
    redis::{Options, Standalone},
};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use tempfile::TempDir;

use crate::{
    common::{call, sale},
    operation::program::{Program, token, until},
};

const STOCK: u32 = 10_000;
/// Orders during which a certificate is replaced.
const ORDERS: usize = 40;
/// Longer than a start of the program.
const READY_MAX: Duration = Duration::from_secs(40);
/// A year in the past.
const EXPIRED: i32 = 2020;
const VALID: i32 = 2100;

/// An authority, and the folder of its certificate `ca.pem`.
struct Authority {
    folder: TempDir,
    issuer: Issuer<'static, KeyPair>,
    made: AtomicU32,
}

impl Authority {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Servers may run as another user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        fs::write(folder.path().join("ca.pem"), certificate.pem()).unwrap();
        Self {
            folder,
            issuer: Issuer::new(params, key),
            made: AtomicU32::new(0),
        }
    }

    fn file(&self) -> String {
        self.folder.path().join("ca.pem").display().to_string()
    }

    /// Makes a certificate for `localhost`, in a folder of its own.
    fn certify(&self, last_year: i32) -> PathBuf {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
        params.distinguished_name = named("server");
        params.not_after = date_time_ymd(last_year, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        fs::write(folder.join("certificate.pem"), certificate.pem()).unwrap();
        fs::write(folder.join("key.pem"), key.serialize_pem()).unwrap();
        folder
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}

/// A server over TLS.
trait Server {
    /// Replaces the certificate by the one in this folder.
    fn use_certificate(&self, folder: &Path);

    /// Ends all connections, so that clients verify the certificate.
    fn cut(&self);

    /// Configuration of a process that uses it by this host name.
    fn keys(&self, host: &str) -> Vec<(&'static str, String)>;
}

async fn start(folder: &Path, keys: &[(&'static str, String)], authority: Option<&str>) -> Program {
    let mut all = vec![("settlement.lease_ms", "2000")];
    all.extend(keys.iter().map(|(key, value)| (*key, value.as_str())));
    all.extend(authority.map(|file| ("SSL_CERT_FILE", file)));
    let program = env!("CARGO_BIN_EXE_qiang").as_ref();
    let prefix = format!("tls{}", rand::random::<u32>());
    Program::on_redis_of(program, folder, "serve", &prefix, &all)
}

/// Waits until `/readyz` answers 200.
async fn until_ready(node: &Program) {
    let ready = async || (node.get("/readyz").await.status == 200).then_some(());
    let what = async || node.get("/readyz").await.text("reason");
    if tokio::time::timeout(READY_MAX, until("it is never ready", ready))
        .await
        .is_err()
    {
        panic!("not ready: {}", what().await);
    }
}

/// Waits until the log or `/readyz` has these words.
async fn said(node: &Program, words: &[&str]) {
    let look = async || {
        let ready = node.get("/readyz").await.body;
        let ready = String::from_utf8_lossy(&ready).into_owned();
        let lines = node.lines().into_iter().map(|line| line.to_string());
        let mut all = lines.chain([ready]);
        all.find(|text| words.iter().all(|word| text.contains(word)))
    };
    until(&format!("{words:?} is not said: {:#?}", node.lines()), look).await;
}

/// Buys as a new user. The claim is repeated until it is answered.
async fn buy(node: &Program, path: &str) {
    static USERS: AtomicU32 = AtomicU32::new(0);
    let user = token(&format!("u{}", USERS.fetch_add(1, Ordering::Relaxed)));
    let addr = node.addr().await;
    let bought = async || {
        let reply = call(addr, "POST", path, Some(&user), &[], None).await;
        [200, 201].contains(&reply.status).then_some(())
    };
    until(&format!("no order: {:#?}", node.lines()), bought).await;
}

async fn check(authority: &Authority, server: &dyn Server) {
    let folder = tempfile::tempdir().unwrap();
    let file = authority.file();
    let node = start(folder.path(), &server.keys("localhost"), Some(&file)).await;
    until_ready(&node).await;
    let opened = node.post("/v1/sales", Some(sale(STOCK))).await;
    let path = format!("/v1/sales/{}/orders", opened.text("id"));
    buy(&node, &path).await;

    // The certificate is replaced while users buy.
    for order in 0..ORDERS {
        if order == ORDERS / 4 {
            server.use_certificate(&authority.certify(VALID));
        }
        if order == ORDERS / 2 {
            server.cut();
        }
        buy(&node, &path).await;
    }
    until_ready(&node).await;

    // It expires.
    server.use_certificate(&authority.certify(EXPIRED));
    server.cut();
    said(&node, &["invalid peer certificate", "expired"]).await;
    server.use_certificate(&authority.certify(VALID));
    buy(&node, &path).await;
    until_ready(&node).await;

    // It has another name.
    let other = tempfile::tempdir().unwrap();
    let misnamed = start(other.path(), &server.keys("127.0.0.1"), Some(&file)).await;
    said(
        &misnamed,
        &["invalid peer certificate", "not valid for name"],
    )
    .await;
    drop(misnamed);
}

struct RedisOverTls {
    server: Standalone,
    port: Port,
    authority: String,
}

impl Server for RedisOverTls {
    fn use_certificate(&self, folder: &Path) {
        let path = |name: &str| folder.join(name).display().to_string();
        let (port, certificate, key) = (
            self.port.addr().port().to_string(),
            path("certificate.pem"),
            path("key.pem"),
        );
        let words = [
            "CONFIG",
            "SET",
            "tls-cert-file",
            &certificate,
            "tls-key-file",
            &key,
            "tls-ca-cert-file",
            &self.authority,
            "tls-auth-clients",
            "no",
            "tls-port",
            &port,
        ];
        self.server.primary().call(&words).unwrap();
    }

    fn cut(&self) {
        for kind in ["normal", "pubsub"] {
            let words = ["CLIENT", "KILL", "TYPE", kind];
            self.server.primary().call(&words).unwrap();
        }
    }

    fn keys(&self, host: &str) -> Vec<(&'static str, String)> {
        let url = format!("rediss://{host}:{}", self.port.addr().port());
        vec![("redis.urls", url)]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_redis_are_checked_and_replaced_live() {
    let authority = Authority::new();
    let server = RedisOverTls {
        server: Standalone::start(&Options::new()),
        port: Port::free(),
        authority: authority.file(),
    };
    server.use_certificate(&authority.certify(VALID));
    check(&authority, &server).await;
    // The system's authorities do not know this one.
    let folder = tempfile::tempdir().unwrap();
    let stranger = start(folder.path(), &server.keys("localhost"), None).await;
    said(&stranger, &["invalid peer certificate", "UnknownIssuer"]).await;
}

struct PostgresOverTls {
    server: Postgres,
    url: String,
    authority: String,
}

impl Server for PostgresOverTls {
    fn use_certificate(&self, folder: &Path) {
        let copy = format!(
            "COPY (SELECT 1) TO PROGRAM 'cp {0}/certificate.pem {0}/key.pem . && chmod 600 key.pem'",
            folder.display()
        );
        for statement in [
            &copy,
            "ALTER SYSTEM SET ssl_cert_file = 'certificate.pem'",
            "ALTER SYSTEM SET ssl_key_file = 'key.pem'",
            "ALTER SYSTEM SET ssl = on",
            "SELECT pg_reload_conf()",
        ] {
            self.server.sql(statement);
        }
    }

    fn cut(&self) {
        self.server.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'",
        );
    }

    fn keys(&self, host: &str) -> Vec<(&'static str, String)> {
        let url = self.url.replace("127.0.0.1", host);
        let url = format!("{url}?sslmode=verify-full&sslrootcert={}", self.authority);
        vec![("ledger.url", url)]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_postgres_are_checked_and_replaced_live() {
    let authority = Authority::new();
    let database = Postgres::start(&postgres::Options::new().without_fsync());
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    let server = PostgresOverTls {
        server: database,
        url,
        authority: authority.file(),
    };
    server.use_certificate(&authority.certify(VALID));
    check(&authority, &server).await;
}

struct MariaDbOverTls {
    server: MariaDb,
    url: String,
    /// Folder of the files that the server reads.
    files: PathBuf,
    authority: String,
}

impl Server for MariaDbOverTls {
    fn use_certificate(&self, folder: &Path) {
        copy_files(folder, &self.files);
        self.server.sql("FLUSH SSL");
    }

    fn cut(&self) {
        self.server.sql("KILL USER app");
    }

    fn keys(&self, host: &str) -> Vec<(&'static str, String)> {
        let url = self.url.replace("127.0.0.1", host);
        let url = format!("{url}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", self.authority);
        vec![("ledger.url", url)]
    }
}

fn copy_files(from: &Path, to: &Path) {
    for name in ["certificate.pem", "key.pem"] {
        fs::copy(from.join(name), to.join(name)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_mariadb_are_checked_and_replaced_live() {
    let authority = Authority::new();
    let files = authority.certify(VALID);
    let setting = |name: &str, file: &str| format!("{name}={}", files.join(file).display());
    let options = mariadb::Options::new()
        .setting(&setting("ssl-cert", "certificate.pem"))
        .setting(&setting("ssl-key", "key.pem"));
    let database = MariaDb::start(&options);
    let url = database.create_database();
    qiang::migrate(&url).await.unwrap();
    // So that its connections can be ended.
    database.sql("CREATE USER app@'%'");
    database.sql("GRANT ALL ON *.* TO app@'%'");
    let server = MariaDbOverTls {
        server: database,
        url: url.replace("root@", "app@"),
        files,
        authority: authority.file(),
    };
    check(&authority, &server).await;
}

struct RabbitMqOverTls {
    server: RabbitMq,
    port: Port,
    files: PathBuf,
}

impl Server for RabbitMqOverTls {
    fn use_certificate(&self, folder: &Path) {
        copy_files(folder, &self.files);
        self.server.control(&["eval", "ssl:clear_pem_cache()."]);
    }

    fn cut(&self) {
        self.server
            .control(&["close_all_connections", "by the test"]);
    }

    fn keys(&self, host: &str) -> Vec<(&'static str, String)> {
        let url = format!("amqps://guest:guest@{host}:{}/%2f", self.port.addr().port());
        vec![
            ("settlement.transport", "rabbitmq".to_owned()),
            ("settlement.rabbitmq_url", url),
        ]
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_of_rabbitmq_are_checked_and_replaced_live() {
    let authority = Authority::new();
    let files = authority.certify(VALID);
    let (server, port) = (RabbitMq::start(), Port::free());
    let path = |name: &str| files.join(name).display().to_string();
    let listen = format!(
        "ssl:start(), rabbit_networking:start_ssl_listener({}, \
         [{{certfile, \"{}\"}}, {{keyfile, \"{}\"}}], 2).",
        port.addr().port(),
        path("certificate.pem"),
        path("key.pem")
    );
    server.control(&["eval", &listen]);
    let server = RabbitMqOverTls {
        server,
        port,
        files,
    };
    check(&authority, &server).await;
}
