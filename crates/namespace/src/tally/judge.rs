//! The rules over columns: a stretch of rows at a time, and of each column only what the rules ask for.
//!
//! [`Rules::judge`](crate::Rules::judge) is the definition. Here the questions are asked the other way round,
//! last reason first, each over the whole stretch; so the first reason that holds is what remains.

use bytes::Bytes;

use super::Options;
use super::exempt::{Paths, Verdict};
use super::links::Key;
use crate::entry::NS_PER_S;
use crate::error::Result;
use crate::index::Shard;
use crate::index::column::{Binary, Lists, Numbers, Piece, Reader, slice};
use crate::index::packed::{Integers, Kind, Strings};
use crate::index::path_problem;
use crate::index::schema::Name;
use crate::index::shard::Group;
use crate::rules::{Counted, Kept, Rules};

/// Rows judged at a time: their columns stay in the processor's cache.
pub(crate) const STRETCH: usize = 4096;

/// Stands for a time that is not known; no file was used then.
pub(crate) const UNKNOWN: i64 = i64::MIN;

/// Mark in place of a reason: a later shard replaces the row, which does not count.
pub(crate) const SUPERSEDED: u8 = u8::MAX;

/// Flag on a user or a project that is exempt. The number itself has 32 bits.
const EXEMPT: u64 = 1 << 32;

/// Stands for "no project".
const NO_PROJECT: u64 = 1 << 33;

/// The rules with their exemptions laid out for many questions, and further options.
pub(crate) struct Prepared {
    pub(crate) rules: Rules,
    pub(crate) options: Options,
    paths: Paths,
}

impl Prepared {
    pub(crate) fn new(rules: &Rules, options: Options) -> Self {
        let paths = Paths::new(&rules.exempt.lists().paths);
        Self { rules: rules.clone(), options, paths }
    }
}

/// A stretch of rows and the verdict of the rules on each.
#[derive(Default)]
pub(crate) struct Stretch {
    /// Why each is kept, as [`Kept`] numbers it; 0 if it is eligible by its row alone.
    pub(crate) kept: Vec<u8>,
    /// The last use before it is clamped, or [`UNKNOWN`].
    pub(crate) last_use_s: Vec<i64>,
    pub(crate) allocated: Vec<u64>,
    pub(crate) links: Vec<u32>,
    /// The rows that have other links than one, and which object each is, where that is known.
    objects: Vec<(usize, Option<Key>)>,
    uids: Vec<u64>,
    projects: Vec<u64>,
    regular: Vec<bool>,
    flags: Vec<bool>,
    numbers: Vec<u64>,
    times: Vec<i64>,
    verdicts: Vec<Verdict>,
}

impl Stretch {
    /// The owner of a row; only where users were asked for.
    pub(crate) fn uid(&self, row: usize) -> u32 {
        self.uids[row] as u32
    }

    /// Which object a row with other links than one is; `None` where that is not known.
    pub(crate) fn object(&self, row: usize) -> Option<Key> {
        let place = self.objects.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        self.objects[place].1
    }

    /// The project of a row; only where projects were asked for.
    pub(crate) fn project(&self, row: usize) -> Option<u32> {
        let project = self.projects[row];
        (project & NO_PROJECT == 0).then_some(project as u32)
    }
}

/// Gives a reason to the rows whose value in a column is kept.
///
/// Without a branch, so that the processor looks at many rows at once.
fn mark<T: Copy>(kept: &mut [u8], reason: Kept, column: &[T], is_kept: impl Fn(T) -> bool) {
    for (kept, value) in kept.iter_mut().zip(column) {
        *kept = if is_kept(*value) { reason as u8 } else { *kept };
    }
}

/// Where the last use comes from.
enum LastUse {
    /// The index states it, for the usual rule.
    Stated(Box<Numbers<i64>>),
    /// It is the latest of these times.
    Times(Vec<Numbers<i64>>),
}

