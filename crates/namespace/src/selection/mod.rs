//! The candidates of a cut-off: whole rows, the least recently used first, in bounded memory.
//!
//! ```text
//!   shards ──▶ judge ──▶ rows under the cut-off ──▶ sorted runs on disk ──▶ merged ──▶ candidates
//! ```
//! The columns alone are not trusted: every chosen row is judged once more as a whole by
//! [`Rules::judge`], and an index that contradicts itself is an error.

mod runs;

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::index::rows::{Row, Rows};
use crate::index::{Limits, Shard, ShardWriter, Source};
use crate::rules::Rules;
use crate::tally::judge::{Judge, Prepared, Stretch};
use crate::tally::{Amount, Options, Tally, tally};
use crate::work::over_groups;
use runs::{Merged, Runs, Sorted};

/// The last use of a row by the rules, before anything else: candidates sort by its hour.
type Chosen = (i64, Row);

/// Writes every name that is eligible and was last used before `before_s` to the file `out`.
///
/// Rows have the columns of the index and are in the order of the hour of their last use by the
/// rules, which is their `last_use_s`; within an hour by parent and name. Of a file with several
/// names either all are written or none. About `memory_bytes` are used for rows. Returns the number
/// of files and their allocated bytes: a file with several names counts once, as in a tally.
pub fn select(
    shards: &[impl Source],
    rules: &Rules,
    before_s: i64,
    out: &Path,
    threads: usize,
    memory_bytes: usize,
) -> Result<Amount> {
    let linked =
        rules.linked.then(|| tally(shards, rules, Options::default(), threads)).transpose()?;
    let limits = Limits::default();
    let within = Within { before_s, threads, memory_bytes, linked: linked.as_ref(), limits };
    let mut total = select_within(shards, rules, &within, out)?;
    total.add(linked_files(linked.as_ref(), rules, before_s));
    Ok(total)
}

/// Writes the candidates of some shards of an index, to be merged with those of the others.
///
/// `linked` is a tally of the whole index, where files with several names may go. Returns what files
/// with one name come to.
pub fn select_part(
    shards: &[impl Source],
    rules: &Rules,
    before_s: i64,
    out: &Path,
    memory_bytes: usize,
    linked: Option<&Tally>,
) -> Result<Amount> {
    let within = Within { before_s, threads: 1, memory_bytes, linked, limits: runs::GROUP };
    select_within(shards, rules, &within, out)
}

/// Merges what [`select_part`] wrote of all shards of an index into the file that [`select`] writes.
pub fn merge_parts(parts: &[PathBuf], out: &Path) -> Result<()> {
    let (directory, name) = place_of(out)?;
    let runs = Runs::create(directory, name)?;
    write_all(runs.merge_files(parts)?, ShardWriter::create(directory, name)?)
}

fn write_all(mut merged: Merged, mut output: ShardWriter) -> Result<()> {
    while let Some((last_use_s, row)) = merged.next()? {
        output.row_used(&row.parent, &row.name, &row.entry, Some(last_use_s))?;
    }
    output.finish().map(drop)
}

struct Within<'a> {
    before_s: i64,
    threads: usize,
    memory_bytes: usize,
    linked: Option<&'a Tally>,
    limits: Limits,
}

fn select_within(
    shards: &[impl Source],
    rules: &Rules,
    within: &Within<'_>,
    out: &Path,
) -> Result<Amount> {
    let (directory, name) = place_of(out)?;
    let prepared = Prepared::new(rules, Options::default());
    let runs = Runs::create(directory, name)?;
    let search = Search { prepared: &prepared, before_s: within.before_s, linked: within.linked };
    let threads = crate::work::count(within.threads);
    let share = (within.memory_bytes / threads).max(1 << 20);
    let finders = over_groups(
        shards,
        threads,
        || Finder {
            held: Sorted::new(share),
            stretch: Stretch::default(),
            single: Amount::default(),
        },
        |finder, shard, number| finder.group(&search, &runs, shard, number),
    )?;
    let mut total = Amount::default();
    let mut held = Vec::new();
    for finder in finders {
        total.add(finder.single);
        held.push(finder.held);
    }
    write_all(runs.merge(held)?, ShardWriter::create_within(directory, name, within.limits)?)?;
    Ok(total)
}

