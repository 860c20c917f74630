"""What Trimtab finds out about a Lustre that nothing is wrong with."""

from __future__ import annotations

import json
import tomllib

from tests.live.cluster import servers_of
from tests.live.running import capability, require
from tests.live.subject import Subject

_SPACE = 0.02
"""Of the capacity: what Lustre itself writes between two looks."""


@capability("discovery", "mounts of each server")
def discovery(subject: Subject) -> str:
    """``init`` names every server, and the home of every target."""
    ssh = subject.site_table("servers").get("ssh", {})
    words = ["init", str(subject.cluster.path), "--servers", ",".join(subject.cluster.servers)]
    words += ["--name", "found", "--user", ssh["user"]] if "user" in ssh else ["--name", "found"]
    words += ["--sudo"] if subject.site_table("servers").get("sudo") else []
    file = tomllib.loads(subject.trimtab(*words).stdout)
    homes = {
        target: server
        for server, targets in file["servers"]["home"].items()
        for target in servers_of(targets)
    }
    witnessed = {name: target.server for name, target in subject.cluster.home.items()}
    require(homes == witnessed, f"init has the homes {homes}, the servers have {witnessed}")
    for key, kind in (("mds", "MDT"), ("oss", "OST")):
        named = set(servers_of(file["servers"][key]))
        mounting = {server for target, server in witnessed.items() if target.startswith(kind)}
        require(named == mounting, f"init has {key} {named}, {kind}s are on {mounting}")
    require(file["site"]["file_system"] == subject.cluster.name, "init has another fsname")
    return f"{len(homes)} targets on {len(set(homes.values()))} servers"


@capability("targets", "lfs df, lctl, /sys of each server")
def targets(subject: Subject) -> str:
    """``targets`` agrees with the tools about space, servers and settings."""
    site = subject.site("plain")
    document = subject.json("targets", site, code=None)
    space = subject.cluster.space()
    settings = {server: subject.cluster.settings(server) for server in subject.cluster.servers}
    compared = 0
    require({one["name"] for one in document["targets"]} == set(space), "other targets are listed")
    for target in document["targets"]:
        name, server = target["name"], subject.cluster.target(target["name"]).server
        seen = {one["name"]: one["value"] for one in target["readings"] if one["label"] is None}
        used, available = space[name]
        whole = used + available
        for key, value in (("used_bytes", used), ("available_bytes", available)):
            near = abs(seen[key] - value) <= _SPACE * whole
            require(near, f"{name} {key}: {seen[key]}, lfs df says {value}")
        require(seen["server"] == server, f"{name} is on {server}, not on {seen['server']}")
        for key_of, setting in target["settings"].items():
            path = "/sys/class/" + key_of
            if key_of.startswith("block/") and path in settings[server]:
                witnessed = settings[server][path]
                same = setting["value"] in witnessed.replace("[", " ").replace("]", " ")
                require(same, f"{name} {key_of}: {setting['value']}, {path}: {witnessed}")
                compared += 1
    require(compared >= len(space), f"only {compared} settings could be compared")
    return f"{len(space)} targets, {compared} settings of queues equal"


@capability("snapshot", "a second reading of lctl, and the store read back")
def snapshot(subject: Subject) -> str:
    """A snapshot that was kept is shown again as it was."""
    site = subject.site("plain")
    kept = subject.json("snapshot", site, code=None)["snapshot"]
    again = subject.json("targets", site, "--at", kept["at"], code=None)
    require(kept["targets"] == again["targets"], "the store shows other targets than were kept")
    degraded = {
        target["name"]: reading["value"]
        for target in kept["targets"]
        for reading in target["readings"]
        if reading["name"] == "degraded" and target["name"].startswith("OST")
    }
    for name, value in degraded.items():
        parameter = f"obdfilter.{subject.cluster.name}-{name}.degraded"
        witnessed = subject.cluster.parameter(subject.cluster.target(name).server, parameter)
        require(value == (witnessed == "1"), f"{name} degraded: {value}, {parameter}={witnessed}")
    return f"{len(kept['targets'])} targets, {len(json.dumps(kept)) // 1024} KiB, read back equal"
