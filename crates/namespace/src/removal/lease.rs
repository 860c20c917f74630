//! Whether a file is open, as the kernel reports by granting a lease or not.
//!
//! A write lease (`F_SETLEASE`, `F_WRLCK`) is granted only while no other descriptor of the file is
//! open for reading or writing, mappings and running programs included. While it is held, an `open`
//! or `truncate` by any other process waits until the lease is given up; the holder sees that in
//! `F_GETLEASE`. So if it is granted, and still whole at the end, no other process had the file
//! open in between. Descriptors of `O_PATH` are not seen; they cannot read or write.
//!
//! On a file system that other hosts mount as well, a lease says nothing about them: there, and
//! where leases are refused, the answer is unknown.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::fstatfs;
use rustix::io::Errno;

/// Answer to a request for a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// Only the holder of the lease has it open.
    Closed,
    /// Another process has it open, or is about to open it.
    Open,
    /// Unknown on this file system.
    Nothing,
}

/// The numbers of local file systems in `statfs(2)`: ext2 to ext4, XFS, Btrfs, F2FS, tmpfs,
/// bcachefs, ZFS. On these every opening passes through this kernel.
const LOCAL: [i64; 7] =
    [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994, 0xCA45_1A4E, 0x2FC1_2FC1];

/// Whether a lease on this file system covers every process that could open the file.
pub(super) fn speaks_for_all(directory: impl AsFd) -> bool {
    fstatfs(directory).is_ok_and(|status| LOCAL.contains(&(status.f_type & 0xFFFF_FFFF)))
}

/// Asks for the lease; it ends when the descriptor is closed.
pub(super) fn take(file: &OwnedFd) -> Told {
    match fcntl(file, libc::F_SETLEASE, libc::F_WRLCK) {
        Ok(_) => Told::Closed,
        Err(Errno::AGAIN) => Told::Open,
        Err(_) => Told::Nothing,
    }
}

/// Whether the lease that was granted is still whole.
pub(super) fn is_whole(file: &OwnedFd) -> bool {
    fcntl(file, libc::F_GETLEASE, 0) == Ok(libc::F_WRLCK)
}

/// Keeps the signal that a waiting opener causes from ending this process, which it does by
/// default. A handler that is set already stays.
pub(super) fn ignore_signal() {
    // SAFETY: sigaction is plain numbers and a pointer that may be null: all zeros is a valid value.
    let mut current: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: a null new action only reads; `current` is valid and exclusively borrowed.
    let known = unsafe { libc::sigaction(libc::SIGIO, std::ptr::null(), &mut current) } == 0;
    if known && current.sa_sigaction == libc::SIG_DFL {
        current.sa_sigaction = libc::SIG_IGN;
        // SAFETY: `current` is a complete action whose handler is the constant SIG_IGN.
        unsafe { libc::sigaction(libc::SIGIO, &current, std::ptr::null_mut()) };
    }
}

fn fcntl(file: &OwnedFd, command: i32, argument: i32) -> Result<i32, Errno> {
    // SAFETY: the descriptor is open, and both commands take and return plain numbers.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), command, argument) };
    if answer >= 0 {
        return Ok(answer);
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::INVAL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn an_open_file_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let open = || OwnedFd::from(File::open(&path).unwrap());
        assert!(speaks_for_all(open()));
        let (mine, other) = (open(), open());
        assert_eq!(take(&mine), Told::Open);
        drop(other);
        assert_eq!(take(&mine), Told::Closed);
        assert!(is_whole(&mine));
    }

    #[test]
    fn somebody_who_wants_to_open_it_is_told() {
        ignore_signal();
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let mine = OwnedFd::from(File::open(&path).unwrap());
        assert_eq!(take(&mine), Told::Closed);
        let waiting = std::thread::spawn(move || File::open(path).unwrap());
        while is_whole(&mine) {
            std::thread::yield_now();
        }
        drop(mine);
        waiting.join().unwrap();
    }

    #[test]
    fn no_lease_speaks_for_other_hosts() {
        assert!(!speaks_for_all(File::open("/proc").unwrap()));
    }
}
