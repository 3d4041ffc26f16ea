//! Tests of passphrases and of the queues in which they are hashed.

use super::*;

fn campaign(n: u32) -> CampaignId {
    format!("01932c07-8e5a-7a3c-9f1e-2b7c5d4e6f{n:02}")
        .parse()
        .unwrap()
}

/// A passphrase that was not hashed in the queue of creations, which another test fills.
async fn passphrase(said: &str) -> Passphrase {
    let salt: Arc<[u8]> = b"salt".as_slice().into();
    let hash = hash(seen(said), Arc::clone(&salt), ROUNDS, &CLAIMS).await;
    Passphrase {
        salt,
        rounds: ROUNDS,
        hash: hash.unwrap().into(),
        known: OnceLock::new(),
        asked: SingleFlight::default(),
    }
}

#[tokio::test]
async fn creations_keep_no_claim_waiting() {
    let kept = KeptPassphrase::from_input("open sesame").await.unwrap();
    let passphrase = Passphrase::from_stored(&kept).unwrap();
    let guesses = Guesses::new(&Metrics::new(&utoipa::openapi::OpenApi::default()));
    let user = UserId::new("ann").unwrap();
    let guesser = || {
        Some(Guesser {
            guesses: &guesses,
            user: &user,
            address: None,
            campaign: campaign(1),
            owner: &user,
            is_replay: false,
        })
    };
    // The queue is full, and one passphrase is being hashed.
    let _waiting = CREATIONS
        .places
        .acquire_many(CREATIONS_WAITING_MAX as u32)
        .await;
    let _turn = CREATIONS.turn.acquire().await;
    assert!(KeptPassphrase::from_input("open sesame").await.is_err());
    assert!(passphrase.is("wrong", None).await.is_err());
    assert!(!passphrase.is("wrong", guesser()).await.unwrap());
    assert!(passphrase.is("open sesame", guesser()).await.unwrap());
}

/// Guesses for campaigns of one owner fill the share of that owner. A guess for another owner's campaign is checked.
#[tokio::test]
async fn one_owner_leaves_room_for_the_guesses_of_others() {
    let guesses = Guesses::new(&Metrics::new(&utoipa::openapi::OpenApi::default()));
    let [greedy, modest, user] = ["greedy", "modest", "ann"].map(|name| UserId::new(name).unwrap());
    // More than half, so that guesses of other tests do not matter.
    let (full, digest) = (5 * GUESSES_WAITING_MAX / 8, OwnerDigest::of(&greedy));
    GUESSES_WAITING
        .lock()
        .take(campaign(10), Some(digest), full);
    for (owner, expected) in [(&greedy, None), (&modest, Some(true))] {
        let passphrase = passphrase("open sesame").await;
        let guesser = Guesser {
            guesses: &guesses,
            user: &user,
            address: None,
            campaign: campaign(50),
            owner,
            is_replay: false,
        };
        let right = passphrase.is("open sesame", Some(guesser)).await;
        assert_eq!(right.ok(), expected, "{owner:?}");
    }
    GUESSES_WAITING.lock().leave(&campaign(10), full);
}

#[test]
fn a_replay_spends_no_guess_of_its_campaign() {
    let guesses = Guesses::new(&Metrics::new(&utoipa::openapi::OpenApi::default()));
    let guess = |n: u32, is_replay: bool| {
        let user = UserId::new(&format!("user-{n}")).unwrap();
        let guesser = Guesser {
            guesses: &guesses,
            user: &user,
            address: None,
            campaign: campaign(1),
            owner: &user,
            is_replay,
        };
        guesser.guess(false).is_ok()
    };
    assert!((0..200).all(|n| guess(n, true)));
    assert!(!(0..200).all(|n| guess(n, false)));
    assert!((0..200).all(|n| guess(n, true)));
}

#[test]
fn passphrases_are_what_people_see() {
    let same = |one: &str, other: &str| assert_eq!(seen(one), seen(other), "{one:?} {other:?}");
    same("８８８", "888");
    same("Ｏｐｅｎ！", "Open!");
    same("cafe\u{301}", "caf\u{e9}");
    same("ｶﾞﾁｬ", "ガチャ");
    same("恭喜\u{3000}发财", "恭喜 发财");
    same("\u{a0}open sesame\u{3000}", "open\u{2003}sesame");
    same("￥１００", "\u{a5}100");
    same("\u{ffe3}", "\u{af}");
    // Differences that users can see remain.
    for (one, other) in [
        ("Open", "open"),
        ("①", "1"),
        ("ﬁ", "fi"),
        ("发", "發"),
        ("a b", "ab"),
    ] {
        assert_ne!(seen(one), seen(other));
    }
}

#[tokio::test]
async fn a_passphrase_is_right_in_each_width() {
    let user = UserId::new("ann").unwrap();
    let guesses = Guesses::new(&Metrics::new(&utoipa::openapi::OpenApi::default()));
    let passphrase = passphrase("８８８８８８").await;
    for (said, expected) in [
        ("88888", false),
        ("888888", true),
        ("８８８８８８", true),
        ("８８８８８", false),
    ] {
        let guesser = Guesser {
            guesses: &guesses,
            user: &user,
            address: None,
            campaign: campaign(1),
            owner: &user,
            is_replay: true,
        };
        let is = passphrase.is(said, Some(guesser)).await;
        assert_eq!(is.ok(), Some(expected), "{said}");
    }
}

#[test]
fn new_passphrases_have_a_least_length() {
    let check = |said: &str, expected| assert_eq!(is_long_enough(said), expected, "{said}");
    check("芝麻开门", true);
    check("恭喜发", false);
    check("open", true);
    check("abc", false);
    check("8888", false);
    check("８８８８８", false);
    check("123456", true);
    check("1234a", true);
}
