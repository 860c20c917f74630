"""The log of what is set permanently, as MGSs answered: no log yet, no right, no MGS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre

from trimtab.reach.lustre.write_table import LIST_PERMANENT, name_of
from trimtab.reach.lustre.writer_order import End, permanent_now

RECORDED = Path(__file__).parents[2] / "fixtures/lustre/2.17.0"
SETTING = name_of("lod/qos_prio_free", {"fs": "scratch", "mdt": "MDT0000"})


class Answering:
    """A machine on which ``llog_print params`` ends as it did for one recorded user."""

    def __init__(self, name: str, number: int = 0) -> None:
        parts = (RECORDED / f"{name}.out").read_text().split("rc=")
        self.stdout = re.sub(r"\A(?:\d+\n)?(?:2026-.*\nversion=.*\n)?", "", parts[number])
        self.exit_code = int(parts[number + 1].split("\n")[0])
        said = (RECORDED / f"{name}.err").read_text().splitlines()
        self.stderr = f"{said[max(number - 1, 0)]}\n" if self.exit_code else ""

    def run(self, argv: list[str], timeout_s: float, *, rights: bool) -> dict[str, object]:
        assert (argv, rights) == (LIST_PERMANENT, True)
        ended = {"timed_out": False, "error": None}
        return {k: getattr(self, k) for k in ("stdout", "stderr", "exit_code")} | ended


def test_before_anybody_set_one_there_is_no_value() -> None:
    answering = Answering("llog-print-never-set")
    assert (answering.exit_code, answering.stdout) == (2, "")
    assert permanent_now(answering, SETTING) == ""


def test_a_log_without_the_parameter_has_no_value() -> None:
    assert permanent_now(Answering("llog-print-params"), SETTING) == ""


@pytest.mark.parametrize(
    ("name", "number", "outcome", "code", "words"),
    [
        ("llog-print-params", 1, "refused", "permission-denied", "Permission denied"),
        ("llog-print-no-mgs", 0, "skipped", "mgs-not-here", "No device found for name MGS"),
        ("llog-print-no-mgs", 1, "skipped", "mgs-not-here", "No device found for name MGS"),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_no_value(
    name: str, number: int, outcome: str, code: str, words: str
) -> None:
    with pytest.raises(End) as end:
        permanent_now(Answering(name, number), SETTING)
    assert (end.value.answer["outcome"], end.value.answer["code"]) == (outcome, code)
    assert words in str(end.value)


def test_the_stand_in_answers_so() -> None:
    fake = FakeLustre.pair()
    for host, name in (("mds1", "llog-print-never-set"), ("mds2", "llog-print-no-mgs")):
        told, answering = fake.lctl(host, LIST_PERMANENT[1:]), Answering(name)
        assert (told.stdout, told.stderr) == (answering.stdout, answering.stderr)
        assert told.exit_code == answering.exit_code
