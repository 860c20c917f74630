//! Acts on single files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT};
use rustix::fs::{linkat, openat, symlinkat};

use super::log::{Fact, Seen, seen};
use super::{Attacker, BYSTANDERS_PER_DIRECTORY, EXEMPT, exchange};

/// When all files were last used before the plan; in nanoseconds too, all are alike.
const OLD: Timespec = Timespec { tv_sec: 1_600_000_000, tv_nsec: 123_456_789 };

/// Gives a file the times that all have, so that times do not distinguish files.
pub(super) fn age(path: &Path) {
    let times = Timestamps { last_access: OLD, last_modification: OLD };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

impl Attacker {
    /// Does something to a file that had a planned name when it was opened.
    fn do_to(&mut self, fact: Fact, act: impl FnOnce(&str) -> bool) {
        let path = self.any();
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(file) = openat(CWD, &path, flags, Mode::empty()) else { return };
        let Some(before) = seen(&file, Path::new("")).filter(|before| before.is_file) else {
            return;
        };
        if !act(&format!("/proc/self/fd/{}", file.as_raw_fd())) {
            return;
        }
        // Seen under a name after that: it cannot be said that it had been old.
        let stays = seen(&CWD, &path).is_some_and(|after| after.id == before.id);
        if stays || fact == Fact::Moved {
            self.log.fact(fact, before.id);
        }
    }

    pub(super) fn touch(&mut self) {
        let set = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let leave = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let (last_access, last_modification) = match self.random.below(3) {
            0 => (set, set),
            1 => (set, leave),
            _ => (leave, set),
        };
        let times = Timestamps { last_access, last_modification };
        self.do_to(Fact::Used, |file| {
            rustix::fs::utimensat(CWD, file, &times, AtFlags::empty()).is_ok()
        });
    }

    /// Owner, mode, an extended attribute.
    pub(super) fn change(&mut self) {
        // Numbers that no file had before.
        let number = self.number as u32;
        match self.random.below(4) {
            0 => self.do_to(Fact::Used, |file| chown(file, Some(1000 + number), None).is_ok()),
            1 => self.do_to(Fact::Used, |file| chown(file, None, Some(1000 + number)).is_ok()),
            2 => {
                // Never 0644, which all have at first.
                let mode = 0o600 + self.random.below(0o44) as u32;
                self.do_to(Fact::Used, |file| {
                    fs::set_permissions(file, Permissions::from_mode(mode)).is_ok()
                });
            }
            _ => self.do_to(Fact::Used, |file| {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(file, c"user.note", &number.to_le_bytes(), flags).is_ok()
            }),
        }
    }

    /// Changes that leave no trace but a ctime, which being put aside moves as well: an attribute
    /// is changed and changed back.
    pub(super) fn mend(&mut self) {
        let (path, act) = (self.any(), self.random.below(6));
        if act == 0 {
            // To an exempt or another directory, and back.
            let own = match self.random.below(2) {
                0 => self.own(&self.root.join(EXEMPT)),
                _ => self.own_somewhere(&path),
            };
            let Some(own) = own.filter(|own| own.take(&path)) else { return };
            let moved = own.seen().unwrap();
            let back = own.give(&path);
            let stays = back && seen(&CWD, &path).is_some_and(|after| after.id == moved.id);
            self.log.fact(if stays { Fact::Used } else { Fact::Moved }, moved.id);
            return;
        }
        let own = self.own_beside(&path);
        let number = self.number as u32;
        self.do_to(Fact::Used, |file| match act {
            1 => {
                let Ok(state) = fs::metadata(file) else { return false };
                let mode = state.permissions().mode() & 0o777;
                let set = |mode| fs::set_permissions(file, Permissions::from_mode(mode)).is_ok();
                set(mode ^ 0o020) && set(mode)
            }
            2 => {
                let Ok(state) = fs::metadata(file) else { return false };
                chown(file, None, Some(5000 + number)).is_ok()
                    && chown(file, None, Some(state.gid())).is_ok()
            }
            3 => {
                let Ok(state) = fs::metadata(file) else { return false };
                let time = |tv_sec, tv_nsec| Timespec { tv_sec, tv_nsec };
                let times = Timestamps {
                    last_access: time(state.atime(), state.atime_nsec()),
                    last_modification: time(state.mtime(), state.mtime_nsec()),
                };
                rustix::fs::utimensat(CWD, file, &times, AtFlags::empty()).is_ok()
            }
            4 => {
                let Some(own) = own else { return false };
                let follow = AtFlags::SYMLINK_FOLLOW;
                let linked = linkat(CWD, file, &own.directory, &own.name, follow).is_ok();
                if linked {
                    own.remove();
                }
                linked
            }
            _ => {
                let flags = rustix::fs::XattrFlags::empty();
                rustix::fs::setxattr(file, c"user.mended", &number.to_le_bytes(), flags).is_ok()
            }
        });
    }

    pub(super) fn write(&mut self) {
        let path = self.any();
        let Ok(mut file) = OpenOptions::new().append(true).open(path) else { return };
        let done = match self.random.below(3) {
            0 => file.set_len(self.random.below(9000) as u64 + 100).is_ok(),
            _ => file.write_all(b" w").is_ok(),
        };
        let Some(after) = seen(&file, Path::new("")).filter(|_| done) else { return };
        self.log.fact(if after.links > 0 { Fact::Used } else { Fact::Late }, after.id);
    }

    /// Holds it open, reads it or not.
    pub(super) fn read(&mut self) {
        let path = self.any();
        let Ok(mut file) = File::open(path) else { return };
        let look = |file: &File| seen(file, Path::new("")).unwrap();
        let before = look(&file);
        if before.links == 0 {
            self.log.fact(Fact::Late, before.id);
            return;
        }
        if self.random.below(2) == 0 {
            let _ = file.read(&mut [0; 16]);
        }
        std::thread::sleep(Duration::from_micros(self.random.below(500) as u64));
        let after = look(&file);
        // Not every reading is recorded (relatime): only one that is extends a file's life.
        if after.links == 0 {
            self.log.fact(Fact::Lost, after.id);
        } else if after.access != before.access {
            self.log.fact(Fact::Used, after.id);
        }
    }

    pub(super) fn rename(&mut self) {
        match self.random.below(4) {
            0 => self.exchange_with_bystander(),
            1 => self.exchange_with_link(),
            _ => {
                let path = self.any();
                let Some(own) = self.own_somewhere(&path).filter(|own| own.take(&path)) else {
                    return;
                };
                let moved = own.seen().unwrap().id;
                let back = self.random.below(4) > 0 && own.give(&path);
                self.log.fact(if back { Fact::Moved } else { Fact::Used }, moved);
            }
        }
    }

    /// A bystander gets the name of a planned file, perhaps for a moment only.
    fn exchange_with_bystander(&mut self) {
        let planned = self.any();
        let number = self.random.below(BYSTANDERS_PER_DIRECTORY);
        let bystander = planned.with_file_name(format!("b{number}"));
        let Some(before) = seen(&CWD, &planned) else { return };
        if !exchange(&planned, &bystander) {
            return;
        }
        let moved = seen(&CWD, &bystander)
            .is_some_and(|after| after.id == before.id && after.change != before.change);
        if self.random.below(2) == 0 {
            exchange(&planned, &bystander);
        }
        if moved {
            self.log.fact(Fact::Moved, before.id);
        }
    }

    /// For a moment the planned name is a link to a file outside.
    fn exchange_with_link(&mut self) {
        let planned = self.any();
        let Some(own) = self.own_beside(&planned) else { return };
        let target = self.outside.join("u/d0").join(planned.file_name().unwrap());
        // Its directory may have been emptied and removed since.
        if symlinkat(target, &own.directory, &own.name).is_err() {
            return;
        }
        let before = seen(&CWD, &planned);
        if own.exchange(&planned) {
            let moved = own.seen().unwrap();
            own.exchange(&planned);
            let shows = |before: Seen| before.id == moved.id && before.change != moved.change;
            if moved.is_file && before.is_some_and(shows) {
                self.log.fact(Fact::Moved, moved.id);
            }
        }
        if own.seen().is_some_and(|left| !left.is_file) {
            own.remove();
        }
    }

    pub(super) fn link(&mut self) {
        let path = self.any();
        let Some(own) = self.own_somewhere(&path).filter(|own| own.link(&path)) else { return };
        let linked = own.seen().unwrap();
        // It may have been a symbolic link that was there for a moment.
        if !linked.is_file {
            return;
        }
        self.log.fact(Fact::Linked, linked.id);
        // The kernel finds the file before it gives it a name: what was taken and looked at for the
        // last time in between loses its planned name, and lives on under this one.
        if seen(&CWD, &path).is_some_and(|now| now.id == linked.id) {
            self.log.fact(Fact::Used, linked.id);
        }
    }

    /// A new file that looks as old as all others.
    fn make(&mut self, at: impl AsFd, path: &Path) -> bool {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let Ok(file) = openat(at, path, flags, Mode::from_raw_mode(0o644)) else { return false };
        self.log.fact(Fact::Made, seen(&file, Path::new("")).unwrap().id);
        let times = Timestamps { last_access: OLD, last_modification: OLD };
        rustix::fs::futimens(&file, &times).unwrap();
        true
    }

    /// As an editor that keeps the old version under another name.
    pub(super) fn save(&mut self) {
        let path = self.any();
        let Some(own) = self.own_beside(&path) else { return };
        // Either the new file or the old one has that name then, and keeps it.
        if self.make(&own.directory, Path::new(&own.name)) && own.exchange(&path) {
            self.log.fact(Fact::Used, own.seen().unwrap().id);
        }
    }

    /// Removes a file and makes another at its name, which often gets the same inode.
    pub(super) fn replace(&mut self) {
        let path = self.any();
        // First to a name that no other process knows: the file that is removed there was looked
        // at.
        let Some(own) = self.own_beside(&path).filter(|own| own.take(&path)) else { return };
        let Some(old) = own.seen().filter(|old| old.is_file) else { return };
        own.remove();
        self.log.fact(Fact::Removed, old.id);
        self.make(CWD, &path);
    }
}
