//! Progress of a scan, in a file: which shards are safe, and the remaining directories.
//!
//! The file is written aside, synced and renamed over the last one, so that there is always a whole
//! one. The shards that it lists were synced before. Whatever a kill interrupts, the scan that goes
//! on from it throws away the shards that it does not list and reads again from the cookies that it
//! does: nothing is lost or listed twice.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::walk::directory::Directory;
use crate::walk::{Counts, Left, MDTS, Shard, Unread, Wanted};

/// Its name in the index.
pub const CHECKPOINT: &str = "checkpoint.json";
const ASIDE: &str = "checkpoint.json.new";
const VERSION: u32 = 1;
/// Version for a scan that starts from an earlier index: earlier programs would leave out the rows
/// that it carries over.
const VERSION_WITH_BASE: u32 = 2;

/// Which directory of which file system a scan began at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// The device number, which rows carry.
    pub device: u64,
    /// Type of the file system, as `statfs` reports it; 0 if unknown.
    pub file_system: u64,
    /// The inode of the root.
    pub inode: u64,
}

/// Progress of a scan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    version: u32,
    /// Where the scan began.
    pub home: Home,
    /// Attributes that it asks for.
    pub wanted: Wanted,
    /// When it first began.
    pub started_ns: i64,
    /// When it ended, if it did.
    pub ended_ns: Option<i64>,
    /// How long it has taken, all its runs together.
    pub elapsed_s: f64,
    /// Counts so far.
    pub counts: Counts,
    /// Shards that are safely on disk.
    pub shards: Vec<Shard>,
    /// The number of the next shard.
    pub next_shard: u64,
    unread: Vec<(String, i32)>,
    /// Directories on the way to the remaining work: the index in this list of the parent of each,
    /// and its name. The first is the root. Whole paths would grow with the square of the depth.
    directories: Vec<(usize, String)>,
    /// Remaining directories: an index in that list, and a cookie.
    left: Vec<(usize, u64)>,
    /// The MDT of each of these; none of them where there is but one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    mdts: Vec<u16>,
    /// Directories that hold the same names as in an earlier index: an index in that list, and one
    /// in its listing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    known: Vec<(usize, u64)>,
    /// Which index it starts from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

impl Checkpoint {
    /// Creates the checkpoint of a scan that begins now.
    pub fn begin(home: Home, wanted: Wanted, base: Option<String>, started_ns: i64) -> Self {
        Self {
            version: version(base.is_some()),
            home,
            wanted,
            started_ns,
            ended_ns: None,
            elapsed_s: 0.0,
            counts: Counts::default(),
            shards: Vec::new(),
            next_shard: 0,
            unread: Vec::new(),
            directories: vec![(0, String::new())],
            left: vec![(0, 0)],
            mdts: Vec::new(),
            known: Vec::new(),
            base,
        }
    }

    /// Notes the paths that could not be read.
    pub fn set_unread(&mut self, unread: &[Unread]) {
        self.unread = unread.iter().map(|entry| (escaped(&entry.path), entry.errno)).collect();
    }

    /// Paths that could not be read.
    pub fn unread(&self) -> Option<Vec<Unread>> {
        let read =
            |(path, errno): &(String, i32)| Some(Unread { path: unescaped(path)?, errno: *errno });
        self.unread.iter().map(read).collect()
    }

    /// Notes the remaining directories.
    pub fn set_left(&mut self, left: &Left) {
        self.directories = vec![(0, String::new())];
        let mut places = HashMap::new();
        self.left = self.noted(&left.read, &mut places);
        self.mdts = left.read.iter().map(|(directory, _)| directory.mdt()).collect();
        if self.mdts.iter().all(|mdt| *mdt == 0) {
            self.mdts.clear();
        }
        self.known = self.noted(&left.known, &mut places);
    }

