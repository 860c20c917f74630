//! Whole rows of a shard, in their order.

use std::sync::Arc;

use bytes::Bytes;

use super::column::{Binary, Lists, Numbers};
use super::schema::{Domain, Name};
use super::shard::{Group, Shard};
use super::writer::last_use_s;
use crate::entry::{Entry, FileType, Layout, ObjectId, Times};
use crate::error::{Error, Result};

/// One name of the index and what is known of it.
///
/// Where the source did not know the identity it is `ObjectId::Inode(0)`, which no file has; an
/// unknown device is 0; where it did not know the number of names it is 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its directory, relative to the root; empty for the root.
    pub parent: Bytes,
    /// Its name there.
    pub name: Bytes,
    /// What it stands for.
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
    /// Up to `count` rows; fewer only at the end.
    pub fn read(&mut self, count: usize) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        while rows.len() < count && self.fill()? {
            let Some(columns) = &mut self.columns else { break };
            let taken = columns.left.min(count - rows.len()).min(4096);
            let read = columns.read(taken, &mut rows);
            read.map_err(|(name, problem)| self.shard.unreadable(name, &problem))?;
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

    /// Passes over rows.
    pub(crate) fn skip(&mut self, mut count: usize) -> Result<()> {
        self.next += count as u64;
        while count > 0 && self.fill()? {
            let Some(columns) = &mut self.columns else { break };
            let taken = columns.left.min(count).min(4096);
            let read = columns.read(taken, &mut Vec::new());
            read.map_err(|(name, problem)| self.shard.unreadable(name, &problem))?;
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

/// What is wrong with a name, if it cannot be one.
pub(crate) fn name_problem(name: &[u8]) -> Option<&'static str> {
    match name {
        b"" => Some("has no name"),
        b"." | b".." => Some("has a name that stands for a directory"),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => {
            Some("has a slash or a NUL in its name")
        }
        _ => None,
    }
}

/// What is wrong with the path of a directory, if it cannot be one.
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

/// A number that may be missing.
type Maybe<T> = Option<Numbers<Option<T>>>;

/// The name of a pool, where there is one; the rows that share it share its bytes.
type Pool = Option<Arc<[u8]>>;

/// Every column of a group.
struct Columns {
    left: usize,
    done: usize,
    parent: Binary<Bytes>,
    name: Binary<Bytes>,
    id: Binary<[u8; 16]>,
    fid: Binary<bool>,
    kind: Binary<FileType>,
    device: Numbers<u64>,
    uid: Numbers<u32>,
    gid: Numbers<u32>,
    links: Numbers<u32>,
    size: Numbers<u64>,
    allocated: Numbers<u64>,
    project: Maybe<u32>,
    times: [Numbers<Option<i64>>; 4],
    stripe_count: Maybe<u32>,
    last_use: Maybe<i64>,
    osts: Lists,
    pool: Option<Binary<Pool>>,
}

/// The column that is wrong, and what is.
type Wrong = (Name, String);

impl Columns {
    fn open(group: &Group<'_>) -> Result<Self> {
        let lacking =
            |name| move || Error::Usage(format!("column {} is missing", Name::text(name)));
        let number =
            |name, missing| group.numbers(name, Domain::Small, missing)?.ok_or_else(lacking(name));
        let size = |name, missing| {
            group.numbers(name, Domain::Unsigned, missing)?.ok_or_else(lacking(name))
        };
        let time =
            |name| group.numbers(name, Domain::Signed, Some(None))?.ok_or_else(lacking(name));
        Ok(Self {
            left: group.rows,
            done: 0,
            parent: group.binary(Name::Parent, None)?,
            name: group.binary(Name::Last, None)?,
            id: group.binary(Name::Id, Some([0; 16]))?,
            fid: group.binary(Name::IdKind, Some(false))?,
            kind: group.binary(Name::Type, Some(FileType::Unknown))?,
            device: size(Name::Device, Some(0))?,
            uid: number(Name::Uid, None)?,
            gid: number(Name::Gid, None)?,
            links: number(Name::Links, Some(1))?,
            size: size(Name::Size, None)?,
            allocated: size(Name::Allocated, None)?,
            project: group.numbers(Name::Project, Domain::Small, Some(None))?,
            times: [
                time(Name::Access)?,
                time(Name::Modification)?,
                time(Name::Change)?,
                time(Name::Birth)?,
            ],
            stripe_count: group.numbers(Name::StripeCount, Domain::Small, Some(None))?,
            last_use: group.numbers(Name::LastUse, Domain::Signed, Some(None))?,
            osts: group.osts()?,
            pool: group.binary_or_none(Name::Pool, Some(None))?,
        })
    }

    fn read(&mut self, count: usize, out: &mut Vec<Row>) -> std::result::Result<(), Wrong> {
        let parents = self.parents(count)?;
        let mut names = Vec::new();
        let slice = |page: &Bytes, range| page.slice(range);
        self.name.read(count, &mut names, slice).map_err(of(Name::Last))?;
        let strings = parents.into_iter().zip(names);
        let entries = self.entries(count)?;
        let last_use = optional(&mut self.last_use, count, |number| number, Name::LastUse)?;
        out.extend(strings.zip(entries).enumerate().map(|(row, ((parent, name), entry))| {
            let worked_out = || last_use_s(&entry.times);
            let last_use_s = last_use.as_ref().map_or_else(worked_out, |column| column[row]);
            Row { parent, name, entry, last_use_s }
        }));
        self.left -= count;
        self.done += count;
        Ok(())
    }

    fn parents(&mut self, count: usize) -> std::result::Result<Vec<Bytes>, Wrong> {
        let (mut parents, mut problem) = (Vec::new(), None);
        let slice = |page: &Bytes, range: std::ops::Range<usize>| {
            let parent = page.slice(range);
            problem = problem.or_else(|| path_problem(&parent));
            parent
        };
        self.parent.read(count, &mut parents, slice).map_err(of(Name::Parent))?;
        problem.map_or(Ok(parents), |problem| Err((Name::Parent, problem.into())))
    }

    fn entries(&mut self, count: usize) -> std::result::Result<Vec<Entry>, Wrong> {
        let small = |number: i64| number as u32;
        let bits = |number: i64| number as u64;
        let ids = strings(&mut self.id, count, of_id, Name::Id)?;
        let fids = strings(&mut self.fid, count, |kind| kind == b"fid", Name::IdKind)?;
        let kinds = strings(&mut self.kind, count, of_type, Name::Type)?;
        let devices = numbers(&mut self.device, count, bits, Name::Device)?;
        let uids = numbers(&mut self.uid, count, small, Name::Uid)?;
        let gids = numbers(&mut self.gid, count, small, Name::Gid)?;
        let links = numbers(&mut self.links, count, small, Name::Links)?;
        let sizes = numbers(&mut self.size, count, bits, Name::Size)?;
        let allocated = numbers(&mut self.allocated, count, bits, Name::Allocated)?;
        let projects = optional(&mut self.project, count, small, Name::Project)?;
        let stripes = optional(&mut self.stripe_count, count, small, Name::StripeCount)?;
        let pools = self.pools(count)?;
        let times = self.times(count)?;
        let entry = |row: usize| {
            let osts = self.osts.of(self.done + row);
            let stripe_count = stripes.as_ref().and_then(|column| column[row]);
            let pool = pools.as_ref().and_then(|column| column[row].clone());
            let known = stripe_count.is_some() || osts.is_some() || pool.is_some();
            let layout = known.then(|| Layout {
                // Where only the objects are known, each is taken for a stripe.
                stripe_count: stripe_count.unwrap_or(osts.map_or(0, |osts| osts.len() as u32)),
                osts: osts.unwrap_or(&[]).to_vec(),
                pool,
            });
            Entry {
                id: ObjectId::of_bytes(ids[row], fids[row]),
                device: devices[row],
                uid: uids[row],
                gid: gids[row],
                project: projects.as_ref().and_then(|column| column[row]),
                size_bytes: sizes[row],
                allocated_bytes: allocated[row],
                links: links[row],
                times: times[row],
                kind: kinds[row],
                layout,
            }
        };
        Ok((0..count).map(entry).collect())
    }

    fn pools(&mut self, count: usize) -> std::result::Result<Option<Vec<Pool>>, Wrong> {
        let column = self.pool.as_mut();
        column.map(|column| strings(column, count, of_pool, Name::Pool)).transpose()
    }

    fn times(&mut self, count: usize) -> std::result::Result<Vec<Times>, Wrong> {
        let names = [Name::Access, Name::Modification, Name::Change, Name::Birth];
        let mut read = [const { Vec::new() }; 4];
        for ((column, out), name) in self.times.iter_mut().zip(&mut read).zip(names) {
            column.read(count, out, Some).map_err(of(name))?;
        }
        let [access, modification, change, birth] = read;
        let times = |row: usize| Times {
            access_ns: access[row],
            modification_ns: modification[row],
            change_ns: change[row],
            birth_ns: birth[row],
        };
        Ok((0..count).map(times).collect())
    }
}

fn of(name: Name) -> impl FnOnce(String) -> Wrong {
    move |problem| (name, problem)
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

/// Other tools write an empty name where there is none.
fn of_pool(name: &[u8]) -> Pool {
    (!name.is_empty()).then(|| name.into())
}

fn strings<T: Clone>(
    column: &mut Binary<T>,
    count: usize,
    map: impl Fn(&[u8]) -> T,
    name: Name,
) -> std::result::Result<Vec<T>, Wrong> {
    let mut out = Vec::with_capacity(count);
    column.read(count, &mut out, |page, range| map(&page[range])).map_err(of(name))?;
    Ok(out)
}

fn numbers<T: Clone>(
    column: &mut Numbers<T>,
    count: usize,
    map: impl Fn(i64) -> T,
    name: Name,
) -> std::result::Result<Vec<T>, Wrong> {
    let mut out = Vec::with_capacity(count);
    column.read(count, &mut out, map).map_err(of(name))?;
    Ok(out)
}

fn optional<T: Clone>(
    column: &mut Maybe<T>,
    count: usize,
    map: impl Fn(i64) -> T,
    name: Name,
) -> std::result::Result<Option<Vec<Option<T>>>, Wrong> {
    let Some(column) = column else { return Ok(None) };
    let mut out = Vec::with_capacity(count);
    column.read(count, &mut out, |number| Some(map(number))).map_err(of(name))?;
    Ok(Some(out))
}
