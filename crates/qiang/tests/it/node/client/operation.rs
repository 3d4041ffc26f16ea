//! Operators' calls of the client, and the events of a campaign.

use crate::node::client::common::{Service, assert_problem, new_sale, yuan};
use futures_util::{StreamExt as _, TryStreamExt as _};
use qiang_client::{
    ActionKind, CampaignEvent, NewClaim, NewOrder, NewPayment, NewRedPacket, PaymentRecordOutcome,
    ReadinessStatus, SplitRuleName, THE_SERVICE,
};

#[tokio::test]
async fn operators_see_partitions_quarantine_figures_and_actions() {
    let service = Service::start().await;
    let operator = service.client();
    let all = operator.partitions().await.unwrap();
    assert!(!all.repairable, "{all:?}");
    let [only] = &all.partitions[..] else {
        panic!("{all:?}");
    };
    assert_eq!((only.partition, only.status), (0, ReadinessStatus::Ready));
    let detail = operator.partition(0).await.unwrap();
    assert_eq!((&detail.partition, detail.repairs.len()), (only, 0));
    assert_problem(operator.partition(1).await, "not-found");
    // The embedded engine has no partition that could lose entries alone.
    assert_problem(operator.repair_partition(0).await, "not-for-engine");
    assert_problem(operator.resume_partition(0).await, "not-for-engine");
    assert_problem(operator.release_withheld(0).await, "not-for-engine");

    for partition in [None, Some(0)] {
        let aside: Vec<_> = operator.quarantine(partition).try_collect().await.unwrap();
        assert!(aside.is_empty(), "{aside:?}");
    }
    let entry = "0-1".parse().unwrap();
    assert_problem(operator.quarantined(&entry).await, "not-quarantined");
    assert_problem(operator.redrive_entry(&entry).await, "not-quarantined");

    let sale = operator.create_sale(&new_sale(3)).await.unwrap();
    operator.pause(&sale.id).await.unwrap();
    let done: Vec<_> = operator
        .actions(sale.id.as_str())
        .try_collect()
        .await
        .unwrap();
    // Actions of one millisecond have no order.
    let mut kinds: Vec<_> = done.iter().map(|it| it.action.as_str()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["create", "pause"]);
    assert!(done.iter().all(|it| it.subject == sale.id.as_str()));

    let started = operator.start_audit().await.unwrap();
    let listed = operator.audits().await.unwrap();
    let place = listed.iter().find(|it| it.id == started.id);
    assert_eq!(place.unwrap().actor, started.actor);
    let mut of_service = std::pin::pin!(operator.actions(THE_SERVICE));
    let audited = of_service.next().await.unwrap().unwrap();
    assert_eq!(audited.action, ActionKind::Audit);
    assert_eq!(audited.actor, started.actor);

    let paused = operator.action_log(Some(ActionKind::Pause));
    let paused: Vec<_> = paused.try_collect().await.unwrap();
    assert_eq!(paused.len(), 1);
    assert_eq!(paused[0].subject, sale.id.as_str());
    let order = format!("{}-1", sale.id.as_str()).parse().unwrap();
    let payment = NewPayment::with_defaults("p-1".parse().unwrap(), yuan(5));
    assert_problem(operator.pay_order(&order, &payment).await, "not-found");
    let refused = operator.refused_payment_reports();
    let refused: Vec<_> = refused.try_collect().await.unwrap();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].detail["problem"], "not-found");
    let found = operator.get_payment(&"p-1".parse().unwrap()).await.unwrap();
    assert_eq!(found.outcome, PaymentRecordOutcome::Refused);
    assert_eq!((found.amount, found.user), (Some(yuan(5)), None));

    // These calls are forbidden for other users.
    let ann = service.as_user(&operator, "ann");
    assert_problem(ann.partitions().await, "forbidden");
    assert_problem(ann.stats(None).await, "forbidden");
    let mut hidden = std::pin::pin!(ann.actions(THE_SERVICE));
    assert_problem(hidden.next().await.unwrap(), "forbidden");
    service.stop().await;
}

/// A node records stats once a second.
#[tokio::test]
async fn stats_are_read_after_a_number() {
    let service = Service::start().await;
    let operator = service.client();
    let mut stats = Vec::new();
    while stats.is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        stats = operator.stats(None).await.unwrap();
    }
    let last = stats.last().unwrap().number;
    let later = operator.stats(Some(last)).await.unwrap();
    assert!(later.iter().all(|it| it.number > last), "{later:?}");
    service.stop().await;
}

#[tokio::test]
async fn a_campaign_is_watched() {
    let service = Service::start().await;
    let operator = service.client();
    operator
        .deposit(&"ann".parse().unwrap(), "d-1", yuan(900))
        .await
        .unwrap();
    let ann = service.as_user(&operator, "ann");
    let packet = NewRedPacket::new("hi", yuan(900), 3, SplitRuleName::Equal);
    let packet = ann.create_red_packet(&packet).await.unwrap().id;
    let mut events = std::pin::pin!(ann.watch(&packet, None));
    let first = events.next().await.unwrap().unwrap();
    let CampaignEvent::State(state) = first else {
        panic!("{first:?}");
    };
    assert_eq!((state.granted, state.remaining), (0, 3));

    let bob = service.as_user(&operator, "bob");
    let claimed = bob.claim_share(&packet, &NewClaim::with_defaults()).await;
    claimed.unwrap();
    let (mut granted, mut drawn) = (0, Vec::new());
    while granted < 1 || drawn.is_empty() {
        match events.next().await.unwrap().unwrap() {
            CampaignEvent::State(state) => granted = state.granted,
            CampaignEvent::Draws(draws) => drawn.extend(draws.claims),
            other => panic!("{other:?}"),
        }
    }
    let drawn: Vec<_> = drawn
        .iter()
        .map(|it| (it.number, it.user.as_str()))
        .collect();
    assert_eq!((granted, drawn), (1, vec![(1, "bob")]));

    // A stream of an unknown campaign ends with this error.
    let missing = "01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f80".parse().unwrap();
    let mut nothing = std::pin::pin!(ann.watch(&missing, None));
    assert_problem(nothing.next().await.unwrap(), "unknown-campaign");
    assert!(nothing.next().await.is_none());
    // A sale has no draws.
    let sale = operator.create_sale(&new_sale(3)).await.unwrap();
    let mut events = std::pin::pin!(bob.watch(&sale.id, None));
    bob.order(&sale.id, &NewOrder::units(1)).await.unwrap();
    loop {
        match events.next().await.unwrap().unwrap() {
            CampaignEvent::State(state) if state.granted == 1 => break,
            CampaignEvent::State(_) => {}
            other => panic!("{other:?}"),
        }
    }
    service.stop().await;
}
