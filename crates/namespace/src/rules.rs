//! Which file may be deleted: one answer for the curve, the candidates and the last check.

use serde::{Deserialize, Serialize};

use crate::entry::{Entry, FileType, NS_PER_S, Times};

/// Which times count for the age of a file; the most recent of them is its last use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Reads, where every client records them.
    pub access: bool,
    /// Changes of the data.
    pub modification: bool,
    /// Changes of the inode.
    pub change: bool,
}

impl Counted {
    /// The most recent of the three (S1, V.A).
    pub const ALL: Self = Self { access: true, modification: true, change: true };
}

/// Exemptions of the policy, in any order and with repetitions; [`Exemptions`] is made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exempt {
    /// Files at or under one of these are retained; relative to the root, no leading slash.
    pub paths: Vec<Vec<u8>>,
    /// Files of these users are retained.
    pub users: Vec<u32>,
    /// Files of these groups are retained.
    pub groups: Vec<u32>,
    /// Files of these projects are retained.
    pub projects: Vec<u32>,
}

/// Exemptions that can be searched: sorted and without repetitions, which only [`Exemptions::new`]
/// can make. An unsorted list would exempt no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Exempt")]
pub struct Exemptions(Exempt);

impl From<Exempt> for Exemptions {
    fn from(exempt: Exempt) -> Self {
        Self::new(exempt)
    }
}

impl Exemptions {
    /// Sorts exemptions and removes repetitions.
    pub fn new(exempt: Exempt) -> Self {
        let Exempt { paths, users, groups, projects } = exempt;
        Self(Exempt {
            paths: sorted(paths),
            users: sorted(users),
            groups: sorted(groups),
            projects: sorted(projects),
        })
    }

    /// The same with one more path.
    pub fn with_path(mut self, path: &[u8]) -> Self {
        self.0.paths.push(path.to_vec());
        Self::new(self.0)
    }

    /// The lists, sorted.
    pub fn lists(&self) -> &Exempt {
        &self.0
    }

    /// Whether a user is exempt.
    pub fn has_user(&self, uid: u32) -> bool {
        self.0.users.binary_search(&uid).is_ok()
    }

    /// Whether a group is exempt.
    pub fn has_group(&self, gid: u32) -> bool {
        self.0.groups.binary_search(&gid).is_ok()
    }

    /// Whether any project is exempt: then a file whose project is unknown may be of one.
    pub fn exempts_projects(&self) -> bool {
        !self.0.projects.is_empty()
    }

    /// Whether a project is exempt.
    pub fn has_project(&self, project: u32) -> bool {
        self.0.projects.binary_search(&project).is_ok()
    }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values.dedup();
    values
}

/// Who may be deleted. Names are bytes, paths are relative to the root without a leading slash.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rules {
    /// Which times count.
    pub counted: Counted,
    /// When the metadata were taken: no time is believed to be later.
    pub as_of_s: i64,
    /// Only files last used before this are old enough, whatever the horizon.
    pub old_enough_before_s: i64,
    /// Files of fewer bytes stay.
    pub minimum_size_bytes: u64,
    /// Files that are retained whatever their age.
    pub exempt: Exemptions,
    /// Whether files with several names may go; by default they stay.
    pub linked: bool,
}

/// Why a file is not eligible; the first that holds, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kept {
    /// A directory, link, pipe, socket or device.
    NotRegular = 1,
    /// It is at or under an exempt path.
    ExemptPath = 2,
    /// Its owner is exempt.
    ExemptUser = 3,
    /// Its group is exempt.
    ExemptGroup = 4,
    /// Its project is exempt.
    ExemptProject = 5,
    /// Projects are exempt, and its project is unknown.
    ProjectUnknown = 6,
    /// It has other names.
    OtherLinks = 7,
    /// It is smaller than the minimum size for deletion.
    TooSmall = 8,
    /// A time that counts is not known.
    TimeUnknown = 9,
    /// It is younger than the minimum age.
    TooYoung = 10,
}

impl Kept {
    /// Every reason in the order in which they are checked, with its name in reports and Python.
    pub const TABLE: [(Self, &str); 10] = [
        (Self::NotRegular, "not_regular"),
        (Self::ExemptPath, "exempt_path"),
        (Self::ExemptUser, "exempt_user"),
        (Self::ExemptGroup, "exempt_group"),
        (Self::ExemptProject, "exempt_project"),
        (Self::ProjectUnknown, "project_unknown"),
        (Self::OtherLinks, "other_links"),
        (Self::TooSmall, "too_small"),
        (Self::TimeUnknown, "time_unknown"),
        (Self::TooYoung, "too_young"),
    ];

