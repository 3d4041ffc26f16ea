//! The types of the client agree with the service's document: each example of an answer can be read, and every field
//! and word matches.

use qiang_client::*;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn document() -> Value {
    serde_json::from_str(include_str!("../../../../../../docs/openapi.json")).unwrap()
}

/// Reads the example of an answer as `T`. Each field that `T` writes must be in the example with the same value.
fn check<T: DeserializeOwned + Serialize>(operation: &str, status: &str, field: Option<&str>) {
    let document = document();
    let operations = document["paths"].as_object().unwrap().values();
    let found = operations
        .flat_map(|path| path.as_object().unwrap().values())
        .find(|found| found["operationId"] == operation);
    let content =
        &found.unwrap_or_else(|| panic!("no {operation}"))["responses"][status]["content"];
    let answer = &content["application/json"];
    let example = match &answer["example"] {
        Value::Null => &answer["examples"]
            .as_object()
            .unwrap()
            .values()
            .next()
            .unwrap()["value"],
        example => example,
    };
    let example = field.map_or(example, |field| &example[field][0]);
    let read: T = serde_json::from_value(example.clone())
        .unwrap_or_else(|error| panic!("{operation}: {error}: {example}"));
    let written = serde_json::to_value(&read).unwrap();
    for (name, value) in written.as_object().unwrap() {
        assert_eq!(*value, example[name], "{operation}: {name}");
    }
}

#[test]
fn answers_are_as_documented() {
    check::<RedPacket>("createRedPacket", "201", None);
    check::<RedPacketResult>("createRedPackets", "200", Some("data"));
    check::<RedPacket>("getRedPacket", "200", None);
    check::<ListedRedPacket>("listRedPackets", "200", Some("data"));
    check::<Claim>("listShares", "200", Some("data"));
    check::<Sale>("createSale", "201", None);
    check::<SaleResult>("createSales", "200", Some("data"));
    check::<Sale>("listSales", "200", Some("data"));
    check::<State>("pauseCampaign", "200", None);
    check::<State>("startSale", "200", None);
    check::<OrderCancellations>("cancelOrders", "200", None);
    check::<Order>("extendHold", "200", None);
    check::<State>("getCampaignState", "200", None);
    check::<GrantTimeline>("getGrantTimeline", "200", None);
    check::<Order>("orderUnits", "201", None);
    check::<Claim>("claimShare", "201", None);
    check::<Place>("orderUnits", "202", None);
    check::<Place>("getPlace", "200", None);
    check::<GrabTicket>("getSaleTicket", "201", None);
    check::<Order>("getOrder", "200", None);
    check::<Payment>("payOrder", "200", None);
    check::<Account>("getAccount", "200", None);
    check::<Claim>("listClaims", "200", Some("data"));
    check::<Order>("listUserOrders", "200", Some("data"));
    check::<Order>("listOrders", "200", Some("data"));
    check::<Posting>("listPostings", "200", Some("data"));
    check::<Deposit>("getDeposit", "200", None);
    check::<Order>("listAllOrders", "200", Some("data"));
    check::<PaymentRecord>("listPayments", "200", Some("data"));
    check::<Deposit>("listDeposits", "200", Some("data"));
    check::<Withdrawal>("listWithdrawals", "200", Some("data"));
    check::<Refund>("listRefunds", "200", Some("data"));
    check::<PaymentRecord>("getPayment", "200", None);
    check::<Deposit>("makeDeposit", "201", None);
    check::<Reversal>("reverseDeposit", "201", None);
    check::<Withdrawal>("makeWithdrawal", "201", None);
    check::<Refund>("refundOrder", "201", None);
    check::<Transfer>("makeTransfer", "201", None);
    check::<RefundReversal>("reverseRefund", "201", None);
    check::<Refunds>("getRefunds", "200", None);
    check::<OwedOrder>("listOwedOrders", "200", Some("data"));
    check::<ServerSeed>("createServerSeed", "200", None);
    check::<Invitation>("signInvitation", "201", None);
    check::<CampaignAudience>("getAudience", "200", None);
    check::<Webhook>("createWebhook", "201", None);
    check::<RecordedEvent>("listEvents", "200", Some("data"));
    check::<Webhook>("listWebhooks", "200", Some("data"));
    check::<Webhook>("changeWebhook", "200", None);
    check::<Webhook>("redriveWebhook", "200", None);
    check::<Webhook>("redeliverEvents", "200", None);
    check::<WebhookDelivery>("listDeliveries", "200", Some("data"));
    check::<Webhook>("rotateSecret", "200", None);
    check::<WebhookTest>("testWebhook", "200", None);
    check::<NodeAudit>("startAudit", "201", None);
    check::<NodeAudit>("getAudit", "200", None);
    check::<NodeAudit>("listAudits", "200", Some("data"));
    check::<Action>("listActions", "200", Some("data"));
    check::<Partitions>("listPartitions", "200", None);
    check::<PartitionDetail>("getPartition", "200", None);
    check::<Repair>("repairPartition", "200", None);
    check::<Reconciled>("reconcilePartition", "200", None);
    check::<Resumed>("resumePartition", "200", None);
    check::<Released>("releaseWithheld", "200", None);
    check::<QuarantinedEntry>("getQuarantinedEntry", "200", None);
    check::<QuarantinedEntry>("listQuarantine", "200", Some("data"));
    check::<Redriven>("redriveEntry", "200", None);
    check::<ClockReading>("advanceTestClock", "200", None);
    check::<Stats>("readStats", "200", Some("stats"));
}

