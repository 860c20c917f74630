//! A file system whose every answer takes a while: what many clients of a distant one wait for.
//!
//! `waiting_mount MILLISECONDS DIRECTORIES FILES [THREADS]` answers the requests of a FUSE connection, which is its
//! standard input (`tests/support/waiting_fuse.py` mounts it), until it is unmounted. So many directories lie in
//! the root, a hundred of them in each of its own, with so many files each; a name is made from its number, and
//! nothing is kept. One thread waits for one request, so that their number is how many are answered at once.
//!
//! Prints one JSON object in the end: requests that were waited for, and the most in one second.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::sync::Mutex;
use std::time::{Duration, Instant};

// Requests and answers of the kernel: include/uapi/linux/fuse.h, protocol 7.31.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const STATFS: u32 = 17;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const BATCH_FORGET: u32 = 42;
const PARALLEL_DIROPS: u32 = 1 << 18;

const ENOENT: i32 = 2;
const ENODEV: i32 = 19;
const ENOSYS: i32 = 38;

const HEADER_BYTES: usize = 40;
const VALID_S: u64 = 3600;
const ROOT: u64 = 1;
const IN_A_GROUP: u64 = 100;
const GROUPS_FROM: u64 = 2;
const DIRECTORIES_FROM: u64 = 1 << 32;
const FILES_FROM: u64 = 1 << 48;

/// The tree: groups in the root, directories in each of them, files in each of those.
#[derive(Clone, Copy)]
struct Tree {
    directories: u64,
    files: u64,
}

impl Tree {
    fn is_directory(node: u64) -> bool {
        node < FILES_FROM
    }

    /// The number of the first node in a directory, and how many there are.
    fn inside(self, node: u64) -> (u64, u64) {
        match node {
            ROOT => (GROUPS_FROM, self.directories.div_ceil(IN_A_GROUP)),
            GROUPS_FROM..DIRECTORIES_FROM => {
                let first = (node - GROUPS_FROM) * IN_A_GROUP;
                (DIRECTORIES_FROM + first, IN_A_GROUP.min(self.directories - first))
            }
            DIRECTORIES_FROM..FILES_FROM => {
                (FILES_FROM + (node - DIRECTORIES_FROM) * self.files, self.files)
            }
            _ => (0, 0),
        }
    }

    /// The node under a name, which is its place in the directory.
    fn found(self, above: u64, name: &[u8]) -> Option<u64> {
        let (first, count) = self.inside(above);
        let digits = std::str::from_utf8(name.strip_prefix(b"n")?).ok()?;
        let place: u64 = digits.parse().ok()?;
        (place < count && name == name_of(place).as_bytes()).then_some(first + place)
    }
}

fn name_of(place: u64) -> String {
    format!("n{place:06}")
}

/// Requests that were waited for in each second.
struct Count {
    began: Instant,
    a_second: Mutex<Vec<u64>>,
}

impl Count {
    fn one(&self) {
        let second = self.began.elapsed().as_secs() as usize;
        let mut seconds = self.a_second.lock().expect("no thread panics");
        if seconds.len() <= second {
            seconds.resize(second + 1, 0);
        }
        seconds[second] += 1;
    }
}

