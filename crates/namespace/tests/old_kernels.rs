//! Kernels that lack a call, as a filter of this one plays them.

mod planned;

use namespace::Error;
use planned::{World, names};

/// Runs something in a thread, and the threads that it starts, for which a system call fails.
fn without<T: Send>(call: libc::c_long, errno: i32, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            forbid(call, errno);
            work()
        });
        thread.join().unwrap()
    })
}

fn forbid(call: libc::c_long, errno: i32) {
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // Load the number of the call; if it is this one, fail; else go on (`seccomp(2)`).
    let mut filter = [
        step(0x20, 0, 0, 0),
        step(0x15, 0, 1, call as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the first call takes plain numbers; the second reads the program, which is alive.
    let set = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program) == 0
    };
    assert!(set, "{}", std::io::Error::last_os_error());
}

fn world() -> (World, std::path::PathBuf) {
    let world = World::new();
    for number in 0..100 {
        world.file(&format!("a/b{}/f{number}", number % 3), "x");
    }
    let plan = world.plan();
    (world, plan)
}

#[test]
fn without_openat2_the_same_is_deleted() {
    // EPERM: containers whose filter is older than the call.
    for errno in [libc::ENOSYS, libc::EPERM] {
        let (world, plan) = world();
        std::fs::rename(world.at("a/b1"), world.at("a/c")).unwrap();
        std::os::unix::fs::symlink("c", world.at("a/b1")).unwrap();
        let (root, plan) = (world.root(), plan.as_path());
        let batch = without(libc::SYS_openat2, errno, || {
            let root = namespace::Root::open(&root).unwrap();
            let (rules, settings) = (planned::rules(), planned::settings());
            let plan = namespace::index::Shard::open(plan).unwrap();
            let removal = namespace::removal::Removal::open(plan, root, rules, settings);
            removal.unwrap().delete(0, 100).unwrap()
        });
        let outcomes = names(&batch);
        assert_eq!(outcomes.iter().filter(|name| **name == "moved").count(), 33);
        assert_eq!(outcomes.iter().filter(|name| **name == "deleted").count(), 67);
        assert_eq!(std::fs::read_dir(world.at("a/c")).unwrap().count(), 33);
    }
}

#[test]
fn without_a_rename_that_refuses_to_replace_nothing_is_deleted() {
    for errno in [libc::ENOSYS, libc::EINVAL] {
        let (world, plan) = world();
        let (root, plan) = (world.root(), plan.as_path());
        let refused = without(libc::SYS_renameat2, errno, || {
            let root = namespace::Root::open(&root).unwrap();
            let (rules, settings) = (planned::rules(), planned::settings());
            let plan = namespace::index::Shard::open(plan).unwrap();
            let removal = namespace::removal::Removal::open(plan, root, rules, settings);
            removal.unwrap().delete(0, 100).unwrap_err()
        });
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
        assert_eq!(planned::files_below(&world.root()).len(), 100);
        assert!(!world.at(".quarantine").exists());
    }
}
