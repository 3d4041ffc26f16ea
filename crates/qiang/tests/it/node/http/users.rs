//! Users whose ids have letters of any script, over HTTP: in tokens, paths, bodies and lists.

use qiang_core::id::USER_ID_CHARS_MAX;
use serde_json::{Value, json};

use crate::node::http::common::{Service, packet};

/// The id in a path.
const IN_PATH: &str = "%E6%9D%8E%E9%9B%B7";

fn deposit(reference: &str) -> Value {
    json!({ "amount": 1_000, "currency": "CNY", "reference": reference })
}

#[tokio::test]
async fn a_user_has_a_name_of_any_script() {
    let service = Service::start().await;
    let (operator, li) = (service.operator(), service.token("李雷", "claim send"));
    let path = format!("/v1/accounts/{IN_PATH}");
    let made = service
        .post(&format!("{path}/deposits"), &operator, deposit("d-1"))
        .await;
    assert_eq!(made.status, 201, "{made:?}");
    // The header has the id as a path does.
    let location = made.header("location").to_owned();
    assert!(
        location.starts_with(&format!("{path}/deposits/")),
        "{location}"
    );
    let found = service.get(&location, &operator).await.json();
    assert_eq!(found["user"], "李雷");
    let account = service.get(&path, &li).await.json();
    assert_eq!(
        account["balances"][0]["available"]["amount"], 1_000,
        "{account}"
    );

    let mut sent = packet(1_000, 2);
    sent["audience"] = json!({ "users": ["李雷", "e\u{301}va"] });
    let sent = service.post("/v1/red-packets", &li, sent).await;
    assert_eq!(
        (sent.status, sent.text("sender")),
        (201, "李雷".to_owned()),
        "{sent:?}"
    );
    let packet = sent.text("id");
    let claims = format!("/v1/red-packets/{packet}/claims");
    let eva = service.token("\u{e9}va", "claim");
    for token in [&li, &eva] {
        let share = service.act(&claims, token).await;
        assert_eq!(share.status, 201, "{share:?}");
    }
    let composed = service.token("e\u{301}va", "claim");
    let again = service.act(&claims, &composed).await;
    assert_eq!(
        (again.status, again.text("user")),
        (200, "\u{e9}va".to_owned()),
        "{again:?}"
    );
    let own = service.get(&format!("{path}/claims"), &li).await.json();
    assert_eq!(own["data"].as_array().map(Vec::len), Some(1), "{own}");

    // Characters that break lines or hide in an id are refused in tokens and paths.
    for user in [
        "李 雷",
        "a\u{202e}b",
        "\u{200b}",
        "a\nb",
        &"李".repeat(USER_ID_CHARS_MAX + 1),
    ] {
        let token = service.token(user, "claim");
        let refused = service.act(&claims, &token).await;
        refused.assert_problem(401, "unauthenticated");
    }
    let spaced = format!("/v1/accounts/{IN_PATH}%E3%80%80");
    let refused = service.get(&spaced, &operator).await;
    refused.assert_problem(400, "bad-request");
    service.stop().await;
}
