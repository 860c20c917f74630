//! Many OSTs, stepped in parallel: nothing is shared between them.

use super::{Ost, Settings};
use crate::error::{Error, require};
use rayon::prelude::*;

/// Changes of one OST in a time step, as parts of its capacity.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Step {
    /// Written by users.
    pub written: f64,
    /// Deleted by users, files at random.
    pub deleted: f64,
    /// Purged, the oldest files first.
    pub purged: f64,
    /// Written by a benchmark, and deleted once all is written.
    pub burst: f64,
    /// Number of files of the benchmark.
    pub burst_files: u32,
    /// How often the allocator is sent back to group 0.
    pub resets: f64,
}

impl Step {
    /// The most capacities of one step: more is a mistake in a unit.
    const MOST: f64 = 1e4;

    fn check(&self) -> Result<(), Error> {
        let amounts = [
            ("written", self.written),
            ("deleted", self.deleted),
            ("purged", self.purged),
            ("burst", self.burst),
            ("resets", self.resets),
        ];
        for (name, value) in amounts {
            let range = "capacities in a step, or resets, must be 0 to 10,000";
            require((0.0..=Self::MOST).contains(&value), name, value, range)?;
        }
        Ok(())
    }
}

/// OSTs that are alike to begin with.
#[derive(Debug)]
pub struct Fleet {
    osts: Vec<Ost>,
    settings: Settings,
    seed: u64,
    pool: rayon::ThreadPool,
}

impl Fleet {
    /// Returns so many empty OSTs, stepped by so many threads; `None`: one a processor.
    pub fn new(
        columns: usize,
        settings: Settings,
        seed: u64,
        threads: Option<usize>,
    ) -> Result<Self, Error> {
        require(threads != Some(0), "threads", 0.0, "must be at least 1")?;
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads.unwrap_or(0))
            .build()
            .map_err(|_| {
                Error::impossible(
                    "threads",
                    threads.unwrap_or(0) as f64,
                    "the system cannot start so many",
                )
            })?;
        let mut fleet = Self { osts: Vec::new(), settings, seed, pool };
        fleet.add(columns)?;
        Ok(fleet)
    }

    /// The OSTs.
    pub fn osts(&self) -> &[Ost] {
        &self.osts
    }

    /// How each was made.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns an OST for changes.
    pub fn ost_mut(&mut self, column: usize) -> Result<&mut Ost, Error> {
        let missing = Error::impossible("column", column as f64, "no such column");
        self.osts.get_mut(column).ok_or(missing)
    }

    /// Adds empty OSTs behind the others, as when capacity is bought.
    pub fn add(&mut self, columns: usize) -> Result<(), Error> {
        let first = self.osts.len();
        let seeds = (first..first + columns).map(|column| seed_of(self.seed, column as u64));
        self.osts.extend(Ost::several(&self.settings, &seeds.collect::<Vec<_>>())?);
        Ok(())
    }

    /// Fills each to a part of it, and ages it by so many capacities.
    pub fn fill(&mut self, parts: &[f64], churn: f64) -> Result<(), Error> {
        self.check_length(parts.len())?;
        for part in parts {
            let is_part = (0.0..=1.0).contains(part);
            require(is_part, "fullness", *part, "must be a fraction, 0 to 1")?;
        }
        Step { written: churn, ..Step::default() }.check()?;
        let osts = &mut self.osts;
        self.pool.install(|| {
            osts.par_iter_mut().zip(parts).for_each(|(ost, part)| ost.fill(*part, churn));
        });
        Ok(())
    }

    /// Lets one step of time pass, one value a column.
    pub fn advance(&mut self, steps: &[Step]) -> Result<(), Error> {
        self.check_length(steps.len())?;
        for step in steps {
            step.check()?;
        }
        let osts = &mut self.osts;
        if self.pool.current_num_threads() == 1 {
            // A step is short: to wake another thread and to wait for it takes as long as ten OSTs.
            osts.iter_mut().zip(steps).for_each(|(ost, step)| ost.advance(step));
            return Ok(());
        }
        self.pool.install(|| {
            osts.par_iter_mut().zip(steps).for_each(|(ost, step)| ost.advance(step));
        });
        Ok(())
    }

    /// Trims some of them, and returns the part of each that its drive still held.
    pub fn trim(&mut self, columns: &[usize]) -> Result<Vec<f64>, Error> {
        let mut places = vec![None; self.osts.len()];
        for (place, column) in columns.iter().enumerate() {
            self.ost_mut(*column)?;
            places[*column].get_or_insert(place);
        }
        let osts = &mut self.osts;
        let trimmed: Vec<(usize, f64)> = self.pool.install(|| {
            let chosen = osts.par_iter_mut().zip(places);
            chosen.filter_map(|(ost, place)| place.map(|place| (place, ost.trim()))).collect()
        });
        let mut parts = vec![0.0; columns.len()];
        trimmed.into_iter().for_each(|(place, part)| parts[place] = part);
        Ok(parts)
    }

    /// Counts and state of all: a name, and one value a column.
    pub fn table(&self) -> Vec<(String, Vec<f64>)> {
        super::state::table(&self.osts)
    }

    /// Counts or state of some names alone, name after name with a value for each column; 0 where
    /// there is no such name.
    pub fn figures(&self, names: &[String]) -> Vec<f64> {
        super::state::figures(&self.osts, names)
    }

    fn check_length(&self, values: usize) -> Result<(), Error> {
        let fits = values == self.osts.len();
        require(fits, "values given", values as f64, "must be one for each column")
    }
}

/// The seed of one column: a hash, so that columns share no draws and adding one changes none.
fn seed_of(seed: u64, column: u64) -> u64 {
    let mut mixed = seed ^ (column + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}
