"""From what is kept of a site to its ladder: which runs are taken, and of how much hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.support.command import Ended, trimtab
from tests.support.narrow import present

from trimtab.base.data_sheet import with_data_sheet
from trimtab.base.event import Event, EventKind, new_identifier
from trimtab.base.run import Run, RunStatus, Sample
from trimtab.base.site import Servers, Site
from trimtab.base.site_hardware import Hardware, Parity, parse_figure
from trimtab.base.snapshot import Reading, Snapshot, Target, TargetSnapshot
from trimtab.judge.efficiency_ladder import (
    Coverage,
    IntervalBasis,
    LadderStep,
    LimitKind,
    Rung,
    Track,
)
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.probe.ladder import ladder_of, of_store
from trimtab.reach.local_driver import LocalDriver
from trimtab.store.store import Store

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
HARDWARE = Hardware(
    drive_write=parse_figure("3.20 GB/s"),
    drive_read=parse_figure("3.50 GB/s"),
    drives=24,
    osts=2,
    parity=Parity(8, 2),
    network=parse_figure("50 GB/s"),
)
SITE = Site(
    "scratch", "lustre", "/scratch", servers=Servers(oss=("oss1", "oss2")), hardware=HARDWARE
)
GB = 1e9
ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
EXAMPLES = ROOT / "docs" / "examples"


def keep(
    store: Store,
    kind: str,
    values: Sequence[float] = (),
    *,
    at: datetime | None = NOW,
    layer: str | None = "unset",
    metric: str = "read_bandwidth",
    status: RunStatus = RunStatus.OK,
    targets: Sequence[str | None] = (None,),
    told: dict[str, object] | None = None,
    probe: str = "imported",
    samples: tuple[Sample, ...] = (),
    **asked: Any,
) -> Run:
    """Keep a run whose repetitions are so many GB/s (or operations), on each target."""
    parameters: dict[str, object] = {"spec": {"tasks": 64, **asked}, "told": told or {}}
    if layer != "unset":
        parameters["layer"] = layer
    made = samples or tuple(
        Sample(metric, value * GB, repetition, target)
        for target in targets
        for repetition, value in enumerate(values)
    )
    why, name = None if at else "the output prints no time", new_identifier(at or NOW)
    run = Run(
        name, "scratch", probe, kind, status, at, at_reason=why, parameters=parameters, samples=made
    )
    store.add_run(run)
    return run


def rungs(store: Store, site: Site = SITE) -> dict[tuple[str, str], Rung]:
    return {(one.layer, one.metric): one for one in of_store(store, site).rungs}


def only(store: Store, site: Site = SITE) -> Rung:
    (rung,) = rungs(store, site).values()
    return rung


def only_track(store: Store, site: Site = SITE) -> Track:
    (track,) = build_ladder(of_store(store, site)).tracks
    return track


def step_of(track: Track, layer: str) -> LadderStep:
    return next(step for step in track.steps if step.rung.layer == layer)


def test_each_kind_finds_its_layer(store: Store) -> None:
    keep(store, "fio", [84.0], layer="drive", told={"drives": 24})
    keep(store, "fio", [80.0], layer="raid", told={"targets": 2})
    keep(store, "obdfilter-survey", [80.0], told={"targets": 2})
    keep(store, "lnet-selftest", [48.0], told={"servers": 1})
    keep(store, "builtin", [78.0], told={"targets": 2})
    keep(store, "wrf", [10.0])
    keep(store, "mdtest", [1.0], layer=None)
    found = rungs(store)
    assert {layer for layer, _ in found} == {
        "drive", "raid", "ost", "network", "client", "application",
    }  # fmt: skip
    assert found["network", "read_bandwidth"].coverage.servers == 1
    assert found["drive", "read_bandwidth"].coverage.drives == 24


def test_the_ladder_of_a_site(store: Store) -> None:
    keep(store, "fio", [84.0, 84.1, 83.9], layer="drive", told={"drives": 24})
    keep(store, "obdfilter-survey", [80.0, 80.1, 80.2], told={"targets": 2})
    keep(store, "lnet-selftest", [20.0, 20.1, 20.2], told={"servers": 1})
    keep(store, "ior", [39.5, 39.6, 39.7], told={"targets": 2}, nodes=4)
    ladder = build_ladder(of_store(store, SITE))
    (track,) = ladder.tracks
    assert track.limit.kind is LimitKind.NETWORK
    assert "servers" in ladder.scale  # counted from [servers]
    client = step_of(track, "client")
    assert client.rung.nodes == 4
    assert {one.of: round(one.value or 0, 3) for one in client.beneath} == {
        "ost": round(39.6 / 80.1, 3),
        "network": round(39.6 / 40.2, 3),
    }


def test_runs_of_a_week_tell_more_than_repetitions(store: Store) -> None:
    runs = [
        keep(store, "ior", [70.0 + day, 80.0 + day], at=NOW - timedelta(days=day), tasks=64)
        for day in range(10)
    ]
    found = only(store)
    assert found.rate.basis is IntervalBasis.RUNS
    assert found.rate.values == tuple((75.0 + day) * GB for day in (7, 6, 5, 4, 3, 2, 1, 0))
    assert set(found.runs) == {run.id for run in runs[:8]}


def test_few_runs_leave_the_repetitions_of_the_newest(store: Store) -> None:
    keep(store, "ior", [10.0, 11.0], at=NOW - timedelta(days=1))
    newest = keep(store, "ior", [70.0, 80.0])
    found = only(store)
    assert found.rate.basis is IntervalBasis.REPETITIONS
    assert (found.rate.values, found.runs) == ((70.0 * GB, 80.0 * GB), (newest.id,))


def test_the_fastest_of_the_newest_series_is_taken_and_the_other_named(store: Store) -> None:
    keep(store, "builtin", [5.0], tasks=4, probe="hourly")
    keep(store, "ior", [70.0], at=NOW - timedelta(days=20), tasks=2048, probe="weekly")
    keep(store, "ior", [90.0], at=NOW - timedelta(days=60), tasks=4096, probe="old")
    given = of_store(store, SITE)
    (rung,) = given.rungs
    assert rung.rate.value == 70.0 * GB
    assert present(rung.source).startswith("weekly")
    assert given.notes == (
        "client, read bandwidth: 3 series are stored; the fastest of the last month is used, "
        "--run selects another",
    )


def test_what_failed_or_was_not_believed_is_no_rung(store: Store) -> None:
    keep(store, "ior", [70.0], status=RunStatus.FAILED)
    keep(store, "ior", [70.0], status=RunStatus.INVALID_WORKLOAD, tasks=1)
    keep(store, "ior", [0.0], tasks=2)
    keep(store, "ior", samples=(Sample("read_bandwidth", 1.0, 0, reason="cached"),))
    assert rungs(store) == {}


def test_unfinished_runs_are_left_out_and_said_to_be(store: Store) -> None:
    for hour in range(4):
        keep(store, "ior", [70.0 + hour], at=NOW - timedelta(hours=hour + 1))
    keep(store, "ior", [], at=NOW, status=RunStatus.UNFINISHED)
    assert only(store).rate.value == pytest.approx(71.5 * GB)
    keep(store, "ior", [70.0], at=NOW + timedelta(hours=1))
    assert only(store).notes[-1] == "1 run that did not finish is left out"


def test_small_transfers_are_no_bandwidth_and_large_ones_no_iops(store: Store) -> None:
    for size, bandwidth, operations in ((4096, 1.0, 1e-4), (2**20, 50.0, 1e-5)):
        keep(store, "fio", [bandwidth], transfer_size_bytes=size)
        keep(store, "fio", [operations], metric="read_iops", transfer_size_bytes=size, tasks=2)
    found = rungs(store)
    assert found["client", "read_bandwidth"].rate.value == 50 * GB
    assert found["client", "read_iops"].rate.value == pytest.approx(1e5)


def test_osts_one_by_one_are_summed_and_doubted(store: Store) -> None:
    keep(store, "obdfilter-survey", [40.0, 41.0, 42.0], targets=["OST0000", "OST0001"])
    keep(store, "lnet-selftest", [48.0], told={"servers": 1})
    keep(store, "ior", [60.0, 60.1], told={"targets": 2})
    found = rungs(store)["ost", "read_bandwidth"]
    assert (found.rate.value, found.coverage.osts) == (82 * GB, 2)
    limit = only_track(store).limit
    assert limit.kind is LimitKind.CANNOT_TELL
    assert "together and one by one" in limit.reason


def test_a_rate_of_zero_is_no_rate_of_a_target(store: Store) -> None:
    """A repetition that did not finish counts as 0 in judging; it is not what an OST delivers."""
    rates = {"OST0000": (0.0, 40.0, 42.0), "OST0001": (38.0, 38.0, 38.0), "OST0002": (0.0,) * 3}
    samples = tuple(
        Sample("read_bandwidth", rate * GB, repetition, target)
        for target, values in rates.items()
        for repetition, rate in enumerate(values)
    )
    keep(store, "obdfilter-survey", status=RunStatus.PARTIAL, layer="ost", samples=samples)
    found = rungs(store)["ost", "read_bandwidth"]
    assert (found.rate.value, found.coverage.osts) == (79 * GB, 2)
    assert found.notes == ("sum of 2 OSTs, each measured separately",)


def test_osts_all_at_once_are_not_one_by_one(store: Store) -> None:
    """As a survey with ``--together`` measures them: they share what the clients' run shares."""
    keep(store, "obdfilter-survey", [40.0], targets=["OST0000", "OST0001"], together=True)
    keep(store, "ior", [60.0, 60.1], told={"targets": 2})
    found = rungs(store)["ost", "read_bandwidth"]
    assert found.notes == ("sum of 2 OSTs, all measured at the same time",)
    assert "one by one" not in only_track(store).limit.reason


