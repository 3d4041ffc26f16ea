//! Imports and exports over HTTP, with the embedded engine.

use serde_json::{Value, json};

use super::Shop;
use crate::common::{Service, call, paid};

/// Sales of a shop: all columns in one row, required ones in the other.
const SALES: &str = "\
id,title,stock,price,currency,starts_at,ends_at,per_user_limit,hold_seconds,seller,product_id,description,image_url,\
admission_percent,payment_policy,payment_tolerance,waiting_room,requirements
s-1,\"Phone, 10\",100,999.00,CNY,2031-01-15T08:00:00Z,2031-01-15T09:00:00Z,2,600,shop,phone/10,\"Black
256 GB\",/phone.png,200,accept_with_tolerance,0.50,false,ticket
s-2,茶,5,300,JPY,,,,,,,,,,,,,
";
const BALANCES: &str = "user,amount,currency,reference\n\
    ann,12.34,CNY,old-1\n李雷,5.00,CNY,\nann,300,JPY,\nzoe,0.00,CNY,\n";

fn shop<'a>(service: &'a Service) -> Shop<'a> {
    Shop {
        addr: service.addr,
        folder: service.folder.path(),
        token: service.operator(),
    }
}

/// Imports both files twice. Afterwards everything is there once.
pub(super) fn move_in(shop: &Shop<'_>) {
    shop.write("sales.csv", SALES);
    shop.write("balances.csv", BALANCES);
    for (file, said) in [("sales.csv", "2 sales"), ("balances.csv", "3 balances")] {
        let what = file
            .trim_end_matches(".csv")
            .replace("balances", "accounts");
        let dry = shop.run(&["import", &what, file, "--dry-run"]).ok();
        assert_eq!(
            dry,
            format!("{said} without an error; nothing was changed\n")
        );
    }
    assert!(shop.exported("sales").is_empty() && shop.exported("deposits").is_empty());
    for (what, file, count) in [("sales", "sales.csv", 2), ("accounts", "balances.csv", 3)] {
        for (result, said) in [
            (
                "created",
                format!("{count} created, 0 present already, 0 refused"),
            ),
            (
                "present",
                format!("0 created, {count} present already, 0 refused"),
            ),
        ] {
            let ran = shop.run(&["import", what, file, "--json"]);
            assert!(ran.stderr.contains(&said), "{}", ran.stderr);
            for line in ran.ok().lines() {
                let row: Value = serde_json::from_str(line).unwrap();
                assert_eq!(row["result"], result, "{row}");
            }
        }
    }
    let sales = shop.exported("sales");
    assert_eq!(sales.len(), 2);
    let phone = sales
        .iter()
        .find(|sale| sale["title"] == "Phone, 10")
        .unwrap();
    let expected = json!({
        "stock": 100, "price": "999.00", "currency": "CNY", "starts_at": "2031-01-15T08:00:00.000Z",
        "ends_at": "2031-01-15T09:00:00.000Z", "per_user_limit": 2, "hold_seconds": 600, "seller": "shop",
        "product_id": "phone/10", "description": "Black\n256 GB", "image_url": "/phone.png",
        "admission_percent": 200, "payment_policy": "accept_with_tolerance", "payment_tolerance": "0.50",
        "waiting_room": false, "requirements": "ticket", "phase": "scheduled", "remaining": 100, "granted": 0,
    });
    for (column, value) in expected.as_object().unwrap() {
        assert_eq!(phone[column], *value, "{column}: {phone}");
    }
    let mut accounts: Vec<_> = shop
        .exported("accounts")
        .iter()
        .map(|row| format!("{} {} {}", row["user"], row["amount"], row["currency"]))
        .collect();
    accounts.sort();
    assert_eq!(
        accounts,
        [
            "\"ann\" \"12.34\" \"CNY\"",
            "\"ann\" \"300\" \"JPY\"",
            "\"李雷\" \"5.00\" \"CNY\""
        ]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_import_makes_each_row_once_and_books_balance() {
    let service = Service::start().await;
    move_in(&shop(&service));
    let file = service.folder.path().join("qiang.db");
    let audit = qiang_audit::audit_served(&file).unwrap();
    assert!(audit.ok, "{audit:?}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_error_names_line_and_column_and_nothing_is_made() {
    let service = Service::start().await;
    let shop = shop(&service);
    let right =
        "{\"id\":\"a\",\"title\":\"x\",\"stock\":5,\"price\":\"1.00\",\"currency\":\"CNY\"}";
    let wrong = [
        right,
        // The same id, and a limit above the stock.
        &right.replace("5,", "5,\"per_user_limit\":6,"),
        &right.replace("\"a\"", "\"b\"").replace("1.00", "1"),
        &right.replace("\"a\"", "\"c\"").replace("CNY", "QQQ"),
        &right.replace("\"a\"", "\"d\"").replace("\"x\"", "\" \""),
        &right
            .replace("\"a\"", "\"e\"")
            .replace("5,", "\"many\",\"ends_at\":\"2020-01-01T00:00:00Z\","),
        &right
            .replace("\"a\"", "\"f\"")
            .replace("5,", "0,\"audience\":\"users\",\"hold_seconds\":0,"),
        "{\"id\":\"g\"",
        &right.replace("\"a\"", "\"h\"").replace(
            "5,",
            "5,\"reference\":\"a b\",\"metadata\":\"{\\\"a b\\\":\\\"1\\\"}\",",
        ),
        &right
            .replace("\"a\"", "\"i\"")
            .replace("5,", "5,\"metadata\":\"[]\","),
    ];
    shop.write("sales.jsonl", &wrong.join("\n"));
    for dry_run in [&["--dry-run"][..], &[]] {
        let args = [&["import", "sales", "sales.jsonl"], dry_run].concat();
        let ran = shop.run(&args);
        ran.failed(
            2,
            &[
                "sales.jsonl:2: id: line 1 has the same id",
                "sales.jsonl:2: per_user_limit: a sale's per-user limit is 1 up to its stock",
                "sales.jsonl:3: price: 1 is not an amount of CNY",
                "sales.jsonl:4: currency: QQQ: a currency is an ISO 4217 code",
                "sales.jsonl:5: title: a title is 1 to",
                "sales.jsonl:6: stock: invalid digit",
                "sales.jsonl:7: audience: audiences are not imported",
                "sales.jsonl:7: stock: a sale's stock is 1 to",
                "sales.jsonl:7: hold_seconds: a hold is at least 1",
                "sales.jsonl:8: character 9: the line is not a JSON object",
                "sales.jsonl:9: reference: ",
                "sales.jsonl:9: metadata: a name in metadata is",
                "sales.jsonl:10: metadata: not a JSON object of texts",
                "13 errors; nothing was changed",
            ],
        );
    }
    let over = right.replace("5,", "5,\"ends_at\":\"2020-01-01T00:00:00Z\",");
    shop.write("over.jsonl", &over);
    shop.run(&["import", "sales", "over.jsonl"])
        .failed(2, &["over.jsonl:1: ends_at: the window is over already"]);
    shop.write(
        "balances.csv",
        "user,amount,currency,refunds_due\nann,1.00,CNY,0.00\nbob,-1.00,CNY,0.05\n",
    );
    shop.run(&["import", "accounts", "balances.csv"]).failed(
        2,
        &[
            "balances.csv:3: amount: -1.00 is not an amount",
            "balances.csv:3: refunds_due: refunds due are not imported",
        ],
    );
    let json = shop.run(&["import", "accounts", "balances.csv", "--json"]);
    let first: Value = serde_json::from_str(json.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["line"], &first["column"]),
        (&json!(3), &json!("refunds_due"))
    );
    shop.run(&["import", "accounts", "balances.xlsx"])
        .failed(2, &["must end in .csv"]);
    assert!(shop.exported("sales").is_empty() && shop.exported("deposits").is_empty());
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_rows_do_not_stop_the_others() {
    let service = Service::start().await;
    let shop = shop(&service);
    // The embedded engine has no replicas.
    let sales = "id,title,stock,price,currency,ack\na,x,5,1.00,CNY,replica\nb,y,5,1.00,CNY,\n";
    shop.write("sales.csv", sales);
    let ran = shop.run(&["import", "sales", "sales.csv"]);
    let printed = ran.failed(
        1,
        &[
            "1 created, 0 present already, 1 refused",
            "1 rows were refused",
        ],
    );
    assert!(
        printed.contains("refused   a\n  sales.csv:2: "),
        "{printed}"
    );
    // A corrected file makes the rest.
    shop.write("sales.csv", &sales.replace("replica", "fsync"));
    let ran = shop.run(&["import", "sales", "sales.csv"]);
    assert!(
        ran.stderr
            .contains("1 created, 1 present already, 0 refused"),
        "{}",
        ran.stderr
    );
    // A changed row under the same id is refused, not made again.
    shop.write(
        "sales.csv",
        &sales.replace("replica", "fsync").replace("b,y", "b,z"),
    );
    shop.run(&["import", "sales", "sales.csv"])
        .failed(1, &["0 created, 1 present already, 1 refused"]);
    assert_eq!(shop.exported("sales").len(), 2);
    // A wrong token ends the import.
    let stranger = Shop {
        token: service.token("eve", "claim"),
        ..shop
    };
    stranger
        .run(&["import", "sales", "sales.csv"])
        .failed(1, &["forbidden"]);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_outlives_the_keys() {
    let service = Service::start().await;
    let shop = shop(&service);
    shop.write(
        "sales.csv",
        "id,title,stock,price,currency\na,x,5,1.00,CNY\n",
    );
    let import = ["import", "sales", "sales.csv", "--record", "made.jsonl"];
    shop.run(&import).ok();
    // Keys are kept for a day.
    service.clock.advance_ms(2 * 24 * 3_600_000);
    service.reconcile();
    let later = Shop {
        token: service.operator(),
        ..shop
    };
    let ran = later.run(&import);
    assert!(
        ran.stderr.contains("0 created, 1 present already"),
        "{}",
        ran.stderr
    );
    assert_eq!(later.exported("sales").len(), 1);
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_what_happened_and_can_be_imported() {
    let service = Service::start().await;
    let shop = shop(&service);
    move_in(&shop);
    let sale = service.sale(3, |sale| sale["title"] = json!("now")).await;
    let labels = json!({ "channel": "app", "note": "上海, \"1\"" });
    let labelled = |body: &mut Value| {
        body["title"] = json!("later");
        (body["starts_at"], body["ends_at"]) = (
            json!("2031-02-01T00:00:00.000Z"),
            json!("2031-02-02T00:00:00.000Z"),
        );
        (body["reference"], body["metadata"]) = (json!("PO-4711"), labels.clone());
    };
    service.sale(3, labelled).await;
    let packet = service
        .red_packet(2, |packet| packet["reference"] = json!("RP-1"))
        .await;
    let orders = format!("/v1/sales/{sale}/orders");
    let order = service
        .act(&orders, &service.token("ann", "claim"))
        .await
        .text("id");
    service
        .act(&orders, &service.token("bob", "claim"))
        .await
        .text("id");
    let pay = format!("/v1/orders/{order}/payment");
    let answer = service
        .post(&pay, &service.operator(), paid("p-1", 500))
        .await;
    assert_eq!(answer.status, 200, "{answer:?}");
    let claims = format!("/v1/red-packets/{packet}/claims");
    let claim = service.act(&claims, &service.token("carl", "claim")).await;
    assert_eq!(claim.status, 201, "{claim:?}");
    let share = claim.json()["amount"]["amount"].as_i64().unwrap();
    // Lists show settled entries.
    let settled = "/v1/accounts/carl";
    while !call(
        service.addr,
        "GET",
        settled,
        Some(&service.operator()),
        &[],
        None,
    )
    .await
    .json()["settled"]
        .as_bool()
        .unwrap()
    {
        tokio::task::yield_now().await;
    }
    let change = json!({ "reference": "SO-9", "metadata": { "warehouse": "3" } });
    let metadata = format!("/v1/orders/{order}/metadata");
    let changed = service.patch(&metadata, &service.operator(), change).await;
    assert_eq!(changed.status, 200, "{changed:?}");
    let orders = shop.exported("orders");
    assert_eq!(orders[1]["reference"], "SO-9");
    assert_eq!(orders[1]["metadata"], "{\"warehouse\":\"3\"}");
    assert_eq!(
        (&orders[0]["reference"], &orders[0]["metadata"]),
        (&Value::Null, &Value::Null)
    );
    let states: Vec<_> = orders
        .iter()
        .map(|row| (row["user"].clone(), row["state"].clone()))
        .collect();
    assert_eq!(
        states,
        [(json!("bob"), json!("held")), (json!("ann"), json!("paid"))]
    );
    assert_eq!(
        (&orders[1]["id"], &orders[1]["amount"]),
        (&json!(order), &json!("5.00"))
    );
    let payments = shop.exported("payments");
    assert_eq!(
        (&payments[0]["reference"], &payments[0]["outcome"]),
        (&json!("p-1"), &json!("paid"))
    );
    let claims = shop.exported("claims");
    let expected = format!("{}.{:02}", share / 100, share % 100);
    assert_eq!(
        (&claims[0]["user"], &claims[0]["amount"]),
        (&json!("carl"), &json!(expected))
    );
    let packets = shop.exported("red-packets");
    assert_eq!(packets[0]["reference"], "RP-1");
    assert_eq!(
        (&packets[0]["total"], &packets[0]["claimed"]),
        (&json!("100.00"), &json!(expected))
    );
    let balance = |user: &str| {
        let rows = shop.exported("accounts");
        let row = rows
            .into_iter()
            .find(|row| row["user"] == user && row["currency"] == "CNY");
        row.map(|row| row["amount"].clone())
    };
    assert_eq!(balance("carl"), Some(json!(expected)));
    assert_eq!(balance("sam"), Some(json!("0.00")));
    for (what, rows) in [("withdrawals", 0), ("refunds", 0), ("deposits", 4)] {
        assert_eq!(shop.exported(what).len(), rows, "{what}");
    }
    // CSV has a header, and the same rows.
    let csv = shop.run(&["export", "orders"]).ok();
    assert!(
        csv.starts_with("id,campaign,number,user,quantity,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 3, "{csv}");

    // Another installation takes the files.
    let other = Service::start().await;
    let there = self::shop(&other);
    there.write(
        "all.csv",
        &shop.run(&["export", "sales", "--phase", "scheduled"]).ok(),
    );
    there.write("money.csv", &shop.run(&["export", "accounts"]).ok());
    there.run(&["import", "sales", "all.csv"]).ok();
    there.run(&["import", "accounts", "money.csv"]).ok();
    let core = |shop: &Shop<'_>| {
        let mut rows = shop.exported("sales");
        rows.retain(|row| row["phase"] == "scheduled");
        assert_eq!(rows.len(), 2);
        let later = rows.iter().find(|row| row["title"] == "later").unwrap();
        assert_eq!(later["reference"], "PO-4711");
        let kept = later["metadata"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(kept).unwrap(), labels);
        // Each installation orders them by its own ids.
        rows.sort_by_key(|row| row["title"].to_string());
        for row in &mut rows {
            let row = row.as_object_mut().unwrap();
            for column in ["id", "created_at", "phase", "granted", "remaining"] {
                row.remove(column);
            }
        }
        rows
    };
    assert_eq!(core(&shop), core(&there));
    let money = |shop: &Shop<'_>| {
        let rows = shop.exported("accounts").into_iter();
        rows.filter(|row| row["amount"] != "0.00")
            .collect::<Vec<_>>()
    };
    assert_eq!(money(&shop), money(&there));
    for service in [service, other] {
        let file = service.folder.path().join("qiang.db");
        let audit = qiang_audit::audit_served(&file).unwrap();
        assert!(audit.ok, "{audit:?}");
        service.stop().await;
    }
}
