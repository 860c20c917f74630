//! The slow and obvious tally: rows in a list, `Rules::judge`, maps.

use std::collections::{BTreeMap, HashMap};

use namespace::index::Row;
use namespace::tally::{Amount, Options, Tally};
use namespace::{Entry, FileType, Kept, Rules};

type Curve = BTreeMap<i64, Amount>;

/// All results of a tally.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub total: Amount,
    pub kept: BTreeMap<&'static str, Amount>,
    pub hours: Curve,
    pub users: BTreeMap<u32, (Amount, Curve)>,
    pub projects: BTreeMap<u32, (Amount, Curve)>,
    pub osts: BTreeMap<u32, Curve>,
    pub unplaced: Amount,
    pub future_files: u64,
    pub latest_future_s: Option<i64>,
}

/// Returns all results of a tally.
pub fn told(tally: &Tally) -> Told {
    let curve = |buckets: Vec<(i64, Amount)>| buckets.into_iter().collect::<Curve>();
    let user = |uid| (uid, (tally.total_of_user(uid), curve(tally.days_of_user(uid))));
    let project = |id| (id, (tally.total_of_project(id), curve(tally.days_of_project(id))));
    Told {
        total: tally.total(),
        kept: tally.kept().into_iter().map(|(kept, amount)| (kept.text(), amount)).collect(),
        hours: curve(tally.hours()),
        users: tally.users().into_iter().map(user).collect(),
        projects: tally.projects().into_iter().map(project).collect(),
        osts: tally.osts().into_iter().map(|ost| (ost, curve(tally.hours_of_ost(ost)))).collect(),
        unplaced: tally.unplaced(),
        future_files: tally.future_files(),
        latest_future_s: tally.latest_future_s(),
    }
}

fn add(to: &mut Amount, files: u64, allocated_bytes: u64) {
    to.files += files;
    to.allocated_bytes += allocated_bytes;
}

/// A file with all of its names that are in the index.
pub struct File<'a> {
    pub rows: Vec<&'a Row>,
    /// Its last use by the rules, or why it is kept.
    pub verdict: Result<i64, Kept>,
}

/// The latest time that counts, not clamped.
fn latest(rules: &Rules, entry: &Entry) -> Option<i64> {
    Rules { as_of_s: i64::MAX, ..rules.clone() }.last_use_s(&entry.times)
}

/// The regular files of an index: rows with one name each, others by their identity.
pub fn files<'a>(rows: &'a [Row], rules: &Rules) -> Vec<File<'a>> {
    let mut objects: HashMap<(u64, [u8; 16]), Vec<&Row>> = HashMap::new();
    let mut files: Vec<(Vec<&Row>, bool)> = Vec::new();
    for row in rows.iter().filter(|row| row.entry.kind == FileType::Regular) {
        let id = row.entry.id.to_bytes();
        if row.entry.links == 1 {
            files.push((vec![row], true));
        } else if id == [0; 16] {
            files.push((vec![row], false));
        } else {
            objects.entry((row.entry.device, id)).or_default().push(row);
        }
    }
    files.extend(objects.into_values().map(|names| {
        let links = names.iter().map(|row| row.entry.links).max().unwrap();
        let whole = names.len() == links as usize;
        (names, whole)
    }));
    let judge = |(rows, whole): (Vec<&'a Row>, bool)| {
        let judged: Vec<_> =
            rows.iter().map(|row| rules.judge(&row.parent, &row.name, &row.entry)).collect();
        let mut reasons: Vec<Kept> =
            judged.iter().filter_map(|verdict_of_name| verdict_of_name.err()).collect();
        if !whole {
            reasons.push(Kept::OtherLinks);
        }
        let last = judged.iter().filter_map(|verdict_of_name| verdict_of_name.ok()).max();
        let verdict = match reasons.into_iter().min() {
            Some(kept) => Err(kept),
            None => Ok(last.unwrap()),
        };
        File { rows, verdict }
    };
    files.into_iter().map(judge).collect()
}

