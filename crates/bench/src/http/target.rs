//! Service under measurement, with its setup and reads.

use std::{collections::HashMap, net::SocketAddr, path::Path, sync::Arc};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use hyper::header::HeaderValue;
use qiang::local::{LocalService, UserTokens};
use qiang_client::load::{client::LoadClient, load_generator::User, verdict::AmountBody};
use qiang_core::web_url;
use serde::Deserialize;
use serde_json::json;

use crate::fixture::SETTLE_MAX;

/// Service under load: started by the benchmark, or external.
pub(super) struct Target {
    pub(super) addr: SocketAddr,
    tokens: UserTokens,
    local: Option<LocalService>,
    pub(super) operator: HeaderValue,
}

impl Target {
    pub(super) async fn new(url: Option<&str>, secret_file: Option<&Path>) -> anyhow::Result<Self> {
        let (addr, tokens, local) = match (url, secret_file) {
            (Some(url), Some(file)) => (address(url)?, UserTokens::from_file(file)?, None),
            _ => {
                let local = LocalService::start(true).await?;
                (local.addr(), local.tokens().clone(), Some(local))
            }
        };
        let operator =
            HeaderValue::try_from(tokens.bearer("bench", "claim send deposit campaigns:write")?)?;
        Ok(Self {
            addr,
            tokens,
            local,
            operator,
        })
    }

    pub(super) fn users(&self, users: u32) -> anyhow::Result<Arc<Vec<User>>> {
        let user = |n| {
            Ok(User {
                token: HeaderValue::try_from(self.tokens.bearer(&user_name(n), "claim")?)?,
            })
        };
        Ok(Arc::new(
            (0..users).map(user).collect::<anyhow::Result<_>>()?,
        ))
    }

    /// Deposits money to the operator's account.
    async fn fund(&self, client: &mut LoadClient, minor: i64) -> anyhow::Result<()> {
        let reference = format!("bench-{:016x}", rand::random::<u64>());
        let deposit = json!({ "reference": reference, "amount": minor, "currency": "CNY" });
        let path = "/v1/accounts/bench/deposits";
        client.create(path, &self.operator, &deposit).await?;
        Ok(())
    }

    /// Body that creates a red packet of ten shares. Also deposits the money for this many red packets.
    pub(super) async fn small_packets(&self, packets: u32) -> anyhow::Result<Bytes> {
        let (mut client, total) = (LoadClient::connect(self.addr).await?, 1_000);
        self.fund(&mut client, i64::from(packets) * total).await?;
        let packet = json!({
            "title": "bench", "total": { "amount": total, "currency": "CNY" }, "shares": 10,
            "split": { "rule": "double_average" },
        });
        Ok(packet.to_string().into())
    }

    /// Opens a red packet of `shares` shares, one minor unit each, and returns its path.
    pub(super) async fn open_packet(&self, shares: u32) -> anyhow::Result<String> {
        let mut client = LoadClient::connect(self.addr).await?;
        self.fund(&mut client, shares.into()).await?;
        let packet = json!({
            "title": "bench", "total": { "amount": shares, "currency": "CNY" }, "shares": shares,
            "split": { "rule": "equal" },
        });
        let path = "/v1/red-packets";
        let id = client.create(path, &self.operator, &packet).await?;
        Ok(format!("/v1/red-packets/{id}"))
    }

    /// Opens a sale of one unit, and returns its id.
    pub(super) async fn open_sale(&self) -> anyhow::Result<String> {
        let mut client = LoadClient::connect(self.addr).await?;
        let sale = json!({
            "title": "bench", "stock": 1, "unit_price": { "amount": 1, "currency": "CNY" }, "hold_seconds": 86_400,
        });
        client.create("/v1/sales", &self.operator, &sale).await
    }

    /// Grants in the ledger: number to user and amount.
    pub(super) async fn ledger(&self, packet: &str) -> anyhow::Result<HashMap<u32, (String, i64)>> {
        let mut client = LoadClient::connect(self.addr).await?;
        let mut grants = HashMap::new();
        let mut after = 0;
        loop {
            let path = format!("{packet}/claims?after={after}&limit=1000");
            let answer = client.get(&path, &self.operator).await?.success()?;
            let page: Page = serde_json::from_value(answer)?;
            let Some(last) = page.claims.last() else {
                return Ok(grants);
            };
            after = last.number;
            let grant = |claim: Share| (claim.number, (claim.user, claim.amount.amount));
            grants.extend(page.claims.into_iter().map(grant));
        }
    }

    /// Waits until all grants are in the ledger's tables. Does nothing for an external service.
    pub(super) async fn settle(&self) -> anyhow::Result<()> {
        match &self.local {
            Some(local) => local.settle(SETTLE_MAX).await,
            None => Ok(()),
        }
    }

    /// Audits the ledger; `None` for an external service.
    pub(super) async fn audit(&self) -> anyhow::Result<Option<qiang_audit::AuditFindings>> {
        self.settle().await?;
        let Some(local) = &self.local else {
            return Ok(None);
        };
        let path = local.database();
        Ok(Some(
            tokio::task::spawn_blocking(move || qiang_audit::audit(&path)).await??,
        ))
    }

    pub(super) async fn stop(self) -> anyhow::Result<()> {
        match self.local {
            Some(local) => local.stop().await,
            None => Ok(()),
        }
    }
}

#[derive(Deserialize)]
struct Page {
    claims: Vec<Share>,
}

#[derive(Deserialize)]
struct Share {
    number: u32,
    user: String,
    amount: AmountBody,
}

pub(super) fn user_name(n: u32) -> String {
    format!("user-{n}")
}

fn address(url: &str) -> anyhow::Result<SocketAddr> {
    let parsed = web_url::parse(url).with_context(|| format!("invalid URL {url}"))?;
    if parsed.scheme() != "http" {
        bail!(
            "{url}: the benchmark supports only http: use the URL of the service without a proxy"
        );
    }
    let (host, port) = (web_url::host(&parsed), web_url::port(&parsed));
    let addrs = std::net::ToSocketAddrs::to_socket_addrs(&(host.as_str(), port));
    addrs
        .with_context(|| format!("cannot resolve {host}"))?
        .next()
        .with_context(|| format!("{host} has no address"))
}
