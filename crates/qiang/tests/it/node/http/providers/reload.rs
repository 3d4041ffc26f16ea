//! Keys of accounts are replaced while the service runs.

use std::time::Duration;

use serde_json::json;

use super::{
    ShopWithAccounts, put,
    stripe::{ACCOUNTS, SECRET, event, signature},
};

const NEW: &str = "whsec_of_the_endpoint_after_it_0002";

impl ShopWithAccounts {
    /// Waits until events that are signed with these secrets have these statuses.
    async fn until(&self, expected: [(&str, u16); 2]) {
        let now = self.now_s();
        let body = event("customer.created", now, &json!({"id": "cus_1"}));
        let mut found = [0; 2];
        for _ in 0..200 {
            for (found, (secret, _)) in found.iter_mut().zip(expected) {
                let header = signature(secret, now, &body);
                *found = self.stripe_signed(&header, &body).await.status;
            }
            if found == expected.map(|(_, status)| status) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("expected {expected:?}, found {found:?}");
    }

    async fn is_failing(&self, is_failing: bool) {
        let line = format!(
            "\nqiang_payment_accounts_failing {}\n",
            u8::from(is_failing)
        );
        for _ in 0..200 {
            let metrics = self.service.get("/metrics", "").await;
            if String::from_utf8_lossy(&metrics.body).contains(&line) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("never {line}");
    }
}

#[tokio::test]
async fn secrets_are_replaced_without_a_gap_or_a_restart() {
    let shop = ShopWithAccounts::start(ACCOUNTS, &[("stripe.secret", SECRET)]).await;
    let file = |name: &str| shop.folder.path().join(name);
    shop.until([(SECRET, 200), (NEW, 401)]).await;
    shop.is_failing(false).await;
    // The new secret is missing: what was read before counts.
    let both = format!("{ACCOUNTS}\nrotation_secret_file = 'new.secret'\n");
    put(&file("accounts.toml"), &both);
    shop.is_failing(true).await;
    shop.until([(SECRET, 200), (NEW, 401)]).await;
    put(&file("new.secret"), NEW);
    shop.until([(SECRET, 200), (NEW, 200)]).await;
    shop.is_failing(false).await;
    put(&file("stripe.secret"), NEW);
    shop.until([(SECRET, 401), (NEW, 200)]).await;
    put(&file("accounts.toml"), ACCOUNTS);
    shop.until([(SECRET, 401), (NEW, 200)]).await;
    put(&file("accounts.toml"), "");
    shop.until([(SECRET, 401), (NEW, 401)]).await;
    shop.stop().await;
}
