//! The data file as an inode: its real path, and the lock that one process holds on it.
//!
//! One file can have many names: symlinks, hard links, bind mounts. The lock on the inode excludes a second process
//! under each of them. The lock on the neighbouring file `.lock` covers the time in which a restore replaces the inode.

#[cfg(unix)]
use std::os::unix::fs::MetadataExt as _;
use std::{
    fmt,
    fs::{self, File, Metadata, OpenOptions, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use crate::error::DataFileError;

/// Maximum symlinks followed to reach a file.
const LINKS_MAX: usize = 40;

/// Open descriptors of data files, kept until the file has lost its last name.
///
/// SQLite has the same files open. If a process closes any descriptor of a file, it loses all of SQLite's locks on that
/// file. Another process may then remove the write-ahead log.
static DESCRIPTORS: Mutex<Vec<Descriptor>> = Mutex::new(Vec::new());

struct Descriptor {
    id: FileId,
    file: Arc<File>,
    is_locked: bool,
}

/// Device and inode of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn from_metadata(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
        }
    }

    #[cfg(not(unix))]
    fn from_metadata(_: &Metadata) -> Self {
        Self {
            device: 0,
            inode: 0,
        }
    }

    /// Returns the identity of the file at a path.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        Ok(Self::from_metadata(&fs::metadata(path)?))
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

/// Resolves all symlinks of a path. The file may be missing; its folder must exist.
pub(crate) fn real_path(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else {
            return match path.file_name() {
                Some(name) => Ok(fs::canonicalize(folder_of(&path))?.join(name)),
                None => fs::canonicalize(&path),
            };
        };
        path = folder_of(&path).join(target);
    }
    let reason = format!("{} leads through too many symlinks", path.display());
    Err(io::Error::other(reason))
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    folder.unwrap_or(Path::new("."))
}

/// Appends a suffix to the name of a file.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens a file for writing. A new file is readable only by its owner, because it will contain seeds and money.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a file that only its owner may read, if it is missing. SQLite gives the files next to it the same
/// permissions.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Lock of the only process that may write: two writers would each grant the same units.
#[derive(Debug)]
pub(crate) struct WriterLock {
    beside: File,
    data: Option<DataLock>,
    is_new: bool,
}

impl WriterLock {
    /// Locks the `.lock` file next to the data file.
    fn beside(path: &Path) -> Result<Self, DataFileError> {
        let beside = open_private(&beside(path, ".lock"))?;
        match beside.try_lock() {
            Ok(()) => Ok(Self {
                beside,
                data: None,
                is_new: false,
            }),
            Err(TryLockError::WouldBlock) => Err(in_use(path)),
            Err(TryLockError::Error(error)) => Err(error.into()),
        }
    }

    /// Whether the file was missing or empty.
    pub(crate) fn is_new(&self) -> bool {
        self.is_new
    }
}

impl Drop for WriterLock {
    /// Unlocks before the files close. A lock belongs to the open file description, and a forked child shares that
    /// until its program starts.
    fn drop(&mut self) {
        drop(self.data.take());
        if let Err(error) = self.beside.unlock() {
            tracing::warn!(%error, "the lock ends when the file is closed");
        }
    }
}

/// Locks a data file for its writer. Creates the file if it is missing. The path must come from [`real_path`].
pub(crate) fn lock(path: &Path) -> Result<WriterLock, DataFileError> {
    let mut lock = WriterLock::beside(path)?;
    create_private(path)?;
    lock.data = DataLock::take(path)?;
    lock.is_new = fs::metadata(path)?.len() == 0;
    Ok(lock)
}

/// Locks the data file that a restore replaces, if it exists.
pub(crate) fn lock_replaced(path: &Path) -> Result<WriterLock, DataFileError> {
    let mut lock = WriterLock::beside(path)?;
    if path.exists() {
        lock.data = DataLock::take(path)?;
    }
    Ok(lock)
}

fn in_use(path: &Path) -> DataFileError {
    DataFileError::InUse {
        path: path.display().to_string(),
    }
}

/// Lock on the inode of a data file.
#[derive(Debug)]
struct DataLock {
    file: Arc<File>,
}

impl DataLock {
    /// Takes the lock. Returns `None` on systems other than Linux: only there do locks of open files and SQLite's locks
    /// not conflict within one process.
    fn take(path: &Path) -> Result<Option<Self>, DataFileError> {
        if !cfg!(target_os = "linux") {
            return Ok(None);
        }
        let mut kept = DESCRIPTORS.lock();
        let at = keep(&mut kept, path)?;
        let descriptor = &mut kept[at];
        if descriptor.is_locked {
            return Err(in_use(path));
        }
        match descriptor.file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path)),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        descriptor.is_locked = true;
        let (file, id) = (Arc::clone(&descriptor.file), descriptor.id);
        drop(kept);
        let lock = Self { file };
        // A restore may have replaced the file before the lock was taken.
        match FileId::at(path) {
            Ok(found) if found == id => Ok(Some(lock)),
            _ => Err(in_use(path)),
        }
    }
}

