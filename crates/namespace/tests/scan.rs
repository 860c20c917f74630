//! Scans that are stopped, killed and gone on with, against a slow walk of the same tree.

mod seeded;
mod trees;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use namespace::scan::{CHECKPOINT, Checkpoint, Control, Options, Summary, scan};
use namespace::walk::{BaseIndex, Settings, Wanted, whole};
use namespace::{Error, Result};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use trees::{Chance, Known, joined, make_tree, slow_walk};

fn options(root: &Path, index: &Path) -> Options {
    Options {
        root: root.to_path_buf(),
        index: index.to_path_buf(),
        settings: Settings {
            buffer_bytes: 1024,
            queue_limit: 4,
            descriptors: 16,
            ..Settings::default()
        },
        checkpoint_every: Duration::from_millis(3),
        base: None,
    }
}

fn number(field: &Field) -> i128 {
    match field {
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::TimestampMillis(value) | Field::TimestampMicros(value) => (*value).into(),
        other => panic!("no number: {other:?}"),
    }
}

fn bytes(field: &Field) -> Vec<u8> {
    match field {
        Field::Bytes(value) => value.data().to_vec(),
        Field::Str(value) => value.as_bytes().to_vec(),
        other => panic!("no bytes: {other:?}"),
    }
}

fn known(row: &Row) -> (Vec<u8>, Known) {
    let columns: BTreeMap<&String, &Field> = row.get_column_iter().collect();
    let column = |name: &str| columns[&name.to_owned()];
    let u64_of = |name: &str| number(column(name)) as u64;
    let u32_of = |name: &str| number(column(name)) as u32;
    let known = Known {
        inode: u128::from_be_bytes(bytes(column("id")).try_into().unwrap()) as u64,
        links: u64_of("nlink"),
        size_bytes: u64_of("size_bytes"),
        allocated_bytes: u64_of("allocated_bytes"),
        owners: (u32_of("uid"), u32_of("gid")),
        modification_ns: number(column("mtime_ns")) as i64,
        letter: match column("type") {
            Field::Bytes(value) => value.data()[0],
            Field::Str(value) => value.as_bytes()[0],
            field => number(field) as u8,
        },
    };
    (joined(&bytes(column("parent")), &bytes(column("name"))), known)
}

/// Every row of an index, read by the Parquet library alone; a path that is listed twice fails.
fn read(index: &Path, summary: &Summary) -> BTreeMap<Vec<u8>, Known> {
    let mut rows_by_path = BTreeMap::new();
    let mut listed: Vec<_> = summary.shards.iter().map(|shard| shard.name.clone()).collect();
    for shard in &summary.shards {
        let reader =
            SerializedFileReader::new(fs::File::open(index.join(&shard.name)).unwrap()).unwrap();
        let mut rows = 0;
        for row in reader.get_row_iter(None).unwrap() {
            let (path, known) = known(&row.unwrap());
            assert!(rows_by_path.insert(path.clone(), known).is_none(), "twice: {path:?}");
            rows += 1;
        }
        assert_eq!(rows, shard.rows, "{}", shard.name);
    }
    let mut present: Vec<_> = fs::read_dir(index)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != CHECKPOINT)
        .collect();
    listed.sort();
    present.sort();
    assert_eq!(present, listed, "nothing else is left in the index");
    rows_by_path
}

fn check(tree: &Path, index: &Path, summary: &Summary) {
    let truth = slow_walk(tree);
    assert_eq!(read(index, summary), truth);
    assert_eq!(summary.counts.entries, truth.len() as u64);
    let directories = truth.values().filter(|known| known.letter == b'd').count() as u64;
    assert_eq!(summary.counts.directories, directories + 1);
    assert!(!summary.stopped && summary.unread.is_empty());
    assert!(summary.started_ns < summary.ended_ns);
}

/// Scans, stopped after so many milliseconds and each time a little later, until it is done.
fn stopped_again_and_again(options: &Options, first_ms: u64) -> Summary {
    let mut stops = 0;
    let summary = loop {
        let control = Control::default();
        let summary = std::thread::scope(|scope| {
            let running = scope.spawn(|| scan(options, &control).unwrap());
            std::thread::sleep(Duration::from_millis(first_ms + stops));
            control.stop();
            running.join().unwrap()
        });
        if !summary.stopped {
            break summary;
        }
        stops += 1;
    };
    assert!(stops > 0);
    summary
}

