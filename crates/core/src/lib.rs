//! Qiang core.
pub mod split;
