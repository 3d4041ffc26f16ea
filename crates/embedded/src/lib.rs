//! Embedded engine.
