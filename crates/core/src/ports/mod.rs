//! Ports: traits between engines, ledgers, logs and clocks. Sibling crates implement them and never import each other.

mod action;
mod archive;
mod audience;
mod audit;
mod binding;
mod engine;
mod history;
mod key;
mod ledger;
mod log;
mod metadata;
mod operator;
mod payout;
mod reconcile;
mod repair;
mod repair_attempt;
mod repair_record;
mod retire;
mod sample;
mod time_range;
mod transport;
mod waiting;
mod webhook;
mod whole_ledger;

pub use self::{
    action::{Action, ActionKind, ActionQuery, THE_SERVICE},
    archive::{ArchiveLog, LogArchive, LogStretch},
    audience::AudienceStore,
    audit::{AuditCheck, AuditMonitor, AuditReport, Auditor, LastAudit},
    binding::{BindingStore, EngineBinding},
    engine::{Claimed, Engine, EngineError, GateAnswers, PendingReply, ProbeResult, ReplySender},
    history::{
        DepositRecord, HistoryPage, HistoryStore, Movement, MovementKind, MovementPlace,
        MovementQuery, OrderPlace, OrderQuery, PaymentPlace, PaymentQuery, PaymentRecord,
        PlaceError, Posting, PostingKind, PostingPlace, PostingQuery, UserAccount, UserOrder,
    },
    key::{
        Creation, KeyBinding, KeyState, KeyStore, KeyUse, WholeCreation, first_id_at, same_deposit,
        setup_under,
    },
    ledger::{
        AccountStore, ActionStore, Balance, CampaignQuery, CampaignRecord, CampaignStore, Discard,
        GrantRecord, GrantTimes, LedgerError, QuarantineCount, QuarantineStore, QuarantinedEntry,
        SettlementStore,
    },
    log::EventLog,
    metadata::{MetadataResult, MetadataStore, ReferenceQuery},
    operator::{NodeSighting, OperatorEngine, PartitionView, ReconcileResult},
    payout::{
        Payout, PayoutKind, PayoutReceipt, PayoutStore, RefundBalance, RefundBalanceQuery,
        RefundDueOrder, ReversalPart,
    },
    reconcile::{
        CampaignOutline, LiveCampaign, ReconcileStore, SettledPart, SettledPayment, SettledReturn,
        SettledRow,
    },
    repair::{RepairEngine, RepairReport, RepairState},
    repair_attempt::RepairAttempt,
    repair_record::{NumberRange, RepairRecord, RepairStore, Restatement, WithheldRecord},
    retire::{RetireEngine, RetireResult},
    sample::{SampleCursor, SampleEngine, SampleResult},
    time_range::TimeRange,
    transport::{Delivery, DeliveryBatch, DeliveryTag, Transport, TransportStatus},
    waiting::{ActiveQueues, QueueHead, WaitingMonitor, WaitingRoom, WaitingRoomStore},
    webhook::{
        EndpointAnswer, EndpointState, SendFailure, WebhookMonitor, WebhookSender, WebhookStore,
    },
    whole_ledger::Ledger,
};
pub use crate::time::Clock;
