//! The index of a scratch file system that does not exist, as large as one likes.
//!
//! For benchmarks and for showing what a purge would do at a site of 36 PB before it is scanned.
//! The mix is that of an HPC scratch in its shares, not a measurement of one:
//!
//! - a heavy tail of users: the share of the k-th falls as 1/k, so a few own most files;
//! - directories of some tens to thousands of files, each of one owner and one time of work, since a job
//!   writes its output at once;
//! - sizes over ten powers of two around a few MiB, a tenth of them small files, one in a hundred sparse;
//! - ages: a fifth was used within days, most fall off exponentially over months, a sixth is old
//!   bulk of up to six years that was never used again; reads come later than the writing for a
//!   third of the directories;
//! - one name in thirty is a directory, one in a hundred a link; one file in two hundred has a second name;
//! - where layouts are known, one directory in eight is in a pool of the first 32 of 298 OSTs.
//!
//! The amount, the owners and the ages can be set otherwise, for a site that is known better.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::entry::{Entry, FileType, Layout, NS_PER_S, ObjectId, Times};
use crate::error::Result;
use crate::index::{Finished, ShardWriter};
use crate::work::on_threads;

/// How old files are.
#[derive(Clone, Debug, PartialEq)]
pub enum Ages {
    /// As described above.
    Usual,
    /// Files that remain of those written at an even rate and deleted by their owners.
    Kept {
        /// The kinds of them.
        lives: Vec<Life>,
        /// When the file system was opened: nothing is older.
        oldest_days: f64,
    },
}

/// Files that are kept for about as long.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Life {
    /// Their share of the existing files; over all kinds together it need not be 1.
    pub share: f64,
    /// How long a file is kept on average, which is also the mean age of existing files.
    pub mean_days: f64,
}

/// Scratch file system to make.
#[derive(Clone, Debug)]
pub struct Scratch {
    /// How many names.
    pub rows: u64,
    /// How many names a shard has at most.
    pub shard_rows: u64,
    /// How many users own them.
    pub users: u32,
    /// How many users at the top own about the same each: shares fall as 1 / (this + k). With 0
    /// they fall as 1/k, from the first on.
    pub even_users: u32,
    /// Allocated bytes of all files together, about; `None`: the sum of their usual sizes.
    pub allocated_bytes: Option<u64>,
    /// How long ago files were written.
    pub ages: Ages,
    /// The share of the directories that were read after they were written.
    pub reread_share: f64,
    /// The second at which the scan ended.
    pub as_of_s: i64,
    /// Whether the OSTs of each file are known.
    pub layout: bool,
    /// Another seed makes another file system.
    pub seed: u64,
}

