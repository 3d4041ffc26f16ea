//! Commands that call a running service: sales, packets, orders and accounts over HTTP, and exit codes.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Output,
};

use crate::common::{Service, call, output, packet};
use serde_json::{Value, json};

/// Output and exit code of a command.
struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Ended {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Expects success; returns the output.
    #[track_caller]
    fn did(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout.trim_end().to_owned()
    }

    #[track_caller]
    fn json(self) -> Value {
        serde_json::from_str(&self.did()).unwrap()
    }

    /// Expects a failure with an error of one line.
    #[track_caller]
    fn failed(self, code: i32, expected: &str) -> String {
        assert_eq!(self.code, Some(code), "{}", self.stderr);
        assert!(self.stderr.contains(expected), "{}", self.stderr);
        assert_eq!(self.stderr.trim_end().lines().count(), 1, "{}", self.stderr);
        self.stderr
    }
}

/// The program, with the token of a user.
struct Shell<'a> {
    service: &'a Service,
    token: String,
}

impl Shell<'_> {
    fn run(&self, args: &[&str]) -> Ended {
        let url = format!("http://{}", self.service.addr);
        let env = [("QIANG_URL", url.as_str()), ("QIANG_TOKEN", &self.token)];
        Ended::of(output(self.service.folder.path(), args, &env))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sale_and_its_orders() {
    let service = Service::start().await;
    let shell = Shell {
        service: &service,
        token: service.operator(),
    };
    let create = [
        "sale",
        "create",
        "--title",
        "Phone 10",
        "--stock",
        "5",
        "--price",
        "7.00",
        "CNY",
        "--limit",
        "2",
        "--product-id",
        "phone/10",
        "--requires",
        "ticket",
        "--hold-seconds",
        "600",
    ];
    let id = shell.run(&create).did();
    let sale = shell.run(&["sale", "show", &id, "--json"]).json();
    assert_eq!(sale["title"], json!("Phone 10"));
    assert_eq!(
        sale["unit_price"],
        json!({ "amount": 700, "currency": "CNY" })
    );
    assert_eq!(sale["requirements"], json!(["ticket"]));
    assert_eq!(
        (&sale["per_user_limit"], &sale["hold_seconds"]),
        (&json!(2), &json!(600))
    );
    let shown = shell.run(&["sale", "show", &id]).did();
    assert!(shown.contains("live, granted 0, remaining 5"), "{shown}");
    // One key makes one sale.
    let keyed = [&create[..], &["--idempotency-key", "k-1"]].concat();
    let second = shell.run(&keyed).did();
    assert_eq!(shell.run(&keyed).did(), second);
    let listed = shell
        .run(&["sale", "list", "--json", "--phase", "live"])
        .did();
    let mut ids: Vec<_> = listed
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    ids.sort_by_key(ToString::to_string);
    let mut made = [json!(id), json!(second)];
    made.sort_by_key(ToString::to_string);
    assert_eq!(ids, made);

    let plain = [
        "sale", "create", "--title", "x", "--stock", "3", "--price", "5.00", "CNY",
    ];
    let plain = shell.run(&plain).did();
    let orders = format!("/v1/sales/{plain}/orders");
    let order = service
        .act(&orders, &service.token("ann", "claim"))
        .await
        .text("id");
    let other = service
        .act(&orders, &service.token("bob", "claim"))
        .await
        .text("id");
    let shown = shell.run(&["order", "show", &order]).did();
    assert!(
        shown.contains("held") && shown.contains("ann") && shown.contains("1 for 5.00 CNY"),
        "{shown}"
    );
    let pay = ["order", "pay", &order, "--reference", "p-1", "--amount"];
    let less = ["order", "pay", &other, "--reference", "p-0", "--amount"];
    let less = shell
        .run(&[&less[..], &["4.99", "EUR", "--json"]].concat())
        .json();
    assert_eq!(
        (&less["outcome"], &less["order"]["state"]),
        (&json!("refund_due"), &json!("held"))
    );
    let due = shell.run(&["order", "refunds", &other]).did();
    assert!(
        due.contains("0.00 CNY due in all") && due.contains("4.99 EUR due in all"),
        "{due}"
    );
    for _ in 0..2 {
        let paid = shell
            .run(&[&pay[..], &["5.00", "CNY", "--json"]].concat())
            .json();
        assert_eq!(
            (&paid["outcome"], &paid["order"]["state"]),
            (&json!("paid"), &json!("paid"))
        );
    }
    shell
        .run(&["order", "cancel", &order])
        .failed(1, "order-conflict");
    assert!(
        shell
            .run(&["order", "return", &order])
            .did()
            .contains("returned")
    );
    assert!(
        shell
            .run(&["order", "cancel", &other])
            .did()
            .contains("cancelled")
    );
    let owed = || shell.run(&["order", "owed"]).did();
    assert!(owed().contains(&format!("{order}  ann")), "{}", owed());
    let back = [
        "order",
        "refund",
        &order,
        "--reference",
        "b-1",
        "--amount",
        "5.00",
        "CNY",
    ];
    for _ in 0..2 {
        assert_eq!(
            shell.run(&back).did(),
            format!("{order}: 5.00 CNY refunded")
        );
    }
    assert_eq!(
        shell.run(&["order", "refunds", &order]).did(),
        format!("{order}: 5.00 CNY due in all, 5.00 CNY of it refunded")
    );
    let back = [
        "order",
        "refund",
        &other,
        "--reference",
        "b-0",
        "--amount",
        "4.99",
        "EUR",
    ];
    assert_eq!(
        shell.run(&back).did(),
        format!("{other}: 4.99 EUR refunded")
    );
    assert_eq!(owed(), "");
    let first = |args: &[&str]| {
        let listed = shell.run(args).did();
        let line = listed.lines().nth(1).unwrap_or_default().to_owned();
        (listed.lines().count(), line)
    };
    let (lines, line) = first(&[
        "order", "list", "ann", "--sale", &plain, "--state", "returned",
    ]);
    assert!(lines == 2 && line.contains(&order), "{line}");
    let (lines, line) = first(&["order", "list", "--sale", &plain]);
    assert!(
        lines == 3 && line.contains(&format!("{other}  bob")),
        "{line}"
    );
    let (lines, line) = first(&["payment", "list", "bob", "--outcome", "refund_due"]);
    assert!(lines == 2 && line.contains("4.99 EUR"), "{line}");
    let none = [
        "payment",
        "list",
        "--created-before",
        "2000-01-01T00:00:00Z",
    ];
    assert_eq!(shell.run(&none).did(), "");
    let shown = shell.run(&["payment", "show", "p-1", "--json"]).json();
    assert_eq!(shown["object"], "payment");
    let (lines, line) = first(&["payment", "refunds", "--reference", "b-0"]);
    assert!(
        lines == 2 && line.contains(&format!("{other}  bob  b-0")),
        "{line}"
    );

    assert!(
        shell
            .run(&["sale", "pause", &plain])
            .did()
            .contains("paused")
    );
    assert!(
        shell
            .run(&["sale", "resume", &plain])
            .did()
            .contains("live")
    );
    shell
        .run(&["sale", "archive", &plain])
        .failed(1, "phase-conflict");
    assert!(
        shell
            .run(&["sale", "close", &plain])
            .did()
            .contains("closed, granted 0")
    );
    assert_eq!(
        shell.run(&["sale", "archive", &plain]).did(),
        format!("{plain}: archived")
    );
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_and_accounts() {
    let service = Service::start().await;
    let operator = Shell {
        service: &service,
        token: service.operator(),
    };
    let sam = Shell {
        service: &service,
        token: service.token("sam", "send claim"),
    };
    let deposit = [
        "account",
        "deposit",
        "sam",
        "10.00",
        "CNY",
        "--reference",
        "d-1",
    ];
    let first = operator.run(&deposit).did();
    assert_eq!(operator.run(&deposit).did(), first);
    assert_eq!(
        operator.run(&["account", "show", "sam"]).did(),
        "sam: 10.00 CNY"
    );
    sam.run(&[
        "account",
        "deposit",
        "sam",
        "0.01",
        "CNY",
        "--reference",
        "d-2",
    ])
    .failed(1, "--scope");
    let more = operator
        .run(&[
            "account",
            "deposit",
            "sam",
            "0.07",
            "CNY",
            "--reference",
            "d-3",
        ])
        .did();
    let reverse = ["account", "reverse", "sam", &more];
    let part = [&reverse[..], &["0.02", "CNY", "--idempotency-key", "r-1"]].concat();
    for _ in 0..2 {
        assert_eq!(operator.run(&part).did(), "sam: 0.02 CNY reversed");
    }
    assert_eq!(operator.run(&reverse).did(), "sam: 0.05 CNY reversed");
    let withdraw = [
        "account",
        "withdraw",
        "sam",
        "1.00",
        "CNY",
        "--reference",
        "w-1",
    ];
    assert_eq!(operator.run(&withdraw).did(), "sam: 1.00 CNY withdrawn");
    let deposits = operator.run(&["account", "deposits", "sam"]).did();
    let newest = deposits.lines().nth(1).unwrap_or_default();
    assert!(
        newest.contains("0.07 CNY      0.07 CNY      sam"),
        "{newest}"
    );
    let withdrawn = sam.run(&["account", "withdrawals", "--json"]).json();
    assert_eq!(
        (&withdrawn["reference"], &withdrawn["object"]),
        (&json!("w-1"), &json!("withdrawal"))
    );
    std::fs::write(service.folder.path().join("word"), "sesame\n").unwrap();
    let send = [
        "packet",
        "send",
        "--title",
        "恭喜发财",
        "--total",
        "9.00",
        "CNY",
        "--shares",
        "3",
    ];
    let more = [
        "--rule",
        "equal",
        "--draws",
        "grabbers",
        "--passphrase-file",
        "word",
    ];
    let id = sam.run(&[&send[..], &more].concat()).did();
    let packet = sam.run(&["packet", "show", &id, "--json"]).json();
    assert_eq!(
        (&packet["audience"], &packet["draws"]),
        (&json!("passphrase"), &json!("grabbers"))
    );
    sam.run(&send).failed(1, "insufficient-funds");
    let (path, ann) = (
        format!("/v1/red-packets/{id}/claims"),
        service.token("ann", "claim"),
    );
    let claimed = service
        .post(&path, &ann, json!({ "passphrase": "sesame" }))
        .await;
    assert_eq!(claimed.status, 201, "{claimed:?}");
    let mut claims = String::new();
    for _ in 0..100 {
        claims = sam.run(&["packet", "claims", &id]).did();
        if claims.contains("ann") {
            break;
        }
    }
    assert!(
        claims.contains("3.00 CNY") && claims.contains("ann"),
        "{claims}"
    );
    assert!(sam.run(&["packet", "list", "--mine"]).did().contains(&id));
    assert!(
        operator
            .run(&["packet", "close", &id])
            .did()
            .contains("returned 2")
    );
    let shown = sam.run(&["packet", "show", &id]).did();
    assert!(shown.contains("refunded 6.00 CNY"), "{shown}");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn packets_of_a_file_are_sent_once_each() {
    let service = Service::start().await;
    let sam = Shell {
        service: &service,
        token: service.token("sam", "send"),
    };
    // More packets than one request may contain.
    let packets: Vec<_> = (0..120)
        .map(|n| {
            json!({ "idempotency_key": format!("k-{n}"), "red_packet": packet(10, 2) }).to_string()
        })
        .collect();
    std::fs::write(service.folder.path().join("packets"), packets.join("\n")).unwrap();
    let send = ["packet", "send-many", "--from", "packets"];
    service.deposit("sam", 1_010).await;
    let ended = sam.run(&send);
    assert_eq!(ended.stdout.lines().count(), 120, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("created   k-100  "),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("refused   k-101  "),
        "{}",
        ended.stdout
    );
    ended.failed(1, "19 of 120 packets were refused");
    service.deposit("sam", 190).await;
    let again = sam.run(&[&send[..], &["--json"]].concat()).did();
    let results: Vec<Value> = again
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |result: &str| results.iter().filter(|it| it["result"] == result).count();
    assert_eq!((of("created"), of("replayed")), (19, 101));
    assert_eq!(service.balance("sam").await, 0);
    std::fs::write(
        service.folder.path().join("packets"),
        "\n{\"idempotency_key\": 1}",
    )
    .unwrap();
    sam.run(&send).failed(2, "packets:2: invalid type");
    sam.run(&["packet", "send-many", "--from", "missing"])
        .failed(2, "cannot read missing");
    service.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_is_one_line_that_says_what_to_do() {
    let service = Service::start().await;
    let nobody = Shell {
        service: &service,
        token: String::new(),
    };
    let id = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80";
    nobody
        .run(&["sale", "list"])
        .failed(1, "--token-file or QIANG_TOKEN");
    // A sale is shown to a user who has its id.
    nobody
        .run(&["sale", "show", id])
        .failed(1, "unknown-campaign");
    let ann = Shell {
        service: &service,
        token: service.token("ann", "claim"),
    };
    ann.run(&["sale", "show", id])
        .failed(1, &format!("http://{}/problems/", service.addr));
    ann.run(&["sale", "show", id, "--token-file", "missing"])
        .failed(2, "missing");
    ann.run(&["sale", "show", id, "--url", "x"])
        .failed(2, "`x`");
    ann.run(&["account", "deposit", "ann", "x", "CNY", "--reference", "d"])
        .failed(2, "2 decimals, as in 299.00 CNY");
    ann.run(&["account", "deposit", "ann", "1", "yuan", "--reference", "d"])
        .failed(2, "ISO 4217");
    let phase = ann.run(&["sale", "list", "--phase", "open"]);
    assert_eq!(phase.code, Some(2), "{}", phase.stderr);
    assert!(
        phase.stderr.contains("draft, scheduled, live"),
        "{}",
        phase.stderr
    );
    service.stop().await;
}

#[test]
fn without_an_answer_it_says_whether_it_may_have_been_done() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    // The server reads requests and answers none.
    let reader = std::thread::spawn(move || {
        let mut heads = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut buffer = [0; 4_096];
            let count = stream.unwrap().read(&mut buffer).unwrap();
            heads.push(String::from_utf8_lossy(&buffer[..count]).into_owned());
        }
        heads
    });
    let run = |args: &[&str], url: &str| {
        let fixed = ["--url", url, "--timeout", "1"];
        let args = [args, &fixed].concat();
        Ended::of(output(folder.path(), &args, &[("QIANG_TOKEN", "t")]))
    };
    let deposit = [
        "account",
        "deposit",
        "ann",
        "0.01",
        "CNY",
        "--reference",
        "d",
    ];
    let line = run(&deposit, &url).failed(3, "--idempotency-key ");
    let key = line.rsplit(' ').next().unwrap().trim().to_owned();
    let heads = reader.join().unwrap();
    assert!(
        heads.iter().all(|head| head.contains(&key)),
        "{key}: {heads:?}"
    );
    // If no server listens, nothing was done.
    let line = run(&deposit, "http://127.0.0.1:1").failed(1, "QIANG_URL");
    assert!(!line.contains("--idempotency-key"), "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn titles_do_not_move_the_cursor() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let service = Service::start().await;
    let id = service.sale(3, |_| ()).await;
    let mut sale = call(
        service.addr,
        "GET",
        &format!("/v1/sales/{id}"),
        Some(&service.operator()),
        &[],
        None,
    )
    .await
    .json();
    sale["title"] = json!("\u{1b}[2Jgone\n");
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        drop(stream.read(&mut [0; 4_096]));
        let body = sale.to_string();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        stream.write_all((head + &body).as_bytes()).unwrap();
    });
    let shown = Ended::of(output(
        service.folder.path(),
        &["sale", "show", &id, "--url", &url],
        &[],
    ))
    .did();
    answer.join().unwrap();
    assert!(
        shown.contains("gone") && !shown.contains('\u{1b}'),
        "{shown:?}"
    );
    service.stop().await;
}
