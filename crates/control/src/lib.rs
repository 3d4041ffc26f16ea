//! The control plane: one file a reconciler, each idempotent, each on a timer and a signal.

pub mod settlement;