/// Candidates with several names, each file once.
fn linked_files(tally: Option<&Tally>, rules: &Rules, before_s: i64) -> Amount {
    let mut total = Amount::default();
    let Some(tally) = tally else { return total };
    for linked in tally.links().iter().filter(|linked| linked.verdict().is_none()) {
        let last_use_s = linked.look.last_use_s.map(|time| time.min(rules.as_of_s));
        if last_use_s.is_some_and(|time| time < before_s) {
            total.add(Amount::one(linked.look.allocated_bytes));
        }
    }
    total
}

fn place_of(out: &Path) -> Result<(&Path, &str)> {
    let name = out.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::Usage(format!("{} is not a file name", out.display())))?;
    let directory = out.parent().filter(|parent| !parent.as_os_str().is_empty());
    Ok((directory.unwrap_or(Path::new(".")), name))
}

struct Search<'a> {
    prepared: &'a Prepared,
    before_s: i64,
    /// Files with several names as tallied, where these may go.
    linked: Option<&'a Tally>,
}

impl Search<'_> {
    /// The last use of a row of a stretch, if it is a candidate.
    fn chosen(&self, stretch: &Stretch, row: usize) -> Option<i64> {
        if stretch.kept[row] != 0 {
            return None;
        }
        let mut last_use_s = stretch.last_use_s[row];
        if stretch.links[row] != 1 {
            let linked = self.linked?.links().get(&stretch.object(row)?)?;
            if linked.verdict().is_some() {
                return None;
            }
            last_use_s = linked.look.last_use_s?;
        }
        let last_use_s = last_use_s.min(self.prepared.rules.as_of_s);
        (last_use_s < self.before_s).then_some(last_use_s)
    }
}

/// Candidates found by one thread.
struct Finder {
    held: Sorted,
    stretch: Stretch,
    /// Files with one name.
    single: Amount,
}

impl Finder {
    fn group(
        &mut self,
        search: &Search<'_>,
        runs: &Runs,
        shard: &Shard,
        number: usize,
    ) -> Result<()> {
        let mut judge = Judge::open(search.prepared, shard, number)?;
        let mut whole: Option<Rows> = None;
        let (first, mut done, mut read) = (shard.first_row(number), 0, 0);
        while judge.next(&mut self.stretch)? {
            let stretch = &self.stretch;
            let rows = stretch.kept.len();
            let chosen: Vec<_> = (0..rows)
                .filter_map(|row| search.chosen(stretch, row).map(|last_use_s| (row, last_use_s)))
                .collect();
            if !chosen.is_empty() {
                let source = match &mut whole {
                    Some(source) => source,
                    None => whole.insert(shard.rows_from(first)?),
                };
                source.skip(done - read)?;
                let all = source.read(rows)?;
                read = done + rows;
                for (row, last_use_s) in chosen {
                    let candidate = &all[row];
                    check(
                        &search.prepared.rules,
                        candidate,
                        last_use_s,
                        stretch.links[row] != 1,
                        shard,
                    )?;
                    if stretch.links[row] == 1 {
                        self.single.add(Amount::one(candidate.entry.allocated_bytes));
                    }
                    if self.held.push(last_use_s, candidate) {
                        runs.spill(&mut self.held)?;
                    }
                }
            }
            done += rows;
        }
        Ok(())
    }
}

/// Judges a chosen row as a whole.
fn check(rules: &Rules, row: &Row, last_use_s: i64, several: bool, shard: &Shard) -> Result<()> {
    let judged = rules.judge(&row.parent, &row.name, &row.entry);
    let agrees = match judged {
        Ok(judged_s) => judged_s == last_use_s || (several && judged_s <= last_use_s),
        Err(_) => false,
    };
    if agrees {
        return Ok(());
    }
    let place = [row.parent.as_ref(), b"/", row.name.as_ref()].concat();
    let problem = format!(
        "contradicts itself: its columns say that {:?} was last used at {last_use_s}, the row says {judged:?}",
        String::from_utf8_lossy(&place),
    );
    Err(Error::data(shard.path(), problem))
}
