//! Passphrases of campaigns: kept as a slow salted hash, compared in constant time, and guessed in bounded number.

use std::{
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, pbkdf2};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use governor::Quota;
use qiang_core::ports::EngineError;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::{
    metrics::Metrics,
    problem::{Policy, Problem, ProblemKind},
    single_flight::SingleFlight,
    throttle::Throttle,
};

/// Characters of a passphrase.
const CHARS_MAX: usize = 128;
/// Rounds of PBKDF2, what a guess costs whoever has read the ledger: some 20 ms. Each hash says how many it took.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).expect("above 0");
/// Passphrases that wait to be hashed on a node, or are; the others are refused as overload. One is hashed at a time,
/// so that guesses leave the other processors to those who claim.
const WAITING_MAX: usize = 64;
/// Passphrases that one user may have hashed at once on a node, and how often another one. Those who say what somebody
/// has said rightly before them need none of it.
const GUESSES: NonZeroU32 = NonZeroU32::new(5).expect("above 0");
const GUESSES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(6).expect("above 0");
/// Users whose guesses are counted.
const GUESSERS_MAX: usize = 100_000;

type Hash = [u8; 32];

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD_NO_PAD.decode(text).ok()
}

/// How often each user may guess.
pub(crate) fn guesses(metrics: &Metrics) -> Throttle {
    let policy = Policy {
        name: "passphrases-of-user",
        unit: None,
        problem: ProblemKind::Throttled,
    };
    let quota = Quota::per_minute(GUESSES_PER_MINUTE).allow_burst(GUESSES);
    let refused = metrics.refused_by(policy.name);
    Throttle::new(policy, Some(quota), GUESSERS_MAX, refused)
}

/// PBKDF2 with HMAC-SHA256, as the ledger keeps it.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptPassphrase {
    salt: String,
    rounds: NonZeroU32,
    hash: String,
}

impl KeptPassphrase {
    /// What is kept of a new passphrase.
    pub(crate) async fn of(said: &str) -> Result<Self, Problem> {
        let said = plain(said);
        if !is_possible(said) {
            let detail = "a passphrase has 1 to 128 characters";
            return Err(Problem::invalid_at("#/audience/passphrase", detail));
        }
        let salt: [u8; 16] = rand::random();
        let hash = hash(said.to_owned(), salt.into(), ROUNDS).await;
        Ok(Self {
            salt: encode(&salt),
            rounds: ROUNDS,
            hash: encode(&hash?),
        })
    }
}

/// The passphrase of one campaign.
#[derive(Debug)]
pub(crate) struct Passphrase {
    salt: Arc<[u8]>,
    rounds: NonZeroU32,
    hash: Vec<u8>,
    /// SHA-256 of the passphrase once somebody has said it: the others who say it cost no rounds.
    known: OnceLock<Hash>,
    /// Who says the same at once waits for one hash.
    asked: SingleFlight<Hash, Option<bool>>,
}

impl Passphrase {
    /// Reads what was kept, if it can be.
    pub(crate) fn of(kept: &KeptPassphrase) -> Option<Self> {
        Some(Self {
            salt: decode(&kept.salt)?.into(),
            rounds: kept.rounds,
            hash: decode(&kept.hash)?,
            known: OnceLock::new(),
            asked: SingleFlight::default(),
        })
    }

    /// Whether this is the passphrase. `guess` refuses those who have guessed too often; it is not asked about what is
    /// known to be right.
    pub(crate) async fn is(
        &self,
        said: &str,
        guess: impl FnOnce() -> Result<(), Problem>,
    ) -> Result<bool, Problem> {
        let said = plain(said);
        if !is_possible(said) {
            return Ok(false);
        }
        let digest: Hash = Sha256::digest(said).into();
        if let Some(known) = self.known.get() {
            if verify_slices_are_equal(known, &digest).is_ok() {
                return Ok(true);
            }
            // There is one passphrase: what is not it is wrong.
            guess()?;
            return Ok(false);
        }
        guess()?;
        let asked = self.asked.run(digest, async {
            let hash = hash(said.to_owned(), Arc::clone(&self.salt), self.rounds).await;
            let right = verify_slices_are_equal(&hash.ok()?, &self.hash).is_ok();
            if right {
                self.known.get_or_init(|| digest);
            }
            Some(right)
        });
        // Somebody whose turn does not come is not wrong.
        asked.await.ok_or_else(|| EngineError::Overloaded.into())
    }
}

/// Hashes a passphrase off the threads that serve others.
async fn hash(said: String, salt: Arc<[u8]>, rounds: NonZeroU32) -> Result<Hash, Problem> {
    static PLACES: Semaphore = Semaphore::const_new(WAITING_MAX);
    static TURN: Semaphore = Semaphore::const_new(1);
    let internal = |error: &dyn std::fmt::Display| Problem::internal(error.to_string());
    let _place = PLACES.try_acquire().map_err(|_| EngineError::Overloaded)?;
    let turn = TURN.acquire().await.map_err(|error| internal(&error))?;
    let hashed = tokio::task::spawn_blocking(move || {
        let mut hash = Hash::default();
        let (algorithm, said) = (pbkdf2::PBKDF2_HMAC_SHA256, said.as_bytes());
        pbkdf2::derive(algorithm, rounds, &salt, said, &mut hash);
        drop(turn); // also when nobody waits for it any more
        hash
    });
    hashed.await.map_err(|error| internal(&error))
}

/// A passphrase without the blanks at its ends, which people do not see.
fn plain(said: &str) -> &str {
    said.trim()
}

fn is_possible(said: &str) -> bool {
    !said.is_empty() && said.chars().nth(CHARS_MAX).is_none()
}
