//! The bounds of a deletion: threads that do nothing but `unlinkat` names that they know already, or
//! move each file over the one before in a directory of their own.
//!
//! `bare_unlink ROOT THREADS [ASIDE]` reads the tree, prints a line, and begins when a line comes in.

use std::ffi::CString;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, mkdirat, openat, renameat, unlinkat};

fn read(path: &Path, directories: &mut Vec<(PathBuf, Vec<CString>)>) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let descriptor = openat(CWD, path, flags, Mode::empty()).expect("a directory");
    let (mut files, mut below) = (Vec::new(), Vec::new());
    for entry in Dir::read_from(&descriptor).expect("a directory") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_owned();
        match entry.file_type() {
            FileType::Directory if name.as_bytes()[0] != b'.' => below.push(name),
            FileType::RegularFile => files.push(name),
            _ => {}
        }
    }
    for name in below {
        read(&path.join(name.to_str().expect("plain names")), directories);
    }
    directories.push((path.to_path_buf(), files));
}

/// Removes all files; with `aside` as a file is put aside for its last look, and replaced by the next.
fn remove(directories: &[(PathBuf, Vec<CString>)], aside: Option<&OwnedFd>) {
    for (path, files) in directories {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent: OwnedFd = openat(CWD, path, flags, Mode::empty()).expect("a directory");
        for name in files {
            match aside {
                Some(aside) => renameat(&parent, name.as_c_str(), aside, c"00").expect("a file"),
                None => unlinkat(&parent, name.as_c_str(), AtFlags::empty()).expect("a file"),
            }
        }
    }
}

/// A directory of one thread.
fn of_its_own(path: &Path, number: usize) -> OwnedFd {
    let path = path.join(number.to_string());
    mkdirat(CWD, &path, Mode::RWXU).expect("a new directory");
    openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).expect("a directory")
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let threads: usize = arguments[2].parse().expect("a number of threads");
    let mut directories = Vec::new();
    read(Path::new(&arguments[1]), &mut directories);
    println!("ready");
    std::io::stdout().flush().expect("a pipe");
    std::io::stdin().read_line(&mut String::new()).expect("a line");
    let share = directories.len().div_ceil(threads);
    std::thread::scope(|scope| {
        for (number, part) in directories.chunks(share).enumerate() {
            let aside = arguments.get(3).map(|path| of_its_own(Path::new(path), number));
            scope.spawn(move || remove(part, aside.as_ref()));
        }
    });
}
