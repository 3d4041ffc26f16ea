//! Flags that select the engine and the ledger, for every command that opens them.

use std::path::PathBuf;

use qiang::{NodeConfig, UsageError, config::Setting};

use crate::secrets::refuse as refuse_password;

/// Places for URLs with passwords.
const LEDGER: &str = "QIANG__LEDGER__URL, or into the file of --config as `ledger.url`";
pub(crate) const REDIS: &str =
    "QIANG__REDIS__PASSWORD, or into the file of --config as `redis.password`";
const RABBITMQ: &str =
    "QIANG__SETTLEMENT__RABBITMQ_URL, or into the file of --config as `settlement.rabbitmq_url`";

/// Flags that override the configured engine and ledger.
#[derive(Debug, clap::Args)]
pub(super) struct BackendArgs {
    /// Configuration file that overrides the defaults.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Use this engine instead of `engine.kind`: embedded or redis.
    #[arg(long, value_name = "KIND")]
    engine: Option<String>,
    /// URL of Redis, instead of `redis.urls`. Put a password into QIANG__REDIS__PASSWORD.
    #[arg(long, value_name = "URL")]
    redis: Option<String>,
    /// URL of the ledger's database, instead of `ledger.url`. Put a URL with a password into QIANG__LEDGER__URL.
    #[arg(long, value_name = "URL")]
    ledger: Option<String>,
    /// Transport of entries to the ledger, instead of `settlement.transport`.
    #[arg(long, value_name = "KIND")]
    transport: Option<String>,
    /// URL of RabbitMQ, instead of `settlement.rabbitmq_url`. Put a URL with a password into
    /// QIANG__SETTLEMENT__RABBITMQ_URL.
    #[arg(long, value_name = "URL")]
    rabbitmq: Option<String>,
    /// Keep the data in this file instead of in `engine.data`.
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
}

impl BackendArgs {
    /// The flags as configuration keys and values.
    pub(super) fn overrides(&self) -> Vec<(&'static str, String)> {
        let data = self.data.as_ref().map(|data| data.display().to_string());
        let flags = [
            ("engine.kind", self.engine.clone()),
            ("redis.urls", self.redis.clone()),
            ("ledger.url", self.ledger.clone()),
            ("settlement.transport", self.transport.clone()),
            ("settlement.rabbitmq_url", self.rabbitmq.clone()),
            ("engine.data", data),
        ];
        let given = flags.into_iter();
        given
            .filter_map(|(key, value)| Some((key, value?)))
            .chain(crate::color::overrides())
            .collect()
    }

    /// Loads the configuration, overridden by these flags and by `overrides`.
    pub(super) fn load(&self, overrides: &[(&str, String)]) -> anyhow::Result<NodeConfig> {
        self.check()?;
        NodeConfig::load(self.config.as_deref(), overrides)
    }

    /// Every configuration key, overridden by these flags.
    pub(super) fn explain(&self) -> anyhow::Result<Vec<Setting>> {
        self.check()?;
        let (_, settings) = NodeConfig::explain(self.config.as_deref(), &self.overrides())?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), UsageError> {
        refuse_password("--ledger", self.ledger.as_deref(), LEDGER)?;
        refuse_password("--redis", self.redis.as_deref(), REDIS)?;
        refuse_password("--rabbitmq", self.rabbitmq.as_deref(), RABBITMQ)
    }
}
