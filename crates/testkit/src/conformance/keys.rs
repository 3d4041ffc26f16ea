//! Idempotency keys: what they identify, which refusals spend them, and how long they are kept.

use qiang_core::{
    book::Setup,
    campaign::Details,
    id::{IdempotencyKey, PaymentRef},
    metadata::Metadata,
    money::Money,
    ports::{Creation, KeyBinding, KeyState, KeyUse, LedgerError, Payout, WholeCreation},
    split::SplitRule,
    time::Timestamp,
};
use uuid::Uuid;

use super::Scenario;
use crate::campaign::{OPENS, currency, red_packet, user};

/// The first use of a key binds it for good.
pub async fn a_key_is_bound_for_good(case: &mut Scenario) {
    let key = IdempotencyKey::new("k").expect("well-formed");
    let used = |scope: &str, print| KeyUse::new(scope, key.clone(), [print; 32]);
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    for restarts in 0..2 {
        let ledger = case.ledger();
        let bound = ledger.bind_key(&used("a POST /x", 1), one).await;
        assert_eq!(bound.map(|b| (b.id, b.fresh)), Ok((one, restarts == 0)));
        let bound = ledger.bind_key(&used("a POST /x", 1), two).await;
        assert_eq!(bound.map(|b| (b.id, b.fresh)), Ok((one, false)));
        assert_eq!(ledger.bound_key(&used("a POST /x", 1)).await, Ok(Some(one)));
        assert_eq!(ledger.bound_key(&used("c POST /x", 1)).await, Ok(None));
        for fingerprint in [2, 3] {
            let other = used("a POST /x", fingerprint);
            let bound = ledger.bind_key(&other, two).await;
            assert_eq!(bound, Err(LedgerError::KeyReused));
            let bound = ledger.bound_key(&other).await;
            assert_eq!(bound, Err(LedgerError::KeyReused));
        }
        let elsewhere = ledger.bind_key(&used("b POST /x", 2), two).await;
        assert_eq!(elsewhere.map(|b| (b.id, b.fresh)), Ok((two, restarts == 0)));
        case.restart().await;
    }
}

/// A deposit's reference identifies it for good, even after its key is purged.
pub async fn a_deposits_reference_is_kept_for_good(case: &mut Scenario) {
    let used = |name: &str| {
        let key = IdempotencyKey::new(name).expect("well-formed");
        KeyUse::new("teller POST /y", key, [1; 32])
    };
    let named = |name: &str| PaymentRef::new(name).expect("well-formed");
    let money = |minor| Money::new(minor, currency());
    let id = |n: u128| Uuid::from_u128(n << 90);
    let (a, b) = (user("a"), user("b"));
    let first = KeyBinding {
        id: id(1),
        fresh: true,
    };
    let again = Ok(KeyBinding {
        fresh: false,
        ..first
    });
    let ledger = case.ledger();
    let (key, pay) = (used("k"), named("pay-1"));
    let made = ledger.deposit_named(Some(&key), id(1), (&a, money(7)), &pay, None);
    assert_eq!(made.await, Ok(first));
    while ledger.purge_keys(Timestamp::MAX, 100).await.unwrap() > 0 {}
    case.restart().await;
    let ledger = case.ledger();
    for used in [Some(used("k")), Some(used("l")), None] {
        let made = ledger.deposit_named(used.as_ref(), id(2), (&a, money(7)), &pay, None);
        assert_eq!(made.await, again, "{used:?}");
        for to in [(&a, money(8)), (&b, money(7))] {
            let made = ledger.deposit_named(used.as_ref(), id(3), to, &pay, None);
            assert_eq!(made.await, Err(LedgerError::ReferenceUsed), "{used:?}");
        }
    }
    // References are case-sensitive, and a refused deposit leaves its reference free.
    let (upper, refused) = (named("PAY-1"), named("pay-2"));
    let made = ledger.deposit_named(None, id(4), (&a, money(0)), &refused, None);
    assert_eq!(made.await, Err(LedgerError::AmountOutOfRange));
    for (n, name) in [(5, &upper), (6, &refused)] {
        let made = ledger.deposit_named(None, id(n), (&a, money(1)), name, None);
        assert_eq!(made.await.map(|it| it.fresh), Ok(true));
    }
    assert_eq!(case.balance("a").await, (9, 0));
    case.deposited("a", 9);
}

