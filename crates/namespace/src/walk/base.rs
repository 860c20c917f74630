//! Directories of an earlier index: those that did not change since need not be read again.
//!
//! Names come and go in a directory only with its change time, which no user can set. If a
//! directory's change time is still the same, its entries are therefore those that the earlier scan
//! found, if that read it *after* the moment of the change. Timestamps are coarse (a tick of the
//! kernel, a second), and clocks differ: a change right after the reading may carry the time of the
//! one before it. So a change time counts only if it is older than the beginning of that scan by a
//! margin.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::entry::{Entry, FileType, ObjectId};
use crate::error::{Error, Result};
use crate::index::Part;
use crate::index::column::{Binary, Numbers, Piece};
use crate::index::rows::{name_problem, path_problem};
use crate::index::schema::Name;
use crate::index::shard::{Group, Shard};

/// Which index a scan starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseIndex {
    /// Its identity, checked when a scan goes on.
    pub id: String,
    /// Its shards.
    pub parts: Vec<Part>,
    /// Only directories whose change time is older than this are taken as they were listed, in
    /// nanoseconds since 1970.
    pub before_ns: i64,
    /// Whether directories that seem empty are read all the same: some may have been out of reach
    /// when they were to be read.
    pub empty_again: bool,
}

/// Attributes of a directory that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    id: ObjectId,
    device: u64,
    modification_ns: Option<i64>,
    change_ns: Option<i64>,
    birth_ns: Option<i64>,
}

impl Stamp {
    fn of(entry: &Entry) -> Self {
        let times = &entry.times;
        Self {
            id: entry.id,
            device: entry.device,
            modification_ns: times.modification_ns,
            change_ns: times.change_ns,
            birth_ns: times.birth_ns,
        }
    }
}

/// A directory within another.
#[derive(Debug)]
struct Within {
    name: Box<[u8]>,
    /// `None` where it cannot be compared.
    stamp: Option<Stamp>,
}

/// Entries of a directory.
#[derive(Debug, Default)]
pub struct Listing {
    directories: Vec<Within>,
    /// Names that are no directories.
    others: u64,
}

impl Listing {
    /// The names of directories in it from a place on, in their order.
    pub fn directories_from(&self, place: usize) -> impl Iterator<Item = &[u8]> {
        self.directories.get(place..).unwrap_or_default().iter().map(|within| &*within.name)
    }

    /// How many names in it are no directories.
    pub fn others(&self) -> u64 {
        self.others
    }

    fn stamp(&self, name: &[u8]) -> Option<&Stamp> {
        let place = self.directories.binary_search_by(|within| (*within.name).cmp(name)).ok()?;
        self.directories[place].stamp.as_ref()
    }
}

/// The directories of an earlier index.
#[derive(Debug)]
pub struct Base {
    listings: HashMap<Box<[u8]>, Listing>,
    empty_again: bool,
}

impl Base {
    /// Reads it from the shards of an index.
    pub fn read(index: &BaseIndex) -> Result<Self> {
        let mut reading = Reading { before_ns: index.before_ns, ..Reading::default() };
        for part in &index.parts {
            let shard = Shard::open_source(part)?;
            for number in 0..shard.groups() {
                reading.group(&shard, number)?;
            }
        }
        let mut listings = HashMap::with_capacity(reading.paths.len());
        for (path, place) in reading.paths {
            let mut listing = std::mem::take(&mut reading.listings[place as usize]);
            listing.directories.sort_unstable_by(|one, other| one.name.cmp(&other.name));
            for next in 1..listing.directories.len() {
                if listing.directories[next - 1].name == listing.directories[next].name {
                    // Listed twice while it changed: neither is trusted.
                    listing.directories[next - 1].stamp = None;
                    listing.directories[next].stamp = None;
                }
            }
            listing.directories.dedup_by(|next, kept| next.name == kept.name);
            listings.insert(path, listing);
        }
        Ok(Self { listings, empty_again: index.empty_again })
    }

    /// Entries of a directory; `None` if it had none.
    pub fn listing(&self, path: &[u8]) -> Option<&Listing> {
        self.listings.get(path)
    }

    /// Whether a directory, found in the one that `above` lists, holds the names that it did.
    pub fn holds_the_same(
        &self,
        above: Option<&Listing>,
        parent: &[u8],
        name: &[u8],
        entry: &Entry,
    ) -> bool {
        above.and_then(|listing| listing.stamp(name)) == Some(&Stamp::of(entry))
            && !(self.empty_again && self.is_empty(parent, name))
    }

    fn is_empty(&self, parent: &[u8], name: &[u8]) -> bool {
        let separator: &[u8] = if parent.is_empty() { b"" } else { b"/" };
        !self.listings.contains_key(&*[parent, separator, name].concat())
    }
}

/// Rows read at a time.
const ROWS: usize = 4096;

#[derive(Default)]
struct Reading {
    before_ns: i64,
    paths: HashMap<Box<[u8]>, u32>,
    listings: Vec<Listing>,
}