/// A column that is opened where a stretch first needs it; `done` rows of it were read.
struct Late<K: Kind, T> {
    column: Option<Reader<K, T>>,
    done: usize,
}

/// Judges a group of rows, stretch by stretch.
pub(crate) struct Judge<'a> {
    prepared: &'a Prepared,
    group: Group<'a>,
    /// The rows of the group that count no more, numbered within the shard from `first`.
    superseded: &'a [u32],
    first: u64,
    done: usize,
    kinds: Binary<bool>,
    allocated: Numbers<u64>,
    links: Numbers<u32>,
    last_use: LastUse,
    parents: Option<Binary<Verdict>>,
    uids: Option<Numbers<u64>>,
    gids: Option<Numbers<bool>>,
    projects: Option<Numbers<u64>>,
    sizes: Option<Numbers<u64>>,
    names: Late<Strings, Bytes>,
    devices: Late<Integers, u64>,
    ids: Late<Strings, [u8; 16]>,
    lists: Option<Lists>,
}

impl<'a> Judge<'a> {
    pub(crate) fn open(prepared: &'a Prepared, shard: &'a Shard, number: usize) -> Result<Self> {
        let group = shard.group(number);
        let (rules, options) = (&prepared.rules, prepared.options);
        let exempt = rules.exempt.lists();
        let users = options.users || !exempt.users.is_empty();
        let projects = options.projects || rules.exempt.exempts_projects();
        let small = |asked: bool, name: Name| asked.then(|| group.column(name, None)).transpose();
        let gids = || group.column(Name::Gid, None);
        let projects = projects.then(|| group.column_if_any(Name::Project, Some(NO_PROJECT)));
        let sizes = rules.minimum_size_bytes > 0;
        Ok(Self {
            kinds: group.column(Name::Type, Some(false))?,
            allocated: group.column(Name::Allocated, None)?,
            links: group.column(Name::Links, Some(1))?,
            last_use: LastUse::open(&group, rules.counted)?,
            parents: (!prepared.paths.is_empty())
                .then(|| group.column(Name::Parent, None))
                .transpose()?,
            uids: small(users, Name::Uid)?,
            gids: (!exempt.groups.is_empty()).then(gids).transpose()?,
            projects: projects.transpose()?.flatten(),
            sizes: small(sizes, Name::Size)?,
            names: Late::new(),
            devices: Late::new(),
            ids: Late::new(),
            lists: options.osts.then(|| group.osts()).transpose()?,
            prepared,
            done: 0,
            superseded: shard.superseded(number),
            first: shard.first_row(number),
            group,
        })
    }

    /// The OSTs of a row of the stretch that was judged last; `None` where that is not known.
    pub(crate) fn osts(&self, stretch: &Stretch, row: usize) -> Option<&[u32]> {
        let first = self.done - stretch.kept.len();
        self.lists.as_ref().and_then(|lists| lists.of(first + row))
    }

    /// Judges the next stretch; says whether there was one.
    pub(crate) fn next(&mut self, stretch: &mut Stretch) -> Result<bool> {
        let rows = STRETCH.min(self.group.rows - self.done);
        if rows == 0 {
            return Ok(false);
        }
        self.read(rows, stretch)?;
        let rules = &self.prepared.rules;
        stretch.kept.clear();
        stretch.kept.resize(rows, 0);
        let (as_of_s, before_s) = (rules.as_of_s, rules.old_enough_before_s);
        let (kept, last_use_s) = (&mut stretch.kept, &stretch.last_use_s);
        mark(kept, Kept::TooYoung, last_use_s, |time| time.min(as_of_s) >= before_s);
        mark(kept, Kept::TimeUnknown, last_use_s, |time| time == UNKNOWN);
        self.judge_sizes(rows, stretch)?;
        if !rules.linked {
            mark(&mut stretch.kept, Kept::OtherLinks, &stretch.links, |links| links != 1);
        }
        self.judge_owners(rows, stretch)?;
        self.judge_paths(rows, stretch)?;
        mark(&mut stretch.kept, Kept::NotRegular, &stretch.regular, |is_regular| !is_regular);
        self.identify(rows, stretch)?;
        for row in self.superseded_rows(rows) {
            stretch.kept[row] = SUPERSEDED;
        }
        self.done += rows;
        Ok(true)
    }

