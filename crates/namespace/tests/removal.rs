//! Deletion by identity on a real file system: which files go, which are kept and why.

mod planned;

use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;

use namespace::index::Shard;
use namespace::removal::Settings;
use namespace::rules::{Exempt, Exemptions};
use namespace::{Error, Root, Rules};
use planned::{World, entry_of, files_below, names, rules, settings};

/// Deletes a plan of one file after something was done to it; the outcome, and whether a file with
/// its content is still somewhere beneath the root.
fn after(act: impl FnOnce(&World, &Path)) -> (&'static str, bool) {
    after_by(rules(), settings(), act)
}

fn after_by(
    rules: Rules,
    settings: Settings,
    act: impl FnOnce(&World, &Path),
) -> (&'static str, bool) {
    let world = World::new();
    let path = world.file("user/run/file", "content");
    let plan = world.plan();
    act(&world, &path);
    let mut removal = world.removal_by(&plan, rules, settings);
    let would = names(&removal.check(0, 1).unwrap())[0];
    let batch = removal.delete(0, 1).unwrap();
    let became = names(&batch)[0];
    let agree = (would, became) == ("would_delete", "deleted") || would == became;
    assert!(agree, "{would} was said and {became} it was");
    drop(removal);
    assert!(!world.at(".quarantine").exists());
    let left = files_below(&world.root());
    let same = |path: &std::path::PathBuf| fs::read(world.root().join(path)).unwrap() == b"content";
    (became, left.keys().any(same))
}

fn times(access_s: i64, modification_s: i64) -> rustix::fs::Timestamps {
    let of = |tv_sec| rustix::fs::Timespec { tv_sec, tv_nsec: 0 };
    rustix::fs::Timestamps { last_access: of(access_s), last_modification: of(modification_s) }
}

#[test]
fn what_is_planned_goes_and_nothing_else() {
    let world = World::new();
    for number in 0..300 {
        world.file(&format!("user{}/run/f{number}", number % 7), &"x".repeat(5000));
    }
    world.file("in-the-root", "x");
    let plan = world.plan();
    let planned: u64 = files_below(&world.root()).values().map(|e| e.allocated_bytes).sum();
    world.file("user0/run/later", "x");
    let batch = world.delete(&plan);
    assert_eq!((batch.deleted, batch.freed_bytes), (301, planned));
    let left: Vec<_> = files_below(&world.root()).into_keys().collect();
    assert_eq!(left, [Path::new("user0/run/later")]);
    assert!(world.at("user3/run").is_dir());
    assert!(batch.latency_s_median > 0.0 && batch.latency_s_p99 >= batch.latency_s_median);
}

#[test]
fn a_check_touches_nothing() {
    let world = World::new();
    world.file("a/b", "x");
    let plan = world.plan();
    let before = files_below(&world.root());
    let directory = entry_of(&world.at("a"));
    assert_eq!(names(&world.removal(&plan).check(0, 1).unwrap()), ["would_delete"]);
    assert_eq!(files_below(&world.root()), before);
    assert_eq!(entry_of(&world.at("a")), directory);
}

