//! One thread of a walk.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, OFlags, statat};
use rustix::io::Errno;

use super::Walk;
use super::base::Listing;
use super::descriptors::Descriptors;
use super::directory::{CurrentPath, Directory, Open};
use super::names::Names;
use super::record::Counts;
use super::scheduler::Task;
use super::sink::Sink;
use crate::entry::{Entry, FileType};
use crate::removal::{QUARANTINE_PREFIX, is_quarantine};

/// Fewer names than this are not worth handing over.
const SHARE_MIN: usize = 16;
/// Names that are looked at before others may come first, or a pause, take about so long.
const AT_ONCE: Duration = Duration::from_secs(1);
/// Names that are looked at before their time is known, where calls are delayed: two
/// workers may share them.
const FIRST_AT_ONCE: usize = 2;
/// Directories of a listing that are looked at before others may come first.
const KNOWN_AT_ONCE: usize = 1024;
/// How often an open is tried again when the system has no descriptor to give, and after how long.
const DESCRIPTOR_RETRIES: u32 = 100;
const DESCRIPTOR_RETRY: Duration = Duration::from_millis(10);

/// A thread of a walk, and the buffers that it uses again and again.
pub struct Worker<'a, S> {
    walk: &'a Walk<'a, S>,
    index: usize,
    buffer: Vec<MaybeUninit<u8>>,
    path: CurrentPath,
    rows: Vec<(usize, Entry)>,
    found: Vec<Task>,
    /// How many names are looked at before others may come first.
    at_once: usize,
}

impl<'a, S: Sink> Worker<'a, S> {
    pub fn new(walk: &'a Walk<'a, S>, index: usize) -> Self {
        Self {
            walk,
            index,
            buffer: vec![MaybeUninit::uninit(); walk.settings.buffer_bytes],
            path: CurrentPath::default(),
            rows: Vec::new(),
            found: Vec::new(),
            at_once: if walk.settings.holds_up() { FIRST_AT_ONCE } else { usize::MAX },
        }
    }

    /// Works until the scheduler has no more.
    pub fn run(&mut self) {
        let mut names = Names::default();
        while let Some(task) = self.walk.scheduler.next(self.index) {
            match task {
                Task::Read(directory, cookie) => self.read(&directory, cookie, &mut names),
                Task::Stat(directory, names) => self.look_again(&directory, &names),
                Task::Known(directory, place) => self.pass_over(&directory, place, &mut names),
            }
            self.walk.scheduler.finished(self.index);
        }
    }

    /// Reads a directory from a cookie on, to its end or until something else is to come first.
    fn read(&mut self, directory: &Arc<Directory>, mut cookie: u64, names: &mut Names) {
        self.path.go_to(directory);
        let opened = self.open(directory);
        let mut answer = opened.and_then(|open| self.read_on(directory, &open, &mut cookie, names));
        if answer == Err(Errno::STALE) {
            // A server forgot the handle: the path may still lead to the directory.
            directory.set_kept(None);
            answer = self
                .open_beneath(self.walk.root.descriptor(), self.path.bytes(), directory.mdt())
                .and_then(|open| self.read_on(directory, &open, &mut cookie, names));
        }
        if let Err(errno) = answer {
            self.not_read(None, 1, errno);
        }
    }

    /// Leaves in `cookie` up to where every name was dealt with.
    fn read_on(
        &mut self,
        directory: &Arc<Directory>,
        open: &Arc<Open>,
        cookie: &mut u64,
        names: &mut Names,
    ) -> Result<(), Errno> {
        open.seek(*cookie)?;
        loop {
            self.walk.gates.pass(directory.mdt());
            let Some(next) = names.read(open, &mut self.buffer)? else {
                self.walk.record.add(&Counts { directories: 1, ..Counts::default() });
                return Ok(());
            };
            let mut looked = 0;
            while looked < names.len() {
                let some = looked..looked.saturating_add(self.at_once).min(names.len());
                looked = some.end;
                *cookie = if looked == names.len() { next } else { names.next_after(&some) };
                names.sort(some.clone());
                let at = *cookie;
                let rest = || Task::Read(Arc::clone(directory), at);
                if self.share(directory, open, names, some.clone(), rest) {
                    return Ok(());
                }
                self.look(directory, open.as_fd(), names, some.clone());
                if self.pass_on(directory, open, rest) {
                    return Ok(());
                }
            }
            *cookie = next;
        }
    }

    /// Looks at the subdirectories of a directory whose names are unchanged; its files are not
    /// looked at.
    fn pass_over(&mut self, directory: &Arc<Directory>, place: u64, names: &mut Names) {
        self.path.go_to(directory);
        let listing = self.walk.base.and_then(|base| base.listing(self.path.bytes()));
        let carried = listing.map_or(0, Listing::others);
        if let Some(listing) =
            listing.filter(|listing| listing.directories_from(0).next().is_some())
        {
            match self.open(directory) {
                Ok(open) => {
                    if !self.pass_on_from(directory, &open, listing, place, names) {
                        return;
                    }
                }
                Err(errno) => return self.not_read(None, 1, errno),
            }
        }
        self.walk.record.add(&Counts { unchanged: 1, carried, ..Counts::default() });
    }

