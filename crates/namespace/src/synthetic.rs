//! The index of a scratch file system that does not exist, as large as one likes.
//!
//! For benchmarks and for showing what a purge would do at a site of 36 PB before anybody scans one. The mix is
//! that of an HPC scratch in its shares, not a measurement of one:
//!
//! - a heavy tail of users: the share of the k-th falls as 1/k, so a few own most files;
//! - directories of some tens to thousands of files, each of one owner and one time of work, since a job
//!   writes its output at once;
//! - sizes over ten powers of two around a few MiB, a tenth of them small files, one in a hundred sparse;
//! - ages: a fifth was used within days, most fall off exponentially over months, a sixth is old bulk of up to six
//!   years that nobody looked at again; reads come later than the writing for a third of the directories;
//! - one name in thirty is a directory, one in a hundred a link; one file in two hundred has a second name.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{Entry, FileType, Layout, NS_PER_S, ObjectId, Times};
use crate::error::Result;
use crate::index::{Finished, ShardWriter};

/// What to make.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// How many names.
    pub rows: u64,
    /// How many names a shard has at most.
    pub shard_rows: u64,
    /// How many users own them.
    pub users: u32,
    /// The second at which the scan ended.
    pub as_of_s: i64,
    /// Whether the OSTs of each file are known.
    pub layout: bool,
    /// Another seed makes another file system.
    pub seed: u64,
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            shard_rows: 4_000_000,
            users: 5000,
            as_of_s: 1_790_000_000,
            layout: false,
            seed: 1,
        }
    }
}

/// Writes the shards into a directory, on as many threads as there are cores.
pub fn write(directory: &Path, scratch: &Scratch) -> Result<Vec<Finished>> {
    let shards = scratch.rows.div_ceil(scratch.shard_rows);
    let (next, threads) = (AtomicU64::new(0), crate::work::count(0));
    let work = || {
        let mut done = Vec::new();
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= shards {
                return Ok(done);
            }
            done.push((shard, write_shard(directory, scratch, shard)?));
        }
    };
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined.map(|part| part.unwrap_or(Ok(Vec::new()))).collect::<Result<Vec<_>>>()
    })?;
    let mut all: Vec<_> = parts.into_iter().flatten().collect();
    all.sort_by_key(|(shard, _)| *shard);
    Ok(all.into_iter().map(|(_, finished)| finished).collect())
}

fn write_shard(directory: &Path, scratch: &Scratch, shard: u64) -> Result<Finished> {
    let mut writer = ShardWriter::create(directory, &format!("synthetic-{shard:05}.parquet"))?;
    let first = shard * scratch.shard_rows;
    let rows = scratch.shard_rows.min(scratch.rows - first);
    let mut random = Random(mixed(scratch.seed ^ mixed(shard + 1)));
    let mut number = first;
    while number < first + rows {
        let files = random.files_of_directory().min(first + rows - number);
        let work = Work::at_random(&mut random, scratch, number);
        for place in 0..files {
            let entry = work.entry(&mut random, scratch, number + place);
            let name = work.name(&entry, place);
            writer.row(work.path.as_bytes(), name.as_bytes(), &entry)?;
        }
        number += files;
    }
    writer.finish()
}

/// A directory that a job has filled.
struct Work {
    path: String,
    uid: u32,
    project: u32,
    /// When it was written and when it was last read, in seconds.
    written_s: i64,
    read_s: i64,
    size_bytes: f64,
    osts: Vec<u32>,
}

impl Work {
    fn at_random(random: &mut Random, scratch: &Scratch, number: u64) -> Self {
        // The k-th of n owners has a share as 1/k: k is n to the power of an even number.
        let rank = f64::from(scratch.users).powf(random.even()) as u32;
        let uid = 10_000 + rank.min(scratch.users);
        let project = 500 + rank % 700;
        let written_s = scratch.as_of_s - random.age_s();
        let kept_on = (scratch.as_of_s - written_s) as f64;
        let read_s = if random.even() < 0.33 {
            written_s + (kept_on * random.even()) as i64
        } else {
            written_s
        };
        let osts = if random.even() < 0.8 { 1 } else { 4 };
        Self {
            path: format!(
                "project{project}/u{uid}/{}/run{number:010}/output",
                ["wrf", "vasp", "train"][number as usize % 3]
            ),
            uid,
            project,
            written_s,
            read_s,
            size_bytes: 2f64.powf(12.0 + 20.0 * (random.even() + random.even()) / 2.0),
            osts: (0..osts).map(|_| (random.next() % 298) as u32).collect(),
        }
    }

