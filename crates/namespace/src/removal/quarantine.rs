//! Where a file is looked at for the last time: a directory that nobody else can reach into.
//!
//! ```text
//!   ROOT/QUARANTINE/            owned by whoever runs this, 0700, locked while it is in use
//!       cell-PID-TIME-N/        one for each thread of one run
//!           00 .. 31            files that are being looked at
//!           taken               the rows that came this far, for a run that was interrupted
//!           places              where they came from: directory, path and names
//!       ready-N/            cells that were made when the plan was published: the disk may be full
//!       reserve/            inodes and blocks that are given back when it is
//!       stranded/               files that could not be put back; a person decides
//! ```
//! A name in a user's directory can be made to stand for another file at any moment. A name in here
//! cannot: so the file that is looked at here is the file that is removed.

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Statx, StatxFlags, fstat, mkdirat, openat,
    renameat_with, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::parent::{Mark, take_any_project};
use super::place;
use crate::beneath::{Answer, Identity, Root};
use crate::error::{Error, Result};

/// How many files a thread takes before it looks again whether their directory is in place.
pub(super) const ROUND: usize = 32;

const STRANDED: &[u8] = b"stranded";
const RESERVE: &[u8] = b"reserve";
const READY: &[u8] = b"ready-";
const TAKEN: &[u8] = b"taken";
const PLACES: &[u8] = b"places";
/// What is set aside for the place of a row; more is written where there is room.
const PLACE_BYTES: usize = 128;
/// Empty files that a cell has while it is found out whether renaming refuses to replace.
const PROBES: [&[u8]; 3] = [b"probe-1", b"probe-2", b"probe-3"];

/// What is asked about every file.
pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The directory beneath the root, open and locked.
#[derive(Debug)]
pub(super) struct Quarantine {
    name: Vec<u8>,
    descriptor: OwnedFd,
    stranded: OwnedFd,
}

impl Quarantine {
    /// Makes or opens it, after the root was found to be a place where nobody can move it away.
    pub(super) fn open(root: &Root, name: &[u8]) -> Result<Self> {
        is_kept_by_us(root)?;
        let descriptor = private_directory(root, root.descriptor(), name)?;
        // The journal of a run is locked besides.
        if !crate::lock::is_ours(&descriptor) {
            let path = root.path().join(crate::beneath::as_path(name));
            return Err(Error::Refused(format!("{}: another run is using it", path.display())));
        }
        let stranded = private_directory(root, descriptor.as_fd(), STRANDED)?;
        Ok(Self { name: name.to_vec(), descriptor, stranded })
    }

