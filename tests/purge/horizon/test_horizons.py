"""What is asked of an index, its site and its journals before a horizon is found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.support.codes import raises
from tests.support.manifests import manifest
from tests.support.memory_driver import MemoryDriver, MemoryTarget

from trimtab.base.error import DataError, RefusedError, ToolError, UnreadableError, UsageError
from trimtab.base.site import Servers
from trimtab.base.snapshot import Snapshot
from trimtab.purge import site_facts as site_module
from trimtab.purge.core_call import core_errors, inodes_in_use, usage_now
from trimtab.purge.fullness import Usage
from trimtab.purge.horizon.horizon_question import HorizonQuestion, _growth, _policy, _require_pools
from trimtab.purge.purge_policy import Policy
from trimtab.purge.run.run_journal import freed_before
from trimtab.purge.site_facts import SiteSays, ask_site, ost_usages, thinned
from trimtab.reach.lustre.lustre_driver import LustreDriver
from trimtab.store.location import DEFAULT, PurgePlace, prepared, purge_place

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
MANIFEST = manifest()


def question(**arguments) -> HorizonQuestion:
    return HorizonQuestion(Path("index"), **arguments)


def test_a_target_without_a_policy_has_the_usual_rules():
    policy = _policy(question(target=0.7), MANIFEST)
    assert policy == Policy("asked", "/scratch", target=0.7)
    with raises(UsageError, "target-missing"):
        _policy(question(), MANIFEST)


def test_a_target_beside_a_policy_takes_the_place_of_its_own():
    given = Policy("p", "/scratch", target=0.7, minimum_size_bytes=5)
    policy = _policy(question(policy=given, target_ost=0.75, ahead_s=60), MANIFEST)
    assert (policy.target, policy.target_ost) == (None, 0.75)
    assert (policy.minimum_size_bytes, policy.horizon_ahead_s) == (5, 60)
    assert _policy(question(policy=given), MANIFEST) == given
    of_pools = _policy(question(policy=given, target_pool=(("flash", 0.75),)), MANIFEST)
    assert (of_pools.target, of_pools.target_ost) == (None, None)
    assert of_pools.target_pool == (("flash", 0.75),)
    back = _policy(question(policy=of_pools, target=0.6), MANIFEST)
    assert (back.target, back.target_pool) == (0.6, ())


def test_pools_are_looked_at_before_an_index_is_read():
    policy = Policy("p", "/s", target_pool=(("flash", 0.75),))
    with raises(UsageError, "pools-unknown"):
        _require_pools(policy, SiteSays(why_no_pools="lfs is gone"))
    osts = {0: Usage(1, 1)}
    with raises(UsageError, "pool-unknown"):
        _require_pools(policy, SiteSays(osts=osts, pools={"disk": (0,)}))
    _require_pools(policy, SiteSays(osts=osts, pools={"flash": (0,)}))
    # Whoever has no target of pools need not know them; without a site the answer says what lacks.
    _require_pools(Policy("p", "/s", target=0.7), SiteSays(why_no_pools="lfs is gone"))
    _require_pools(policy, SiteSays())


def test_growth_needs_a_site():
    assert _growth(question(), Policy("p", "/s"), SiteSays(), NOW) == (None, ())
    with raises(UsageError, "site-missing"):
        _growth(question(ahead_s=60), Policy("p", "/s"), SiteSays(), NOW)


@pytest.mark.system
def test_a_record_that_cannot_be_read_is_told_and_no_forecast(tmp_path):
    asked = question(site="scratch", store_url=str(tmp_path / "nowhere.db"))
    growth, notes = _growth(asked, Policy("p", "/s"), SiteSays("scratch"), NOW)
    assert growth is None
    assert "past growth is unknown" in notes[0]


def test_nothing_was_purged_where_there_are_no_journals(tmp_path):
    assert freed_before(PurgePlace(tmp_path).journals) == ()


def test_a_journal_that_is_damaged_is_no_silence(tmp_path):
    place = prepared(PurgePlace(tmp_path))
    (place.journals / "x.journal.jsonl").write_text("{}\n{}\n")
    with pytest.raises(UnreadableError):
        freed_before(place.journals)


def test_snapshots_are_thinned_to_the_last_of_each_quarter_of_a_day():
    times = [NOW + timedelta(minutes=minutes) for minutes in (0, 60, 170, 190, 800)]
    assert thinned(reversed(times)) == [times[2], times[3], times[4]]


def test_the_place_is_given_or_the_environments_or_the_systems(tmp_path, monkeypatch):
    monkeypatch.delenv("TRIMTAB_PURGE", raising=False)
    assert purge_place().directory == DEFAULT
    monkeypatch.setenv("TRIMTAB_PURGE", "/p")
    assert purge_place().directory == Path("/p")
    assert purge_place("/q").directory == Path("/q")
    assert purge_place("relative").directory.is_absolute()
    made = prepared(PurgePlace(tmp_path / "place"))
    assert made.journals.stat().st_mode & 0o777 == 0o700
    (tmp_path / "file").touch()
    with pytest.raises(UnreadableError):
        prepared(PurgePlace(tmp_path / "file" / "place"))


@pytest.mark.system
def test_use_and_inodes_of_a_real_directory(tmp_path):
    assert 0 < usage_now(str(tmp_path)).fullness < 1
    inodes, whole = inodes_in_use(str(tmp_path))
    assert inodes >= 0
    assert not whole
    assert inodes_in_use(str(tmp_path / "nowhere")) == (0, False)


def _site_file(directory: Path, path: Path, driver: str = "local", more: str = "") -> str:
    file = directory / "scratch.toml"
    file.write_text(f'[site]\nname = "scratch"\ndriver = "{driver}"\npath = "{path}"\n{more}')
    return str(file)


@pytest.mark.system
def test_a_site_of_another_file_system_is_refused(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one-more").mkdir()
    where = _site_file(tmp_path, tmp_path / "one")
    said = ask_site(where, str(tmp_path / "one" / "below"), now=NOW)
    assert said.site == "scratch"
    assert not said.reads.counts
    with raises(UsageError, "site-elsewhere"):
        ask_site(where, str(tmp_path / "one-more"), now=NOW)


def test_how_full_each_ost_is():
    driver = MemoryDriver(MemoryTarget("OST0001"), MemoryTarget("OST00ff"))
    assert set(ost_usages(driver.snapshot(NOW)) or ()) == {1, 255}
    assert ost_usages(Snapshot(NOW, "memory", True, ())) is None


def _lustre(monkeypatch, tmp_path, **arguments) -> str:
    """Return a site of a Lustre of the tests' own, beneath a directory."""
    fake = FakeLustre.small(mount=str(tmp_path), **arguments)
    driver = LustreDriver(
        str(tmp_path), fake.file_system, Servers(), execute=fake.execute, fan_out=fake.fan_out
    )
    monkeypatch.setattr(site_module, "open_driver", lambda site: driver)
    return _site_file(tmp_path, tmp_path, "lustre", 'file_system = "scratch"\n')


