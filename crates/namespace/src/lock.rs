//! A directory that one process at a time may work in.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// A process that this one has started holds all its locks until its own program begins: what was
/// given up just now may be held for that long.
const PATIENCE: Duration = Duration::from_secs(1);

/// Locks an open directory for as long as it stays open; `false` if another process has it locked.
/// Not every file system has locks: without them the operator must prevent concurrent runs.
pub(crate) fn is_ours(directory: impl AsFd) -> bool {
    let began = Instant::now();
    loop {
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() > PATIENCE => return false,
            Err(Errno::WOULDBLOCK | Errno::INTR) => std::thread::sleep(Duration::from_millis(10)),
            _ => return true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_lock_that_is_given_up_soon_is_waited_for_and_another_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let open = || File::open(directory.path()).unwrap();
        let (first, second) = (open(), open());
        assert!(is_ours(&first));
        assert!(!is_ours(&second));
        let giving_up = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(first);
        });
        assert!(is_ours(&second));
        giving_up.join().unwrap();
    }
}
