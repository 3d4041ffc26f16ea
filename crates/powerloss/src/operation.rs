//! What can be done to the files of a folder.

use std::{collections::BTreeMap, sync::Arc};

/// A file, whatever its name is.
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
    /// A file has a name from here on, and another name is gone; both at once.
    Name {
        new: Option<(String, FileId)>,
        gone: Option<String>,
    },
    SyncFolder,
}

/// Names as they are behind a change of them.
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
