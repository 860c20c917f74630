//! The place of a file's last check: a directory that no other user can reach into.
//!
//! ```text
//!   ROOT/QUARANTINE/            owned by the user who runs this, 0700, locked while it is in use
//!       cell-PID-TIME-N/        one for each thread of one run
//!           00 .. 31            files that are being looked at
//!           taken               the rows that came this far, for a run that was interrupted
//!           origins             the origin of each file of this round, noted before it is taken
//!       ready-N/                cells that were made when the plan was published: the disk may be full
//!       reserve/                inodes and blocks that are given back when it is
//!       stranded/               files that could not be put back, each beside a note of where it
//!                               was (`.origin`); a person decides
//! ```
//! A name in a user's directory can be made to refer to another file at any moment. A name in here
//! cannot: so the file that is looked at here is the file that is removed.
//!
//! The name is the plan's secret; if it is taken all the same, another is derived from it. A
//! quarantine is proved not by its name but by being ours alone ([`is_quarantine`]).

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, Statx, StatxFlags, fstat, mkdirat, openat,
    renameat_with, statat, statx, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::rand::{GetRandomFlags, getrandom};

use super::origin::{self, Mark, Noted, Origin, ROUND, slot_name};
use super::watch::Reach;
use crate::beneath::{Answer, Identity, Root};
use crate::error::{Error, Result};
use crate::system::take_any_project;

/// How every quarantine's name begins.
pub const QUARANTINE_PREFIX: &[u8] = b".trimtab-purge-";

/// Whether a directory of this name, owner and mode is one where files are put aside, of whichever
/// plan. Any user can give the name to a directory of theirs, but not own one like this.
pub fn is_quarantine(name: &[u8], uid: u32, mode: u32) -> bool {
    name.starts_with(QUARANTINE_PREFIX) && is_ours_alone(uid, mode)
}

fn is_ours_alone(uid: u32, mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::Directory
        && (uid == 0 || uid == geteuid().as_raw())
        && mode & 0o777 == 0o700
}

/// Where files are that could not be put back.
pub const STRANDED: &[u8] = b"stranded";
/// Inodes and blocks that are given back when a file system is full.
pub const RESERVE: &[u8] = b"reserve";
/// How the name begins of a cell that is made beforehand, for the thread whose number follows.
pub const READY: &[u8] = b"ready-";
/// Files of each cell: name, bytes, and bytes for each row of a batch.
pub const CELL_FILES: [(&[u8], usize, usize); 4] =
    [(TAKEN, 0, ROW_BYTES), (ORIGINS, ORIGINS_BYTES, 0), (PROBES[0], 0, 0), (PROBES[1], 0, 0)];

const TAKEN: &[u8] = b"taken";
const ORIGINS: &[u8] = b"origins";
const NOTE_BYTES: usize = size_of::<u64>();
/// Bytes of the notes of a row: that it is here, that it goes back, and that it had gone back.
const ROW_BYTES: usize = 3 * NOTE_BYTES;
/// Flag in the note of a row that is about to go back.
const BACK: u64 = 1 << 63;
/// Suffix of the note beside a stranded file.
pub(super) const ORIGIN_SUFFIX: &[u8] = b".origin";
/// Empty files that a cell has while it is found out whether renaming refuses to replace.
const PROBES: [&[u8]; 3] = [b"probe-1", b"probe-2", b"probe-3"];

/// Typical bytes of the note of a round.
const ORIGINS_BYTES: usize = 16 << 10;

/// Attributes queried of every file.
pub(super) const WANTED: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::BTIME);

/// The directory beneath the root, open and locked.
#[derive(Debug)]
pub(super) struct Quarantine {
    name: Vec<u8>,
    descriptor: OwnedFd,
    stranded: OwnedFd,
}

