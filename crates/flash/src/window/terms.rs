//! Terms of a simulated window: group, load and assumptions.

use super::throttle::Class;
use crate::error::{Error, require};
use crate::raid::{Ceilings, Raid};

/// How a drive collects. None of it is published by makers: bounds are in the comments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Collection {
    /// Bytes that are erased at once: 1 to 10 GB, from 256 dies of two planes with blocks of 18 MiB;
    /// a controller may use fewer dies.
    pub superblock_bytes: f64,
    /// 0 to 1: what an episode takes from the host beyond what it must, so that the debt falls.
    /// Drives for servers spread their copies evenly to keep latencies steady: near 0.
    pub urgency: f64,
    /// Seconds that the drive copies without serving a write in between: milliseconds, as the
    /// telemetry of drives in production showed; here as long as an erase.
    pub slice_s: f64,
    /// Probability that a read in such a slice has to wait for its end.
    pub slice_hit: f64,
    /// Seconds of an erase (tBERS): 3.5 to 5 ms for planar TLC.
    pub erase_s: f64,
    /// Probability that a read in that time is for a die that erases and does not suspend it.
    pub erase_hit: f64,
    /// Seconds without work after which a drive copies by itself. If that is shorter than a slice,
    /// drives that wait for another one collect at the same time, and collection costs the group
    /// hardly more than it costs one drive.
    pub idle_s: f64,
}

impl Default for Collection {
    fn default() -> Self {
        Self {
            superblock_bytes: (1_u64 << 30) as f64,
            urgency: 0.1,
            slice_s: 0.0035,
            slice_hit: 1.0,
            erase_s: 0.0035,
            erase_hit: 0.05,
            idle_s: 0.1,
        }
    }
}

/// Writeback throttling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Throttling {
    /// Target for the shortest read of a window: 2 ms for a drive that does not rotate.
    pub target_s: f64,
    /// Class of the RAID layer's writes.
    pub class: Class,
}

/// Load of the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Bytes of one operation.
    pub transfer_bytes: u64,
    /// Operations that are outstanding at a time, at the most.
    pub depth: u32,
    /// Operations a second that come by chance; `None`: each follows on another, always `depth` of
    /// them outstanding.
    pub operations_per_s: Option<f64>,
    /// Part of the operations that reads.
    pub read_share: f64,
    /// Other reads a second of the group, by chance: bitmaps, journal, users.
    pub reads_per_s: f64,
    /// Bytes of a read of either kind, of one chunk.
    pub read_bytes: u64,
}

/// One window.
#[derive(Debug, Clone, PartialEq)]
pub struct Terms {
    /// The group.
    pub raid: Raid,
    /// Each of its drives.
    pub drive: Ceilings,
    /// Write amplification: bytes programmed to flash per byte of the host.
    pub amplification: f64,
    /// How drives collect.
    pub collection: Collection,
    /// Seconds from the end of a write's turn to its acknowledgement.
    pub write_latency_s: f64,
    /// Seconds of a read that meets nothing: tR and the way through the controller.
    pub read_latency_s: f64,
    /// `None`: it is off.
    pub throttling: Option<Throttling>,
    /// Requests that one drive's queue holds (`nr_requests`).
    pub queue_depth: u32,
    /// Threads that hand the group's requests down; one that is held back for one drive hands down
    /// nothing for the others either.
    pub submitters: u32,
    /// Seconds of a thread's time that an operation takes, one after another in the whole group.
    pub serial_s: f64,
    /// Load on the group.
    pub load: Load,
    /// A drive, and the part of its speed that is left.
    pub slow_drive: Option<(u32, f64)>,
    /// Drives that failed and were not rebuilt yet: the last ones.
    pub failed_drives: u32,
    /// Part of every drive's speed that goes into rebuilding.
    pub rebuild_share: f64,
    /// Seconds before anything is counted.
    pub warm_s: f64,
    /// Seconds that are counted.
    pub duration_s: f64,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Terms {
    /// Checks that it can be simulated.
    pub fn check(&self) -> Result<(), Error> {
        self.raid.check()?;
        self.check_drive()?;
        self.check_load()?;
        let failed = f64::from(self.failed_drives);
        let bearable = self.failed_drives <= self.raid.losses();
        require(bearable, "failed_drives", failed, "so many failures lose data")?;
        let suffices = self.raid.drives - self.failed_drives >= self.raid.data;
        require(suffices, "failed_drives", failed, "too few drives are left")?;
        if let Some((number, factor)) = self.slow_drive {
            require(number < self.raid.drives, "slow_drive", number, "no such drive in the group")?;
            over("slow_drive's factor", factor, 1.0)?;
        }
        within("rebuild_share", self.rebuild_share, 0.0, 0.99)
    }

    fn check_drive(&self) -> Result<(), Error> {
        over("write_bytes_per_s", self.drive.write_bytes_per_s, 1e12)?;
        over("read_bytes_per_s", self.drive.read_bytes_per_s, 1e12)?;
        over("write_iops", self.drive.write_iops, 1e9)?;
        over("read_iops", self.drive.read_iops, 1e9)?;
        within("amplification", self.amplification, 1.0, 100.0)?;
        let collection = self.collection;
        within("superblock_bytes", collection.superblock_bytes, 65536.0, 1e12)?;
        within("urgency", collection.urgency, 0.0, 1.0)?;
        within("slice_s", collection.slice_s, 1e-5, 10.0)?;
        within("slice_hit", collection.slice_hit, 0.0, 1.0)?;
        within("erase_s", collection.erase_s, 0.0, 1.0)?;
        within("erase_hit", collection.erase_hit, 0.0, 1.0)?;
        within("idle_s", collection.idle_s, 0.0, 10.0)?;
        within("write_latency_s", self.write_latency_s, 0.0, 1.0)?;
        within("read_latency_s", self.read_latency_s, 0.0, 1.0)?;
        if let Some(throttling) = self.throttling {
            over("throttle_target_s", throttling.target_s, 10.0)?;
        }
        within("queue_depth", self.queue_depth.into(), 1.0, 65536.0)?;
        within("submitters", self.submitters.into(), 1.0, 65536.0)?;
        within("serial_s", self.serial_s, 0.0, 1.0)
    }

    fn check_load(&self) -> Result<(), Error> {
        let load = self.load;
        within("transfer_bytes", load.transfer_bytes as f64, 1.0, (1_u64 << 30) as f64)?;
        within("read_bytes", load.read_bytes as f64, 1.0, self.raid.chunk_bytes as f64)?;
        within("depth", load.depth.into(), 1.0, 65536.0)?;
        if let Some(rate) = load.operations_per_s {
            over("operations_per_s", rate, 1e8)?;
        }
        within("read_share", load.read_share, 0.0, 1.0)?;
        within("reads_per_s", load.reads_per_s, 0.0, 1e8)?;
        within("warm_s", self.warm_s, 0.0, 600.0)?;
        within("duration_s", self.duration_s, 0.001, 600.0)
    }
}

fn over(name: &'static str, value: f64, most: f64) -> Result<(), Error> {
    let holds = value > 0.0 && value <= most;
    require(holds, name, value, "must be above 0 and within the possible range")
}

fn within(name: &'static str, value: f64, least: f64, most: f64) -> Result<(), Error> {
    require(value >= least && value <= most, name, value, "outside the possible range")
}
