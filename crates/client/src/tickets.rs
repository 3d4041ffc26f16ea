//! Grab tickets, and the proof of work that they need.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::{
    call::{RepeatableCall, read},
    client::Client,
    error::Error,
    ids::CampaignId,
    paths::PathKind,
    values::Timestamp,
};

/// Kind of challenge that this client solves.
const PROOF_OF_WORK: &str = "proof-of-work";
/// Maximum difficulty in bits. The client refuses a harder challenge.
pub const WORK_BITS_MAX: u32 = 32;
/// Numbers tried between two reads of the clock.
const TRIED_AT_ONCE: u64 = 4_096;

/// Grab ticket: it allows its user to claim of one campaign until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GrabTicket {
    /// Text that claims present.
    pub ticket: String,
    /// Time of its expiry.
    pub expires_at: Timestamp,
}

#[derive(Deserialize)]
struct ChallengeAnswer {
    challenge: ReceivedChallenge,
}

#[derive(Deserialize)]
struct ReceivedChallenge {
    kind: String,
    nonce: String,
    #[serde(default)]
    difficulty: u32,
}

#[derive(Serialize)]
struct Solution {
    nonce: String,
    solution: String,
}

impl Client {
    /// Gets a ticket for claims of a red packet in advance. Claims also get their tickets automatically. Scope `claim`.
    ///
    /// # Errors
    /// As for [`Client::sale_ticket`].
    pub async fn red_packet_ticket(&self, packet: &CampaignId) -> Result<GrabTicket, Error> {
        self.ticket(PathKind::RedPacket, packet, self.deadline())
            .await
    }

    /// Gets a ticket for orders of a sale in advance. Orders also get their tickets automatically. Scope `claim`.
    ///
    /// # Errors
    /// Problems such as `not-started` and `ticket-not-needed`; see [`Error`]. [`Error::Answer`] for a challenge of an
    /// unknown kind.
    pub async fn sale_ticket(&self, sale: &CampaignId) -> Result<GrabTicket, Error> {
        self.ticket(PathKind::Sale, sale, self.deadline()).await
    }

    pub(crate) async fn ticket(
        &self,
        kind: PathKind,
        campaign: &CampaignId,
        until: Instant,
    ) -> Result<GrabTicket, Error> {
        let path = format!("{}/tickets", kind.path(campaign));
        let mut answer = self
            .call(&RepeatableCall::post(path.as_str()).until(until))
            .await?;
        if answer.status == StatusCode::OK {
            let ChallengeAnswer { challenge } = read(&answer)?;
            let ReceivedChallenge {
                kind,
                nonce,
                difficulty,
            } = challenge;
            if kind != PROOF_OF_WORK || difficulty > WORK_BITS_MAX {
                let what =
                    format!("this client cannot solve the challenge `{kind}` of {difficulty} bits");
                return Err(Error::Answer(what));
            }
            let work = move || {
                let solution = solve_until(&nonce, difficulty, until.into_std());
                Some(Solution {
                    solution: solution?.to_string(),
                    nonce,
                })
            };
            let solution = tokio::task::spawn_blocking(work)
                .await
                .map_err(Error::usage)?;
            let solution = solution.ok_or_else(|| Error::Connection {
                what: "the proof of work for a ticket took longer than the deadline",
                source: None,
            })?;
            let call = RepeatableCall::post(path).json(&solution)?.until(until);
            answer = self.call(&call).await?;
        }
        read(&answer)
    }
}

/// Solves a proof of work. Finds a number such that SHA-256 over the nonce, `:` and its decimal digits begins with
/// `difficulty` zero bits. It takes 2^difficulty hashes on average.
#[must_use]
pub fn solve(nonce: &str, difficulty: u32) -> u64 {
    let work = SolvedWork::new(nonce, difficulty);
    // There are 2^64 numbers, and one of about 2^difficulty is a solution.
    (0..)
        .find(|number| work.is_done_by(*number))
        .unwrap_or(u64::MAX)
}

fn solve_until(nonce: &str, difficulty: u32, until: std::time::Instant) -> Option<u64> {
    let work = SolvedWork::new(nonce, difficulty);
    let starts = (0..).step_by(TRIED_AT_ONCE as usize);
    starts
        .take_while(|_| std::time::Instant::now() < until)
        .find_map(|start| (start..start + TRIED_AT_ONCE).find(|number| work.is_done_by(*number)))
}

struct SolvedWork {
    begun: Sha256,
    difficulty: u32,
}

impl SolvedWork {
    fn new(nonce: &str, difficulty: u32) -> Self {
        let begun = Sha256::new().chain_update(nonce).chain_update(":");
        Self { begun, difficulty }
    }

    fn is_done_by(&self, number: u64) -> bool {
        let hash = self
            .begun
            .clone()
            .chain_update(number.to_string())
            .finalize();
        let (bytes, bits) = (self.difficulty as usize / 8, self.difficulty % 8);
        let zeros = hash.iter().take(bytes).all(|byte| *byte == 0);
        zeros
            && hash
                .get(bytes)
                .is_none_or(|byte| byte.leading_zeros() >= bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_with_the_bits_asked_for() {
        for difficulty in [0, 1, 7, 8, 9, 12] {
            let solution = solve("nonce", difficulty);
            let hash = Sha256::digest(format!("nonce:{solution}"));
            let head = u32::from_be_bytes([hash[0], hash[1], hash[2], hash[3]]);
            assert!(head.leading_zeros() >= difficulty, "{difficulty}: {head:x}");
            let soon = std::time::Instant::now() + std::time::Duration::from_secs(60);
            assert_eq!(solve_until("nonce", difficulty, soon), Some(solution));
        }
        let now = std::time::Instant::now();
        assert_eq!(solve_until("nonce", 32, now), None);
    }
}
