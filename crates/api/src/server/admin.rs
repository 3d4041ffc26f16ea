//! The listener for operators: what it serves is nobody else's business.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};
use tokio::net::TcpListener;

use crate::{config::ServerConfig, resources::profile, router::Served};

/// Connections of operators at a time.
const CONNECTIONS_MAX: u32 = 64;
/// How long a profile that is being taken holds up the end of the process.
const DRAIN_MS: u64 = 100;

/// Where operators are served: `admin.listen`, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin<T> {
    /// Where everybody is served.
    Shared,
    /// Apart from everybody.
    Apart(T),
    /// Nowhere.
    Nowhere,
}

impl<T> Admin<T> {
    /// The same with something else in the place of what is apart.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Admin<U> {
        match self {
            Self::Shared => Admin::Shared,
            Self::Apart(apart) => Admin::Apart(change(apart)),
            Self::Nowhere => Admin::Nowhere,
        }
    }

    /// What is served where everybody is.
    pub(crate) fn served(&self) -> Served {
        match self {
            Self::Shared => Served::All,
            Self::Apart(_) | Self::Nowhere => Served::Public,
        }
    }
}

/// An address, `server`, or nothing.
impl<'de> Deserialize<'de> for Admin<SocketAddr> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let text = String::deserialize(reader)?;
        let invalid = |_| {
            D::Error::custom(format!(
                "`{text}` is neither an address such as 127.0.0.1:8082 nor `server`"
            ))
        };
        match text.as_str() {
            "" => Ok(Self::Nowhere),
            "server" => Ok(Self::Shared),
            addr => addr.parse().map(Self::Apart).map_err(invalid),
        }
    }
}

/// Where a process listens.
#[derive(Debug)]
pub struct Listeners {
    /// For everybody.
    pub public: TcpListener,
    /// For operators.
    pub admin: Admin<TcpListener>,
}

/// Everything is served on one.
impl From<TcpListener> for Listeners {
    fn from(public: TcpListener) -> Self {
        Self {
            public,
            admin: Admin::Shared,
        }
    }
}

/// How long an operator waits at most: a profile takes its time.
pub(super) fn request_timeout_ms(server: &ServerConfig) -> u64 {
    server.request_timeout_ms.max(profile::TAKES_MS_MAX)
}

/// How operators' connections are served: in the clear, and for as long as a profile takes.
pub(super) fn config(server: &ServerConfig) -> ServerConfig {
    ServerConfig {
        connections_max: CONNECTIONS_MAX,
        request_timeout_ms: request_timeout_ms(server),
        drain_timeout_ms: DRAIN_MS,
        tls_certificate_file: PathBuf::new(),
        tls_key_file: PathBuf::new(),
        hsts_max_age_s: 0,
        ..server.clone()
    }
}
