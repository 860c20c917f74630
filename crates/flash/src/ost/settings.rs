//! Settings of a miniature OST.

use super::{GROUP_UNITS, REQUEST_UNITS, Sizes};
use crate::allocator::Family;
use crate::error::{Error, require};
use crate::{Geometry, Policy, allocator, drive};

/// Bits of the shortest request that c0 is for: half of the largest one, as of 1 MiB in blocks of 4 KiB.
const ORDER2_BITS: u32 = REQUEST_UNITS.ilog2();

/// Settings of one OST, or of all OSTs in a fleet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Settings {
    /// Block groups of [`GROUP_UNITS`] units.
    pub groups: u32,
    /// Units that the drive erases together.
    pub superblock_units: u32,
    /// Usable spare: the part of the flash that is not for data.
    pub spare: f64,
    /// Which superblock is cleaned next.
    pub policy: Policy,
    /// Whether copies fill superblocks of their own.
    pub separate: bool,
    /// Which allocator it has.
    pub family: Family,
    /// Free parts under which its search begins at c1, c2, c3; of families that have thresholds.
    pub enter: Option<[f64; 3]>,
    /// Whether deleted units are trimmed at once.
    pub discard: bool,
    /// Median size of users' files, in units.
    pub size_median_units: f64,
    /// Standard deviation of the natural logarithm of their size.
    pub size_sigma: f64,
    /// The largest file, as a part of the OST.
    pub largest: f64,
    /// Units of the smallest request that is placed as a stream, as `mb_small_req` sets; smaller
    /// ones go near others like them.
    pub stream_units: u32,
    /// Users' files that are written at a time.
    pub writers: u32,
}

impl Default for Settings {
    /// 16 groups, spare as of a drive for one write a day, Lustre's thresholds for RHEL 8.
    fn default() -> Self {
        Self {
            groups: 16,
            superblock_units: 64,
            spare: 0.12,
            policy: Policy::Greedy,
            separate: false,
            family: Family::Classic,
            enter: Family::Classic.thresholds(),
            discard: false,
            size_median_units: 4.0,
            size_sigma: 2.2,
            largest: 1.0 / 64.0,
            stream_units: REQUEST_UNITS,
            writers: 8,
        }
    }
}

impl Settings {
    pub(crate) fn check(&self) -> Result<(), Error> {
        let most = 4096.0;
        let count = |value: u32| (1.0..=most).contains(&f64::from(value));
        require(count(self.groups), "groups", self.groups, "must be 1 to 4096; 16 to 64 suffice")?;
        let superblock = (1..=self.units()).contains(&self.superblock_units);
        let range = "must be at least 1 unit and at most the whole OST";
        require(superblock, "superblock_units", self.superblock_units, range)?;
        let spare = self.spare > 0.0 && self.spare < 1.0;
        require(
            spare,
            "spare",
            self.spare,
            "must be a fraction of the drive, above 0 and below 1",
        )?;
        require(count(self.writers), "writers", self.writers, "must be 1 to 4096")?;
        let stream = (1..=REQUEST_UNITS + 1).contains(&self.stream_units);
        let range = "must be 1 (all requests) to 17 (none)";
        require(stream, "stream_units", self.stream_units, range)?;
        let median = self.size_median_units > 0.0 && self.size_median_units.is_finite();
        require(median, "size_median_units", self.size_median_units, "must be greater than 0")?;
        let sigma = (0.0..=10.0).contains(&self.size_sigma);
        require(sigma, "size_sigma", self.size_sigma, "must be 0 to 10")?;
        let largest = self.largest > 0.0 && self.largest <= 1.0;
        require(
            largest,
            "largest",
            self.largest,
            "must be a fraction of the OST, above 0 and at most 1",
        )
    }

    pub(crate) fn units(&self) -> u32 {
        self.groups.saturating_mul(GROUP_UNITS)
    }

    /// The drive whose logical units are the OST's: its spare is that asked for, to half a superblock.
    pub(crate) fn geometry(&self) -> Result<Geometry, Error> {
        let units = f64::from(self.units());
        let superblock = f64::from(self.superblock_units);
        let superblocks = (units / (1.0 - self.spare) / superblock).round();
        let spare = 1.0 - units / (superblocks * superblock);
        let geometry = Geometry::new(superblocks as u32, self.superblock_units, spare)?;
        debug_assert_eq!(geometry.logical(), self.units());
        Ok(geometry)
    }

    pub(crate) fn drive(&self, seed: u64) -> drive::Settings {
        drive::Settings { policy: self.policy, separate: self.separate, seed: !seed }
    }

    pub(crate) fn sizes(&self) -> Sizes {
        let largest = (self.largest * f64::from(self.units())).round().max(1.0) as u32;
        Sizes { median: self.size_median_units, sigma: self.size_sigma, largest }
    }
}

/// Returns the settings of a miniature OST's allocator.
pub(crate) fn allocator(family: Family, enter: Option<[f64; 3]>) -> allocator::Settings {
    allocator::Settings {
        enter: family.thresholds().and(enter),
        order2_bits: ORDER2_BITS,
        ..allocator::Settings::of(family)
    }
}
