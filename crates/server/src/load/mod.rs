//! The crowd: HTTP clients that race for what the service hands out, and what they must find.
//!
//! Used by the demonstration and the benchmarks. It speaks to the service over real connections and knows nothing
//! of its insides.

pub(crate) mod client;
pub(crate) mod race;
pub(crate) mod verdict;