def test_drives_one_by_one_are_drives_and_no_osts(store: Store) -> None:
    keep(store, "fio", [3.4, 3.5, 3.3], layer="drive", targets=["nvme0n1", "nvme1n1"])
    found = only(store)
    assert found.coverage == Coverage(drives=2)
    assert found.notes == ("sum of 2 drives, each measured separately",)


def test_surveys_of_several_days_tell_how_they_scatter(store: Store) -> None:
    for day in range(4):
        names = ["OST0000", "OST0001"][: 1 if day == 2 else 2]  # one OST was away
        at = NOW - timedelta(days=day)
        keep(store, "obdfilter-survey", [40.0 + day], at=at, targets=names)
    found = only(store)
    assert found.rate.values == (86 * GB, 82 * GB, 80 * GB)
    assert (found.rate.basis, len(found.runs)) == (IntervalBasis.RUNS, 3)


def test_runs_without_a_time(store: Store) -> None:
    keep(store, "ior", [70.0], at=None)
    assert (only(store).rate.value, only(store).at) == (70.0 * GB, None)
    for rate in (20.0, 48.0, 30.0):  # each is looked at
        keep(store, "lnet-selftest", [rate], at=None, told={"servers": 1})
    assert rungs(store)["network", "read_bandwidth"].rate.value == 48.0 * GB


