//! Settled shares of packets are taken from their users in the ledger by hand. The program restores their rows, money
//! has moved once, and the audit holds.

use serde_json::{Value, json};

use super::{
    SHARE_MINOR,
    node::{LedgerKind, Node, TestLedger, token},
};

/// Shares of each packet, of which users claim some.
const SHARES: u32 = 4;
const SPREAD: u32 = 400;
/// Spreads the large packet over all partitions.
const SHARD_SUPPLY_MIN: (&str, &str) = ("QIANG__REDIS__SHARD_SUPPLY_MIN", "400");

/// Rows of a share that are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rows {
    /// The share's row has no user.
    User,
    Share,
    AllClaimed,
    ShareAndPosting,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Packet {
    Equal,
    Lazy,
    Spread,
}

const CASES: [(Packet, Rows); 9] = [
    (Packet::Equal, Rows::User),
    (Packet::Equal, Rows::Share),
    (Packet::Equal, Rows::ShareAndPosting),
    (Packet::Lazy, Rows::User),
    (Packet::Lazy, Rows::Share),
    (Packet::Lazy, Rows::AllClaimed),
    (Packet::Lazy, Rows::ShareAndPosting),
    (Packet::Spread, Rows::User),
    (Packet::Spread, Rows::Share),
];

/// A packet of which two users have a share each.
struct Claimed {
    case: (Packet, Rows),
    packet: String,
    number: u64,
}

async fn claim(node: &Node, packet: &str, user: &str) -> (u16, u64) {
    let (token, path) = (
        token(user, "claim"),
        format!("/v1/red-packets/{packet}/claims"),
    );
    let reply = crate::common::call(node.addr, "POST", &path, Some(&token), &[], None).await;
    (reply.status, reply.json()["number"].as_u64().unwrap_or(0))
}

impl Claimed {
    async fn make(node: &Node, case: (Packet, Rows), user: &str) -> Self {
        let shares = match case.0 {
            Packet::Spread => SPREAD,
            Packet::Equal | Packet::Lazy => SHARES,
        };
        let rule = match case.0 {
            Packet::Lazy => "lazy",
            Packet::Equal | Packet::Spread => "equal",
        };
        let money = json!({ "amount": i64::from(shares) * SHARE_MINOR, "currency": "CNY" });
        let deposit = node.operate(
            "/v1/accounts/olga/deposits",
            crate::common::deposit(i64::from(shares) * SHARE_MINOR),
        );
        assert_eq!(deposit.await.status, 201);
        let packet = json!({
            "title": format!("{case:?}"), "total": money, "shares": shares, "split": { "rule": rule },
        });
        let packet = node.operate("/v1/red-packets", packet).await.text("id");
        let (status, number) = claim(node, &packet, user).await;
        assert_eq!(status, 201);
        assert_eq!(claim(node, &packet, "other").await.0, 201);
        Self {
            case,
            packet,
            number,
        }
    }

    async fn delete(&self, ledger: &TestLedger, kind: LedgerKind) {
        let user = match kind {
            LedgerKind::MariaDb => "`user`",
            LedgerKind::File | LedgerKind::Postgres => "\"user\"",
        };
        let (packet, number) = (&self.packet, self.number);
        let all = format!("WHERE campaign = (SELECT ref FROM campaigns WHERE id = '{packet}')");
        let one = format!("{all} AND number = {number}");
        let rows = self.case.1;
        if rows == Rows::User {
            let sql = format!("UPDATE shares SET {user} = NULL, granted_at = NULL {one}");
            ledger.run(&sql, 1).await;
        }
        if matches!(rows, Rows::Share | Rows::ShareAndPosting) {
            ledger.run(&format!("DELETE FROM shares {one}"), 1).await;
        }
        if rows == Rows::AllClaimed {
            let sql = format!("DELETE FROM shares {all} AND {user} IS NOT NULL");
            ledger.run(&sql, 2).await;
        }
        if rows == Rows::ShareAndPosting {
            let sql = format!("DELETE FROM postings {one} AND kind = 'grant'");
            ledger.run(&sql, 1).await;
        }
    }
}

async fn deleted_shares_are_restored_and_paid_once(kind: LedgerKind) {
    let ledger = TestLedger::new(kind);
    let mut node = Node::start_with(&ledger, &[SHARD_SUPPLY_MIN]).await;
    let mut packets = Vec::new();
    for (place, case) in CASES.into_iter().enumerate() {
        packets.push(Claimed::make(&node, case, &format!("u{place}")).await);
    }
    node.settled().await;
    let mut balances = Vec::new();
    for place in 0..CASES.len() {
        balances.push(node.balance(&format!("u{place}")).await);
    }
    let other = node.balance("other").await;
    let olga = node.balance("olga").await;
    node.stop();
    for packet in &packets {
        packet.delete(&ledger, kind).await;
    }

    let (code, printed) = ledger.maintain(&["reconcile", "--json"]);
    let found: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}"));
    // All claimed shares of one packet are two.
    let expected = packets.len() + 1;
    let found = found["differences"].as_array().unwrap().len();
    assert_eq!((code, found), (Some(1), expected), "{printed}");
    let (code, printed) = ledger.maintain(&["reconcile", "--repair", "--as", "ann"]);
    assert_eq!(code, Some(0), "{printed}");

    node.stop();
    let mut node = Node::start_with(&ledger, &[SHARD_SUPPLY_MIN]).await;
    node.settled().await;
    let mut found = Vec::new();
    for place in 0..CASES.len() {
        found.push(node.balance(&format!("u{place}")).await);
    }
    let cases = |balances: &[i64]| -> Vec<String> {
        let cases = CASES.iter().zip(balances);
        cases.map(|(case, it)| format!("{case:?}: {it}")).collect()
    };
    assert_eq!(cases(&found), cases(&balances));
    assert_eq!(node.balance("other").await, other);
    assert_eq!(node.balance("olga").await, olga);
    let ready = node.ready().await;
    assert_eq!(ready["quarantined_entries"], Value::Null, "{ready:#}");
    // A user has one share, and the packets grant the rest.
    for (place, packet) in packets.iter().enumerate() {
        let again = claim(&node, &packet.packet, &format!("u{place}")).await;
        assert_eq!(again, (200, packet.number), "{:?}", packet.case);
        assert_eq!(claim(&node, &packet.packet, "next").await.0, 201);
    }
    node.settled().await;
    node.stop();
    let (code, printed) = ledger.maintain(&["reconcile"]);
    assert_eq!(code, Some(0), "{printed}");
    let (code, report) = ledger.audit(&node);
    assert_eq!(code, Some(0), "{report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_file() {
    deleted_shares_are_restored_and_paid_once(LedgerKind::File).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_postgres() {
    deleted_shares_are_restored_and_paid_once(LedgerKind::Postgres).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn in_mariadb() {
    deleted_shares_are_restored_and_paid_once(LedgerKind::MariaDb).await;
}
