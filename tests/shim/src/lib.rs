//! A library to preload (`LD_PRELOAD`) into a server: it keeps a shadow of what a power loss would
//! leave of the server's data folder.
//!
//! ```text
//!   fsync, fdatasync of a file      its bytes of now     -> SHADOW/contents/ID
//!   fsync of a folder               its names of now     -> SHADOW/names/ID, alone
//!   a name made, moved, removed     the names after that -> SHADOW/names/ID, one block more
//! ```
//! An ID is the inode's number and birth. A block of names is a line `f ID NAME` or `d ID NAME`
//! each, then `end`. A kill in the middle leaves what a disk may hold, too: newer pages, or a block
//! without an end, which does not count. What is read for the kernel's boot id can be replaced.
//!
//! Not the power loss itself: that is `slot_tests::shadow`, which shares these formats.
//! Invariant: a sync returns when the shadow has it; the disk itself is not made to sync.

mod contents;
mod names;
mod place;

use libc::{c_char, c_int, c_uint, mode_t};
use place::Place;

const BOOT_ID: &[u8] = b"/proc/sys/kernel/random/boot_id";

/// See fsync(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fsync(fd: c_int) -> c_int {
    match Place::of_process().and_then(|place| place.synced(fd)) {
        Some(()) => 0,
        // SAFETY: the arguments are the caller's.
        None => unsafe { libc::syscall(libc::SYS_fsync, fd) as c_int },
    }
}

/// See fdatasync(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fdatasync(fd: c_int) -> c_int {
    match Place::of_process().and_then(|place| place.synced(fd)) {
        Some(()) => 0,
        // SAFETY: the arguments are the caller's.
        None => unsafe { libc::syscall(libc::SYS_fdatasync, fd) as c_int },
    }
}

/// Opens a file, another one for the boot id, and notes a name that may be new.
///
/// # Safety
/// As openat(2).
unsafe fn open_at(dir: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a C string.
    let words = unsafe { std::ffi::CStr::from_ptr(path) };
    let place = Place::of_process();
    if words.to_bytes() == BOOT_ID
        && let Some(other) = place.and_then(|place| place.boot_id.as_ref())
    {
        // SAFETY: `other` is a C string; the rest is the caller's.
        return unsafe {
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, other.as_ptr(), flags, mode) as c_int
        };
    }
    // SAFETY: the arguments are the caller's.
    let open = || unsafe { libc::syscall(libc::SYS_openat, dir, path, flags, mode) as c_int };
    match flags & libc::O_CREAT {
        0 => open(),
        _ => place::naming(&[(dir, words)], open),
    }
}

/// See open(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

/// See open(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { open_at(libc::AT_FDCWD, path, flags, mode) }
}

/// See openat(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { open_at(dir, path, flags, mode) }
}

/// See openat(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn openat64(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mode: mode_t,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { open_at(dir, path, flags, mode) }
}

/// Moves a name and notes both folders.
///
/// # Safety
/// As renameat2(2).
unsafe fn rename_at(
    from: (c_int, *const c_char),
    to: (c_int, *const c_char),
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller passes C strings.
    let words = [from, to].map(|(dir, path)| (dir, unsafe { std::ffi::CStr::from_ptr(path) }));
    place::naming(&words, || {
        // SAFETY: the arguments are the caller's.
        unsafe { libc::syscall(libc::SYS_renameat2, from.0, from.1, to.0, to.1, flags) as c_int }
    })
}

/// See rename(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rename(from: *const c_char, to: *const c_char) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { rename_at((libc::AT_FDCWD, from), (libc::AT_FDCWD, to), 0) }
}

/// See renameat(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn renameat(
    from_dir: c_int,
    from: *const c_char,
    to_dir: c_int,
    to: *const c_char,
) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { rename_at((from_dir, from), (to_dir, to), 0) }
}

/// Removes a name and notes its folder.
///
/// # Safety
/// As unlinkat(2).
unsafe fn unlink_at(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the caller passes a C string.
    let words = unsafe { std::ffi::CStr::from_ptr(path) };
    place::naming(&[(dir, words)], || {
        // SAFETY: the arguments are the caller's.
        unsafe { libc::syscall(libc::SYS_unlinkat, dir, path, flags) as c_int }
    })
}

/// See unlink(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { unlink_at(libc::AT_FDCWD, path, 0) }
}

/// See rmdir(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rmdir(path: *const c_char) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { unlink_at(libc::AT_FDCWD, path, libc::AT_REMOVEDIR) }
}

/// See unlinkat(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn unlinkat(dir: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the arguments are the caller's.
    unsafe { unlink_at(dir, path, flags) }
}

/// See mkdir(2).
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mkdir(path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the caller passes a C string.
    let words = unsafe { std::ffi::CStr::from_ptr(path) };
    place::naming(&[(libc::AT_FDCWD, words)], || {
        // SAFETY: the arguments are the caller's.
        unsafe { libc::syscall(libc::SYS_mkdirat, libc::AT_FDCWD, path, mode) as c_int }
    })
}
