//! A disk that loses power. It keeps a record of everything that was done to the files of one folder, and makes from it
//! the folder as it may be found after the power went at any moment: what was synced is there, and of the rest nothing,
//! all, or any part.
//!
//! What it assumes is what POSIX promises: the content of a file is on the disk once the file was synced, its name once
//! the folder was. Names change in order. Of a write that was not synced any of its sectors may be there.
//!
//! Only for tests.

mod image;
mod journal;
mod operation;

pub use self::{
    image::Fate,
    journal::{Disk, Journal},
};