#[test]
fn what_was_used_or_changed_is_kept() {
    let set = |path: &Path, times: &rustix::fs::Timestamps| {
        let flags = rustix::fs::AtFlags::empty();
        rustix::fs::utimensat(rustix::fs::CWD, path, times, flags).unwrap();
    };
    assert_eq!(after(|_, path| set(path, &times(1, 1))), ("changed_mtime", true));
    assert_eq!(after(|_, path| fs::write(path, "content").unwrap()), ("changed_mtime", true));
    let extended = |path: &Path| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(path, c"user.note", b"keep", flags).unwrap();
    };
    assert_eq!(after(|_, path| extended(path)), ("ctime_only", true));
    let mode = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(after(|_, path| mode(path)), ("ctime_only", true));
    let renamed = |path: &Path| {
        fs::rename(path, path.with_extension("x")).unwrap();
        fs::rename(path.with_extension("x"), path).unwrap();
    };
    assert_eq!(after(|_, path| renamed(path)), ("ctime_only", true));
    let read = |_: &World, path: &Path| {
        let mtime = fs::metadata(path).unwrap();
        let mut both = times(1, 1);
        both.last_modification.tv_sec = mtime.mtime();
        both.last_modification.tv_nsec = mtime.mtime_nsec();
        set(path, &both);
    };
    assert_eq!(after(read), ("changed_atime", true));
    assert_eq!(after(|_, path| fs::write(path, "longer content").unwrap()).0, "changed_size");
    let owner = |path: &Path| std::os::unix::fs::chown(path, Some(1234), None).unwrap();
    assert_eq!(after(|_, path| owner(path)), ("changed_owner", true));
}

#[test]
fn times_are_compared_as_finely_as_the_source_knew_them() {
    let coarse = Settings { time_resolution_ns: 1_000_000_000, ..settings() };
    let world = World::new();
    let path = world.file("f", "x");
    let mut entry = entry_of(&path);
    let cut = |time: Option<i64>| time.map(|time| time.div_euclid(1_000_000_000) * 1_000_000_000);
    entry.times.access_ns = cut(entry.times.access_ns);
    entry.times.modification_ns = cut(entry.times.modification_ns);
    entry.times.change_ns = cut(entry.times.change_ns);
    entry.times.birth_ns = None;
    let plan = world.plan_of([(Path::new("f"), entry)].into_iter());
    assert_eq!(names(&world.removal(&plan).check(0, 1).unwrap()), ["changed_mtime"]);
    let mut removal = world.removal_by(&plan, rules(), coarse);
    assert_eq!(names(&removal.delete(0, 1).unwrap()), ["deleted"]);
}

#[test]
fn another_file_of_the_same_name_is_kept() {
    let replaced = |path: &Path| {
        fs::write(path.with_extension("new"), "content").unwrap();
        fs::rename(path.with_extension("new"), path).unwrap();
    };
    assert_eq!(after(|_, path| replaced(path)), ("not_same", true));
    assert_eq!(after(|_, path| fs::remove_file(path).unwrap()), ("gone", false));
    let linked = |path: &Path| {
        fs::rename(path, path.with_extension("x")).unwrap();
        symlink(path.with_extension("x"), path).unwrap();
    };
    assert_eq!(after(|_, path| linked(path)), ("changed_type", true));
    let directory = |path: &Path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    };
    assert_eq!(after(|_, path| directory(path)), ("changed_type", false));
    let pipe = |path: &Path| {
        fs::remove_file(path).unwrap();
        let mode = rustix::fs::Mode::RUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, path, kind, mode, 0).unwrap();
    };
    assert_eq!(after(|_, path| pipe(path)), ("changed_type", false));
}

#[test]
fn a_file_of_a_directory_that_has_moved_is_kept() {
    let away = |world: &World| fs::rename(world.at("user/run"), world.at("user/old")).unwrap();
    assert_eq!(after(|world, _| away(world)), ("gone", true));
    let swapped = |world: &World| {
        away(world);
        symlink("old", world.at("user/run")).unwrap();
    };
    assert_eq!(after(|world, _| swapped(world)), ("moved", true));
    let exchanged = |world: &World| {
        away(world);
        fs::create_dir(world.at("user/run")).unwrap();
        fs::write(world.at("user/run/file"), "content").unwrap();
    };
    assert_eq!(after(|world, _| exchanged(world)), ("not_same", true));
}

#[test]
fn a_file_that_is_open_is_kept() {
    for write in [false, true] {
        let mut held = None;
        let open = |_: &World, path: &Path| {
            held = Some(fs::OpenOptions::new().read(true).write(write).open(path).unwrap());
        };
        assert_eq!(after(open), ("open", true), "write {write}");
    }
    let mut held = None;
    let open = |_: &World, path: &Path| held = Some(fs::File::open(path).unwrap());
    assert_eq!(after_by(rules(), Settings { open_files: true, ..settings() }, open).0, "deleted");
}

