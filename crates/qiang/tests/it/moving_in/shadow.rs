//! `qiang shadow report` on files.

use serde_json::{Value, json};

use super::run;

const SALES: &str = "id,title,stock,price,currency,starts_at,ends_at,hold_seconds\n\
    s-1,phone,2,9.00,CNY,2026-11-21T12:00:00Z,2026-11-21T13:00:00Z,600\n";

fn line(second: u32, user: &str, rest: &str) -> String {
    format!(
        "{{\"at\":\"2026-11-21T12:00:{second:02}Z\",\"sale\":\"s-1\",\"user\":\"{user}\",{rest}}}\n"
    )
}

#[test]
fn a_report_says_where_the_shop_differs() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("sales.csv", SALES);
    let right = line(0, "ann", "\"order\":\"o1\",\"decision\":\"granted\"")
        + &line(1, "bob", "\"order\":\"o2\",\"decision\":\"granted\"")
        + "{\"at\":\"2026-11-21T12:00:02Z\",\"event\":\"paid\",\"order\":\"o1\"}\n"
        + &line(
            3,
            "carl",
            "\"decision\":\"refused\",\"reason\":\"sold out\"",
        );
    write("log.jsonl", &right);
    let report = ["shadow", "report", "log.jsonl", "--sales", "sales.csv"];
    let printed = run(folder.path(), &report, &[]).ok();
    let expected = "3 claims, 3 with the same decision, 0 with another\n\
        s-1: stock 2, 3 claims, sold there 2, here 2\n";
    assert_eq!(printed, expected);

    let wrong = right
        + &line(4, "ann", "\"order\":\"o3\",\"decision\":\"granted\"")
        + &line(5, "dora", "\"order\":\"o4\",\"decision\":\"granted\"");
    write("log.jsonl", &wrong);
    let printed = run(folder.path(), &report, &[]).failed(1, &[]);
    let expected = "5 claims, 3 with the same decision, 2 with another\n\
        s-1: stock 2, 5 claims, sold there 4, here 2\n  \
          oversold        1\n  \
          second_order    1\n\
        line 5: second_order: ann claimed 1 of s-1; already_granted here with 0 remaining\n\
        line 6: oversold: dora claimed 1 of s-1; sold_out here with 0 remaining\n";
    assert_eq!(printed, expected);
    let as_json = [&report[..], &["--json"]].concat();
    let printed = run(folder.path(), &as_json, &[]).failed(1, &[]);
    let object: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(object["differences"][1]["kind"], "oversold");
    assert_eq!(
        object["sales"][0]["differences"],
        json!({ "oversold": 1, "second_order": 1 })
    );
    // The same log gives the same report, to the byte.
    assert_eq!(run(folder.path(), &as_json, &[]).failed(1, &[]), printed);
}

#[test]
fn errors_of_the_log_name_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("sales.csv", SALES);
    let log = "at,event,sale,user,quantity,order,decision,stock\n\
        2026-11-21T12:00:00Z,,s-1,ann,0,,granted,\n\
        yesterday,,s-1,ann,,,maybe,\n\
        2026-11-21T12:00:00Z,paid,,,,,,\n\
        2026-11-21T12:00:00Z,sold,,,,,,\n\
        2026-11-21T12:00:00Z,stock,s-1,,,,,few\n";
    write("log.csv", log);
    let report = ["shadow", "report", "log.csv", "--sales", "sales.csv"];
    run(folder.path(), &report, &[]).failed(
        2,
        &[
            "log.csv:2: quantity: a claim is for at least 1 unit",
            "log.csv:3: at: a time must have the form of RFC 3339",
            "log.csv:3: decision: choose one of granted, refused",
            "log.csv:4: order: is missing",
            "log.csv:5: event: choose one of claim, paid",
            "log.csv:6: stock: invalid digit",
            "6 errors",
        ],
    );
    let unsorted =
        line(5, "ann", "\"decision\":\"granted\"") + &line(4, "bob", "\"decision\":\"granted\"");
    write("log.jsonl", &unsorted);
    let report = ["shadow", "report", "log.jsonl", "--sales", "sales.csv"];
    run(folder.path(), &report, &[]).failed(
        2,
        &["log.jsonl:2: at: the line is earlier", "sort the file"],
    );
}