    /// The rows of the next stretch that later shards replace.
    fn superseded_rows(&self, rows: usize) -> impl Iterator<Item = usize> + use<'a> {
        let start = self.first + self.done as u64;
        let place = |row| self.superseded.partition_point(|gone| u64::from(*gone) < row);
        let gone = &self.superseded[place(start)..place(start + rows as u64)];
        // Less than a stretch.
        gone.iter().map(move |row| (u64::from(*row) - start) as usize)
    }

    fn read(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        stretch.regular.clear();
        let is_regular = |(page, range): Piece<'_>| &page[range] == b"f";
        self.kinds.read(rows, &mut stretch.regular, is_regular)?;
        stretch.allocated.clear();
        self.allocated.read(rows, &mut stretch.allocated, |n| n as u64)?;
        stretch.links.clear();
        self.links.read(rows, &mut stretch.links, |n| n as u32)?;
        stretch.last_use_s.clear();
        self.last_use.read(rows, &mut stretch.last_use_s, &mut stretch.times)?;
        for row in self.superseded_rows(rows) {
            (stretch.allocated[row], stretch.regular[row]) = (0, false);
        }
        Ok(())
    }

    fn judge_sizes(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let Some(sizes) = &mut self.sizes else { return Ok(()) };
        stretch.numbers.clear();
        sizes.read(rows, &mut stretch.numbers, |n| n as u64)?;
        let minimum = self.prepared.rules.minimum_size_bytes;
        mark(&mut stretch.kept, Kept::TooSmall, &stretch.numbers, |size| size < minimum);
        Ok(())
    }

    fn judge_owners(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let exempt = &self.prepared.rules.exempt;
        let marked = |id: i64, is_exempt: bool| id as u64 | if is_exempt { EXEMPT } else { 0 };
        stretch.projects.clear();
        if let Some(projects) = &mut self.projects {
            let map = |id| marked(id, exempt.has_project(id as u32));
            projects.read(rows, &mut stretch.projects, map)?;
        } else {
            stretch.projects.resize(rows, NO_PROJECT);
        }
        if exempt.exempts_projects() {
            let (kept, projects) = (&mut stretch.kept, &stretch.projects);
            mark(kept, Kept::ProjectUnknown, projects, |id| id == NO_PROJECT);
            mark(kept, Kept::ExemptProject, projects, |id| id & EXEMPT != 0);
        }
        if let Some(gids) = &mut self.gids {
            stretch.flags.clear();
            let map = |id| exempt.has_group(id as u32);
            gids.read(rows, &mut stretch.flags, map)?;
            mark(&mut stretch.kept, Kept::ExemptGroup, &stretch.flags, |is_exempt| is_exempt);
        }
        stretch.uids.clear();
        if let Some(uids) = &mut self.uids {
            let map = |id| marked(id, exempt.has_user(id as u32));
            uids.read(rows, &mut stretch.uids, map)?;
            mark(&mut stretch.kept, Kept::ExemptUser, &stretch.uids, |id| id & EXEMPT != 0);
        } else {
            stretch.uids.resize(rows, 0);
        }
        Ok(())
    }

    fn judge_paths(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let Some(parents) = &mut self.parents else { return Ok(()) };
        let (paths, mut wrong) = (&self.prepared.paths, None);
        stretch.verdicts.clear();
        parents.read(rows, &mut stretch.verdicts, |(page, range): Piece<'_>| {
            wrong = wrong.or_else(|| path_problem(&page[range.clone()]));
            paths.of_directory(&page[range])
        })?;
        if let Some(wrong) = wrong {
            return Err(parents.unreadable(wrong));
        }
        let (kept, verdicts) = (&mut stretch.kept, &stretch.verdicts);
        mark(kept, Kept::ExemptPath, verdicts, |verdict| verdict == Verdict::Exempt);
        for row in 0..rows {
            if let Verdict::Names(list) = stretch.verdicts[row] {
                let (row_of_group, group) = (self.done + row, &self.group);
                let open = || group.column(Name::Last, None);
                if paths.is_named(list, &self.names.value(row_of_group, open, slice)?) {
                    stretch.kept[row] = Kept::ExemptPath as u8;
                }
            }
        }
        Ok(())
    }

    /// Finds out which objects those rows are that may have other names.
    fn identify(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        stretch.objects.clear();
        for row in 0..rows {
            if stretch.regular[row] && stretch.links[row] != 1 {
                let (row_of_group, group) = (self.done + row, &self.group);
                let open = || group.column(Name::Device, Some(0));
                let device = self.devices.value(row_of_group, open, |number| number as u64)?;
                let open = || group.column(Name::Id, Some([0; 16]));
                let id = |(page, range): Piece<'_>| page[range].try_into().unwrap_or_default();
                let id = self.ids.value(row_of_group, open, id)?;
                // An unknown identity belongs to no file.
                stretch.objects.push((row, (id != [0; 16]).then_some((device, id))));
            }
        }
        Ok(())
    }
}

