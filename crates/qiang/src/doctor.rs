//! `qiang doctor`: compares servers and machine with the needs of a configuration, and says what to do.
//!
//! It changes nothing. Redis gets commands of the access list of docs/operate/redis.md alone.

mod ledger;
mod machine;
mod redis;

use std::{fmt::Display, time::Duration};

use qiang_api::Admin;
use serde::Serialize;
use tokio::{net::TcpStream, time::timeout};

use crate::{
    config::{EngineKind, NodeConfig, TransportName},
    health, run,
};

/// Maximum wait for each answer.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// Importance of a [`Finding`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Something that stops the service, loses grants or will do so.
    Wrong,
    /// Something to know or to decide.
    Advice,
}

/// One difference between a need and reality.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether it must be corrected.
    pub severity: Severity,
    /// Configuration, machine, or address of a server.
    pub subject: String,
    /// The state, and what to do: one line.
    pub text: String,
}

/// Collects findings.
#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn push(&mut self, severity: Severity, subject: &str, text: impl Display) {
        let lines = text.to_string();
        self.0.push(Finding {
            severity,
            subject: subject.to_owned(),
            text: lines.lines().collect::<Vec<_>>().join(" "),
        });
    }

    fn wrong(&mut self, subject: &str, text: impl Display) {
        self.push(Severity::Wrong, subject, text);
    }

    fn advise(&mut self, subject: &str, text: impl Display) {
        self.push(Severity::Advice, subject, text);
    }
}

impl Finding {
    /// The finding of a configuration that cannot be used.
    #[must_use]
    pub fn of_configuration(error: &anyhow::Error) -> Self {
        let mut findings = Findings::default();
        findings.wrong("configuration", format!("{error:#}"));
        // One was pushed.
        findings.0.remove(0)
    }
}

/// Examines everything that a configuration needs. Waits at most some seconds for each server.
pub async fn examine(config: &NodeConfig) -> Vec<Finding> {
    let mut findings = Findings::default();
    if let Err(error) = run::check(config) {
        findings.0.push(Finding::of_configuration(&error));
    }
    machine::examine(config, &mut findings);
    if config.engine.kind == EngineKind::Redis {
        redis::examine(&config.redis_options(), &mut findings).await;
        if config.settlement.transport == TransportName::RabbitMq {
            rabbitmq(config.settlement.rabbitmq_url.expose(), &mut findings).await;
        }
    }
    ledger::examine(config, &mut findings).await;
    node(config, &mut findings).await;
    findings.0
}

/// Primaries of the configured Redis, with the login of a node.
///
/// # Errors
/// If there is none, with what does not answer.
pub async fn primaries(config: &NodeConfig) -> anyhow::Result<Vec<::redis::ConnectionInfo>> {
    let mut findings = Findings::default();
    let primaries = redis::primaries(&config.redis_options(), &mut findings).await;
    if primaries.is_empty() {
        let found = findings.0.first();
        let text = found.map_or("Redis has no primary", |it| it.text.as_str());
        anyhow::bail!("{text}");
    }
    Ok(primaries)
}

/// A connection is opened without a login.
async fn rabbitmq(url: &str, findings: &mut Findings) {
    let place = broker_of(url);
    let reason = match timeout(WAIT_MAX, TcpStream::connect(&place)).await {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} s", WAIT_MAX.as_secs()),
    };
    findings.wrong(
        &place,
        format!("RabbitMQ accepts no connection ({reason}): start it, or correct settlement.rabbitmq_url"),
    );
}

/// Host and port of an AMQP URL.
fn broker_of(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("amqp", url));
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let place = authority.rsplit('@').next().unwrap_or_default();
    let has_port = place
        .rsplit_once(':')
        .is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let port = if scheme == "amqps" { 5671 } else { 5672 };
    match has_port {
        true => place.to_owned(),
        false => format!("{place}:{port}"),
    }
}

/// Asks the node of this configuration, if one runs on this machine.
async fn node(config: &NodeConfig, findings: &mut Findings) {
    let listen = match config.admin.listen {
        Admin::Apart(addr) => addr,
        Admin::Shared if config.server.tls_certificate_file.as_os_str().is_empty() => {
            config.server.listen
        }
        Admin::Shared | Admin::Nowhere => return,
    };
    if listen.port() == 0 {
        return;
    }
    let place = listen.to_string();
    let asked = place.clone();
    let asking = tokio::task::spawn_blocking(move || health::ask(&asked, "/readyz", WAIT_MAX));
    match asking.await {
        Ok(Ok((200, _))) => {}
        Ok(Ok((status, body))) => findings.wrong(
            &place,
            format!(
                "/readyz answers {status} {}: docs/operate/repair.md has the reasons",
                body.trim()
            ),
        ),
        Ok(Err(_)) | Err(_) => {
            findings.advise(
                &place,
                "no node of this configuration runs here: start it, and repeat this command",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_broker_is_read_from_its_url() {
        for (url, place) in [
            (
                "amqp://qiang:a:b@rabbitmq.internal:5673/%2f",
                "rabbitmq.internal:5673",
            ),
            ("amqps://rabbitmq.internal", "rabbitmq.internal:5671"),
            ("amqp://qiang@[::1]/x?y", "[::1]:5672"),
        ] {
            assert_eq!(broker_of(url), place);
        }
    }

    #[test]
    fn a_finding_is_one_line() {
        let error = anyhow::anyhow!("first\nsecond");
        let finding = Finding::of_configuration(&error);
        assert_eq!(finding.text, "first second");
        assert_eq!(finding.severity, Severity::Wrong);
    }
}