/// A command's key is fresh once. After that it is pending or has the first answer, also after a restart. Only a key
/// without an answer is released, and only by the request that bound it.
pub async fn a_command_is_answered_once(case: &mut Scenario) {
    let used = |name: &str, print| {
        let key = IdempotencyKey::new(name).expect("well-formed");
        KeyUse::new("a PATCH /x", key, [print; 32])
    };
    let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
    let answered = |text: &str| Ok(KeyState::Answered(text.to_owned()));
    let ledger = case.ledger();
    let (kept, broken) = (used("kept", 1), used("broken", 1));
    assert_eq!(ledger.begin_key(&kept, one).await, Ok(KeyState::Fresh));
    let pending = Ok(KeyState::Pending(one));
    assert_eq!(ledger.begin_key(&kept, two).await, pending);
    assert_eq!(
        ledger.answer_key(&kept, one, "first \u{1f9e7}").await,
        Ok(())
    );
    assert_eq!(ledger.answer_key(&kept, one, "second").await, Ok(()));
    assert_eq!(ledger.release_key(&kept, one).await, Ok(()));
    assert_eq!(ledger.begin_key(&broken, one).await, Ok(KeyState::Fresh));
    assert_eq!(ledger.release_key(&broken, two).await, Ok(()));
    case.restart().await;
    let ledger = case.ledger();
    assert_eq!(
        ledger.begin_key(&kept, two).await,
        answered("first \u{1f9e7}")
    );
    assert_eq!(ledger.begin_key(&broken, two).await, pending);
    let other = used("kept", 2);
    assert_eq!(
        ledger.begin_key(&other, two).await,
        Err(LedgerError::KeyReused)
    );
    assert_eq!(
        ledger.answer_key(&other, two, "x").await,
        Err(LedgerError::KeyReused)
    );
    assert_eq!(ledger.release_key(&broken, one).await, Ok(()));
    // A request that found the key pending has decided the command: its answer is kept.
    assert_eq!(ledger.answer_key(&broken, two, "late").await, Ok(()));
    assert_eq!(ledger.begin_key(&broken, one).await, answered("late"));
}

/// A refusal spends no key: the key stays free for another amount, or for a retry once the money is there.
pub async fn a_refused_creation_spends_no_key(case: &mut Scenario) {
    let key = IdempotencyKey::new("k").expect("well-formed");
    let used = |print| KeyUse::new("sender POST /x", key.clone(), [print; 32]);
    let packet = |total| red_packet(total, 10, SplitRule::Equal).owner("sender");
    let (dear, cheap) = (
        packet(1_000).setup(case.next_id()),
        packet(400).setup(case.next_id()),
    );
    case.deposit("sender", 900).await;
    let ledger = case.ledger();
    let create = |print, setup: &Setup| ledger.create_under(keyed(used(print), setup));
    let refused = create(1, &dear).await;
    assert!(
        matches!(refused, Err(LedgerError::InsufficientFunds { .. })),
        "{refused:?}"
    );
    assert_eq!(ledger.bound_key(&used(1)).await, Ok(None));
    let created = create(2, &cheap).await;
    let id = cheap.campaign.id;
    assert_eq!(created.map(|it| (it.id, it.fresh)), Ok((id.uuid(), true)));
    // A retry under another id finds this campaign, and no money is funded again.
    let again = packet(400).setup(1_000_000);
    let repeated = create(2, &again).await;
    assert_eq!(repeated.map(|it| (it.id, it.fresh)), Ok((id.uuid(), false)));
    assert_eq!(ledger.campaign(again.campaign.id).await, Ok(None));
    let other = create(1, &dear).await;
    assert_eq!(other, Err(LedgerError::KeyReused));
    assert_eq!(case.balance("sender").await, (500, 0));
    case.entered(&cheap);
    case.open_entered(&cheap).await;

    let used = |print| KeyUse::new("teller POST /y", key.clone(), [print; 32]);
    let (one, two) = (Uuid::from_u128(5 << 90), Uuid::from_u128(6 << 90));
    let money = |minor| Money::new(minor, currency());
    let ledger = case.ledger();
    let named = PaymentRef::new("deposit-of-a").expect("well-formed");
    let refused = ledger
        .deposit_named(Some(&used(1)), one, (&user("a"), money(0)), &named, None)
        .await;
    assert_eq!(refused, Err(LedgerError::AmountOutOfRange));
    for (id, fresh) in [(one, true), (two, false)] {
        let made = ledger
            .deposit_named(Some(&used(2)), id, (&user("a"), money(7)), &named, None)
            .await;
        assert_eq!(made.map(|it| (it.id, it.fresh)), Ok((one, fresh)));
    }
    assert_eq!(case.balance("a").await, (7, 0));

    let used = |print| KeyUse::new("cashier POST /z", key.clone(), [print; 32]);
    let withdrawal = |minor| Payout::Withdrawal {
        user: user("a"),
        reference: PaymentRef::new("w").expect("well-formed"),
        amount: money(minor),
    };
    let ledger = case.ledger();
    let refused = ledger
        .pay_out_under(&used(1), one, &withdrawal(8), None)
        .await;
    assert!(
        matches!(refused, Err(LedgerError::InsufficientFunds { .. })),
        "{refused:?}"
    );
    assert_eq!(ledger.bound_key(&used(1)).await, Ok(None));
    for fresh in [true, false] {
        let made = ledger
            .pay_out_under(&used(2), two, &withdrawal(5), None)
            .await;
        assert_eq!(made.map(|it| (it.amount, it.fresh)), Ok((money(5), fresh)));
    }
    let other = ledger
        .pay_out_under(&used(1), two, &withdrawal(1), None)
        .await;
    assert_eq!(other, Err(LedgerError::KeyReused));
    assert_eq!(case.balance("a").await, (2, 0));
    case.deposited("a", 2);
}

