//! Which allocator it is, and how it looks.

use crate::error::{Error, require};

/// Criteria that a family has at most.
pub const LOOPS: usize = 5;

/// Requirement on a group before a search scans it, the strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Criterion {
    /// A buddy as large as the request, which is a power of two.
    Aligned,
    /// An average free run as long as the request.
    Fast,
    /// The same for a request cut down, to no less than what was asked before it was normalised.
    Best,
    /// As many free units in total.
    Slow,
    /// Anything.
    Any,
}

impl Criterion {
    /// Returns whether groups are kept in lists for it.
    pub(crate) fn is_listed(self) -> bool {
        matches!(self, Self::Aligned | Self::Fast | Self::Best)
    }
}

/// How groups are found; the kernels of a family count the same things in the same sense.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Family {
    /// Linux before 5.13, and ldiskfs for RHEL 8 up to 8.7: every loop walks all groups.
    #[default]
    Classic,
    /// Linux 5.13 to 6.4 with `mb_optimize_scan`: lists of groups for the first two loops.
    OptimizeScan,
    /// Linux 6.5 to 6.16: the same lists, and a criterion that cuts the request down.
    El9,
    /// Linux from 6.17 on: those criteria, groups of a list taken in the order of their numbers.
    Ordered,
}

impl Family {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::OptimizeScan => "optimize-scan",
            Self::El9 => "el9",
            Self::Ordered => "ordered",
        }
    }

    /// Returns the family of a name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Classic, Self::OptimizeScan, Self::El9, Self::Ordered]
            .into_iter()
            .find(|family| family.name() == name)
    }

    /// Returns how many criteria it has; the counts of a criterion stand in this order.
    pub fn loops(self) -> usize {
        self.criteria().len()
    }

    /// Returns the free parts under which Lustre's series for it begin later, if there are any.
    pub fn thresholds(self) -> Option<[f64; 3]> {
        match self {
            Self::Classic | Self::OptimizeScan => Some([0.25, 0.15, 0.05]),
            Self::El9 | Self::Ordered => None,
        }
    }

    pub(crate) fn criteria(self) -> &'static [Criterion] {
        use Criterion::{Aligned, Any, Best, Fast, Slow};
        match self {
            Self::Classic | Self::OptimizeScan => &[Aligned, Fast, Slow, Any],
            Self::El9 | Self::Ordered => &[Aligned, Fast, Best, Slow, Any],
        }
    }

    /// Returns whether runs too short are left out where the average promises one long enough.
    pub(crate) fn skips_short_runs(self) -> bool {
        matches!(self, Self::El9 | Self::Ordered)
    }
}

/// How the allocator looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Which allocator it is.
    pub family: Family,
    /// Free parts under which the search begins at c1, c2, c3; `None` where there are no thresholds.
    pub enter: Option<[f64; 3]>,
    /// Free stretches that are looked at before the best one is taken, however short.
    pub max_to_scan: u32,
    /// Those after which the best one is taken if it is long enough.
    pub min_to_scan: u32,
    /// Bits of the shortest request that c0 is for, if it is a power of two.
    pub order2_bits: u32,
    /// Groups that are walked before the lists are asked: 4 on a rotating disk, none on flash.
    pub max_linear_groups: u32,
    /// Halvings by which a request may be cut down.
    pub max_trim_order: u32,
    /// Units of a RAID stripe, to which requests of whole stripes are aligned; 0: no RAID.
    pub stripe: u32,
    /// Groups per flex group, the first of which holds the metadata and is skipped by c0; 0: none.
    pub flex_groups: u32,
    /// Places from which large requests go on, chosen by the file.
    pub stream_goals: u32,
}

impl Default for Settings {
    /// Those of Lustre's series for RHEL 8.
    fn default() -> Self {
        Self::of(Family::Classic)
    }
}

impl Settings {
    /// Returns the default settings of a family, on flash.
    pub fn of(family: Family) -> Self {
        Self {
            family,
            enter: family.thresholds(),
            max_to_scan: 200,
            min_to_scan: 10,
            order2_bits: 8,
            max_linear_groups: 0,
            max_trim_order: 3,
            stripe: 0,
            flex_groups: 0,
            stream_goals: 1,
        }
    }

    /// Refuses settings that no such allocator has.
    pub(crate) fn check(&self, units: u32) -> Result<(), Error> {
        let has_thresholds = self.enter.is_none() || self.family.thresholds().is_some();
        let only = "this family has none; only classic and optimize-scan have thresholds";
        require(has_thresholds, "thresholds", 3.0, only)?;
        for part in self.enter.into_iter().flatten() {
            let is_part = (0.0..=1.0).contains(&part);
            require(is_part, "threshold", part, "must be a fraction of the blocks, 0 to 1")?;
        }
        let fits = self.stripe <= units;
        require(fits, "stripe", self.stripe, "must not exceed the units of a group")?;
        let goals = (1..=1 << 16).contains(&self.stream_goals);
        require(goals, "stream_goals", self.stream_goals, "must be 1 to 2^16")
    }
}
