//! How a drive is laid out.

use crate::error::{Error, require};

/// Superblocks, their size, and how much of them is spare.
///
/// Spare is *usable* spare: superblocks that are being filled, and the one that is kept erased so
/// that collection can always go on, come on top of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Geometry {
    superblocks: u32,
    units: u32,
    spare: f64,
}

impl Geometry {
    /// The most places of one drive: each takes eight bytes, and more superblocks tell nothing new.
    const MOST: u64 = 1 << 28;

    /// Returns a drive of `superblocks` superblocks of `units` units, of which the part `spare` is
    /// not for data.
    pub fn new(superblocks: u32, units: u32, spare: f64) -> Result<Self, Error> {
        require(superblocks >= 2, "superblocks", superblocks, "collection needs at least two")?;
        let range = "a superblock holds 1 to 2^28 units";
        let holds = (1..=Self::MOST).contains(&units.into());
        require(holds, "pages-per-block", units, range)?;
        let is_part = spare > 0.0 && spare < 1.0;
        require(is_part, "spare", spare, "must be a fraction of the drive, above 0 and below 1")?;
        let geometry = Self { superblocks, units, spare };
        let places = (u64::from(superblocks) + 3) << geometry.shift();
        let most = "with so many units each there are more than 2^28; 1,000 superblocks suffice";
        require(places <= Self::MOST, "superblocks", superblocks, most)?;
        let usable = u64::from(superblocks) * u64::from(units);
        let logical = u64::from(geometry.logical());
        // One superblock's worth of spare and more: else a victim may have nothing to give.
        let suffices = logical > 0 && usable - logical >= u64::from(units);
        let least = "it leaves no data, or less than one superblock of spare";
        require(suffices, "spare", spare, least)?;
        Ok(geometry)
    }

    /// Superblocks for data and spare.
    pub fn superblocks(&self) -> u32 {
        self.superblocks
    }

    /// Units in one superblock.
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Part of the usable units that is not for data.
    pub fn spare(&self) -> f64 {
        self.spare
    }

    /// Units that the host can address.
    pub fn logical(&self) -> u32 {
        let usable = f64::from(self.superblocks) * f64::from(self.units);
        (usable * (1.0 - self.spare)).round() as u32
    }

    /// Returns the bits by which a superblock's number is shifted in a place, which avoids a
    /// division.
    pub(crate) fn shift(&self) -> u32 {
        self.units.next_power_of_two().trailing_zeros()
    }
}