    fn entry(&self, random: &mut Random, scratch: &Scratch, number: u64) -> Entry {
        let kind = match random.next() % 300 {
            0..10 => FileType::Directory,
            10..13 => FileType::SymbolicLink,
            _ => FileType::Regular,
        };
        let linked = kind == FileType::Regular && random.next() % 200 == 0;
        let small = random.next() % 10 == 0;
        let size =
            if small { 4096.0 * random.even() } else { self.size_bytes * (0.5 + random.even()) };
        let size_bytes = if kind == FileType::Regular { size as u64 } else { 4096 };
        let sparse = random.next() % 100 == 0;
        let allocated_bytes = if sparse { 0 } else { size_bytes.next_multiple_of(4096) };
        let within = random.next() as i64 % (3600 * NS_PER_S);
        let written_ns = (self.written_s * NS_PER_S + within.abs()).min(scratch.as_of_s * NS_PER_S);
        let read_ns = if self.read_s > self.written_s {
            (self.read_s * NS_PER_S + within.abs() / 2).min(scratch.as_of_s * NS_PER_S)
        } else {
            written_ns
        };
        Entry {
            // Two names that follow one another are one file, where they are linked.
            id: ObjectId::Inode(if linked { 1 + number / 2 * 2 } else { 2 + number * 2 }),
            device: 0x1_0000_0002,
            uid: self.uid,
            gid: self.uid,
            project: Some(self.project),
            size_bytes,
            allocated_bytes,
            links: match kind {
                FileType::Directory => 2,
                _ if linked => 2,
                _ => 1,
            },
            times: Times {
                access_ns: Some(read_ns.max(written_ns)),
                modification_ns: Some(written_ns),
                change_ns: Some(written_ns),
                birth_ns: Some(written_ns - within.abs() / 4),
            },
            kind,
            layout: scratch
                .layout
                .then(|| Layout { stripe_count: self.osts.len() as u32, osts: self.osts.clone() }),
        }
    }

    fn name(&self, entry: &Entry, place: u64) -> String {
        match entry.kind {
            FileType::Directory => format!("part{place:05}"),
            FileType::SymbolicLink => format!("latest.{place}"),
            _ => format!("checkpoint.{:06}.{:04x}.dat", place * 250, entry.size_bytes % 65_536),
        }
    }
}

/// A generator that is the same everywhere (xorshift64* by S. Vigna).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number from 0 to below 1.
    fn even(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn files_of_directory(&mut self) -> u64 {
        10f64.powf(1.0 + 2.5 * self.even() * self.even()) as u64
    }

    fn age_s(&mut self) -> i64 {
        const DAY_S: f64 = 86_400.0;
        let age = match self.next() % 30 {
            0..6 => 5.0 * self.even(),
            6..25 => -75.0 * (1.0 - self.even()).ln(),
            _ => 180.0 + 2000.0 * self.even() * self.even(),
        };
        (age.min(4000.0) * DAY_S) as i64
    }
}

/// Spreads a small number over all bits (the finalizer of splitmix64); never 0.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Shard;

    #[test]
    fn it_is_the_same_for_the_same_seed_and_has_the_shares_it_says() {
        let directory = tempfile::tempdir().unwrap();
        let scratch =
            Scratch { rows: 30_000, shard_rows: 10_000, layout: true, ..Scratch::default() };
        let read = |scratch: &Scratch| {
            let shards = write(directory.path(), scratch).unwrap();
            assert_eq!(shards.len(), 3);
            let rows = |shard: &Finished| {
                let shard = Shard::open(&directory.path().join(&shard.name)).unwrap();
                shard.rows_from(0).unwrap().read(usize::MAX).unwrap()
            };
            shards.iter().flat_map(rows).collect::<Vec<_>>()
        };
        let rows = read(&scratch);
        assert_eq!(rows.len(), 30_000);
        assert!(rows == read(&scratch));
        assert!(rows != read(&Scratch { seed: 2, ..scratch }));
        let share = |which: fn(&Entry) -> bool| {
            rows.iter().filter(|row| which(&row.entry)).count() as f64 / rows.len() as f64
        };
        assert!((0.94..0.97).contains(&share(|entry| entry.kind == FileType::Regular)));
        assert!(share(|entry| entry.kind == FileType::Regular && entry.links == 2) > 0.001);
        assert!(rows.iter().all(|row| row.last_use_s.unwrap() <= scratch.as_of_s));
    }
}