    /// Returns whether all directories were looked at; others come later.
    fn pass_on_from(
        &mut self,
        directory: &Arc<Directory>,
        open: &Arc<Open>,
        listing: &Listing,
        mut place: u64,
        names: &mut Names,
    ) -> bool {
        loop {
            let count = KNOWN_AT_ONCE.min(self.at_once);
            names.fill(listing.directories_from(place as usize), count);
            if names.len() == 0 {
                return true;
            }
            place += names.len() as u64;
            let rest = || Task::Known(Arc::clone(directory), place);
            if self.share(directory, open, names, 0..names.len(), rest) {
                return false;
            }
            self.look(directory, open.as_fd(), names, 0..names.len());
            if self.pass_on(directory, open, rest) {
                return false;
            }
        }
    }

    /// Hands some names and the rest of the directory to workers that have nothing to do.
    fn share(
        &self,
        directory: &Arc<Directory>,
        open: &Arc<Open>,
        names: &Names,
        some: Range<usize>,
        rest: impl FnOnce() -> Task,
    ) -> bool {
        let scheduler = self.walk.scheduler;
        let helpers = scheduler.could_help(directory);
        let least = if self.walk.settings.holds_up() { 1 } else { SHARE_MIN };
        if helpers == 0 || some.len() < 2 * least || scheduler.wants_quiet() {
            return false;
        }
        self.walk.descriptors.keep(directory, open);
        let at_a_time = some.len().div_ceil(helpers + 1).max(least);
        let parts = names.split(some, at_a_time).into_iter();
        let parts = parts.map(|part| Task::Stat(Arc::clone(directory), part));
        scheduler.push(self.index, std::iter::once(rest()).chain(parts));
        true
    }

    /// Looks at names that another worker read.
    fn look_again(&mut self, directory: &Arc<Directory>, names: &Names) {
        self.path.go_to(directory);
        match self.open(directory) {
            Ok(open) => {
                self.look(directory, open.as_fd(), names, 0..names.len());
                self.push_found(directory, &open, None);
            }
            Err(errno) => self.not_read(None, names.len() as u64, errno),
        }
    }

    /// Looks at some names, and writes down what there is.
    fn look(
        &mut self,
        directory: &Arc<Directory>,
        open: BorrowedFd<'_>,
        names: &Names,
        some: Range<usize>,
    ) {
        let (began, count) = (Instant::now(), some.len());
        let mut counts = Counts::default();
        let base = self.walk.base.map(|base| (base, base.listing(self.path.bytes())));
        for index in some {
            let name = names.get(index);
            let mdt = self.walk.mdt_of(names.inode(index));
            let gate = self.walk.gates.pass(mdt);
            match self.walk.inspector.look_by(gate, open, name) {
                Ok(Some(entry)) => {
                    counts.entries += 1;
                    counts.allocated_bytes += entry.allocated_bytes;
                    if entry.kind == FileType::Directory && !is_aside(open, name, &entry) {
                        let name = name.to_bytes();
                        let same = base.is_some_and(|(base, above)| {
                            base.holds_the_same(above, self.path.bytes(), name, &entry)
                        });
                        let child = directory.child(name, mdt);
                        self.found.push(match same {
                            true => Task::Known(child, 0),
                            false => Task::Read(child, 0),
                        });
                    }
                    self.rows.push((index, entry));
                }
                Ok(None) => counts.elsewhere += 1,
                Err(errno) => self.not_read(Some(name.to_bytes()), 1, errno),
            }
        }
        self.write(names);
        self.walk.record.add(&counts);
        self.at_once = at_once(self.at_once, count, began.elapsed());
    }

    /// Pushes the subdirectories that were found; returns whether the rest of this directory was
    /// put back beneath them, to be read later.
    fn pass_on(
        &mut self,
        directory: &Arc<Directory>,
        open: &Arc<Open>,
        rest: impl FnOnce() -> Task,
    ) -> bool {
        let scheduler = self.walk.scheduler;
        let crowded =
            scheduler.queued() >= self.walk.settings.queue_limit && !self.found.is_empty();
        let later = crowded || scheduler.wants_quiet() || scheduler.is_wanted_elsewhere(self.index);
        self.push_found(directory, open, later.then(rest));
        later
    }

    fn push_found(&mut self, directory: &Arc<Directory>, open: &Arc<Open>, rest: Option<Task>) {
        if rest.is_none() && self.found.is_empty() {
            return;
        }
        self.walk.descriptors.keep(directory, open);
        self.walk.scheduler.push(self.index, rest.into_iter().chain(self.found.drain(..).rev()));
    }