def test_small_messages_are_no_network_bandwidth(store: Store) -> None:
    for bandwidth, messages in ((8.72e6, 5930.0), (667e6, 2550.0)):
        samples = (Sample("read_bandwidth", bandwidth, 0), Sample("rpc_rate", messages, 0))
        told: dict[str, object] = {"servers": 1}
        keep(store, "lnet-selftest", at=None, layer="network", told=told, samples=samples)
    assert only(store).rate.value == 667e6


def test_the_only_server_is_the_one_that_a_client_measured(store: Store) -> None:
    keep(store, "lnet-selftest", [48.0], told={"clients": 1})
    site = Site("scratch", "lustre", "/scratch", servers=Servers(oss=("oss1",)))
    assert only(store, site).coverage.servers == 1
    assert only(store).coverage.servers is None


def test_as_many_files_as_osts_reach_all_of_them(store: Store) -> None:
    keep(store, "ior", [70.0], tasks=64)
    found = only(store)
    assert (found.coverage.osts, found.coverage.drives) == (2, 24)
    assert "64 objects over 2 OSTs" in found.notes[0]


@pytest.mark.parametrize(
    ("asked", "osts"),
    [
        ({"tasks": 1}, None),
        ({"tasks": 64, "file_per_process": False}, None),
        ({"tasks": 1, "stripe_count": 2}, 2),
        ({"tasks": 1, "stripe_count": -1}, 2),
        ({"tasks": 2, "target_pinning": True}, 2),
        ({}, 2),
        ({"tasks": "many"}, None),
    ],
)
def test_on_how_many_osts_files_lie(store: Store, asked: dict[str, Any], osts: int | None) -> None:
    keep(store, "ior", [70.0], **asked)
    found = only(store)
    assert found.coverage.osts == osts
    if osts is None and isinstance(asked.get("tasks"), int):
        assert "1 object over 2 OSTs: on how many they were is unknown" in found.notes


