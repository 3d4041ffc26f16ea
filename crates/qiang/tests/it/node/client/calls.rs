//! Every call of the client, against a node.

use std::time::{Duration, Instant};

use crate::node::client::common::{Service, assert_problem, builder, new_sale, yuan};
use futures_util::TryStreamExt as _;
use qiang::config::ChallengeKind;
use qiang_client::{
    Audience, ClaimResult, Client, DeliveryFilter, Error, EventRedelivery, IdempotencyKey, Listing,
    MetadataChange, MovementFilter, NewClaim, NewOrder, NewPayment, NewRedPacket, NewWebhook,
    ObjectKind, OrderFilter, OrderState, PaymentFilter, PaymentOutcome, Phase, Place, PlaceState,
    Requirement, SaleChange, SplitRuleName, UserId, WebhookChange, WebhookDeliveryState,
    WebhookEventType, WebhookStatus,
};

fn granted<T: std::fmt::Debug>(claimed: ClaimResult<T>) -> T {
    match claimed {
        ClaimResult::Granted(grant) => grant,
        waiting => panic!("{waiting:?}"),
    }
}

/// Number of the order of a decided queue entry.
fn number(place: &Result<Place, Error>) -> u32 {
    let order = place.as_ref().unwrap().order.as_ref();
    order.unwrap().number
}

fn user(name: &str) -> UserId {
    name.parse().unwrap()
}

#[tokio::test]
async fn a_red_packet_from_the_deposit_to_the_archive() {
    let service = Service::start().await;
    let operator = service.client();
    let sam = service.as_user(&operator, "sam");
    let deposit = operator
        .deposit(&user("sam"), "d-1", yuan(1_000))
        .await
        .unwrap();
    assert_eq!(
        (deposit.user.as_str(), deposit.amount),
        ("sam", yuan(1_000))
    );
    let more = operator
        .deposit(&user("sam"), "d-2", yuan(50))
        .await
        .unwrap();
    for _ in 0..2 {
        let reversal = operator
            .reverse_deposit(&user("sam"), &more.id)
            .await
            .unwrap();
        assert_eq!(
            (reversal.deposit, reversal.amount),
            (more.id.clone(), yuan(50))
        );
    }
    let third = operator
        .deposit(&user("sam"), "d-3", yuan(30))
        .await
        .unwrap();
    let part = async |minor| {
        let sam = user("sam");
        operator
            .reverse_part_of_deposit(&sam, &third.id, yuan(minor))
            .await
    };
    assert_eq!(part(10).await.unwrap().amount, yuan(10));
    let found = operator.get_deposit(&user("sam"), &third.id).await.unwrap();
    assert_eq!((found.reversed, found.reversed_amount), (false, yuan(10)));
    assert_problem(part(21).await, "reversal-exceeds-deposit");
    operator
        .deposit(&user("sam"), "d-4", yuan(10))
        .await
        .unwrap();
    for _ in 0..2 {
        operator
            .withdraw(&user("sam"), "w-1", yuan(30))
            .await
            .unwrap();
    }
    let mut filter = MovementFilter {
        user: Some(user("sam")),
        reference: Some("d-3".to_owned()),
        ..MovementFilter::default()
    };
    let deposits: Vec<_> = operator.list_deposits(&filter).try_collect().await.unwrap();
    assert_eq!(
        deposits,
        [operator.get_deposit(&user("sam"), &third.id).await.unwrap()]
    );
    filter.reference = None;
    let deposits: Vec<_> = sam.list_deposits(&filter).try_collect().await.unwrap();
    assert_eq!(deposits[0].reference.as_deref(), Some("d-4"));
    let withdrawals = operator.list_withdrawals(&filter);
    let withdrawals: Vec<_> = withdrawals.try_collect().await.unwrap();
    assert_eq!(withdrawals.len(), 1);
    filter.created_before = Some(withdrawals[0].created_at);
    let withdrawals = operator.list_withdrawals(&filter);
    assert_eq!(withdrawals.try_collect::<Vec<_>>().await.unwrap(), []);
    let packet = NewRedPacket::new("恭喜发财", yuan(1_000), 3, SplitRuleName::DoubleAverage);
    let made = sam.create_red_packet(&packet).await.unwrap();
    assert_eq!(
        (made.shares, made.total, made.state.phase),
        (3, yuan(1_000), Phase::Live)
    );
    assert_problem(sam.create_red_packet(&packet).await, "insufficient-funds");
    let mut sum = 0;
    for name in ["ann", "bob", "cid"] {
        let client = service.as_user(&operator, name);
        let first = granted(
            client
                .claim_share(&made.id, &NewClaim::with_defaults())
                .await
                .unwrap(),
        );
        let again = granted(
            client
                .claim_share(&made.id, &NewClaim::with_defaults())
                .await
                .unwrap(),
        );
        assert_eq!(first, again);
        assert_eq!(first.object, ObjectKind::Claim);
        sum += first.amount.amount;
    }
    assert_eq!(sum, 1_000);
    let dan = service.as_user(&operator, "dan");
    let late = dan.claim_share(&made.id, &NewClaim::with_defaults()).await;
    let late = assert_problem(late, "sold-out");
    assert_eq!(late.problem().unwrap().outcome.as_deref(), Some("sold_out"));
    assert!(late.problem().unwrap().request_id.is_some() && !late.may_have_happened());
    let mut shares: Vec<_> = Vec::new();
    // The ledger has the shares a moment later.
    while shares.len() < 3 {
        shares = sam.shares(&made.id).try_collect().await.unwrap();
    }
    let users: Vec<_> = shares.iter().map(|share| share.user.as_str()).collect();
    assert_eq!(users, ["ann", "bob", "cid"]);
    let ann = service
        .as_user(&operator, "ann")
        .account(&user("ann"))
        .await
        .unwrap();
    assert_eq!(ann.balances[0].available, shares[0].amount);
    assert!(ann.settled);
    assert_problem(operator.archive(&made.id).await, "phase-conflict");
    assert_eq!(operator.close(&made.id).await.unwrap().phase, Phase::Closed);
    operator.archive(&made.id).await.unwrap();
    let listed: Vec<_> = sam
        .red_packets(&Listing::default())
        .try_collect()
        .await
        .unwrap();
    assert_eq!(listed, []);
    let all = Listing {
        archived: true,
        ..Listing::default()
    };
    let listed: Vec<_> = sam.red_packets(&all).try_collect().await.unwrap();
    assert_eq!(listed[0].id, made.id);
    assert!(sam.red_packet(&made.id).await.unwrap().seed.is_some());
    service.stop().await;
}

