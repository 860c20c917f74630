//! The rules over columns: a stretch of rows at a time, and of each column only what the rules ask for.
//!
//! [`Rules::judge`](crate::Rules::judge) is the definition. Here the questions are asked the other way round,
//! last reason first, each over the whole stretch; so the first reason that holds is what remains.

use std::ops::Range;

use bytes::Bytes;

use super::Options;
use super::exempt::{Paths, Verdict};
use super::links::Key;
use crate::entry::NS_PER_S;
use crate::error::{Error, Result};
use crate::index::Shard;
use crate::index::column::{Binary, Lists, Numbers};
use crate::index::rows::parent_problem;
use crate::index::schema::{Domain, Name};
use crate::index::shard::Group;
use crate::rules::{Counted, Kept, Rules};

/// So many rows at a time: their columns stay in the processor's cache.
pub(crate) const STRETCH: usize = 4096;

/// Stands for a time that is not known; no file was used then.
pub(crate) const UNKNOWN: i64 = i64::MIN;

/// On a user or a project: it is exempt. The number itself has 32 bits.
const EXEMPT: u64 = 1 << 32;

/// Stands for "no project".
const NO_PROJECT: u64 = 1 << 33;

/// The rules with their exemptions laid out for many questions, and what is asked besides.
pub(crate) struct Prepared {
    pub(crate) rules: Rules,
    pub(crate) options: Options,
    paths: Paths,
}

impl Prepared {
    pub(crate) fn new(rules: &Rules, options: Options) -> Self {
        let mut rules = rules.clone();
        for ids in [&mut rules.exempt_users, &mut rules.exempt_groups, &mut rules.exempt_projects] {
            ids.sort_unstable();
            ids.dedup();
        }
        let paths = Paths::new(&rules.exempt_paths);
        Self { rules, options, paths }
    }
}

/// A stretch of rows and what the rules say of each.
#[derive(Default)]
pub(crate) struct Stretch {
    /// Why each is kept, as [`Kept`] numbers it; 0 where it is eligible as far as its row tells.
    pub(crate) kept: Vec<u8>,
    /// The last use before it is clamped, or [`UNKNOWN`].
    pub(crate) last_use_s: Vec<i64>,
    pub(crate) allocated: Vec<u64>,
    pub(crate) links: Vec<u32>,
    /// Which object it is, where some row of the stretch has other links than one; else empty.
    pub(crate) objects: Vec<Option<Key>>,
    uids: Vec<u64>,
    projects: Vec<u64>,
    regular: Vec<bool>,
    flags: Vec<bool>,
    numbers: Vec<u64>,
    times: Vec<i64>,
    verdicts: Vec<Verdict>,
    names: Vec<Bytes>,
    ids: Vec<[u8; 16]>,
}

impl Stretch {
    /// The owner of a row; only where users were asked for.
    pub(crate) fn uid(&self, row: usize) -> u32 {
        self.uids[row] as u32
    }

    /// The project of a row; only where projects were asked for.
    pub(crate) fn project(&self, row: usize) -> Option<u32> {
        let project = self.projects[row];
        (project & NO_PROJECT == 0).then_some(project as u32)
    }

    fn keep(&mut self, reason: Kept, is_kept: impl Fn(&Self, usize) -> bool) {
        let mut kept = std::mem::take(&mut self.kept);
        for (row, kept) in kept.iter_mut().enumerate() {
            if is_kept(self, row) {
                *kept = reason as u8;
            }
        }
        self.kept = kept;
    }
}

/// Where the last use comes from.
enum LastUse {
    /// The index states it, for the usual rule.
    Stated(Numbers<i64>),
    /// It is the latest of these times.
    Times(Vec<(Name, Numbers<i64>)>),
}

/// A column that is opened where a stretch first needs it; `done` rows of it were read.
struct Late<C> {
    column: Option<C>,
    done: usize,
}

