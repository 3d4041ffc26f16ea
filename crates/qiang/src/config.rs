//! The configuration: built-in defaults, a file, environment variables and flags. Later sources win.

mod audit;
mod effective;
mod environment;
mod ledger;
mod redis;
mod source;
mod webhooks;

use std::{
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context as _;
use config::Source as _;
pub use qiang_api::config::{
    AuthConfig, ChallengeKind, ClaimLogConfig, ForwardedHeader, LimitsConfig, OrderCheckConfig,
    OrderCheckPolicy, PacketsConfig, PaymentsConfig, QueueConfig, Secret, ServerConfig,
    TicketsConfig, TracesConfig,
};
use qiang_api::{Admin, UsageError};
use qiang_core::{book::Grace, time::Timestamp, web_url};
use qiang_embedded::EmbeddedOptions;
use qiang_redis::RedisOptions;
use serde::{Deserialize, Deserializer, de::Error as _};

pub(crate) use self::effective::EffectiveValues;
pub use self::{
    audit::AuditConfig,
    ledger::{LedgerConfig, SettlementConfig, TransportName},
    redis::{RedisConfig, TopologyKind},
    source::{ConfigSource, Setting},
    webhooks::WebhooksConfig,
};
use self::{environment::variables, source::Sources};

/// The annotated defaults. They are the documentation of the configuration.
pub const DEFAULTS: &str = include_str!("config.default.toml");

/// All configuration keys. `config.default.toml` documents each.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct NodeConfig {
    pub server: ServerConfig,
    pub admin: AdminConfig,
    pub engine: EngineConfig,
    pub ledger: LedgerConfig,
    pub settlement: SettlementConfig,
    pub worker: WorkerConfig,
    pub audit: AuditConfig,
    pub redis: RedisConfig,
    pub auth: AuthConfig,
    pub limits: LimitsConfig,
    pub tickets: TicketsConfig,
    pub order_check: OrderCheckConfig,
    pub packets: PacketsConfig,
    pub payments: PaymentsConfig,
    pub queue: QueueConfig,
    pub pages: PagesConfig,
    pub webhooks: WebhooksConfig,
    pub traces: TracesConfig,
    pub claim_log: ClaimLogConfig,
    pub log: LogConfig,
    /// All values as they were read.
    #[serde(skip)]
    pub(crate) effective: EffectiveValues,
}

/// `[admin]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct AdminConfig {
    pub listen: Admin<SocketAddr>,
}

/// `[engine]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct EngineConfig {
    pub kind: EngineKind,
    pub data: PathBuf,
    pub idle_campaign_ttl_ms: u32,
    pub clock_behind_ms_max: u64,
    pub archive_dir: PathBuf,
    pub archive_after_days: u32,
}

/// `[pages]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct PagesConfig {
    pub enabled: bool,
    pub payment_url: String,
    /// Whether anyone may sign in as any user and pay without money. Neither a file nor a variable can set it.
    #[serde(skip)]
    pub development: bool,
}

impl PagesConfig {
    fn check(&self) -> Result<(), UsageError> {
        let url = self.payment_url.as_str();
        let is_web = || web_url::parse(&url.replace("{order}", "1")).is_ok();
        match url.is_empty() || url.contains("{order}") && is_web() {
            true => Ok(()),
            false => Err(UsageError::new(
                "pages.payment_url must be an http:// or https:// URL with {order} in place of the order's id",
            )),
        }
    }
}

/// `[worker]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct WorkerConfig {
    #[serde(deserialize_with = "optional_addr")]
    pub listen: Option<SocketAddr>,
}

/// Kind of engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EngineKind {
    /// In this process, on one file.
    Embedded,
    /// On Redis, with the ledger in one file.
    Redis,
}

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "config.default.toml is the documentation")]
pub struct LogConfig {
    pub format: LogFormat,
    pub color: LogColor,
    pub level: String,
}

/// Use of colours in text log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogColor {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Format of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// An address; `None` if the text is empty.
fn optional_addr<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(reader)?;
    if text.is_empty() {
        return Ok(None);
    }
    let invalid = |_| D::Error::custom(format!("`{text}` is no address such as 127.0.0.1:8081"));
    text.parse().map(Some).map_err(invalid)
}

impl NodeConfig {
    /// Reads the configuration. `overrides` are flags: a key such as `server.listen`, and its value.
    ///
    /// # Errors
    /// [`UsageError`] with one line that names the key.
    pub fn load(file: Option<&Path>, overrides: &[(&str, String)]) -> anyhow::Result<Self> {
        Self::read(file, std::env::vars_os(), overrides)
    }

    /// Reads the configuration as [`NodeConfig::load`] does. Also returns each key with its value and source.
    ///
    /// # Errors
    /// As [`NodeConfig::load`].
    pub fn explain(
        file: Option<&Path>,
        overrides: &[(&str, String)],
    ) -> anyhow::Result<(Self, Vec<Setting>)> {
        let config = Self::load(file, overrides)?;
        let text = file.map(read_file).transpose()?;
        let sources = Sources::new(
            file.zip(text.as_deref()),
            variables(std::env::vars_os())?,
            overrides,
        )?;
        Ok((config, sources.settings()))
    }

