//! Barriers and messages between ranks through a directory that all of them see: no MPI needed.
//!
//! ```text
//! PARENT/.ioload-RUNID/
//!   arrive.0 arrive.1 ...   message of each rank to the step "arrive"
//!   arrive.all              all of them, published by rank 0: this is what opens the barrier
//!   start-write.0 ...       the next step
//!   alive.0 alive.1 ...     a counter that each rank raises every second
//!   abort -> 1              a symbolic link: rank 1 failed; it needs no data block, so a full disk cannot stop it
//!   report.0 report.1 ...   the end: rank 0 reads them and removes the directory
//! ```
//! Every message is written aside and renamed, so that a reader sees all of it or nothing. Each carries a number
//! drawn by its process: what an earlier run left under the same run id is recognised and not believed.

use crate::control::Control;
use crate::error::{Error, Result, removed};
use crate::heartbeat::{self, Heartbeat, Pulse};
use crate::sys;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLL_MIN: Duration = Duration::from_millis(2);
const POLL_MAX: Duration = Duration::from_millis(50);
/// How long after its publication a step begins, so that every rank has seen it by then.
const LEAD_NS: i64 = 60_000_000;

#[derive(Serialize, Deserialize)]
struct Message<T> {
    nonce: u64,
    payload: T,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Gathered<T> {
    nonces: Vec<u64>,
    /// One payload for each rank, in their order.
    pub payloads: Vec<T>,
    /// When what follows the step should begin: CLOCK_MONOTONIC of rank 0's host.
    pub begin_monotonic_ns: i64,
    pub begin_realtime_ns: i64,
}

/// Place of this rank among the others; with one rank nothing touches the file system.
pub struct Rendezvous {
    dir: PathBuf,
    rank: u64,
    size: u64,
    timeout: Duration,
    nonce: u64,
    control: Arc<Control>,
    heartbeat: Option<Heartbeat>,
}

impl Rendezvous {
    /// Makes (rank 0) or finds (others) the directory.
    pub fn open(
        parent: &Path,
        run_id: &str,
        rank: (u64, u64),
        timeout_s: f64,
        control: Arc<Control>,
    ) -> Result<Self> {
        let (rank, size) = rank;
        let nonce = sys::random_u64().map_err(|source| Error::Resource {
            what: "random bytes for the rendezvous".to_string(),
            source,
        })?;
        let mut rendezvous = Self {
            dir: parent.join(format!(".ioload-{run_id}")),
            rank,
            size,
            timeout: Duration::from_secs_f64(timeout_s),
            nonce,
            control,
            heartbeat: None,
        };
        if size > 1 {
            if rank == 0 {
                rendezvous.create()?;
            } else {
                rendezvous.find()?;
            }
            rendezvous.heartbeat =
                Some(Heartbeat::start(&rendezvous.dir, rank, Arc::clone(&rendezvous.control))?);
        }
        Ok(rendezvous)
    }

    fn create(&self) -> Result<()> {
        fs::create_dir(&self.dir).map_err(|source| {
            if source.kind() == io::ErrorKind::AlreadyExists {
                Error::Usage(format!(
                    "{} exists already: another run has this --run-id, or one was killed; hint: take another --run-id, or remove that directory",
                    self.dir.display()
                ))
            } else {
                Error::io("create", &self.dir, source)
            }
        })
    }

    fn find(&self) -> Result<()> {
        let started = Instant::now();
        let mut pause = POLL_MIN;
        while !self.dir.is_dir() {
            self.check_stop()?;
            if started.elapsed() > self.timeout {
                return Err(self.silent(0, "arrive"));
            }
            pause = sleep_longer(pause);
        }
        Ok(())
    }

    fn silent(&self, rank: u64, step: &str) -> Error {
        Error::RankSilent {
            rank,
            timeout_s: self.timeout.as_secs_f64(),
            waiting_for: format!("waiting for `{step}` in {}", self.dir.display()),
        }
    }

