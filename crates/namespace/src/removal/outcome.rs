//! Outcome of a row of the plan: one code each, and its name.

use rustix::io::Errno;

/// Outcome of one candidate. The codes are kept in journals: they never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// It was the planned file, unused since, and its name is gone.
    Deleted = 1,
    /// It would have been deleted; nothing was touched.
    WouldDelete = 2,
    /// No file has this name any more; it was not removed by this run.
    Gone = 3,
    /// Another process changed it while it was looked at, or it lost a name. In journals of earlier
    /// versions also changes that have codes of their own since: size, times and project.
    Touched = 4,
    /// Owner or group changed.
    ChangedOwner = 5,
    /// The name refers to something that is not a file with data.
    ChangedType = 6,
    /// The name refers to another file than the planned one.
    NotSame = 7,
    /// Its directory is not where it was, or another file system is mounted on the way.
    Moved = 8,
    /// It has other names, and the policy keeps such files.
    OtherLinks = 9,
    /// Another process has it open.
    Open = 10,
    /// It is unknown here whether it is open, and the policy keeps such files.
    OpenUnknown = 11,
    /// It or its directory is immutable or append-only.
    Immutable = 12,
    /// Path, owner, group or project are exempt now.
    Exempt = 13,
    /// It is smaller than the minimum size for deletion.
    TooSmall = 14,
    /// Unchanged since the plan, and still used since the cut-off or younger than the minimum age: the
    /// policy in force is stricter, or counts other times.
    TooYoung = 15,
    /// A time that counts is not known.
    TimeUnknown = 16,
    /// It could be taken out of its directory but not put back, which the check needs: project
    /// quotas or an overlay forbid it.
    CannotReturn = 17,
    /// It stays in quarantine: something else took its name while it was looked at.
    InQuarantine = 18,
    /// This run may not do it: missing rights, a squashed root.
    Denied = 19,
    /// The system said something else; the batch has its error number.
    Failed = 20,
    /// Another of its names could not be accounted for, so none of them was removed.
    NamesUnknown = 21,
    /// A run that was stopped had taken it aside, and it is back under its name. Its ctime moved
    /// with that, so that a change can no longer be detected: it stays until a later plan.
    PutBack = 22,
    /// Its size is not the listed one, and the source of the index did not know sizes: whether it
    /// was used since does not show in it.
    SizeUnknown = 23,
    /// The name refers to a file that was made after the plan: saved anew, by an editor or a job.
    Replaced = 24,
    /// The time for which this host may delete these rows was over before it was taken: nothing was
    /// done to it.
    TooLate = 25,
    /// Its project changed; no time shows that.
    ChangedProject = 26,
    /// Its size is not what it was.
    ChangedSize = 27,
    /// Its mtime is not what it was, its size is: written, or its time was set.
    ChangedMtime = 28,
    /// Its atime is not what it was, size and mtime are: read.
    ChangedAtime = 29,
    /// Nothing but its ctime moved: mode, attributes, names or layout were changed, or a client wrote
    /// back late what it had held.
    CtimeOnly = 30,
}

impl Outcome {
    /// Every outcome and the name that is shown for it.
    pub const TABLE: [(Self, &'static str); 30] = [
        (Self::Deleted, "deleted"),
        (Self::WouldDelete, "would_delete"),
        (Self::Gone, "gone"),
        (Self::Touched, "touched"),
        (Self::ChangedOwner, "changed_owner"),
        (Self::ChangedType, "changed_type"),
        (Self::NotSame, "not_same"),
        (Self::Moved, "moved"),
        (Self::OtherLinks, "other_links"),
        (Self::Open, "open"),
        (Self::OpenUnknown, "open_unknown"),
        (Self::Immutable, "immutable"),
        (Self::Exempt, "exempt"),
        (Self::TooSmall, "too_small"),
        (Self::TooYoung, "too_young"),
        (Self::TimeUnknown, "time_unknown"),
        (Self::CannotReturn, "cannot_return"),
        (Self::InQuarantine, "in_quarantine"),
        (Self::Denied, "denied"),
        (Self::Failed, "failed"),
        (Self::NamesUnknown, "names_unknown"),
        (Self::PutBack, "put_back"),
        (Self::SizeUnknown, "size_unknown"),
        (Self::Replaced, "replaced"),
        (Self::TooLate, "too_late"),
        (Self::ChangedProject, "changed_project"),
        (Self::ChangedSize, "changed_size"),
        (Self::ChangedMtime, "changed_mtime"),
        (Self::ChangedAtime, "changed_atime"),
        (Self::CtimeOnly, "ctime_only"),
    ];
}

/// Why a row is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) outcome: Outcome,
    pub(super) errno: i32,
}

impl From<Outcome> for Refusal {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, errno: 0 }
    }
}

impl From<Errno> for Refusal {
    /// The outcome for an error about a name in an open directory.
    fn from(errno: Errno) -> Self {
        let outcome = match errno {
            Errno::NOENT => Outcome::Gone,
            Errno::LOOP | Errno::NXIO | Errno::ISDIR | Errno::NOTDIR => Outcome::ChangedType,
            Errno::ACCESS | Errno::PERM => Outcome::Denied,
            // Another process holds a lease on it.
            Errno::AGAIN => Outcome::Open,
            _ => Outcome::Failed,
        };
        Self { outcome, errno: errno.raw_os_error() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_one_name() {
        for (place, (outcome, _)) in Outcome::TABLE.iter().enumerate() {
            assert_eq!(*outcome as usize, place + 1);
        }
        let names: std::collections::HashSet<_> = Outcome::TABLE.map(|(_, name)| name).into();
        assert_eq!(names.len(), Outcome::TABLE.len());
    }
}
