"""Signals raise one error, at a moment when it does no harm."""

# ruff: noqa: PT012, SIM117 (where in the block it is raised is what is tested)

from __future__ import annotations

import gc
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from trimtab.base.error import Interrupted, ToolError
from trimtab.base.interruption import SIGNALS, interruptible, lifted, shielded


def send(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)
    time.sleep(0)  # give the handler its turn


@pytest.mark.parametrize("number", SIGNALS)
def test_signal_becomes_an_error_and_the_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=number.name), interruptible():
        send(number)
        pytest.fail("the signal was not raised")
    assert signal.getsignal(number) is before


def test_it_is_raised_once_and_a_nested_stretch_changes_nothing() -> None:
    cleaned = False
    with pytest.raises(Interrupted), interruptible():
        with interruptible():
            pass
        try:
            send()
        finally:
            send()
            send(signal.SIGTERM)
            cleaned = True
    assert cleaned


def test_shield_holds_it_back_until_its_end() -> None:
    done: list[str] = []
    with pytest.raises(Interrupted), interruptible():
        with shielded():
            send()
            done.append("cleaned up")
        done.append("went on")
    assert done == ["cleaned up"]


def test_a_shield_ends_itself_alone_and_lifted_undoes_one_only() -> None:
    done: list[str] = []
    with pytest.raises(Interrupted), interruptible(), shielded():
        with shielded():
            send()
        done.append("still shielded")
    with pytest.raises(Interrupted), interruptible(), shielded():
        with shielded(), lifted():
            send()
            done.append("still shielded")
    assert done == ["still shielded"] * 2
    with pytest.raises(Interrupted), interruptible(), shielded():
        send()
        with lifted():  # it raises what came before
            pytest.fail("it went on")


def test_lifted_lets_it_through_once_and_the_cleaning_up_runs() -> None:
    done: list[str] = []
    with pytest.raises(Interrupted), interruptible(), shielded():
        try:
            with lifted():
                send()
                done.append("went on")
        finally:
            send()
            done.append("cleaned up")
    assert done == ["cleaned up"]


def test_errors_of_the_block_go_on_and_what_a_library_makes_of_a_signal_does_not() -> None:
    with pytest.raises(Interrupted), interruptible():
        with pytest.raises(ValueError, match="own"), shielded():
            send()
            raise ValueError("own")
    with pytest.raises(TypeError, match="a bug"), interruptible():
        raise TypeError("a bug")
    with pytest.raises(ToolError, match="left behind"), interruptible():
        try:
            send()
        finally:
            raise ToolError("left behind")
    with pytest.raises(Interrupted, match="SIGINT") as caught, interruptible():
        try:
            send()
        except Interrupted:
            raise TypeError("what a foreign library made of it") from None
    assert isinstance(caught.value.__cause__, TypeError)


def test_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            send(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_outside_of_a_stretch_and_of_the_main_thread_it_is_harmless() -> None:
    with shielded(), lifted():
        pass
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with interruptible(), shielded(), lifted():
                pass
        except BaseException as error:  # noqa: BLE001 (handed to the main thread)
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert failed == []


class _Finalizer:
    def __del__(self) -> None:
        send()


@pytest.mark.system
def test_error_lost_in_a_finalizer_is_raised_again() -> None:
    with pytest.raises(Interrupted), interruptible():
        _Finalizer()
        gc.collect()
        time.sleep(1.0)
        pytest.fail("the signal was lost")


SCRIPT = """
import os, sys, time
from pathlib import Path
from trimtab.base.error import Interrupted, ToolError
from trimtab.base.interruption import interruptible, lifted, shielded
made = Path(sys.argv[1]) / "made"
try:
    with interruptible():
        print("ready", flush=True)
        while True:
            with shielded():
                made.write_text("x")
                try:
                    with lifted():
                        sum(range(2000))
                finally:
                    made.unlink()
except Interrupted:
    print("interrupted", flush=True)
"""


@pytest.mark.system
@pytest.mark.parametrize("seed", range(8))
def test_signals_at_any_moment_leave_no_file(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    argv = [sys.executable, "-c", SCRIPT, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(chance.random() / 50)
        # The second one follows at once: it falls into the cleaning-up of the first.
        child.send_signal(chance.choice(SIGNALS))
        child.send_signal(signal.SIGINT)
        rest = child.stdout.read()
    assert rest == "interrupted\n"
    assert child.returncode == 0
    assert list(tmp_path.iterdir()) == []
