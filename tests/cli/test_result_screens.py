"""Screens of results that need no store: each at three widths, none wider than its terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from tests.cli.test_screens import WIDTHS, printed
from tests.report.conftest import full_result
from tests.report.pages import EXAMPLES, sweep_analysis, swept_policies
from tests.report.purge_pages import USAGE, horizon_answer_of, purge_runs

from trimtab.cli.ladder import print_ladder
from trimtab.cli.purge.horizon import print_horizon
from trimtab.cli.purge.report import print_report
from trimtab.cli.render.check import print_check
from trimtab.cli.sweep import print_sweep
from trimtab.cli.whatif import print_swept
from trimtab.judge.ladder.build import build_ladder
from trimtab.loop.ladder import of_file
from trimtab.loop.sweep import SweepState
from trimtab.report.check import sorted_findings
from trimtab.site.ladder_file import load_ladder


def _horizon() -> None:
    rules = SimpleNamespace(words=("Files younger than 14 d stay.",))
    horizons = SimpleNamespace(
        answer=horizon_answer_of(0.7), usage=USAGE, rules=rules, notes=("The index is 6 h old.",),
        policy=SimpleNamespace(root="/scratch"), files=21_000_000, allocated_bytes=10**16,
    )  # fmt: skip
    print_horizon(cast(Any, horizons))


def _ladder() -> None:
    print_ladder(build_ladder(of_file(load_ladder(EXAMPLES / "perlmutter.toml"))))


def _check() -> None:
    result = full_result()
    print_check(replace(result, findings=tuple(sorted_findings(result.findings))))


def _sweep() -> None:
    sweep = SimpleNamespace(name="sizes", rounds=3, points=range(24), fixed={})
    print_sweep(SweepState(cast(Any, sweep), (), ()), sweep_analysis(), "STORE")


SCREENS: dict[str, Callable[[], None]] = {
    "check": _check,
    "ladder": _ladder,
    "purge horizon": _horizon,
    "purge report": partial(print_report, purge_runs(), "/var/lib/trimtab/purge"),
    "sweep": _sweep,
    "whatif": lambda: print_swept(*swept_policies()),
}


@pytest.mark.cli
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_fits_its_terminal(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    snapshot: SnapshotAssertion,
    name: str,
    width: int,
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        lines = printed(SCREENS[name], capsys, monkeypatch, width=width)
    time.tzset()
    assert [line for line in lines if cell_len(line) > width] == []
    assert "\n".join(lines) == snapshot