/// Several campaigns are created in one transaction, and each is entered or refused separately. A retry enters only
/// those refused before.
pub async fn of_several_creations_each_stands_for_itself(case: &mut Scenario) {
    let campaign = |case: &mut Scenario, key: &str, print: u8, total| {
        let packet = red_packet(total, 10, SplitRule::Equal).owner("sender");
        let key = IdempotencyKey::new(key).expect("well-formed");
        let used = KeyUse::new("sender POST /x", key, [print; 32]);
        keyed(used, &packet.setup(case.next_id()))
    };
    case.deposit("sender", 1_000).await;
    let asked = vec![
        campaign(case, "a", 1, 400),
        campaign(case, "b", 1, 700),
        campaign(case, "a", 1, 400),
        campaign(case, "a", 2, 100),
        campaign(case, "c", 1, 600),
        campaign(case, "d", 1, 10),
    ];
    let [first, dear, .., third, _] = &asked[..] else {
        unreachable!("there are six");
    };
    let (first, dear, third) = (first.clone(), dear.clone(), third.clone());
    let told = |created: Vec<Result<KeyBinding, LedgerError>>| -> Vec<_> {
        let told = created.into_iter().map(|it| match it {
            Ok(binding) => Ok((binding.id, binding.fresh)),
            Err(LedgerError::InsufficientFunds { .. }) => Err("funds"),
            Err(LedgerError::KeyReused) => Err("key"),
            Err(other) => panic!("{other}"),
        });
        told.collect()
    };
    let id = |campaign: &Creation| campaign.setup.campaign.id.uuid();
    let created = case.ledger().create_all(asked.clone()).await;
    let expected = [
        Ok((id(&first), true)),
        Err("funds"),
        Ok((id(&first), false)),
        Err("key"),
        Ok((id(&third), true)),
        Err("funds"),
    ];
    assert_eq!(told(created.expect("the ledger answers")), expected);
    assert_eq!(case.balance("sender").await, (0, 0));
    case.restart().await;
    // A refused creation leaves neither a campaign nor a key.
    assert_eq!(case.ledger().bound_key(key_of(&dear)).await, Ok(None));
    let none = case.ledger().campaign(dear.setup.campaign.id).await;
    assert_eq!(none, Ok(None));
    case.deposit("sender", 700).await;
    let again = case.ledger().create_all(asked).await;
    let expected = [
        Ok((id(&first), false)),
        Ok((id(&dear), true)),
        Ok((id(&first), false)),
        Err("key"),
        Ok((id(&third), false)),
        Err("funds"),
    ];
    assert_eq!(told(again.expect("the ledger answers")), expected);
    assert_eq!(case.balance("sender").await, (0, 0));
    let nothing = case.ledger().create_all(Vec::new()).await;
    assert_eq!(nothing.map(|it| it.len()), Ok(0));
    for Creation { setup, .. } in [&first, &dear, &third] {
        case.entered(setup);
        case.open_entered(setup).await;
    }
}