    /// The reason of a number; `None` for 0 and any other number without a reason.
    pub fn of_number(number: u8) -> Option<Self> {
        let place = usize::from(number).checked_sub(1)?;
        Self::TABLE.get(place).map(|(kept, _)| *kept)
    }

    /// Its name.
    pub fn text(self) -> &'static str {
        Self::TABLE[self as usize - 1].1
    }
}

impl Rules {
    /// When a file was last used, in whole seconds, rounded down; never after the metadata were
    /// taken. `None` where a time that counts is missing, or where none counts.
    pub fn last_use_s(&self, times: &Times) -> Option<i64> {
        let counted = [
            (self.counted.access, times.access_ns),
            (self.counted.modification, times.modification_ns),
            (self.counted.change, times.change_ns),
        ];
        let mut last: Option<i64> = None;
        for (_, time) in counted.into_iter().filter(|(counts, _)| *counts) {
            last = last.max(Some(time?));
        }
        last.map(|last_ns| last_ns.div_euclid(NS_PER_S).min(self.as_of_s))
    }

    /// When a file in `parent` called `name` was last used, if it may be deleted; else why not.
    pub fn judge(&self, parent: &[u8], name: &[u8], entry: &Entry) -> Result<i64, Kept> {
        if entry.kind != FileType::Regular {
            return Err(Kept::NotRegular);
        }
        if self.is_exempt_path(parent, name) {
            return Err(Kept::ExemptPath);
        }
        if self.exempt.has_user(entry.uid) {
            return Err(Kept::ExemptUser);
        }
        if self.exempt.has_group(entry.gid) {
            return Err(Kept::ExemptGroup);
        }
        match entry.project {
            Some(project) if self.exempt.has_project(project) => return Err(Kept::ExemptProject),
            None if self.exempt.exempts_projects() => return Err(Kept::ProjectUnknown),
            _ => {}
        }
        if entry.links != 1 && !self.linked {
            return Err(Kept::OtherLinks);
        }
        if entry.size_bytes < self.minimum_size_bytes {
            return Err(Kept::TooSmall);
        }
        let last_use_s = self.last_use_s(&entry.times).ok_or(Kept::TimeUnknown)?;
        if last_use_s >= self.old_enough_before_s {
            return Err(Kept::TooYoung);
        }
        Ok(last_use_s)
    }

    /// Whether one file is: its directory, or the file by its own name.
    pub fn is_exempt_path(&self, parent: &[u8], name: &[u8]) -> bool {
        self.exempt.lists().paths.iter().any(|exempt| {
            is_at_or_under(parent, exempt)
                || match (parent, exempt.strip_prefix(parent)) {
                    (b"", Some(rest)) => rest == name,
                    (_, Some([b'/', rest @ ..])) => rest == name,
                    _ => false,
                }
        })
    }
}