impl Drop for DataLock {
    fn drop(&mut self) {
        let mut kept = DESCRIPTORS.lock();
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "the lock of the data file ends with the process");
        }
        for descriptor in kept.iter_mut() {
            descriptor.is_locked &= !Arc::ptr_eq(&descriptor.file, &self.file);
        }
    }
}

/// Opens the file at a path, unless this process has it open. Returns the place of its descriptor.
fn keep(kept: &mut Vec<Descriptor>, path: &Path) -> io::Result<usize> {
    kept.retain(|it| it.is_locked || has_a_name(&it.file));
    if let Some(at) = position(kept, FileId::at(path)?) {
        return Ok(at);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let id = FileId::from_metadata(&file.metadata()?);
    kept.push(Descriptor {
        id,
        file: Arc::new(file),
        is_locked: false,
    });
    // An older descriptor may match if the path has led to another file in between.
    Ok(position(kept, id).unwrap_or(kept.len() - 1))
}

/// Opens a file for a writer without any lock, as if the locks did not cover its path. Creates a missing one.
#[cfg(test)]
pub(crate) fn open_unlocked(path: &Path) {
    create_private(path).unwrap();
    keep(&mut DESCRIPTORS.lock(), path).unwrap();
}

fn position(kept: &[Descriptor], id: FileId) -> Option<usize> {
    kept.iter().position(|descriptor| descriptor.id == id)
}

#[cfg(unix)]
fn has_a_name(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

#[cfg(not(unix))]
fn has_a_name(_: &File) -> bool {
    true
}

/// The descriptor of a data file that this process keeps open, for reads without SQLite.
pub(crate) fn descriptor(id: FileId) -> Option<Arc<File>> {
    let kept = DESCRIPTORS.lock();
    position(&kept, id).map(|at| Arc::clone(&kept[at].file))
}

/// Reads `bytes` bytes at an offset. Returns fewer bytes at the end of the file.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let (mut read, mut buffer) = (0, vec![0; bytes]);
    while read < bytes {
        match file.read_at(&mut buffer[read..], at + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    buffer.truncate(read);
    Ok(buffer)
}

#[cfg(not(unix))]
pub(crate) fn read_at(_: &File, _: u64, _: usize) -> io::Result<Vec<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_ends_with_its_owner_while_another_process_has_the_file_open() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("qiang.db");
        let held = lock(&path).unwrap();
        // Clones stand for the copies that a forked child inherits.
        let beside = held.beside.try_clone().unwrap();
        let data = held
            .data
            .as_ref()
            .map(|data| data.file.try_clone().unwrap());
        assert!(matches!(lock(&path), Err(DataFileError::InUse { .. })));
        drop(held);
        lock(&path).map(drop).unwrap();
        drop((beside, data));
    }

    #[cfg(unix)]
    #[test]
    fn a_real_path_has_no_symlinks_and_its_file_may_be_missing() {
        let folder = tempfile::TempDir::new().unwrap();
        let real = fs::canonicalize(folder.path()).unwrap().join("qiang.db");
        let [one, two, circle] = ["one", "two", "circle"].map(|name| folder.path().join(name));
        std::os::unix::fs::symlink("qiang.db", &one).unwrap();
        std::os::unix::fs::symlink(&one, &two).unwrap();
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        for _ in 0..2 {
            for path in [&real, &one, &two] {
                assert_eq!(real_path(path).unwrap(), real);
            }
            fs::write(&real, "").unwrap();
        }
        assert!(real_path(&circle).is_err());
        assert!(real_path(&folder.path().join("missing/qiang.db")).is_err());
    }

    /// If a descriptor of the file is closed, this process loses SQLite's locks.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_descriptor_is_kept_for_as_long_as_its_file_has_a_name() {
        let folder = tempfile::TempDir::new().unwrap();
        let [path, other] = ["qiang.db", "other.db"].map(|name| folder.path().join(name));
        let held = lock(&path).unwrap();
        let kept = Arc::downgrade(&descriptor(FileId::at(&path).unwrap()).unwrap());
        fs::hard_link(&path, folder.path().join("hard.db")).unwrap();
        let by_hard_link = lock(&folder.path().join("hard.db"));
        assert!(matches!(by_hard_link, Err(DataFileError::InUse { .. })));
        drop(held);
        assert!(kept.upgrade().is_some());
        let again = lock(&path).unwrap();
        fs::remove_file(&path).unwrap();
        fs::remove_file(folder.path().join("hard.db")).unwrap();
        drop(lock(&other).unwrap());
        assert!(kept.upgrade().is_some(), "it is locked");
        drop(again);
        drop(lock(&other).unwrap());
        assert!(kept.upgrade().is_none(), "it has no name");
    }
}
