//! Signals ask the run to stop; the handlers of the caller are put back afterwards.
//!
//! The caller may be the Python interpreter, whose main thread sits inside this call and would act on a
//! Ctrl-C only after it: so the run installs its own handlers, and restores the old ones at its end.

use std::sync::Mutex;
use std::sync::MutexGuard;
use std::sync::atomic::{AtomicI32, Ordering};

static RECEIVED: AtomicI32 = AtomicI32::new(0);
static ONE_RUN: Mutex<()> = Mutex::new(());

const STOPPING: [(libc::c_int, &str); 3] =
    [(libc::SIGINT, "SIGINT"), (libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")];

extern "C" fn remember(signal: libc::c_int) {
    // Only an atomic store: that is async-signal-safe (signal-safety(7)).
    RECEIVED.store(signal, Ordering::Relaxed);
}

/// Name of the signal that arrived since the handlers were installed, if one did.
pub fn received() -> Option<&'static str> {
    let signal = RECEIVED.load(Ordering::Relaxed);
    if signal == 0 {
        return None;
    }
    STOPPING.iter().find(|entry| entry.0 == signal).map(|entry| entry.1)
}

/// While it lives, stopping signals are noted instead of ending the process; one run of a process at a time.
pub struct Handlers {
    old: Vec<(libc::c_int, libc::sigaction)>,
    _one_run: MutexGuard<'static, ()>,
}

impl Handlers {
    /// Installs the handlers; waits while another thread of this process has a run.
    pub fn install() -> Self {
        let one_run = ONE_RUN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        RECEIVED.store(0, Ordering::Relaxed);
        let mut old = Vec::new();
        for (signal, _) in STOPPING {
            // A signal that was ignored stays ignored: nohup means it.
            let previous = current(signal);
            if previous.sa_sigaction != libc::SIG_IGN {
                old.push((signal, replace(signal, remember as *const () as libc::sighandler_t)));
            }
        }
        // The file size limit then shows as EFBIG, which is reported, instead of as the end of the process.
        old.push((libc::SIGXFSZ, replace(libc::SIGXFSZ, libc::SIG_IGN)));
        Self { old, _one_run: one_run }
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        RECEIVED.store(0, Ordering::Relaxed);
        for (signal, action) in self.old.drain(..) {
            // SAFETY: `action` is what sigaction(2) itself gave for this signal.
            unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) };
        }
    }
}

fn current(signal: libc::c_int) -> libc::sigaction {
    // SAFETY: sigaction is plain numbers, for which all zeros is a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only asks; `action` is exclusively borrowed.
    unsafe { libc::sigaction(signal, std::ptr::null(), &mut action) };
    action
}

fn replace(signal: libc::c_int, handler: libc::sighandler_t) -> libc::sigaction {
    // SAFETY: as in `current`.
    let (mut new, mut old): (libc::sigaction, libc::sigaction) = unsafe { std::mem::zeroed() };
    new.sa_sigaction = handler;
    // SAFETY: both actions are valid and exclusively borrowed; the handler is async-signal-safe.
    // Without SA_RESTART a sleeping call returns early and its loop sees the signal.
    unsafe {
        libc::sigemptyset(&mut new.sa_mask);
        libc::sigaction(signal, &new, &mut old);
    }
    old
}
