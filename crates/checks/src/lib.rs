//! Checks of the whole: the programs `qiang-nemesis` (faults under load) and `qiang-fuzz` (random requests), and a
//! disk that loses power.

pub mod powerloss;