/// Several campaigns are created in one transaction, all or none. A refusal leaves neither a campaign, a key nor a
/// debit of any of them, also if an engine writes their many shares first.
pub async fn several_creations_together_are_all_made_or_none(case: &mut Scenario) {
    let campaign = |case: &mut Scenario, key: &str, print: u8, (total, count)| {
        let packet = red_packet(total, count, SplitRule::Equal).owner("sender");
        let key = IdempotencyKey::new(key).expect("well-formed");
        let used = KeyUse::new("sender POST /x", key, [print; 32]);
        keyed(used, &packet.setup(case.next_id()))
    };
    case.deposit("sender", 1_000_000).await;
    let first = campaign(case, "a", 1, (100_000, 10));
    let second = campaign(case, "b", 1, (200_000, 10));
    let large = campaign(case, "c", 1, (300_000, 3_000));
    let dear = campaign(case, "d", 1, (600_000, 10));
    let dearest = campaign(case, "e", 1, (1_000_001, 10));
    let other_request = campaign(case, "a", 2, (1_000, 10));
    let places = |created: Result<WholeCreation, LedgerError>| match created {
        Ok(WholeCreation::Refused(refused)) => {
            let told = refused.iter().map(|(place, _)| *place);
            told.collect::<Vec<_>>()
        }
        other => panic!("{other:?}"),
    };
    for restarts in 0..2 {
        let ledger = case.ledger();
        // The money is enough for the packets before the last one.
        for (batch, refused) in [
            ([&first, &dear, &second, &dearest], &[3][..]),
            ([&first, &large, &dear, &other_request], &[3]),
            ([&dear, &large, &second, &first], &[2]),
            ([&dearest, &first, &other_request, &large], &[0, 2]),
        ] {
            let batch: Vec<_> = batch.into_iter().cloned().collect();
            let created = ledger.create_whole(batch).await;
            assert_eq!(places(created), refused, "{restarts}");
        }
        for creation in [&first, &second, &large, &dear, &dearest] {
            let id = creation.setup.campaign.id;
            assert_eq!(ledger.campaign(id).await, Ok(None));
            assert_eq!(ledger.bound_key(key_of(creation)).await, Ok(None));
        }
        assert_eq!(case.balance("sender").await, (1_000_000, 0));
        case.restart().await;
    }
    let id = |campaign: &Creation| campaign.setup.campaign.id.uuid();
    let created = |asked: &[(&Creation, bool)]| {
        let bindings = asked.iter().map(|(campaign, fresh)| KeyBinding {
            id: id(campaign),
            fresh: *fresh,
        });
        Ok(WholeCreation::Created(bindings.collect()))
    };
    let ledger = case.ledger();
    let made = ledger.create_whole(vec![first.clone(), first.clone(), second.clone()]);
    let expected = created(&[(&first, true), (&first, false), (&second, true)]);
    assert_eq!(made.await, expected);
    // A repetition finds all of them, and a campaign that exists is no refusal.
    let again = ledger.create_whole(vec![first.clone(), second.clone()]);
    assert_eq!(again.await, created(&[(&first, false), (&second, false)]));
    let more = ledger.create_whole(vec![second.clone(), large.clone()]);
    assert_eq!(more.await, created(&[(&second, false), (&large, true)]));
    assert_eq!(case.balance("sender").await, (400_000, 0));
    let alone = case.ledger().create_whole(vec![dearest.clone()]).await;
    assert_eq!(places(alone), [0]);
    let nothing = case.ledger().create_whole(Vec::new()).await;
    assert_eq!(nothing, created(&[]));
    for Creation { setup, .. } in [&first, &second, &large] {
        case.entered(setup);
        case.open_entered(setup).await;
    }
}