#[test]
fn a_mapped_file_is_open() {
    let world = World::new();
    let path = world.file("f", "content");
    let file = fs::File::open(&path).unwrap();
    // SAFETY: a new private mapping of an open file; nothing reads or writes it.
    let address = unsafe {
        let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE);
        libc::mmap(std::ptr::null_mut(), 7, protection, flags, file.as_raw_fd(), 0)
    };
    assert_ne!(address, libc::MAP_FAILED);
    drop(file);
    // Mapping it moved its atime: it was mapped before the plan.
    let plan = world.plan();
    assert_eq!(names(&world.delete(&plan)), ["open"]);
    // SAFETY: the mapping of above, of which nothing is borrowed.
    assert_eq!(unsafe { libc::munmap(address, 7) }, 0);
    assert_eq!(names(&world.delete(&plan)), ["deleted"]);
}

#[test]
fn other_names_keep_a_file_unless_the_policy_lets_it_go() {
    let link = |_: &World, path: &Path| fs::hard_link(path, path.with_extension("l")).unwrap();
    assert_eq!(after(link), ("ctime_only", true));

    let world = World::new();
    let path = world.file("a/one", "x");
    fs::create_dir(world.at("b")).unwrap();
    fs::hard_link(&path, world.at("b/two")).unwrap();
    fs::hard_link(&path, world.at("b/three")).unwrap();
    let plan = world.plan();
    assert_eq!(names(&world.delete(&plan)), ["other_links"; 3]);
    let linked = Rules { linked: true, ..rules() };
    let allocated = entry_of(&path).allocated_bytes;
    let mut removal = world.removal_by(&plan, linked.clone(), settings());
    // Two batches: the first one's change of the file must not keep its last name.
    let (first, second) = (removal.delete(0, 2).unwrap(), removal.delete(2, 1).unwrap());
    assert_eq!((names(&first), names(&second)), (vec!["deleted"; 2], vec!["deleted"]));
    assert_eq!((first.freed_bytes, second.freed_bytes), (0, allocated));
}

#[test]
fn one_name_that_is_kept_keeps_the_others() {
    let linked = Rules { linked: true, ..rules() };
    let exempt = |path: &[u8]| {
        let paths = vec![path.to_vec()];
        Rules { exempt: Exemptions::new(Exempt { paths, ..Exempt::default() }), ..linked.clone() }
    };
    type Act<'a> = &'a dyn Fn(&World);
    let away: Act = &|world| {
        fs::create_dir(world.at("keep")).unwrap();
        fs::rename(world.at("b"), world.at("keep/b")).unwrap();
    };
    let cases: [(&str, Rules, Act, [&str; 2]); 4] = [
        ("its name", exempt(b"b/two"), &|_| {}, ["exempt", "exempt"]),
        ("its directory", exempt(b"b"), &|_| {}, ["exempt", "exempt"]),
        ("the other one", exempt(b"a/one"), &|_| {}, ["exempt", "exempt"]),
        (
            "moved there, which moves no time of it",
            exempt(b"keep"),
            away,
            ["names_unknown", "gone"],
        ),
    ];
    for (what, rules, act, expected) in cases {
        let world = World::new();
        let path = world.file("a/one", "x");
        fs::create_dir(world.at("b")).unwrap();
        fs::hard_link(&path, world.at("b/two")).unwrap();
        let plan = world.plan();
        act(&world);
        let mut removal = world.removal_by(&plan, rules, settings());
        // A batch each: neither sees the row of the other.
        let became = |removal: &mut namespace::removal::Removal, row| {
            let would = names(&removal.check(row, 1).unwrap())[0];
            (would, names(&removal.delete(row, 1).unwrap())[0])
        };
        let (first, second) = (became(&mut removal, 0), became(&mut removal, 1));
        let both = [(expected[0], expected[0]), (expected[1], expected[1])];
        assert_eq!([first, second], both, "{what}");
        assert_eq!(entry_of(&path).links, 2, "{what}");
    }
}

