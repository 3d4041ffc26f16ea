//! Passphrases are equal if they look equal, on any device.

use serde_json::json;

use crate::node::http::common::Service;

#[tokio::test]
async fn a_passphrase_is_what_people_see() {
    let service = Service::start().await;
    // Half and full width, composed and decomposed accents, and two kinds of blanks.
    let pairs = [
        ("888888", "８８８８８８"),
        ("８８８８８８", "888888"),
        ("caf\u{e9}", "cafe\u{301}"),
        ("cafe\u{301}", " caf\u{e9}"),
        ("恭喜\u{3000}发财", "恭喜 发财"),
        ("ｶﾞﾁｬﾎﾟﾝ", "ガチャポン"),
    ];
    for (n, (made, said)) in (0..).zip(pairs) {
        let sale = service
            .sale(9, |body| body["audience"] = json!({ "passphrase": made }))
            .await;
        let path = format!("/v1/sales/{sale}/orders");
        let claim = async |user: &str, passphrase: &str| {
            let token = service.token(&format!("{user}-{n}"), "claim");
            let body = json!({ "passphrase": passphrase });
            service.post(&path, &token, body).await
        };
        let wrong = claim("eve", &format!("{said}1")).await;
        wrong.assert_problem(403, "passphrase-wrong");
        for (user, passphrase) in [("ann", said), ("bob", made)] {
            let reply = claim(user, passphrase).await;
            assert_eq!(reply.status, 201, "{made} {passphrase}: {reply:?}");
        }
    }
    // The minimum length counts visible characters.
    let mut short = crate::node::http::common::sale(9);
    short["audience"] = json!({ "passphrase": "８８８８８" });
    let refused = service.post("/v1/sales", &service.operator(), short).await;
    refused.assert_problem(422, "invalid");
    service.stop().await;
}

/// The process that created the campaign knows its passphrase. Another process has only the hash in the ledger.
#[tokio::test]
async fn a_passphrase_is_what_people_see_after_a_restart() {
    let service = Service::start().await;
    let sale = service
        .sale(9, |body| {
            body["audience"] = json!({ "passphrase": "８８８８８８" })
        })
        .await;
    let service = service.restart().await;
    let path = format!("/v1/sales/{sale}/orders");
    for (user, passphrase) in [("ann", "888888"), ("bob", "８８８８８８")] {
        let token = service.token(user, "claim");
        let body = json!({ "passphrase": passphrase });
        let reply = service.post(&path, &token, body).await;
        assert_eq!(reply.status, 201, "{passphrase}: {reply:?}");
    }
    service.stop().await;
}
