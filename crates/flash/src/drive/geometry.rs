//! How a drive is laid out.

use crate::Error;

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
    ///
    /// # Errors
    /// No room for data and spare, or more units than can be numbered.
    pub fn new(superblocks: u32, units: u32, spare: f64) -> Result<Self, Error> {
        if superblocks < 2 {
            return Err(Error::impossible(
                "superblocks",
                superblocks.into(),
                "collection needs two and more",
            ));
        }
        if units == 0 || u64::from(units) > Self::MOST {
            return Err(Error::impossible(
                "pages-per-block",
                units.into(),
                "a superblock holds one unit and more, up to 2^28",
            ));
        }
        if !(spare > 0.0 && spare < 1.0) {
            return Err(Error::impossible(
                "spare",
                spare,
                "it is a part of the drive, over 0 and under 1",
            ));
        }
        let geometry = Self { superblocks, units, spare };
        let places = (u64::from(superblocks) + 3) << geometry.shift();
        if places > Self::MOST {
            return Err(Error::impossible(
                "superblocks",
                superblocks.into(),
                "with so many units each there are more than 2^28; 1,000 superblocks tell as much",
            ));
        }
        let usable = u64::from(superblocks) * u64::from(units);
        let logical = u64::from(geometry.logical());
        // One superblock's worth of spare and more: else a victim may have nothing to give.
        if logical == 0 || usable - logical < u64::from(units) {
            return Err(Error::impossible(
                "spare",
                spare,
                "it leaves no data, or less than one superblock of spare",
            ));
        }
        Ok(geometry)
    }

    /// Superblocks for data and spare.
    #[must_use]
    pub fn superblocks(&self) -> u32 {
        self.superblocks
    }

    /// Units in one superblock.
    #[must_use]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// Part of the usable units that is not for data.
    #[must_use]
    pub fn spare(&self) -> f64 {
        self.spare
    }

    /// Units that the host can address.
    #[must_use]
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    pub fn logical(&self) -> u32 {
        let usable = f64::from(self.superblocks) * f64::from(self.units);
        (usable * (1.0 - self.spare)).round() as u32
    }

    /// By how many bits a superblock's number is shifted in a place: no division on the way.
    pub(crate) fn shift(&self) -> u32 {
        self.units.next_power_of_two().trailing_zeros()
    }
}