#[test]
fn a_name_that_no_index_saw_keeps_the_others() {
    let world = World::new();
    let path = world.file("a/one", "x");
    fs::hard_link(&path, world.at("a/two")).unwrap();
    let plan = world.plan_of([(Path::new("a/one"), entry_of(&path))].into_iter());
    let linked = Rules { linked: true, ..rules() };
    let mut removal = world.removal_by(&plan, linked, settings());
    assert_eq!(names(&removal.delete(0, 1).unwrap()), ["names_unknown"]);
    assert!(path.exists());
}

#[test]
fn names_that_came_or_went_are_seen_without_a_ctime_too() {
    let linked = Rules { linked: true, ..rules() };
    let outcome = |first: &dyn Fn(&Path), then: &dyn Fn(&Path)| {
        let world = World::new();
        let path = world.file("one", "x");
        first(&path);
        let mut entry = entry_of(&path);
        entry.times.change_ns = None;
        let plan = world.plan_of([(Path::new("one"), entry)].into_iter());
        then(&path);
        names(&world.removal_by(&plan, linked.clone(), settings()).delete(0, 1).unwrap())[0]
    };
    let link = |path: &Path| fs::hard_link(path, path.with_extension("l")).unwrap();
    let unlink = |path: &Path| fs::remove_file(path.with_extension("l")).unwrap();
    assert_eq!(outcome(&|_| {}, &|_| {}), "deleted");
    assert_eq!(outcome(&|_| {}, &link), "other_links");
    assert_eq!(outcome(&link, &unlink), "touched");
}

#[test]
fn an_immutable_file_is_kept() {
    for (what, flag) in [("+i", "-i"), ("+a", "-a")] {
        let change = |path: &Path, flag: &str| {
            let done = std::process::Command::new("chattr").arg(flag).arg(path).status().unwrap();
            assert!(done.success());
        };
        for target in ["user/run/file", "user/run"] {
            let world = World::new();
            world.file("user/run/file", "content");
            change(&world.at(target), what);
            // The flag moves ctime: it was there when the plan was made.
            let plan = world.plan();
            let became = names(&world.delete(&plan));
            change(&world.at(target), flag);
            assert_eq!(became, ["immutable"], "{target} {what}");
        }
    }
}

#[test]
fn the_rules_are_asked_again() {
    let by = |rules: Rules| after_by(rules, settings(), |_, _| {});
    let by_exempt = |exempt| by(Rules { exempt: Exemptions::new(exempt), ..rules() });
    let exempt = Exempt { paths: vec![b"user".to_vec()], ..Exempt::default() };
    assert_eq!(by_exempt(exempt), ("exempt", true));
    let user = rustix::process::geteuid().as_raw();
    let exempt = Exempt { users: vec![user + 1, user], ..Exempt::default() };
    assert_eq!(by_exempt(exempt), ("exempt", true));
    assert_eq!(by(Rules { minimum_size_bytes: 8, ..rules() }), ("too_small", true));
    assert_eq!(by(Rules { old_enough_before_s: 1000, ..rules() }), ("too_young", true));
    let early = Settings { before_s: 1000, ..settings() };
    assert_eq!(after_by(rules(), early, |_, _| {}), ("too_young", true));
}

