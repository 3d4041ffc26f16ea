//! Challenges that a user solves for a ticket. A proof of work is built in; programs can pass others to the node as a
//! [`TicketChallenge`].

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// Maximum difficulty: more would take a browser minutes.
pub(crate) const DIFFICULTY_MAX: u32 = 32;
/// Maximum length of a solution.
const SOLUTION_BYTES_MAX: usize = 128;

/// Failure to judge a challenge.
#[derive(Debug, thiserror::Error)]
#[error("cannot judge the challenge: {0}")]
pub struct ChallengeError(pub String);

/// Challenge that a user, or the user's machine, solves for a ticket.
///
/// The service makes and checks the nonce. It belongs to a user and a campaign, expires, and is made only after the
/// campaign's start. Implementations need no state.
#[async_trait]
pub trait TicketChallenge: fmt::Debug + Send + Sync + 'static {
    /// Name of the challenge in answers.
    fn kind(&self) -> &'static str;

    /// Parameters for users in addition to the nonce, as fields of the answer.
    fn parameters(&self) -> Map<String, Value>;

    /// Whether this solves the challenge with this nonce.
    ///
    /// # Errors
    /// [`ChallengeError`] if that cannot be judged at present; it is for the operator's log.
    async fn is_solved(&self, nonce: &str, solution: &str) -> Result<bool, ChallengeError>;
}

/// Proof of work: a text such that SHA-256 over the nonce, `:` and the text starts with `difficulty` zero bits.
///
/// It takes 2^difficulty hashes on average to find, and one to check. So a script cannot claim for many users at no
/// cost. It does not separate people from scripts.
#[derive(Debug, Clone, Copy)]
pub struct ProofOfWork {
    difficulty: u32,
}

impl ProofOfWork {
    /// Proof of work with this number of bits.
    pub fn new(difficulty: u32) -> Self {
        Self { difficulty }
    }
}

#[async_trait]
impl TicketChallenge for ProofOfWork {
    fn kind(&self) -> &'static str {
        "proof-of-work"
    }

    fn parameters(&self) -> Map<String, Value> {
        Map::from_iter([("difficulty".to_owned(), json!(self.difficulty))])
    }

    async fn is_solved(&self, nonce: &str, solution: &str) -> Result<bool, ChallengeError> {
        let hash = Sha256::new()
            .chain_update(nonce)
            .chain_update(":")
            .chain_update(solution)
            .finalize();
        let bits = leading_zeros(&hash);
        Ok(solution.len() <= SOLUTION_BYTES_MAX && bits >= self.difficulty)
    }
}

fn leading_zeros(hash: &[u8]) -> u32 {
    let zeros = hash.iter().take_while(|byte| **byte == 0).count();
    let rest = hash.get(zeros).map_or(0, |byte| byte.leading_zeros());
    8 * zeros as u32 + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_measured_in_bits() {
        let bits = |solution: &str| {
            let hash = Sha256::digest(format!("n:{solution}"));
            leading_zeros(&hash)
        };
        let solution = (0..).map(|n| n.to_string()).find(|n| bits(n) >= 8).unwrap();
        let exactly = bits(&solution);
        let solved = async |difficulty, nonce: &str, solution: &str| {
            let work = ProofOfWork::new(difficulty);
            work.is_solved(nonce, solution).await.unwrap()
        };
        assert!(solved(exactly, "n", &solution).await);
        assert!(!solved(exactly + 1, "n", &solution).await);
        assert!(!solved(exactly, "nn", &solution).await);
        assert!(!solved(0, "n", &"1".repeat(129)).await);
        assert_eq!(leading_zeros(&[0, 0, 0x1f]), 19);
        assert_eq!(leading_zeros(&[0; 32]), 256);
    }
}
