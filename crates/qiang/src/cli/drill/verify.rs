//! DrillVerdict on a drill: each answered order is in the ledger, and the audit of engine and ledger holds.

use std::{
    collections::{BTreeSet, HashMap},
    time::{Duration, Instant},
};

use anyhow::Context as _;
use qiang::NodeConfig;
use qiang_audit::LedgerPlace;
use qiang_client::load::client::LoadClient;
use serde::Serialize;

use super::{OPERATOR, Orders, SCOPE, StagingSale, crowd::bearer};

/// Maximum time until the ledger has all orders.
const SETTLED_MAX: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(500);
const PAGE: u32 = 100;
/// Lost or doubled orders that the report names.
const NAMED_MAX: usize = 10;

/// DrillVerdict.
#[derive(Debug, Serialize)]
pub(super) struct DrillVerdict {
    /// Orders that users got an answer for.
    pub(super) answered: usize,
    /// Orders of the ledger.
    pub(super) in_ledger: usize,
    /// Answered orders that the ledger lacks or gives to another user, the first ones.
    pub(super) lost: Vec<String>,
    pub(super) lost_total: usize,
    /// Checks of the audit, and the broken ones.
    pub(super) checks: usize,
    pub(super) broken: Vec<&'static str>,
}

impl DrillVerdict {
    pub(super) fn is_ok(&self) -> bool {
        self.lost_total == 0 && self.broken.is_empty()
    }
}

pub(super) async fn verify(
    config: &NodeConfig,
    shop: &StagingSale,
    orders: Orders,
) -> anyhow::Result<DrillVerdict> {
    let over = Instant::now() + SETTLED_MAX;
    let (lost, in_ledger) = loop {
        let ledger = listed(shop).await?;
        let lost = missing(&orders, &ledger);
        if lost.is_empty() || Instant::now() >= over {
            break (lost, ledger.len());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    };
    let place = qiang::engine_place(&config.redis);
    let ledger = match config.ledger.url() {
        Some(url) => LedgerPlace::Database(url),
        None => LedgerPlace::File(&config.engine.data),
    };
    let audit = qiang_audit::audit_beside(ledger, &place);
    let audit = audit.await.context("audit the drill")?;
    let broken = audit.checks.iter().filter(|check| check.is_broken());
    Ok(DrillVerdict {
        answered: orders.len(),
        in_ledger,
        lost_total: lost.len(),
        lost: lost.into_iter().take(NAMED_MAX).collect(),
        checks: audit.checks.len(),
        broken: broken.map(|check| check.name).collect(),
    })
}

/// Answered orders that the ledger lacks, or gives to another user.
fn missing(orders: &Orders, ledger: &HashMap<String, String>) -> Vec<String> {
    let lost = orders
        .iter()
        .filter(|(user, order)| ledger.get(*order) != Some(*user));
    let lost: BTreeSet<_> = lost.map(|(_, order)| order.clone()).collect();
    lost.into_iter().collect()
}

/// Users of the sale's orders in the ledger, by order.
async fn listed(shop: &StagingSale) -> anyhow::Result<HashMap<String, String>> {
    let token = bearer(&shop.issuer, OPERATOR, SCOPE)?;
    let mut node = LoadClient::connect(shop.nodes[0]).await?;
    let mut orders = HashMap::new();
    let mut cursor = String::new();
    loop {
        let path = format!("/v1/sales/{}/orders?limit={PAGE}{cursor}", shop.sale);
        let page = node.get(&path, &token).await?.success()?;
        for order in page["data"].as_array().into_iter().flatten() {
            let text = |field: &str| order[field].as_str().unwrap_or_default().to_owned();
            orders.insert(text("id"), text("user"));
        }
        match page["next"].as_str() {
            Some(next) => cursor = format!("&after={next}"),
            None => return Ok(orders),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_another_user_is_lost() {
        let of = |orders: &[(&str, &str)]| -> HashMap<String, String> {
            let orders = orders.iter();
            orders
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        let answered = of(&[("ann", "s-1"), ("ben", "s-2"), ("cid", "s-3")]);
        let ledger = of(&[("s-1", "ann"), ("s-2", "eve")]);
        assert_eq!(missing(&answered, &ledger), ["s-2", "s-3"]);
    }
}