    pub(super) fn cell(&self, root: &Root, number: usize) -> Result<Cell> {
        let since = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_nanos());
        let name = format!("cell-{}-{since:x}-{number}", std::process::id()).into_bytes();
        let ready = [READY, number.to_string().as_bytes()].concat();
        let flags = RenameFlags::NOREPLACE;
        let claimed =
            renameat_with(&self.descriptor, &ready[..], &self.descriptor, &name[..], flags).is_ok();
        let directory = private_directory(root, self.descriptor.as_fd(), &name)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let create = |name| {
            let opened = openat(&directory, name, flags, Mode::RUSR | Mode::WUSR);
            opened.map(File::from).map_err(|errno| Error::system("create", root.path(), errno))
        };
        let logs = create(TAKEN).and_then(|log| Ok((log, create(PLACES)?)));
        let made = may_rename_without_replacing(root, &directory).and(logs);
        let (log, places) = match made {
            Ok(logs) => logs,
            Err(refused) => {
                self.remove_cell(&directory, &name);
                return Err(refused);
            }
        };
        let length = |file: &File| file.metadata().map_or(0, |metadata| metadata.len());
        let (logged, placed) = (length(&log), length(&places));
        Ok(Cell {
            name,
            directory,
            ready: claimed.then_some(ready),
            log: Some(log),
            logged,
            places: Some(places),
            placed,
            blocked: [false; ROUND],
        })
    }

    /// The cells that another run has left, with what it noted and what lies in them.
    pub(super) fn leftovers(&self, ours: &[&Cell]) -> Answer<Vec<Leftover>> {
        let mut left = Vec::new();
        for name in names(&self.descriptor)? {
            let of_no_run = name == STRANDED || name == RESERVE || name.starts_with(READY);
            if of_no_run || ours.iter().any(|cell| cell.name == name) {
                continue;
            }
            left.push(Leftover::open(&self.descriptor, name)?);
        }
        Ok(left)
    }

    /// Moves a file that could not be put back to where it waits for a person, named by its row.
    pub(super) fn strand(&self, from: Place<'_>, row: u64) {
        let moved = |attempt: u32| {
            let new_name = format!("{row}-{attempt}");
            let flags = RenameFlags::NOREPLACE;
            renameat_with(from.directory, from.name, &self.stranded, new_name.as_bytes(), flags)
                .is_ok()
        };
        // Where even that fails it stays in its slot, which is not used again.
        (0..100).any(moved);
    }

    /// Puts a file back under its name, unless something has that name by now.
    pub(super) fn put_back(&self, place: Place<'_>, to: &OwnedFd, name: &[u8], row: u64) -> bool {
        let flags = RenameFlags::NOREPLACE;
        if renameat_with(place.directory, place.name, to, name, flags).is_ok() {
            return true;
        }
        self.strand(place, row);
        false
    }

    /// The paths, relative to the root, of what waits for a person.
    pub(super) fn stranded(&self) -> Answer<Vec<Vec<u8>>> {
        Ok(names(&self.stranded)?.iter().map(|name| self.path_of(STRANDED, name)).collect())
    }

    /// Ends the use of a cell: one that was ready before is again, if nothing is left in it.
    pub(super) fn end_cell(&self, cell: &Cell) {
        let empty = names(&cell.directory).is_ok_and(|rest| rest.iter().all(|name| is_own(name)));
        if let (Some(ready), true) = (&cell.ready, empty) {
            let flags = RenameFlags::NOREPLACE;
            let from = &self.descriptor;
            if renameat_with(from, &cell.name[..], from, &ready[..], flags).is_ok() {
                return;
            }
        }
        self.remove_cell(&cell.directory, &cell.name);
    }

    /// Removes a cell that is empty; what is in one that is not stays.
    pub(super) fn remove_cell(&self, directory: &OwnedFd, name: &[u8]) {
        let rest = names(directory).unwrap_or_default();
        if rest.iter().all(|name| is_own(name)) {
            // All may fail without harm: an empty cell is found and removed the next time.
            for name in rest {
                let _ = unlinkat(directory, name, AtFlags::empty());
            }
            let _ = unlinkat(&self.descriptor, name, AtFlags::REMOVEDIR);
        }
    }

    /// The path of something in here, relative to the root.
    pub(super) fn path_of(&self, cell: &[u8], name: &[u8]) -> Vec<u8> {
        [&self.name, cell, name].join(&b'/')
    }

    /// Removes the directory itself if nothing is left in it.
    pub(super) fn remove(self, root: &Root) {
        let _ = unlinkat(&self.descriptor, STRANDED, AtFlags::REMOVEDIR);
        let _ = unlinkat(root.descriptor(), self.name.as_slice(), AtFlags::REMOVEDIR);
    }
}

/// Whether a root has a quarantine of that name, or anything else under it.
pub(super) fn is_there(root: &Root, name: &[u8]) -> bool {
    let stat = statx(root.descriptor(), name, AtFlags::SYMLINK_NOFOLLOW, WANTED);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory)
}

/// A name in a directory of the quarantine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'a> {
    pub(super) directory: &'a OwnedFd,
    pub(super) name: &'a [u8],
}

impl Place<'_> {
    pub(super) fn stat(self) -> Answer<Statx> {
        statx(self.directory, self.name, AtFlags::SYMLINK_NOFOLLOW, WANTED)
    }

    pub(super) fn remove(self) -> Answer<()> {
        unlinkat(self.directory, self.name, AtFlags::empty())
    }
}

