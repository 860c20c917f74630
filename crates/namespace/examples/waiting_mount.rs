//! A file system whose every answer takes a while, as that of a distant server does.
//!
//! `waiting_mount MILLISECONDS DIRECTORIES FILES [THREADS [MDTS]]` answers the requests of a FUSE connection, which is its
//! standard input (`tests/support/waiting_fuse.py` mounts it), until it is unmounted. So many directories lie in
//! the root, a hundred of them in each of its own, with so many files each; a name is made from its number, and
//! nothing is kept. One thread waits for one request, so that their number is how many are answered at once.
//!
//! With a number of MDTs it has what a scan of a Lustre asks for: FIDs, in `trusted.lma` and flattened as inode
//! numbers, and `LL_IOC_FID2MDTIDX`. All beneath a directory of the root is on one MDT, in turns.
//!
//! Prints one JSON object in the end: requests that were waited for, the most in one second, of each MDT the same,
//! and of each hundred requests how many each MDT had.

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
const GETXATTR: u32 = 22;
const INIT: u32 = 26;
const OPENDIR: u32 = 27;
const READDIR: u32 = 28;
const RELEASEDIR: u32 = 29;
const IOCTL: u32 = 39;
const BATCH_FORGET: u32 = 42;
const IOCTL_DIR: u32 = 1 << 11;
const PARALLEL_DIROPS: u32 = 1 << 18;

const ENOENT: i32 = 2;
const ENODEV: i32 = 19;
const ENOTTY: i32 = 25;
const ENOSYS: i32 = 38;
const ENODATA: i32 = 61;

const HEADER_BYTES: usize = 40;
const VALID_S: u64 = 3600;
const ROOT: u64 = 1;
const IN_A_GROUP: u64 = 100;
const GROUPS_FROM: u64 = 2;
const DIRECTORIES_FROM: u64 = 1 << 32;
const FILES_FROM: u64 = 1 << 48;

// Identifiers and calls of Lustre: lustre_user.h.
const FID2MDTIDX: u64 = 0xC010_66F8;
const SEQUENCE_OF_ROOT: u64 = 0x2_0000_0007;
const SEQUENCES_FROM: u64 = 0x2_0000_0400;
const OBJECTS_OF_SEQUENCE: u64 = 1 << 16;
const MDTS_MAX: u64 = 64;

/// The tree: groups in the root, directories in each of them, files in each of those.
#[derive(Clone, Copy)]
struct Tree {
    directories: u64,
    files: u64,
    /// None: it is not a Lustre.
    mdts: u64,
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

    /// The MDT of a node, which is that of its group.
    fn mdt(self, node: u64) -> u64 {
        let group = match node {
            ..GROUPS_FROM => 0,
            GROUPS_FROM..DIRECTORIES_FROM => node - GROUPS_FROM,
            DIRECTORIES_FROM..FILES_FROM => (node - DIRECTORIES_FROM) / IN_A_GROUP,
            FILES_FROM.. => (node - FILES_FROM) / self.files / IN_A_GROUP,
        };
        group % self.mdts.max(1)
    }

    /// The sequence and the object of the FID of a node.
    fn fid(self, node: u64) -> (u64, u64) {
        let (kind, place) = match node {
            ROOT => return (SEQUENCE_OF_ROOT, 1),
            ..DIRECTORIES_FROM => (0, node - GROUPS_FROM),
            DIRECTORIES_FROM..FILES_FROM => (1, node - DIRECTORIES_FROM),
            FILES_FROM.. => (2, node - FILES_FROM),
        };
        let sequences = (place / OBJECTS_OF_SEQUENCE * 3 + kind) * MDTS_MAX + self.mdt(node);
        (SEQUENCES_FROM + sequences, 1 + place % OBJECTS_OF_SEQUENCE)
    }