#[test]
fn names_of_any_bytes_go() {
    let world = World::new();
    fs::create_dir(world.at("d")).unwrap();
    let hostile: [&[u8]; 6] =
        [b"-rf", b"a\nb", b"\x1b[31m", b"\xff\xfe", b"<b>", b" ; rm -rf $HOME"];
    for name in hostile {
        fs::write(world.at("d").join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
    }
    let plan = world.plan();
    assert_eq!(names(&world.delete(&plan)), ["deleted"; 6]);
}

#[test]
fn a_row_of_the_quarantine_itself_is_exempt() {
    let world = World::new();
    world.file("user/f", "x");
    world.file(".quarantine/stranded/7-0", "x");
    for directory in [".quarantine", ".quarantine/stranded"] {
        fs::set_permissions(world.at(directory), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let plan = world.plan();
    let batch = world.delete(&plan);
    assert_eq!(names(&batch), ["exempt", "deleted"]);
    assert!(world.at(".quarantine/stranded/7-0").exists());
}

/// A recovery that was killed after it had put a file back, before it could report so: the files
/// that it had taken are noted, and this file is in its place with another ctime.
#[test]
fn what_a_recovery_put_back_before_it_was_killed_is_not_called_touched() {
    for noted in [true, false] {
        let world = World::new();
        let path = world.file("user/run/file", "content");
        let plan = world.plan();
        fs::rename(&path, world.at("aside")).unwrap();
        fs::rename(world.at("aside"), &path).unwrap();
        let cell = world.at(".quarantine/cell-1-2-0");
        for directory in [&world.at(".quarantine"), &cell] {
            fs::create_dir(directory).unwrap();
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let row: u64 = if noted { 1 } else { 0 };
        fs::write(cell.join("taken"), row.to_le_bytes()).unwrap();
        let mut removal = world.removal(&plan);
        let became = names(&removal.recover(0, 1).unwrap())[0];
        assert_eq!(became, if noted { "put_back" } else { "ctime_only" });
        assert_eq!(fs::read(&path).unwrap(), b"content");
    }
}

#[test]
fn a_place_that_others_can_reach_into_is_refused() {
    let world = World::new();
    world.file("f", "x");
    let plan = world.plan();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    let refused = |why: &str| {
        let Err(Error::Refused(message)) = world.removal(&plan).delete(0, 1) else {
            panic!("{why}: not refused");
        };
        assert!(world.at("f").exists(), "{message}");
    };
    mode(&world.root(), 0o777).unwrap();
    refused("any user may write to the root");
    mode(&world.root(), 0o1777).unwrap();
    std::os::unix::fs::chown(world.root(), Some(1234), None).unwrap();
    refused("the root belongs to another user");
    std::os::unix::fs::chown(world.root(), Some(0), None).unwrap();
    assert_eq!(names(&world.delete(&plan)), ["deleted"]);
}

#[test]
fn a_quarantine_that_others_made_is_left_alone_and_stops_nobody() {
    let make = |world: &World, mode| {
        fs::create_dir(world.at(".quarantine")).unwrap();
        fs::set_permissions(world.at(".quarantine"), fs::Permissions::from_mode(mode)).unwrap();
    };
    let somebody_elses = |world: &World| {
        make(world, 0o700);
        std::os::unix::fs::chown(world.at(".quarantine"), Some(1234), None).unwrap();
    };
    type Act<'a> = &'a dyn Fn(&World);
    let acts: [Act; 4] = [
        &|world| make(world, 0o755),
        &somebody_elses,
        &|world| symlink("/tmp", world.at(".quarantine")).unwrap(),
        &|world| fs::write(world.at(".quarantine"), "a file").unwrap(),
    ];
    for act in acts {
        let world = World::new();
        world.file("f", "x");
        let plan = world.plan();
        act(&world);
        assert_eq!(names(&world.removal(&plan).delete(0, 1).unwrap()), ["deleted"]);
        let left: Vec<_> = fs::read_dir(world.root()).unwrap().collect();
        assert_eq!(left.len(), 1, "theirs alone is left");
        if world.at(".quarantine").is_dir() && !world.at(".quarantine").is_symlink() {
            assert_eq!(fs::read_dir(world.at(".quarantine")).unwrap().count(), 0);
        }
    }
}

#[test]
fn a_loop_that_removes_empty_directories_strands_nothing() {
    let world = World::new();
    let directories: Vec<_> = (0..300).map(|number| world.at(&format!("d{number}"))).collect();
    for number in 0..directories.len() * 4 {
        world.file(&format!("d{}/f{number}", number % directories.len()), "x");
    }
    let plan = world.plan();
    let ended = std::sync::atomic::AtomicBool::new(false);
    let batch = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(std::sync::atomic::Ordering::Relaxed) {
                directories.iter().for_each(|directory| drop(fs::remove_dir(directory)));
            }
        });
        let mut removal = world.removal(&plan);
        let batch = removal.delete(0, directories.len() as u64 * 4);
        ended.store(true, std::sync::atomic::Ordering::Relaxed);
        batch.unwrap()
    });
    assert!(names(&batch).iter().all(|name| *name == "deleted"), "{:?}", names(&batch));
    assert!(!world.at(".quarantine").exists());
}