HERE = Site("scratch", "local", "/scratch", hardware=replace(HARDWARE, drives=8, osts=None))


def test_a_run_on_one_drive_of_eight_is_not_of_all_eight(store: Store) -> None:
    keep(store, "fio", [1.65, 1.66, 1.64], layer="drive", told={"drives": 1})
    assert only(store, HERE).coverage == Coverage(drives=1)
    track = only_track(store, HERE)
    assert step_of(track, "drive").beneath[0].value == pytest.approx(1.65 / 3.5)
    assert (track.limit.kind, track.limit.layer) == (LimitKind.LAYER, "drive")


@pytest.mark.parametrize("layer", ["drive", "raid", "ost"])
def test_what_tells_no_counts_is_not_taken_for_all_drives(store: Store, layer: str) -> None:
    keep(store, "fio", [1.65], layer=layer)
    assert only(store, HERE).coverage == Coverage()


def test_the_only_drive_is_the_one_that_was_measured(store: Store) -> None:
    keep(store, "fio", [1.65], layer="drive")
    site = replace(HERE, hardware=replace(HARDWARE, drives=1, osts=None))
    assert only(store, site).coverage == Coverage(drives=1)


@pytest.mark.parametrize(
    ("told", "osts", "coverage"),
    [
        ({}, None, Coverage(8, 1, 1)),
        ({}, 1, Coverage(8, 1, 1)),
        ({}, 2, Coverage(servers=1)),
        ({"drives": 4}, None, Coverage(drives=4)),
        ({"targets": 2}, 2, Coverage(osts=2)),
    ],
)
def test_a_client_on_a_file_system_of_one_host(
    store: Store, told: dict[str, object], osts: int | None, coverage: Coverage
) -> None:
    keep(store, "ior", [10.0], told=told)
    found = only(store, replace(HERE, hardware=replace(HARDWARE, drives=8, osts=osts)))
    assert (found.coverage, bool(found.notes)) == (coverage, osts == 2 and not told)


def test_an_application_is_held_against_what_the_file_system_gives(store: Store) -> None:
    keep(store, "ior", [40.0, 40.1], told={"targets": 2})
    keep(store, "darshan", [10.0, 10.1], layer="application", tasks=1)
    application = step_of(only_track(store), "application")
    assert application.beneath[0].value == pytest.approx(10.05 / 40.05)


def test_a_run_that_a_person_wants(store: Store) -> None:
    slow = keep(store, "builtin", [5.0], tasks=4, probe="hourly")
    keep(store, "ior", [70.0], tasks=2048, probe="weekly")
    (rung,) = of_store(store, SITE, [slow.id]).rungs
    assert (rung.rate.value, rung.runs) == (5.0 * GB, (slow.id,))


def test_what_covers_nobody_knows_what_comes_last(store: Store) -> None:
    keep(store, "lnet-selftest", [90.0], told={"clients": 1}, probe="clients")
    keep(store, "lnet-selftest", [48.0], told={"servers": 1}, probe="servers")
    assert only(store).rate.value == 48.0 * GB


def snapshot(at: datetime, used: int) -> Snapshot:
    readings = (Reading("used_bytes", used), Reading("available_bytes", 100 - used))
    osts = [TargetSnapshot(Target(f"OST000{index}", "ost"), readings) for index in range(2)]
    mdt = TargetSnapshot(Target("MDT0000", "mdt"), (Reading("used_bytes", 99),))
    return Snapshot(at, "lustre", True, (*osts, mdt))


