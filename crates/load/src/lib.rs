//! Concurrent users of a service over HTTP: their connections, the load that they make, and the verdict on what they
//! saw.
//!
//! Used by the demonstration and the benchmarks. It speaks to the service over real connections and knows nothing
//! of its insides. The load generator's [`client`] is not `qiang-client`: one task drives each connection, nothing is
//! parsed that is not counted, and nothing is tried again, so that what is measured is the service, and every answer is
//! seen as it came (`docs/decisions/0012-tests.md`). [`visitors`], whom people watch, ask by `qiang-client`.

pub mod client;
pub mod load_generator;
pub mod ticket;
pub mod verdict;
pub mod visitors;
