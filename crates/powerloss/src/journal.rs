//! The record of what was done to the files of a folder.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::{
    image::{Fate, Replay},
    operation::{FileId, Operation, rename},
};

/// What was done to the files of a folder, in order.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    operations: Vec<Operation>,
    /// The names as programs see them.
    names: BTreeMap<String, FileId>,
    files: usize,
}

impl Journal {
    /// How many operations there are. A cut of the power comes behind so many of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether nothing was done.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// The cuts right before something is synced: all that is not on the disk yet is at stake there.
    #[must_use]
    pub fn before_syncs(&self) -> Vec<usize> {
        let is_sync = |operation: &Operation| {
            matches!(operation, Operation::Sync { .. } | Operation::SyncFolder)
        };
        let places = self.operations.iter().enumerate();
        places
            .filter_map(|(place, operation)| is_sync(operation).then_some(place))
            .collect()
    }

    /// The same record, in which these files were never synced from operation `from` to `to`: a bug to be found.
    #[must_use]
    pub fn without_syncs(&self, suffix: &str, from: usize, to: usize) -> Self {
        let mut planted = self.clone();
        let named = |file: &FileId| {
            let of_file = |(name, id): (&String, &FileId)| id == file && name.ends_with(suffix);
            self.names.iter().any(of_file)
        };
        let range = from.min(self.len())..to.min(self.len());
        for operation in &mut planted.operations[range] {
            if matches!(operation, Operation::Sync { file } if named(file)) {
                // It stays in its place, so that cuts keep theirs.
                *operation = Operation::Name {
                    new: None,
                    gone: None,
                };
            }
        }
        planted
    }

    /// The files as they are found when the power went behind `cut` operations.
    #[must_use]
    pub fn after_cut(&self, cut: usize, fate: Fate) -> BTreeMap<String, Vec<u8>> {
        let mut replay = Replay::default();
        for operation in &self.operations[..cut] {
            replay.take(operation);
        }
        replay.image(fate)
    }

    /// Writes the files as they are found into a folder.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_after_cut(&self, cut: usize, fate: Fate, folder: &Path) -> io::Result<()> {
        for (name, content) in self.after_cut(cut, fate) {
            fs::write(folder.join(name), content)?;
        }
        Ok(())
    }

    /// The record up to a cut, to be gone on with: the process was killed there, and the machine runs on.
    #[must_use]
    pub fn killed_at(&self, cut: usize) -> Self {
        let mut killed = Self {
            operations: self.operations[..cut].to_vec(),
            names: BTreeMap::new(),
            files: self.files,
        };
        for operation in &self.operations[..cut] {
            if let Operation::Name { new, gone } = operation {
                rename(&mut killed.names, new.as_ref(), gone.as_deref());
            }
        }
        killed
    }

    /// Something was written to a file.
    pub fn write(&mut self, name: &str, at: u64, bytes: &[u8]) {
        let file = self.file(name);
        let bytes = bytes.into();
        self.operations.push(Operation::Write { file, at, bytes });
    }

    /// A file was made longer or shorter.
    pub fn set_length(&mut self, name: &str, bytes: u64) {
        let file = self.file(name);
        self.operations.push(Operation::SetLength { file, bytes });
    }

    /// A file was synced.
    pub fn sync(&mut self, name: &str) {
        let file = self.file(name);
        self.operations.push(Operation::Sync { file });
    }

    /// The folder was synced.
    pub fn sync_folder(&mut self) {
        self.operations.push(Operation::SyncFolder);
    }

    /// A file has another name.
    pub fn rename(&mut self, from: &str, to: &str) {
        let file = self.file(from);
        self.name(Some((to.to_owned(), file)), Some(from.to_owned()));
    }

    /// A file has one more name.
    pub fn link(&mut self, from: &str, to: &str) {
        let file = self.file(from);
        self.name(Some((to.to_owned(), file)), None);
    }

    /// A name is gone.
    pub fn unlink(&mut self, name: &str) {
        if self.names.contains_key(name) {
            self.name(None, Some(name.to_owned()));
        }
    }

    /// The file of this name, which is new if there was none.
    fn file(&mut self, name: &str) -> FileId {
        if let Some(file) = self.names.get(name) {
            return *file;
        }
        let file = self.files;
        self.files += 1;
        self.name(Some((name.to_owned(), file)), None);
        file
    }

    fn name(&mut self, new: Option<(String, FileId)>, gone: Option<String>) {
        rename(&mut self.names, new.as_ref(), gone.as_deref());
        self.operations.push(Operation::Name { new, gone });
    }
}

/// A folder whose record is kept while programs work on it.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    journal: Mutex<Journal>,
}

impl Disk {
    /// The disk of a folder in which nothing was done but what the record says.
    #[must_use]
    pub fn new(folder: &Path, journal: Journal) -> Arc<Self> {
        Arc::new(Self {
            folder: folder.to_owned(),
            journal: Mutex::new(journal),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The name of a file that is on this disk and whose content has to last. Locks, and the memory that processes
    /// share, have none.
    #[must_use]
    pub fn name<'a>(&self, path: &'a Path) -> Option<&'a str> {
        let name = path.strip_prefix(&self.folder).ok()?.to_str()?;
        let is_kept = !name.is_empty()
            && !name.contains('/')
            && ![".lock", "-shm", " (deleted)"]
                .iter()
                .any(|end| name.ends_with(end));
        is_kept.then_some(name)
    }

    /// The record. While it is held, nothing else is done to the files.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How much was done so far.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.journal().len()
    }
}
