//! The rows of a plan, read back from its Parquet file a batch at a time.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::index::column::Numbers;
use crate::index::schema::Name;
use crate::index::{Row, Rows, Shard};

/// The file of candidates of a plan.
pub(super) struct Candidates {
    shard: Shard,
    /// Where the last batch ended: batches come in order, so the next one mostly begins there.
    held: Option<(u64, Rows)>,
}

impl Candidates {
    pub(super) fn of(shard: Shard) -> Self {
        Self { shard, held: None }
    }

    pub(super) fn rows(&self) -> u64 {
        self.shard.rows()
    }

    pub(super) fn read(&mut self, first: u64, count: u64) -> Result<Vec<Row>> {
        let end = end_of(&self.shard, first, count)?;
        let length = (end - first) as usize;
        let mut rows = match self.held.take() {
            Some((next, rows)) if next == first => rows,
            _ => self.shard.rows_from(first)?,
        };
        let read = rows.read(length)?;
        if read.len() != length {
            return Err(Error::data(self.shard.path(), "has fewer rows than it declares"));
        }
        self.held = Some((end, rows));
        Ok(read)
    }
}

/// Columns of rows of a plan, without their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// The owner of each.
    pub uids: Vec<u32>,
    /// The allocated bytes of each.
    pub allocated_bytes: Vec<u64>,
}

/// Reads the columns of `count` rows of a plan, and of those that follow in the group of the last.
///
/// Where the plan is signed by groups, these are in memory and verified until others are asked for.
pub fn listed(plan: &Shard, first: u64, count: u64) -> Result<Listed> {
    let wanted = first..end_of(plan, first, count)?;
    let groups = groups_of(plan, &wanted);
    plan.hold(groups.clone());
    let mut listed = Listed::default();
    let mut skipped = (first - plan.first_row(groups.start)) as usize;
    for number in groups {
        let group = plan.group(number);
        let rows = group.rows - skipped;
        let (uid, allocated) = (|uid: i64| uid as u32, |bytes: i64| bytes as u64);
        let mut column: Numbers<u32> = group.column(Name::Uid, None)?;
        column.skip(skipped, uid)?;
        column.read(rows, &mut listed.uids, uid)?;
        let mut column: Numbers<u64> = group.column(Name::Allocated, None)?;
        column.skip(skipped, allocated)?;
        column.read(rows, &mut listed.allocated_bytes, allocated)?;
        skipped = 0;
    }
    Ok(listed)
}

/// The groups that have any of these rows.
fn groups_of(plan: &Shard, rows: &Range<u64>) -> Range<usize> {
    let ends = || {
        (0..plan.groups()).scan(0, |end, number| {
            *end += plan.group(number).rows as u64;
            Some(*end)
        })
    };
    let first = ends().take_while(|end| *end <= rows.start).count();
    let last = ends().take_while(|end| *end < rows.end).count();
    first..plan.groups().min(last + 1)
}

fn end_of(plan: &Shard, first: u64, count: u64) -> Result<u64> {
    first.checked_add(count).filter(|end| *end <= plan.rows()).ok_or_else(|| {
        let rows = plan.rows();
        Error::Usage(format!(
            "{count} rows from row {first} on were requested, but the plan has {rows}"
        ))
    })
}