def test_a_site_of_a_lustre_says_which_osts_are_in_which_pool(monkeypatch, tmp_path):
    pools = {"flash": ["OST0001", "OST0000"], "disk": ["OST0003"]}
    said = ask_site(_lustre(monkeypatch, tmp_path, pools=pools), str(tmp_path), now=NOW)
    assert set(said.osts or ()) == {0, 1, 2, 3}
    assert said.pools == {"flash": (0, 1), "disk": (3,)}
    assert said.why_no_pools is None


def test_pools_that_are_not_known_do_not_keep_a_site_from_answering(monkeypatch, tmp_path):
    fault = Fault("garbage", command="lfs", after_calls=0, times=1)
    where = _lustre(monkeypatch, tmp_path, pools={"flash": ["OST0000"]}, faults=[fault])
    said = ask_site(where, str(tmp_path), now=NOW)
    assert said.pools is None
    assert "cannot be read" in (said.why_no_pools or "")
    assert said.osts is not None


@pytest.mark.system
def test_a_local_site_has_no_pools(tmp_path):
    said = ask_site(_site_file(tmp_path, tmp_path), str(tmp_path), now=NOW)
    assert (said.pools, said.why_no_pools) == (None, None)


@pytest.mark.parametrize(
    ("raised", "becomes"),
    [
        (OSError(28, "No space left on device", "/a\x1b"), ToolError),
        (ValueError("threads"), UsageError),
        (RuntimeError("damaged"), DataError),
        (RefusedError("as it is"), RefusedError),
    ],
)
def test_errors_of_the_core_are_trimtabs(raised, becomes):
    with pytest.raises(becomes) as caught, core_errors("the scan"):
        raise raised
    assert "\x1b" not in caught.value.message