impl Quarantine {
    /// Makes it or opens the one that an earlier run of the plan has left, after a check that no
    /// other user can move it out of the root.
    pub(super) fn open(root: &Root, name: &[u8]) -> Result<Self> {
        is_kept_by_us(root)?;
        let system = |errno| Error::system("read", root.path(), errno);
        let name = match ours(root, name).map_err(system)?.into_iter().next() {
            Some(ours) => ours,
            None => fresh_name(root, name)?,
        };
        let descriptor = private_directory(root, root.descriptor(), &name)?;
        // The journal of a run is locked besides.
        if !crate::lock::is_ours(&descriptor) {
            let path = root.path().join(crate::beneath::as_path(&name));
            return Err(Error::Refused(format!("{}: another run is using it", path.display())));
        }
        let stranded = private_directory(root, descriptor.as_fd(), STRANDED)?;
        Ok(Self { name, descriptor, stranded })
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
        let notes = create(TAKEN).and_then(|log| Ok((log, create(ORIGINS)?)));
        let made = may_rename_without_replacing(root, &directory).and(notes);
        let (log, origins) = match made {
            Ok(notes) => notes,
            Err(refused) => {
                self.remove_cell(&directory, &name);
                return Err(refused);
            }
        };
        // Room for most rounds, set aside while there is some.
        make_room(&origins, 0, ORIGINS_BYTES);
        let logged = log.metadata().map_or(0, |metadata| metadata.len());
        Ok(Cell {
            name,
            directory,
            ready: claimed.then_some(ready),
            log: Some(log),
            reach: Reach::find(&origins),
            origins,
            logged,
            blocked: [false; ROUND],
        })
    }

    /// The cells that another run has left, with its notes and the files in them.
    pub(super) fn leftovers(&self, ours: &[&Cell]) -> Answer<Vec<Leftover>> {
        let mut left = Vec::new();
        for name in names(&self.descriptor)? {
            if name == STRANDED || is_room(&name) || ours.iter().any(|cell| cell.name == name) {
                continue;
            }
            left.push(Leftover::open(&self.descriptor, name)?);
        }
        Ok(left)
    }

    /// Moves a file that could not be put back to where it waits for a person, named by its row and
    /// with a note of where it was; says whether it was moved.
    pub(super) fn strand(&self, from: Place<'_>, origin: Origin<'_>) -> bool {
        let moved = |attempt: u32| {
            let new_name = format!("{}-{attempt}", origin.row).into_bytes();
            let note = [&new_name, ORIGIN_SUFFIX].concat();
            let noted = self.write_note(&note, origin);
            let flags = RenameFlags::NOREPLACE;
            let moved =
                renameat_with(from.directory, from.name, &self.stranded, &*new_name, flags).is_ok();
            if noted && !moved {
                let _ = unlinkat(&self.stranded, &*note, AtFlags::empty());
            }
            moved
        };
        // Where even that fails it stays in its slot, which is not used again.
        (0..100).any(moved)
    }

    /// Without room for it, the row in the name and the plan say the same.
    fn write_note(&self, name: &[u8], origin: Origin<'_>) -> bool {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let Ok(note) = openat(&self.stranded, name, flags, Mode::RUSR | Mode::WUSR) else {
            return false;
        };
        let _ = File::from(note).write_all_at(&origin::encode([(0, origin)]), 0);
        true
    }

    /// Puts a file back under its name, unless something has that name by now.
    pub(super) fn put_back(&self, place: Place<'_>, to: &OwnedFd, origin: Origin<'_>) -> bool {
        let back = self.returns(place, to, origin);
        if !back {
            self.strand(place, origin);
        }
        back
    }

    /// Moves a file to its name, unless something has that by now; says whether it did.
    pub(super) fn returns(&self, place: Place<'_>, to: &OwnedFd, origin: Origin<'_>) -> bool {
        let flags = RenameFlags::NOREPLACE;
        renameat_with(place.directory, place.name, to, origin.name, flags).is_ok()
    }

    /// The paths, relative to the root, of what waits for a person.
    pub(super) fn stranded(&self) -> Answer<Vec<Vec<u8>>> {
        let mut files = names(&self.stranded)?;
        files.retain(|name| !name.ends_with(ORIGIN_SUFFIX));
        Ok(files.iter().map(|name| self.path_of(STRANDED, name)).collect())
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

    /// Removes a cell if it is empty.
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
        remove_notes_alone(&self.stranded);
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
    /// Origins of the files of this round.
    origins: File,
    logged: u64,
    /// How far acts of other processes are reported here.
    pub(super) reach: Reach,
    /// Slots whose file could be neither put back nor moved away.
    blocked: [bool; ROUND],
}