    /// The error that stopped this run, if it was stopped.
    fn check_stop(&self) -> Result<()> {
        match self.control.stop().and_then(|stop| stop.error()) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    /// Gives this rank's payload and returns those of all, when all have come: a barrier that carries data.
    pub fn exchange<T: Serialize + DeserializeOwned>(
        &self,
        step: &str,
        payload: T,
    ) -> Result<Gathered<T>> {
        if self.size == 1 {
            return Ok(Gathered {
                nonces: vec![self.nonce],
                payloads: vec![payload],
                begin_monotonic_ns: sys::monotonic_ns(),
                begin_realtime_ns: sys::realtime_ns(),
            });
        }
        if self.rank != 0 {
            self.publish(&format!("{step}.{}", self.rank), &self.message(payload))?;
            return self.wait_for(step, 0, &format!("{step}.all"), |gathered: &Gathered<T>| {
                gathered.nonces.get(self.rank as usize) == Some(&self.nonce)
            });
        }
        let (mut nonces, mut payloads) = (vec![self.nonce], vec![payload]);
        for rank in 1..self.size {
            let message: Message<T> =
                self.wait_for(step, rank, &format!("{step}.{rank}"), |_| true)?;
            nonces.push(message.nonce);
            payloads.push(message.payload);
        }
        let gathered = Gathered {
            nonces,
            payloads,
            begin_monotonic_ns: sys::monotonic_ns() + LEAD_NS,
            begin_realtime_ns: sys::realtime_ns() + LEAD_NS,
        };
        self.publish(&format!("{step}.all"), &gathered)?;
        Ok(gathered)
    }

    fn message<T>(&self, payload: T) -> Message<T> {
        Message { nonce: self.nonce, payload }
    }

    /// Writes a message; a full disk is given time, since the rank that filled it will soon remove
    /// its files.
    fn publish<T: Serialize>(&self, name: &str, message: &T) -> Result<()> {
        let path = self.dir.join(name);
        let bytes = serde_json::to_vec(message).map_err(|error| self.damaged(&path, &error))?;
        let aside = self.dir.join(format!(".{name}.part"));
        let started = Instant::now();
        loop {
            match fs::write(&aside, &bytes).and_then(|()| fs::rename(&aside, &path)) {
                Ok(()) => return Ok(()),
                Err(error)
                    if error.raw_os_error() == Some(libc::ENOSPC)
                        && started.elapsed() < self.timeout.min(PATIENCE) =>
                {
                    std::thread::sleep(POLL_MAX);
                }
                Err(source) => return Err(Error::io("write", &path, source)),
            }
        }
    }

    fn damaged(&self, path: &Path, error: &serde_json::Error) -> Error {
        Error::Damaged { path: path.to_path_buf(), reason: error.to_string() }
    }

    fn wait_for<T: DeserializeOwned>(
        &self,
        step: &str,
        from: u64,
        name: &str,
        believed: impl Fn(&T) -> bool,
    ) -> Result<T> {
        let mut pause = POLL_MIN;
        let mut pulse = Pulse::new(&self.dir, from);
        loop {
            if let Some(message) = self.read(name)? {
                if believed(&message) {
                    return Ok(message);
                }
            }
            self.look_for_abort();
            self.check_stop()?;
            if pulse.silence() > self.timeout {
                return Err(self.silent(from, step));
            }
            pause = sleep_longer(pause);
        }
    }

    fn read<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let path = self.dir.join(name);
        match fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| self.damaged(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::io("read", &path, source)),
        }
    }

    /// Tells the other ranks that this one gives up; the first one to say so counts.
    pub fn abort(&self) {
        if self.size > 1 {
            // If even this fails, the others find out by the silence of this rank.
            let _ = std::os::unix::fs::symlink(self.rank.to_string(), self.dir.join("abort"));
        }
    }

    pub fn look_for_abort(&self) {
        if self.size > 1 {
            heartbeat::look_for_abort(&self.dir, self.rank, &self.control);
        }
    }

    /// Rank other than 0: leaves the report for rank 0.
    pub fn leave_report<T: Serialize>(&self, report: &T) -> Result<()> {
        self.publish(&format!("report.{}", self.rank), report)
    }

    /// Rank 0: the reports of ranks 1 and up; `None` for one that was silent.
    ///
    /// After a failure the others have little left to do, so they are not waited for as long.
    pub fn collect_reports<T: DeserializeOwned>(&self, failed: bool) -> Vec<Option<T>> {
        let patience = if failed { self.timeout.min(PATIENCE) } else { self.timeout };
        let mut reports: Vec<Option<T>> = (1..self.size).map(|_| None).collect();
        let mut pulses: Vec<Pulse> =
            (1..self.size).map(|rank| Pulse::new(&self.dir, rank)).collect();
        let mut pause = POLL_MIN;
        loop {
            let mut waiting = false;
            for (index, report) in reports.iter_mut().enumerate() {
                if report.is_none() {
                    // A damaged report counts as none: that rank's files are removed here.
                    *report = self.read(&format!("report.{}", index + 1)).unwrap_or(None);
                    waiting |= report.is_none() && pulses[index].silence() < patience;
                }
            }
            if !waiting {
                return reports;
            }
            pause = sleep_longer(pause);
        }
    }

