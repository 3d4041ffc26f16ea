//! Closed campaigns leave Redis, and come back on request.

pub(crate) mod evict;
pub(crate) mod reload;