/// Judges a group of rows, stretch by stretch.
pub(crate) struct Judge<'a> {
    prepared: &'a Prepared,
    shard: &'a Shard,
    group: Group<'a>,
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
    names: Late<Binary<Bytes>>,
    devices: Late<Numbers<u64>>,
    ids: Late<Binary<[u8; 16]>>,
    lists: Option<Lists>,
}

impl<'a> Judge<'a> {
    pub(crate) fn open(prepared: &'a Prepared, shard: &'a Shard, number: usize) -> Result<Self> {
        let group = shard.group(number);
        let (rules, options) = (&prepared.rules, prepared.options);
        let lacks = |name: Name| move || shard.unreadable(name, "is missing");
        let users = options.users || !rules.exempt_users.is_empty();
        let projects = options.projects || !rules.exempt_projects.is_empty();
        let numbers =
            |name: Name, domain| group.numbers(name, domain, None)?.ok_or_else(lacks(name));
        let small =
            |asked: bool, name: Name| asked.then(|| numbers(name, Domain::Small)).transpose();
        let gids = || group.numbers(Name::Gid, Domain::Small, None)?.ok_or_else(lacks(Name::Gid));
        let projects =
            projects.then(|| group.numbers(Name::Project, Domain::Small, Some(NO_PROJECT)));
        let sizes = rules.minimum_size_bytes > 0;
        Ok(Self {
            kinds: group.binary(Name::Type, Some(false))?,
            allocated: numbers(Name::Allocated, Domain::Unsigned)?,
            links: group
                .numbers(Name::Links, Domain::Small, Some(1))?
                .ok_or_else(lacks(Name::Links))?,
            last_use: LastUse::open(&group, rules.counted, shard)?,
            parents: (!prepared.paths.is_empty())
                .then(|| group.binary(Name::Parent, None))
                .transpose()?,
            uids: small(users, Name::Uid)?,
            gids: (!rules.exempt_groups.is_empty()).then(gids).transpose()?,
            projects: projects.transpose()?.flatten(),
            sizes: sizes.then(|| numbers(Name::Size, Domain::Unsigned)).transpose()?,
            names: Late { column: None, done: 0 },
            devices: Late { column: None, done: 0 },
            ids: Late { column: None, done: 0 },
            lists: options.osts.then(|| group.osts()).transpose()?,
            prepared,
            shard,
            done: 0,
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
        stretch.keep(Kept::TooYoung, |all, row| all.last_use_s[row].min(as_of_s) >= before_s);
        stretch.keep(Kept::TimeUnknown, |all, row| all.last_use_s[row] == UNKNOWN);
        self.judge_sizes(rows, stretch)?;
        if !rules.linked {
            stretch.keep(Kept::OtherLinks, |all, row| all.links[row] != 1);
        }
        self.judge_owners(rows, stretch)?;
        self.judge_paths(rows, stretch)?;
        stretch.keep(Kept::NotRegular, |all, row| !all.regular[row]);
        self.identify(rows, stretch)?;
        self.done += rows;
        Ok(true)
    }

    fn read(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let shard = self.shard;
        let failed = |name: Name| move |problem: String| shard.unreadable(name, &problem);
        stretch.regular.clear();
        let is_regular = |page: &Bytes, range: Range<usize>| &page[range] == b"f";
        self.kinds.read(rows, &mut stretch.regular, is_regular).map_err(failed(Name::Type))?;
        stretch.allocated.clear();
        let allocated = &mut stretch.allocated;
        self.allocated.read(rows, allocated, |n| n as u64).map_err(failed(Name::Allocated))?;
        stretch.links.clear();
        self.links.read(rows, &mut stretch.links, |n| n as u32).map_err(failed(Name::Links))?;
        stretch.last_use_s.clear();
        self.last_use
            .read(rows, &mut stretch.last_use_s, &mut stretch.times)
            .map_err(|(name, problem)| shard.unreadable(name, &problem))
    }

    fn judge_sizes(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let Some(sizes) = &mut self.sizes else { return Ok(()) };
        stretch.numbers.clear();
        sizes
            .read(rows, &mut stretch.numbers, |n| n as u64)
            .map_err(|problem| self.shard.unreadable(Name::Size, &problem))?;
        let minimum = self.prepared.rules.minimum_size_bytes;
        stretch.keep(Kept::TooSmall, |all, row| all.numbers[row] < minimum);
        Ok(())
    }

    fn judge_owners(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let (rules, shard) = (&self.prepared.rules, self.shard);
        let failed = |name: Name| move |problem: String| shard.unreadable(name, &problem);
        let among = |sorted: &[u32], id: i64| sorted.binary_search(&(id as u32)).is_ok();
        let marked =
            |sorted: &[u32], id: i64| id as u64 | if among(sorted, id) { EXEMPT } else { 0 };
        stretch.projects.clear();
        if let Some(projects) = &mut self.projects {
            let map = |id| marked(&rules.exempt_projects, id);
            projects.read(rows, &mut stretch.projects, map).map_err(failed(Name::Project))?;
            stretch.keep(Kept::ExemptProject, |all, row| all.projects[row] & EXEMPT != 0);
        } else {
            stretch.projects.resize(rows, NO_PROJECT);
        }
        if let Some(gids) = &mut self.gids {
            stretch.flags.clear();
            let map = |id| among(&rules.exempt_groups, id);
            gids.read(rows, &mut stretch.flags, map).map_err(failed(Name::Gid))?;
            stretch.keep(Kept::ExemptGroup, |all, row| all.flags[row]);
        }
        stretch.uids.clear();
        if let Some(uids) = &mut self.uids {
            let map = |id| marked(&rules.exempt_users, id);
            uids.read(rows, &mut stretch.uids, map).map_err(failed(Name::Uid))?;
            stretch.keep(Kept::ExemptUser, |all, row| all.uids[row] & EXEMPT != 0);
        } else {
            stretch.uids.resize(rows, 0);
        }
        Ok(())
    }

    fn judge_paths(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let Some(parents) = &mut self.parents else { return Ok(()) };
        let (paths, mut wrong) = (&self.prepared.paths, None);
        stretch.verdicts.clear();
        let map = |page: &Bytes, range: Range<usize>| {
            wrong = wrong.or_else(|| parent_problem(&page[range.clone()]));
            paths.of_directory(&page[range])
        };
        let read = parents.read(rows, &mut stretch.verdicts, map);
        let read = read.and_then(|()| wrong.map_or(Ok(()), |wrong| Err(wrong.into())));
        read.map_err(|problem: String| self.shard.unreadable(Name::Parent, &problem))?;
        stretch.keep(Kept::ExemptPath, |all, row| all.verdicts[row] == Verdict::Exempt);
        if stretch.verdicts.iter().any(|verdict| matches!(verdict, Verdict::Names(_))) {
            self.read_names(rows, stretch)?;
            stretch.keep(Kept::ExemptPath, |all, row| match all.verdicts[row] {
                Verdict::Names(list) => paths.is_named(list, &all.names[row]),
                Verdict::Exempt | Verdict::Not => false,
            });
        }
        Ok(())
    }

    fn read_names(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let names = &mut self.names;
        if names.column.is_none() {
            names.column = Some(self.group.binary(Name::Name, None)?);
        }
        let Some(column) = &mut names.column else { return Ok(()) };
        let lag = self.done - names.done;
        names.done = self.done + rows;
        let mut read = |rows, out: &mut Vec<Bytes>| {
            out.clear();
            column
                .read(rows, out, |page, range| page.slice(range))
                .map_err(|problem| self.shard.unreadable(Name::Name, &problem))
        };
        pieces(lag, |piece| read(piece, &mut stretch.names))?;
        read(rows, &mut stretch.names)
    }

    /// Finds out which objects the rows are, where one of them may have another name.
    fn identify(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        stretch.objects.clear();
        let several = |row: usize| stretch.regular[row] && stretch.links[row] != 1;
        if !(0..rows).any(several) {
            return Ok(());
        }
        self.read_ids(rows, stretch)?;
        self.read_devices(rows, stretch)?;
        // An identity that is not known is nobody's.
        let known = |(device, id): (&u64, &[u8; 16])| (*id != [0; 16]).then_some((*device, *id));
        stretch.objects.extend(stretch.numbers.iter().zip(&stretch.ids).map(known));
        Ok(())
    }

    fn read_ids(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let ids = &mut self.ids;
        if ids.column.is_none() {
            ids.column = Some(self.group.binary(Name::Id, Some([0; 16]))?);
        }
        let Some(column) = &mut ids.column else { return Ok(()) };
        let lag = self.done - ids.done;
        ids.done = self.done + rows;
        let mut read = |rows, out: &mut Vec<[u8; 16]>| {
            out.clear();
            column
                .read(rows, out, |page, range| page[range].try_into().unwrap_or_default())
                .map_err(|problem| self.shard.unreadable(Name::Id, &problem))
        };
        pieces(lag, |piece| read(piece, &mut stretch.ids))?;
        read(rows, &mut stretch.ids)
    }

    fn read_devices(&mut self, rows: usize, stretch: &mut Stretch) -> Result<()> {
        let devices = &mut self.devices;
        if devices.column.is_none() {
            devices.column = self.group.numbers(Name::Device, Domain::Unsigned, Some(0))?;
        }
        let Some(column) = &mut devices.column else {
            return Err(self.shard.unreadable(Name::Device, "is missing"));
        };
        let lag = self.done - devices.done;
        devices.done = self.done + rows;
        let mut read = |rows, out: &mut Vec<u64>| {
            out.clear();
            column
                .read(rows, out, |number| number as u64)
                .map_err(|problem| self.shard.unreadable(Name::Device, &problem))
        };
        pieces(lag, |piece| read(piece, &mut stretch.numbers))?;
        read(rows, &mut stretch.numbers)
    }
}

/// Goes over `rows` in pieces of at most a stretch.
fn pieces(mut rows: usize, mut each: impl FnMut(usize) -> Result<()>) -> Result<()> {
    while rows > 0 {
        let piece = rows.min(STRETCH);
        each(piece)?;
        rows -= piece;
    }
    Ok(())
}

impl LastUse {
    fn open(group: &Group<'_>, counted: Counted, shard: &Shard) -> Result<Self> {
        if counted == Counted::ALL {
            if let Some(stated) = group.numbers(Name::LastUse, Domain::Signed, Some(UNKNOWN))? {
                return Ok(Self::Stated(stated));
            }
        }
        let mut times = Vec::new();
        for (counts, name) in [
            (counted.access, Name::Access),
            (counted.modification, Name::Modification),
            (counted.change, Name::Change),
        ] {
            if counts {
                let column = group.numbers(name, Domain::Signed, Some(UNKNOWN))?;
                let lacks = || -> Error { shard.unreadable(name, "is missing") };
                times.push((name, column.ok_or_else(lacks)?));
            }
        }
        Ok(Self::Times(times))
    }

    fn read(
        &mut self,
        rows: usize,
        out: &mut Vec<i64>,
        scratch: &mut Vec<i64>,
    ) -> std::result::Result<(), (Name, String)> {
        let times = match self {
            Self::Stated(stated) => {
                return stated
                    .read(rows, out, |seconds| seconds)
                    .map_err(|problem| (Name::LastUse, problem));
            }
            Self::Times(times) => times,
        };
        for (place, (name, column)) in times.iter_mut().enumerate() {
            scratch.clear();
            let read = column.read(rows, scratch, |time_ns| time_ns);
            read.map_err(|problem| (*name, problem))?;
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
