//! Which MDT of a Lustre answers for a name.
//!
//! A directory lists each name with an inode number, which is the FID of the file, flattened; so the
//! FID is known before anything is asked. An MDT hands out FIDs of sequences of its own, and which
//! sequence is whose the client knows, or learns once.
//!
//! `LL_IOC_FID2MDTIDX` of `lustre_user.h`; `fid_flatten` and `lu_igif_ino` of `lustre_fid.h`.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{PoisonError, RwLock};

use crate::system::mdt_of;

/// Number of MDTs that are kept apart; others share with these.
pub const MDTS: usize = 256;
/// Lower numbers are inodes of a file system from before FIDs, which had one MDT.
const FIRST_OF_SEQUENCES: u64 = 1 << 32;
const OBJECT_BITS: u32 = 24;

/// Asks the client of a mounted Lustre, and remembers what it says.
#[derive(Debug)]
pub struct Mdts {
    mount: OwnedFd,
    of_sequences: RwLock<HashMap<u64, u16>>,
}

impl Mdts {
    /// Opens the Lustre of a directory.
    pub fn new(directory: BorrowedFd<'_>) -> std::io::Result<Self> {
        Ok(Self { mount: directory.try_clone_to_owned()?, of_sequences: RwLock::default() })
    }

    /// The MDT of an inode number; the first if it is unknown, so that unknown ones count together.
    pub fn of_inode(&self, inode: u64) -> u16 {
        let Some(sequence) = sequence_of(inode) else { return 0 };
        let known = self.of_sequences.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(mdt) = known.get(&sequence) {
            return *mdt;
        }
        drop(known);
        let object = (inode & ((1 << OBJECT_BITS) - 1)) as u32;
        let index = mdt_of(self.mount.as_fd(), sequence, object).unwrap_or(0);
        let mdt = (index as usize % MDTS) as u16;
        self.of_sequences.write().unwrap_or_else(PoisonError::into_inner).insert(sequence, mdt);
        mdt
    }
}

/// The sequence of the FID behind an inode number: it is whole in the upper 40 bits, as far as
/// sequences have been handed out.
fn sequence_of(inode: u64) -> Option<u64> {
    (inode >= FIRST_OF_SEQUENCES).then_some(inode >> OBJECT_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Inode numbers and FIDs that Lustre 2.17 printed of the same files.
    #[test]
    fn a_sequence_is_read_from_an_inode_number() {
        assert_eq!(sequence_of(144_115_205_289_279_832), Some(0x2_0000_0402));
        assert_eq!(sequence_of(144_115_188_193_296_385), Some(0x2_0000_0007));
        assert_eq!(sequence_of(12), None);
    }

    #[test]
    fn what_no_client_tells_is_of_the_first() {
        let root = std::fs::File::open("/").unwrap();
        let mdts = Mdts::new(root.as_fd()).unwrap();
        assert_eq!([0, 12, 144_115_205_289_279_832].map(|inode| mdts.of_inode(inode)), [0; 3]);
    }
}
