//! Operations on the files of a folder.

use std::{collections::BTreeMap, sync::Arc};

/// Id of a file, independent of its names.
pub(crate) type FileId = usize;

#[derive(Debug, Clone)]
pub(crate) enum Operation {
    Write {
        file: FileId,
        at: u64,
        bytes: Arc<[u8]>,
    },
    SetLength {
        file: FileId,
        bytes: u64,
    },
    Sync {
        file: FileId,
    },
    /// Adds a name of a file and removes another name, atomically.
    Name {
        new: Option<(String, FileId)>,
        gone: Option<String>,
    },
    SyncFolder,
}

/// Applies a change of names.
pub(crate) fn rename(
    names: &mut BTreeMap<String, FileId>,
    new: Option<&(String, FileId)>,
    gone: Option<&str>,
) {
    if let Some(gone) = gone {
        names.remove(gone);
    }
    if let Some((name, file)) = new {
        names.insert(name.clone(), *file);
    }
}
