"""A site held against reality: where its store and its raw outputs are."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.base.notification import MetricsExport
from trimtab.base.site import Checked, Site, SiteProbe, SiteStore
from trimtab.probe.site_validation import validate
from trimtab.reach.local.local_driver import LocalDriver

pytestmark = pytest.mark.system


def store_of(path: Path, store: SiteStore) -> Checked:
    site = Site("here", "local", str(path), store=store)
    found = validate(site, open_with=lambda one: LocalDriver(one.path))
    (checked,) = [one for one in found if one.what.startswith("store ")]
    return checked


@pytest.mark.parametrize(
    ("url", "raw", "told"),
    [
        ("{0}/t.db", None, "{0}/t.db; raw outputs in {0}/raw"),
        ("{0}/t.db", "{0}/else", "{0}/t.db; raw outputs in {0}/else"),
        ("postgresql://db/trimtab", "{0}/else", "raw outputs in {0}/else"),
    ],
)
def test_it_is_said_where_raw_outputs_go(
    tmp_path: Path, url: str, raw: str | None, told: str
) -> None:
    checked = store_of(tmp_path, SiteStore(url.format(tmp_path), raw and raw.format(tmp_path)))
    assert checked.ok is True
    assert checked.detail.endswith(told.format(tmp_path))


def test_with_postgresql_they_go_to_a_directory_of_this_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SiteStore("postgresql://me:secret@db/trimtab")
    monkeypatch.setattr("os.geteuid", lambda: 0)
    checked = store_of(tmp_path, store)
    assert checked.detail.endswith("; raw outputs in /var/lib/trimtab/raw")
    assert "secret" not in checked.detail
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert store_of(tmp_path, store).detail.endswith(f"; raw outputs in {tmp_path}/trimtab/raw")


def test_a_probe_whose_directory_is_not_there_is_found_before_its_slot(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    probes = (SiteProbe("a", directory="here"), SiteProbe("b", directory="gone"))
    site = Site("here", "local", str(tmp_path), probes=probes)
    found = validate(site, open_with=lambda one: LocalDriver(one.path))
    (checked,) = [one for one in found if one.what == "probe b"]
    assert checked.ok is False
    assert checked.detail == f"{tmp_path}/gone is not a directory with known free space"
    assert not any("not a directory" in str(one.detail) for one in found if one.what == "probe a")


@pytest.mark.parametrize(
    ("textfile", "holds", "told"),
    [
        ("", False, "is a directory: name a file in it"),
        ("gone/trimtab.prom", False, "gone is not a directory"),
        ("trimtab.prom", True, "can be written in"),
    ],
)
def test_a_file_of_metrics_that_no_slot_could_write_is_found(
    tmp_path: Path, textfile: str, holds: bool, told: str
) -> None:
    site = Site(
        "here", "local", str(tmp_path), metrics=MetricsExport(None, f"{tmp_path}/{textfile}")
    )
    found = validate(site, open_with=lambda one: LocalDriver(one.path))
    (checked,) = [one for one in found if one.what.startswith("metrics ")]
    assert checked.ok is holds
    assert told in checked.detail