    fn inode(self, node: u64) -> u64 {
        if self.mdts == 0 {
            return node;
        }
        let (sequence, object) = self.fid(node);
        (sequence << 24) + object
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

/// Requests that were waited for, by MDT in the order that they came.
struct Count {
    began: Instant,
    came: Mutex<Vec<(usize, usize)>>,
}

impl Count {
    fn one(&self, mdt: u64) {
        let mut came = self.came.lock().expect("no thread panics");
        came.push((self.began.elapsed().as_secs() as usize, mdt as usize));
    }

    /// The most requests in one second, of all MDTs or of one.
    fn most_in_a_second(came: &[(usize, usize)], mdt: Option<usize>) -> u64 {
        let mut seconds = vec![0; came.iter().map(|(second, _)| second + 1).max().unwrap_or(1)];
        for (second, _) in came.iter().filter(|(_, of)| mdt.is_none_or(|mdt| mdt == *of)) {
            seconds[*second] += 1;
        }
        seconds.into_iter().max().unwrap_or(0)
    }

    fn report(self, mdts: usize) -> String {
        let came = self.came.into_inner().expect("no thread panics");
        let most: Vec<_> = (0..mdts).map(|mdt| Self::most_in_a_second(&came, Some(mdt))).collect();
        let hundreds: Vec<Vec<usize>> = came
            .chunks(100)
            .map(|part| (0..mdts).map(|mdt| part.iter().filter(|c| c.1 == mdt).count()).collect())
            .collect();
        let (calls, all) = (came.len(), Self::most_in_a_second(&came, None));
        format!(
            r#"{{"calls": {calls}, "most_in_a_second": {all}, "most_of_mdts": {most:?}, "hundreds": {hundreds:?}}}"#
        )
    }
}

fn main() {
    let usage = "waiting_mount MILLISECONDS DIRECTORIES FILES [THREADS [MDTS]] <DEVICE";
    let arguments: Vec<f64> =
        std::env::args().skip(1).map(|text| text.parse().expect(usage)).collect();
    let [wait_ms, directories, files, more @ ..] = &arguments[..] else { panic!("{usage}") };
    let mdts = more.get(1).map_or(0, |number| *number as u64);
    assert!(mdts <= MDTS_MAX, "{usage}");
    let tree = Tree { directories: *directories as u64, files: *files as u64, mdts };
    let wait = Duration::from_secs_f64(wait_ms / 1000.0);
    let device = File::from(std::io::stdin().as_fd().try_clone_to_owned().expect(usage));
    let count = Count { began: Instant::now(), came: Mutex::default() };
    std::thread::scope(|scope| {
        for _ in 0..more.first().map_or(128, |number| *number as usize) {
            scope.spawn(|| serve(&device, tree, wait, &count));
        }
    });
    println!("{}", count.report(mdts as usize));
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
        let body = &request[HEADER_BYTES..length];
        let answer = answer(opcode, node, body, tree);
        if matches!(opcode, LOOKUP | GETATTR | GETXATTR | OPENDIR | READDIR) {
            let named = (opcode == LOOKUP).then(|| tree.found(node, name_in(body))).flatten();
            count.one(tree.mdt(named.unwrap_or(node)));
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
        // Refused where no process waits for it any more, as during an unmount.
        let _ = device.write(&reply);
    }
}

fn name_in(body: &[u8]) -> &[u8] {
    body.split(|byte| *byte == 0).next().unwrap_or_default()
}

fn answer(opcode: u32, node: u64, body: &[u8], tree: Tree) -> Result<Vec<u8>, i32> {
    let mut out = Vec::new();
    match opcode {
        INIT => {
            let numbers = [7, 31, 0, PARALLEL_DIROPS | IOCTL_DIR, 0, 4096, 1];
            out.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
            out.resize(64, 0);
        }
        LOOKUP => {
            let child = tree.found(node, name_in(body)).ok_or(ENOENT)?;
            // Node, generation, how long the name and the attributes are known.
            out.extend([child, 0, VALID_S, VALID_S, 0].iter().flat_map(|n| n.to_ne_bytes()));
            attributes(&mut out, child, tree);
        }
        GETATTR => {
            out.extend([VALID_S, 0].iter().flat_map(|number| number.to_ne_bytes()));
            attributes(&mut out, node, tree);
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
                out.extend(tree.inode(first + place).to_ne_bytes());
                out.extend((place + 1).to_ne_bytes());
                out.extend((name.len() as u32).to_ne_bytes());
                out.extend(kind.to_ne_bytes());
                out.extend(name.as_bytes());
                out.resize(out.len().next_multiple_of(8), 0);
            }
        }
        GETXATTR if tree.mdts > 0 => {
            if name_in(&body[8..]) != b"trusted.lma" {
                return Err(ENODATA);
            }
            let (sequence, object) = tree.fid(node);
            out.extend([0, sequence, object].iter().flat_map(|number| number.to_ne_bytes()));
            if number(body, 0) as u32 == 0 {
                out = vec![out.len() as u8, 0, 0, 0, 0, 0, 0, 0];
            }
        }
        IOCTL if tree.mdts > 0 => {
            // Handle, flags, number, address, bytes in and out; then the FID.
            if number(body, 8) >> 32 != FID2MDTIDX {
                return Err(ENOTTY);
            }
            let index = number(body, 32).checked_sub(SEQUENCES_FROM).map_or(0, |s| s % MDTS_MAX);
            out.extend([index, 0].iter().flat_map(|number| number.to_ne_bytes()));
            out.extend(&body[32..48]);
        }
        _ => return Err(ENOSYS),
    }
    Ok(out)
}

/// `struct fuse_attr` of a node: as different from those of others as rows of an index may be.
fn attributes(out: &mut Vec<u8>, node: u64, tree: Tree) {
    let is_directory = Tree::is_directory(node);
    let time_s = 1_600_000_000 + node * 7919 % 100_000_000;
    let size_bytes = node * 104_729 % 10_000_000;
    let long =
        [tree.inode(node), size_bytes, size_bytes.div_ceil(512), time_s + 86_400, time_s, time_s];
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
