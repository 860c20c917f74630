"""Every series of a site has a name of its own, and incidents are told by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.small_site import hour

from trimtab.answers.page import status_document
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.text import key_label, levels_text
from trimtab.explain.headline import headline
from trimtab.probe.incident_search import incidents_of, keep_incidents
from trimtab.probe.site_judgement import judge_site
from trimtab.probe.site_series import distinct_settings
from trimtab.probe.site_standing import standing_of, whole_standing
from trimtab.probe.site_status import status_of
from trimtab.show.screen_document import print_document
from trimtab.site.place import Place
from trimtab.store.kept import Series
from trimtab.store.store import Store

PLACE = Place("scratch", None)


def series(comparability: str, kind: str = "ior") -> Series:
    return Series("scratch", "scale", kind, comparability, 10, hour(0), hour(9))


def named(*entries: tuple[str, str, Mapping[str, object]]) -> list[str]:
    """Return what distinguishes series of one probe: comparability, benchmark, what was asked."""
    stored = [series(comparability, kind) for comparability, kind, _ in entries]
    settings = distinct_settings(stored, [requested for *_, requested in entries])
    return [levels_text(settings[entry.key]) for entry in stored]


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(0, 5), st.integers(2**30, 2**30 + 3), st.just("posix")
)
ASKED = st.dictionaries(
    st.sampled_from(["tasks", "transfer_size_bytes", "benchmark", "series"]), VALUES
)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40).map(lambda number: f"abcdef{number:026x}"),
            st.sampled_from(["ior", "fio", "mdtest"]),
            ASKED,
        ),
        min_size=2,
        max_size=8,
        unique_by=lambda entry: entry[0],
    )
)
def test_no_two_series_of_a_probe_have_one_name(entries: list[Any]) -> None:
    names = named(*entries)
    assert len(set(names)) == len(names)


def test_series_are_named_by_what_differs() -> None:
    few, many = {"tasks": 512, "nodes": 4}, {"tasks": 4096, "nodes": 4}
    assert named(("a" * 32, "ior", few), ("b" * 32, "ior", many)) == ["tasks 512", "tasks 4,096"]
    assert named(("a" * 32, "ior", few), ("b" * 32, "fio", few)) == [
        "benchmark ior", "benchmark fio",
    ]  # fmt: skip
    others = named(("a" * 32, "ior", few), ("b" * 32, "ior", many), ("c" * 32, "fio", many))
    assert others == ["benchmark ior, tasks 512", "benchmark ior, tasks 4,096", "benchmark fio"]


def test_series_that_would_read_alike_are_named_by_their_key() -> None:
    sizes = {"block_size_bytes": 2**40}, {"block_size_bytes": 2**40 + 1}
    alike = named(("a" * 32, "ior", sizes[0]), ("ab" * 16, "ior", sizes[1]))
    assert alike == [
        "block_size 1.00 TiB, series aaaaaa", "block_size 1.00 TiB, series ababab",
    ]  # fmt: skip


def run(number: int, tasks: int, value: float) -> Run:
    at = hour(2 * number + (tasks > 512))
    return Run(
        id=f"{tasks}-{number}", site="scratch", probe="scale", kind="ior", status=RunStatus.OK,
        at=at, until=at + timedelta(minutes=4),
        parameters={"spec": {"name": "scale", "tasks": tasks}},
        samples=(Sample("write_bandwidth", value, 0),),
    )  # fmt: skip


def two_sizes() -> Iterator[Run]:
    """Yield 40 days of a steady series that loses 15 % and of a noisy one that loses 90 %."""
    rng = np.random.default_rng(4)
    for number in range(40 * 12):
        since = number >= 30 * 12
        steady, noisy = 0.01 * rng.standard_normal(), float(rng.lognormal(0, 0.6))
        yield run(number, 512, 2e9 * (0.85 if since else 1.0) * (1 + steady))
        yield run(number, 4096, 9e9 * (0.1 if since else 1.0) * noisy)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("names") / "t.db") as opened:
        opened.ensure_site("scratch", driver="lustre", identity="scratch", path="/scratch")
        runs = [*two_sizes()]
        opened.add_runs(runs)
        assert runs[-1].at is not None
        keep_incidents(opened, incidents_of(opened, PLACE, now=runs[-1].at))
        yield opened


FEW, MANY = "scale write bandwidth (tasks 512)", "scale write bandwidth (tasks 4,096)"


def test_incidents_are_told_by_the_names_of_their_series(store: Store) -> None:
    (kept,) = store.incidents("scratch")
    for text in ("(tasks 512) 15 % lower", "(tasks 4,096) 90 % lower"):
        assert text in kept.summary
    judgement = judge_site(store, PLACE).judgement
    keys = {key_label(entry.key): entry.key for entry in judgement.series}
    assert set(keys) == {FEW, MANY}
    (known,) = standing_of(store, PLACE).incidents
    assert (known.name, known.series) == (FEW, keys[FEW].id)
    assert kept.document["series"] == keys[FEW].id


def test_the_first_line_tells_the_losses_of_both(store: Store) -> None:
    judgement = judge_site(store, PLACE).judgement
    text = headline(standing_of(store, PLACE, judgement=judgement))
    assert text.startswith(f"{MANY} -90 % since 2026-02-04; next: ")
    assert f"Also: {FEW} -15 % since 2026-02-04" in text
    assert headline(whole_standing(store, PLACE)).startswith(f"{FEW} -15 % since 2026-02-04")


def test_the_status_names_them(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(store, "scratch")
    assert {levels_text(entry.asked) for entry in status.series} == {"tasks 512", "tasks 4,096"}
    print_document(status_document(status, (whole_standing(store, PLACE),)))
    printed = capsys.readouterr().out
    assert "tasks 512" in printed
    assert "tasks 4,096" in printed
