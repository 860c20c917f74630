//! Checks whether a name still refers to the file of the plan, and whether it may go: pure.

use rustix::fs::{Statx, StatxTimestamp};

use super::Settings;
use super::exempted::Exempted;
use super::outcome::Outcome;
use crate::beneath::Root;
use crate::entry::{Entry, FileType, NS_PER_S};
use crate::error::Error;
use crate::index::Row;
use crate::rules::{Kept, Rules};

/// Conditions that every row is checked against.
#[derive(Clone, Debug)]
pub(super) struct Checks {
    pub(super) rules: Rules,
    /// Objects that its exempt paths lead to; files by FID have their paths as directories list
    /// them.
    pub(super) exempted: Exempted,
    /// The cut-off: only files last used before it go.
    pub(super) before_s: i64,
    /// How finely the source of the index knew the times.
    pub(super) time_resolution_ns: i64,
    /// Whether the plan has actual sizes, not those last reported to an MDS.
    pub(super) exact_sizes: bool,
    /// The device number that the root has now; it may differ from that of the scan.
    pub(super) device: u64,
    /// When the index of the plan was begun.
    pub(super) listed_s: Option<i64>,
}

impl Checks {
    /// The checks of a removal, after its settings were checked themselves.
    pub(super) fn new(rules: Rules, settings: &Settings, root: &Root) -> Result<Self, Error> {
        let Settings { before_s, time_resolution_ns, threads, exact_sizes, listed_s, .. } =
            *settings;
        if threads == 0 || time_resolution_ns < 1 {
            let problem = "threads and time_resolution_ns must be at least 1";
            return Err(Error::Usage(problem.into()));
        }
        let device = root.device();
        let exempted = Exempted::default();
        Ok(Self { rules, exempted, before_s, time_resolution_ns, exact_sizes, device, listed_s })
    }

    /// Whether the present file may go; identity first, so that a reason is about the right file.
    pub(super) fn allow(&self, row: &Row, present: &Entry) -> Result<(), Outcome> {
        if present.kind != FileType::Regular {
            return Err(Outcome::ChangedType);
        }
        self.is_same(row, present)?;
        self.is_unchanged(row, present)?;
        self.is_eligible(&row.parent, &row.name, present)
    }

    /// Whether it is the same object, whatever was done to it.
    pub(super) fn is_same(&self, row: &Row, present: &Entry) -> Result<(), Outcome> {
        if present.device != self.device {
            return Err(Outcome::Moved);
        }
        let birth = (row.entry.times.birth_ns, present.times.birth_ns);
        if row.entry.id != present.id || !self.may_be_one_time(birth) {
            return Err(self.another(present.times.birth_ns));
        }
        Ok(())
    }

    /// The outcome for a file that is not the planned one: one that was born since the index was
    /// begun replaced it, as saving does; any other should not be there.
    pub(super) fn another(&self, birth_ns: Option<i64>) -> Outcome {
        let Some((birth_ns, listed_s)) = birth_ns.zip(self.listed_s) else {
            return Outcome::NotSame;
        };
        if birth_ns > listed_s.saturating_mul(NS_PER_S) {
            Outcome::Replaced
        } else {
            Outcome::NotSame
        }
    }

    /// Whether the file is unchanged; of several changes the most specific one is named, so that
    /// `CtimeOnly` means that the ctime alone moved.
    fn is_unchanged(&self, row: &Row, present: &Entry) -> Result<(), Outcome> {
        let (then, now) = (&row.entry, present);
        if (then.uid, then.gid) != (now.uid, now.gid) {
            return Err(Outcome::ChangedOwner);
        }
        if then.project.is_some() && then.project != now.project {
            return Err(Outcome::ChangedProject);
        }
        let same_size = then.size_bytes == now.size_bytes;
        if self.exact_sizes && !same_size {
            return Err(Outcome::ChangedSize);
        }
        for (then, now, changed) in [
            (then.times.modification_ns, now.times.modification_ns, Outcome::ChangedMtime),
            (then.times.access_ns, now.times.access_ns, Outcome::ChangedAtime),
            (then.times.change_ns, now.times.change_ns, Outcome::CtimeOnly),
        ] {
            if !self.may_be_one_time((then, now)) {
                return Err(changed);
            }
        }
        if !same_size {
            return Err(Outcome::SizeUnknown);
        }
        if then.links != now.links {
            // A new name changes ctime too; this is for sources without it.
            return Err(if now.links > 1 { Outcome::OtherLinks } else { Outcome::Touched });
        }
        Ok(())
    }

    /// Whether the rules let the present file at a path go, and it was last used before the
    /// cut-off.
    pub(super) fn is_eligible(
        &self,
        parent: &[u8],
        name: &[u8],
        present: &Entry,
    ) -> Result<(), Outcome> {
        match self.rules.judge(parent, name, present) {
            Ok(last_use_s) if last_use_s < self.before_s => Ok(()),
            Ok(_) => Err(Outcome::TooYoung),
            Err(kept) => Err(of_kept(kept)),
        }
    }

    /// Whether two times are the same as far as the source of the first knew it. A time that only
    /// one of them knows says nothing; the rules insist on those that count.
    fn may_be_one_time(&self, times: (Option<i64>, Option<i64>)) -> bool {
        let (Some(then), Some(now)) = times else { return true };
        let whole = |time: i64| time.div_euclid(self.time_resolution_ns.max(1));
        whole(then) == whole(now)
    }
}

fn of_kept(kept: Kept) -> Outcome {
    match kept {
        Kept::NotRegular => Outcome::ChangedType,
        Kept::ExemptPath
        | Kept::ExemptUser
        | Kept::ExemptGroup
        | Kept::ExemptProject
        | Kept::ProjectUnknown => Outcome::Exempt,
        Kept::OtherLinks => Outcome::OtherLinks,
        Kept::TooSmall => Outcome::TooSmall,
        Kept::TimeUnknown => Outcome::TimeUnknown,
        Kept::TooYoung => Outcome::TooYoung,
    }
}

/// Whether a file in quarantine is the one that was looked at before, and unchanged since but for
/// acts that move only its ctime, as the move into quarantine does.
pub(super) fn is_as_before(before: &Statx, now: &Statx) -> Result<(), Outcome> {
    let time = |time: StatxTimestamp| (time.tv_sec, time.tv_nsec);
    let object = |stat: &Statx| {
        let device = (stat.stx_dev_major, stat.stx_dev_minor);
        (device, stat.stx_ino, time(stat.stx_btime), stat.stx_mode & 0o170_000)
    };
    if object(before) != object(now) {
        return Err(Outcome::NotSame);
    }
    if (before.stx_uid, before.stx_gid) != (now.stx_uid, now.stx_gid) {
        return Err(Outcome::ChangedOwner);
    }
    let changes = [
        (before.stx_size != now.stx_size, Outcome::ChangedSize),
        (time(before.stx_mtime) != time(now.stx_mtime), Outcome::ChangedMtime),
        (time(before.stx_atime) != time(now.stx_atime), Outcome::ChangedAtime),
        (before.stx_mode != now.stx_mode, Outcome::CtimeOnly),
    ];
    if let Some((_, changed)) = changes.into_iter().find(|(differs, _)| *differs) {
        return Err(changed);
    }
    if before.stx_nlink != now.stx_nlink {
        return Err(if now.stx_nlink > 1 { Outcome::OtherLinks } else { Outcome::Touched });
    }
    Ok(())
}
