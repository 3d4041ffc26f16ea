//! Concurrent users of a service over HTTP: their connections, their load, and the check of their answers.
//!
//! The demonstration and the benchmarks use it. It uses real connections and knows no internals of the service. The
//! load generator has its own [`client`] instead of `qiang-client`: one task drives each connection, parses only what
//! it counts, and never retries. So a measurement covers the service alone, and no answer is hidden
//! (`docs/decisions/0012-tests.md`). The [`visitors`] of the demonstration use `qiang-client`.

pub mod client;
pub mod load_generator;
pub mod ticket;
pub mod verdict;
pub mod visitors;
