//! Passphrases of campaigns: stored as a slow salted hash, compared in constant time, with a limit on guesses.
//!
//! Passphrases that look the same compare as equal. A Chinese keyboard types ８８８ for 888, and some devices compose
//! accents that others write apart. The rule is OpaqueString of RFC 8265, with the width mapping of its user names.

use std::{
    num::NonZeroU32,
    sync::{Arc, LazyLock, OnceLock},
};

use aws_lc_rs::{constant_time::verify_slices_are_equal, pbkdf2};
use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use governor::Quota;
use parking_lot::Mutex;
use qiang_core::{
    fair_share::{FairShares, OwnerDigest},
    id::{CampaignId, UserId},
    ports::EngineError,
};
use qiang_wire::problem::ProblemKind;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use unicode_normalization::{UnicodeNormalization as _, char::decompose_compatible};

use crate::{
    http::{
        client_address::AddressKey,
        problem::{ApiProblem, Policy},
    },
    observe::metrics::Metrics,
    protect::{single_flight::SingleFlight, throttle::Throttle},
};

/// Length of a passphrase in characters.
pub(crate) const CHARS_MIN: usize = 4;
pub(crate) const CHARS_MAX: usize = 128;
/// Shortest new passphrase of digits only: there are at most 100,000 shorter ones.
const DIGITS_MIN: usize = 6;
/// Rounds of PBKDF2: about 20 ms per guess for an attacker who has read the ledger. Each stored hash has its own
/// number.
const ROUNDS: NonZeroU32 = NonZeroU32::new(100_000).expect("above 0");
/// Passphrases of claims that are hashed or wait for it; more are refused as overload. A queue hashes one at a time,
/// so that guesses leave the other processors to claims. Campaigns of one owner have at most half of the queue, and one
/// campaign a quarter.
const GUESSES_WAITING_MAX: usize = 128;
/// The same for new campaigns.
const CREATIONS_WAITING_MAX: usize = 64;
/// Guesses of one user on a node: at once, and per minute. A passphrase that another user has already sent correctly
/// is checked without a hash, so the right one costs no guess.
const GUESSES: NonZeroU32 = NonZeroU32::new(5).expect("above 0");
const GUESSES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(6).expect("above 0");
/// The same for one address, which several users may share. Equal guesses at the same time count once.
const ADDRESS_GUESSES: NonZeroU32 = NonZeroU32::new(30).expect("above 0");
const ADDRESS_GUESSES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(30).expect("above 0");
/// The same for one campaign, over all users and addresses.
const CAMPAIGN_GUESSES: NonZeroU32 = NonZeroU32::new(120).expect("above 0");
const CAMPAIGN_GUESSES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("above 0");
/// Maximum number of users, addresses and campaigns that the limits track.
const GUESSERS_MAX: usize = 100_000;

pub(crate) type Hash = [u8; 32];

pub(crate) fn encode(bytes: &[u8]) -> String {
    BASE64_STANDARD_NO_PAD.encode(bytes)
}

pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    BASE64_STANDARD_NO_PAD.decode(text).ok()
}

/// Limits on guesses of passphrases.
pub(crate) struct Guesses {
    of_user: Throttle,
    of_address: Throttle,
    of_campaign: Throttle,
}

impl Guesses {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let throttle = |name, problem, per_minute, at_once| {
            let policy = Policy {
                name,
                unit: None,
                problem,
            };
            let quota = Quota::per_minute(per_minute).allow_burst(at_once);
            Throttle::new(policy, Some(quota), GUESSERS_MAX, metrics.refused_by(name))
        };
        Self {
            of_user: throttle(
                "passphrases-of-user",
                ProblemKind::Throttled,
                GUESSES_PER_MINUTE,
                GUESSES,
            ),
            of_address: throttle(
                "passphrases-of-address",
                ProblemKind::AddressThrottled,
                ADDRESS_GUESSES_PER_MINUTE,
                ADDRESS_GUESSES,
            ),
            of_campaign: throttle(
                "passphrases-of-campaign",
                ProblemKind::PassphrasesThrottled,
                CAMPAIGN_GUESSES_PER_MINUTE,
                CAMPAIGN_GUESSES,
            ),
        }
    }
}

