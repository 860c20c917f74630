//! Counters and state of OSTs as columns of a table.

use super::Ost;
use crate::allocator::{Counts, LOOPS};

/// A figure of an OST by its name.
type Figure = (&'static str, fn(&Ost) -> f64);

/// Counts since an OST was made, in units, and how it is now, as fractions of it.
const FIGURES: [Figure; 17] = [
    ("requests", |ost| ost.requests as f64),
    ("extents", |ost| ost.allocator.counts().requests as f64),
    ("goals", |ost| ost.allocator.counts().goals as f64),
    ("scanned", |ost| ost.allocator.counts().scanned as f64),
    ("written_units", |ost| ost.drive.counts().written as f64),
    ("copied_units", |ost| ost.drive.counts().copied as f64),
    ("erased_superblocks", |ost| ost.drive.counts().erased as f64),
    ("trimmed_units", |ost| ost.drive.counts().trimmed as f64),
    ("refused_units", |ost| ost.refused_units as f64),
    ("used", |ost| f64::from(ost.used_units()) / f64::from(ost.units())),
    ("live", |ost| sum(ost.drive.superblocks().0) as f64 / f64::from(ost.units())),
    ("free_runs", |ost| ost.free_runs() as f64),
    ("free_run_units", |ost| match ost.free_runs() {
        0 => 0.0,
        runs => f64::from(ost.units() - ost.used_units()) / runs as f64,
    }),
    // Where the next large request is searched from, as a part of all groups.
    ("last_group", |ost| f64::from(ost.allocator.last_group()) / ost.freed.len() as f64),
    ("files", |ost| ost.files.closed() as f64),
    ("wear_mean", |ost| {
        let wear = ost.drive.superblocks().1;
        sum(wear) as f64 / wear.len() as f64
    }),
    ("wear_max", |ost| ost.drive.superblocks().1.iter().max().map_or(0.0, |wear| (*wear).into())),
];

/// Counts of every criterion of the allocator by their name.
type OfLoops = (&'static str, fn(&Counts) -> [u64; LOOPS]);

const OF_LOOPS: [OfLoops; 3] = [
    ("hits", |counts| counts.hits),
    ("useless", |counts| counts.useless),
    ("considered", |counts| counts.considered),
];

/// Every figure by its name, one value an OST.
pub(crate) fn table(osts: &[Ost]) -> Vec<(String, Vec<f64>)> {
    let column = |(name, of): Figure| (name.to_owned(), osts.iter().map(of).collect::<Vec<_>>());
    let of_loops = OF_LOOPS.into_iter().flat_map(|(name, of)| {
        (0..LOOPS).map(move |number| {
            let count = |ost: &Ost| of(&ost.allocator.counts())[number] as f64;
            (format!("{name}_c{number}"), osts.iter().map(count).collect())
        })
    });
    FIGURES.map(column).into_iter().chain(of_loops).collect()
}

/// The figures of some names, one name after another with a value for each OST; 0 where there is
/// no figure of a name.
pub(crate) fn figures(osts: &[Ost], names: &[String]) -> Vec<f64> {
    let wanted: Vec<_> = names.iter().map(|name| figure_of(name)).collect();
    let mut values = vec![0.0; names.len() * osts.len()];
    // OST by OST: each is elsewhere in memory.
    for (place, ost) in osts.iter().enumerate() {
        let column = values[place..].iter_mut().step_by(osts.len());
        column.zip(&wanted).for_each(|(value, of)| *value = of(ost));
    }
    values
}

fn figure_of(name: &str) -> Box<dyn Fn(&Ost) -> f64> {
    if let Some((_, of)) = FIGURES.iter().find(|(known, _)| *known == name) {
        return Box::new(of);
    }
    for (known, of) in OF_LOOPS {
        let number = name.strip_prefix(known).and_then(|rest| rest.strip_prefix("_c"));
        if let Some(number) = number.and_then(|number| number.parse::<usize>().ok())
            && number < LOOPS
        {
            return Box::new(move |ost| of(&ost.allocator.counts())[number] as f64);
        }
    }
    Box::new(|_| 0.0)
}

fn sum(numbers: &[u32]) -> u64 {
    numbers.iter().map(|number| u64::from(*number)).sum()
}

impl Ost {
    fn free_runs(&self) -> u64 {
        let runs = |group| self.allocator.group(group).map_or(0, |(_, runs, _)| u64::from(runs));
        (0..self.freed.len() as u32).map(runs).sum()
    }
}
