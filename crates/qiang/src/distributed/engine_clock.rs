//! The clock of Redis, which decides when campaigns open and end.

use std::sync::Arc;

use qiang_core::{ports::Clock, time::Timestamp};
use qiang_redis::RedisEngine;

/// The time of Redis if this node knows it, otherwise the node's own.
pub(crate) struct EngineClock {
    pub(crate) engine: RedisEngine,
    pub(crate) own: Arc<dyn Clock>,
}

impl Clock for EngineClock {
    fn now(&self) -> Timestamp {
        let time = self.engine.time();
        time.unwrap_or_else(|| self.own.now())
    }
}
