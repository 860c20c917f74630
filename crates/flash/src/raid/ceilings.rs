//! What a group can do at most: no queue, no collection, every drive busy all the time.

use super::{Piece, Raid};

/// What a drive does at most, as its data sheet says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceilings {
    /// Large sequential writes.
    pub write_bytes_per_s: f64,
    /// Large sequential reads.
    pub read_bytes_per_s: f64,
    /// Small random writes.
    pub write_iops: f64,
    /// Small random reads.
    pub read_iops: f64,
}

impl Ceilings {
    /// Seconds that a write of so many bytes keeps the drive busy.
    #[must_use]
    pub fn write_s(&self, bytes: u64) -> f64 {
        (bytes as f64 / self.write_bytes_per_s).max(1.0 / self.write_iops)
    }

    /// Seconds that a read of so many bytes keeps the drive busy.
    #[must_use]
    pub fn read_s(&self, bytes: u64) -> f64 {
        (bytes as f64 / self.read_bytes_per_s).max(1.0 / self.read_iops)
    }

    /// The same drive with a part of its speed.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            write_bytes_per_s: self.write_bytes_per_s * factor,
            read_bytes_per_s: self.read_bytes_per_s * factor,
            write_iops: self.write_iops * factor,
            read_iops: self.read_iops * factor,
        }
    }
}

impl Raid {
    /// Bytes of data a second that a group of healthy drives takes in writes of `transfer_bytes`.
    ///
    /// A drive's reads and writes do not get in each other's way here: it does as many as the busier
    /// of the two allows.
    #[must_use]
    pub fn write_ceiling(&self, drive: Ceilings, transfer_bytes: u64) -> f64 {
        let (mut reading_s, mut writing_s) = (0.0, 0.0);
        for bytes in self.rows(transfer_bytes) {
            let plan = self.write(bytes, |_| false);
            let sum = |pieces: &[Piece], cost: &dyn Fn(u64) -> f64| -> f64 {
                pieces.iter().map(|piece| cost(piece.bytes)).sum()
            };
            reading_s += sum(&plan.reads, &|bytes| drive.read_s(bytes));
            writing_s += sum(&plan.writes, &|bytes| drive.write_s(bytes));
        }
        transfer_bytes as f64 * f64::from(self.drives) / reading_s.max(writing_s)
    }

    /// Bytes of each row that a transfer writes, whole rows first.
    pub fn rows(&self, transfer_bytes: u64) -> impl Iterator<Item = u64> {
        let (row, rest) = (self.row_bytes(), transfer_bytes % self.row_bytes());
        (0..transfer_bytes / row).map(move |_| row).chain((rest > 0).then_some(rest))
    }
}

/// PCIe lanes between one controller and the slot of one drive.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lanes {
    /// Bytes a second over one slot to one controller: 7 GiB/s for two lanes of PCIe 5.0.
    pub slot_bytes_per_s: f64,
    /// Controllers that use a drive at the same time: 2 when each serves an OST on a part of it.
    pub controllers: u32,
}

/// Bytes a second that a drive gives to the controllers that use it, at most.
#[must_use]
pub fn slot_bytes_per_s(drive_bytes_per_s: f64, lanes: Lanes) -> f64 {
    drive_bytes_per_s.min(lanes.slot_bytes_per_s * f64::from(lanes.controllers))
}

/// Bytes a second read from one OST of several that share their drives and are all busy.
///
/// E2000: 32 drives, 4 OSTs of 16 halves each, both controllers on every drive.
#[must_use]
pub fn read_ceiling(drive: Ceilings, drives: u32, shared: u32, lanes: Lanes) -> f64 {
    let all = f64::from(drives) * slot_bytes_per_s(drive.read_bytes_per_s, lanes);
    all / f64::from(shared.max(1))
}