    /// Notes directories and those on the way to them; returns their places.
    fn noted(
        &mut self,
        left: &[(Arc<Directory>, u64)],
        places: &mut HashMap<*const Directory, usize>,
    ) -> Vec<(usize, u64)> {
        let mut noted = Vec::with_capacity(left.len());
        for (directory, at) in left {
            let mut way = Vec::new();
            let mut ancestor = directory;
            let mut place = loop {
                if let Some(place) = places.get(&Arc::as_ptr(ancestor)) {
                    break *place;
                }
                let Some(parent) = ancestor.parent() else { break 0 };
                way.push(ancestor);
                ancestor = parent;
            };
            for next in way.into_iter().rev() {
                self.directories.push((place, escaped(next.name())));
                place = self.directories.len() - 1;
                places.insert(Arc::as_ptr(next), place);
            }
            noted.push((place, *at));
        }
        noted
    }

    /// The remaining directories; `None` if the lists make no sense.
    pub fn left(&self) -> Option<Left> {
        if !self.mdts.is_empty() && self.mdts.len() != self.left.len() {
            return None;
        }
        if self.mdts.iter().any(|mdt| usize::from(*mdt) >= MDTS) {
            return None;
        }
        let mdts: HashMap<usize, u16> =
            self.left.iter().zip(&self.mdts).map(|((place, _), mdt)| (*place, *mdt)).collect();
        let mut made: Vec<Arc<Directory>> = Vec::with_capacity(self.directories.len());
        for (index, (parent, name)) in self.directories.iter().enumerate() {
            made.push(match index {
                0 => Directory::root(),
                _ => {
                    let mdt = mdts.get(&index).copied().unwrap_or_default();
                    made.get(*parent)?.child(&component(name)?, mdt)
                }
            });
        }
        let of = |(place, at): &(usize, u64)| Some((made.get(*place)?.clone(), *at));
        Some(Left {
            read: self.left.iter().map(of).collect::<Option<_>>()?,
            known: self.known.iter().map(of).collect::<Option<_>>()?,
        })
    }

    /// Reads the one of an index, if it has one.
    pub fn read(index: &Path) -> Result<Option<Self>> {
        let path = index.join(CHECKPOINT);
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::system("read", path, error)),
        };
        let read: Self =
            serde_json::from_slice(&text).map_err(|error| Error::data(&path, error.to_string()))?;
        let version = version(read.base.is_some());
        if read.version != version {
            let problem = format!("version {} of a checkpoint, not {version}", read.version);
            return Err(Error::data(path, problem));
        }
        if read.left().is_none() || read.unread().is_none() {
            return Err(Error::data(path, "a path or an MDT in it is invalid"));
        }
        Ok(Some(read))
    }

    /// Writes it into an index, whose shards are safe already.
    pub fn write(&self, index: &Path) -> Result<()> {
        let aside = index.join(ASIDE);
        let text =
            serde_json::to_vec(self).map_err(|error| Error::data(&aside, error.to_string()))?;
        let written = File::create(&aside).and_then(|mut file| {
            file.write_all(&text)?;
            file.sync_all()
        });
        written.map_err(|error| Error::system("write", &aside, error))?;
        let path = index.join(CHECKPOINT);
        fs::rename(&aside, &path).map_err(|error| Error::system("rename", path, error))?;
        sync_directory(index)
    }
}

fn version(with_base: bool) -> u32 {
    if with_base { VERSION_WITH_BASE } else { VERSION }
}

/// Makes names of a directory durable.
pub fn sync_directory(path: &Path) -> Result<()> {
    let synced = File::open(path).and_then(|directory| directory.sync_all());
    synced.map_err(|error| Error::system("fsync", path, error))
}

/// Bytes as readable text: a byte that is no plain character is `%` and two digits.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' && byte != b'"' && byte != b'\\' {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02x}"));
        }
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, after @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = after;
    }
    Some(bytes)
}