    /// The defaults alone, without file and environment.
    ///
    /// # Errors
    /// None in practice: a test loads the defaults.
    pub fn defaults() -> anyhow::Result<Self> {
        Self::defaults_with(&[])
    }

    /// The defaults and some overrides, without file and environment.
    ///
    /// # Errors
    /// As [`NodeConfig::load`].
    pub fn defaults_with(overrides: &[(&str, String)]) -> anyhow::Result<Self> {
        Self::read(None, [], overrides)
    }

    fn read(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        overrides: &[(&str, String)],
    ) -> anyhow::Result<Self> {
        let toml = config::FileFormat::Toml;
        let mut builder =
            config::Config::builder().add_source(config::File::from_str(DEFAULTS, toml));
        let text = file.map(read_file).transpose()?;
        let variables = variables(environment)?;
        let sources = Sources::new(file.zip(text.as_deref()), variables.clone(), overrides)?;
        if let Some(text) = &text {
            builder = builder.add_source(config::File::from_str(text, toml));
        }
        let environment = config::Environment::with_prefix("QIANG")
            .prefix_separator("__")
            .separator("__")
            .source(Some(variables.into_iter().collect()));
        builder = builder.add_source(environment);
        for (key, value) in overrides {
            builder = builder
                .set_override(*key, value.as_str())
                .context("a flag's key")?;
        }
        let read = builder.build().and_then(|read| {
            let effective = EffectiveValues::from_sections(read.collect()?);
            let config = read.try_deserialize::<Self>()?;
            Ok(Self {
                effective,
                ..config
            })
        });
        let config = read.map_err(|error| {
            let known = "`qiang serve --print-config` shows every key";
            let key = source::key_of(&error);
            let error = Sources::with_choices(&error.to_string(), key);
            let error = sources.located(&error, key);
            UsageError::new(format!("the configuration is not valid: {error}; {known}"))
        })?;
        let located =
            |error: UsageError| UsageError::new(sources.located(&error.to_string(), None));
        config.check().map_err(located)?;
        Ok(config)
    }

    /// The part of the configuration that the API reads.
    pub(crate) fn api(&self) -> qiang_api::ApiConfig {
        qiang_api::ApiConfig {
            server: self.server.clone(),
            auth: self.auth.clone(),
            limits: self.limits.clone(),
            tickets: self.tickets.clone(),
            order_check: self.order_check.clone(),
            packets: self.packets.clone(),
            payments: self.payments.clone(),
            queue: self.queue.clone(),
            traces: self.traces.clone(),
            claim_log: self.claim_log.clone(),
        }
    }

    /// Grace period of orders for payments that are reported late.
    pub(crate) fn grace(&self) -> Grace {
        Grace {
            ms: self.payments.grace_ms.into(),
            ..Grace::default()
        }
    }

    /// Options of the embedded engine. It accepts payment reports from this instant on.
    pub(crate) fn embedded_options(&self, since: Timestamp) -> EmbeddedOptions {
        EmbeddedOptions {
            grace: Grace {
                since,
                ..self.grace()
            },
            idle_campaign_ttl: Duration::from_millis(self.engine.idle_campaign_ttl_ms.into()),
            ..EmbeddedOptions::default()
        }
    }

    /// Options of the engine on Redis.
    pub(crate) fn redis_options(&self) -> RedisOptions {
        RedisOptions {
            payment_grace: Duration::from_millis(self.payments.grace_ms.into()),
            clock_behind_max: Duration::from_millis(self.engine.clock_behind_ms_max),
            ..self.redis.options()
        }
    }

    fn check(&self) -> Result<(), UsageError> {
        self.redis.check()?;
        self.settlement.check()?;
        self.audit.check()?;
        self.server.check()?;
        if self.admin.listen == Admin::Apart(self.server.listen) && self.server.listen.port() != 0 {
            return Err(UsageError::new(
                "admin.listen and server.listen are equal: write `server` to serve operators on server.listen",
            ));
        }
        self.limits.check()?;
        self.tickets.check()?;
        self.order_check.check()?;
        self.queue.check()?;
        self.pages.check()?;
        self.webhooks.check()?;
        self.packets.check()?;
        self.traces.check()?;
        self.claim_log.check()?;
        self.payments.check()
    }
}