    /// Sum over all ranks of the bytes noted in their heartbeats.
    pub fn bytes_of_all(&self, of_this_rank: u64) -> u64 {
        let others = (0..self.size).filter(|&rank| rank != self.rank && self.size > 1);
        of_this_rank
            + others
                .filter_map(|rank| heartbeat::read_beat(&self.dir, rank))
                .map(|beat| beat.1)
                .sum::<u64>()
    }

    /// Sets the progress that the heartbeat reports to the other ranks.
    pub fn note_bytes(&self, bytes: u64) {
        if let Some(heartbeat) = &self.heartbeat {
            heartbeat.note_bytes(bytes);
        }
    }

    /// Ends the heartbeat of a rank that met no other, and removes its files.
    ///
    /// Only rank 0 made the directory: files of another rank may belong to a run in progress.
    pub fn withdraw(&mut self) -> Result<()> {
        if self.rank == 0 {
            return self.close(true);
        }
        self.close(false)?;
        for name in ["arrive", "alive"] {
            let path = self.dir.join(format!("{name}.{}", self.rank));
            removed(&path, fs::remove_file(&path))?;
        }
        Ok(())
    }

    /// Ends the heartbeat; `remove` also removes the directory.
    pub fn close(&mut self, remove: bool) -> Result<()> {
        drop(self.heartbeat.take());
        if self.size == 1 || !remove {
            return Ok(());
        }
        removed(&self.dir, fs::remove_dir_all(&self.dir))
    }
}

/// How long a rank waits for others once something failed.
const PATIENCE: Duration = Duration::from_secs(10);

fn sleep_longer(pause: Duration) -> Duration {
    std::thread::sleep(pause);
    (pause * 3 / 2).min(POLL_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(dir: &Path, rank: u64, size: u64, timeout_s: f64) -> Result<Rendezvous> {
        Rendezvous::open(dir, "test", (rank, size), timeout_s, Arc::new(Control::default()))
    }

    #[test]
    fn all_ranks_get_all_payloads_in_order() {
        let dir = tempfile::tempdir().unwrap();
        let results: Vec<Vec<u64>> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..4)
                .map(|rank| {
                    let dir = dir.path();
                    scope.spawn(move || {
                        let rendezvous = open(dir, rank, 4, 20.0).unwrap();
                        rendezvous.exchange("one", rank).unwrap();
                        rendezvous.exchange("two", rank * 10).unwrap().payloads
                    })
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        assert_eq!(results, vec![vec![0, 10, 20, 30]; 4]);
    }

    #[test]
    fn a_rank_that_never_comes_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = open(dir.path(), 0, 2, 0.2).unwrap().exchange("arrive", 0).unwrap_err();
        assert!(matches!(error, Error::RankSilent { rank: 1, .. }), "{error}");
        let other = tempfile::tempdir().unwrap();
        let error = open(other.path(), 1, 2, 0.2).err().unwrap();
        assert!(matches!(error, Error::RankSilent { rank: 0, .. }), "{error}");
    }

    #[test]
    fn leftovers_of_an_earlier_run_are_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let left = dir.path().join(".ioload-test");
        fs::create_dir(&left).unwrap();
        let stale =
            r#"{"nonces":[1,2],"payloads":[5,6],"begin_monotonic_ns":0,"begin_realtime_ns":0}"#;
        fs::write(left.join("arrive.all"), stale).unwrap();
        let error = open(dir.path(), 1, 2, 0.2).unwrap().exchange("arrive", 0).unwrap_err();
        assert!(matches!(error, Error::RankSilent { rank: 0, .. }), "{error}");
        assert_eq!(open(dir.path(), 0, 2, 0.2).err().unwrap().exit_code(), 2);
    }

    #[test]
    fn a_rank_that_gives_up_stops_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let zero = open(dir.path(), 0, 3, 20.0).unwrap();
        let two = open(dir.path(), 2, 3, 20.0).unwrap();
        two.abort();
        let error = zero.exchange("arrive", 0).unwrap_err();
        assert!(matches!(error, Error::PeerFailed(2)), "{error}");
    }
}