def test_fullness_and_epoch_of_the_time(store: Store) -> None:
    store.ensure_site("scratch")
    store.add_snapshot("scratch", snapshot(NOW - timedelta(hours=1), 30))
    store.add_snapshot("scratch", snapshot(NOW + timedelta(hours=20), 70))
    at, kind = NOW + timedelta(hours=2), EventKind.CAPACITY_ADDED
    store.add_event(Event(new_identifier(NOW), "scratch", kind, at, "24 OSTs", "person"))
    keep(store, "obdfilter-survey", [40.0, 41.0], told={"targets": 2})
    keep(store, "lnet-selftest", [48.0, 48.0], at=NOW, told={"servers": 1})
    keep(store, "ior", [40.0, 41.0], at=NOW + timedelta(hours=21), told={"targets": 2})
    found = rungs(store)
    assert found["ost", "read_bandwidth"].fullness == pytest.approx(0.3)
    assert found["client", "read_bandwidth"].fullness == pytest.approx(0.7)
    limit = only_track(store).limit
    assert limit.kind is LimitKind.CANNOT_TELL
    assert "30 %" in limit.reason
    assert "before capacity-added 2026-03-10" in limit.reason


def test_osts_are_counted_in_the_last_snapshot(store: Store) -> None:
    store.ensure_site("scratch")
    store.add_snapshot("scratch", snapshot(NOW, 30))
    hardware = of_store(store, Site("scratch", "lustre", "/scratch")).hardware
    assert (hardware.osts, hardware.oss) == (2, None)


def test_the_data_sheet_of_the_drives_is_the_lowest_rung(store: Store) -> None:
    hardware = Hardware(drive="PM1743", drives=32, osts=4, oss=2, parity=Parity(8, 2))
    site = Site("scratch", "lustre", "/scratch", hardware=hardware)
    keep(store, "obdfilter-survey", [344.0], told={"targets": 4})
    given = of_store(store, site)
    (track,) = build_ladder(given).tracks
    sheet, ost = track.steps
    assert sheet.rung.rate.value == 14e9
    assert ost.beneath[0].value == pytest.approx(344 / (32 * 14))
    assert any("source S5" in note for note in given.notes)


def test_what_is_stated_replaces_the_data_sheet() -> None:
    stated = Hardware(drive="PM1743", drive_read=parse_figure("13 GB/s"))
    assert with_data_sheet(stated) == (stated, ())
    assert with_data_sheet(Hardware()) == (Hardware(), ())
    found, _ = with_data_sheet(Hardware(drive="PM1743"))
    assert present(found.drive_write).possible() == (6e9, 6e9)


def test_a_drive_that_nobody_knows_is_said_to_be_so() -> None:
    found, notes = with_data_sheet(Hardware(drive="nonsense"))
    assert found.drive_read is None
    assert notes == ("[hardware] drive: no data sheet known for 'nonsense'",)


def test_nothing_is_kept(store: Store) -> None:
    ladder = build_ladder(of_store(store, SITE))
    assert ladder.tracks == ()
    assert {one.layer for one in ladder.absent} == {
        "data_sheet", "drive", "ost", "network", "client",
    }  # fmt: skip


@pytest.mark.cli
def test_from_an_import_to_the_ladder_of_a_site(tmp_path: Path) -> None:
    drive = 'drive_write = "1 GB/s"\ndrive_read = "90 GB/s"\ndrives = 1\nparity = "none"\n'
    site = site_file(tmp_path, f"[hardware]\n{drive}")
    file = FIXTURES / "ior" / "4.0.0" / "json-repeat.out"
    ran(tmp_path, "import", file, "--site", site, "--timezone", "UTC")
    document = ran(tmp_path, "ladder", site, "--json").document
    tracks = {track["metric"]: track for track in document["tracks"]}
    for metric in ("write_bandwidth", "read_bandwidth"):
        sheet, client = tracks[metric]["rungs"]
        assert (sheet["layer"], client["layer"]) == ("data_sheet", "client")
        rate = client["rate"]["value"] / sheet["rate"]["value"]
        assert client["beneath"][0]["value"] == pytest.approx(rate)
    assert {one["layer"] for one in document["absent"]} == {"drive"}
    text = ran(tmp_path, "ladder", site, "--all").stdout
    assert "no drive rung" in text
    assert "Limit: " in text