impl<K: Kind, T: Clone + Default> Late<K, T> {
    fn new() -> Self {
        Self { column: None, done: 0 }
    }

    /// The value of a row of the group, in the order of the rows; opens the column for the first.
    fn value<M>(
        &mut self,
        row: usize,
        open: impl FnOnce() -> Result<Reader<K, T>>,
        map: M,
    ) -> Result<T>
    where
        M: for<'a> FnMut(K::Item<'a>) -> T + Copy,
    {
        let column = match self.column.take() {
            Some(column) => column,
            None => open()?,
        };
        let column = self.column.insert(column);
        let mut value = Vec::with_capacity(1);
        column.skip(row - self.done, map)?;
        column.read(1, &mut value, map)?;
        self.done = row + 1;
        Ok(value.pop().unwrap_or_default())
    }
}

impl LastUse {
    fn open(group: &Group<'_>, counted: Counted) -> Result<Self> {
        if counted == Counted::ALL {
            if let Some(stated) = group.column_if_any(Name::LastUse, Some(UNKNOWN))? {
                return Ok(Self::Stated(Box::new(stated)));
            }
        }
        let mut times = Vec::new();
        for (counts, name) in [
            (counted.access, Name::Access),
            (counted.modification, Name::Modification),
            (counted.change, Name::Change),
        ] {
            if counts {
                times.push(group.column(name, Some(UNKNOWN))?);
            }
        }
        Ok(Self::Times(times))
    }

    fn read(&mut self, rows: usize, out: &mut Vec<i64>, scratch: &mut Vec<i64>) -> Result<()> {
        let times = match self {
            Self::Stated(stated) => return stated.read(rows, out, |seconds| seconds),
            Self::Times(times) => times,
        };
        for (place, column) in times.iter_mut().enumerate() {
            scratch.clear();
            column.read(rows, scratch, |time_ns| time_ns)?;
            if place == 0 {
                out.extend_from_slice(scratch);
                continue;
            }
            for (last, time) in out.iter_mut().zip(scratch.iter()) {
                *last =
                    if *last == UNKNOWN || *time == UNKNOWN { UNKNOWN } else { (*last).max(*time) };
            }
        }
        // Where no time counts, none is known.
        out.resize(rows, UNKNOWN);
        for last in out.iter_mut().filter(|last| **last != UNKNOWN) {
            *last = last.div_euclid(NS_PER_S);
        }
        Ok(())
    }
}
