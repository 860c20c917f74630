//! Showing the other ranks that this one lives, and seeing whether they do.

use crate::control::Control;
use crate::error::{Error, Result};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const HEARTBEAT: Duration = Duration::from_secs(1);

/// Notes in the control whether another rank left the mark of giving up.
pub fn look_for_abort(dir: &Path, own_rank: u64, control: &Control) {
    let Ok(target) = fs::read_link(dir.join("abort")) else {
        return;
    };
    let rank = target.to_str().and_then(|text| text.parse().ok()).unwrap_or(u64::MAX);
    if rank != own_rank {
        control.peer_failed(rank);
    }
}

/// Counter and bytes of a rank's heartbeat.
pub fn read_beat(dir: &Path, rank: u64) -> Option<(u64, u64)> {
    let bytes = fs::read(dir.join(format!("alive.{rank}"))).ok()?;
    let number =
        |from: usize| Some(u64::from_le_bytes(bytes.get(from..from + 8)?.try_into().ok()?));
    Some((number(0)?, number(8)?))
}

/// How long ago another rank's counter last moved, by this rank's own clock.
pub struct Pulse<'a> {
    dir: &'a Path,
    rank: u64,
    last: Option<(u64, u64)>,
    moved: Instant,
    looked: Instant,
}

impl<'a> Pulse<'a> {
    pub fn new(dir: &'a Path, rank: u64) -> Self {
        let now = Instant::now();
        Self { dir, rank, last: read_beat(dir, rank), moved: now, looked: now }
    }

    pub fn silence(&mut self) -> Duration {
        if self.looked.elapsed() >= HEARTBEAT {
            self.looked = Instant::now();
            let beat = read_beat(self.dir, self.rank);
            if beat != self.last {
                self.last = beat;
                self.moved = self.looked;
            }
        }
        self.moved.elapsed()
    }
}

/// A thread that shows that this rank lives, and looks whether another one failed.
pub struct Heartbeat {
    stop: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    /// Starts the beat of this rank in the rendezvous directory.
    pub fn start(dir: &Path, rank: u64, control: Arc<Control>) -> Result<Self> {
        let path = dir.join(format!("alive.{rank}"));
        let file = fs::File::create(&path).map_err(|source| Error::io("create", &path, source))?;
        let stop = Arc::new(AtomicBool::new(false));
        let bytes = Arc::new(AtomicU64::new(0));
        let (stopped, noted, dir) = (Arc::clone(&stop), Arc::clone(&bytes), dir.to_path_buf());
        let beat = move || {
            let mut counter = 0_u64;
            while !stopped.load(Ordering::Relaxed) {
                counter += 1;
                let mut message = [0; 16];
                message[..8].copy_from_slice(&counter.to_le_bytes());
                message[8..].copy_from_slice(&noted.load(Ordering::Relaxed).to_le_bytes());
                // A beat that cannot be written is a missed beat: the others count them.
                let _ = file.write_at(&message, 0);
                look_for_abort(&dir, rank, &control);
                std::thread::park_timeout(HEARTBEAT);
            }
        };
        let thread = std::thread::Builder::new()
            .name("heartbeat".to_string())
            .spawn(beat)
            .map_err(|source| Error::Resource { what: "a thread".to_string(), source })?;
        Ok(Self { stop, bytes, thread: Some(thread) })
    }
}

impl Heartbeat {
    pub fn note_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panicked heartbeat has nothing left to say.
            let _ = thread.join();
        }
    }
}