fn read_file(path: &Path) -> anyhow::Result<String> {
    let read = std::fs::read_to_string(path);
    Ok(read.map_err(|error| UsageError::new(format!("cannot read {}: {error}", path.display())))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        let pair = |(name, value): &(&str, &str)| ((*name).into(), (*value).into());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn defaults_are_complete_and_have_no_secret() {
        let config = NodeConfig::defaults().unwrap();
        assert!(config.auth.hs256_secret.is_empty());
        assert!(!config.server.noop_route);
    }

    #[test]
    fn the_later_source_wins() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("qiang.toml");
        std::fs::write(
            &file,
            "[server]\nlisten = '127.0.0.1:1'\nbody_bytes_max = 7\n",
        )
        .unwrap();
        let environment = || {
            env(&[
                ("QIANG__SERVER__LISTEN", "127.0.0.1:2"),
                ("QIANG__SERVER__NOOP_ROUTE", "true"),
            ])
        };
        let config = NodeConfig::read(Some(&file), environment(), &[]).unwrap();
        assert_eq!(config.server.listen.port(), 2);
        assert_eq!(config.server.body_bytes_max, 7);
        assert!(config.server.noop_route);
        let flags = [("server.listen", "127.0.0.1:3".to_owned())];
        let config = NodeConfig::read(Some(&file), environment(), &flags).unwrap();
        assert_eq!(config.server.listen.port(), 3);
    }

    #[test]
    fn a_secret_of_digits_stays_a_text_and_is_not_shown() {
        let digits = "01234567890123456789012345678901";
        let config =
            NodeConfig::read(None, env(&[("QIANG__AUTH__HS256_SECRET", digits)]), &[]).unwrap();
        assert_eq!(config.auth.hs256_secret.expose(), digits);
        assert!(!format!("{config:?}").contains(digits));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let check = |key: &str, value: &str, expected: &str| {
            let error = NodeConfig::read(None, env(&[(key, value)]), &[]).unwrap_err();
            assert!(error.is::<UsageError>());
            assert!(error.to_string().contains(expected), "{error}");
        };
        check("QIANG__SERVER__LISTN", "x", "listn");
        check("QIANG__SERVR__LISTEN", "x", "servr");
        check("QIANG__SERVER__LISTEN", "here", "listen");
        check(
            "QIANG__SERVER__CONNECTIONS_MAX",
            "0",
            "server.connections_max must be at least 1",
        );
        check("QIANG__SERVER__BODY_BYTES_MAX", "-1", "body_bytes_max");
        for value in ["0", "999", "31536000001"] {
            check("QIANG__PACKETS__REFUND_AFTER_MS", value, "packets.refund");
        }
        check("QIANG__LOG__FORMAT", "xml", "format");
        check("QIANG__LOG__COLOR", "red", "color");
        check("QIANG__WORKER__LISTEN", "here", "worker.listen");
        check("QIANG__ADMIN__LISTEN", "here", "admin.listen");
        check("QIANG__ADMIN__LISTEN", "127.0.0.1:8080", "write `server`");
    }

    #[test]
    fn what_is_wrong_is_placed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("q.toml");
        let check = |text: &str, pairs: &[(&str, &str)], line: usize, choices: &[&str]| {
            std::fs::write(&file, text).unwrap();
            let error = NodeConfig::read(Some(&file), env(pairs), &[]).unwrap_err();
            assert!(error.is::<UsageError>());
            let error = error.to_string();
            let place = match line {
                0 => format!("{}: ", pairs[0].0),
                line => format!("q.toml:{line}: "),
            };
            assert!(
                error.contains(&place) && !error.contains('\n'),
                "{text}: {error}"
            );
            for choice in choices {
                assert!(error.contains(choice), "{error}");
            }
        };
        check(
            "[log]\n\nformat = 'xml'\n",
            &[],
            3,
            &["text", "json", "log.format"],
        );
        check(
            "# x\n[server]\nlistn = 'x'\n",
            &[],
            3,
            &["listn", "`listen`"],
        );
        check("[servr]\nlisten = 'x'\n", &[], 2, &["servr", "`server`"]);
        check("[server]\nlisten = 'here'\n", &[], 2, &["server.listen"]);
        check(
            "[server]\nbody_bytes_max = 5\nconnections_max = 0\n",
            &[],
            3,
            &["at least 1"],
        );
        check("[server]\nlisten = ?\n", &[], 2, &[]);
        check("", &[("QIANG__LOG__FORMAT", "xml")], 0, &["text", "json"]);
        check("", &[("QIANG__SERVER__LISTN", "x")], 0, &["`listen`"]);
    }

    #[test]
    fn operators_have_a_place_of_their_own_unless_it_is_said() {
        let listen = |pairs: &[(&str, &str)]| {
            let config = NodeConfig::read(None, env(pairs), &[]).unwrap();
            config.admin.listen
        };
        let key = "QIANG__ADMIN__LISTEN";
        let own: SocketAddr = "127.0.0.1:8082".parse().unwrap();
        assert_eq!(listen(&[]), Admin::Apart(own));
        assert_eq!(listen(&[(key, "")]), Admin::Nowhere);
        assert_eq!(listen(&[(key, "server")]), Admin::Shared);
        let free = [
            (key, "127.0.0.1:0"),
            ("QIANG__SERVER__LISTEN", "127.0.0.1:0"),
        ];
        assert_eq!(listen(&free), Admin::Apart("127.0.0.1:0".parse().unwrap()));
    }

    #[test]
    fn a_worker_may_listen_nowhere() {
        let listen = |value: &str| {
            let environment = env(&[("QIANG__WORKER__LISTEN", value)]);
            NodeConfig::read(None, environment, &[])
                .unwrap()
                .worker
                .listen
        };
        assert_eq!(listen(""), None);
        assert_eq!(listen("127.0.0.1:0"), "127.0.0.1:0".parse().ok());
    }
}