/// A chosen id belongs to its first campaign. Under another key, of any user, it is refused. Nothing of the first
/// campaign changes, and it gets no waiting room.
pub async fn a_chosen_id_is_one_campaign(case: &mut Scenario) {
    let used = |user: &str, key: &str| {
        let key = IdempotencyKey::new(key).expect("well-formed");
        KeyUse::new(format!("{user} POST /x"), key, [1; 32])
    };
    let packet = |owner: &str| red_packet(300, 3, SplitRule::Equal).owner(owner);
    for user in ["sender", "rival"] {
        case.deposit(user, 1_000).await;
    }
    let first = packet("sender").setup(case.next_id());
    let id = first.campaign.id;
    let mut rival = packet("rival").setup(1_000_000);
    rival.campaign.id = id;
    let taken = [
        Creation {
            waiting_room: true,
            ..keyed(used("rival", "r"), &rival)
        },
        keyed(used("sender", "another"), &first),
    ];
    let created = case
        .ledger()
        .create_under(keyed(used("sender", "k"), &first));
    assert_eq!(created.await.map(|it| it.fresh), Ok(true));
    for restarts in 0..2 {
        let ledger = case.ledger();
        for taken in &taken {
            let refused = ledger.create_under(taken.clone()).await;
            assert_eq!(refused, Err(LedgerError::IdUsed), "{restarts}");
            assert_eq!(ledger.bound_key(key_of(taken)).await, Ok(None));
        }
        let all = ledger.create_all(taken.to_vec()).await;
        assert_eq!(all, Ok(vec![Err(LedgerError::IdUsed); 2]));
        assert_eq!(ledger.has_waiting_room(id).await, Ok(false));
        let repeated = ledger.create_under(keyed(used("sender", "k"), &first));
        assert_eq!(repeated.await.map(|it| it.fresh), Ok(false));
        let stored = ledger.campaign(id).await.expect("the ledger answers");
        assert_eq!(
            stored.map(|it| it.campaign.owner),
            Some(first.campaign.owner.clone())
        );
        assert_eq!(case.balance("sender").await, (700, 0));
        assert_eq!(case.balance("rival").await, (1_000, 0));
        case.restart().await;
    }
    // The campaign gets its own queue if the creation asks for one.
    let lined = packet("sender").setup(case.next_id());
    let asked = Creation {
        waiting_room: true,
        ..keyed(used("sender", "line"), &lined)
    };
    let created = case.ledger().create_under(asked).await;
    assert_eq!(created.map(|it| it.fresh), Ok(true));
    assert_eq!(
        case.ledger().has_waiting_room(lined.campaign.id).await,
        Ok(true)
    );
    for setup in [&first, &lined] {
        case.entered(setup);
        case.open_entered(setup).await;
    }
}

fn keyed(used: KeyUse, setup: &Setup) -> Creation {
    Creation {
        used: Some(used),
        setup: setup.clone(),
        details: Details::default(),
        metadata: Metadata::default(),
        audience: None,
        waiting_room: false,
        by: None,
        opens: false,
    }
}

fn key_of(creation: &Creation) -> &KeyUse {
    creation.used.as_ref().expect("it has a key")
}

/// Keys are purged after a time, oldest first. The order of a payment is kept.
pub async fn old_keys_are_purged_and_payments_kept(case: &mut Scenario) {
    let used = |scope: &str, key: &str| {
        let key = IdempotencyKey::new(key).expect("well-formed");
        KeyUse::new(scope, key, [1; 32])
    };
    let bind = async |case: &Scenario, used: &KeyUse| {
        let bound = case.ledger().bind_key(used, Uuid::from_u128(9)).await;
        bound.expect("the ledger answers").fresh
    };
    for n in 0..3 {
        assert!(bind(case, &used("a POST /x", &format!("old-{n}"))).await);
    }
    let payment = used(KeyUse::PAYMENT, "p");
    assert!(bind(case, &payment).await);
    let later = OPENS.plus_millis(1_000);
    case.set_clock(later);
    let fresh = used("a POST /x", "fresh");
    assert!(bind(case, &fresh).await);
    let ledger = case.ledger();
    assert_eq!(ledger.purge_keys(OPENS, 10).await, Ok(0));
    assert_eq!(ledger.purge_keys(later, 2).await, Ok(2));
    assert_eq!(ledger.purge_keys(later, 2).await, Ok(1));
    assert_eq!(ledger.purge_keys(later, 2).await, Ok(0));
    case.restart().await;
    assert!(!bind(case, &payment).await);
    assert!(!bind(case, &fresh).await);
    assert!(
        bind(case, &used("a POST /x", "old-1")).await,
        "the key was not purged"
    );
}
