//! How much could be deleted, by age: for all, by owner, by OST, and why the rest is kept.
//!
//! ```text
//!   shards ──▶ judge (the rules, column by column) ──▶ sums ─────────┐
//!                                                 └──▶ links (files   ├──▶ merge ──▶ curves
//!                                                      with several  ─┘
//!                                                      names)
//! ```
//! A tally of some shards merges with that of others, in any order and grouping, into exactly what one of all
//! of them would be: sums add up, and all looks at a file with several names are joined before
//! its eligibility is decided. That is why such files are kept apart until then.

mod count;
pub(crate) mod curve;
mod exempt;
pub(crate) mod judge;
pub(crate) mod links;
mod sums;

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

pub use curve::Amount;

use crate::error::{Error, Result};
use crate::index::Source;
use crate::rules::{Kept, Rules};
use crate::work::over_groups;
use count::Counter;
use curve::Curve;
use judge::Prepared;
use links::Links;
use sums::{Owner, Sums};

/// Which curves are wanted besides the one of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// One for each user.
    pub users: bool,
    /// One for each project.
    pub projects: bool,
    /// One for each OST.
    pub osts: bool,
}

/// Rules and options of a tally; only tallies of the same terms merge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Terms {
    pub(crate) rules: Rules,
    pub(crate) options: Options,
}

/// The amounts of an index, or of some of its shards.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Tally {
    terms: Terms,
    /// Files with one name.
    single: Sums,
    /// Files with several.
    links: Links,
    /// Both, computed on first use.
    #[serde(skip)]
    all: OnceLock<Sums>,
}

/// First bytes of a stored tally: its type, and the version of the format.
const MAGIC: &[u8] = b"trimtab tally 2\n";

/// Counts the entries in shards, on `threads` threads (0: one a core).
pub fn tally(
    shards: &[impl Source],
    rules: &Rules,
    options: Options,
    threads: usize,
) -> Result<Tally> {
    let prepared = Prepared::new(rules, options);
    let terms = Terms { rules: prepared.rules.clone(), options };
    let counters = over_groups(
        shards,
        threads,
        || Counter::new(&terms),
        |counter, shard, number| counter.group(&prepared, shard, number),
    )?;
    let mut parts = counters.into_iter().map(Counter::into_parts);
    let (mut single, mut links) =
        parts.next().unwrap_or_else(|| (Sums::new(&terms), Links::default()));
    for (more, linked) in parts {
        single.merge(&more, &terms);
        links.merge(linked);
    }
    let whole = Tally { terms, single, links, all: OnceLock::new() };
    whole.check()?;
    Ok(whole)
}

impl Tally {
    /// Adds a tally of other shards of the same index, by the same rules.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.terms != other.terms {
            return Err(Error::Usage("two tallies by different rules cannot be merged".into()));
        }
        self.single.merge(&other.single, &self.terms);
        self.links.merge(other.links.clone());
        self.all = OnceLock::new();
        self.check()
    }

    /// Returns the tally as bytes; the same tally is always the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_extend(self, MAGIC.to_vec()).expect("a tally is plain values in memory")
    }

    /// The tally that made the bytes.
    pub fn from_bytes(data: &[u8]) -> Result<Self> {
        let read = data.strip_prefix(MAGIC).map(postcard::take_from_bytes::<Self>);
        let Some(Ok((tally, []))) = read else {
            return Err(Error::Usage("there is no tally in these bytes".into()));
        };
        tally.check()?;
        Ok(tally)
    }

    /// Refuses sums that do not fit: an index with such numbers is rubbish.
    fn check(&self) -> Result<()> {
        if self.single.every_byte <= u128::from(u64::MAX) {
            return Ok(());
        }
        Err(Error::Usage("the allocated bytes of the index add up to more than 2^64".into()))
    }

    fn all(&self) -> &Sums {
        self.all.get_or_init(|| {
            let mut all = self.single.clone();
            self.links.iter().for_each(|linked| all.add_linked(linked, &self.terms));
            all
        })
    }

    /// Every regular file, each once.
    pub fn total(&self) -> Amount {
        self.all().total
    }

    /// Kept files, by reason; entries other than regular files are counted by their names.
    pub fn kept(&self) -> Vec<(Kept, Amount)> {
        let kept = Kept::TABLE.into_iter().map(|(kept, _)| kept);
        let amounts = kept.map(|kept| (kept, self.all().kept[kept as usize]));
        amounts.filter(|(_, amount)| !amount.is_nothing()).collect()
    }

    /// Eligible files, by the hour of their last use since 1970, the oldest first.
    pub fn hours(&self) -> Vec<(i64, Amount)> {
        self.all().hours.ascending()
    }

    /// Users with eligible files.
    pub fn users(&self) -> Vec<u32> {
        owners(&self.all().users)
    }

    /// Every regular file of a user.
    pub fn total_of_user(&self, uid: u32) -> Amount {
        self.all().users.get(&uid).map_or(Amount::default(), |owner| owner.total)
    }

    /// Eligible files of a user, by the day of their last use since 1970.
    pub fn days_of_user(&self, uid: u32) -> Vec<(i64, Amount)> {
        self.all().users.get(&uid).map_or(Vec::new(), |owner| owner.days.ascending())
    }

    /// Projects with eligible files.
    pub fn projects(&self) -> Vec<u32> {
        owners(&self.all().projects)
    }

    /// Every regular file of a project.
    pub fn total_of_project(&self, project: u32) -> Amount {
        self.all().projects.get(&project).map_or(Amount::default(), |owner| owner.total)
    }

    /// Eligible files of a project, by the day of their last use since 1970.
    pub fn days_of_project(&self, project: u32) -> Vec<(i64, Amount)> {
        self.all().projects.get(&project).map_or(Vec::new(), |owner| owner.days.ascending())
    }

    /// OSTs with eligible data.
    pub fn osts(&self) -> Vec<u32> {
        self.all().osts.keys().copied().collect()
    }

    /// Eligible data on an OST, by hour: a file's bytes are split evenly over its stripes.
    pub fn hours_of_ost(&self, ost: u32) -> Vec<(i64, Amount)> {
        self.all().osts.get(&ost).map_or(Vec::new(), Curve::ascending)
    }

    /// Eligible files on unknown OSTs; only counted where OSTs were asked for.
    pub fn unplaced(&self) -> Amount {
        self.all().unplaced
    }

    /// How many files were last used after the scan, as their times say.
    pub fn future_files(&self) -> u64 {
        self.all().future_files
    }

    /// The latest of these times.
    pub fn latest_future_s(&self) -> Option<i64> {
        self.all().latest_future_s
    }

    /// Files with several names.
    pub(crate) fn links(&self) -> &Links {
        &self.links
    }
}

fn owners(owners: &std::collections::BTreeMap<u32, Owner>) -> Vec<u32> {
    let concerned = owners.iter().filter(|(_, owner)| !owner.days.is_empty());
    concerned.map(|(id, _)| *id).collect()
}
