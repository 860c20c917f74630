"""What holds for every test: its tier, and what must not be skipped."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import Phase, settings
from tests.support import counts, made_stores
from tests.support.rewriting import rewrite_share
from tests.support.slurm import slurm, slurm_cluster  # noqa: F401 (one Slurm for all tests)
from tests.support.tiers import UnitGuard, give_tiers, is_chosen, slow_files_first

from trimtab.store import database
from trimtab.twin.simulation import traffic

# A simulation that breaks a law of physics is a bug, whatever a test is about.
os.environ[traffic.VARIABLE] = "1"

# A new store is what the migrations make, without their time; tests of the store do run them.
database._upgrade = made_stores.make

# Screens are as wide as they are without a terminal, wherever the tests are started.
os.environ.pop("COLUMNS", None)

# Properties are tried without a deadline: on a busy machine a timing would decide the test. The
# gate tries the same examples each time; `make soak` always others, and forty times as many where
# a test has no count of its own. The seed of Rust's properties is in the Makefile.
settings.register_profile("gate", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("soak", deadline=None, max_examples=1000)
# A mutant is judged by twice the gate's examples; the smallest that it fails is nobody's concern.
settings.register_profile(
    "mutants",
    settings.get_profile("gate"),
    max_examples=50,
    phases=(Phase.explicit, Phase.generate),
)
settings.load_profile("gate")

# Under nohup and behind a shell's & signals are ignored, and Trimtab leaves that so: here they have
# to stop what they meet.
for _number, _usual in (
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGINT, signal.default_int_handler),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)

EXCUSED = ("ior is not on PATH", "mdtest is not on PATH", "elbencho is not on PATH")
"""IOR, with mdtest, and elbencho are in no package registry; recorded outputs stand for them."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the gate."""
    parser.addoption(
        "--no-skips",
        action="store_true",
        help="a skipped test fails the run: a missing tool must not look like success",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hold unit tests to their tier; look for examples only in files that have one."""
    counts.collect_for(config.option.markexpr)
    config.pluginmanager.register(UnitGuard(), "unit-guard")
    config.pluginmanager.register(_Examples(), "examples")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over files of which ``-m`` chooses nothing: importing them takes time."""
    if collection_path.match("test_*.py") and not is_chosen(collection_path, config):
        return True
    return None


def pytest_sessionstart(session: pytest.Session) -> None:
    """Rewrite assertions together; look for no garbage while tests are collected."""
    rewrite_share(session.config)
    gc.disable()


class _Examples:
    """Skips files without examples, which the doctest plugin would import all the same."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        """Drop the collector of examples where there is none."""
        collectors = yield
        if file_path.suffix == ".py" and ">>> " not in file_path.read_text():
            return [node for node in collectors if not isinstance(node, DoctestModule)]
        return collectors


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every test its tier, before ``-m`` chooses among them, and long files the first turn."""
    give_tiers(items)
    slow_files_first(items)


def pytest_collection_finish() -> None:
    """Never look for garbage among what was collected: thousands of tests that stay to the end."""
    gc.freeze()
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Turn success into failure when a test that the gate must run was skipped."""
    passed = session.exitstatus == pytest.ExitCode.OK
    if passed and session.config.getoption("--no-skips") and _skipped(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter, config: pytest.Config) -> None:
    """Name what was skipped and should not have been."""
    if config.getoption("--no-skips"):
        for name, reason in _skipped(config):
            terminalreporter.write_line(f"must not be skipped here: {name}: {reason}", red=True)


def _skipped(config: pytest.Config) -> list[tuple[str, str]]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    reports = [] if reporter is None else reporter.stats.get("skipped", [])
    skipped = []
    for report in reports:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(excuse in reason for excuse in EXCUSED):
            skipped.append((report.nodeid, reason))
    return skipped