/// The directory of one thread.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) name: Vec<u8>,
    pub(super) directory: OwnedFd,
    /// Its name before it was this run's, where it was made when the plan was published.
    ready: Option<Vec<u8>>,
    /// The rows that were taken; without it, an interruption leaves some of them merely `gone`.
    log: Option<File>,
    logged: u64,
    /// Where they came from; without it, what was left is put back only where nothing else can be
    /// meant.
    places: Option<File>,
    placed: u64,
    /// Slots whose file could be neither put back nor moved away.
    blocked: [bool; ROUND],
}

impl Cell {
    /// Forgets the rows of earlier batches: their outcomes are in the journal of the run.
    pub(super) fn begin(&mut self, rows: usize) {
        let (logged, placed) = (self.logged, self.placed);
        (self.logged, self.placed) = (0, 0);
        // Room is set aside now: a full file system must not take the note away half-way.
        self.log.take_if(|log| !make_room(log, logged, rows * 8));
        self.places.take_if(|places| !make_room(places, placed, rows * PLACE_BYTES));
    }

    /// Notes where rows of one directory came from.
    pub(super) fn note_places<'a>(
        &mut self,
        from: Mark,
        path: &[u8],
        rows: impl Iterator<Item = (u64, &'a [u8])>,
    ) {
        let Some(places) = &self.places else { return };
        let mut words = Vec::new();
        for (row, name) in rows {
            place::write(&mut words, &place::Origin { row, from, path, name });
        }
        if places.write_all_at(&words, self.placed).is_err() {
            self.places = None;
        }
        self.placed += words.len() as u64;
    }

    /// Notes that these rows are in here now, before the first of them is removed.
    pub(super) fn note(&mut self, rows: impl Iterator<Item = u64>) {
        let Some(log) = &self.log else { return };
        // One more than the row: a hole in the file reads as 0.
        let words: Vec<u8> = rows.flat_map(|row| (row + 1).to_le_bytes()).collect();
        if log.write_all_at(&words, self.logged).is_err() {
            self.log = None;
        }
        self.logged += words.len() as u64;
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        let blocked = self.blocked;
        (0..ROUND).filter(move |slot| !blocked[*slot])
    }

    pub(super) fn take(&self, from: &OwnedFd, name: &[u8], slot: usize) -> Answer<()> {
        let to = slot_name(slot);
        renameat_with(from, name, &self.directory, to, RenameFlags::NOREPLACE)
    }

    pub(super) fn place(&self, slot: usize) -> Place<'_> {
        Place { directory: &self.directory, name: slot_name(slot) }
    }

    /// Gives a slot up if something is still in it.
    pub(super) fn look_after(&mut self, slot: usize) {
        self.blocked[slot] = !matches!(self.place(slot).stat(), Err(Errno::NOENT));
    }
}

/// What an interrupted run has left of one thread.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) name: Vec<u8>,
    pub(super) directory: OwnedFd,
    /// The rows that it had taken.
    pub(super) taken: Vec<u64>,
    /// The directories that they came from, as far as that was noted.
    pub(super) from: HashMap<u64, Mark>,
    /// When the run made the cell.
    pub(super) since_ns: Option<i64>,
    /// The names of the files that lie there.
    pub(super) files: Vec<Vec<u8>>,
}

impl Leftover {
    fn open(quarantine: &OwnedFd, name: Vec<u8>) -> Answer<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(quarantine, name.as_slice(), flags, Mode::empty())?;
        let files = names(&directory)?.into_iter().filter(|name| !is_own(name)).collect();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let taken = match openat(&directory, TAKEN, flags, Mode::empty()) {
            Ok(log) => rows_of(&File::from(log)),
            Err(_) => Vec::new(),
        };
        let from = match openat(&directory, PLACES, flags, Mode::empty()) {
            Ok(log) => place::marks(File::from(log)),
            Err(_) => HashMap::new(),
        };
        let since_ns = Mark::of(&directory)?.birth_ns;
        Ok(Self { name, directory, taken, from, since_ns, files })
    }
}

fn rows_of(log: &File) -> Vec<u64> {
    let mut words = Vec::new();
    let mut word = [0; 8];
    let mut at = 0;
    while log.read_exact_at(&mut word, at).is_ok() {
        words.extend(u64::from_le_bytes(word).checked_sub(1));
        at += 8;
    }
    words
}

