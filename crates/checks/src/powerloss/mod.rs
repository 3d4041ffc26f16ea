//! Simulation of a disk that loses power, for tests only.
//!
//! It records every operation on the files of one folder. From the record it builds the folder as it may be after a
//! power loss at any moment. Synced operations survive; of all others none, all, or any part.
//!
//! The model assumes the guarantees of POSIX. The content of a file is on the disk after a sync of the file, its name
//! after a sync of the folder. Names change in order. Any sectors of an unsynced write may be on the disk.

mod image;
mod journal;
mod operation;

pub use self::{
    image::Fate,
    journal::{Disk, Journal},
};
