//! Eviction of closed campaigns from Redis, and their reload on request.

pub(crate) mod evict;
pub(crate) mod reload;
