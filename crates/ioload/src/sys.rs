//! The few system calls that the standard library does not offer, each wrapped once.

use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use rustix::rand::GetRandomFlags;
use rustix::time::ClockId;
use std::fs::File;
use std::io;
use std::os::fd::IntoRawFd;
use std::path::Path;

/// `f_type` of tmpfs (`statfs(2)`), which accepts `O_DIRECT` since Linux 6.6 and ignores it.
pub const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Nanoseconds of `CLOCK_MONOTONIC`: the same for every process of one boot of one host.
pub fn monotonic_ns() -> i64 {
    clock_ns(ClockId::Monotonic)
}

pub fn realtime_ns() -> i64 {
    clock_ns(ClockId::Realtime)
}

fn clock_ns(clock: ClockId) -> i64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// CPU time of this process so far: user seconds and system seconds.
pub fn cpu_s() -> (f64, f64) {
    // SAFETY: rusage is plain numbers, for which all zeros is a valid value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is a valid, exclusively borrowed rusage; the call keeps no pointer.
    let status = unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    assert_eq!(status, 0, "getrusage of the process itself cannot fail");
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
    (seconds(usage.ru_utime), seconds(usage.ru_stime))
}

/// Closes a file and says whether that failed: network file systems report a failed write at close.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: `into_raw_fd` handed over the only ownership, so it is closed exactly once.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // Linux frees the descriptor before it returns EINTR (close(2)): it is closed.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The file system's magic number (`statfs(2)`) at `path`.
pub fn filesystem_magic(path: &Path) -> io::Result<i64> {
    Ok(rustix::fs::statfs(path)?.f_type as i64)
}

/// Alignment in bytes that direct I/O needs on an open file.
///
/// `None` where the kernel does not say; `Some(0)` where it says that the file takes none (`statx(2)`, Linux 6.1).
pub fn direct_alignment_bytes(file: &File) -> io::Result<Option<u32>> {
    let status = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)?;
    if status.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(None);
    }
    Ok(Some(status.stx_dio_offset_align.max(status.stx_dio_mem_align)))
}

pub fn physical_memory_bytes() -> u64 {
    let information = rustix::system::sysinfo();
    information.totalram as u64 * u64::from(information.mem_unit)
}

pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Random identifier of the running boot; `None` where the kernel does not show one.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string())
}

pub fn random_u64() -> io::Result<u64> {
    let mut bytes = [0_u8; 8];
    // Up to 256 bytes come whole or not at all (getrandom(2)).
    rustix::rand::getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u64::from_le_bytes(bytes))
}