#[tokio::test]
async fn a_sale_its_orders_and_its_changes() {
    let service = Service::start().await;
    let operator = service.client();
    let mut sale = new_sale(10);
    sale.per_user_limit = Some(4);
    sale.description = Some("with a camera".to_owned());
    let sale = operator.create_sale(&sale).await.unwrap();
    let ann = service.as_user(&operator, "ann");
    let two = granted(ann.order(&sale.id, &NewOrder::units(2)).await.unwrap());
    assert_eq!(
        (two.quantity, two.amount, two.state),
        (2, yuan(1_000), OrderState::Held)
    );
    // Another call makes another order. The same key returns the same order.
    let keyed = ann.with_key(IdempotencyKey::random());
    let one = granted(keyed.order(&sale.id, &NewOrder::units(1)).await.unwrap());
    assert_eq!(
        granted(keyed.order(&sale.id, &NewOrder::units(1)).await.unwrap()),
        one
    );
    assert_problem(
        keyed.order(&sale.id, &NewOrder::units(2)).await,
        "key-reused",
    );
    let more = assert_problem(
        ann.order(&sale.id, &NewOrder::units(2)).await,
        "limit-reached",
    );
    assert_eq!(
        (more.problem().unwrap().limit, more.problem().unwrap().held),
        (Some(4), Some(3))
    );

    let (two, one) = (two.id, one.id);
    let payment = NewPayment::with_defaults("p-1".to_owned(), yuan(1_000));
    let paid = operator.pay_order(&two, &payment).await.unwrap();
    assert_eq!(
        (paid.outcome, paid.order.state),
        (PaymentOutcome::Paid, OrderState::Paid)
    );
    let less = NewPayment::with_defaults("p-0".to_owned(), yuan(499));
    let less = operator.pay_order(&one, &less).await.unwrap();
    assert_eq!(
        (
            less.outcome,
            less.order.state,
            less.order.refundable_payments
        ),
        (PaymentOutcome::RefundDue, OrderState::Held, Some(1))
    );
    assert_problem(ann.cancel_order(&two).await, "order-conflict");
    let cancelled = ann.cancel_order(&one).await.unwrap();
    assert_eq!(cancelled.state, OrderState::Cancelled);
    let some = operator.return_units(&two, 1).await.unwrap();
    assert_eq!((some.state, some.returned_quantity), (OrderState::Paid, 1));
    assert_problem(operator.return_units(&two, 2).await, "return-exceeds-order");
    let returned = operator.return_order(&two).await.unwrap();
    assert_eq!(
        (returned.state, returned.refundable_payments),
        (OrderState::Returned, Some(1))
    );
    assert_eq!(ann.get_order(&two).await.unwrap(), returned);
    assert_problem(
        service.as_user(&operator, "bob").get_order(&two).await,
        "not-found",
    );

    while !operator.refunds(&two).await.unwrap().settled {}
    assert_eq!(operator.refunds(&two).await.unwrap().due, yuan(1_000));
    let owed = async |all: bool| {
        let orders = operator.owed_orders(None, all);
        orders.try_collect::<Vec<_>>().await.unwrap()
    };
    let listed = owed(false).await;
    let mut listed: Vec<_> = listed
        .iter()
        .map(|it| (&it.order, it.outstanding))
        .collect();
    listed.sort_by_key(|(_, left)| left.amount);
    assert_eq!(listed, [(&one, yuan(499)), (&two, yuan(1_000))]);
    let back = NewPayment::with_defaults("r-1".to_owned(), yuan(1_000));
    for _ in 0..2 {
        let refund = operator.refund_order(&two, &back).await.unwrap();
        assert_eq!((refund.order, refund.amount), (two.clone(), yuan(1_000)));
    }
    assert_eq!(operator.refunds(&two).await.unwrap().refunded, yuan(1_000));
    let back = NewPayment::with_defaults("r-2".to_owned(), yuan(499));
    operator.refund_order(&one, &back).await.unwrap();
    let filter = OrderFilter {
        campaign: Some(sale.id.clone()),
        state: Some(OrderState::Returned),
        ..OrderFilter::default()
    };
    let orders: Vec<_> = operator.list_orders(&filter).try_collect().await.unwrap();
    assert_eq!(orders.iter().map(|it| &it.id).collect::<Vec<_>>(), [&two]);
    let filter = PaymentFilter {
        outcome: Some(PaymentOutcome::RefundDue),
        ..PaymentFilter::default()
    };
    let payments: Vec<_> = operator.list_payments(&filter).try_collect().await.unwrap();
    assert_eq!(
        payments.iter().map(|it| &it.order).collect::<Vec<_>>(),
        [&one]
    );
    let refunds = operator.list_refunds(&MovementFilter::default());
    let refunds: Vec<_> = refunds.try_collect().await.unwrap();
    assert_eq!(
        refunds.iter().map(|it| &it.order).collect::<Vec<_>>(),
        [&one, &two]
    );
    assert_eq!(owed(true).await, []);

    let mut change = SaleChange::with_defaults();
    (change.stock, change.description) = (Some(7), Some(None));
    let changed = operator.change_sale(&sale.id, &change).await.unwrap();
    assert_eq!((changed.stock, changed.description), (7, None));
    assert_eq!(operator.pause(&sale.id).await.unwrap().phase, Phase::Paused);
    // `paused` is an outcome, so the client does not retry.
    let began = Instant::now();
    assert_problem(ann.order(&sale.id, &NewOrder::units(1)).await, "paused");
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(operator.resume(&sale.id).await.unwrap().phase, Phase::Live);

    let seen = ann.state(&sale.id).await.unwrap();
    assert_eq!((seen.state.supply, seen.state.granted), (7, 0));
    assert_eq!(ann.state_since(&sale.id, &seen.etag).await.unwrap(), None);
    ann.order(&sale.id, &NewOrder::units(1)).await.unwrap();
    let newer = ann
        .state_since(&sale.id, &seen.etag)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(newer.state.granted, 1);
    let sale_of = async |tag| ann.sale_unless(&sale.id, tag).await.unwrap();
    let tag = sale_of(None).await.unwrap().etag;
    assert_eq!(sale_of(Some(&*tag)).await, None);

    let seen = operator.sale_unless(&sale.id, None).await.unwrap().unwrap();
    let change = SaleChange {
        stock: Some(9),
        ..SaleChange::with_defaults()
    };
    let changed = operator.change_sale_if(&sale.id, &change, &seen.etag);
    let changed = changed.await.unwrap();
    assert_eq!(changed.value.stock, 9);
    let change = SaleChange {
        stock: Some(10),
        ..SaleChange::with_defaults()
    };
    let refused = operator.change_sale_if(&sale.id, &change, &seen.etag).await;
    assert_problem(refused, "precondition-failed");
    let again = operator.change_sale_if(&sale.id, &change, &changed.etag);
    assert_eq!(again.await.unwrap().value.stock, 10);
    let metadata = operator.tagged_campaign_metadata(&sale.id).await.unwrap();
    let change = MetadataChange {
        reference: Some(Some("PO-1".to_owned())),
        ..MetadataChange::with_defaults()
    };
    let changed = operator.change_campaign_metadata_if(&sale.id, &change, &metadata.etag);
    let changed = changed.await.unwrap();
    let reference = changed.value.reference.as_deref();
    assert_eq!(reference, Some("PO-1"));
    let change = MetadataChange {
        reference: Some(None),
        ..MetadataChange::with_defaults()
    };
    let refused = operator.change_campaign_metadata_if(&sale.id, &change, &metadata.etag);
    assert_problem(refused.await, "precondition-failed");
    service.stop().await;
}

