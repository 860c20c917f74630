"""Probes and surveys: what they measure is theirs to say, what they leave is checked here."""

from __future__ import annotations

from contextlib import suppress

from tests.live.running import Wrong, capability, require
from tests.live.subject import Subject

PROBE = {
    "benchmark": "builtin",
    "block_size": "8MiB",
    "tasks_per_node": 4,
    "duration": "5s",
    "timeout": "10m",
    "directory": "live/probe",
}


def left_behind(subject: Subject) -> tuple[dict[str, int], list[str], int]:
    """Return what a measurement could leave: used bytes of OSTs, devices of servers, names."""
    cluster = subject.cluster
    used = {name: space[0] for name, space in cluster.space().items() if name.startswith("OST")}
    devices = [line.split(maxsplit=1)[1].rpartition(" ")[0] for line in cluster.echo_devices()]
    names = sum(1 for _ in (cluster.path / "live" / "probe").iterdir())
    return used, devices, names


def require_nothing_left(subject: Subject, before: tuple[dict[str, int], list[str], int]) -> None:
    """Require that space, devices and names are as before, once the OSTs have freed objects."""

    def as_before() -> bool:
        used, devices, names = left_behind(subject)
        near = all(abs(used[name] - value) < 4 * 2**20 for name, value in before[0].items())
        return near and devices == before[1] and names == before[2]

    subject.cluster.until(as_before, f"everything is as before: {before}", 300.0)


@capability("probe", "lfs getstripe of its files while it runs, lfs df and names after it")
def probe(subject: Subject) -> str:
    """A pinned probe has files on every OST, measures, and leaves nothing."""
    directory = subject.cluster.path / "live" / "probe"
    directory.mkdir(exist_ok=True)
    site = subject.site("probes", probe={"pinned": {**PROBE, "target_pinning": True}})
    before = left_behind(subject)
    seen: set[str] = set()
    with subject.running("probe", "pinned", "--site", site, "--json", log="probe.json") as process:
        while process.poll() is None:
            with suppress(OSError, Wrong):  # the probe makes and removes them meanwhile
                for file in directory.glob(".trimtab-probe-*/*"):
                    seen.update(subject.cluster.stripes(file))
    require(process.returncode == 0, f"exit code {process.returncode}: see probe.json")
    wanted = {one.name for one in subject.cluster.osts}
    require(seen == wanted, f"its files were on {sorted(seen)}, not on {sorted(wanted)}")
    require_nothing_left(subject, before)
    return f"files on {len(seen)} OSTs, nothing left"


@capability("survey: client", "lfs df and names after it")
def survey_client(subject: Subject) -> str:
    """Every OST is measured from the client, and nothing is left behind."""
    (subject.cluster.path / "live" / "probe").mkdir(exist_ok=True)
    site = subject.site("survey")
    before = left_behind(subject)
    words = ("--apply", "--size", "16MiB", "--tasks", "1", "--duration", "6s")
    document = subject.json("survey", site, "--client", *words)
    measured = {
        one["target"] for one in document["targets"] if one["outcome"] == "measured" or one["rates"]
    }
    wanted = {one.name for one in subject.cluster.osts}
    require(measured == wanted, f"measured {sorted(measured)}: {document['targets']}")
    require_nothing_left(subject, before)
    return f"{len(measured)} OSTs"


@capability("survey: server", "lctl dl and lfs df of each server after it")
def survey_server(subject: Subject) -> str:
    """obdfilter-survey runs on one OST of a server, its echo devices and objects are removed.

    The user that reads on servers may not do this, and should not: root logs in for it.
    """
    (subject.cluster.path / "live" / "probe").mkdir(exist_ok=True)
    ssh = {**subject.site_table("servers").get("ssh", {}), "user": "root"}
    site = subject.site("survey", servers={"sudo": False, "ssh": ssh})
    ost = subject.cluster.osts[2].name
    before = left_behind(subject)
    words = ("--target", ost, "--apply", "--size", "64MiB", "--threads", "2")
    targets = subject.json("survey", site, "--server", *words)["targets"]
    require([one["target"] for one in targets if one["rates"]] == [ost], str(targets))
    require_nothing_left(subject, before)
    return f"{ost}: {len(targets[0]['rates'])} rates"
