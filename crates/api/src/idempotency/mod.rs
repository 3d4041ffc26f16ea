//! Idempotency keys: fingerprints of requests, and commands that continue without their client.

pub(crate) mod detached;
pub(crate) mod fingerprint;
pub(crate) mod running_changes;