/// Only the answer to the creator contains the secret. `Debug` never shows it.
#[tokio::test]
async fn a_webhook_from_its_creation_to_its_end() {
    let service = Service::start().await;
    let operator = service.client();
    let mut new = NewWebhook::new("https://localhost:9/");
    new.types = Some(vec![WebhookEventType::OrderPaid]);
    new.owner = Some(user("shop"));
    let made = operator.create_webhook(&new).await.unwrap();
    let secret = made.secret.clone().unwrap();
    assert!(secret.as_str().starts_with("whsec_"));
    assert!(!format!("{made:?}").contains("whsec_"), "{made:?}");
    let mut listed = operator.webhooks().await.unwrap();
    let (found, mut expected) = (listed.remove(0), made.clone());
    expected.secret = None;
    assert_eq!(found, expected);
    assert_eq!((found.types, found.owner), (new.types.unwrap(), new.owner));
    let test = operator.test_webhook(&made.id).await.unwrap();
    assert!(!test.delivered && test.error.is_some(), "{test:?}");
    let rotated = operator.rotate_webhook_secret(&made.id, Some(60)).await;
    assert_ne!(rotated.unwrap().secret, Some(secret));
    let redriven = operator.redrive_webhook(&made.id, Some(made.created_at));
    assert_eq!(redriven.await.unwrap().status, WebhookStatus::Ok);
    let mut change = WebhookChange::with_defaults();
    (change.owner, change.enabled) = (Some(None), Some(false));
    let changed = operator.change_webhook(&made.id, &change).await.unwrap();
    assert_eq!((&changed.url, changed.owner), (&made.url, None));
    assert_eq!(changed.status, WebhookStatus::Disabled);
    let mut filter = DeliveryFilter::default();
    filter.state = Some(WebhookDeliveryState::GivenUp);
    let attempts = operator.webhook_deliveries(&made.id, &filter);
    let attempts: Vec<_> = attempts.try_collect().await.unwrap();
    assert!(attempts.is_empty(), "{attempts:?}");
    let all = EventRedelivery::GivenUpSince(made.created_at);
    let waiting = operator.redeliver_events(&made.id, &all).await.unwrap();
    assert_eq!(waiting.waiting, 0);
    let one = EventRedelivery::Event("evt_0_1_0".to_owned());
    assert_problem(operator.redeliver_events(&made.id, &one).await, "not-found");
    operator.delete_webhook(&made.id).await.unwrap();
    assert_problem(operator.webhook(&made.id).await, "not-found");
    assert_problem(operator.delete_webhook(&made.id).await, "not-found");
    let ann = service.as_user(&operator, "ann");
    assert_problem(ann.webhooks().await, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn lists_are_read_page_after_page() {
    let service = Service::start().await;
    let operator = service.client();
    let mut made = Vec::new();
    for round in 0..7 {
        let mut sale = new_sale(1);
        sale.product_id = Some(format!("p/{}", round % 2).parse().unwrap());
        made.push(operator.create_sale(&sale).await.unwrap().id);
    }
    // Lists are ordered by id. Ids of one millisecond have no order of creation.
    made.sort();
    for page_size in [1, 3, 7, 100] {
        let listing = Listing {
            page_size: Some(page_size),
            ..Listing::default()
        };
        let listed: Vec<_> = operator
            .sales(&listing)
            .map_ok(|sale| sale.id)
            .try_collect()
            .await
            .unwrap();
        assert_eq!(listed, made, "{page_size}");
        let newest = Listing {
            newest_first: true,
            ..listing
        };
        let listed = operator.sales(&newest).map_ok(|sale| sale.id);
        let listed: Vec<_> = listed.try_collect().await.unwrap();
        let back = made.iter().rev().cloned().collect::<Vec<_>>();
        assert_eq!(listed, back, "{page_size}");
    }
    let rounds = Listing {
        product_id: Some("p/0".parse().unwrap()),
        phase: Some(Phase::Live),
        all: true,
        page_size: Some(2),
        ..Listing::default()
    };
    let rounds: Vec<_> = operator.sales(&rounds).try_collect().await.unwrap();
    assert_eq!(rounds.len(), 4);
    let refused = Listing {
        all: true,
        ..Listing::default()
    };
    let ann = service.as_user(&operator, "ann");
    let refused: Result<Vec<_>, _> = ann.sales(&refused).try_collect().await;
    assert_problem(refused, "forbidden");
    service.stop().await;
}

#[tokio::test]
async fn tickets_are_got_and_worked_for() {
    for (challenge, is_solved) in [
        (ChallengeKind::None, false),
        (ChallengeKind::ProofOfWork, true),
    ] {
        let service = Service::start_with(|config, _| {
            config.tickets.challenge = challenge;
            config.tickets.difficulty = 10;
        });
        let service = service.await;
        let operator = service.client();
        let mut sale = new_sale(3);
        sale.requirements = Some(vec![Requirement::Ticket]);
        let sale = operator.create_sale(&sale).await.unwrap();
        let ann = service.as_user(&operator, "ann");
        let order = granted(ann.order(&sale.id, &NewOrder::units(1)).await.unwrap());
        assert_eq!(order.number, 1, "{is_solved}");
        let bob = service.as_user(&operator, "bob");
        let ticket = bob.sale_ticket(&sale.id).await.unwrap();
        let mut with_it = NewOrder::units(1);
        with_it.ticket = Some(ticket.clone());
        // The client replaces an expired ticket.
        service.clock.advance_ms(121_000);
        assert_eq!(
            granted(bob.order(&sale.id, &with_it).await.unwrap()).number,
            2
        );
        let cid = service.as_user(&operator, "cid");
        assert_problem(
            cid.order(&sale.id, &with_it).await,
            "ticket-of-another-user",
        );
        let plain = operator.create_sale(&new_sale(1)).await.unwrap();
        assert_problem(ann.sale_ticket(&plain.id).await, "ticket-not-needed");
        service.stop().await;
    }
}

#[tokio::test]
async fn who_waits_in_line_hears_what_becomes_of_it() {
    // With streams, and without any.
    for streams in [100, 0] {
        let service = Service::start_with(|config, _| config.queue.streams_max = streams).await;
        let operator = service.client();
        let mut sale = new_sale(2);
        sale.waiting_room = Some(true);
        let sale = operator.create_sale(&sale).await.unwrap();
        operator.pause(&sale.id).await.unwrap();
        let mut waiting = Vec::new();
        for (at, name) in ["ann", "bob", "cid"].into_iter().enumerate() {
            let client = service.as_user(&operator, name);
            match client.order(&sale.id, &NewOrder::units(1)).await.unwrap() {
                ClaimResult::Waiting(place) => assert_eq!(place.ahead, Some(at as u64)),
                granted => panic!("{granted:?}"),
            }
            let id = sale.id.clone();
            let wait = async move { client.wait_in_line(&id, Duration::from_secs(60)).await };
            waiting.push(tokio::spawn(wait));
        }
        let ann = service.as_user(&operator, "ann");
        let short = ann.wait_in_line(&sale.id, Duration::from_millis(100)).await;
        assert!(matches!(short, Err(Error::Connection { .. })), "{short:?}");
        assert_eq!(
            ann.place(&sale.id).await.unwrap().state,
            PlaceState::Waiting
        );
        tokio::time::sleep(Duration::from_millis(300)).await;
        operator.resume(&sale.id).await.unwrap();
        let mut ends = Vec::new();
        for wait in waiting {
            ends.push(wait.await.unwrap());
        }
        assert_eq!(number(&ends[0]), 1, "{streams}");
        assert_eq!(number(&ends[1]), 2, "{streams}");
        assert_problem(ends.pop().unwrap(), "sold-out");
        let told: Vec<_> = ann.places(&sale.id).try_collect().await.unwrap();
        assert_eq!(told.last().unwrap().state, PlaceState::Granted);
        let dan = service.as_user(&operator, "dan");
        assert_problem(
            dan.wait_in_line(&sale.id, Duration::from_secs(5)).await,
            "no-queue-entry",
        );
        service.stop().await;
    }
}

#[tokio::test]
async fn what_a_campaign_asks_for_is_shown() {
    let service = Service::start().await;
    let operator = service.client();
    let mut sale = new_sale(5);
    sale.audience = Some(Audience::Invitation(true));
    let invited = operator.create_sale(&sale).await.unwrap();
    sale.audience = Some(Audience::Passphrase("sesame".to_owned()));
    let secret = operator.create_sale(&sale).await.unwrap();
    sale.audience = Some(Audience::Users(vec![user("ann")]));
    let named = operator.create_sale(&sale).await.unwrap();
    let bob = service.as_user(&operator, "bob");
    let mut order = NewOrder::units(1);
    assert_problem(bob.order(&named.id, &order).await, "not-in-audience");
    assert_problem(bob.order(&secret.id, &order).await, "passphrase-wrong");
    assert_problem(bob.order(&invited.id, &order).await, "invitation-invalid");
    order.invitation = Some(
        operator
            .sign_invitation(&invited.id, None)
            .await
            .unwrap()
            .invitation,
    );
    granted(bob.order(&invited.id, &order).await.unwrap());
    order = NewOrder::units(1);
    order.passphrase = Some("sesame".to_owned());
    granted(bob.order(&secret.id, &order).await.unwrap());
    service.stop().await;
}

#[tokio::test]
async fn a_problem_names_the_fields_and_the_request() {
    let service = Service::start().await;
    let operator = service.client();
    let mut sale = new_sale(1);
    sale.hold_seconds = Some(0);
    let error = assert_problem(operator.create_sale(&sale).await, "invalid");
    let problem = error.problem().unwrap();
    assert_eq!(problem.status, 422);
    assert!(
        problem
            .errors
            .iter()
            .any(|field| field.pointer.as_deref() == Some("#/hold_seconds")),
        "{problem:?}"
    );
    let text = error.to_string();
    assert!(
        text.contains("#/hold_seconds") && !text.contains('\n'),
        "{text}"
    );
    assert!(
        text.contains(problem.request_id.as_deref().unwrap()),
        "{text}"
    );
    let nobody = builder(service.addr).build().unwrap();
    assert_problem(nobody.create_sale(&sale).await, "unauthenticated");
    for bad in ["127.0.0.1:8080", "ftp://x", "http://", "http://x/?y", ""] {
        assert!(
            matches!(Client::builder(bad).build(), Err(Error::Usage(_))),
            "{bad}"
        );
    }
    assert!(matches!(operator.with_token("a\nb"), Err(Error::Usage(_))));
    assert!(!format!("{operator:?}").contains(&service.operator()));
    service.stop().await;
}
