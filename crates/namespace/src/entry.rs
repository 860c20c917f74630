//! Metadata of one name: plain values that go from the walk to the index and to a check.

use std::sync::Arc;

use rustix::fs::{FileType as SystemType, Mode, Statx};

/// Nanoseconds in a second.
pub const NS_PER_S: i64 = 1_000_000_000;

/// Type of the object behind a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileType {
    /// A file with data.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A symbolic link, never followed.
    SymbolicLink = 3,
    /// A named pipe.
    Fifo = 4,
    /// A socket.
    Socket = 5,
    /// A block device.
    BlockDevice = 6,
    /// A character device.
    CharacterDevice = 7,
    /// Something else, or the source does not say.
    #[default]
    Unknown = 8,
}

impl FileType {
    /// The type in the mode of a `stat`.
    pub fn of_mode(mode: u32) -> Self {
        match SystemType::from_raw_mode(mode) {
            SystemType::RegularFile => Self::Regular,
            SystemType::Directory => Self::Directory,
            SystemType::Symlink => Self::SymbolicLink,
            SystemType::Fifo => Self::Fifo,
            SystemType::Socket => Self::Socket,
            SystemType::BlockDevice => Self::BlockDevice,
            SystemType::CharacterDevice => Self::CharacterDevice,
            SystemType::Unknown => Self::Unknown,
        }
    }

    /// Every type with its letter.
    const LETTERS: [(Self, u8); 8] = [
        (Self::Regular, b'f'),
        (Self::Directory, b'd'),
        (Self::SymbolicLink, b'l'),
        (Self::Fifo, b'p'),
        (Self::Socket, b's'),
        (Self::BlockDevice, b'b'),
        (Self::CharacterDevice, b'c'),
        (Self::Unknown, b'?'),
    ];

    /// The letter that `find -printf %y` prints, which the index keeps.
    pub fn letter(self) -> u8 {
        Self::LETTERS[self as usize - 1].1
    }

    /// The type of a letter in the index.
    pub fn of_letter(letter: u8) -> Self {
        let known = Self::LETTERS.iter().find(|(_, of_type)| *of_type == letter);
        known.map_or(Self::Unknown, |(kind, _)| *kind)
    }
}

/// Identity of an object, whatever its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ObjectId {
    /// An inode number; it may be used again once the file is gone, so the birth time goes with it.
    Inode(u64),
    /// A Lustre file identifier, never used again.
    Fid {
        /// Which sequence it was taken from.
        sequence: u64,
        /// Its number within the sequence.
        object: u32,
        /// 0 for everything that a client sees.
        version: u32,
    },
}

impl Default for ObjectId {
    /// An identity that no file has.
    fn default() -> Self {
        Self::Inode(0)
    }
}

impl ObjectId {
    /// The 16 bytes that the index keeps, big-endian, so that they sort as the numbers do.
    pub fn to_bytes(self) -> [u8; 16] {
        match self {
            Self::Inode(number) => u128::from(number).to_be_bytes(),
            Self::Fid { sequence, object, version } => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&sequence.to_be_bytes());
                bytes[8..12].copy_from_slice(&object.to_be_bytes());
                bytes[12..].copy_from_slice(&version.to_be_bytes());
                bytes
            }
        }
    }

    /// The identity that 16 bytes of the index stand for.
    pub fn of_bytes(bytes: [u8; 16], fid: bool) -> Self {
        let number = u128::from_be_bytes(bytes);
        if fid {
            let (sequence, object) = ((number >> 64) as u64, (number >> 32) as u32);
            return Self::Fid { sequence, object, version: number as u32 };
        }
        Self::Inode(number as u64)
    }
}

/// The times of a file, in nanoseconds since 1970; a time that the source lacks is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Times {
    /// Last read, as far as clients record it.
    pub access_ns: Option<i64>,
    /// Last change of the data; its owner can set it to anything.
    pub modification_ns: Option<i64>,
    /// Last change of data or inode; no user can set it.
    pub change_ns: Option<i64>,
    /// When the inode was made; no user can set it.
    pub birth_ns: Option<i64>,
}

/// Location of a file's data on Lustre.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The number of OSTs that the layout asks for; 0 where nothing was written yet.
    pub stripe_count: u32,
    /// The index of each OST that holds an object, in the order of the stripes.
    pub osts: Vec<u32>,
    /// The pool that its OSTs were to be of, as its layout names it: up to 15 bytes that are not
    /// trusted, never none of them. The same name is held once for many files.
    pub pool: Option<Arc<[u8]>>,
}

/// Metadata of one name: from `statx`, and what was requested besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Which object it is.
    pub id: ObjectId,
    /// The device number of its file system, as `st_dev`.
    pub device: u64,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its project, where it was asked for and there is one.
    pub project: Option<u32>,
    /// Its length; sparse files allocate less.
    pub size_bytes: u64,
    /// Allocated bytes: 512 times `st_blocks`.
    pub allocated_bytes: u64,
    /// How many names it has.
    pub links: u32,
    /// When it was used and changed.
    pub times: Times,
    /// Its type.
    pub kind: FileType,
    /// The location of its data, where requested and known to the file system.
    pub layout: Option<Layout>,
}

impl Entry {
    /// The entry that a `statx` describes; a time that its mask leaves out is `None`.
    pub fn of_statx(stat: &Statx) -> Self {
        let time = |known: bool, time: rustix::fs::StatxTimestamp| {
            known.then(|| time.tv_sec.saturating_mul(NS_PER_S).saturating_add(time.tv_nsec.into()))
        };
        let mask = rustix::fs::StatxFlags::from_bits_retain(stat.stx_mask);
        use rustix::fs::StatxFlags as Has;
        Self {
            id: ObjectId::Inode(stat.stx_ino),
            device: rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor),
            uid: stat.stx_uid,
            gid: stat.stx_gid,
            size_bytes: stat.stx_size,
            allocated_bytes: stat.stx_blocks.saturating_mul(512),
            links: stat.stx_nlink,
            times: Times {
                access_ns: time(mask.contains(Has::ATIME), stat.stx_atime),
                modification_ns: time(mask.contains(Has::MTIME), stat.stx_mtime),
                change_ns: time(mask.contains(Has::CTIME), stat.stx_ctime),
                birth_ns: time(mask.contains(Has::BTIME), stat.stx_btime),
            },
            kind: FileType::of_mode(
                Mode::from_raw_mode(0).as_raw_mode() | u32::from(stat.stx_mode),
            ),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_survives_its_bytes() {
        for id in [
            ObjectId::Inode(0),
            ObjectId::Inode(u64::MAX),
            ObjectId::Fid { sequence: 0x2_0000_0402, object: 0x158, version: 0 },
            ObjectId::Fid { sequence: u64::MAX, object: u32::MAX, version: u32::MAX },
        ] {
            let fid = matches!(id, ObjectId::Fid { .. });
            assert_eq!(ObjectId::of_bytes(id.to_bytes(), fid), id);
        }
    }

    #[test]
    fn a_type_survives_its_letter() {
        for letter in *b"fdlpsbc?" {
            assert_eq!(FileType::of_letter(letter).letter(), letter);
        }
    }
}