/// Whether `path` is `top` or is under it; the empty path is the root.
fn is_at_or_under(path: &[u8], top: &[u8]) -> bool {
    match path.strip_prefix(top) {
        Some([] | [b'/', ..]) => true,
        Some(_) => top.is_empty(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::ObjectId;

    fn entry() -> Entry {
        let at = Some(100 * NS_PER_S);
        Entry {
            id: ObjectId::Inode(1),
            device: 1,
            uid: 1000,
            gid: 1000,
            size_bytes: 10,
            allocated_bytes: 4096,
            links: 1,
            times: Times { access_ns: at, modification_ns: at, change_ns: at, birth_ns: None },
            kind: FileType::Regular,
            project: Some(0),
            ..Entry::default()
        }
    }

    fn rules() -> Rules {
        Rules {
            counted: Counted::ALL,
            as_of_s: 1000,
            old_enough_before_s: 500,
            minimum_size_bytes: 0,
            exempt: Exemptions::new(Exempt {
                paths: vec![b"home".to_vec(), b"a/b".to_vec(), b"a/file".to_vec()],
                users: vec![7],
                groups: vec![8],
                projects: vec![9],
            }),
            linked: false,
        }
    }

    #[test]
    fn the_last_use_is_the_most_recent_time_that_counts() {
        let mut entry = entry();
        entry.times.access_ns = Some(200 * NS_PER_S + 999_999_999);
        assert_eq!(rules().judge(b"x", b"y", &entry), Ok(200));
        let unread = Counted { access: false, ..Counted::ALL };
        assert_eq!(Rules { counted: unread, ..rules() }.judge(b"x", b"y", &entry), Ok(100));
    }

    #[test]
    fn a_time_in_the_future_is_the_time_of_the_scan() {
        let mut entry = entry();
        entry.times.modification_ns = Some(i64::MAX);
        assert_eq!(rules().last_use_s(&entry.times), Some(1000));
    }

    #[test]
    fn a_time_before_1970_rounds_down() {
        let mut entry = entry();
        let at = Some(-1);
        entry.times = Times { access_ns: at, modification_ns: at, change_ns: at, birth_ns: None };
        assert_eq!(rules().last_use_s(&entry.times), Some(-1));
    }

    #[test]
    fn a_file_without_a_time_that_counts_stays() {
        let mut entry = entry();
        entry.times.change_ns = None;
        assert_eq!(rules().judge(b"x", b"y", &entry), Err(Kept::TimeUnknown));
        let none = Counted { access: false, modification: false, change: false };
        let none = Rules { counted: none, ..rules() };
        assert_eq!(none.judge(b"x", b"y", &self::entry()), Err(Kept::TimeUnknown));
    }

    #[test]
    fn exempt_paths_end_at_a_component() {
        let rules = rules();
        for (parent, name) in
            [("home", "f"), ("home/u", "f"), ("a/b", "f"), ("a", "b"), ("a", "file")]
        {
            assert!(rules.is_exempt_path(parent.as_bytes(), name.as_bytes()), "{parent}/{name}");
        }
        for (parent, name) in
            [("homes", "f"), ("a", "bb"), ("", "a"), ("a", "file2"), ("b/home", "f")]
        {
            assert!(!rules.is_exempt_path(parent.as_bytes(), name.as_bytes()), "{parent}/{name}");
        }
        let all = Rules { exempt: Exemptions::default().with_path(b""), ..rules };
        assert!(all.is_exempt_path(b"", b"f") && all.is_exempt_path(b"x", b"f"));
    }

    #[test]
    fn exemptions_hold_whatever_their_order() {
        let ids = vec![900, 7, 30, 7, 1, 500];
        let paths = ["z", "home", "a/b", "home"].map(|path| path.as_bytes().to_vec());
        let exempt = Exemptions::new(Exempt {
            paths: paths.to_vec(),
            users: ids.clone(),
            groups: ids.clone(),
            projects: ids.clone(),
        });
        assert_eq!(exempt.lists().users, [1, 7, 30, 500, 900]);
        let rules = Rules { exempt, ..rules() };
        let judged = |entry: Entry| rules.judge(b"x", b"y", &entry).unwrap_err();
        for id in ids {
            assert_eq!(judged(Entry { uid: id, ..entry() }), Kept::ExemptUser);
            assert_eq!(judged(Entry { gid: id, ..entry() }), Kept::ExemptGroup);
            assert_eq!(judged(Entry { project: Some(id), ..entry() }), Kept::ExemptProject);
        }
        for path in paths {
            assert_eq!(rules.judge(&path, b"y", &entry()), Err(Kept::ExemptPath));
        }
        let more = rules.exempt.with_path(b"m");
        assert_eq!(more.lists().paths, [&b"a/b"[..], b"home", b"m", b"z"]);
    }

    #[test]
    fn a_project_that_nobody_knows_keeps_a_file_only_where_projects_are_exempt() {
        let none = Entry { project: None, ..entry() };
        assert_eq!(rules().judge(b"x", b"y", &none), Err(Kept::ProjectUnknown));
        let exempt = Exemptions::default();
        assert_eq!(Rules { exempt, ..rules() }.judge(b"x", b"y", &none), Ok(100));
    }

    #[test]
    fn each_reason_is_found() {
        let judged = |change: fn(&mut Entry)| {
            let mut entry = entry();
            change(&mut entry);
            rules().judge(b"x", b"y", &entry).unwrap_err()
        };
        assert_eq!(judged(|e| e.kind = FileType::SymbolicLink), Kept::NotRegular);
        assert_eq!(judged(|e| e.uid = 7), Kept::ExemptUser);
        assert_eq!(judged(|e| e.gid = 8), Kept::ExemptGroup);
        assert_eq!(judged(|e| e.project = Some(9)), Kept::ExemptProject);
        assert_eq!(judged(|e| e.project = None), Kept::ProjectUnknown);
        assert_eq!(judged(|e| e.links = 2), Kept::OtherLinks);
        assert_eq!(judged(|e| e.times.access_ns = Some(500 * NS_PER_S)), Kept::TooYoung);
        let large = Rules { minimum_size_bytes: 11, ..rules() };
        assert_eq!(large.judge(b"x", b"y", &entry()), Err(Kept::TooSmall));
    }
}