#[test]
fn the_index_of_a_tree_is_the_tree() {
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 900, &mut Chance::new(3));
    for threads in [1, 2, 17] {
        let index = index.path().join(threads.to_string());
        let mut options = options(tree.path(), &index);
        options.settings.threads = threads;
        let control = Control::default();
        let summary = scan(&options, &control).unwrap();
        check(tree.path(), &index, &summary);
        assert_eq!(control.progress().counts, summary.counts);
        // Asked again, it is done already and nothing is read.
        assert_eq!(scan(&options, &Control::default()).unwrap(), summary);
    }
}

fn base_of(index: &Path, summary: &Summary) -> BaseIndex {
    let shards = summary.shards.iter().map(|shard| index.join(&shard.name));
    BaseIndex { id: "base".into(), parts: whole(shards), before_ns: i64::MAX, empty_again: false }
}

/// For an unchanged tree only the directories are written, whatever stops the scan; the root is
/// always read.
#[test]
fn a_scan_from_an_earlier_index_is_stopped_and_goes_on() {
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 900, &mut Chance::new(6));
    let first = index.path().join("first");
    let base = scan(&options(tree.path(), &first), &Control::default()).unwrap();
    let second = index.path().join("second");
    let mut options = options(tree.path(), &second);
    options.base = Some(base_of(&first, &base));
    options.settings.delay = Some(Duration::from_micros(50));
    let summary = stopped_again_and_again(&options, 5);
    let mut truth = slow_walk(tree.path());
    truth.retain(|path, known| known.letter == b'd' || !path.contains(&b'/'));
    assert_eq!(read(&second, &summary), truth);
    let counts = summary.counts;
    assert_eq!((counts.directories, counts.unchanged + 1), (1, base.counts.directories));
    assert_eq!(counts.entries + counts.carried, base.counts.entries);
}

#[test]
fn a_scan_goes_on_from_the_index_that_it_began_from() {
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 300, &mut Chance::new(7));
    let first = index.path().join("first");
    let base = scan(&options(tree.path(), &first), &Control::default()).unwrap();
    let mut begun = options(tree.path(), &index.path().join("second"));
    begun.base = Some(base_of(&first, &base));
    scan(&begun, &Control::default()).unwrap();
    let mut other = begun.clone();
    other.base.as_mut().unwrap().id = "other".into();
    let none = Options { base: None, ..begun.clone() };
    for options in [other, none] {
        assert!(matches!(scan(&options, &Control::default()), Err(Error::Usage(_))));
    }
    // A damaged one is refused before anything is written.
    fs::write(&begun.base.as_ref().unwrap().parts[0].path, b"none").unwrap();
    begun.index = index.path().join("third");
    assert!(scan(&begun, &Control::default()).is_err());
    assert!(!begun.index.exists());
}

#[test]
fn a_scan_that_is_stopped_goes_on() {
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 900, &mut Chance::new(4));
    let mut options = options(tree.path(), index.path());
    options.settings.delay = Some(Duration::from_micros(20));
    let summary = stopped_again_and_again(&options, 10);
    check(tree.path(), index.path(), &summary);
}

#[test]
fn an_index_that_is_something_else_is_left_alone() {
    let (tree, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 20, &mut Chance::new(5));
    let refused = |options: &Options| match scan(options, &Control::default()) {
        Err(Error::Usage(why)) => why,
        answer => panic!("{answer:?}"),
    };
    let index = |name: &str, content: &[(&str, &[u8])]| {
        let index = other.path().join(name);
        fs::create_dir(&index).unwrap();
        content.iter().for_each(|(name, text)| fs::write(index.join(name), text).unwrap());
        index
    };
    let whole = options(tree.path(), &index("whole", &[("manifest.json", b"{}")]));
    assert!(refused(&whole).contains("whole index"));
    let shards = options(tree.path(), &index("shards", &[("scan-000000.parquet", b"PAR1")]));
    assert!(refused(&shards).contains("no checkpoint"));
    assert!(shards.index.join("scan-000000.parquet").exists());

    let begun = options(tree.path(), &index("begun", &[]));
    scan(&begun, &Control::default()).unwrap();
    let elsewhere = Options { root: other.path().to_path_buf(), ..begun.clone() };
    assert!(refused(&elsewhere).contains("another root"));
    let mut more = begun.clone();
    more.settings.wanted = Wanted { layout: true, ..Wanted::default() };
    assert!(refused(&more).contains("other options"));
    fs::remove_file(begun.index.join("scan-000000.parquet")).unwrap();
    assert!(matches!(scan(&begun, &Control::default()), Err(Error::Data { .. })));
    fs::write(begun.index.join(CHECKPOINT), b"rubbish").unwrap();
    assert!(matches!(scan(&begun, &Control::default()), Err(Error::Data { .. })));
}

