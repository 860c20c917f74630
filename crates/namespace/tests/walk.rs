//! The walk against a slow one, and against trees that are made to break it.

mod trees;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use namespace::walk::{Rows, Settings, Shard, Sink, walk, walk_into};
use namespace::{Entry, FileType, Root};
use proptest::prelude::*;
use rustix::fs::{Mode, OFlags};
use trees::{Chance, Known, joined, make_tree, slow_walk};

fn by_path(rows: &Rows) -> BTreeMap<Vec<u8>, Known> {
    let mut names = BTreeMap::new();
    for (parent, name, entry) in rows {
        let path = joined(parent, name);
        assert!(names.insert(path.clone(), Known::of_entry(entry)).is_none(), "twice: {path:?}");
    }
    names
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_walk_finds_what_a_slow_one_finds(
        seed in any::<u64>(),
        names in 1u64..600,
        threads in 1usize..9,
        queue_limit in prop::sample::select(vec![0usize, 1, 5, 100_000]),
        buffer_bytes in prop::sample::select(vec![1024usize, 4096, 32 << 10]),
        by_component in any::<bool>(),
    ) {
        let tree = tempfile::tempdir().unwrap();
        make_tree(tree.path(), names, &mut Chance::new(seed));
        let settings = Settings { threads, queue_limit, buffer_bytes, descriptors: 16, ..Settings::default() };
        let root = Root::open(tree.path()).unwrap();
        let root = if by_component { root.without_openat2() } else { root };
        let (rows, counts, unread) = walk(&root, &settings).unwrap();
        let truth = slow_walk(tree.path());
        prop_assert_eq!(by_path(&rows), truth.clone());
        prop_assert_eq!(counts.entries, truth.len() as u64);
        let directories = truth.values().filter(|known| known.letter == b'd').count() as u64;
        prop_assert_eq!(counts.directories, directories + 1);
        prop_assert_eq!(counts.allocated_bytes, truth.values().map(|known| known.allocated_bytes).sum::<u64>());
        prop_assert_eq!((counts.vanished, counts.elsewhere, counts.unread), (0, 0, 0));
        prop_assert!(unread.is_empty());
    }
}

/// Names of one large directory are handed to workers that have nothing else to do.
#[test]
fn a_single_directory_is_shared_among_workers() {
    let tree = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        fs::write(tree.path().join(format!("file-{number}")), b"").unwrap();
    }
    let delay = Some(Duration::from_micros(50));
    let settings = Settings { threads: 16, delay, ..Settings::default() };
    let (rows, ..) = walk(&Root::open(tree.path()).unwrap(), &settings).unwrap();
    assert_eq!(by_path(&rows), slow_walk(tree.path()));
}

/// Counts rows and remembers the longest path: in memory all paths would be gigabytes.
#[derive(Default)]
struct Longest {
    rows: u64,
    path_bytes: usize,
}

impl Sink for Longest {
    fn row(&mut self, parent: &[u8], name: &[u8], _: &Entry) -> namespace::Result<()> {
        self.rows += 1;
        self.path_bytes = self.path_bytes.max(joined(parent, name).len());
        Ok(())
    }

    fn flush(&mut self) -> namespace::Result<Vec<Shard>> {
        Ok(Vec::new())
    }
}

fn longest(root: &Path, settings: &Settings) -> (u64, usize) {
    let sinks = [Mutex::new(Longest::default())];
    let (counts, unread) = walk_into(&Root::open(root).unwrap(), settings, &sinks).unwrap();
    assert_eq!(counts.unread, 0, "{:?}", unread.first());
    let [sink] = sinks;
    let sink = sink.into_inner().unwrap();
    (sink.rows, sink.path_bytes)
}

