//! Whole rows of a shard, in their order.

use std::sync::Arc;

use bytes::Bytes;

use super::column::{Binary, Lists, Numbers, Piece, slice};
use super::schema::{self, Access, COLUMNS, Name, Presence};
use super::shard::{Group, Shard};
use super::writer::last_use_s;
use crate::entry::{Entry, FileType, Layout, ObjectId};
use crate::error::{Error, Result};

/// One name of the index and its metadata.
///
/// Where the source did not know the identity it is `ObjectId::Inode(0)`, which no file has; an
/// unknown device is 0; where it did not know the number of names it is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its directory, relative to the root; empty for the root.
    pub parent: Bytes,
    /// Its name there.
    pub name: Bytes,
    /// Its metadata.
    pub entry: Entry,
    /// The last use that the index states; in a list of candidates it is the one by the rules.
    pub last_use_s: Option<i64>,
}

/// Reads rows one after another.
pub struct Rows {
    shard: Shard,
    group: usize,
    columns: Option<Columns>,
    /// The number of the next row, for messages.
    next: u64,
}

impl Shard {
    /// Begins to read at a row.
    pub fn rows_from(&self, first: u64) -> Result<Rows> {
        let mut rows = Rows { shard: self.clone(), group: 0, columns: None, next: 0 };
        let mut skipped = first;
        while rows.group < self.groups() {
            let length = self.group(rows.group).rows as u64;
            if skipped < length {
                rows.next = first - skipped;
                // Less than a group.
                rows.skip(skipped as usize)?;
                return Ok(rows);
            }
            skipped -= length;
            rows.group += 1;
        }
        Ok(rows)
    }
}

impl Rows {
    /// Reads up to `count` rows; fewer only at the end.
    pub fn read(&mut self, count: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while rows.len() < count && self.fill()? {
            let Some(columns) = &mut self.columns else { break };
            let taken = columns.left.min(count - rows.len()).min(4096);
            columns.read(taken, &mut rows)?;
        }
        for (place, row) in rows.iter().enumerate() {
            if let Some(problem) = name_problem(&row.name) {
                let number = self.next + place as u64;
                return Err(Error::data(self.shard.path(), format!("row {number} {problem}")));
            }
        }
        self.next += rows.len() as u64;
        Ok(rows)
    }

    pub(crate) fn skip(&mut self, mut count: usize) -> Result<()> {
        self.next += count as u64;
        while count > 0 && self.fill()? {
            let Some(columns) = &mut self.columns else { break };
            let taken = columns.left.min(count).min(4096);
            columns.read(taken, &mut Vec::new())?;
            count -= taken;
        }
        Ok(())
    }

    /// Opens the next group where this one is done; says whether there is a row.
    fn fill(&mut self) -> Result<bool> {
        while self.columns.as_ref().is_none_or(|columns| columns.left == 0) {
            if self.group == self.shard.groups() {
                return Ok(false);
            }
            self.columns = Some(Columns::open(&self.shard.group(self.group))?);
            self.group += 1;
        }
        Ok(true)
    }
}

/// The problem with a name; `None` if it is valid.
pub(crate) fn name_problem(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("has no name"),
        b"." | b".." => Some("has a name that refers to a directory"),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => {
            Some("has a slash or a NUL in its name")
        }
        _ => None,
    }
}

/// The problem with the path of a directory; `None` if it is valid.
///
/// A path that can be written in two ways would slip past an exemption that is written in one.
pub fn path_problem(parent: &[u8]) -> Option<&'static str> {
    if parent.is_empty() {
        return None;
    }
    let bad = |part: &[u8]| matches!(part, b"" | b"." | b"..") || part.contains(&0);
    parent
        .split(|byte| *byte == b'/')
        .any(bad)
        .then_some("holds a path with an empty part, a dot or a NUL")
}

