//! The loop that bounds a scan: getdents and statx of everything by so many threads, nothing kept.
//!
//! `bare_walk ROOT [THREADS]` prints how many names there are and how long it took, as JSON.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, StatxFlags, openat, statx};

/// Directories to read, and how many threads are reading one.
#[derive(Default)]
struct Left {
    directories: Vec<(Arc<OwnedFd>, CString)>,
    reading: usize,
}

fn main() {
    let mut arguments = std::env::args_os().skip(1);
    let root = arguments.next().expect("bare_walk ROOT [THREADS]");
    let threads =
        arguments.next().map_or(2, |text| text.to_string_lossy().parse().expect("a number"));
    let started = Instant::now();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, flags, Mode::empty()).expect("the root opens");
    let left = Mutex::new(Left { directories: vec![(Arc::new(root), c".".into())], reading: 0 });
    let (more, entries, blocks) = (Condvar::new(), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let (seen, taken) = walk(&left, &more);
                entries.fetch_add(seen, Relaxed);
                blocks.fetch_add(taken, Relaxed);
            });
        }
    });
    let elapsed_s = started.elapsed().as_secs_f64();
    println!(r#"{{"entries": {entries:?}, "blocks": {blocks:?}, "elapsed_s": {elapsed_s}}}"#);
}

fn walk(left: &Mutex<Left>, more: &Condvar) -> (u64, u64) {
    let mut buffer = vec![MaybeUninit::uninit(); 32 << 10];
    let (mut entries, mut blocks) = (0, 0);
    let mut subdirectories = Vec::new();
    let mut guard = left.lock().expect("no thread panics");
    loop {
        let Some((above, name)) = guard.directories.pop() else {
            if guard.reading == 0 {
                more.notify_all();
                return (entries, blocks);
            }
            guard = more.wait(guard).expect("no thread panics");
            continue;
        };
        guard.reading += 1;
        drop(guard);
        let (seen, taken) = read(&above, &name, &mut buffer, &mut subdirectories);
        entries += seen;
        blocks += taken;
        guard = left.lock().expect("no thread panics");
        guard.reading -= 1;
        if subdirectories.len() > 1 || guard.reading == 0 {
            more.notify_all();
        }
        guard.directories.append(&mut subdirectories);
    }
}

fn read(
    above: &OwnedFd,
    name: &CStr,
    buffer: &mut [MaybeUninit<u8>],
    subdirectories: &mut Vec<(Arc<OwnedFd>, CString)>,
) -> (u64, u64) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let here = Arc::new(openat(above, name, flags, Mode::empty()).expect("a directory opens"));
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let (mut entries, mut blocks) = (0, 0);
    let mut names = RawDir::new(&*here, buffer);
    while let Some(entry) = names.next() {
        let entry = entry.expect("a directory is read");
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let stat = statx(&*here, name, AtFlags::SYMLINK_NOFOLLOW, mask).expect("the name exists");
        entries += 1;
        blocks += stat.stx_blocks;
        if FileType::from_raw_mode(stat.stx_mode.into()) == FileType::Directory {
            subdirectories.push((Arc::clone(&here), name.into()));
        }
    }
    (entries, blocks)
}
