//! Replacements of the C library's calls that change files. The linker uses them for SQLite, which is linked into this
//! program, and for Rust's standard library. Each does the work of the original, and records it if the file is on a
//! watched disk.
#![expect(unsafe_code, reason = "the C library's calls have to be replaced")]
#![allow(clippy::missing_safety_doc, unreachable_pub)]

use std::{
    ffi::{CStr, OsStr, c_char, c_int, c_void},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use libc::{AT_FDCWD, off_t, size_t, ssize_t};
use qiang_checks::powerloss::Disk;

static WATCHED: RwLock<Vec<Arc<Disk>>> = RwLock::new(Vec::new());

/// Guard of a watched disk.
pub(crate) struct Watch(Arc<Disk>);

pub(crate) fn watch(disk: &Arc<Disk>) -> Watch {
    let mut watched = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
    watched.push(Arc::clone(disk));
    Watch(Arc::clone(disk))
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut watched = WATCHED.write().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|disk| !Arc::ptr_eq(disk, &self.0));
    }
}

fn disk_of(path: &Path) -> Option<Arc<Disk>> {
    let watched = WATCHED.read().unwrap_or_else(PoisonError::into_inner);
    let disk = watched.iter().find(|disk| path.starts_with(disk.folder()));
    disk.cloned()
}

/// Disk and path of an open file.
fn open_file(fd: c_int) -> Option<(Arc<Disk>, PathBuf)> {
    if WATCHED
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .is_empty()
    {
        return None;
    }
    let path = std::fs::read_link(format!("/proc/self/fd/{fd}")).ok()?;
    Some((disk_of(&path)?, path))
}

/// Writes at `at`, or at the file's current position if it is `None`.
unsafe fn write_at(fd: c_int, bytes: *const c_void, count: size_t, at: Option<off_t>) -> ssize_t {
    let write = |fd: c_int| match at {
        // SAFETY: the arguments come from the caller, who guarantees what `write` and `pwrite` require.
        Some(at) => unsafe { libc::syscall(libc::SYS_pwrite64, fd, bytes, count, at) as ssize_t },
        None => unsafe { libc::syscall(libc::SYS_write, fd, bytes, count) as ssize_t },
    };
    let Some((disk, path)) = open_file(fd) else {
        return write(fd);
    };
    let Some(name) = disk.name(&path) else {
        return write(fd);
    };
    let mut journal = disk.journal();
    // SAFETY: the call only reads the file's position.
    let at = at.unwrap_or_else(|| unsafe { libc::syscall(libc::SYS_lseek, fd, 0, libc::SEEK_CUR) });
    let written = write(fd);
    if let Ok(written) = usize::try_from(written) {
        // SAFETY: the kernel just read this many bytes from there.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), written) };
        journal.write(name, at as u64, bytes);
    }
    written
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, count: size_t) -> ssize_t {
    // SAFETY: the arguments come from the caller.
    unsafe { write_at(fd, bytes, count, None) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite(fd: c_int, bytes: *const c_void, n: size_t, at: off_t) -> ssize_t {
    // SAFETY: the arguments come from the caller.
    unsafe { write_at(fd, bytes, n, Some(at)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn pwrite64(
    fd: c_int,
    bytes: *const c_void,
    n: size_t,
    at: off_t,
) -> ssize_t {
    // SAFETY: the arguments come from the caller.
    unsafe { write_at(fd, bytes, n, Some(at)) }
}

fn set_length(fd: c_int, bytes: off_t) -> c_int {
    // SAFETY: the arguments are numbers.
    let set = || unsafe { libc::syscall(libc::SYS_ftruncate, fd, bytes) as c_int };
    let Some((disk, path)) = open_file(fd) else {
        return set();
    };
    let mut journal = disk.journal();
    let done = set();
    if let (0, Some(name)) = (done, disk.name(&path)) {
        journal.set_length(name, bytes as u64);
    }
    done
}

#[unsafe(no_mangle)]
pub extern "C" fn ftruncate(fd: c_int, bytes: off_t) -> c_int {
    set_length(fd, bytes)
}

#[unsafe(no_mangle)]
pub extern "C" fn ftruncate64(fd: c_int, bytes: off_t) -> c_int {
    set_length(fd, bytes)
}

/// Records a sync. Nothing needs to reach the real disk, because the journal simulates it.
fn sync(fd: c_int) -> c_int {
    let Some((disk, path)) = open_file(fd) else {
        // SAFETY: the argument is a number.
        return unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int };
    };
    let mut journal = disk.journal();
    if path == disk.folder() {
        journal.sync_folder();
    } else if let Some(name) = disk.name(&path) {
        journal.sync(name);
    }
    0
}

#[unsafe(no_mangle)]
pub extern "C" fn fsync(fd: c_int) -> c_int {
    sync(fd)
}

#[unsafe(no_mangle)]
pub extern "C" fn fdatasync(fd: c_int) -> c_int {
    sync(fd)
}

unsafe fn path<'a>(path: *const c_char) -> &'a Path {
    // SAFETY: the caller passed a path to a call of the C library.
    Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ))
}

/// Runs a call that changes names, and records it if it succeeds.
fn named(path: &Path, call: impl FnOnce() -> c_int, note: impl FnOnce(&Disk)) -> c_int {
    let Some(disk) = disk_of(path) else {
        return call();
    };
    let done = call();
    if done == 0 {
        note(&disk);
    }
    done
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the arguments come from the caller.
    let (old, new) = unsafe { (path(from), path(to)) };
    let call =
        || unsafe { libc::syscall(libc::SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0) as c_int };
    named(old, call, |disk| {
        if let (Some(old), Some(new)) = (disk.name(old), disk.name(new)) {
            disk.journal().rename(old, new);
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn linkat(
    from_folder: c_int,
    from: *const c_char,
    to_folder: c_int,
    to: *const c_char,
    flags: c_int,
) -> c_int {
    // SAFETY: the arguments come from the caller.
    let (old, new) = unsafe { (path(from), path(to)) };
    let call = || unsafe {
        libc::syscall(libc::SYS_linkat, from_folder, from, to_folder, to, flags) as c_int
    };
    named(old, call, |disk| {
        if let (Some(old), Some(new)) = (disk.name(old), disk.name(new)) {
            disk.journal().link(old, new);
        }
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(name: *const c_char) -> c_int {
    // SAFETY: the arguments come from the caller.
    let gone = unsafe { path(name) };
    let call = || unsafe { libc::syscall(libc::SYS_unlinkat, AT_FDCWD, name, 0) as c_int };
    named(gone, call, |disk| {
        if let Some(gone) = disk.name(gone) {
            disk.journal().unlink(gone);
        }
    })
}
