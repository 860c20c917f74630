"""Turns signals into one exception, raised only where it does no harm.

::

    with interruptible():            # SIGINT, SIGTERM, SIGHUP raise Interrupted, once
        with shielded():             # ... but not in here: deferred until leaving
            make the directory
            try:
                with lifted():       # ... except in here, where stopping is safe
                    work for a minute
            finally:
                remove the directory # always runs to its end

After `Interrupted` was raised, later signals of the same stretch are ignored: a second Ctrl-C does
not stop the cleanup that the first one started.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from trimtab.base.error import Interrupted, TrimtabError

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_AGAIN_S: Final = 0.01
_DELIVERIES: Final = 100


@dataclass(slots=True)
class _Stretch:
    """The state of one `interruptible` stretch."""

    depth: int = 0
    pending: int | None = None
    raised: bool = False

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.raised:
            return
        self.pending = number
        if self.depth == 0:
            self.raise_pending()

    def raise_pending(self) -> None:
        if self.pending is not None and not self.raised:
            self.raised = True
            raise self.error()

    def error(self) -> Interrupted:
        name = "a signal" if self.pending is None else signal.Signals(self.pending).name
        return Interrupted(f"stopped by {name}")


_current: _Stretch | None = None


@contextmanager
def interruptible() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into `Interrupted`, raised once in the main thread.

    A signal that was ignored on entry (``nohup``) stays ignored. Previous handlers are restored on
    leaving. Outside the main thread, or inside another such stretch, it does nothing.

    Raises
    ------
    Interrupted
        Also on leaving, for a signal that could not be raised before; and in place of a foreign
        exception that escapes after a signal was raised.
    """
    global _current  # noqa: PLW0603 (signal handlers are global to the process)
    if _current is not None or threading.current_thread() is not threading.main_thread():
        yield
        return
    stretch = _Stretch()
    before: dict[int, Any] = {}
    hook = sys.unraisablehook

    def unraisable(lost: Any) -> None:
        # An exception raised in a finalizer is lost: deliver the signal again, but not at once,
        # since we are still inside the finalizer.
        if isinstance(lost.exc_value, Interrupted) and stretch.pending is not None:
            stretch.raised = False
            # Delivered while this still runs it would be lost again, so it is only recorded.
            stretch.depth += 1
            try:
                threading.Thread(target=_deliver_again, args=(stretch,), daemon=True).start()
            finally:
                stretch.depth -= 1
        else:
            hook(lost)

    try:
        _current = stretch
        sys.unraisablehook = unraisable
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.getsignal(number)
                signal.signal(number, stretch.handle)
        yield
    except TrimtabError:
        raise
    except Exception as error:
        # An extension module that called back into Python may replace our exception by its own.
        if stretch.raised and stretch.pending is not None:
            raise stretch.error() from error
        raise
    finally:
        stretch.depth += 1
        for number, handler in before.items():
            # None: a handler not installed by Python, which cannot be restored.
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        sys.unraisablehook = hook
        _current = None
    stretch.raise_pending()


@contextmanager
def shielded() -> Iterator[None]:
    """Defer `Interrupted` until the end of the block; for creating and cleaning up.

    If the block raises an exception itself, that one propagates and the signal stays pending: it is
    raised at the end of the next shield, or of the whole stretch.
    """
    stretch = _stretch_of_this_thread()
    if stretch is None:
        yield
        return
    stretch.depth += 1
    try:
        yield
    finally:
        stretch.depth -= 1
    if stretch.depth == 0:
        stretch.raise_pending()


@contextmanager
def lifted() -> Iterator[None]:
    """Undo one `shielded`; raises at once if it was the last one and a signal is pending."""
    stretch = _stretch_of_this_thread()
    if stretch is None:
        yield
        return
    stretch.depth -= 1
    try:
        if stretch.depth == 0:
            stretch.raise_pending()
        yield
    finally:
        stretch.depth += 1


def _deliver_again(stretch: _Stretch) -> None:
    """Send the pending signal to the main thread until it is raised or the stretch ends."""
    main = threading.main_thread().ident
    for _ in range(_DELIVERIES):
        time.sleep(_AGAIN_S)
        if _current is not stretch or stretch.raised or main is None or not stretch.pending:
            return
        signal.pthread_kill(main, stretch.pending)


def _stretch_of_this_thread() -> _Stretch | None:
    return _current if threading.current_thread() is threading.main_thread() else None