/// A column that is read into the entries, unless the file lacks it.
type Maybe<A, C> = Vec<(&'static A, Option<C>)>;

/// Every column of a group.
struct Columns {
    left: usize,
    done: usize,
    parent: Binary<Bytes>,
    name: Binary<Bytes>,
    id: Binary<[u8; 16]>,
    fid: Binary<bool>,
    kind: Binary<FileType>,
    last_use: Option<Numbers<Option<i64>>>,
    osts: Lists,
    numbers: Maybe<schema::Number, Numbers<Option<i64>>>,
    shared: Maybe<schema::Shared, Binary<Option<Arc<[u8]>>>>,
}

impl Columns {
    fn open(group: &Group<'_>) -> Result<Self> {
        let (mut numbers, mut shared) = (Vec::new(), Vec::new());
        for column in &COLUMNS {
            let name = column.id;
            match &column.access {
                Access::Number(number) => {
                    let missing = match column.presence {
                        Presence::Required => None,
                        Presence::StandIn(number) => Some(Some(number)),
                        Presence::Nullable => Some(None),
                    };
                    numbers.push((number, group.column_if_any(name, missing)?));
                }
                Access::Shared(bytes) => {
                    shared.push((bytes, group.column_if_any(name, Some(None))?));
                }
                Access::Own => {}
            }
        }
        Ok(Self {
            left: group.rows,
            done: 0,
            parent: group.column(Name::Parent, None)?,
            name: group.column(Name::Last, None)?,
            id: group.column(Name::Id, Some([0; 16]))?,
            fid: group.column(Name::IdKind, Some(false))?,
            kind: group.column(Name::Type, Some(FileType::Unknown))?,
            last_use: group.column_if_any(Name::LastUse, Some(None))?,
            osts: group.osts()?,
            numbers,
            shared,
        })
    }

    fn read(&mut self, count: usize, out: &mut Vec<Row>) -> Result<()> {
        let parents = self.parents(count)?;
        let mut names = Vec::new();
        self.name.read(count, &mut names, slice)?;
        let strings = parents.into_iter().zip(names);
        let entries = self.entries(count)?;
        let last_use = self.last_use.as_mut().map(|column| numbers(column, count)).transpose()?;
        out.extend(strings.zip(entries).enumerate().map(|(row, ((parent, name), entry))| {
            let worked_out = || last_use_s(&entry.times);
            let last_use_s = last_use.as_ref().map_or_else(worked_out, |column| column[row]);
            Row { parent, name, entry, last_use_s }
        }));
        self.left -= count;
        self.done += count;
        Ok(())
    }

    fn parents(&mut self, count: usize) -> Result<Vec<Bytes>> {
        let (mut parents, mut problem) = (Vec::new(), None);
        self.parent.read(count, &mut parents, |piece: Piece<'_>| {
            let parent = slice(piece);
            problem = problem.or_else(|| path_problem(&parent));
            parent
        })?;
        problem.map_or(Ok(parents), |problem| Err(self.parent.unreadable(problem)))
    }

    fn entries(&mut self, count: usize) -> Result<Vec<Entry>> {
        let ids = strings(&mut self.id, count, of_id)?;
        let fids = strings(&mut self.fid, count, |kind| kind == b"fid")?;
        let kinds = strings(&mut self.kind, count, of_type)?;
        let entry = |row: usize| Entry {
            id: ObjectId::of_bytes(ids[row], fids[row]),
            kind: kinds[row],
            layout: self.osts.of(self.done + row).map(|osts| Layout {
                // Where only the objects are known, each is taken for a stripe.
                stripe_count: osts.len() as u32,
                osts: osts.to_vec(),
                pool: None,
            }),
            ..Entry::default()
        };
        let mut entries: Vec<Entry> = (0..count).map(entry).collect();
        for (number, column) in &mut self.numbers {
            let Some(column) = column else { continue };
            for (entry, value) in entries.iter_mut().zip(numbers(column, count)?) {
                value.into_iter().for_each(|value| (number.set)(entry, value));
            }
        }
        for (bytes, column) in &mut self.shared {
            let Some(column) = column else { continue };
            for (entry, value) in entries.iter_mut().zip(strings(column, count, of_shared)?) {
                value.into_iter().for_each(|value| (bytes.set)(entry, value));
            }
        }
        Ok(entries)
    }
}

fn of_id(bytes: &[u8]) -> [u8; 16] {
    // Another length cannot be an identity of either kind: it is not known then.
    bytes.try_into().unwrap_or_default()
}

fn of_type(letter: &[u8]) -> FileType {
    match letter {
        [letter] => FileType::of_letter(*letter),
        _ => FileType::Unknown,
    }
}

/// Other tools write an empty string for a missing value.
fn of_shared(bytes: &[u8]) -> Option<Arc<[u8]>> {
    (!bytes.is_empty()).then(|| bytes.into())
}

fn strings<T: Clone>(
    column: &mut Binary<T>,
    count: usize,
    map: impl Fn(&[u8]) -> T,
) -> Result<Vec<T>> {
    let mut out = Vec::with_capacity(count);
    column.read(count, &mut out, |(page, range): Piece<'_>| map(&page[range]))?;
    Ok(out)
}

fn numbers(column: &mut Numbers<Option<i64>>, count: usize) -> Result<Vec<Option<i64>>> {
    let mut out = Vec::with_capacity(count);
    column.read(count, &mut out, Some)?;
    Ok(out)
}
