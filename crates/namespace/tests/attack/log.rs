//! Notes of an attacker: each act before it begins and after it ended, and the facts that are
//! certain then.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, statx};

/// Inode and birth, which no later file shares.
pub type Identity = (u64, i64);

/// The object behind a name or a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: Identity,
    pub links: u32,
    pub is_file: bool,
    pub access: (i64, u32),
    pub change: (i64, u32),
}

/// The object at a path, its last component not followed; the descriptor itself for an empty path.
pub fn seen(descriptor: &impl std::os::fd::AsFd, path: &Path) -> Option<Seen> {
    let flags = match path.as_os_str().is_empty() {
        true => AtFlags::EMPTY_PATH,
        false => AtFlags::SYMLINK_NOFOLLOW,
    };
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = statx(descriptor, path, flags, mask).ok()?;
    let birth_ns = stat.stx_btime.tv_sec * 1_000_000_000 + i64::from(stat.stx_btime.tv_nsec);
    Some(Seen {
        id: (stat.stx_ino, birth_ns),
        links: stat.stx_nlink,
        is_file: u32::from(stat.stx_mode) & 0o170_000 == 0o100_000,
        access: (stat.stx_atime.tv_sec, stat.stx_atime.tv_nsec),
        change: (stat.stx_ctime.tv_sec, stat.stx_ctime.tv_nsec),
    })
}

/// Fact about a file that is certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fact {
    /// It was used or changed, and had one of its names after that: it has to stay.
    Used,
    /// It was moved away and back, or given an extended attribute. That shows in its ctime alone (and
    /// on XFS not even there, where two files of a directory are exchanged), which the last look
    /// cannot go by: a deletion that had not begun yet has to keep it.
    Moved,
    /// An attacker made it.
    Made,
    /// It was given one more name.
    Linked,
    /// One of its names was removed by an attacker.
    Removed,
    /// It was open, or in a directory that was not in its place, and was removed while that was so:
    /// by an attacker, or it must not be.
    Lost,
    /// It was put aside while its directory was not in its place: it has to be put back.
    Away,
    /// A process that opened it got a file without a name: it was removed while it was being
    /// opened.
    Late,
}

impl Fact {
    pub const ALL: [(Self, &'static str); 8] = [
        (Self::Used, "used"),
        (Self::Moved, "moved"),
        (Self::Made, "made"),
        (Self::Linked, "linked"),
        (Self::Removed, "removed"),
        (Self::Lost, "lost"),
        (Self::Away, "away"),
        (Self::Late, "late"),
    ];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(fact, _)| *fact == self).map_or("", |(_, word)| word)
    }
}

/// The present, the same for all processes.
pub fn now_ns() -> u64 {
    std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_nanos() as u64)
}

/// One attacker's log. Nothing is held back: a line is the kernel's when the act goes on.
pub struct Log(File);

impl Log {
    pub fn create(path: &Path) -> Self {
        Self(File::create(path).unwrap())
    }

    fn line(&mut self, line: &str) {
        self.0.write_all(line.as_bytes()).unwrap();
    }

    pub fn intend(&mut self) {
        self.line(&format!("? {}\n", now_ns()));
    }

    pub fn ended(&mut self) {
        self.line(&format!(". {}\n", now_ns()));
    }

    /// Something is certain by now.
    pub fn fact(&mut self, fact: Fact, (inode, birth_ns): Identity) {
        self.line(&format!("{} {} {inode} {birth_ns}\n", fact.word(), now_ns()));
    }
}
