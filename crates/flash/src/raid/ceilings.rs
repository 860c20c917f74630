//! Upper limits of a group: no queue, no collection, every drive busy all the time.

use super::{Piece, Raid};

/// Upper limits of a drive, from its data sheet.
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
    pub fn write_s(&self, bytes: u64) -> f64 {
        (bytes as f64 / self.write_bytes_per_s).max(1.0 / self.write_iops)
    }

    /// Seconds that a read of so many bytes keeps the drive busy.
    pub fn read_s(&self, bytes: u64) -> f64 {
        (bytes as f64 / self.read_bytes_per_s).max(1.0 / self.read_iops)
    }

    /// The same drive with a part of its speed.
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

/// Bytes a second read from one OST of several that share their drives and are all busy.
///
/// E2000: 32 drives, 4 OSTs of 16 halves each, both controllers on every drive.
pub fn read_ceiling(drive_bytes_per_s: f64, drives: u32, shared: u32, lanes: Lanes) -> f64 {
    let slot_bytes_per_s = lanes.slot_bytes_per_s * f64::from(lanes.controllers);
    let all = f64::from(drives) * drive_bytes_per_s.min(slot_bytes_per_s);
    all / f64::from(shared.max(1))
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    const PM1733: Ceilings = Ceilings {
        write_bytes_per_s: 3.2e9,
        read_bytes_per_s: 3.5e9,
        write_iops: 135e3,
        read_iops: 800e3,
    };

    fn e1000() -> Raid {
        Raid { kind: Kind::GridRaid, drives: 12, data: 8, parity: 2, chunk_bytes: 128 << 10 }
    }

    fn close(actual: f64, expected: f64) {
        assert!((actual / expected - 1.0).abs() < 1e-9, "{actual} is not {expected}");
    }

    #[test]
    fn whole_stripes_cost_their_parity_and_4_kib_three_reads_and_three_writes() {
        close(e1000().write_ceiling(PM1733, 1 << 20), 12.0 * 3.2e9 * 0.8);
        // 12 x 135,000 writes, three of them for each of the host.
        close(e1000().write_ceiling(PM1733, 4096), 12.0 * 135e3 / 3.0 * 4096.0);
        let draid = Raid { kind: Kind::Draid, ..e1000() };
        close(draid.write_ceiling(PM1733, 4096), 12.0 * 135e3 / 10.0 * 4096.0);
        let mirrors = Raid { kind: Kind::Raid10, data: 5, parity: 0, ..e1000() };
        close(mirrors.write_ceiling(PM1733, 4096), 12.0 * 135e3 / 2.0 * 4096.0);
    }

    #[test]
    fn a_slot_caps_what_one_controller_reads_and_two_take_what_the_drive_has() {
        let gib = f64::from(1_u32 << 30);
        let lanes = |controllers| Lanes { slot_bytes_per_s: 7.0 * gib, controllers };
        // E2000: two OSTs of 16 drives for one controller each, then four that share 32 drives.
        close(2.0 * read_ceiling(14e9, 16, 1, lanes(1)), 2.0 * 16.0 * 7.0 * gib);
        close(4.0 * read_ceiling(14e9, 32, 4, lanes(2)), 32.0 * 14e9);
    }
}