/// A user whose passphrase may be wrong.
pub(crate) struct Guesser<'a> {
    pub(crate) guesses: &'a Guesses,
    pub(crate) user: &'a UserId,
    /// `None` if the address has no limit.
    pub(crate) address: Option<AddressKey>,
    pub(crate) campaign: CampaignId,
    /// Owner of the campaign.
    pub(crate) owner: &'a UserId,
    /// Whether the user already has the grant. Guesses of other users do not block the answer to a replay.
    pub(crate) is_replay: bool,
}

impl Guesser<'_> {
    /// Counts a guess of the user. It also counts for address and campaign, unless it is a replay or the same guess
    /// is already being checked for another user.
    fn guess(&self, is_judged: bool) -> Result<(), ApiProblem> {
        self.guesses.of_user.check(self.user)?;
        if is_judged || self.is_replay {
            return Ok(());
        }
        if let Some(address) = &self.address {
            self.guesses.of_address.check(address)?;
        }
        self.guesses.of_campaign.check(&self.campaign)
    }
}

/// Queue of passphrases to hash.
struct HashQueue {
    places: Semaphore,
    turn: Semaphore,
}

impl HashQueue {
    const fn new(waiting_max: usize) -> Self {
        Self {
            places: Semaphore::const_new(waiting_max),
            turn: Semaphore::const_new(1),
        }
    }
}

/// Queues of claims and of new campaigns, apart so that many new campaigns delay no claim.
static CLAIMS: HashQueue = HashQueue::new(GUESSES_WAITING_MAX);
static CREATIONS: HashQueue = HashQueue::new(CREATIONS_WAITING_MAX);

/// Guesses in the queue of claims, by campaign and owner.
static GUESSES_WAITING: LazyLock<Mutex<FairShares<CampaignId>>> =
    LazyLock::new(|| Mutex::new(FairShares::new(GUESSES_WAITING_MAX)));

/// A guess in the queue of claims, until it is dropped.
struct WaitingGuess(CampaignId);

impl WaitingGuess {
    /// `None` if the campaign or its owner has its share of the queue.
    fn enter(campaign: CampaignId, owner: &UserId) -> Option<Self> {
        let owner = Some(OwnerDigest::of(owner));
        let fits = GUESSES_WAITING.lock().enter(campaign, owner, 1);
        fits.then_some(Self(campaign))
    }
}

impl Drop for WaitingGuess {
    fn drop(&mut self) {
        GUESSES_WAITING.lock().leave(&self.0, 1);
    }
}

/// PBKDF2 with HMAC-SHA256, as the ledger stores it.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeptPassphrase {
    salt: String,
    rounds: NonZeroU32,
    hash: String,
}

impl KeptPassphrase {
    /// Hashes a new passphrase. [`check_new`] checks its minimum length.
    pub(crate) async fn from_input(said: &str) -> Result<Self, ApiProblem> {
        if !is_possible(said) {
            return Err(impossible());
        }
        let salt: [u8; 16] = rand::random();
        let hash = hash(seen(said), salt.into(), ROUNDS, &CREATIONS).await;
        Ok(Self {
            salt: encode(&salt),
            rounds: ROUNDS,
            hash: encode(&hash?),
        })
    }
}

/// Passphrase of one campaign.
#[derive(Debug)]
pub(crate) struct Passphrase {
    salt: Arc<[u8]>,
    rounds: NonZeroU32,
    hash: Vec<u8>,
    /// SHA-256 of the passphrase, set by the first correct guess. Further correct guesses cost no rounds.
    known: OnceLock<Hash>,
    /// Hashes that are running; equal guesses wait for the same one.
    asked: SingleFlight<Hash, Option<bool>>,
}

impl Passphrase {
    /// Parses a stored hash; `None` if it is malformed.
    pub(crate) fn from_stored(kept: &KeptPassphrase) -> Option<Self> {
        Some(Self {
            salt: decode(&kept.salt)?.into(),
            rounds: kept.rounds,
            hash: decode(&kept.hash)?,
            known: OnceLock::new(),
            asked: SingleFlight::default(),
        })
    }

    /// Stores the [`digest`] of the passphrase, so that checks cost no rounds.
    pub(crate) fn learn(&self, digest: Hash) {
        self.known.get_or_init(|| digest);
    }