#[test]
fn two_scans_do_not_write_into_one_index() {
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let held = fs::File::open(index.path()).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let answer = scan(&options(tree.path(), index.path()), &Control::default());
    assert!(matches!(answer, Err(Error::Usage(why)) if why.contains("another scan")));
}

#[test]
fn a_disk_that_is_full_ends_the_scan() {
    struct Full;
    impl namespace::walk::Sink for Full {
        fn row(&mut self, _: &[u8], _: &[u8], _: &namespace::Entry) -> Result<()> {
            Err(Error::system("write", "/dev/full", rustix::io::Errno::NOSPC))
        }
        fn flush(&mut self) -> Result<Vec<namespace::walk::Shard>> {
            Ok(Vec::new())
        }
    }
    let (tree, index) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    make_tree(tree.path(), 300, &mut Chance::new(6));
    let options = options(tree.path(), index.path());
    let answer = namespace::scan::scan_into(&options, &Control::default(), |_, _| Full);
    assert!(matches!(answer, Err(Error::System { operation: "write", .. })), "{answer:?}");
    // The last checkpoint is still valid: the scan goes on from there.
    check(tree.path(), index.path(), &scan(&options, &Control::default()).unwrap());
}

const CHILD: &str = "NAMESPACE_SCAN_CHILD";

/// Not a test of its own: the process that `a_scan_survives_kills` ends.
#[test]
fn child() {
    let Some(places) = std::env::var_os(CHILD) else { return };
    let places = PathBuf::from(places);
    let mut options = options(&places.join("tree"), &places.join("index"));
    options.settings.threads = 3;
    options.settings.delay = Some(Duration::from_micros(10));
    scan(&options, &Control::default()).unwrap();
}

/// `TRIMTAB_KILLS` says how often, `TRIMTAB_SEED` where the seeds of the trees begin (the commit
/// without it); that of a tree is printed by a failure.
#[test]
fn a_scan_survives_kills() {
    let text = std::env::var("TRIMTAB_KILLS").unwrap_or_else(|_| "20".into());
    let kills_requested: u64 = text.parse().unwrap();
    let (mut kills, mut tree_seed) = (0, seeded::seed("a killed scan"));
    while kills < kills_requested {
        tree_seed = tree_seed.wrapping_add(1);
        kills += kill_until_it_is_done(tree_seed);
    }
}

/// Scans one tree, killed again and again; returns how often it was.
fn kill_until_it_is_done(seed: u64) -> u64 {
    let mut chance = Chance::new(seed);
    let places = tempfile::tempdir().unwrap();
    let (tree, index) = (places.path().join("tree"), places.path().join("index"));
    fs::create_dir(&tree).unwrap();
    make_tree(&tree, 1500, &mut chance);
    let mut kills = 0;
    loop {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--test-threads", "1"])
            .env(CHILD, places.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(chance.below(40_000)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let whole = Checkpoint::read(&index)
            .unwrap()
            .is_some_and(|checkpoint| checkpoint.ended_ns.is_some());
        if status.signal().is_some() && !whole {
            kills += 1;
            continue;
        }
        assert!(status.success() || whole, "seed {seed}: {status:?}");
        break;
    }
    let summary = scan(&options(&tree, &index), &Control::default()).unwrap();
    println!("seed {seed}: {kills} kills, {} shards", summary.shards.len());
    check(&tree, &index, &summary);
    kills
}
