"""Assertions are rewritten once for all processes that share the tests, not by each of them.

pytest rewrites the assertions of a test file when it is imported, and keeps the result beside it.
Processes that start together on a fresh checkout would each rewrite all files, at the same time.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from _pytest.assertion import rewrite
from _pytest.assertion.rewrite import PYC_TAIL, assertstate_key
from tests.support.tiers import is_chosen


def rewrite_share(config: pytest.Config) -> None:
    """Rewrite every nth test file, as one of n processes; the others do the rest meanwhile.

    A file that is wanted before the process whose turn it is has rewritten it is rewritten twice:
    that costs time and nothing else.
    """
    worker = getattr(config, "workerinput", None)
    if worker is None or sys.dont_write_bytecode:
        return
    state = config.stash[assertstate_key]
    number, count = int(worker["workerid"].removeprefix("gw")), worker["workercount"]
    places = [Path(argument.partition("::")[0]) for argument in config.args]
    files = sorted(
        file
        for place in places
        if place.is_dir()
        for file in place.resolve().rglob("test_*.py")
        if is_chosen(file, config)
    )
    for file in files[number::count]:
        cache = rewrite.get_cache_dir(file)
        compiled = cache / f"{file.stem}{PYC_TAIL}"
        if rewrite._read_pyc(file, compiled) is None and rewrite.try_makedirs(cache):
            source_hash, code = rewrite._rewrite_test(file, config)
            rewrite._write_pyc(state, code, source_hash, compiled)