def site_file(place: Path, more: str = "") -> Path:
    path = place / "here.toml"
    path.write_text(f'[site]\nname = "here"\ndriver = "local"\npath = "{place}"\n{more}')
    return path


def ran(place: Path, *arguments: object) -> Ended:
    """Return how a command ended that must succeed."""
    ended = trimtab(*arguments, store=place / "t.db")
    assert ended.code == 0, ended.stderr
    return ended


@pytest.mark.cli
def test_a_site_that_nothing_is_kept_of(tmp_path: Path) -> None:
    with Store.open(tmp_path / "t.db"):
        pass
    shown = ran(tmp_path, "ladder", site_file(tmp_path)).stdout
    assert "No stored data for a ladder" in shown
    assert "trimtab check PATH" in shown


@pytest.mark.cli
def test_a_site_that_only_the_store_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [FIXTURES / name for name in ("fio/3.33/drives.out", "ior/4.0.0/json-repeat.out")]
    ran(tmp_path, "import", *files, "--site", "imported", "--timezone", "UTC")
    monkeypatch.chdir(tmp_path)
    document = ran(tmp_path, "ladder", "imported", "--json").document
    assert (document["name"], document["scale"]) == ("imported", "one drive")
    assert "[hardware]" in " ".join(document["notes"])
    tracks = {track["metric"]: track for track in document["tracks"]}
    rungs = {one["layer"]: one for one in tracks["read_bandwidth"]["rungs"]}
    assert set(rungs) == {"drive", "client"}
    drive, client = rungs["drive"], rungs["client"]
    assert drive["shown"]["value"] == drive["rate"]["value"] / drive["coverage"]["drives"]
    assert client["shown"] is None  # nothing tells on how much hardware it was
    assert {track["limit"]["kind"] for track in tracks.values()} == {"cannot tell"}
    other = trimtab("ladder", "importde", store=tmp_path / "t.db")
    assert other.code == 2
    assert "nothing about it is stored" in other.stderr


@pytest.mark.cli
def test_a_directory_whose_results_are_kept_under_the_name_of_a_site(tmp_path: Path) -> None:
    site_file(tmp_path)
    identity = LocalDriver(str(tmp_path)).description.identity
    with Store.open(tmp_path / "t.db") as kept:
        kept.ensure_site("here", driver="local", identity=identity, path=str(tmp_path))
    assert ran(tmp_path, "ladder", tmp_path, "--json").document["name"] == "here"


@pytest.mark.system
def test_a_file_system_of_one_host_that_only_the_store_knows(store: Store) -> None:
    """What is kept of the driver tells that there is no network between."""
    store.ensure_site("here", driver="local")
    found = ladder_of("here", store_url=str(store.location.path))
    assert {one.layer for one in found.absent} == {"data_sheet", "drive", "client"}


@pytest.mark.cli
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere",), "nowhere"),
        (("PAGE",), "is a file"),
        (("/dev/null",), "is a character device"),
        (("./not-there",), "does not exist"),
        *(
            (("EXAMPLE", "--margin", margin), "greater than 0 and less than 100%")
            for margin in ("0", "0%", "1", "100%")
        ),
        (("nowhere.toml",), "nowhere.toml"),
        (("FILE",), "is not a rate"),
        (("EXAMPLE", "--margin", "2"), "fraction"),
        (("EXAMPLE", "--per", "rack"), "rack"),
    ],
)
def test_wrong_use(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    places = {"FILE": tmp_path / "wrong.toml", "PAGE": tmp_path / "page.md"}
    places["FILE"].write_text('[ladder]\nname = "x"\n[[rung]]\nlayer = "ost"\nwrite = "3"\n')
    places["PAGE"].write_text("# a page")
    places["EXAMPLE"] = EXAMPLES / "perlmutter.toml"
    ended = trimtab("ladder", *(places.get(one, one) for one in arguments), store=tmp_path / "t.db")
    assert ended.code == 2
    assert words in ended.stderr
    assert "Traceback" not in ended.stderr
