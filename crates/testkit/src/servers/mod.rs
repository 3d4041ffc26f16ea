//! Real servers for tests: started on free loopback ports in folders of their own, and gone with the value that
//! stands for them.
//!
//! Everything here is synchronous and may be shared between threads; in an asynchronous test call it from
//! `spawn_blocking`, or directly where nothing else has to go on meanwhile. A server that is missing on the machine
//! or does not come up is a panic that says why.

pub mod mariadb;
mod port;
pub mod postgres;
mod process;
mod program;
pub mod rabbitmq;
pub mod redis;
mod tree;
mod user;
mod wait;

pub use port::Port;
pub use process::Process;
pub use wait::wait_for;

/// A folder of a server's own, removed with it. Its name tells whose it was when a killed test left it behind.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("qiang-test-").tempdir();
    folder.expect("a temporary folder")
}
