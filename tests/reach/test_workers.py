"""Questions that several processes answer: all once, in order, and this one among them."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

import pytest

from trimtab.base.error import Interrupted, ToolError
from trimtab.reach.worker_process import one_by_one, side_by_side

pytestmark = pytest.mark.system

HINT = "take fewer"


@dataclass(frozen=True)
class Square:
    """Answered after a while, with who answered it."""

    number: int
    takes_s: float = 0.02

    def answer(self) -> tuple[int, int]:
        time.sleep(self.takes_s)
        return self.number**2, os.getpid()


@dataclass(frozen=True)
class Wrong:
    def answer(self) -> None:
        raise LookupError("not to be found")


@dataclass(frozen=True)
class Fatal:
    """Ends the process that answers it, unless that is the one that asked."""

    asked_by: int

    def answer(self) -> str:
        if os.getpid() != self.asked_by:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.5)
        return "survived"


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_answers_come_in_the_order_of_the_questions(processes: int) -> None:
    questions = [Square(number, 0.05 if number % 3 == 0 else 0.001) for number in range(20)]
    with side_by_side(processes, hint=HINT) as together:
        found = list(together(questions))
    assert [square for square, _ in found] == [number**2 for number in range(20)]
    assert (os.getpid() in {who for _, who in found}) or processes == 1
    assert len({who for _, who in found}) <= processes


def test_the_process_that_asks_answers_while_a_worker_does() -> None:
    with side_by_side(2, hint=HINT) as together:
        list(together([Square(0)]))  # the worker has begun by then, or this process was quicker
        found = list(together([Square(number, 0.1) for number in range(10)]))
    answered_here = [who == os.getpid() for _, who in found]
    assert any(answered_here)
    assert not all(answered_here)


def test_what_was_asked_first_may_be_fetched_last() -> None:
    with side_by_side(2, hint=HINT) as together:
        early = together([Square(3), Square(4)])
        late = together(Square(number) for number in (5, 6))
        assert [next(late)[0], next(early)[0]] == [25, 9]
        assert [one for one, _ in (*early, *late)] == [16, 36]


def test_questions_are_begun_with_before_an_answer_is_fetched() -> None:
    with side_by_side(2, hint=HINT) as together:
        list(together([Square(number, 0.2) for number in range(4)]))
        answers = together([Square(1, 0.2)])
        time.sleep(0.6)
        began_s = time.monotonic()
        assert next(answers)[1] != os.getpid()
        assert time.monotonic() - began_s < 0.1


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_question_raises_is_raised_where_it_was_asked(processes: int) -> None:
    with (
        pytest.raises(LookupError, match="not to be found"),
        side_by_side(processes, hint=HINT) as together,
    ):
        list(together([*(Square(number) for number in range(4)), Wrong()]))


def test_a_worker_that_is_killed_is_told_with_what_to_do() -> None:
    with pytest.raises(ToolError) as raised:  # noqa: SIM117 - what is in it raises
        with side_by_side(2, hint=HINT) as together:
            list(together([Fatal(os.getpid()) for _ in range(8)]))
    assert raised.value.code == "worker-killed"
    assert raised.value.hint == HINT


def test_one_by_one_answers_when_it_is_asked() -> None:
    answers = one_by_one([Square(2), Wrong()])
    assert next(answers) == (4, os.getpid())
    with pytest.raises(LookupError):
        next(answers)


def test_a_process_of_months_has_one_thread_for_frames_and_its_children_have_all() -> None:
    of_polars = "import polars; print(polars.thread_pool_size())"
    asked = (
        "import os, subprocess, sys\n"
        "from trimtab.reach.worker_process import frames_for_months\n"
        f"frames_for_months()\n{of_polars}\n"
        f"sys.stdout.flush(); subprocess.run([sys.executable, '-c', {of_polars!r}])\n"
    )
    environment = {**os.environ, "POLARS_MAX_THREADS": "3"}
    done = subprocess.run(
        [sys.executable, "-c", asked], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["1", "3"]


def test_a_process_of_months_keeps_nothing_of_frames_that_are_gone() -> None:
    asked = (
        "from pathlib import Path\n"
        "from trimtab.reach.worker_process import frames_for_months\n"
        "frames_for_months()\n"
        "import polars as pl\n"
        "def pages(): return int(Path('/proc/self/statm').read_text().split()[1])\n"
        "before = pages()\n"
        "frames = [pl.int_range(0, 20_000, eager=True) + n for n in range(200)]\n"
        "held = pages()\n"
        "del frames\n"
        "print(held - before, pages() - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    held, kept = map(int, done.stdout.split())
    assert kept < held / 4


def test_an_interruption_does_not_wait_for_what_a_worker_is_at() -> None:
    def interrupted() -> None:
        with side_by_side(2, hint=HINT) as together:
            together([Square(1, takes_s=60.0)])  # a worker begins with it at once
            raise Interrupted("stopped by SIGINT")

    began_s = time.monotonic()
    with pytest.raises(Interrupted):
        interrupted()
    assert time.monotonic() - began_s < 30.0
