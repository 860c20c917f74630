//! Until when a host may delete the rows that it has claimed, where several delete by one plan.
//!
//! The others take over rows that were not reported on for longer than that. The clock is that of
//! this host since its start, also while it sleeps: the hosts' clocks need not agree.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::outcome::{Outcome, Refusal};

/// A moment on `CLOCK_BOOTTIME`; `None`: for ever.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Until(pub(super) Option<Duration>);

impl Until {
    pub(super) fn check(self) -> Result<(), Refusal> {
        match self.0 {
            Some(until) if now() >= until => Err(Outcome::TooLate.into()),
            _ => Ok(()),
        }
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Boottime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_over_once_it_has_come() {
        let soon = now() + Duration::from_secs(600);
        assert!(Until(None).check().is_ok() && Until(Some(soon)).check().is_ok());
        let over = Until(Some(now())).check().unwrap_err();
        assert_eq!(over, Outcome::TooLate.into());
    }
}
