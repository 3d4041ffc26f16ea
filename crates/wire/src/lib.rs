//! Bodies, problem types and enums of the HTTP API, once for the service and its clients.
//!
//! Answers are parsed leniently: unknown fields are ignored, and unknown words become `Other`. With the feature
//! `service`, each type has a schema, and the structs can be constructed. Without it they are `non_exhaustive`,
//! because later services may add fields.

pub mod answers;
mod bodies;
pub mod ids;
pub mod lists;
pub mod paths;
pub mod problem;
pub mod values;
pub mod words;

/// Subject of actions on partitions, on the quarantine, and on the whole service.
pub const THE_SERVICE: &str = "the service";
