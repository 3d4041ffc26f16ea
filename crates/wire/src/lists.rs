//! The one shape of lists.

use serde::{Deserialize, Serialize};

use crate::answers::{
    Action, Claim, Deposit, ListedRedPacket, NodeAudit, Order, OwedOrder, PaymentRecord, Posting,
    QuarantinedEntry, RecordedEvent, RedPacketResult, Refund, Sale, SaleResult, Webhook,
    WebhookDelivery, Withdrawal,
};

/// Page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(not(feature = "service"), non_exhaustive)]
pub struct List<T> {
    /// Items of this page.
    pub data: Vec<T>,
    /// Cursor of the next page: the value of its `after`. Absent on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Whether everything decided before the request is in the list. Absent if the list does not depend on settlement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<bool>,
}

impl<T> List<T> {
    /// A list on one page.
    pub fn whole(data: Vec<T>) -> Self {
        Self {
            data,
            next: None,
            settled: None,
        }
    }
}

/// Sales with settled numbers.
pub type SaleList = List<Sale>;
/// Red packets with settled numbers.
pub type RedPacketList = List<ListedRedPacket>;
/// Shares of a user, newest first, or of a red packet, ordered by number.
pub type ClaimList = List<Claim>;
/// Orders, newest first, or those of a sale, ordered by number.
pub type OrderList = List<Order>;
/// Reported payments, newest first.
pub type PaymentRecordList = List<PaymentRecord>;
/// Deposits, newest first.
pub type DepositList = List<Deposit>;
/// Withdrawals, newest first.
pub type WithdrawalList = List<Withdrawal>;
/// Refunds that were paid, newest first.
pub type RefundList = List<Refund>;
/// Orders with a refund due, one row per currency.
pub type OwedOrderList = List<OwedOrder>;
/// Postings of a user's accounts, newest first.
pub type PostingList = List<Posting>;
/// Quarantined entries, by partition and position.
pub type QuarantineList = List<QuarantinedEntry>;
/// Results of a batch of red packets, in their order.
pub type RedPacketResultList = List<RedPacketResult>;
/// Results of a batch of sales, in their order.
pub type SaleResultList = List<SaleResult>;
/// Actions in the order of time.
pub type ActionList = List<Action>;
/// Events of settled changes, in the order in which endpoints receive them.
pub type RecordedEventList = List<RecordedEvent>;
/// Endpoints that receive webhook events.
pub type WebhookList = List<Webhook>;
/// Attempts to deliver events to a webhook, newest first.
pub type WebhookDeliveryList = List<WebhookDelivery>;
/// The last audits of a node, newest first.
pub type AuditList = List<NodeAudit>;

#[cfg(feature = "service")]
mod schema {
    use std::borrow::Cow;

    use utoipa::{
        PartialSchema, ToSchema,
        openapi::{
            RefOr, Schema,
            schema::{ArrayBuilder, ObjectBuilder, Ref, SchemaType, Type},
        },
    };

    use super::List;

    impl<T: ToSchema> PartialSchema for List<T> {
        fn schema() -> RefOr<Schema> {
            let next = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
                .description(Some(
                    "Cursor of the next page: the value of its `after`. Absent on the last page.",
                ));
            let settled = ObjectBuilder::new()
                .schema_type(SchemaType::from_iter([Type::Boolean, Type::Null]))
                .description(Some(
                    "Whether everything decided before the request is in the list. If not, repeat the request later. \
                     Absent if the list does not depend on settlement.",
                ));
            let items = Ref::from_schema_name(T::name());
            ObjectBuilder::new()
                .description(Some("Page of a list."))
                .property("data", ArrayBuilder::new().items(items))
                .required("data")
                .property("next", next)
                .property("settled", settled)
                .into()
        }
    }

    impl<T: ToSchema> ToSchema for List<T> {
        fn name() -> Cow<'static, str> {
            format!("{}List", T::name()).into()
        }

        fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
            schemas.push((T::name().into(), T::schema()));
            T::schemas(schemas);
        }
    }
}