    fn write(&mut self, names: &Names) {
        if self.rows.is_empty() {
            return;
        }
        let mut sink = self.sink();
        let parent = self.path.bytes();
        let written = self
            .rows
            .iter()
            .try_for_each(|(index, entry)| sink.row(parent, names.get(*index).to_bytes(), entry));
        drop(sink);
        self.rows.clear();
        if let Err(error) = written {
            self.walk.fail(error);
        }
    }

    /// A sink that no other worker is writing to, or in the end one's own turn at it.
    fn sink(&self) -> MutexGuard<'a, S> {
        let sinks = self.walk.sinks;
        for step in 0..sinks.len() {
            match sinks[(self.index + step) % sinks.len()].try_lock() {
                Ok(sink) => return sink,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        sinks[self.index % sinks.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the directory that the worker is in, from the nearest one that is open.
    fn open(&self, directory: &Arc<Directory>) -> Result<Arc<Open>, Errno> {
        if let Some(open) = directory.kept() {
            return Ok(open);
        }
        let path = self.path.bytes();
        match Descriptors::nearest(directory) {
            Some((above, from)) => self.open_beneath(above.as_fd(), &path[from..], directory.mdt()),
            None => self.open_beneath(self.walk.root.descriptor(), path, directory.mdt()),
        }
    }

    fn open_beneath(
        &self,
        start: BorrowedFd<'_>,
        path: &[u8],
        mdt: u16,
    ) -> Result<Arc<Open>, Errno> {
        let mut retries = 0;
        loop {
            self.walk.gates.pass(mdt);
            let quietly = !self.walk.leaves_access_times.load(Relaxed);
            let flags = OFlags::RDONLY | if quietly { OFlags::NOATIME } else { OFlags::empty() };
            match self.walk.root.directory_from(start, path, flags) {
                Ok(descriptor) => return Ok(Arc::new(Open::new(descriptor))),
                // Only their owner, and root, may read directories without a trace.
                Err(Errno::PERM) if quietly => self.walk.leaves_access_times.store(true, Relaxed),
                Err(Errno::MFILE | Errno::NFILE) if retries < DESCRIPTOR_RETRIES => {
                    retries += 1;
                    if !self.walk.descriptors.close_half() {
                        std::thread::sleep(DESCRIPTOR_RETRY);
                    }
                }
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Counts what could not be read: a name in the directory that the worker is in, or that
    /// directory itself.
    fn not_read(&self, name: Option<&[u8]>, names: u64, errno: Errno) {
        let record = self.walk.record;
        match errno {
            // A directory that another took the place of, or a link did, is gone as well.
            Errno::NOENT => record.add(&Counts { vanished: names, ..Counts::default() }),
            Errno::NOTDIR | Errno::LOOP if name.is_none() => {
                record.add(&Counts { vanished: names, ..Counts::default() });
            }
            Errno::XDEV if name.is_none() => {
                record.add(&Counts { elsewhere: 1, ..Counts::default() });
            }
            Errno::STALE if self.is_gone() => {
                record.add(&Counts { vanished: names, ..Counts::default() });
            }
            _ => {
                let mut path = self.path.bytes().to_vec();
                if let Some(name) = name {
                    if !path.is_empty() {
                        path.push(b'/');
                    }
                    path.extend_from_slice(name);
                }
                record.add_unread(path, errno);
            }
        }
    }

    /// Whether the directory that the worker is in is no longer where it was.
    fn is_gone(&self) -> bool {
        let answer = self.walk.root.directory(self.path.bytes(), OFlags::PATH);
        matches!(answer, Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
    }
}

/// How many names to look at before others may come first, after it was so many and these took so
/// long: at most twice as many as before, for some names take longer than others.
fn at_once(before: usize, names: usize, took: Duration) -> usize {
    if names == 0 {
        return before;
    }
    let in_time = names as f64 * (AT_ONCE.as_secs_f64() / took.as_secs_f64().max(1e-9));
    (in_time as usize).clamp(1, before.saturating_mul(2))
}

/// Whether a directory is one where files of a plan wait for an operator: they are no user's old
/// files, and no index has them.
fn is_aside(directory: BorrowedFd<'_>, name: &CStr, entry: &Entry) -> bool {
    name.to_bytes().starts_with(QUARANTINE_PREFIX)
        && statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| is_quarantine(name.to_bytes(), entry.uid, stat.st_mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_names_are_looked_at_as_take_a_second() {
        let millisecond = Duration::from_millis(1);
        assert_eq!(at_once(usize::MAX, 1000, 10 * millisecond), 100_000);
        assert_eq!(at_once(usize::MAX, 1000, 20_000 * millisecond), 50);
        assert_eq!(at_once(50, 50, 10 * millisecond), 100);
        assert_eq!(at_once(2, 2, 20_000 * millisecond), 1);
        assert_eq!(at_once(1, 1, Duration::ZERO), 2);
        assert_eq!(at_once(usize::MAX, 0, millisecond), usize::MAX);
    }
}
