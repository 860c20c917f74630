//! Acts on the directories on the way: exchanged, moved away, links in their place. All is as
//! before when an act ends, and one process does it, so that nothing but a deletion is confused.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, openat};

use super::ledger::is_aside;
use super::log::{Fact, seen};
use super::{
    Attacker, DIRECTORIES_PER_USER, EXEMPT, FILES_PER_DIRECTORY, directory_path, exchange, move_to,
    name_in_directory,
};

impl Attacker {
    pub(super) fn swap(&mut self) {
        let number = self.any_row() / FILES_PER_DIRECTORY;
        let low = self.root.join(directory_path(number));
        let below = PathBuf::from(format!("d{}", number % DIRECTORIES_PER_USER));
        let high = low.parent().unwrap().to_path_buf();
        match self.random.below(6) {
            0 => self.link_outside(&low, &Path::new("u").join(below)),
            1 => self.link_outside(&high, Path::new("u")),
            2 => {
                let other = self.any_row() / FILES_PER_DIRECTORY;
                let last = (self.rows - 1) / FILES_PER_DIRECTORY;
                let other = if other == number { (number + 1).min(last) } else { other };
                self.exchange_twice(&low, &self.root.join(directory_path(other)));
            }
            3 => self.away(&high, &below),
            _ => self.away(&low, Path::new("")),
        }
        // While a directory is away nothing else can be tried on its files.
        std::thread::sleep(Duration::from_micros(self.random.below(20_000) as u64));
    }

    /// Removes a directory as soon as it is empty, and makes another of its name now and then.
    pub(super) fn sweep(&mut self) {
        let number = self.any_row() / FILES_PER_DIRECTORY;
        let lone = self.root.join(directory_path(number)).join("lone");
        let removed = (0..50).any(|_| fs::remove_dir(&lone).is_ok());
        if removed || self.random.below(4) == 0 {
            let _ = fs::create_dir(&lone);
        }
    }

    /// The directory becomes a link that leads outside, where files have the same names.
    fn link_outside(&mut self, directory: &Path, target: &Path) {
        let link = directory.with_extension(format!("swapper-{}", self.number));
        symlink(self.way_to(&self.outside.join(target), &link), &link).unwrap();
        self.exchange_twice(&link, directory);
        fs::remove_file(&link).unwrap();
    }

    /// The target for a link that leads to a path: an absolute one would go through other mounts,
    /// and be refused for that alone.
    fn way_to(&self, path: &Path, link: &Path) -> PathBuf {
        let world = self.root.parent().unwrap();
        let below = |path: &Path| path.strip_prefix(world).unwrap().to_path_buf();
        let up: PathBuf = below(link).components().skip(1).map(|_| "..").collect();
        up.join(below(path))
    }

    fn exchange_twice(&self, one: &Path, other: &Path) {
        if exchange(one, other) {
            assert!(exchange(one, other), "{one:?} and {other:?} cannot be exchanged again");
        }
    }

    /// The directory is moved out of the root, or to another place beneath it, and a link leads
    /// there. A file that is seen in it now may not go before it is back.
    fn away(&mut self, directory: &Path, below: &Path) {
        let name = format!("away-{}", self.number);
        let to = match self.random.below(2) {
            0 => self.outside.join(name),
            _ => self.root.join(EXEMPT).join(name),
        };
        assert!(move_to(directory, &to), "{directory:?} cannot be moved");
        symlink(self.way_to(&to, directory), directory).unwrap();
        let held: Vec<OwnedFd> = (0..FILES_PER_DIRECTORY)
            .filter_map(|number| {
                let path = to.join(below).join(name_in_directory(number));
                let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                openat(CWD, path, flags, Mode::empty()).ok()
            })
            .collect();
        match self.random.below(2) {
            0 => std::thread::sleep(Duration::from_micros(self.random.below(1000) as u64)),
            _ => self.wait_for_the_next_batch(),
        }
        for file in &held {
            let now = seen(file, Path::new("")).unwrap();
            let shown = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).unwrap();
            if now.is_file && now.links == 0 {
                self.log.fact(Fact::Lost, now.id);
            } else if now.is_file && is_aside(&shown) {
                self.log.fact(Fact::Away, now.id);
            }
        }
        fs::remove_file(directory).unwrap();
        assert!(move_to(&to, directory), "{directory:?} cannot be moved back");
    }

    /// Whatever the deletion does to these files now, it does while they are away.
    fn wait_for_the_next_batch(&self) {
        let (began, first) = (Instant::now(), self.position());
        while self.position() == first && began.elapsed() < Duration::from_millis(100) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}