impl Cell {
    /// Forgets the rows of earlier batches: their outcomes are in the journal of the run.
    pub(super) fn begin(&mut self, rows: usize) {
        let logged = std::mem::take(&mut self.logged);
        // Room is set aside now: a full file system must not take the note away half-way.
        self.log.take_if(|log| !make_room(log, logged, rows * ROW_BYTES));
    }

    /// Notes that these rows are in here now, before the first of them is removed.
    pub(super) fn note(&mut self, rows: impl Iterator<Item = u64>) {
        // One more than the row: a hole in the file reads as 0.
        self.write(rows.map(|row| row + 1));
    }

    /// Notes that this row is about to go back, or to where it waits for a person.
    pub(super) fn note_back(&mut self, row: u64) {
        self.write(std::iter::once(BACK | (row + 1)));
    }

    fn write(&mut self, words: impl Iterator<Item = u64>) {
        let Some(log) = &self.log else { return };
        let words: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        if log.write_all_at(&words, self.logged).is_err() {
            self.log = None;
        }
        self.logged += words.len() as u64;
    }

    /// Notes from where each slot is about to be filled: what a run that is killed leaves can be
    /// put back without its plan, and also what it took by mistake.
    pub(super) fn intend<'a>(&self, slots: impl Iterator<Item = (usize, Origin<'a>)>) {
        // Without the note, the plan has the origin of planned files.
        let _ = self.origins.write_all_at(&origin::encode(slots), 0);
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = usize> + use<> {
        let blocked = self.blocked;
        (0..ROUND).filter(move |slot| !blocked[*slot])
    }

    /// Moves a file into a slot; `replaces` says that the file in the slot goes with that.
    pub(super) fn take(
        &self,
        from: &OwnedFd,
        name: &[u8],
        slot: usize,
        replaces: bool,
    ) -> Answer<()> {
        let flags = if replaces { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        renameat_with(from, name, &self.directory, slot_name(slot), flags)
    }

    pub(super) fn place(&self, slot: usize) -> Place<'_> {
        Place { directory: &self.directory, name: slot_name(slot) }
    }

    /// Gives a slot up if something is still in it.
    pub(super) fn look_after(&mut self, slot: usize) {
        self.blocked[slot] = !matches!(self.place(slot).stat(), Err(Errno::NOENT));
    }
}

/// Cell that one thread of an interrupted run has left.
#[derive(Debug)]
pub(super) struct Leftover {
    pub(super) name: Vec<u8>,
    pub(super) directory: OwnedFd,
    /// The rows that it had taken; `None` where it had no room to note them.
    log: Option<File>,
    /// When the run made the cell.
    pub(super) since_ns: Option<i64>,
    /// The names of its files.
    pub(super) files: Vec<Vec<u8>>,
    /// Their origins, as noted before they were taken.
    pub(super) origins: Vec<Noted>,
}

impl Leftover {
    pub(super) fn open(quarantine: &OwnedFd, name: Vec<u8>) -> Answer<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let directory = openat(quarantine, name.as_slice(), flags, Mode::empty())?;
        let files = names(&directory)?.into_iter().filter(|name| !is_own(name)).collect();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let log = openat(&directory, TAKEN, flags, Mode::empty()).ok().map(File::from);
        let origins = origin::read(&directory, ORIGINS);
        let since_ns = Mark::of(&directory)?.birth_ns;
        Ok(Self { name, directory, log, since_ns, files, origins })
    }

    /// The rows that were taken so far, and for each whether it was about to go back.
    pub(super) fn taken(&self) -> Vec<(u64, bool)> {
        let (mut rows, mut word, mut at) = (Vec::new(), [0; NOTE_BYTES], 0);
        let Some(log) = &self.log else { return rows };
        while log.read_exact_at(&mut word, at).is_ok() {
            at += NOTE_BYTES as u64;
            let noted = u64::from_le_bytes(word);
            rows.extend((noted & !BACK).checked_sub(1).map(|row| (row, noted & BACK != 0)));
        }
        rows
    }

    /// The origin of the file that has this name and inode in here.
    pub(super) fn origin_of(&self, name: &[u8], inode: u64) -> Option<&Noted> {
        let here = || self.origins.iter().filter(|noted| noted.slot == name);
        // A slot may be noted twice: for the file that waits there and for the next one, which is
        // noted behind it. What was taken by mistake has neither inode and is in the place of the next.
        let next = here().next_back().filter(|noted| noted.fresh);
        here().find(|noted| noted.inode == inode).or(next)
    }
}

