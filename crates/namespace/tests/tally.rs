//! The tally and the selection against a slow and obvious twin, and the merging of tallies.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use namespace::index::{Limits, Part, Row, Shard, ShardWriter};
use namespace::rules::{Counted, Exempt, Exemptions};
use namespace::selection::select;
use namespace::tally::{Options, Tally, tally};
use namespace::{Kept, Rules};
use proptest::prelude::*;
use support::twin;
use support::{AS_OF_S, row, rules};

const EVERYTHING: Options = Options { users: true, projects: true, osts: true };

/// Writes rows into shards, dealt out one after another.
fn write(directory: &Path, rows: &[Row], shards: usize, group: usize) -> Vec<PathBuf> {
    let name = |shard: usize| format!("{shard}.parquet");
    for shard in 0..shards {
        let limits = Limits { rows: group, bytes: 1 << 30 };
        let mut writer = ShardWriter::create_within(directory, &name(shard), limits).unwrap();
        for row in rows.iter().skip(shard).step_by(shards) {
            writer.row(&row.parent, &row.name, &row.entry).unwrap();
        }
        writer.finish().unwrap();
    }
    (0..shards).map(|shard| directory.join(name(shard))).collect()
}

fn options() -> impl Strategy<Value = Options> {
    (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(users, projects, osts)| Options {
        users,
        projects,
        osts,
    })
}

fn world() -> impl Strategy<Value = Vec<Row>> {
    prop::collection::vec(row(), 0..80)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_tally_is_what_its_twin_counts(
        rows in world(), rules in rules(), options in options(), shards in 1usize..4, group in 1usize..50,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let paths = write(directory.path(), &rows, shards, group);
        let counted = tally(&paths, &rules, options, 2).unwrap();
        prop_assert_eq!(twin::told(&counted), twin::tally(&rows, &rules, options));
    }

    #[test]
    fn rows_that_later_shards_replace_count_for_nothing(
        rows in prop::collection::vec((row(), any::<bool>()), 0..80), rules in rules(),
        options in options(), before in -10i64..300_000, group in 1usize..50,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let all: Vec<Row> = rows.iter().map(|(row, _)| row.clone()).collect();
        let left: Vec<Row> =
            rows.iter().filter(|(_, gone)| !gone).map(|(row, _)| row.clone()).collect();
        let path = write(directory.path(), &all, 1, group).remove(0);
        let superseded = directory.path().join("superseded");
        let numbers = rows.iter().enumerate().filter(|(_, (_, gone))| *gone);
        let bytes: Vec<u8> =
            numbers.flat_map(|(number, _)| (number as u32).to_le_bytes()).collect();
        std::fs::write(&superseded, bytes).unwrap();
        let parts = [Part { path, superseded: Some(superseded) }];
        let counted = tally(&parts, &rules, options, 2).unwrap();
        prop_assert_eq!(twin::told(&counted), twin::tally(&left, &rules, options));
        let out = directory.path().join("candidates.parquet");
        let amount = select(&parts, &rules, AS_OF_S - before, &out, 2, 0).unwrap();
        let mut candidates =
            Shard::open(&out).unwrap().rows_from(0).unwrap().read(usize::MAX).unwrap();
        candidates.sort_by_key(twin::key);
        prop_assert_eq!((candidates, amount), twin::select(&left, &rules, AS_OF_S - before));
    }

    #[test]
    fn tallies_of_parts_merge_into_the_tally_of_all(
        rows in world(), rules in rules(), shuffle in any::<u64>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let paths = write(directory.path(), &rows, 4, 10);
        let all = tally(&paths, &rules, EVERYTHING, 1).unwrap().to_bytes();
        let mut parts: Vec<Tally> = paths
            .iter()
            .map(|path| tally(std::slice::from_ref(path), &rules, EVERYTHING, 1).unwrap())
            .map(|part| Tally::from_bytes(&part.to_bytes()).unwrap())
            .collect();
        // Any two, until one is left: any order and any grouping.
        let mut state = shuffle | 1;
        while parts.len() > 1 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let picked = parts.swap_remove((state >> 33) as usize % parts.len());
            let into = (state >> 13) as usize % parts.len();
            parts[into].merge(&picked).unwrap();
        }
        prop_assert_eq!(parts[0].to_bytes(), all);
    }

    #[test]
    fn candidates_are_what_the_twin_selects(
        rows in world(), rules in rules(), before in -10i64..300_000, shards in 1usize..4,
    ) {
        let directory = tempfile::tempdir().unwrap();
        let paths = write(directory.path(), &rows, shards, 20);
        let before_s = AS_OF_S - before;
        let out = directory.path().join("candidates.parquet");
        let amount = select(&paths, &rules, before_s, &out, 2, 0).unwrap();
        let candidates = Shard::open(&out).unwrap().rows_from(0).unwrap().read(usize::MAX).unwrap();
        let (expected, expected_amount) = twin::select(&rows, &rules, before_s);
        prop_assert_eq!(amount, expected_amount);
        let hour = |row: &Row| row.last_use_s.map(|last_use_s| last_use_s.div_euclid(3600));
        let order = |row: &Row| (hour(row), row.parent.clone(), row.name.clone());
        prop_assert!(candidates.windows(2).all(|two| order(&two[0]) <= order(&two[1])));
        let mut definite = candidates;
        definite.sort_by_key(twin::key);
        prop_assert_eq!(definite, expected);
        let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
        prop_assert_eq!(left.len(), shards + 1);
    }
}

