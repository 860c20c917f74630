"""Main program of a child of `trimtab.reach.bounded`: answers one request and exits."""

from __future__ import annotations

import math
import os
import pickle
import signal
import sys


def main() -> None:
    """Answer the request on standard input: a call without arguments, and its deadline.

    It kills itself shortly after the deadline, so that it does not outlive a parent that is gone.
    """
    # An ignored alarm may be inherited from the process that started Trimtab.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    question, deadline_s = pickle.load(sys.stdin.buffer)
    if deadline_s != math.inf:
        signal.setitimer(signal.ITIMER_REAL, deadline_s + 1.0)
    try:
        answer = (question(), None)
    except Exception as error:  # noqa: BLE001 (whoever asked raises it)
        answer = (None, error)
    # Closing it ends the answer for the reader, though threads may keep the process alive.
    with os.fdopen(1, "wb") as output:
        pickle.dump(answer, output)
    os._exit(0)
