//! What an OST did, and how it is.

use super::Ost;
use crate::allocator::LOOPS;

/// What it did since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of up to [`super::REQUEST_UNITS`] units.
    pub requests: u64,
    /// Stretches that the allocator gave for them.
    pub extents: u64,
    /// Those that it gave right where they were wanted.
    pub goals: u64,
    /// Those that each of its loops found.
    pub hits: [u64; LOOPS],
    /// Full scans of each loop over all groups without a result (useless loops).
    pub useless: [u64; LOOPS],
    /// Groups that each loop looked at.
    pub considered: [u64; LOOPS],
    /// Free stretches that it looked at.
    pub scanned: u64,
    /// Units that were written.
    pub written: u64,
    /// Units that the drive wrote again.
    pub copied: u64,
    /// Superblocks that it erased.
    pub erased: u64,
    /// Units that were given back to it and that it held.
    pub trimmed: u64,
    /// Units for which there was no room.
    pub refused: u64,
}

/// How it is now.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct State {
    /// Units of files.
    pub used: u64,
    /// Units that the drive holds valid: of files, and of deleted ones that were not trimmed.
    pub live: u64,
    /// Stretches that are free.
    pub free_runs: u64,
    /// Files that are written to their end.
    pub files: u64,
    /// How often a superblock was erased, on the average.
    pub wear_mean: f64,
    /// How often the one was that was erased most.
    pub wear_max: u32,
}

impl Ost {
    /// What it did since it was made.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let placed = self.allocator.counts();
        let drive = self.drive.counts();
        Counts {
            requests: self.requests,
            extents: placed.requests,
            goals: placed.goals,
            hits: placed.hits,
            useless: placed.useless,
            considered: placed.considered,
            scanned: placed.scanned,
            written: drive.written,
            copied: drive.copied,
            erased: drive.erased,
            trimmed: drive.trimmed,
            refused: self.refused_units,
        }
    }

    /// How it is now.
    #[must_use]
    pub fn state(&self) -> State {
        let (valid, wear) = self.drive.superblocks();
        let runs = |group| self.allocator.group(group).map_or(0, |(_, runs, _)| u64::from(runs));
        State {
            used: u64::from(self.used_units()),
            live: valid.iter().map(|units| u64::from(*units)).sum(),
            free_runs: (0..self.freed.len() as u32).map(runs).sum(),
            files: self.files.closed() as u64,
            wear_mean: f64::from(wear.iter().sum::<u32>()) / wear.len() as f64,
            wear_max: wear.iter().copied().max().unwrap_or(0),
        }
    }

    /// Names of what [`Ost::row`] has.
    pub(crate) fn names() -> Vec<String> {
        let counted = [
            "requests",
            "extents",
            "goals",
            "scanned",
            "written_units",
            "copied_units",
            "erased_superblocks",
            "trimmed_units",
            "refused_units",
        ];
        let states =
            ["used", "live", "free_runs", "free_run_units", "files", "wear_mean", "wear_max"];
        let loops = ["hits", "useless", "considered"]
            .into_iter()
            .flat_map(|what| (0..LOOPS).map(move |number| format!("{what}_c{number}")));
        counted.into_iter().chain(states).map(str::to_owned).chain(loops).collect()
    }

    /// Counts in units and state as parts of the OST, in the order of [`Ost::names`].
    #[allow(clippy::cast_precision_loss)]
    pub(crate) fn row(&self) -> Vec<f64> {
        let (counts, state) = (self.counts(), self.state());
        let units = f64::from(self.units());
        let free = units - state.used as f64;
        let counted = [
            counts.requests,
            counts.extents,
            counts.goals,
            counts.scanned,
            counts.written,
            counts.copied,
            counts.erased,
            counts.trimmed,
            counts.refused,
        ];
        let states = [
            state.used as f64 / units,
            state.live as f64 / units,
            state.free_runs as f64,
            if state.free_runs == 0 { 0.0 } else { free / state.free_runs as f64 },
            state.files as f64,
            state.wear_mean,
            f64::from(state.wear_max),
        ];
        let loops = [counts.hits, counts.useless, counts.considered].into_iter().flatten();
        let counted = counted.into_iter().map(|count| count as f64);
        counted.chain(states).chain(loops.map(|count| count as f64)).collect()
    }
}