fn usual(linked: bool) -> Rules {
    Rules {
        counted: Counted::ALL,
        as_of_s: AS_OF_S,
        old_enough_before_s: AS_OF_S - 100,
        minimum_size_bytes: 0,
        exempt: Exemptions::new(Exempt {
            paths: vec![b"a/b".to_vec()],
            users: vec![3],
            ..Exempt::default()
        }),
        linked,
    }
}

fn many(count: usize) -> Vec<Row> {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let draw = |_| proptest::strategy::ValueTree::current(&row().new_tree(&mut runner).unwrap());
    (0..count).map(draw).collect()
}

#[test]
fn many_rows_are_counted_and_selected_as_few_are() {
    let directory = tempfile::tempdir().unwrap();
    let rows = many(30_000);
    let paths = write(directory.path(), &rows, 3, 6000);
    for linked in [false, true] {
        let rules = usual(linked);
        let counted = tally(&paths, &rules, EVERYTHING, 3).unwrap();
        assert_eq!(twin::told(&counted), twin::tally(&rows, &rules, EVERYTHING));
        // Little memory: some twenty runs have to be merged.
        let out = directory.path().join("candidates.parquet");
        let amount = select(&paths, &rules, AS_OF_S, &out, 2, 1 << 20).unwrap();
        let mut candidates =
            Shard::open(&out).unwrap().rows_from(0).unwrap().read(usize::MAX).unwrap();
        let (expected, expected_amount) = twin::select(&rows, &rules, AS_OF_S);
        assert_eq!(amount, expected_amount);
        candidates.sort_by_key(twin::key);
        assert!(candidates == expected, "{} rows, not {}", candidates.len(), expected.len());
    }
}

const SHARDS: &str = "TALLY_OF_SHARDS";

/// Not a test of its own: runs as the process that the next test starts.
#[test]
fn a_process_of_its_own() {
    let Ok(shards) = std::env::var(SHARDS) else { return };
    let shards: Vec<PathBuf> = shards.split(':').map(PathBuf::from).collect();
    let counted = tally(&shards, &usual(true), EVERYTHING, 1).unwrap();
    std::fs::write(shards[0].with_extension("tally"), counted.to_bytes()).unwrap();
}

#[test]
fn tallies_of_separate_processes_merge_in_any_order() {
    let directory = tempfile::tempdir().unwrap();
    let rows = many(4000);
    let paths = write(directory.path(), &rows, 6, 500);
    let parts: Vec<Vec<u8>> = paths
        .chunks(2)
        .map(|pair| {
            let list = format!("{}:{}", pair[0].display(), pair[1].display());
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "a_process_of_its_own"])
                .env(SHARDS, list)
                .output()
                .unwrap();
            assert!(status.status.success());
            std::fs::read(pair[0].with_extension("tally")).unwrap()
        })
        .collect();
    let all = tally(&paths, &usual(true), EVERYTHING, 2).unwrap().to_bytes();
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let [first, second, third] = order.map(|part| Tally::from_bytes(&parts[part]).unwrap());
        let mut left = first.clone();
        left.merge(&second).unwrap();
        left.merge(&third).unwrap();
        let mut right = second;
        right.merge(&third).unwrap();
        let mut grouped = first;
        grouped.merge(&right).unwrap();
        assert!(left.to_bytes() == all && grouped.to_bytes() == all);
    }
}

