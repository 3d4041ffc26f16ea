//! The `qiang` binary.
fn main() {}
