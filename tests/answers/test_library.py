"""The library: frames whose columns are those that are promised, verdicts and charts."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest
from tests.store.values import NOON, a_run, an_event

import trimtab
from trimtab.base.error import UsageError
from trimtab.store.store import Store

pytestmark = pytest.mark.system  # the store is asked for by a child process
FRAMES = ("runs", "samples", "events", "readings")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with 60 hourly runs: from the 40th on they are a fifth slower."""
    file = tmp_path_factory.mktemp("library") / "t.db"
    with Store.open(file) as store:
        first = a_run(0)
        for hour in range(60):
            level = (2e9 if hour < 40 else 1.6e9) * (1 + 0.01 * (hour * 7 % 5 - 2))
            store.add_run(a_run(hour, values=(level,), parameters=first.parameters))
        store.add_event(an_event(40))
        store.ensure_site("empty")
    return file


def test_frames_have_the_columns_that_their_methods_name(file: Path) -> None:
    with trimtab.open("scratch", store=file) as site, trimtab.open("empty", store=file) as empty:
        for name in FRAMES:
            frame, nothing = getattr(site, name)(), getattr(empty, name)()
            named = re.search(r"Columns: ([^.]*)\.", getattr(trimtab.SiteRecord, name).__doc__)
            assert named is not None
            assert frame.columns == [word.strip() for word in named[1].split(",")]
            assert nothing.schema == frame.schema
            assert nothing.is_empty()


def test_samples_are_those_of_the_runs(file: Path) -> None:
    with trimtab.open("scratch", store=file) as site:
        late = site.samples(metric="write_bandwidth", since=NOON + timedelta(hours=50))
        assert late.height == 10
        assert late["unit"].unique().to_list() == ["B/s"]
        assert site.runs(since="2026-11-22T14:00:00Z", limit=3)["at"][0] == NOON + timedelta(
            hours=59
        )
        assert site.events()["at"].to_list() == [NOON + timedelta(hours=40)]


def test_it_judges_explains_and_draws(file: Path) -> None:
    with trimtab.open("scratch", store=file) as site:
        judged = site.judge(metric="write_bandwidth", since=NOON)
        (series,) = judged.judgement.series
        assert judged.frames[series.key].height == 60
        drawn = trimtab.chart(series).to_dict()
        assert drawn["layer"]
        moment = site.explain(NOON + timedelta(hours=45))
        assert moment.site == "scratch"


def test_csv_and_pandas(file: Path, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    with trimtab.open("scratch", store=file) as site:
        samples = site.samples()
    samples.select("at", "value").write_csv(tmp_path / "a.csv")
    judged = trimtab.judge_csv(tmp_path / "a.csv", value="value")
    assert judged.judgement.series[0].overall is not None
    table = trimtab.to_pandas(samples)
    assert isinstance(table, pandas.DataFrame)
    assert str(table["at"].dt.tz) == "UTC"
    assert table["value"].to_list() == samples["value"].to_list()
    assert pl.Series(table["run"].to_list()).equals(samples["run"])


def test_a_site_that_is_not_there(file: Path) -> None:
    with pytest.raises(UsageError):
        trimtab.open("nowhere", store=file)


def test_every_export_is_there_and_has_a_docstring() -> None:
    for name in trimtab.__all__:
        assert name == "__version__" or getattr(trimtab, name).__doc__, name
    with pytest.raises(AttributeError):
        _ = trimtab.nothing
