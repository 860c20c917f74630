//! What others do to a file that shows in nothing but its ctime, as fanotify tells it.
//!
//! Attributes, rights that are given and taken back, a name more and less, a way to another
//! directory and back: all of these move the ctime alone, and so does the move into quarantine. So
//! each file is marked before it is looked at: what happened before shows in its times, what
//! happens after is an event of another process. The kernel queues these events under the locks
//! that the move has to take, or before the call that undoes the act has begun.
//!
//! Needs `CAP_SYS_ADMIN`, Linux 5.1 and a file system with an identifier and file handles: ext4, XFS,
//! Btrfs, tmpfs; overlay since 6.8, not FUSE. Without, [`Watch::add`] says so.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::outcome::Outcome;

const EVENTS: u64 = libc::FAN_ATTRIB | libc::FAN_MOVE_SELF | libc::FAN_MODIFY;
/// `struct fanotify_event_metadata`, and the header and identifier before a handle.
const METADATA_BYTES: usize = 24;
const BEFORE_HANDLE_BYTES: usize = 12;
const HANDLE_BYTES_MAX: usize = 128;

/// Length, kind and bytes of a file handle.
type Handle = Vec<u8>;

/// The marks of one thread.
#[derive(Debug)]
pub(super) struct Watch {
    group: OwnedFd,
    us: i32,
    used: bool,
    marked: Vec<Handle>,
    /// What others did, to which file; `None`: to one that could not be told.
    seen: Vec<(Option<Handle>, u64)>,
}

impl Watch {
    /// `None` where the kernel has it not, or not for this process.
    pub(super) fn new() -> Option<Self> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_REPORT_FID
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        // SAFETY: the call takes numbers and returns a descriptor that nobody else has.
        let group = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if group < 0 {
            return None;
        }
        // SAFETY: a descriptor that was just returned.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        let us = std::process::id() as i32;
        Some(Self { group, us, used: false, marked: Vec::new(), seen: Vec::new() })
    }

    /// Marks an open file; `false` where its file system does not allow that.
    pub(super) fn add(&mut self, file: impl AsFd) -> bool {
        let file = file.as_fd();
        if !self.mark(libc::FAN_MARK_ADD, EVENTS, file.as_raw_fd()) {
            return false;
        }
        self.used = true;
        // Without a handle, what happens to it counts against all.
        self.marked.extend(handle_of(file));
        true
    }

    /// Forgets all files and what happened to them.
    pub(super) fn clear(&mut self) {
        if !std::mem::take(&mut self.used) {
            return;
        }
        self.mark(libc::FAN_MARK_FLUSH, 0, libc::AT_FDCWD);
        self.read();
        self.marked.clear();
        self.seen.clear();
    }

    /// What somebody else did to a file since it was marked. An event that is of none of the files,
    /// or a queue that ran over, counts against each.
    pub(super) fn disturbance(&mut self, file: impl AsFd) -> Option<Outcome> {
        self.read();
        if self.seen.is_empty() {
            return None;
        }
        let handle = handle_of(file.as_fd());
        let is_of = |of: &Option<Handle>| of.is_none() || handle.is_none() || *of == handle;
        let events = self.seen.iter().filter(|(of, _)| is_of(of)).map(|(_, mask)| *mask);
        let mask = events.reduce(|all, mask| all | mask)?;
        Some(if mask & libc::FAN_MOVE_SELF != 0 { Outcome::Moved } else { Outcome::Touched })
    }

    fn mark(&self, what: u32, events: u64, file: i32) -> bool {
        let group = self.group.as_raw_fd();
        // SAFETY: descriptors that are open, and no path.
        unsafe { libc::fanotify_mark(group, what, events, file, std::ptr::null()) == 0 }
    }

    fn read(&mut self) {
        let mut buffer = [0_u8; 8192];
        loop {
            let (group, room) = (self.group.as_raw_fd(), buffer.len());
            // SAFETY: the buffer is exclusively borrowed and as long as the call is told.
            let length = unsafe { libc::read(group, buffer.as_mut_ptr().cast(), room) };
            match usize::try_from(length) {
                Ok(length) if length > 0 => self.note(&buffer[..length]),
                _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
                _ => return,
            }
        }
    }

    fn note(&mut self, mut events: &[u8]) {
        while events.len() >= METADATA_BYTES {
            let length = word(events, 0) as usize;
            if length < METADATA_BYTES || length > events.len() {
                self.seen.push((None, 0));
                return;
            }
            let (event, rest) = events.split_at(length);
            let mask = u64::from(word(event, 8)) | u64::from(word(event, 12)) << 32;
            if word(event, 20) as i32 != self.us {
                let handle = handle_in(&event[METADATA_BYTES..]);
                self.seen.push((handle.filter(|handle| self.marked.contains(handle)), mask));
            }
            events = rest;
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_ne_bytes(word.try_into().unwrap_or_default()))
}

/// The handle in the first record of an event: header, file system, then the handle.
fn handle_in(record: &[u8]) -> Option<Handle> {
    let handle = record.get(BEFORE_HANDLE_BYTES..)?;
    let length = word(handle, 0) as usize;
    (handle.len() >= 8 && length > 0).then(|| handle.get(..8 + length))?.map(<[u8]>::to_vec)
}

/// The handle of an open file as the kernel writes it into events.
fn handle_of(file: BorrowedFd<'_>) -> Option<Handle> {
    // Linux 6.5: also where a handle cannot be opened, as events have it.
    const AT_HANDLE_FID: libc::c_int = 0x200;
    let ask = |flags| ask_for_handle(file, libc::AT_EMPTY_PATH | flags);
    ask(0).or_else(|| ask(AT_HANDLE_FID))
}

fn ask_for_handle(file: BorrowedFd<'_>, flags: libc::c_int) -> Option<Handle> {
    let mut handle = [0_u32; 2 + HANDLE_BYTES_MAX / 4];
    handle[0] = HANDLE_BYTES_MAX as u32;
    let mut mount = 0_i32;
    // SAFETY: the path is a constant that ends with a NUL; `handle` has the room that its first word
    // says, `mount` is a number to be written.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            file.as_raw_fd(),
            c"".as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            flags,
        )
    };
    let length = 8 + (handle[0] as usize).min(HANDLE_BYTES_MAX);
    let bytes: Vec<u8> = handle.iter().flat_map(|word| word.to_ne_bytes()).collect();
    (answer == 0).then(|| bytes[..length].to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::Command;

    #[test]
    fn only_what_others_do_to_this_file_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name| directory.path().join(name);
        let make = |name| OwnedFd::from(File::create(path(name)).unwrap());
        let (first, second) = (make("a"), make("b"));
        let Some(mut watch) = Watch::new() else { return };
        if !watch.add(&first) || !watch.add(&second) {
            return;
        }
        std::fs::rename(path("a"), path("c")).unwrap();
        assert_eq!((watch.disturbance(&first), watch.disturbance(&second)), (None, None));
        assert!(Command::new("chmod").arg("600").arg(path("c")).status().unwrap().success());
        assert_eq!(watch.disturbance(&first), Some(Outcome::Touched));
        assert_eq!(watch.disturbance(&second), None);
        assert!(Command::new("mv").args([path("b"), path("d")]).status().unwrap().success());
        assert_eq!(watch.disturbance(&second), Some(Outcome::Moved));
        watch.clear();
        assert!(watch.add(&first));
        assert_eq!(watch.disturbance(&first), None);
    }
}
