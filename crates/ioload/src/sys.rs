//! The few system calls that the standard library does not offer, each wrapped once.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `f_type` of tmpfs (`statfs(2)`), which accepts `O_DIRECT` since Linux 6.6 and ignores it.
pub const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Nanoseconds of `CLOCK_MONOTONIC`: the same for every process of one boot of one host.
pub fn monotonic_ns() -> i64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds of `CLOCK_REALTIME` since the epoch.
pub fn realtime_ns() -> i64 {
    clock_ns(libc::CLOCK_REALTIME)
}

fn clock_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, exclusively borrowed timespec; the call keeps no pointer.
    let status = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(status, 0, "clock_gettime knows its two standard clocks");
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
    let descriptor = file.into_raw_fd();
    // SAFETY: `into_raw_fd` handed over the only ownership, so it is closed exactly once.
    if unsafe { libc::close(descriptor) } == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    // Linux frees the descriptor before it returns EINTR (close(2)): it is closed.
    if error.raw_os_error() == Some(libc::EINTR) {
        return Ok(());
    }
    Err(error)
}

/// The file system's magic number (`statfs(2)`) at `path`.
pub fn filesystem_magic(path: &Path) -> io::Result<i64> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // SAFETY: statfs is plain numbers, for which all zeros is a valid value.
    let mut status: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `name` is NUL-terminated and outlives the call; `status` is exclusively borrowed.
    if unsafe { libc::statfs(name.as_ptr(), &mut status) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(status.f_type as i64)
}

/// Alignment in bytes that direct I/O needs on an open file.
///
/// `None` where the kernel does not say; `Some(0)` where it says that the file takes none (`statx(2)`, Linux 6.1).
pub fn direct_alignment_bytes(file: &File) -> io::Result<Option<u32>> {
    // SAFETY: statx is plain numbers, for which all zeros is a valid value.
    let mut status: libc::statx = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, the path is an empty C string, `status` is exclusively borrowed.
    let outcome = unsafe {
        libc::statx(
            file.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH,
            libc::STATX_DIOALIGN,
            &mut status,
        )
    };
    if outcome != 0 {
        return Err(io::Error::last_os_error());
    }
    if status.stx_mask & libc::STATX_DIOALIGN == 0 {
        return Ok(None);
    }
    Ok(Some(status.stx_dio_offset_align.max(status.stx_dio_mem_align)))
}

/// Physical memory of this host in bytes.
pub fn physical_memory_bytes() -> u64 {
    // SAFETY: sysconf takes plain numbers and touches no memory of ours.
    let (pages, page) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    pages.max(0) as u64 * page.max(0) as u64
}

/// Name of this host, as `gethostname(2)` gives it.
pub fn host_name() -> String {
    let mut buffer = [0_u8; 256];
    // SAFETY: the buffer is exclusively borrowed and its true length is given.
    let status = unsafe { libc::gethostname(buffer.as_mut_ptr().cast(), buffer.len()) };
    if status != 0 {
        return "localhost".to_string();
    }
    let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(0);
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

/// Random identifier of the running boot; `None` where the kernel does not show one.
pub fn boot_id() -> Option<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(text.trim().to_string())
}

/// 64 bits from the kernel's random source.
pub fn random_u64() -> io::Result<u64> {
    use std::io::Read;
    let mut bytes = [0_u8; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes))
}
