//! Grab tickets for the load generator, on its own connection and without the limits of `qiang-client`.

use crate::WORK_BITS_MAX;
pub use crate::solve;
use anyhow::{Context as _, bail};
use bytes::Bytes;
use hyper::{StatusCode, header::HeaderValue};
use serde_json::json;

use crate::load::client::{LoadClient, Response};

/// Kind of challenge that this client solves.
const PROOF_OF_WORK: &str = "proof-of-work";

/// Gets a ticket at `path`, which ends in `/tickets`. Solves the challenge, if there is one, on the calling thread.
///
/// The inner error is the service's answer if it gives no ticket.
///
/// # Errors
/// If the service does not answer, or sends a challenge other than a proof of work.
pub async fn get(
    client: &mut LoadClient,
    path: &str,
    token: &HeaderValue,
) -> anyhow::Result<Result<HeaderValue, Response>> {
    let mut answer = client.post(path, token, Bytes::new()).await?;
    if answer.status == StatusCode::OK {
        let challenge = &answer.json()?["challenge"];
        if challenge["kind"] != PROOF_OF_WORK {
            bail!("the challenge is no proof of work: {challenge}");
        }
        let nonce = challenge["nonce"]
            .as_str()
            .context("the challenge has no nonce")?;
        let difficulty = challenge["difficulty"]
            .as_u64()
            .context("the challenge has no difficulty")?;
        if difficulty > u64::from(WORK_BITS_MAX) {
            bail!("the challenge of {difficulty} bits is too hard");
        }
        let solution = solve(nonce, u32::try_from(difficulty)?).to_string();
        let solved = json!({ "nonce": nonce, "solution": solution });
        answer = client.post(path, token, solved.to_string().into()).await?;
    }
    if answer.status != StatusCode::CREATED {
        return Ok(Err(answer));
    }
    let ticket = &answer.json()?["ticket"];
    let ticket = ticket.as_str().context("the answer has no ticket")?;
    Ok(Ok(HeaderValue::from_str(ticket)?))
}