impl Reading {
    fn group(&mut self, shard: &Shard, number: usize) -> Result<()> {
        let group = shard.group(number);
        let mut superseded = shard.superseded(number).iter().peekable();
        let mut row = shard.first_row(number);
        let mut columns = Columns::open(&group)?;
        let mut left = group.rows;
        while left > 0 {
            let count = left.min(ROWS);
            let batch = columns.read(count, self, shard)?;
            for (place, (listing, is_directory)) in
                batch.listings.iter().zip(&batch.directories).enumerate()
            {
                let gone = superseded.next_if(|gone| u64::from(**gone) == row).is_some();
                row += 1;
                if gone {
                    continue;
                }
                let listing = &mut self.listings[*listing as usize];
                if *is_directory {
                    let name = batch.names[place].as_slice();
                    if let Some(problem) = name_problem(name) {
                        let message = format!("row {} {problem}", row - 1);
                        return Err(Error::data(shard.path(), message));
                    }
                    let stamp = batch.stamp(place);
                    let counts = stamp.change_ns.is_some_and(|change| change < self.before_ns);
                    let stamp = counts.then_some(stamp);
                    listing.directories.push(Within { name: name.into(), stamp });
                } else {
                    listing.others += 1;
                }
            }
            left -= count;
        }
        Ok(())
    }

    /// The number of the listing of a directory.
    fn number(&mut self, path: &[u8]) -> u32 {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        let number = self.listings.len() as u32;
        self.paths.insert(path.into(), number);
        self.listings.push(Listing::default());
        number
    }
}

/// The columns that tell of directories.
struct Columns {
    parent: Binary<u32>,
    name: Binary<Vec<u8>>,
    id: Binary<[u8; 16]>,
    fid: Binary<bool>,
    kind: Binary<bool>,
    device: Numbers<i64>,
    times: [Numbers<Option<i64>>; 3],
}

/// Values of some rows.
#[derive(Default)]
struct Batch {
    listings: Vec<u32>,
    directories: Vec<bool>,
    names: Vec<Vec<u8>>,
    ids: Vec<[u8; 16]>,
    fids: Vec<bool>,
    devices: Vec<i64>,
    times: [Vec<Option<i64>>; 3],
}

impl Batch {
    fn stamp(&self, place: usize) -> Stamp {
        let [modification_ns, change_ns, birth_ns] =
            [0, 1, 2].map(|which: usize| self.times[which][place]);
        Stamp {
            id: ObjectId::of_bytes(self.ids[place], self.fids[place]),
            device: self.devices[place] as u64,
            modification_ns,
            change_ns,
            birth_ns,
        }
    }
}

impl Columns {
    fn open(group: &Group<'_>) -> Result<Self> {
        Ok(Self {
            parent: group.column(Name::Parent, None)?,
            name: group.column(Name::Last, None)?,
            id: group.column(Name::Id, Some([0; 16]))?,
            fid: group.column(Name::IdKind, Some(false))?,
            kind: group.column(Name::Type, Some(false))?,
            device: group.column(Name::Device, Some(0))?,
            times: [
                group.column(Name::Modification, Some(None))?,
                group.column(Name::Change, Some(None))?,
                group.column(Name::Birth, Some(None))?,
            ],
        })
    }

    fn read(&mut self, count: usize, reading: &mut Reading, shard: &Shard) -> Result<Batch> {
        let mut batch = Batch::default();
        let mut problem = None;
        self.parent.read(count, &mut batch.listings, |(page, range): Piece<'_>| {
            let path = &page[range];
            problem = problem.or_else(|| path_problem(path));
            reading.number(path)
        })?;
        if let Some(problem) = problem {
            return Err(Error::data(shard.path(), format!("column parent {problem}")));
        }
        self.kind.read(count, &mut batch.directories, |(page, range): Piece<'_>| {
            let letter = FileType::Directory.letter();
            page[range] == [letter]
        })?;
        if !batch.directories.contains(&true) {
            return self.skip(count).map(|()| batch);
        }
        self.name.read(count, &mut batch.names, |(page, range): Piece<'_>| page[range].to_vec())?;
        self.id.read(count, &mut batch.ids, id_of)?;
        self.fid.read(count, &mut batch.fids, is_fid)?;
        self.device.read(count, &mut batch.devices, |number| number)?;
        for (column, values) in self.times.iter_mut().zip(&mut batch.times) {
            column.read(count, values, Some)?;
        }
        Ok(batch)
    }

    fn skip(&mut self, count: usize) -> Result<()> {
        self.name.skip(count, |_: Piece<'_>| Vec::new())?;
        self.id.skip(count, id_of)?;
        self.fid.skip(count, is_fid)?;
        self.device.skip(count, |number| number)?;
        self.times.iter_mut().try_for_each(|column| column.skip(count, Some))
    }
}

fn id_of((page, range): Piece<'_>) -> [u8; 16] {
    page[range].try_into().unwrap_or_default()
}

fn is_fid((page, range): Piece<'_>) -> bool {
    page[range] == *b"fid"
}

/// The shards of an index that are whole, for tests and examples.
pub fn whole(shards: impl IntoIterator<Item = PathBuf>) -> Vec<Part> {
    shards.into_iter().map(|path| Part { path, superseded: None }).collect()
}
