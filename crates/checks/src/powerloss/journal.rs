//! Journal of the operations on the files of a folder.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::powerloss::{
    image::{Fate, Replay},
    operation::{FileId, Operation, rename},
};

/// Operations on the files of a folder, in order.
#[derive(Debug, Clone, Default)]
pub struct Journal {
    operations: Vec<Operation>,
    /// The names as programs see them.
    names: BTreeMap<String, FileId>,
    files: usize,
}

impl Journal {
    /// Number of operations. A power cut at `n` happens after the first `n` operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Cuts right before a sync. Most unsynced data is at risk there.
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

    /// Journal without the syncs of files with this suffix from operation `from` to `to`. It simulates a missing sync.
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
                // A placeholder keeps the positions of cuts.
                *operation = Operation::Name {
                    new: None,
                    gone: None,
                };
            }
        }
        planted
    }

    /// Files after a power loss that follows the first `cut` operations.
    #[must_use]
    pub fn after_cut(&self, cut: usize, fate: Fate) -> BTreeMap<String, Vec<u8>> {
        let mut replay = Replay::default();
        for operation in &self.operations[..cut] {
            replay.take(operation);
        }
        replay.image(fate)
    }

    /// Writes the files after a power loss into a folder.
    ///
    /// # Errors
    /// If they cannot be written.
    pub fn write_after_cut(&self, cut: usize, fate: Fate, folder: &Path) -> io::Result<()> {
        for (name, content) in self.after_cut(cut, fate) {
            fs::write(folder.join(name), content)?;
        }
        Ok(())
    }

    /// Journal up to a cut, as the start of another one: the process was killed there, but the machine still runs.
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

    /// Records a write to a file.
    pub fn write(&mut self, name: &str, at: u64, bytes: &[u8]) {
        let file = self.file(name);
        let bytes = bytes.into();
        self.operations.push(Operation::Write { file, at, bytes });
    }

    /// Records a change of a file's length.
    pub fn set_length(&mut self, name: &str, bytes: u64) {
        let file = self.file(name);
        self.operations.push(Operation::SetLength { file, bytes });
    }

    /// Records a sync of a file.
    pub fn sync(&mut self, name: &str) {
        let file = self.file(name);
        self.operations.push(Operation::Sync { file });
    }

    /// Records a sync of the folder.
    pub fn sync_folder(&mut self) {
        self.operations.push(Operation::SyncFolder);
    }

    /// Records a rename of a file.
    pub fn rename(&mut self, from: &str, to: &str) {
        let file = self.file(from);
        self.name(Some((to.to_owned(), file)), Some(from.to_owned()));
    }

    /// Records an additional name of a file.
    pub fn link(&mut self, from: &str, to: &str) {
        let file = self.file(from);
        self.name(Some((to.to_owned(), file)), None);
    }

    /// Records the removal of a name.
    pub fn unlink(&mut self, name: &str) {
        if self.names.contains_key(name) {
            self.name(None, Some(name.to_owned()));
        }
    }

    /// The file of this name; creates it if there is none.
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

/// Folder with a journal of all operations on its files.
#[derive(Debug)]
pub struct Disk {
    folder: PathBuf,
    journal: Mutex<Journal>,
}

impl Disk {
    /// Disk of a folder whose earlier operations are in the journal.
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

    /// Name of a durable file on this disk; `None` for other paths. Lock files and shared memory are not durable.
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

    /// The journal. While the guard is held, no other operation on the files runs.
    pub fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of operations so far.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.journal().len()
    }
}