/// Operations without a call in this client, with the reason.
const WITHOUT: [(&str, &str); 11] = [
    ("checkHealth", "for process managers"),
    ("checkReadiness", "for load balancers"),
    ("listProblems", "a page for people"),
    ("explainProblem", "a page for people"),
    ("beginSession", "a cookie for browsers"),
    ("getSession", "a cookie for browsers"),
    ("endSession", "a cookie for browsers"),
    ("reportPayment", "payment services sign it, without a token"),
    ("receiveStripeEvent", "Stripe sends it"),
    ("receiveWechatNotification", "WeChat Pay sends it"),
    ("receiveAlipayNotification", "Alipay sends it"),
];

/// Names of operations. The call of each must exist.
macro_rules! calls {
    ($($operation:literal: $call:ident,)*) => {{
        $(let _ = Client::$call;)*
        [$($operation),*]
    }};
}

#[test]
fn each_operation_has_a_call() {
    let calls = calls! {
        "readMetrics": metrics,
        "getAccount": account,
        "listClaims": claims_of,
        "makeDeposit": deposit,
        "getDeposit": get_deposit,
        "reverseDeposit": reverse_deposit,
        "listUserOrders": orders_of,
        "listAllOrders": list_orders,
        "listPayments": list_payments,
        "listDeposits": list_deposits,
        "listWithdrawals": list_withdrawals,
        "listRefunds": list_refunds,
        "listPostings": postings_of,
        "makeWithdrawal": withdraw,
        "listActions": actions,
        "listAudits": audits,
        "startAudit": start_audit,
        "getAudit": audit,
        "archiveCampaign": archive,
        "closeCampaign": close,
        "watchCampaign": watch,
        "getAudience": audience,
        "signInvitation": sign_invitation,
        "pauseCampaign": pause,
        "getPlace": place,
        "resumeCampaign": resume,
        "startSale": start_sale,
        "reverseRefund": reverse_refund,
        "makeTransfer": transfer,
        "cancelOrders": cancel_orders,
        "getCampaignState": state,
        "getGrantTimeline": grant_timeline,
        "readStats": stats,
        "advanceTestClock": advance_test_clock,
        "getCampaignMetadata": campaign_metadata,
        "changeCampaignMetadata": change_campaign_metadata,
        "getOrderMetadata": order_metadata,
        "changeOrderMetadata": change_order_metadata,
        "getOrder": get_order,
        "cancelOrder": cancel_order,
        "extendHold": extend_hold,
        "payOrder": pay_order,
        "getRefunds": refunds,
        "refundOrder": refund_order,
        "returnOrder": return_order,
        "listPartitions": partitions,
        "getPartition": partition,
        "releaseWithheld": release_withheld,
        "repairPartition": repair_partition,
        "reconcilePartition": reconcile_partition,
        "resumePartition": resume_partition,
        "getPayment": get_payment,
        "listQuarantine": quarantine,
        "getQuarantinedEntry": quarantined,
        "listOwedOrders": owed_orders,
        "createServerSeed": create_server_seed,
        "redriveEntry": redrive_entry,
        "listRedPackets": red_packets,
        "createRedPacket": create_red_packet,
        "createRedPackets": create_red_packets,
        "getRedPacket": red_packet,
        "listShares": shares,
        "claimShare": claim_share,
        "getRedPacketTicket": red_packet_ticket,
        "listSales": sales,
        "createSale": create_sale,
        "createSales": create_sales,
        "getSale": sale,
        "changeSale": change_sale,
        "listOrders": orders_of_sale,
        "orderUnits": order,
        "getSaleTicket": sale_ticket,
        "listEvents": recorded_events,
        "listWebhooks": webhooks,
        "createWebhook": create_webhook,
        "deleteWebhook": delete_webhook,
        "getWebhook": webhook,
        "redriveWebhook": redrive_webhook,
        "changeWebhook": change_webhook,
        "listDeliveries": webhook_deliveries,
        "redeliverEvents": redeliver_events,
        "rotateSecret": rotate_webhook_secret,
        "testWebhook": test_webhook,
    };
    let document = document();
    let paths = document["paths"].as_object().unwrap().values();
    let all = paths.flat_map(|path| path.as_object().unwrap().values());
    let mut all: Vec<_> = all.filter_map(|it| it["operationId"].as_str()).collect();
    let mut known: Vec<_> = WITHOUT.map(|(operation, _)| operation).to_vec();
    known.extend(calls);
    all.sort_unstable();
    known.sort_unstable();
    assert_eq!(known, all);
}

