//! Files in the quarantines of every plan beneath a root: listed, and put back at an operator's
//! request.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, OFlags, RenameFlags, StatxFlags, renameat_with, statx, unlinkat};
use rustix::io::Errno;

use super::origin::Mark;
use super::origin::{self, Noted};
use super::quarantine::{
    Leftover, ORIGIN_SUFFIX, Place, STRANDED, beneath, is_own, is_room, names, remove_notes_alone,
};
use crate::beneath::{Answer, Root};
use crate::entry::Entry;
use crate::error::{Error, Result};

/// State of a file in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It waits, and can be put back.
    Waits,
    /// It is back where it was.
    Restored,
    /// Something else has its name.
    NameTaken,
    /// Its directory is not there any more; another may have the path.
    DirectoryGone,
    /// It was not noted from where it was taken.
    OriginUnknown,
    /// A run is using the quarantine.
    InUse,
    /// The system said something else.
    Failed,
}

impl Fate {
    /// Its name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Waits => "waits",
            Self::Restored => "restored",
            Self::NameTaken => "name_taken",
            Self::DirectoryGone => "directory_gone",
            Self::OriginUnknown => "origin_unknown",
            Self::InUse => "in_use",
            Self::Failed => "failed",
        }
    }
}

/// A file that was put aside. Paths are relative to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Aside {
    /// The quarantine that it is in.
    pub quarantine: Vec<u8>,
    /// Where it is now.
    pub place: Vec<u8>,
    /// Where it was.
    pub origin: Option<Vec<u8>>,
    /// The row of the plan by which it was taken.
    pub row: Option<u64>,
    /// Its owner.
    pub uid: u32,
    /// Its length.
    pub size_bytes: u64,
    /// Its state.
    pub fate: Fate,
}

/// The names of all quarantines in a root; each is a directory of ours alone.
pub fn quarantines(root: &Root) -> Result<Vec<Vec<u8>>> {
    beneath(root).map_err(|errno| Error::system("read", root.path(), errno))
}

/// Lists every file in a quarantine; with `restore`, each is put back under its name, replacing
/// nothing, or into the directory `into` where its own is gone. Directories that are empty then are
/// removed.
pub fn aside(root: &Root, restore: bool, into: Option<&[u8]>) -> Result<Vec<Aside>> {
    let system = |errno| Error::system("read", root.path(), errno);
    let into = match into {
        Some(path) => Some((path, root.directory(path, OFlags::RDONLY).map_err(system)?)),
        None => None,
    };
    let mut listed = Vec::new();
    for name in quarantines(root)? {
        let contents = match Contents::open(root, &name) {
            // A run ended meanwhile, and removed it.
            Err(Errno::NOENT) => continue,
            contents => contents.map_err(system)?,
        };
        let ours = crate::lock::is_ours(&contents.descriptor);
        for cell in &contents.cells {
            for file in &cell.files {
                let place = Place { directory: &cell.directory, name: file };
                let Ok(stat) = place.stat() else { continue };
                let noted = cell.origin_of(file, stat.stx_ino);
                let fate = match noted {
                    _ if !ours => Fate::InUse,
                    None => Fate::OriginUnknown,
                    Some(noted) => fate_of(root, place, noted, restore, into.as_ref()),
                };
                if fate == Fate::Restored {
                    Contents::remove_note(cell, file);
                }
                listed.push(Aside {
                    quarantine: name.clone(),
                    place: [&*name, &*cell.name, file].join(&b'/'),
                    origin: noted.map(path_of),
                    row: noted.map(|noted| noted.row),
                    uid: stat.stx_uid,
                    size_bytes: Entry::of_statx(&stat).size_bytes,
                    fate,
                });
            }
        }
        if ours && restore {
            contents.remove(root, &name);
        }
    }
    Ok(listed)
}

fn path_of(noted: &Noted) -> Vec<u8> {
    match noted.parent.is_empty() {
        true => noted.name.clone(),
        false => [&*noted.parent, &*noted.name].join(&b'/'),
    }
}

fn fate_of(
    root: &Root,
    place: Place<'_>,
    noted: &Noted,
    restore: bool,
    into: Option<&(&[u8], OwnedFd)>,
) -> Fate {
    let its_own = root.directory(&noted.parent, OFlags::RDONLY).and_then(|directory| {
        // Another directory may have the path by now: in there the file would be another user's.
        match noted.from.is_some_and(|from| Mark::of(&directory) == Ok(from)) {
            true => Ok(directory),
            false => Err(Errno::NOENT),
        }
    });
    let parent = match (&its_own, into) {
        (Ok(parent), _) | (Err(Errno::NOENT), Some((_, parent))) => parent,
        (Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV), _) => {
            return Fate::DirectoryGone;
        }
        (Err(_), _) => return Fate::Failed,
    };
    if !restore {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        return match statx(parent, &*noted.name, flags, StatxFlags::TYPE) {
            Err(Errno::NOENT) => Fate::Waits,
            Ok(_) => Fate::NameTaken,
            Err(_) => Fate::Failed,
        };
    }
    let flags = RenameFlags::NOREPLACE;
    match renameat_with(place.directory, place.name, parent, &*noted.name, flags) {
        Ok(()) => Fate::Restored,
        Err(Errno::EXIST) => Fate::NameTaken,
        Err(_) => Fate::Failed,
    }
}

/// Contents of one quarantine, for a caller that reads it without using it.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) descriptor: OwnedFd,
    pub(super) cells: Vec<Leftover>,
}

impl Contents {
    /// Opens it and reads its contents; the stranded files are a cell of their own.
    pub(super) fn open(root: &Root, name: &[u8]) -> Answer<Self> {
        let descriptor = root.directory(name, OFlags::RDONLY)?;
        let mut cells = Vec::new();
        for cell in names(&descriptor)? {
            if is_room(&cell) {
                continue;
            }
            let mut cell = match Leftover::open(&descriptor, cell) {
                Ok(cell) => cell,
                // Only directories hold users' files; a run may end meanwhile.
                Err(Errno::NOTDIR | Errno::NOENT | Errno::LOOP) => continue,
                Err(errno) => return Err(errno),
            };
            if cell.name == STRANDED {
                cell.files.retain(|name| !name.ends_with(ORIGIN_SUFFIX));
                for file in &cell.files {
                    let noted = origin::read(&cell.directory, &[file, ORIGIN_SUFFIX].concat());
                    let named = noted.into_iter().map(|note| Noted { slot: file.clone(), ..note });
                    cell.origins.extend(named);
                }
            }
            cells.push(cell);
        }
        Ok(Self { descriptor, cells })
    }

    /// Removes a note beside a stranded file that is back.
    fn remove_note(cell: &Leftover, file: &[u8]) {
        if cell.name == STRANDED {
            let _ = unlinkat(&cell.directory, &*[file, ORIGIN_SUFFIX].concat(), AtFlags::empty());
        }
    }

    /// Removes its empty directories.
    pub(super) fn remove(&self, root: &Root, name: &[u8]) {
        for cell in &self.cells {
            if cell.name == STRANDED {
                remove_notes_alone(&cell.directory);
            }
            let rest = names(&cell.directory).unwrap_or_default();
            if rest.iter().all(|name| is_own(name)) {
                for name in rest {
                    let _ = unlinkat(&cell.directory, name, AtFlags::empty());
                }
                let _ = unlinkat(&self.descriptor, &*cell.name, AtFlags::REMOVEDIR);
            }
        }
        let _ = unlinkat(root.descriptor(), name, AtFlags::REMOVEDIR);
    }
}
