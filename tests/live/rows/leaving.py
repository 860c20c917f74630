"""What is left when all is done."""

from __future__ import annotations

from tests.live.rows.following import users
from tests.live.rows.tuning import counts
from tests.live.running import capability, require
from tests.live.subject import Subject


@capability("nothing left behind", "settable parameters, devices and readers of every server")
def leaving(subject: Subject) -> str:
    """A server has no setting, device, process or changelog reader that it did not have before."""
    cluster = subject.cluster
    site = subject.site("plain")
    subject.json("revert", site, "--all", "--apply", code=None)
    echoes = cluster.echo_devices()
    require(not echoes, f"echo devices are left: {echoes}")
    require(not any(users(subject).values()), f"changelog readers are left: {users(subject)}")
    ledger = subject.ledger(site)
    open_ends = [action["id"] for action in ledger if action["until"] is None]
    require(not open_ends, f"{len(open_ends)} actions of the ledger have no end")
    settings = {server: cluster.settings(server) for server in cluster.servers}
    devices = {
        (target.server, f"/sys/class/block/{cluster.block_device(target)}/queue/wbt_lat_usec")
        for target in cluster.home.values()
    }
    reset = [
        f"{server}: {name}={value}"
        for server, values in settings.items()
        for name, value in values.items()
        if (
            name.endswith((".max_create_count", ".no_create", "/mb_stats"))
            or (server, name) in devices
        )
        and value not in {"20000", "0", "75000"}
        and not counts(name, value, value)
    ]
    require(not reset, f"still set: {reset}")
    return (
        f"{len(ledger)} actions, all ended; {sum(map(len, settings.values()))} parameters looked at"
    )
