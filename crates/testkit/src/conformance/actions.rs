//! Operation log of the ledger: each change with its actor.

use qiang_core::{
    campaign::{Details, DetailsChange},
    id::PaymentRef,
    money::Money,
    ports::{Action, ActionKind, ActionQuery, LedgerError},
    split::SplitRule,
    time::Timestamp,
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{currency, red_packet, sale, user};

pub(super) fn action(n: u128, kind: ActionKind, subject: &str) -> Action {
    Action {
        id: Uuid::from_u128(n << 64),
        at: Timestamp::from_millis(1_795_262_400_000),
        actor: user("~olga!"),
        kind,
        subject: subject.to_owned(),
        request_id: "edge-1:a/b+c=@_.".to_owned(),
        detail: "{\"title\":\"\u{1f9e7}\"}".to_owned(),
    }
}

async fn of(case: &Scenario, subject: &str) -> Vec<Action> {
    case.ledger().actions(subject, None, 9).await.unwrap()
}

/// The ledger records an action in the transaction of its change, once. Without a change it records no action.
pub async fn an_action_is_written_with_what_it_changed(case: &mut Scenario) {
    let deposited = action(1, ActionKind::Deposit, "giver");
    let (deposit, account) = (Uuid::from_u128(7 << 80), user("giver"));
    let again = action(2, ActionKind::Deposit, "giver");
    for by in [&deposited, &again] {
        let made =
            case.ledger()
                .deposit_by(deposit, &account, Money::new(500, currency()), Some(by));
        assert_eq!(made.await, Ok(()));
    }
    assert_eq!(of(case, "giver").await, [deposited]);

    let n = case.next_id();
    let packet = red_packet(1_000, 5, SplitRule::Equal)
        .owner("actor")
        .setup(n);
    let id = packet.campaign.id;
    let subject = id.to_string();
    let created = action(3, ActionKind::Create, &subject);
    let create = async |case: &Scenario, by: &Action| {
        let ledger = case.ledger();
        ledger
            .create_by(&packet, &Details::default(), None, Some(by))
            .await
    };
    let refused = create(case, &created).await;
    assert!(matches!(
        refused,
        Err(LedgerError::InsufficientFunds { .. })
    ));
    assert_eq!(of(case, &subject).await, []);
    case.deposit("actor", 1_000).await;
    assert_eq!(create(case, &created).await, Ok(()));
    let again = action(4, ActionKind::Create, &subject);
    assert_eq!(create(case, &again).await, Ok(()));
    assert_eq!(of(case, &subject).await, std::slice::from_ref(&created));
    case.entered(&packet);
    case.open_entered(&packet).await;

    let ledger = case.ledger();
    let changed = action(5, ActionKind::Change, &subject);
    let title = DetailsChange {
        title: Some(packet.campaign.title.clone()),
        ..DetailsChange::default()
    };
    ledger
        .describe(id, &title, Some(&changed), None)
        .await
        .unwrap();
    // A campaign that is not closed is not archived.
    let archived = action(6, ActionKind::Archive, &subject);
    assert_eq!(ledger.archive(id, Some(&archived)).await, Ok(false));
    assert_eq!(of(case, &subject).await, [created, changed]);
    let nobody = sale(1).setup(999).campaign.id;
    let subject = nobody.to_string();
    let changed = action(7, ActionKind::Change, &subject);
    ledger
        .describe(nobody, &title, Some(&changed), None)
        .await
        .unwrap();
    assert_eq!(of(case, &subject).await, []);
}

/// Two reports of a payment at the same instant are each recorded before the engine is asked: at least one of them sees
/// the other, so that other money is noticed.
pub async fn actions_of_one_instant_are_seen(case: &mut Scenario) {
    for n in 0..20 {
        let subject = format!("order-{n}");
        let actions = [0, 1].map(|it| action(1_000 + 2 * n + it, ActionKind::Pay, &subject));
        let record = async |own: &Action| {
            let ledger = case.ledger();
            ledger.record(own).await.unwrap();
            ledger.actions(&subject, None, 9).await.unwrap().len()
        };
        let seen = tokio::join!(record(&actions[0]), record(&actions[1]));
        assert_eq!(seen.0.max(seen.1), 2, "{seen:?}");
        assert_eq!(of(case, &subject).await, actions);
    }
}

/// Actions on a subject come in pages, in the order of their ids.
pub async fn actions_are_read_in_pages(case: &mut Scenario) {
    let ledger = case.ledger();
    let subject = "s".repeat(128);
    let all = ActionKind::ALL.iter().zip(100..);
    let all: Vec<_> = all.map(|(kind, n)| action(n, *kind, &subject)).collect();
    for action in all.iter().rev() {
        ledger.record(action).await.unwrap();
    }
    ledger
        .record(&action(90, ActionKind::Pay, "S"))
        .await
        .unwrap();
    // An action that the engine refused is struck from the log.
    let refused = action(91, ActionKind::Pause, &subject);
    for _ in 0..2 {
        ledger.strike(refused.id).await.unwrap();
    }
    ledger.record(&refused).await.unwrap();
    ledger.strike(refused.id).await.unwrap();
    let mut after = None;
    for page in all.chunks(3) {
        let found = ledger.actions(&subject, after, 3).await.unwrap();
        assert_eq!(found, page);
        after = page.last().map(|action| action.id);
    }
    assert_eq!(ledger.actions(&subject, after, 3).await, Ok(vec![]));
    assert_eq!(ledger.actions("S", None, 9).await.unwrap().len(), 1);
    assert_eq!(ledger.actions("s", None, 9).await, Ok(vec![]));
}

/// The operation log of all subjects comes in pages, in both orders, also of one kind. Refused reports are found alone
/// and by their references.
pub async fn refused_reports_are_found(case: &mut Scenario) {
    let ledger = case.ledger();
    let reference = |name: &str| PaymentRef::new(name).unwrap();
    let mut all = Vec::new();
    for n in 0..12_u128 {
        // Every third action is no payment, every second report is refused.
        let kind = match n % 3 {
            0 => ActionKind::Pause,
            _ => ActionKind::Pay,
        };
        let made = action(5_000 + n, kind, &format!("subject-{}", n % 5));
        let refused = (kind == ActionKind::Pay && n % 2 == 0).then(|| format!("pay-{}", n % 4));
        match &refused {
            Some(name) => ledger
                .record_refusal(&made, &reference(name))
                .await
                .unwrap(),
            None => ledger.record(&made).await.unwrap(),
        }
        all.push((made, refused));
    }
    let read = async |filter: ActionQuery| {
        let mut query = ActionQuery { limit: 3, ..filter };
        let mut found = Vec::new();
        loop {
            let page = ledger.action_log(&query).await.unwrap();
            let Some(last) = page.last() else { break };
            assert!(page.len() <= 3);
            query.after = Some(last.id);
            found.extend(page);
        }
        // Other cases record actions beside these.
        found.retain(|it| all.iter().any(|(own, _)| own.id == it.id));
        found
    };
    for newest_first in [false, true] {
        for kind in [None, Some(ActionKind::Pay), Some(ActionKind::Pause)] {
            for is_refused in [false, true] {
                let fits = |(it, refused): &&(Action, Option<String>)| {
                    kind.is_none_or(|kind| it.kind == kind) && (!is_refused || refused.is_some())
                };
                let mut expected: Vec<_> = all.iter().filter(fits).map(|it| it.0.clone()).collect();
                if newest_first {
                    expected.reverse();
                }
                let filter = ActionQuery {
                    kind,
                    is_refused,
                    newest_first,
                    ..ActionQuery::default()
                };
                assert_eq!(read(filter).await, expected, "{filter:?}");
            }
        }
    }
    for name in ["pay-0", "pay-2"] {
        let last = all.iter().rfind(|it| it.1.as_deref() == Some(name));
        let found = ledger.refusal_of(&reference(name)).await.unwrap();
        assert_eq!(found.as_ref(), last.map(|it| &it.0), "{name}");
        assert!(found.is_some());
    }
    assert_eq!(ledger.refusal_of(&reference("pay-1")).await, Ok(None));
    assert_eq!(ledger.refusal_of(&reference("PAY-0")).await, Ok(None));
}
