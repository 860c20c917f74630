//! Streams as a drive sees them: group after group, not the order within one.
//!
//! A superblock of real drives spans hundreds of groups: to them it is all one which place of a group
//! is written first, and what is freed in the group that streams are in comes back when they are far
//! away. In miniature a group is as large as many superblocks, and both would decide over what is
//! copied. So what streams write in one visit to a group reaches the drive in the order of addresses,
//! while the next group is visited; and what is freed there is free when the visit is over.

use std::collections::VecDeque;

/// First unit and length.
pub(crate) type Stretch = (u32, u32);

/// Where streams write.
#[derive(Debug, Clone, Default)]
pub(crate) struct Visit {
    /// The group; `None` until the first stream.
    group: Option<u32>,
    /// Written in this visit.
    now: Vec<Stretch>,
    /// Written in the visit before, and not yet by the drive.
    before: VecDeque<Stretch>,
    /// Freed in this visit.
    held: VecDeque<Stretch>,
    held_units: u32,
}

impl Visit {
    /// Returns whether streams are in a group.
    pub(crate) fn is_in(&self, group: u32) -> bool {
        self.group == Some(group)
    }

    /// Units that are freed, and not free yet.
    pub(crate) fn held_units(&self) -> u32 {
        self.held_units
    }

    pub(crate) fn write(&mut self, first: u32, len: u32) {
        self.now.push((first, len));
    }

    pub(crate) fn hold(&mut self, first: u32, len: u32) {
        self.held.push_back((first, len));
        self.held_units += len;
    }

    /// Returns the units that the drive writes next, up to so many; `None`: nothing is left.
    pub(crate) fn next(&mut self, units: u32) -> Option<Stretch> {
        let (first, len) = self.before.pop_front()?;
        if len > units {
            self.before.push_front((first + units, len - units));
        }
        Some((first, len.min(units)))
    }

    /// Returns the first unit that the drive writes so many stretches after the next one.
    pub(crate) fn ahead(&self, stretches: usize) -> Option<u32> {
        self.before.get(stretches).map(|(first, _)| *first)
    }

    /// Ends the visit; its units are written next.
    pub(crate) fn leave(&mut self) {
        self.now.sort_unstable();
        self.before.extend(self.now.drain(..));
    }

    pub(crate) fn enter(&mut self, group: u32) {
        self.group = Some(group);
    }

    /// Takes the stretch that was freed first in the visit.
    pub(crate) fn freed(&mut self) -> Option<Stretch> {
        let (first, len) = self.held.pop_front()?;
        self.held_units -= len;
        Some((first, len))
    }
}
