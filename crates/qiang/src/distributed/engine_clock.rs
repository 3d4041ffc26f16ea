//! Redis' clock, by which campaigns open and end.

use std::sync::Arc;

use qiang_core::{ports::Clock, time::Timestamp};
use qiang_redis::RedisEngine;

/// Redis' time as far as this node knows it, and its own where it does not.
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
