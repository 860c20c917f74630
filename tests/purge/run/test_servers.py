"""What a run asks the servers of a Lustre, and that it deletes no more for not believing ``df``."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from tests.fake_lustre.state import FakeLustre, Fault
from tests.purge.plan.making import file_system
from tests.purge.run.world import FILE_BYTES, NOW_S, Surroundings, World, situation
from tests.support.codes import raises

from trimtab.base.error import ToolError, UsageError
from trimtab.base.site import Servers, Ssh
from trimtab.purge.fullness import Usage
from trimtab.purge.plan.deletion_plan import PlannedFileSystem
from trimtab.purge.run.run_account import RunResult
from trimtab.purge.run.run_guard import objections
from trimtab.purge.run.situation import Situation, StopReason
from trimtab.purge.run.surroundings import AskedServers, AskedSite, servers_of

PLANNED = file_system(name="scratch")
SERVERS = Servers(mds=("mds1", "mds2"), oss=("oss1", "oss2"), clients=("oss3",))
SITE = """\
[site]
name = "{name}"
driver = "lustre"
path = "{path}"
file_system = "{file_system}"
[servers]
mds = "mds[1-2]"
oss = "oss[1-4]"
"""


def count(fake: FakeLustre, objects: int, pair: str = "OST0003-osc-MDT0001") -> None:
    fake.parameters[f"osp.scratch-{pair}.destroys_in_flight"] = str(objects)


def asked(fake: FakeLustre, servers: Servers = SERVERS) -> AskedServers:
    return AskedServers("scratch", servers, fan_out=fake.fan_out)


def answering(fake: FakeLustre, server: str, text: bytes, other: bytes) -> AskedServers:
    """Return servers of which one answers something else than it would."""

    def fan_out(nodes, argv, **options):
        answers = fake.fan_out(nodes, argv, **options)
        stdout = answers[server].stdout.replace(text, other)
        return {**answers, server: replace(answers[server], stdout=stdout)}

    return AskedServers("scratch", SERVERS, fan_out=fan_out)


# A run -------------------------------------------------------------------------------------------


@dataclass
class LateSurroundings(Surroundings):
    """A Lustre whose use falls when objects are destroyed, some time after their files are gone.

    Attributes
    ----------
    rate_per_s
        Objects that are destroyed in a second.
    noise
        What others' deletions add to the count, look by look; their files are not the plan's.
    """

    fake: FakeLustre = field(default_factory=FakeLustre.pair)
    asked: AskedServers = field(default_factory=AskedServers)
    rate_per_s: float = 2.0
    noise: tuple[int, ...] = (0,)
    destroyed: int = 0
    looks: int = 0
    reported: list[int | None] = field(default_factory=list)

    def waiting(self) -> int:
        return sum(not path.exists() for path in self.paths) - self.destroyed

    def wait(self, seconds: float) -> None:
        super().wait(seconds)
        self.destroyed += min(self.waiting(), int(self.rate_per_s * seconds))

    def usage(self) -> Usage:
        there = super().usage()
        kept_bytes = self.waiting() * FILE_BYTES
        return Usage(there.used_bytes + kept_bytes, there.available_bytes - kept_bytes)

    def measure(self) -> tuple[Usage, int | None]:
        count(self.fake, self.waiting())
        count(self.fake, self.noise[self.looks % len(self.noise)], "OST0005-osc-MDT0000")
        self.looks += 1
        in_flight = self.asked.site().in_flight()
        self.reported.append(in_flight)
        self.measured = self.usage()
        return self.measured, in_flight

    def situation(self) -> Situation:
        self.asked.site().deleting()
        return super().situation()


def late_run(
    directory: Path,
    servers: Servers | None = SERVERS,
    kind: type[LateSurroundings] = LateSurroundings,
    **changes: Any,
) -> tuple[RunResult, LateSurroundings]:
    """Return what a run came to that has to free 50 of 100 files."""
    world, fake = World(directory, 100).make(), FakeLustre.pair()
    before = world.surroundings
    servers_asked = AskedServers() if servers is None else asked(fake, servers)
    given: dict[str, Any] = {"now": before.now, "fake": fake, "asked": servers_asked, **changes}
    world.surroundings = kind(before.paths, 0, before.capacity_bytes, **given)
    return world.run(), world.surroundings


def test_a_run_waits_until_its_objects_are_destroyed_and_deletes_no_file_too_many(tmp_path):
    result, world = late_run(tmp_path)
    assert (result.reason, result.files) == (StopReason.TARGET, 50)
    # 15 s at the least before the first measurement counts; then 50 objects at 2 a second.
    assert world.waits == [5.0] * 3 + [5.0] * 5
    assert world.reported == [0, 0, 0, 0, 50, 40, 30, 20, 10, 0]


def test_without_servers_it_believes_too_early_that_nothing_was_freed(tmp_path):
    result, world = late_run(tmp_path, servers=None)
    assert result.files > 50
    assert set(world.reported) == {None}


def test_others_who_delete_all_the_time_do_not_keep_it_waiting(tmp_path):
    result, world = late_run(tmp_path, noise=(9, 6, 8, 5))
    assert (result.reason, result.files) == (StopReason.TARGET, 50)
    # The noise never falls to 0; what of it was there at first is gone after some looks.
    assert (world.waiting(), world.reported[0], world.reported[-1]) == (0, 9, 0)
    assert sum(world.waits) < 120


@pytest.mark.system
def test_objects_that_nobody_destroys_end_it_and_are_named(tmp_path):
    result, world = late_run(tmp_path, rate_per_s=0.0)
    assert (result.reason, result.files) == (StopReason.NOT_SETTLED, 50)
    (text,) = world.asked.sentences()
    assert text.startswith("50 objects of deleted files wait on OST0003 (50)")


@dataclass
class Falling(LateSurroundings):
    """An MDS falls silent when files have been deleted."""

    silent_after_looks: int = 6

    def measure(self) -> tuple[Usage, int | None]:
        self.fake.server("mds2").dead = self.looks >= self.silent_after_looks
        return super().measure()


def test_an_mds_that_falls_silent_has_not_destroyed_what_it_had(tmp_path):
    result, world = late_run(tmp_path, kind=Falling)
    assert (result.reason, result.files) == (StopReason.NOT_SETTLED, 50)
    assert world.reported[4:8] == [50, 40, 40, 40]
    told = world.asked.sentences()
    assert any("No route to host" in text and "times)" in text for text in told)


# What is asked -----------------------------------------------------------------------------------


def test_what_was_never_known_is_not_known_and_said():
    fake = FakeLustre.pair()
    fake.server("mds2").dead = True
    servers = asked(fake)
    assert [servers.in_flight(), servers.in_flight()] == [None, None]
    (text,) = servers.sentences()
    assert text.startswith("whether objects of deleted files are still being destroyed")
    assert text.endswith("no MDS that answered serves MDT0001 (2 times)")
    assert "ssh: connect to host mds2" in text


def test_after_a_deletion_what_was_known_before_it_is_worth_nothing():
    fake = FakeLustre.pair()
    count(fake, 4)
    servers = asked(fake)
    site = servers.site()
    assert site.in_flight() == 4
    site.deleting()
    fake.server("mds2").dead = True
    assert site.in_flight() is None


def test_objects_on_an_ost_that_is_switched_off_are_told():
    fake = FakeLustre.pair()
    fake.target("OST0003").osp_active["MDT0001"] = False
    count(fake, 1200)
    servers = asked(fake)
    assert servers.in_flight() == 0
    (text,) = servers.sentences()
    assert text.startswith("1,200 objects of deleted files wait on OST0003 (1,200), which an MDT")


def test_the_clocks_of_servers_and_clients_are_judged():
    fake = FakeLustre.pair(now_s=NOW_S)
    result = asked(fake).clocks()
    assert [one.name for one in result] == ["mds1", "mds2", "oss1", "oss2", "oss3"]
    assert objections(situation(clocks=result)) == ()
    late = answering(fake, "oss3", b'"started":17', b'"started":16')
    (objection,) = objections(situation(clocks=late.clocks()))
    assert objection.guard == "clocks"
    assert "oss3 by" in objection.reason
    assert "oss2" not in objection.reason


def test_a_server_that_does_not_tell_its_time_is_told_and_the_others_count():
    fake = FakeLustre.pair()
    fake.faults = [Fault("garbage", command="ssh", host="oss2")]
    servers = asked(fake)
    assert [clock.name for clock in servers.clocks()] == ["mds1", "mds2", "oss1", "oss3"]
    (text,) = servers.sentences()
    assert text.startswith("the time on oss2 was not known: ")


def test_a_trash_can_holds_a_run_back():
    fake = FakeLustre.pair()
    assert asked(fake).keeps_deleted() is None
    more = b'"stdout":"mdd.scratch-MDT0000.trash_can_enable=1\\n'
    with_trash = answering(fake, "mds1", b'"stdout":"', more)
    (objection,) = objections(situation(keeps_deleted=with_trash.keeps_deleted()))
    assert objection.guard == "space"
    assert "mdd.scratch-MDT0000.trash_can_enable=1" in objection.reason


def test_without_ssh_nothing_is_known_and_nothing_raised():
    def none(*_arguments: object, **_options: object) -> dict:
        raise ToolError("ssh was not found")

    servers = AskedServers("scratch", SERVERS, fan_out=none)
    assert (servers.in_flight(), servers.clocks(), servers.keeps_deleted()) == (None, (), None)
    assert len(servers.sentences()) == 3
    assert all("ssh was not found" in text for text in servers.sentences())
    real = AskedServers("scratch", Servers(mds=("mds1",), ssh=Ssh(command=("/no/such/ssh",))))
    assert real.in_flight() is None
    assert "/no/such/ssh was not found" in real.sentences()[0]


# Whose servers -----------------------------------------------------------------------------------


@pytest.fixture
def sites(tmp_path, monkeypatch):
    """Return where site files are looked for, and nowhere else."""
    monkeypatch.setenv("TRIMTAB_SITES", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return tmp_path


def write(sites: Path, name: str, path: str = "/scratch", file_system: str = "scratch") -> None:
    text = SITE.format(name=name, path=path, file_system=file_system)
    (sites / f"{name}.toml").write_text(text)


def reached(planned: PlannedFileSystem = PLANNED, where: str | None = None) -> bool:
    """Return whether servers are asked."""
    fake = FakeLustre.pair()
    result = servers_of(planned, where, fan_out=fake.fan_out)
    if result.site().in_flight() is None:
        assert result.site() == AskedSite()
        return False
    assert result.sentences() == ()
    return True


def test_a_file_system_other_than_lustre_is_as_if_there_were_no_servers(sites):
    write(sites, "one")
    for where in (None, "one"):
        result = servers_of(file_system("ext4", "/dev/md0"), where)
        assert (result.site(), result.sentences()) == (AskedSite(), ())


def test_the_site_of_a_root_need_not_be_named(sites):
    assert not reached()
    assert "it has no site file" in servers_of(PLANNED, None).sentences()[0]
    write(sites, "one")
    write(sites, "home", "/home", "home")
    write(sites, "other", file_system="other")
    (sites / "broken.toml").write_text("[site\n")
    assert reached()
    assert reached(replace(PLANNED, root="/scratch/projects"))
    assert reached(replace(PLANNED, name=None, fsid=7, root="/scratch/a")) is False  # two fit
    assert not reached(replace(PLANNED, root="/scratchy"))
    write(sites, "two")
    assert not reached()


@pytest.mark.system
def test_a_site_that_is_named_has_to_be_the_right_one(sites):
    write(sites, "one")
    write(sites, "home", "/home", "home")
    write(sites, "other", file_system="other")
    assert reached(where="one")
    for elsewhere in ("home", "other"):
        with raises(UsageError, "site-elsewhere"):
            servers_of(PLANNED, elsewhere)
    with pytest.raises(UsageError):
        servers_of(PLANNED, "nowhere")


def test_a_site_without_servers_is_told(sites):
    write(sites, "one")
    text = (sites / "one.toml").read_text()
    (sites / "one.toml").write_text(text.partition("[servers]")[0])
    result = servers_of(PLANNED, None)
    (said,) = result.sentences()
    assert said.endswith("the site one names none")
    assert result.site() == AskedSite()