impl Scratch {
    /// Returns the factor by which files are larger than usual.
    fn size_factor(&self) -> f64 {
        // 287 of 300 names are files, of which a tenth is small and a hundredth sparse; the mean of
        // 2 to the power of 12 + 10 (a + b), a and b even from 0 to 1, is an integral.
        let root = 1023.0 / (10.0 * std::f64::consts::LN_2);
        let row_bytes = 287.0 / 300.0 * 0.99 * (0.9 * 4096.0 * root * root + 0.1 * 4096.0);
        self.allocated_bytes.map_or(1.0, |bytes| bytes as f64 / self.rows as f64 / row_bytes)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            rows: 1_000_000,
            shard_rows: 4_000_000,
            users: 5000,
            even_users: 0,
            allocated_bytes: None,
            ages: Ages::Usual,
            reread_share: 0.33,
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
    let work = |_| {
        let mut done = Vec::new();
        loop {
            let shard = next.fetch_add(1, Ordering::Relaxed);
            if shard >= shards {
                return Ok(done);
            }
            done.push((shard, write_shard(directory, scratch, shard)?));
        }
    };
    let parts = on_threads(0..threads, work).into_iter().collect::<Result<Vec<_>>>()?;
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
    pool: Option<Arc<[u8]>>,
}

impl Work {
    fn at_random(random: &mut Random, scratch: &Scratch, number: u64) -> Self {
        let rank = random.rank(scratch);
        let uid = 10_000 + rank.min(scratch.users);
        let project = 500 + rank % 700;
        let written_s = scratch.as_of_s - random.age_s(&scratch.ages);
        let kept_on = (scratch.as_of_s - written_s) as f64;
        let read_s = if random.even() < scratch.reread_share {
            written_s + (kept_on * random.even()) as i64
        } else {
            written_s
        };
        let osts = if random.even() < 0.8 { 1 } else { 4 };
        // By its number: one draw more would make all that follows another file system.
        let pool: Option<Arc<[u8]>> = (number % 8 == 0).then(|| Arc::from(&b"flash"[..]));
        let among = if pool.is_some() { 32 } else { 298 };
        Self {
            path: format!(
                "project{project}/u{uid}/{}/run{number:010}/output",
                ["wrf", "vasp", "train"][number as usize % 3]
            ),
            uid,
            project,
            written_s,
            read_s,
            size_bytes: scratch.size_factor()
                * 2f64.powf(12.0 + 20.0 * (random.even() + random.even()) / 2.0),
            osts: (0..osts).map(|_| (random.next() % among) as u32).collect(),
            pool,
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
        let mut entry = Entry {
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
            ..Entry::default()
        };
        entry.layout = scratch.layout.then(|| Layout {
            stripe_count: self.osts.len() as u32,
            osts: self.osts.clone(),
            pool: self.pool.clone(),
        });
        entry
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

    /// The rank of an owner, from 0 or 1 on.
    fn rank(&mut self, scratch: &Scratch) -> u32 {
        let (users, even) = (f64::from(scratch.users), f64::from(scratch.even_users));
        // Shares as 1/k up to n: k is n to the power of an even number. With the curve begun
        // further right, as 1 / (even + k): the same, moved back.
        let rank = match scratch.even_users {
            0 => users.powf(self.even()),
            _ => even * ((users + even) / even).powf(self.even()) - even,
        };
        rank as u32
    }

    fn age_s(&mut self, ages: &Ages) -> i64 {
        const DAY_S: f64 = 86_400.0;
        let age = match ages {
            Ages::Usual => match self.next() % 30 {
                0..6 => 5.0 * self.even(),
                6..25 => -75.0 * (1.0 - self.even()).ln(),
                _ => 180.0 + 2000.0 * self.even() * self.even(),
            },
            Ages::Kept { lives, oldest_days } => self.age_days(lives, *oldest_days),
        };
        (age.min(4000.0) * DAY_S) as i64
    }

    /// At an even rate of writing, and with lives that end by chance, ages are spread as lives are.
    fn age_days(&mut self, lives: &[Life], oldest_days: f64) -> f64 {
        let all: f64 = lives.iter().map(|life| life.share).sum();
        let mut place = self.even() * all;
        let mut mean_days = oldest_days;
        for life in lives {
            mean_days = life.mean_days;
            place -= life.share;
            if place < 0.0 {
                break;
            }
        }
        let reached = 1.0 - (-oldest_days / mean_days).exp();
        -mean_days * (1.0 - reached * self.even()).ln()
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
        let pooled = |entry: &Entry| entry.layout.as_ref().is_some_and(|one| one.pool.is_some());
        assert!((0.01..0.5).contains(&share(pooled)));
        let of_flash = rows.iter().filter(|row| pooled(&row.entry));
        let mut osts = of_flash.flat_map(|row| &row.entry.layout.as_ref().unwrap().osts);
        assert!(osts.all(|ost| *ost < 32));
    }

    fn rows_of(scratch: &Scratch) -> Vec<crate::index::Row> {
        let directory = tempfile::tempdir().unwrap();
        let shards = write(directory.path(), scratch).unwrap();
        let read = |shard: &Finished| {
            let shard = Shard::open(&directory.path().join(&shard.name)).unwrap();
            shard.rows_from(0).unwrap().read(usize::MAX).unwrap()
        };
        shards.iter().flat_map(read).collect()
    }

    #[test]
    fn it_takes_up_what_was_asked_for() {
        // A few thousand directories of sizes over six powers of ten: the sum of so many still differs.
        let bytes = 10u64.pow(15);
        let scratch =
            Scratch { rows: 1_000_000, allocated_bytes: Some(bytes), ..Scratch::default() };
        let files = rows_of(&scratch);
        let regular = files.iter().filter(|row| row.entry.kind == FileType::Regular);
        let taken: u64 = regular.map(|row| row.entry.allocated_bytes).sum();
        assert!((taken as f64 / bytes as f64 - 1.0).abs() < 0.2, "{taken}");
    }

    #[test]
    fn ages_are_those_of_lives_that_end_by_chance() {
        let lives =
            vec![Life { share: 1.0, mean_days: 2.0 }, Life { share: 3.0, mean_days: 300.0 }];
        let ages = Ages::Kept { lives, oldest_days: 600.0 };
        let scratch = Scratch { rows: 300_000, reread_share: 0.0, ages, ..Scratch::default() };
        let files = rows_of(&scratch);
        let older = |days: i64| {
            let before_s = scratch.as_of_s - days * 86_400;
            let old = files.iter().filter(|row| row.last_use_s.unwrap() < before_s).count();
            old as f64 / files.len() as f64
        };
        // The long-lived three quarters fall as e^-1 to the power of days / 300, cut off at 600.
        let expected = |days: f64| {
            let end = (-2.0f64).exp();
            0.75 * ((-days / 300.0).exp() - end) / (1.0 - end)
        };
        for days in [30, 150, 300, 450] {
            let (seen, wanted) = (older(days), expected(days as f64));
            assert!((seen - wanted).abs() < 0.04, "{days} d: {seen} instead of {wanted}");
        }
        assert_eq!(older(601), 0.0);
    }

    #[test]
    fn nobody_stands_out_where_many_own_the_same() {
        let scratch = Scratch { rows: 300_000, users: 1000, even_users: 100, ..Scratch::default() };
        let files = rows_of(&scratch);
        let of = |low: u32, high: u32| {
            let range = 10_000 + low..10_000 + high;
            files.iter().filter(|row| range.contains(&row.entry.uid)).count() as f64
                / files.len() as f64
        };
        // ln((100 + k) / 100) / ln(11) belongs to the first k.
        assert!((of(0, 100) - 0.289).abs() < 0.05, "{}", of(0, 100));
        assert!((of(100, 1001) - 0.711).abs() < 0.05, "{}", of(100, 1001));
        assert!(of(0, 1) < 0.03);
    }
}
