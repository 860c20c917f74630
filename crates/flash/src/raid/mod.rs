//! A RAID group: which pieces of its drives an operation reads and writes.
//!
//! ```text
//!  row of 8 + 2    d0 d1 d2 d3 d4 d5 d6 d7  P Q     whole row: 10 writes, no reads
//!  4 KiB of it      ▪                       ▪ ▪     3 reads of old data, then 3 writes
//! ```
//!
//! A *row* is one stripe: `data` chunks and what protects them, on as many different drives. A
//! *member* is a place in a row, 0 the first chunk of data; the layout says which drive it is on.

mod ceilings;

pub use ceilings::{Ceilings, Lanes, read_ceiling};

use crate::error::{Error, require};

/// Smallest write of ZFS.
const SECTOR_BYTES: u64 = 4096;

/// How drives become one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Declustered parity whose blocks stay where they are: a part of a row is read, modified and
    /// written back.
    GridRaid,
    /// Declustered parity under copy-on-write: a part of a row becomes a row of its own, padded to one
    /// sector on every drive at least, and nothing is read (OpenZFS, "dRAID": fixed stripe width).
    Draid,
    /// Each chunk on two drives.
    Raid10,
}

/// A group of drives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raid {
    /// How it protects its data.
    pub kind: Kind,
    /// Drives that rows are spread over; distributed spares are among them.
    pub drives: u32,
    /// Chunks of data in a row.
    pub data: u32,
    /// Chunks of parity in a row; 0 for mirrors.
    pub parity: u32,
    /// Bytes of a chunk.
    pub chunk_bytes: u64,
}

/// One access of one member of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Place in the row.
    pub member: u32,
    /// How much of it.
    pub bytes: u64,
}

/// Transfers of an operation on one row: all reads end before the writes begin.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Data needed to compute parity.
    pub reads: Vec<Piece>,
    /// Data and parity.
    pub writes: Vec<Piece>,
}

impl Raid {
    /// Checks that such a group can be.
    pub fn check(&self) -> Result<(), Error> {
        let drives = (1..=1024).contains(&self.drives);
        require(drives, "drives", self.drives, "a group has 1 to 1,024 drives")?;
        require(self.data > 0, "data", 0, "a stripe has at least one chunk of data")?;
        let fits = self.width() <= u64::from(self.drives);
        require(fits, "drives", self.drives, "a stripe has each chunk on another drive")?;
        let parity = self.kind != Kind::Raid10 || self.parity == 0;
        require(parity, "parity", self.parity, "mirrors have no parity: must be 0")?;
        let chunk = (SECTOR_BYTES..=1 << 30).contains(&self.chunk_bytes);
        require(chunk, "chunk_bytes", self.chunk_bytes as f64, "a chunk has 4 KiB to 1 GiB")
    }

    /// Returns the number of drives that hold one row.
    pub fn width(&self) -> u64 {
        match self.kind {
            Kind::Raid10 => 2 * u64::from(self.data),
            Kind::GridRaid | Kind::Draid => u64::from(self.data) + u64::from(self.parity),
        }
    }

    /// Drives of a row that may be lost without loss of data, whichever they are.
    pub fn losses(&self) -> u32 {
        if self.kind == Kind::Raid10 { 1 } else { self.parity }
    }

