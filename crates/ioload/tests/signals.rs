//! Alone in its process: the noted signal is global, and other tests ask for it.

use ioload::signals::{self, Handlers};

extern "C" fn of_the_caller(_signal: libc::c_int) {}

fn handler_of(signal: libc::c_int) -> libc::sighandler_t {
    // SAFETY: sigaction is plain numbers; the call only asks.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action);
        action.sa_sigaction
    }
}

#[test]
fn a_signal_is_noted_and_the_callers_handler_comes_back() {
    let handler = of_the_caller as *const () as libc::sighandler_t;
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGHUP, handler) };
    // SAFETY: ignoring a signal is always possible.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
    {
        let _handlers = Handlers::install();
        assert_eq!(signals::received(), None);
        assert_eq!(handler_of(libc::SIGTERM), libc::SIG_IGN, "nohup-like ignoring stays");
        // SAFETY: raises a signal whose handler only notes it.
        unsafe { libc::raise(libc::SIGHUP) };
        assert_eq!(signals::received(), Some("SIGHUP"));
    }
    assert_eq!(handler_of(libc::SIGHUP), handler);
    let _again = Handlers::install();
    assert_eq!(signals::received(), None, "a new run starts without it");
}