#[test]
fn only_tallies_by_the_same_rules_merge() {
    let none: [PathBuf; 0] = [];
    let mut whole = tally(&none, &usual(true), EVERYTHING, 1).unwrap();
    let error = whole.merge(&tally(&none, &usual(false), EVERYTHING, 1).unwrap()).unwrap_err();
    assert!(error.to_string().contains("rules"), "{error}");
    assert!(whole.merge(&tally(&none, &usual(true), Options::default(), 1).unwrap()).is_err());
}

#[test]
fn bytes_that_are_no_tally_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let paths = write(directory.path(), &many(300), 1, 500);
    let bytes = tally(&paths, &usual(true), EVERYTHING, 1).unwrap().to_bytes();
    for length in (0..bytes.len()).step_by(7) {
        assert!(Tally::from_bytes(&bytes[..length]).is_err());
    }
    assert!(Tally::from_bytes(&[&bytes[..], b"x"].concat()).is_err());
    for at in 0..bytes.len() {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        let _ = Tally::from_bytes(&bytes);
    }
}

#[test]
fn an_index_that_contradicts_itself_is_not_selected_from() {
    let directory = tempfile::tempdir().unwrap();
    let rows: Vec<Row> =
        many(500).into_iter().filter(|row| row.entry.times.access_ns.is_some()).collect();
    let paths = write(directory.path(), &rows, 1, 500);
    let rules = Rules {
        exempt: Exemptions::new(Exempt { users: vec![3], ..Exempt::default() }),
        ..usual(false)
    };
    // A list of candidates states the last use by its own rules: by others it says something else.
    let unread = Counted { access: false, ..Counted::ALL };
    let out = directory.path().join("by_other_rules");
    let other = Rules { counted: unread, ..rules.clone() };
    select(&paths, &other, AS_OF_S, &out, 1, 0).unwrap();
    let error = select(&[out], &rules, AS_OF_S, &directory.path().join("x"), 1, 0).unwrap_err();
    assert!(error.to_string().contains("contradicts"), "{error}");
    assert!(!directory.path().join("x").exists());
}

#[test]
fn a_shard_that_cannot_be_read_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = write(directory.path(), &many(200), 2, 500);
    let bytes = std::fs::read(&paths[1]).unwrap();
    std::fs::write(&paths[1], &bytes[..bytes.len() - 9]).unwrap();
    let message =
        |paths: &[PathBuf]| tally(paths, &usual(true), EVERYTHING, 2).unwrap_err().to_string();
    assert!(message(&paths).contains("1.parquet"), "{}", message(&paths));
    paths[1] = directory.path().join("gone");
    assert!(message(&paths).contains("gone"), "{}", message(&paths));
}

#[test]
fn sums_that_do_not_fit_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut row = many(1).remove(0);
    row.entry.allocated_bytes = u64::MAX;
    let rows = [row.clone(), row.clone()];
    let paths = write(directory.path(), &rows[..1], 1, 10);
    let half = tally(&paths, &usual(true), EVERYTHING, 1).unwrap();
    assert!(half.clone().merge(&half).is_err());
    let paths = write(directory.path(), &rows, 1, 10);
    assert!(tally(&paths, &usual(true), EVERYTHING, 1).is_err());
}

#[test]
fn every_reason_has_a_number_and_a_name() {
    for (place, (kept, _)) in Kept::TABLE.into_iter().enumerate() {
        assert_eq!(kept as usize, place + 1);
        assert_eq!(Kept::of_number(kept as u8), Some(kept));
    }
    assert_eq!((Kept::of_number(0), Kept::of_number(11)), (None, None));
}