fn main() {
    let usage = "waiting_mount MILLISECONDS DIRECTORIES FILES [THREADS] <DEVICE";
    let arguments: Vec<f64> =
        std::env::args().skip(1).map(|text| text.parse().expect(usage)).collect();
    let [wait_ms, directories, files, threads @ ..] = &arguments[..] else { panic!("{usage}") };
    let tree = Tree { directories: *directories as u64, files: *files as u64 };
    let wait = Duration::from_secs_f64(wait_ms / 1000.0);
    let device = File::from(std::io::stdin().as_fd().try_clone_to_owned().expect(usage));
    let count = Count { began: Instant::now(), a_second: Mutex::default() };
    std::thread::scope(|scope| {
        for _ in 0..threads.first().map_or(128, |number| *number as usize) {
            scope.spawn(|| serve(&device, tree, wait, &count));
        }
    });
    let seconds = count.a_second.into_inner().expect("no thread panics");
    let (calls, most) = (seconds.iter().sum::<u64>(), seconds.iter().max().unwrap_or(&0));
    println!(r#"{{"calls": {calls}, "most_in_a_second": {most}}}"#);
}

fn serve(mut device: &File, tree: Tree, wait: Duration, count: &Count) {
    let mut request = vec![0; 64 << 10];
    loop {
        let length = match device.read(&mut request) {
            Ok(length) => length,
            Err(error) if error.raw_os_error() == Some(ENODEV) => return,
            // A request was taken back before it was read, or a signal came.
            Err(error) if error.raw_os_error() == Some(ENOENT) => continue,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => panic!("the device cannot be read: {error}"),
        };
        let opcode = number(&request, 4) as u32;
        let (unique, node) = (number(&request, 8), number(&request, 16));
        if matches!(opcode, FORGET | BATCH_FORGET) {
            continue;
        }
        let answer = answer(opcode, node, &request[HEADER_BYTES..length], tree);
        if matches!(opcode, LOOKUP | GETATTR | OPENDIR | READDIR) {
            count.one();
            if !wait.is_zero() {
                std::thread::sleep(wait);
            }
        }
        let (error, body) = match &answer {
            Ok(body) => (0, &body[..]),
            Err(errno) => (-errno, &[][..]),
        };
        let mut reply = Vec::with_capacity(16 + body.len());
        reply.extend((16 + body.len() as u32).to_ne_bytes());
        reply.extend(error.to_ne_bytes());
        reply.extend(unique.to_ne_bytes());
        reply.extend(body);
        // Refused where nobody waits for it any more, as when it is being unmounted.
        let _ = device.write(&reply);
    }
}

fn answer(opcode: u32, node: u64, body: &[u8], tree: Tree) -> Result<Vec<u8>, i32> {
    let mut out = Vec::new();
    match opcode {
        INIT => {
            let numbers = [7, 31, 0, PARALLEL_DIROPS, 0, 4096, 1];
            out.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
            out.resize(64, 0);
        }
        LOOKUP => {
            let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
            let found = tree.found(node, name).ok_or(ENOENT)?;
            // Node, generation, how long the name and the attributes are known.
            out.extend([found, 0, VALID_S, VALID_S, 0].iter().flat_map(|n| n.to_ne_bytes()));
            attributes(&mut out, found);
        }
        GETATTR => {
            out.extend([VALID_S, 0].iter().flat_map(|number| number.to_ne_bytes()));
            attributes(&mut out, node);
        }
        OPENDIR => out.resize(16, 0),
        STATFS => {
            let many: [u64; 5] = [1 << 40; 5];
            out.extend(many.iter().flat_map(|number| number.to_ne_bytes()));
            let short: [u32; 4] = [4096, 255, 4096, 0];
            out.extend(short.iter().flat_map(|number| number.to_ne_bytes()));
            out.resize(80, 0);
        }
        RELEASEDIR => {}
        READDIR => {
            let (offset, most_bytes) = (number(body, 8), number(body, 16) as u32);
            let (first, count) = tree.inside(node);
            for place in offset..count {
                let name = name_of(place);
                let record_bytes = (24 + name.len()).next_multiple_of(8);
                if out.len() + record_bytes > most_bytes as usize {
                    break;
                }
                let kind: u32 = if Tree::is_directory(first + place) { 4 } else { 8 };
                out.extend((first + place).to_ne_bytes());
                out.extend((place + 1).to_ne_bytes());
                out.extend((name.len() as u32).to_ne_bytes());
                out.extend(kind.to_ne_bytes());
                out.extend(name.as_bytes());
                out.resize(out.len().next_multiple_of(8), 0);
            }
        }
        _ => return Err(ENOSYS),
    }
    Ok(out)
}

/// `struct fuse_attr` of a node: as different from those of others as rows of an index may be.
fn attributes(out: &mut Vec<u8>, node: u64) {
    let is_directory = Tree::is_directory(node);
    let time_s = 1_600_000_000 + node * 7919 % 100_000_000;
    let size_bytes = node * 104_729 % 10_000_000;
    let long = [node, size_bytes, size_bytes.div_ceil(512), time_s + 86_400, time_s, time_s];
    out.extend(long.iter().flat_map(|number| number.to_ne_bytes()));
    let mode = if is_directory { 0o040_755 } else { 0o100_644 };
    let owner = 1000 + (node % 977) as u32;
    let links = 1 + u32::from(is_directory);
    let short = [0, 0, 0, mode, links, owner, owner, 0, 4096, 0];
    out.extend(short.iter().flat_map(|number| number.to_ne_bytes()));
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