    /// Bytes of data in one row.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.data) * self.chunk_bytes
    }

    /// Returns what writing the first `bytes` of a row does to its members.
    ///
    /// `lost` says which members are on drives that failed: they are neither read nor written, and
    /// what they held is computed from the others.
    pub fn write(&self, bytes: u64, lost: impl Fn(u32) -> bool) -> Plan {
        let bytes = bytes.min(self.row_bytes());
        let mut plan = match self.kind {
            Kind::GridRaid => self.parity_in_place(bytes, &lost),
            Kind::Draid => self.padded(bytes),
            Kind::Raid10 => self.mirrored(bytes),
        };
        plan.writes.retain(|piece| !lost(piece.member));
        plan
    }

    /// Returns what reading the first `bytes` of one chunk touches, when its drive failed or not.
    pub fn read(&self, bytes: u64, lost: impl Fn(u32) -> bool) -> Vec<Piece> {
        let bytes = bytes.min(self.chunk_bytes);
        if !lost(0) {
            return vec![Piece { member: 0, bytes }];
        }
        match self.kind {
            Kind::Raid10 => vec![Piece { member: 1, bytes }],
            Kind::GridRaid | Kind::Draid => self.others(bytes, &lost),
        }
    }

    fn parity_in_place(&self, bytes: u64, lost: &impl Fn(u32) -> bool) -> Plan {
        let touched = self.touched(bytes);
        let height = bytes.min(self.chunk_bytes);
        let mut writes = touched.clone();
        let parities = self.data..self.data + self.parity;
        writes.extend(parities.map(|member| Piece { member, bytes: height }));
        let reads = if bytes == self.row_bytes() || self.parity == 0 {
            Vec::new()
        } else {
            self.old(&touched, &writes, height, lost)
        };
        Plan { reads, writes }
    }

    /// Returns what must be read to compute parity: the smaller of two ways, if both are possible.
    fn old(
        &self,
        touched: &[Piece],
        writes: &[Piece],
        height: u64,
        lost: &impl Fn(u32) -> bool,
    ) -> Vec<Piece> {
        // Modify: old data and old parity, to take the one out of the other. A parity that is lost
        // is not kept up.
        let modify: Vec<Piece> = writes
            .iter()
            .copied()
            .filter(|piece| piece.member < self.data || !lost(piece.member))
            .collect();
        // Reconstruct: all of the row that stays as it is.
        let mut rest: Vec<Piece> = touched
            .iter()
            .filter(|piece| piece.bytes < height)
            .map(|piece| Piece { member: piece.member, bytes: height - piece.bytes })
            .collect();
        let untouched = touched.len() as u32..self.data;
        rest.extend(untouched.map(|member| Piece { member, bytes: height }));
        let open = |way: &[Piece]| !way.iter().any(|piece| lost(piece.member));
        match (open(&modify), open(&rest)) {
            (true, true) if modify.len() <= rest.len() => modify,
            (_, true) => rest,
            (true, false) => modify,
            (false, false) => self.others(height, lost),
        }
    }

    /// Returns as many members as there are chunks of data, none of them lost: the rest follows
    /// from them.
    fn others(&self, bytes: u64, lost: &impl Fn(u32) -> bool) -> Vec<Piece> {
        (0..self.data + self.parity)
            .filter(|member| !lost(*member))
            .take(self.data as usize)
            .map(|member| Piece { member, bytes })
            .collect()
    }

    /// Every row has its full width: what data do not fill is written as zeros.
    fn padded(&self, bytes: u64) -> Plan {
        let each = bytes.div_ceil(SECTOR_BYTES).div_ceil(self.data.into()) * SECTOR_BYTES;
        let members = 0..self.width() as u32;
        let writes = members.map(|member| Piece { member, bytes: each }).collect();
        Plan { reads: Vec::new(), writes }
    }

    fn mirrored(&self, bytes: u64) -> Plan {
        let twice = |piece: Piece| {
            [0, 1].map(|copy| Piece { member: 2 * piece.member + copy, bytes: piece.bytes })
        };
        Plan {
            reads: Vec::new(),
            writes: self.touched(bytes).into_iter().flat_map(twice).collect(),
        }
    }

    /// Chunks of data that hold the first `bytes` of a row.
    fn touched(&self, bytes: u64) -> Vec<Piece> {
        let chunks = bytes.div_ceil(self.chunk_bytes);
        (0..chunks)
            .map(|chunk| Piece {
                member: chunk as u32,
                bytes: self.chunk_bytes.min(bytes - chunk * self.chunk_bytes),
            })
            .collect()
    }
}
