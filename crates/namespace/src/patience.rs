//! Calls that may never return, each made by a thread that is left behind when it is late.
//!
//! A Lustre client that asks an OST for a size waits until the OST is back or an administrator
//! deactivates it, and no signal ends that. A caller that asks through here gets `ETIMEDOUT`
//! instead; the call itself may still end, and changes nothing.

use std::cell::RefCell;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use crate::beneath::Answer;

/// How many threads are left behind at most; after that no call is made any more.
const LATE_MAX: usize = 512;
/// Divisor of the deadline once a call was late: a server that hangs once hangs for each of its
/// files.
const SHORTER: u32 = 6;

type Work = Box<dyn FnOnce() + Send>;

thread_local! {
    /// The thread that makes the calls of this one.
    static HELPER: RefCell<Option<Sender<Work>>> = const { RefCell::new(None) };
}

/// How long calls are waited for.
#[derive(Debug)]
pub struct Patience {
    deadline: Duration,
    late: AtomicUsize,
}

impl Default for Patience {
    /// A deadline longer than a busy server takes, and than a failover that goes well.
    fn default() -> Self {
        Self::new(Duration::from_secs(60))
    }
}

impl Patience {
    /// Waits so long for the first call that does not return.
    pub fn new(deadline: Duration) -> Self {
        Self { deadline, late: AtomicUsize::new(0) }
    }

    /// How many calls were late, so far.
    pub fn late(&self) -> usize {
        self.late.load(Relaxed)
    }

    /// Makes a call and returns its answer, or `ETIMEDOUT`.
    pub fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        let deadline = match self.late() {
            0 => self.deadline,
            late if late < LATE_MAX => self.deadline / SHORTER,
            _ => return Err(Errno::TIMEDOUT),
        };
        let (sender, receiver) = sync_channel(1);
        // The receiver may have given up.
        hand_over(Box::new(move || drop(sender.send(call()))))?;
        match receiver.recv_timeout(deadline) {
            Ok(answer) => answer,
            Err(reason) => {
                HELPER.take();
                if reason == RecvTimeoutError::Disconnected {
                    return Err(Errno::IO);
                }
                self.late.fetch_add(1, Relaxed);
                Err(Errno::TIMEDOUT)
            }
        }
    }
}

/// Has the helper of this thread do something.
fn hand_over(work: Work) -> Answer<()> {
    HELPER.with_borrow_mut(|helper| {
        let sender = match helper.take() {
            Some(sender) => sender,
            None => {
                let (sender, receiver): (_, Receiver<Work>) = channel();
                let task = move || receiver.into_iter().for_each(|work| work());
                thread::Builder::new().spawn(task).map_err(|_| Errno::AGAIN)?;
                sender
            }
        };
        sender.send(work).map_err(|_| Errno::IO)?;
        *helper = Some(sender);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Arc, Barrier};
    use std::time::Instant;

    #[test]
    fn what_returns_is_answered_by_one_helper() {
        let patience = Patience::default();
        let numbers: Vec<_> = (0..100)
            .map(|number| patience.call(move || Ok((number, thread::current().id()))).unwrap())
            .collect();
        assert!(numbers.iter().enumerate().all(|(place, (number, _))| place == *number));
        assert!(numbers.iter().all(|(_, id)| *id == numbers[0].1 && *id != thread::current().id()));
        assert_eq!(patience.call(|| Err::<(), _>(Errno::STALE)), Err(Errno::STALE));
        assert_eq!(patience.late(), 0);
    }

    #[test]
    fn what_does_not_return_is_left_behind() {
        let patience = Patience::new(Duration::from_millis(120));
        let (hangs, ended) = (Arc::new(Barrier::new(3)), Arc::new(AtomicBool::new(false)));
        let hang = || {
            let (hangs, ended) = (hangs.clone(), ended.clone());
            patience.call(move || {
                hangs.wait();
                ended.store(true, Relaxed);
                Ok(())
            })
        };
        let began = Instant::now();
        assert_eq!((hang(), hang()), (Err(Errno::TIMEDOUT), Err(Errno::TIMEDOUT)));
        assert!(began.elapsed() >= Duration::from_millis(140));
        assert_eq!((patience.late(), patience.call(|| Ok(7))), (2, Ok(7)));
        assert!(!ended.load(Relaxed));
        hangs.wait();
    }

    #[test]
    fn nothing_is_asked_any_more_after_too_many() {
        let patience = Patience::default();
        patience.late.store(LATE_MAX, Relaxed);
        assert_eq!(patience.call(|| Ok(())), Err(Errno::TIMEDOUT));
    }

    #[test]
    fn a_call_that_panics_is_an_error() {
        let patience = Patience::default();
        assert_eq!(patience.call(|| -> Answer<()> { panic!("as it should") }), Err(Errno::IO));
        assert_eq!(patience.call(|| Ok(1)), Ok(1));
    }
}