/// Whether a name in a cell is one of ours and not a file that was taken: those have numbers.
fn is_own(name: &[u8]) -> bool {
    name == TAKEN || name == PLACES || PROBES.contains(&name)
}

fn slot_name(slot: usize) -> &'static [u8] {
    const NAMES: &[u8; 2 * ROUND] =
        b"0001020304050607080910111213141516171819202122232425262728293031";
    &NAMES[2 * slot..2 * slot + 2]
}

/// Empties a note and sees that there is room for the next. Blocks that it has are kept, since on a
/// full file system they would not be had again: what was written is overwritten with nothing.
fn make_room(file: &File, written: u64, bytes: usize) -> bool {
    use rustix::fs::{FallocateFlags, fallocate};
    let Ok(length) = usize::try_from(written) else { return false };
    if file.write_all_at(&vec![0; length], 0).is_err() {
        return false;
    }
    bytes == 0 || fallocate(file, FallocateFlags::empty(), 0, bytes as u64).is_ok()
}

fn names(directory: &OwnedFd) -> Answer<Vec<Vec<u8>>> {
    let mut listed = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            listed.push(name);
        }
    }
    Ok(listed)
}

/// Whether nobody else can rename what is in the root: else the quarantine could be moved away,
/// and what an interrupted run has left in it would not be found again.
fn is_kept_by_us(root: &Root) -> Result<()> {
    let stat = fstat(root.descriptor()).map_err(|e| Error::system("fstat", root.path(), e))?;
    let (uid, mode) = (stat.st_uid, Mode::from_raw_mode(stat.st_mode));
    if uid != 0 && uid != geteuid().as_raw() {
        let message = format!(
            "{}: it belongs to user {uid}, who could move the quarantine away",
            root.path().display()
        );
        return Err(Error::Refused(message));
    }
    if mode.intersects(Mode::WGRP | Mode::WOTH) && !mode.contains(Mode::SVTX) {
        let message = format!(
            "{}: others may write to it and could move the quarantine away",
            root.path().display()
        );
        return Err(Error::Refused(message));
    }
    Ok(())
}

/// Makes a directory that only we can enter, or opens it if it is such a one.
fn private_directory(
    root: &Root,
    parent: rustix::fd::BorrowedFd<'_>,
    name: &[u8],
) -> Result<OwnedFd> {
    let path = || root.path().join(crate::beneath::as_path(name));
    let system = |operation| move |errno: Errno| Error::system(operation, path(), errno);
    match mkdirat(parent, name, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(system("mkdir")(errno)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(parent, name, flags, Mode::empty()).map_err(system("open"))?;
    let stat = fstat(&directory).map_err(system("fstat"))?;
    let identity = Identity::of(directory.as_fd()).map_err(system("statx"))?;
    let private = FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_uid == geteuid().as_raw()
        && stat.st_mode & 0o777 == 0o700
        && identity.is_beside(root.identity());
    if !private {
        let message = "it is not a directory of ours alone (owner, mode 0700, same file system)";
        return Err(Error::Refused(format!("{}: {message}", path().display())));
    }
    if !take_any_project(&directory) {
        let message = "it takes files of one project only, and that could not be changed";
        return Err(Error::Refused(format!("{}: {message}", path().display())));
    }
    Ok(directory)
}

/// Makes sure that renaming refuses to replace here: without it nothing could be put back safely.
fn may_rename_without_replacing(root: &Root, directory: &OwnedFd) -> Result<()> {
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
    let [first, second, third] = PROBES;
    for name in [first, second] {
        openat(directory, name, create, Mode::RUSR)
            .map_err(|errno| Error::system("create", root.path(), errno))?;
    }
    let rename = |to| renameat_with(directory, first, directory, to, RenameFlags::NOREPLACE);
    let (refused, renamed) = (rename(second), rename(third));
    // What was ready stays ready: its probes are inodes that a full file system has no more of.
    let _ = renameat_with(directory, third, directory, first, RenameFlags::NOREPLACE);
    if refused == Err(Errno::EXIST) && renamed.is_ok() {
        return Ok(());
    }
    let message = "this kernel or file system cannot rename without replacing (renameat2)";
    Err(Error::Refused(format!("{}: {message}", root.path().display())))
}
