//! Trees to walk, and the slow walk that the fast one is compared with.
#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use namespace::{Entry, ObjectId};

/// A generator that is the same everywhere (xorshift, Marsaglia 2003).
pub struct Chance(u64);

impl Chance {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Attributes of one name, from the standard library: inode, mode, links, size, blocks, owner,
/// times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub inode: u64,
    pub links: u64,
    pub size_bytes: u64,
    pub allocated_bytes: u64,
    pub owners: (u32, u32),
    pub modification_ns: i64,
    pub letter: u8,
}

impl Known {
    pub fn of_entry(entry: &Entry) -> Self {
        let ObjectId::Inode(inode) = entry.id else { panic!("not a Lustre") };
        Self {
            inode,
            links: entry.links.into(),
            size_bytes: entry.size_bytes,
            allocated_bytes: entry.allocated_bytes,
            owners: (entry.uid, entry.gid),
            modification_ns: entry.times.modification_ns.unwrap(),
            letter: entry.kind.letter(),
        }
    }

    fn of_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            links: metadata.nlink(),
            size_bytes: metadata.size(),
            allocated_bytes: metadata.blocks() * 512,
            owners: (metadata.uid(), metadata.gid()),
            modification_ns: metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec(),
            letter: namespace::FileType::of_mode(metadata.mode()).letter(),
        }
    }
}

/// Every name beneath a root and its attributes: one directory after the other, one path at a time.
pub fn slow_walk(root: &Path) -> BTreeMap<Vec<u8>, Known> {
    let mut names = BTreeMap::new();
    let mut left = vec![root.to_path_buf()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let relative = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
            names.insert(relative, Known::of_metadata(&metadata));
            if metadata.is_dir() {
                left.push(path);
            }
        }
    }
    names
}

/// A path from its two halves.
pub fn joined(parent: &[u8], name: &[u8]) -> Vec<u8> {
    if parent.is_empty() { name.to_vec() } else { [parent, b"/", name].concat() }
}

/// A tree of about so many names: directories in directories, hostile names, links of both kinds,
/// sparse files, pipes, and one directory that holds a third of all.
pub fn make_tree(root: &Path, names: u64, chance: &mut Chance) {
    let mut directories = vec![root.to_path_buf()];
    let large = root.join("large");
    fs::create_dir(&large).unwrap();
    for number in 0..names {
        let among = chance.below(directories.len() as u64) as usize;
        let inside = if chance.below(3) == 0 { &large } else { &directories[among] };
        let path = inside.join(OsStr::from_bytes(&hostile_name(number, chance)));
        match chance.below(12) {
            0 | 1 => {
                fs::create_dir(&path).unwrap();
                directories.push(path);
            }
            2 => std::os::unix::fs::symlink("../..", &path).unwrap(),
            3 => std::os::unix::fs::symlink("/", &path).unwrap(),
            4 if path.parent() != Some(root) => {
                let target = root.join(format!("linked-{}", number % 7));
                if !target.exists() {
                    fs::write(&target, b"x").unwrap();
                }
                fs::hard_link(&target, &path).unwrap();
            }
            5 => fs::File::create(&path).unwrap().set_len(1 << 30).unwrap(),
            6 => rustix::fs::mknodat(
                rustix::fs::CWD,
                &path,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap(),
            _ => fs::write(&path, vec![b'x'; chance.below(9000) as usize]).unwrap(),
        }
    }
}

fn hostile_name(number: u64, chance: &mut Chance) -> Vec<u8> {
    let odd: [&[u8]; 8] =
        [b"file", b"-rf", b"new\nline", b"\x1b[31m", b"\xff\xfe", b"<b>", b" ", b"..."];
    let mut name = odd[chance.below(8) as usize].to_vec();
    name.extend(format!(".{number}").bytes());
    if chance.below(20) == 0 {
        name.resize(255, b'n');
    }
    name
}
