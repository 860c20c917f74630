//! Acts of other processes on a file that show in nothing but its ctime, and on the directories on
//! the way to it, as fanotify reports them.
//!
//! Attributes, rights that are given and taken back, a name more and less, a way to another
//! directory and back: all of these move the ctime alone, and so does the move into quarantine. So
//! each file is marked before it is looked at: what happened before shows in its times, what
//! happens after is an event of another process. The kernel queues these events under the locks
//! that the move has to take, or before the call that undoes the act has begun.
//!
//! A directory that is moved away and back is in its place before and after. So it is marked too,
//! and every one above it up to the root, from the lowest up: as long as none was moved, the next
//! is above it. The kernel queues the event before it lets go of both directories that a move is
//! between, so a process that sees all in place and then finds no event has seen them in place all
//! the time.
//!
//! Needs `CAP_SYS_ADMIN`, Linux 5.1 and a file system with an identifier and file handles: ext4, XFS,
//! tmpfs; Btrfs and overlay since 6.8, not FUSE. Without, [`Watch::add`] says so.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::fs::{Mode, fchmod, fstat};

use super::outcome::Outcome;

const EVENTS: u64 = libc::FAN_ATTRIB | libc::FAN_MOVE_SELF | libc::FAN_MODIFY;
const EVENTS_OF_DIRECTORY: u64 = libc::FAN_MOVE_SELF | libc::FAN_ONDIR;
/// `struct fanotify_event_metadata`, and the header and identifier before a handle.
const METADATA_BYTES: usize = 24;
const BEFORE_HANDLE_BYTES: usize = 12;
const HANDLE_BYTES_MAX: usize = 128;
const EVENT_BYTES_MAX: usize = 512;

/// Length, kind and bytes of a file handle.
type Handle = Vec<u8>;

/// How far acts of other processes on a file are reported on a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Events name the file.
    File,
    /// Events come, but do not identify the file in a way that we know.
    All,
    /// No events come.
    Nothing,
}

impl Reach {
    /// Finds out with a file of ours, whose mode is set to its present value.
    pub(super) fn find(file: impl AsFd) -> Self {
        let Some(mut watch) = Watch::new(Self::File) else { return Self::Nothing };
        let mode = fstat(&file).map(|stat| Mode::from_raw_mode(stat.st_mode));
        if !watch.add(&file) || !mode.is_ok_and(|mode| fchmod(&file, mode).is_ok()) {
            return Self::Nothing;
        }
        watch.us = 0;
        watch.read();
        let handle = handle_of(file.as_fd());
        match watch.seen.first() {
            Some((of, _)) if of.is_some() && *of == handle => Self::File,
            Some(_) => Self::All,
            None => Self::Nothing,
        }
    }
}

/// The marks of one thread.
#[derive(Debug)]
pub(super) struct Watch {
    group: OwnedFd,
    /// Our process: its own events do not count.
    us: i32,
    reach: Reach,
    used: bool,
    /// Acts of other processes, and on which file; `None`: on an unknown one.
    seen: Vec<(Option<Handle>, u64)>,
}

impl Watch {
    /// `None` where the kernel has it not, or not for this process.
    pub(super) fn new(reach: Reach) -> Option<Self> {
        let flags = libc::FAN_CLASS_NOTIF
            | libc::FAN_CLOEXEC
            | libc::FAN_NONBLOCK
            | libc::FAN_REPORT_FID
            | libc::FAN_UNLIMITED_QUEUE
            | libc::FAN_UNLIMITED_MARKS;
        if reach == Reach::Nothing {
            return None;
        }
        // SAFETY: the call takes numbers and returns a descriptor with no other owner.
        let group = unsafe { libc::fanotify_init(flags, libc::O_RDONLY as u32) };
        if group < 0 {
            return None;
        }
        // SAFETY: a descriptor that was just returned.
        let group = unsafe { OwnedFd::from_raw_fd(group) };
        let us = std::process::id() as i32;
        Some(Self { group, us, reach, used: false, seen: Vec::new() })
    }

    /// Marks an open file; `false` where its file system does not allow that.
    pub(super) fn add(&mut self, file: impl AsFd) -> bool {
        let marked = self.mark(libc::FAN_MARK_ADD, EVENTS, file.as_fd().as_raw_fd(), None);
        self.used |= marked;
        marked
    }

    /// Marks an open directory and those above it, `depth` in all; `false` where that is not allowed.
    pub(super) fn add_way(&mut self, directory: impl AsFd, depth: usize) -> bool {
        let directory = directory.as_fd().as_raw_fd();
        (0..depth).all(|level| {
            let above = CString::new("../".repeat(level)).ok();
            let above = above.as_deref().filter(|_| level > 0);
            let marked = self.mark(libc::FAN_MARK_ADD, EVENTS_OF_DIRECTORY, directory, above);
            self.used |= marked;
            marked
        })
    }

    /// Whether another process moved a directory since it was marked.
    pub(super) fn way_was_changed(&mut self) -> bool {
        self.read();
        self.seen.iter().any(|(of, mask)| of.is_none() || mask & libc::FAN_ONDIR != 0)
    }

    /// Forgets all files and what happened to them.
    pub(super) fn clear(&mut self) {
        if !std::mem::take(&mut self.used) {
            return;
        }
        self.mark(libc::FAN_MARK_FLUSH, 0, libc::AT_FDCWD, None);
        self.read();
        self.seen.clear();
    }

    /// The outcome for acts of other processes on a file since it was marked. An event that does
    /// not say of which file it is, or a queue that ran over, counts against each.
    pub(super) fn disturbance(&mut self, file: impl AsFd) -> Option<Outcome> {
        self.read();
        if self.seen.is_empty() {
            return None;
        }
        let handle = handle_of(file.as_fd());
        let every = self.reach == Reach::All || handle.is_none();
        let is_of = |of: &Option<Handle>| every || of.is_none() || *of == handle;
        let events = self.seen.iter().filter(|(of, _)| is_of(of)).map(|(_, mask)| *mask);
        let mask = events.reduce(|all, mask| all | mask)?;
        Some(if mask & libc::FAN_MOVE_SELF != 0 { Outcome::Moved } else { Outcome::Touched })
    }

    fn mark(&self, what: u32, events: u64, file: i32, path: Option<&CStr>) -> bool {
        let group = self.group.as_raw_fd();
        let path = path.map_or(std::ptr::null(), CStr::as_ptr);
        // SAFETY: descriptors that are open, and a path that ends with a NUL or none.
        unsafe { libc::fanotify_mark(group, what, events, file, path) == 0 }
    }

    fn read(&mut self) {
        let mut buffer = [0_u8; 8192];
        loop {
            let (group, room) = (self.group.as_raw_fd(), buffer.len());
            // SAFETY: the buffer is exclusively borrowed and as long as the call is given.
            let length = unsafe { libc::read(group, buffer.as_mut_ptr().cast(), room) };
            match usize::try_from(length) {
                Ok(length) if length > 0 => {
                    self.note(&buffer[..length]);
                    // The buffer had room left, so there are no more events.
                    if length + EVENT_BYTES_MAX <= buffer.len() {
                        return;
                    }
                }
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
                self.seen.push((handle_in(&event[METADATA_BYTES..]), mask));
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
        let reach = Reach::find(make("probe"));
        if rustix::process::geteuid().is_root() && super::super::lease::speaks_for_all(&first) {
            assert_eq!(reach, Reach::File);
        }
        let Some(mut watch) = Watch::new(reach).filter(|_| reach == Reach::File) else { return };
        assert!(watch.add(&first) && watch.add(&second));
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