/// A hundred thousand levels with the full count, a tenth of that without.
#[test]
fn a_tree_of_any_depth_is_walked() {
    let levels = if std::env::var_os("TRIMTAB_SOAK").is_some() { 100_000 } else { 10_000 };
    let tree = tempfile::tempdir().unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut deepest = rustix::fs::open(tree.path(), flags, Mode::empty()).unwrap();
    for _ in 0..levels {
        rustix::fs::mkdirat(&deepest, "d", Mode::RWXU).unwrap();
        deepest = rustix::fs::openat(&deepest, "d", flags, Mode::empty()).unwrap();
    }
    let settings = Settings { descriptors: 16, ..Settings::default() };
    assert_eq!(longest(tree.path(), &settings), (levels, 2 * levels as usize - 1));
    // Removed from the top: what is beneath is moved up first.
    let (one, two) = (tree.path().join("d"), tree.path().join("e"));
    for _ in 1..levels {
        fs::rename(one.join("d"), &two).unwrap();
        fs::remove_dir(&one).unwrap();
        fs::rename(&two, &one).unwrap();
    }
}

#[test]
fn what_is_mounted_beneath_is_left_alone() {
    let tree = tempfile::tempdir().unwrap();
    for name in ["a", "other", "same"] {
        fs::create_dir(tree.path().join(name)).unwrap();
    }
    fs::write(tree.path().join("a/file"), b"x").unwrap();
    fs::write(tree.path().join("covered"), b"x").unwrap();
    let at = |name: &str| {
        std::ffi::CString::new(tree.path().join(name).into_os_string().into_encoded_bytes())
            .unwrap()
    };
    let mount = |from: &std::ffi::CStr, to: &std::ffi::CStr, flags| {
        // SAFETY: both are paths with a NUL, and this file system takes no data.
        unsafe {
            libc::mount(from.as_ptr(), to.as_ptr(), c"tmpfs".as_ptr(), flags, std::ptr::null()) == 0
        }
    };
    // In a mount namespace of this thread alone, which ends with it.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: it changes only what this thread sees.
            if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0
                || !mount(c"none", c"/", libc::MS_REC | libc::MS_PRIVATE)
            {
                return; // not root
            }
            assert!(mount(c"tmpfs", &at("other"), 0));
            assert!(mount(&at("a"), &at("same"), libc::MS_BIND));
            assert!(mount(&at("a/file"), &at("covered"), libc::MS_BIND));
            fs::write(tree.path().join("other/foreign"), b"x").unwrap();
            for by_component in [false, true] {
                let root = Root::open(tree.path()).unwrap();
                let root = if by_component { root.without_openat2() } else { root };
                let (rows, counts, unread) = walk(&root, &Settings::default()).unwrap();
                let paths: BTreeSet<_> = by_path(&rows).into_keys().collect();
                assert_eq!(paths, BTreeSet::from([b"a".to_vec(), b"a/file".to_vec()]));
                assert_eq!((counts.elsewhere, unread.len()), (3, 0));
            }
        });
    });
}

#[test]
fn what_cannot_be_read_is_said() {
    let tree = tempfile::tempdir().unwrap();
    fs::create_dir_all(tree.path().join("open/closed/deeper")).unwrap();
    fs::create_dir(tree.path().join("listed")).unwrap();
    fs::write(tree.path().join("listed/file"), b"x").unwrap();
    let mode = |name: &str, mode| {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(tree.path().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    mode("open/closed", 0o700);
    mode("listed", 0o744);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY: of the threads of this process it changes only this one and its children.
            unsafe { libc::syscall(libc::SYS_setfsuid, 65534) };
            if fs::read_dir(tree.path().join("open/closed")).is_ok() {
                return; // not root, so it is one's own
            }
            let root = Root::open(tree.path()).unwrap();
            let (rows, counts, unread) = walk(&root, &Settings::default()).unwrap();
            let unread: BTreeMap<_, _> =
                unread.into_iter().map(|entry| (entry.path, entry.errno)).collect();
            let denied = libc::EACCES;
            assert_eq!(
                unread,
                BTreeMap::from([
                    (b"open/closed".to_vec(), denied),
                    (b"listed/file".to_vec(), denied)
                ])
            );
            assert_eq!((counts.unread, counts.vanished), (2, 0));
            assert!(by_path(&rows).contains_key(b"open/closed".as_slice()));
        });
    });
}

