//! Qiang core.
