//! The client over connections that break: nothing is done twice, and a retry gets the answer of the first attempt.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::node::client::common::{Service, assert_problem, builder, new_sale, yuan};
use futures_util::TryStreamExt as _;
use qiang_client::{ClaimResult, Client, Error, Listing, NewOrder, UserId};
use qiang_testkit::proxy::FaultProxy;

async fn behind_proxy(service: &Service) -> (FaultProxy, Client) {
    let proxy = FaultProxy::start(service.addr).await;
    let client = builder(proxy.addr())
        .token(service.operator())
        .attempt_max(Duration::from_millis(300))
        .deadline(Duration::from_secs(60));
    (proxy, client.build().unwrap())
}

#[tokio::test]
async fn an_answer_that_is_lost_is_heard_from_the_retry() {
    let service = Service::start().await;
    let (proxy, client) = behind_proxy(&service).await;
    let mut sale = new_sale(100);
    sale.per_user_limit = Some(100);
    let sale = client.create_sale(&sale).await.unwrap();
    let ann = service.as_user(&client, "ann");
    proxy.drop_responses().await;
    let (one, two) = (NewOrder::units(1), NewOrder::units(2));
    let pass = async {
        let direct = service.client();
        while direct.state(&sale.id).await.unwrap().state.granted < 3 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // The service carries out several more attempts, and no answer arrives.
        tokio::time::sleep(Duration::from_millis(1_000)).await;
        let seen = direct.state(&sale.id).await.unwrap();
        assert_eq!(seen.state.granted, 3, "an attempt made a new order");
        proxy.pass().await;
    };
    let user: UserId = "ann".parse().unwrap();
    let (first, second, deposit, ()) = tokio::join!(
        ann.order(&sale.id, &one),
        ann.order(&sale.id, &two),
        client.deposit(&user, "d-1", yuan(700)),
        pass,
    );
    let (first, second) = (first.unwrap(), second.unwrap());
    let (ClaimResult::Granted(first), ClaimResult::Granted(second)) = (first, second) else {
        panic!("this sale has no queue");
    };
    assert_eq!((first.quantity, second.quantity), (1, 2));
    assert_eq!(deposit.unwrap().amount, yuan(700));
    assert_eq!(
        service
            .client()
            .state(&sale.id)
            .await
            .unwrap()
            .state
            .granted,
        3
    );
    assert_eq!(service.balance("ann").await, 700);
    service.stop().await;
}

#[tokio::test]
async fn connections_that_are_cut_all_the_time_double_nothing() {
    const USERS: usize = 8;
    const CUTS: usize = 40;
    let service = Service::start().await;
    let proxy = FaultProxy::start(service.addr).await;
    let client = builder(proxy.addr())
        .token(service.operator())
        .backoff(Duration::from_millis(5), Duration::from_millis(50))
        .deadline(Duration::from_secs(60));
    let client = client.build().unwrap();
    let mut sale = new_sale(100_000);
    sale.per_user_limit = Some(100_000);
    let sale = client.create_sale(&sale).await.unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for user in 0..USERS {
        let (client, id) = (
            service.as_user(&client, &format!("user-{user}")),
            sale.id.clone(),
        );
        let over = Arc::clone(&over);
        tasks.push(tokio::spawn(async move {
            let mut orders = Vec::new();
            while !over.load(Ordering::Relaxed) {
                let claimed = client.order(&id, &NewOrder::units(1)).await.unwrap();
                let ClaimResult::Granted(grant) = claimed else {
                    panic!("this sale has no queue");
                };
                orders.push(grant);
            }
            orders
        }));
    }
    for cut in 0..CUTS {
        match cut % 3 {
            0 => proxy.pass().await,
            1 => proxy.drop_responses().await,
            _ => proxy.delay(Duration::ZERO, Duration::from_millis(5)).await,
        }
        tokio::time::sleep(Duration::from_millis(30)).await;
        proxy.cut().await;
    }
    proxy.pass().await;
    over.store(true, Ordering::Relaxed);
    let mut orders = Vec::new();
    for task in tasks {
        orders.extend(task.await.unwrap());
    }
    assert!(orders.len() >= USERS);
    let ids: BTreeSet<_> = orders.iter().map(|grant| &grant.id).collect();
    let count = orders.len();
    assert_eq!(
        ids.len(),
        count,
        "two calls were answered by the same order"
    );
    let direct = service.client();
    let state = direct.state(&sale.id).await.unwrap().state;
    assert_eq!(state.granted, count as u64, "an order was granted twice");
    for grant in &orders {
        let order = direct.get_order(&grant.id).await;
        let mut order = order.unwrap();
        (order.ack, order.refundable_payments) = (grant.ack, None);
        assert_eq!(order, *grant);
    }
    service.stop().await;
}