/// The greatest of several looks at one file: use, then bytes, owner, project, place.
pub fn look<'a>(file: &File<'a>, rules: &Rules, options: Options) -> &'a Row {
    let key = |row: &&&Row| {
        let entry = &row.entry;
        let osts = entry.layout.as_ref().filter(|_| options.osts).map(osts_of);
        let uid = if options.users { entry.uid } else { 0 };
        let project = entry.project.filter(|_| options.projects);
        (latest(rules, entry), entry.allocated_bytes, uid, project, osts)
    };
    file.rows.iter().max_by_key(key).unwrap()
}

fn osts_of(layout: &namespace::Layout) -> Vec<u32> {
    layout.osts.clone()
}

pub fn tally(rows: &[Row], rules: &Rules, options: Options) -> Told {
    let mut report = Told::default();
    for row in rows.iter().filter(|row| row.entry.kind != FileType::Regular) {
        add(report.kept.entry("not_regular").or_default(), 1, row.entry.allocated_bytes);
    }
    for file in files(rows, rules) {
        let entry = &look(&file, rules, options).entry;
        let bytes = entry.allocated_bytes;
        add(&mut report.total, 1, bytes);
        if let Some(last) = latest(rules, entry).filter(|last| *last > rules.as_of_s) {
            report.future_files += 1;
            report.latest_future_s = report.latest_future_s.max(Some(last));
        }
        let user = options.users.then(|| report.users.entry(entry.uid).or_default());
        let project = entry.project.filter(|_| options.projects);
        let project = project.map(|id| report.projects.entry(id).or_default());
        for (total, days) in user.into_iter().chain(project) {
            add(total, 1, bytes);
            if let Ok(last) = file.verdict {
                add(days.entry(last.div_euclid(86_400)).or_default(), 1, bytes);
            }
        }
        match file.verdict {
            Err(kept) => add(report.kept.entry(kept.text()).or_default(), 1, bytes),
            Ok(last) => {
                let hour = last.div_euclid(3600);
                add(report.hours.entry(hour).or_default(), 1, bytes);
                if options.osts {
                    place(&mut report, entry, hour);
                }
            }
        }
    }
    // Only users and projects with eligible files are reported.
    report.users.retain(|_, (_, days)| !days.is_empty());
    report.projects.retain(|_, (_, days)| !days.is_empty());
    report
}

fn place(report: &mut Told, entry: &Entry, hour: i64) {
    let bytes = entry.allocated_bytes;
    let osts = entry.layout.as_ref().map(osts_of).unwrap_or_default();
    if osts.is_empty() {
        add(&mut report.unplaced, 1, bytes);
        return;
    }
    let count = osts.len() as u64;
    let mut parts: BTreeMap<u32, u64> = BTreeMap::new();
    for (number, ost) in osts.iter().enumerate() {
        let rest = if number == 0 { bytes % count } else { 0 };
        *parts.entry(*ost).or_default() += bytes / count + rest;
    }
    for (ost, part) in parts {
        add(report.osts.entry(ost).or_default().entry(hour).or_default(), 1, part);
    }
}

/// The candidates: rows in order, with their last use by the rules, and the files they are.
pub fn select(rows: &[Row], rules: &Rules, before_s: i64) -> (Vec<Row>, Amount) {
    let (mut chosen, mut amount) = (Vec::new(), Amount::default());
    for file in files(rows, rules) {
        let Some(last) = file.verdict.ok().filter(|last| *last < before_s) else { continue };
        add(&mut amount, 1, look(&file, rules, Options::default()).entry.allocated_bytes);
        for row in &file.rows {
            chosen.push(Row { last_use_s: Some(last), ..(*row).clone() });
        }
    }
    chosen.sort_by_key(key);
    (chosen, amount)
}

/// The key that sorts candidates; further fields only make the order of equal names definite.
pub fn key(row: &Row) -> (i64, Vec<u8>, Vec<u8>, String) {
    let rest = format!("{:?}", row.entry);
    (row.last_use_s.unwrap().div_euclid(3600), row.parent.to_vec(), row.name.to_vec(), rest)
}