/// Removes the notes of stranded files that an operator has moved away by hand.
pub(super) fn remove_notes_alone(stranded: &OwnedFd) {
    let rest = names(stranded).unwrap_or_default();
    for note in &rest {
        let is_alone = |file: &[u8]| !rest.iter().any(|name| name == file);
        if note.strip_suffix(ORIGIN_SUFFIX).is_some_and(is_alone) {
            let _ = unlinkat(stranded, &**note, AtFlags::empty());
        }
    }
}

/// Whether something in a quarantine is room that was set aside: nothing was taken into it.
pub(super) fn is_room(name: &[u8]) -> bool {
    name == RESERVE || name.starts_with(READY)
}

/// Whether a name in a cell is one of ours and not a file that was taken: those have numbers.
pub(super) fn is_own(name: &[u8]) -> bool {
    name == TAKEN || name == ORIGINS || PROBES.contains(&name)
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

pub(super) fn names(directory: impl AsFd) -> Answer<Vec<Vec<u8>>> {
    let mut listed = Vec::new();
    for entry in Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            listed.push(name);
        }
    }
    Ok(listed)
}

/// The names of all quarantines in the root, of whichever plan.
pub(super) fn beneath(root: &Root) -> Answer<Vec<Vec<u8>>> {
    ours(root, QUARANTINE_PREFIX)
}

/// The directories in the root that are ours alone and whose names begin so.
fn ours(root: &Root, prefix: &[u8]) -> Answer<Vec<Vec<u8>>> {
    let mut ours = names(root.descriptor())?;
    ours.retain(|name| {
        name.starts_with(prefix)
            && statat(root.descriptor(), &**name, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| is_ours_alone(stat.st_uid, stat.st_mode))
    });
    ours.sort();
    Ok(ours)
}

/// Makes the directory under this name, or under another that begins so if it is taken: a user who
/// guesses or has seen the name must not be able to stop a run.
fn fresh_name(root: &Root, name: &[u8]) -> Result<Vec<u8>> {
    let mut fresh = name.to_vec();
    for _ in 0..100 {
        match mkdirat(root.descriptor(), &*fresh, Mode::RWXU) {
            Ok(()) => return Ok(fresh),
            Err(Errno::EXIST) => {
                let mut random = [0; 8];
                let filled = getrandom(&mut random, GetRandomFlags::empty());
                filled.map_err(|errno| Error::system("getrandom", root.path(), errno))?;
                fresh = [name, format!("-{:016x}", u64::from_ne_bytes(random)).as_bytes()].concat();
            }
            Err(errno) => return Err(Error::system("mkdir", root.path(), errno)),
        }
    }
    Err(Error::system("mkdir", root.path(), Errno::EXIST))
}

/// Whether no other user can rename entries of the root: else the quarantine could be moved away,
/// and files that an interrupted run has left in it would not be found again.
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
        let message = "must be a directory of this user alone (owner, mode 0700, same file system)";
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
    // A ready cell stays ready: its probes are inodes that a full file system has no more of.
    let _ = renameat_with(directory, third, directory, first, RenameFlags::NOREPLACE);
    if refused == Err(Errno::EXIST) && renamed.is_ok() {
        return Ok(());
    }
    let message = "this kernel or file system cannot rename without replacing (renameat2)";
    Err(Error::Refused(format!("{}: {message}", root.path().display())))
}
