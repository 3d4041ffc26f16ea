//! Concurrent users of a service over HTTP: their connections, the load that they make, and the verdict on what they
//! saw.
//!
//! Used by the demonstration and the benchmarks. It speaks to the service over real connections and knows nothing
//! of its insides.

pub mod client;
pub mod load_generator;
pub mod ticket;
pub mod verdict;