/// Whatever is done to the tree meanwhile: what stays is found once, and nothing from outside.
#[test]
fn a_walk_through_a_tree_that_changes() {
    let outer = tempfile::tempdir().unwrap();
    let (tree, outside) = (outer.path().join("tree"), outer.path().join("outside"));
    fs::create_dir_all(outside.join("secret-directory")).unwrap();
    fs::write(outside.join("secret-directory/secret"), b"x").unwrap();
    for directory in 0..40 {
        let stays = tree.join(format!("stays-{directory}/deep"));
        fs::create_dir_all(&stays).unwrap();
        for file in 0..40 {
            fs::write(stays.join(format!("file-{file}")), b"x").unwrap();
        }
    }
    let stays = slow_walk(&tree);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for actor in 0..3 {
            let (tree, outside, done) = (&tree, &outside, &done);
            scope.spawn(move || change(tree, outside, actor, done));
        }
        for round in 0..30 {
            let threads = 1 + round % 6;
            let settings = Settings {
                threads,
                buffer_bytes: 1024,
                queue_limit: 3,
                descriptors: 16,
                ..Settings::default()
            };
            let (rows, counts, unread) = walk(&Root::open(&tree).unwrap(), &settings).unwrap();
            let mut seen: BTreeMap<Vec<u8>, u32> = BTreeMap::new();
            for (parent, name, _) in &rows {
                assert!(!name.starts_with(b"secret"), "from outside: {parent:?} {name:?}");
                *seen.entry(joined(parent, name)).or_default() += 1;
            }
            for path in stays.keys() {
                assert_eq!(seen.get(path), Some(&1), "{:?}", String::from_utf8_lossy(path));
            }
            assert_eq!((counts.unread, unread.len(), counts.elsewhere), (0, 0, 0), "{unread:?}");
        }
        done.store(true, Relaxed);
    });
}

/// Makes, renames and removes names beside those that stay, and swaps a directory for a link.
fn change(tree: &Path, outside: &Path, actor: u64, done: &AtomicBool) {
    let mut chance = Chance::new(actor + 1);
    while !done.load(Relaxed) {
        let inside = tree.join(format!("stays-{}/deep", chance.below(40)));
        let name = inside.join(format!("comes-{actor}-{}", chance.below(5)));
        match chance.below(6) {
            0 => drop(fs::write(&name, b"y")),
            1 => drop(fs::remove_file(&name)),
            2 => drop(fs::rename(&name, inside.join(format!("went-{actor}")))),
            3 => drop(fs::create_dir_all(name.join("a/b"))),
            4 => drop(fs::remove_dir_all(&name)),
            _ => {
                let swapped = inside.join(format!("swapped-{actor}"));
                drop(fs::create_dir(&swapped));
                drop(fs::remove_dir(&swapped));
                drop(symlink(outside, &swapped));
                drop(fs::remove_file(&swapped));
            }
        }
    }
}

#[test]
fn a_root_that_is_no_directory_is_an_error() {
    let file = tempfile::NamedTempFile::new().unwrap();
    assert!(Root::open(file.path()).is_err());
    assert!(Root::open(Path::new("/nonexistent")).is_err());
    let root = Root::open(Path::new("/proc")).unwrap();
    for threads in [0, 257] {
        assert!(walk(&root, &Settings { threads, ..Settings::default() }).is_err());
    }
}

#[test]
fn a_directory_of_every_type_is_walked() {
    let tree = tempfile::tempdir().unwrap();
    make_tree(tree.path(), 200, &mut Chance::new(7));
    let (rows, ..) = walk(&Root::open(tree.path()).unwrap(), &Settings::default()).unwrap();
    let kinds: BTreeSet<_> = rows.iter().map(|(.., entry)| entry.kind.letter()).collect();
    assert_eq!(kinds, BTreeSet::from([b'd', b'f', b'l', b'p']));
    assert!(rows.iter().all(|(.., entry)| entry.kind != FileType::Unknown));
}