/// One component of a path, and nothing that leads elsewhere.
fn component(text: &str) -> Option<Vec<u8>> {
    let name = unescaped(text)?;
    let leads_elsewhere = matches!(name.as_slice(), b"" | b"." | b"..")
        || name.iter().any(|byte| matches!(byte, b'/' | b'\0'));
    (!leads_elsewhere).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: Home = Home { device: 1, file_system: 2, inode: 3 };

    fn begun() -> Checkpoint {
        Checkpoint::begin(HOME, Wanted::default(), None, 7)
    }

    #[test]
    fn a_new_scan_has_the_root_left() {
        let left = begun().left().unwrap();
        assert_eq!((left.read.len(), left.known.len()), (1, 0));
        assert_eq!((left.read[0].0.path(), left.read[0].1), (Vec::new(), 0));
    }

    #[test]
    fn it_is_read_as_it_was_written() {
        let index = tempfile::tempdir().unwrap();
        assert_eq!(Checkpoint::read(index.path()).unwrap(), None);
        let mut checkpoint = begun();
        checkpoint.set_unread(&[Unread { path: b"a/\xff\n%41".to_vec(), errno: 13 }]);
        checkpoint.shards.push(Shard { name: "scan-1.parquet".into(), rows: 5 });
        checkpoint.write(index.path()).unwrap();
        let read = Checkpoint::read(index.path()).unwrap().unwrap();
        assert_eq!(read, checkpoint);
        assert_eq!(read.unread().unwrap()[0].path, b"a/\xff\n%41");
        fs::write(index.path().join(CHECKPOINT), b"{").unwrap();
        assert!(matches!(Checkpoint::read(index.path()), Err(Error::Data { .. })));
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for name in ["", ".", "..", "a%2fb", "a/b", "%00", "%", "%4", "%zz"] {
            let index = tempfile::tempdir().unwrap();
            let mut checkpoint = begun();
            checkpoint.directories.push((0, name.to_owned()));
            checkpoint.write(index.path()).unwrap();
            assert!(Checkpoint::read(index.path()).is_err(), "{name:?}");
        }
        let mut checkpoint = begun();
        checkpoint.left.push((1, 0));
        assert!(checkpoint.left().is_none());
        let mut checkpoint = begun();
        checkpoint.mdts = vec![255];
        assert!(checkpoint.left().is_some());
        checkpoint.mdts = vec![256];
        assert!(checkpoint.left().is_none());
    }

    /// Names of up to two bytes, no slash, no NUL.
    fn name() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(
            any::<u8>().prop_filter("separators", |b| *b != 0 && *b != b'/'),
            1..3,
        )
        .prop_filter("itself", |name| name != b"." && name != b"..")
    }

    proptest! {
        #[test]
        fn what_is_left_survives(names in prop::collection::vec((0usize..30, name(), any::<u64>(), 0u16..3), 1..30)) {
            let mut all = vec![Directory::root()];
            let mut left = Left::default();
            for (under, name, cookie, mdt) in &names {
                let made = all[under % all.len()].child(name, *mdt);
                all.push(Arc::clone(&made));
                let list = if cookie % 2 == 0 { &mut left.read } else { &mut left.known };
                list.push((made, *cookie));
            }
            let mut checkpoint = begun();
            checkpoint.set_left(&left);
            let known = |(directory, at): (Arc<Directory>, u64)| (directory.path(), at, 0);
            let read = |(directory, at): (Arc<Directory>, u64)| (directory.path(), at, directory.mdt());
            let paths = |left: Left| {
                let read = left.read.into_iter().map(read).collect::<Vec<_>>();
                (read, left.known.into_iter().map(known).collect::<Vec<_>>())
            };
            prop_assert_eq!(checkpoint.directories.len(), names.len() + 1);
            prop_assert_eq!(paths(checkpoint.left().unwrap()), paths(left));
        }

        #[test]
        fn bytes_survive_as_text(bytes in prop::collection::vec(any::<u8>(), 0..50)) {
            let text = escaped(&bytes);
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(unescaped(&text), Some(bytes));
        }
    }
}
