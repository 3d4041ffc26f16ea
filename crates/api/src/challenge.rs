//! What a user has to do before there is a ticket. A proof of work is built in; others are given to the node as a
//! [`Challenge`].

use std::fmt;

use async_trait::async_trait;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// More would take a browser minutes.
pub(crate) const DIFFICULTY_MAX: u32 = 32;
/// Longer solutions are wrong.
const SOLUTION_BYTES_MAX: usize = 128;

/// A challenge could not be judged.
#[derive(Debug, thiserror::Error)]
#[error("the challenge cannot be judged: {0}")]
pub struct ChallengeError(pub String);

/// Something that a user, or the user's machine, has to do before there is a ticket.
///
/// The nonce is made and checked elsewhere: it is bound to the user and the campaign, expires, and is only made after
/// the campaign's start. Implementations need not remember anything.
#[async_trait]
pub trait Challenge: fmt::Debug + Send + Sync + 'static {
    /// Its name in answers.
    fn kind(&self) -> &'static str;

    /// What users need to know besides the nonce, as fields of the answer.
    fn parameters(&self) -> Map<String, Value>;

    /// Whether that solves the challenge of this nonce.
    ///
    /// # Errors
    /// [`ChallengeError`] when it cannot be told at the moment, for the operator's log.
    async fn is_solved(&self, nonce: &str, solution: &str) -> Result<bool, ChallengeError>;
}

/// A text such that SHA-256 over the nonce, `:` and the text begins with so many bits that are 0.
///
/// It takes 2^difficulty hashes to find on average, and one to check. It keeps a script from asking for many users at
/// once for nothing; it does not tell people from scripts.
#[derive(Debug, Clone, Copy)]
pub struct ProofOfWork {
    difficulty: u32,
}

impl ProofOfWork {
    /// A proof of work with that many bits.
    pub fn new(difficulty: u32) -> Self {
        Self { difficulty }
    }
}

#[async_trait]
impl Challenge for ProofOfWork {
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
