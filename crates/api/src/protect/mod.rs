//! Bounds on what one caller costs: limits, streams, the order check.

pub(crate) mod breaker;
pub(crate) mod limits;
pub(crate) mod open_streams;
pub(crate) mod order_check;
pub(crate) mod single_flight;
pub(crate) mod throttle;