#[test]
fn two_runs_at_once_are_refused() {
    let world = World::new();
    world.file("f", "x");
    world.file("g", "x");
    let plan = world.plan();
    let mut first = world.removal(&plan);
    first.delete(0, 1).unwrap();
    let refused = world.removal(&plan).delete(1, 1).unwrap_err();
    assert!(refused.to_string().contains("another run"), "{refused}");
    drop(first);
    assert_eq!(names(&world.removal(&plan).delete(1, 1).unwrap()), ["deleted"]);
}

#[test]
fn what_cannot_be_asked_for_is_said() {
    let world = World::new();
    world.file("f", "x");
    let plan = world.plan();
    assert!(matches!(world.removal(&plan).check(0, 2), Err(Error::Usage(_))));
    assert!(matches!(world.removal(&plan).check(u64::MAX, 2), Err(Error::Usage(_))));
    for quarantine in [&b""[..], b"..", b"a/b"] {
        let settings = Settings { quarantine: quarantine.to_vec(), ..settings() };
        let root = Root::open(&world.root()).unwrap();
        let plan = Shard::open(&plan).unwrap();
        let opened = namespace::removal::Removal::open(plan, root, rules(), settings);
        assert!(matches!(opened.err(), Some(Error::Usage(_))));
    }
    let shorter = fs::OpenOptions::new().write(true).open(&plan).unwrap();
    shorter.set_len(100).unwrap();
    assert!(Shard::open(&plan).is_err());
}

#[test]
fn a_row_without_an_identity_is_no_file() {
    let world = World::new();
    let path = world.file("f", "x");
    let entry = namespace::Entry { id: namespace::ObjectId::Inode(0), ..entry_of(&path) };
    let plan = world.plan_of([(Path::new("f"), entry)].into_iter());
    assert_eq!(names(&world.delete(&plan)), ["not_same"]);
}

#[test]
fn a_file_that_is_mounted_over_is_kept() {
    let world = World::new();
    let path = world.file("f", "x");
    let other = world.file("other", "y");
    let plan = world.plan_of([(Path::new("f"), entry_of(&path))].into_iter());
    let bind = |arguments: &[&std::ffi::OsStr]| {
        std::process::Command::new(arguments[0]).args(&arguments[1..]).status().unwrap().success()
    };
    let words = |words: &[&str]| words.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
    let mut mount = words(&["mount", "--bind"]);
    mount.extend([other.into_os_string(), path.clone().into_os_string()]);
    if !bind(&mount.iter().map(|word| word.as_os_str()).collect::<Vec<_>>()) {
        return;
    }
    let became = names(&world.delete(&plan));
    bind(&["umount".as_ref(), path.as_os_str()]);
    assert_eq!(became, ["not_same"]);
    assert_eq!(fs::File::open(&path).unwrap().read_at(&mut [0], 0).unwrap(), 1);
}
