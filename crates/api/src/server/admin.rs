//! Listener for operators, which other clients must not reach.

use std::{net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error as _};
use tokio::net::TcpListener;

use crate::{config::ServerConfig, resources::profile, router::ListenerRoutes};

/// Maximum number of operators' connections.
const CONNECTIONS_MAX: u32 = 64;
/// Longest time for which a running profile delays the end of the process.
const DRAIN_MS: u64 = 100;

/// Place where operators' routes are served: `admin.listen`, or data for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admin<T> {
    /// The public listener.
    Shared,
    /// A listener of its own.
    Apart(T),
    /// None.
    Nowhere,
}

impl<T> Admin<T> {
    /// Replaces the data of a listener of its own.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Admin<U> {
        match self {
            Self::Shared => Admin::Shared,
            Self::Apart(apart) => Admin::Apart(change(apart)),
            Self::Nowhere => Admin::Nowhere,
        }
    }

    /// Routes that the public listener serves.
    pub(crate) fn served(&self) -> ListenerRoutes {
        match self {
            Self::Shared => ListenerRoutes::All,
            Self::Apart(_) | Self::Nowhere => ListenerRoutes::Public,
        }
    }
}

/// Parses an address, `server` or an empty string.
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

/// Listeners of a process.
#[derive(Debug)]
pub struct Listeners {
    /// Listener for all clients.
    pub public: TcpListener,
    /// Listener for operators.
    pub admin: Admin<TcpListener>,
}

/// One listener for all routes.
impl From<TcpListener> for Listeners {
    fn from(public: TcpListener) -> Self {
        Self {
            public,
            admin: Admin::Shared,
        }
    }
}

/// Time limit for an operator's request; it allows for a profile.
pub(super) fn request_timeout_ms(server: &ServerConfig) -> u64 {
    server.request_timeout_ms.max(profile::TAKES_MS_MAX)
}

/// Configuration of operators' connections: without TLS, and with time for a profile.
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