#[tokio::test]
async fn a_campaign_is_made_once() {
    let service = Service::start().await;
    let (proxy, client) = behind_proxy(&service).await;
    proxy.drop_responses().await;
    let sale = new_sale(1);
    let pass = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        proxy.pass().await;
    };
    let (made, ()) = tokio::join!(client.create_sale(&sale), pass);
    let listed: Vec<_> = client
        .sales(&Listing::default())
        .try_collect()
        .await
        .unwrap();
    let listed: Vec<_> = listed.into_iter().map(|sale| sale.id).collect();
    assert_eq!(listed, [made.unwrap().id]);
    service.stop().await;
}

#[tokio::test]
async fn without_an_answer_it_ends_with_the_deadline_and_says_what_may_be() {
    let service = Service::start().await;
    let proxy = FaultProxy::start(service.addr).await;
    let client = builder(proxy.addr())
        .token(service.operator())
        .attempt_max(Duration::from_millis(200))
        .deadline(Duration::from_millis(900));
    let client = client.build().unwrap();
    let mut sale = new_sale(10);
    sale.per_user_limit = Some(10);
    let direct = service.client();
    let sale = direct.create_sale(&sale).await.unwrap();
    let (ann, direct) = (
        service.as_user(&client, "ann"),
        service.as_user(&direct, "ann"),
    );

    proxy.drop_responses().await;
    let began = Instant::now();
    let error = ann.order(&sale.id, &NewOrder::units(1)).await.unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(10), "{error:?}");
    assert!(error.may_have_happened(), "{error:?}");
    let key = error.key().unwrap().clone();
    proxy.pass().await;
    // The order exists. The same key returns it.
    let later = direct
        .with_key(key)
        .order(&sale.id, &NewOrder::units(1))
        .await
        .unwrap();
    let ClaimResult::Granted(grant) = later else {
        panic!("{later:?}");
    };
    assert_eq!(
        (
            grant.number,
            direct.state(&sale.id).await.unwrap().state.granted
        ),
        (1, 1)
    );

    // No request was sent, so nothing can have happened.
    proxy.refuse().await;
    proxy.cut().await;
    // A request on a pooled connection may notice the cut only after it was sent, so a read takes that connection.
    ann.state(&sale.id).await.unwrap_err();
    let error = ann.order(&sale.id, &NewOrder::units(1)).await.unwrap_err();
    let Error::GaveUp { attempts, .. } = &error else {
        panic!("{error:?}");
    };
    assert!(*attempts > 1 && !error.may_have_happened(), "{error:?}");
    assert_eq!(
        service
            .client()
            .state(&sale.id)
            .await
            .unwrap()
            .state
            .granted,
        1
    );
    service.stop().await;
}

#[tokio::test]
async fn who_is_throttled_comes_again_when_told_to() {
    let service = Service::start_with(|config, _| {
        config.limits.claims_per_user_per_second = 1;
        config.limits.claims_per_user_burst = 1;
    });
    let service = service.await;
    let client = service.client();
    let mut sale = new_sale(10);
    sale.per_user_limit = Some(10);
    let sale = client.create_sale(&sale).await.unwrap();
    let ann = service.as_user(&client, "ann");
    let began = Instant::now();
    for _ in 0..3 {
        ann.order(&sale.id, &NewOrder::units(1)).await.unwrap();
    }
    assert!(
        began.elapsed() >= Duration::from_millis(1_900),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(client.state(&sale.id).await.unwrap().state.granted, 3);
    // The client does not wait if its deadline ends before `Retry-After`.
    let hasty = builder(service.addr)
        .deadline(Duration::from_millis(950))
        .build()
        .unwrap();
    let hasty = service.as_user(&hasty, "ann");
    let mut refused = hasty.order(&sale.id, &NewOrder::units(1)).await;
    // On a slow machine the second may be over, so the order passes.
    while refused.is_ok() {
        refused = hasty.order(&sale.id, &NewOrder::units(1)).await;
    }
    let error = assert_problem(refused, "throttled");
    assert!(
        matches!(error, Error::GaveUp { attempts: 1, .. }),
        "{error:?}"
    );
    assert!(!error.may_have_happened());
    service.stop().await;
}

#[tokio::test]
async fn no_more_calls_are_in_flight_than_allowed() {
    let service = Service::start().await;
    let proxy = FaultProxy::start(service.addr).await;
    let client = builder(proxy.addr())
        .in_flight_max(3)
        .deadline(Duration::from_secs(20));
    let client = client.build().unwrap();
    let sale = service.client().create_sale(&new_sale(1)).await.unwrap();
    let slow = Duration::from_millis(60);
    proxy.delay(slow, slow).await;
    let mut calls = Vec::new();
    for _ in 0..15 {
        let (client, id) = (client.clone(), sale.id.clone());
        calls.push(tokio::spawn(async move { client.state(&id).await }));
    }
    let mut most = 0;
    for call in calls {
        while !call.is_finished() {
            most = most.max(proxy.connections());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        call.await.unwrap().unwrap();
    }
    assert!((1..=3).contains(&most), "{most} at a time");
    service.stop().await;
}