    /// Whether this is the passphrase. Without a guesser, the owner sends it at a creation. A match with the known
    /// digest counts as no guess.
    pub(crate) async fn is(
        &self,
        said: &str,
        guesser: Option<Guesser<'_>>,
    ) -> Result<bool, ApiProblem> {
        let guess = |is_judged| match &guesser {
            Some(guesser) => guesser.guess(is_judged),
            None => Ok(()),
        };
        let queue = match &guesser {
            Some(_) => &CLAIMS,
            None => &CREATIONS,
        };
        if !is_possible(said) {
            return Ok(false);
        }
        let said = seen(said);
        let digest = sha256(&said);
        if let Some(known) = self.known.get() {
            if verify_slices_are_equal(known, &digest).is_ok() {
                return Ok(true);
            }
            // There is one passphrase, so any other is wrong.
            guess(false)?;
            return Ok(false);
        }
        guess(self.asked.has(&digest))?;
        let asked = self.asked.run(digest, async {
            let _waiting = match &guesser {
                Some(guesser) => Some(WaitingGuess::enter(guesser.campaign, guesser.owner)?),
                None => None,
            };
            let hash = hash(said, Arc::clone(&self.salt), self.rounds, queue).await;
            let is_right = verify_slices_are_equal(&hash.ok()?, &self.hash).is_ok();
            if is_right {
                self.learn(digest);
            }
            Some(is_right)
        });
        // If the queue refused the guess, it is not known to be wrong.
        asked.await.ok_or_else(|| EngineError::Overloaded.into())
    }
}

/// Hashes a passphrase on a blocking thread.
async fn hash(
    said: String,
    salt: Arc<[u8]>,
    rounds: NonZeroU32,
    queue: &'static HashQueue,
) -> Result<Hash, ApiProblem> {
    let internal = |error: &dyn std::fmt::Display| ApiProblem::internal(error.to_string());
    let _place = queue
        .places
        .try_acquire()
        .map_err(|_| EngineError::Overloaded)?;
    let turn = queue
        .turn
        .acquire()
        .await
        .map_err(|error| internal(&error))?;
    let hashed = tokio::task::spawn_blocking(move || {
        let mut hash = Hash::default();
        let (algorithm, said) = (pbkdf2::PBKDF2_HMAC_SHA256, said.as_bytes());
        pbkdf2::derive(algorithm, rounds, &salt, said, &mut hash);
        drop(turn); // here, because the caller may have been cancelled
        hash
    });
    hashed.await.map_err(|error| internal(&error))
}

/// SHA-256 of a new passphrase, which its campaign keeps in memory.
pub(crate) fn digest(said: &str) -> Hash {
    sha256(&seen(said))
}

fn sha256(form: &str) -> Hash {
    Sha256::digest(form).into()
}

/// Normal form of a passphrase: characters in usual width, one kind of blank and none at the ends, accents composed
/// with their letters. Case is kept.
fn seen(said: &str) -> String {
    let mut text = String::with_capacity(said.len());
    for character in said.chars() {
        match character {
            '\u{ffe3}' => text.push('\u{af}'), // its compatible form would be a blank with an accent
            // ASCII in full width, katakana in half width, and signs.
            '\u{ff01}'..='\u{ff9f}' | '\u{ffe0}'..='\u{ffee}' => {
                decompose_compatible(character, |usual| text.push(usual));
            }
            blank if blank.is_whitespace() => text.push(' '),
            other => text.push(other),
        }
    }
    let composed: String = text.nfc().collect();
    composed.trim().to_owned()
}

fn is_possible(said: &str) -> bool {
    let said = said.trim();
    !said.is_empty() && said.chars().nth(CHARS_MAX).is_none()
}

/// Checks the minimum length of a new passphrase.
pub(crate) fn check_new(said: &str) -> Result<(), ApiProblem> {
    match is_long_enough(&seen(said)) {
        true => Ok(()),
        false => Err(impossible()),
    }
}

fn impossible() -> ApiProblem {
    let detail = format!(
        "a passphrase has {CHARS_MIN} to {CHARS_MAX} characters, and at least {DIGITS_MIN} if all of them are digits"
    );
    ApiProblem::invalid_at("#/audience/passphrase", detail)
}

/// Whether a new passphrase is too long to be found by trying all of its length.
fn is_long_enough(said: &str) -> bool {
    let chars = said.chars().count();
    let are_digits = said.chars().all(char::is_numeric);
    chars >= if are_digits { DIGITS_MIN } else { CHARS_MIN }
}

#[cfg(test)]
mod tests;
