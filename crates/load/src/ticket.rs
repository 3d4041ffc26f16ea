//! Grab tickets, as a user gets them: the reference for clients of campaigns that ask for them.

use anyhow::{Context as _, bail};
use bytes::Bytes;
use hyper::{StatusCode, header::HeaderValue};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::client::{Client, Response};

/// The kind of challenge that this client solves.
const PROOF_OF_WORK: &str = "proof-of-work";

/// Solves a proof of work: a number such that SHA-256 over the nonce, `:` and its decimal digits begins with
/// `difficulty` bits of 0. It takes 2^difficulty hashes on average.
pub fn solve(nonce: &str, difficulty: u32) -> u64 {
    let begun = Sha256::new().chain_update(nonce).chain_update(":");
    let is_solution = |number: &u64| {
        let hash = begun.clone().chain_update(number.to_string()).finalize();
        let (bytes, bits) = (difficulty as usize / 8, difficulty % 8);
        let zeros = hash.iter().take(bytes).all(|byte| *byte == 0);
        zeros
            && hash
                .get(bytes)
                .is_none_or(|byte| byte.leading_zeros() >= bits)
    };
    // There are 2^64 numbers; one of some 2^difficulty is a solution.
    (0..).find(is_solution).unwrap_or(u64::MAX)
}

/// Gets a ticket at `path`, which ends in `/tickets`, and solves the challenge for it if there is one. The work is done
/// on the task's own thread.
///
/// Without a ticket returns what the service answered instead.
///
/// # Errors
/// When the service does not answer, or asks for something else than a proof of work.
pub async fn get(
    client: &mut Client,
    path: &str,
    token: &HeaderValue,
) -> anyhow::Result<Result<HeaderValue, Response>> {
    let mut answer = client.post(path, token, Bytes::new()).await?;
    if answer.status == StatusCode::OK {
        let challenge = &answer.json()?["challenge"];
        if challenge["kind"] != PROOF_OF_WORK {
            bail!("a challenge that is no proof of work: {challenge}");
        }
        let nonce = challenge["nonce"]
            .as_str()
            .context("a challenge without nonce")?;
        let difficulty = challenge["difficulty"].as_u64().context("no difficulty")?;
        let solution = solve(nonce, u32::try_from(difficulty)?).to_string();
        let solved = json!({ "nonce": nonce, "solution": solution });
        answer = client.post(path, token, solved.to_string().into()).await?;
    }
    if answer.status != StatusCode::CREATED {
        return Ok(Err(answer));
    }
    let ticket = &answer.json()?["ticket"];
    let ticket = ticket.as_str().context("an answer without a ticket")?;
    Ok(Ok(HeaderValue::from_str(ticket)?))
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
        }
    }
}
