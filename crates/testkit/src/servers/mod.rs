//! Real servers for tests: started on free loopback ports in folders of their own, and gone with the value that
//! stands for them.
//!
//! Everything here is synchronous and may be shared between threads; in an asynchronous test call it from
//! `spawn_blocking`, or directly where nothing else has to go on meanwhile. A server that is missing on the machine
//! or does not come up is a panic that says why.

mod port;
mod process;
mod program;
pub mod redis;
mod wait;

pub use port::Port;
pub use process::Process;
pub use wait::wait_for;