#[test]
fn words_are_as_documented() {
    fn check<T: DeserializeOwned + Serialize>(schema: &str, document: &Value) {
        let words = document["components"]["schemas"][schema]["enum"].as_array();
        for word in words.unwrap_or_else(|| panic!("{schema}")) {
            let read: T = serde_json::from_value(word.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), *word, "{schema}");
        }
        // A word that this client does not know is no error.
        serde_json::from_value::<T>("newer".into()).unwrap();
    }
    let document = document();
    check::<Phase>("Phase", &document);
    check::<OrderState>("OrderState", &document);
    check::<AckLevel>("AckLevel", &document);
    check::<PlaceState>("PlaceState", &document);
    check::<PaymentOutcome>("PaymentOutcome", &document);
    check::<PaymentRecordOutcome>("PaymentRecordOutcome", &document);
    check::<CreationResult>("CreationResult", &document);
    check::<BatchMode>("BatchMode", &document);
    check::<AuditStatus>("AuditStatus", &document);
    check::<ActionKind>("ActionKind", &document);
    check::<ReadinessStatus>("ReadinessStatus", &document);
    check::<RepairResult>("RepairResult", &document);
    check::<PostingKind>("PostingKind", &document);
    check::<UserAccount>("UserAccount", &document);
    check::<Requirement>("Requirement", &document);
    check::<AudienceKind>("AudienceKind", &document);
    check::<Draws>("Draws", &document);
    check::<SplitRuleName>("SplitRuleName", &document);
    check::<WebhookEventType>("WebhookEventType", &document);
    check::<WebhookStatus>("WebhookStatus", &document);
    check::<WebhookDeliveryState>("WebhookDeliveryState", &document);
}
