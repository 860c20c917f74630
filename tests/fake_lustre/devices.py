"""``lctl dl``: the devices of a host in the order in which they were made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .lfs import mgs_nid
from .state import FakeLustre, FakeServer, FakeTarget, Output


@dataclass(frozen=True, slots=True)
class Device:
    """One row; ``target`` is what it is of or leads to, ``by`` whose connection it is."""

    status: str
    kind: str
    name: str
    uuid: str
    references: int
    target: FakeTarget | None = None
    by: str | None = None
    shown: bool = True


def mdts_on(state: FakeLustre, host: str | None) -> list[FakeTarget]:
    """Return the MDTs that a host serves."""
    return [one for one in state.served_by(host) if one.kind == "MDT"] if host else []


def device_list(state: FakeLustre, host: str | None, argv: Sequence[str] = ()) -> Output:
    """Return what ``lctl dl`` prints; ``-t`` adds the address of each client device."""
    rows = []
    for number, one in enumerate(devices(state, host)):
        row = f"{number:3d} {one.status} {one.kind} {one.name} {one.uuid} {one.references}"
        if "-t" in argv and one.kind in ("mdc", "osc") and one.target is not None:
            row += f" {nid_of(state, one.target, state.client)}"
        if one.shown:
            rows.append(f"{row}\n")
    return Output("".join(rows))


def nid_of(state: FakeLustre, target: FakeTarget, host: str | None) -> str:
    """Return the address under which a host reaches a target."""
    if host is not None and target.server == host:
        return "0@lo"
    return state.server(target.server).nids[0]


def nids_of(state: FakeLustre, target: FakeTarget, host: str | None) -> list[str]:
    """Return every address under which a host may reach a target, the one at home first."""
    names = [target.home, *(one for one in (target.server, target.partner) if one)]
    found = []
    for name in dict.fromkeys(names):
        found += ["0@lo"] if name == host else state.server(name).nids[:1]
    return list(dict.fromkeys(found))


def devices(state: FakeLustre, host: str | None) -> Iterator[Device]:
    """Yield every device of a host; those of targets that are down are not shown."""
    name = state.client if host is None else host
    if name is not None and name in {server.name for server in state.servers}:
        if state.boot == "fresh" and state.is_client(host):
            yield from _fresh(state, state.server(name))
            return
        yield from _restarted(state, state.server(name))
    if state.is_client(host):
        yield from _client(state, alone=name is None or name == state.client_name)


def _fresh(state: FakeLustre, server: FakeServer) -> Iterator[Device]:
    """As a file system that was just formatted makes them: an OST is known when it comes."""
    mdts, osts = _own(state, server, "MDT"), _own(state, server, "OST")
    for mdt in mdts:
        yield from _mdt(state, mdt, fresh=True)
        if mdt.index:
            yield _osp(state, state.mdts[0], mdt.name)
        yield _lwp(state, state.mdts[0], mdt)
    for number, ost in enumerate(osts):
        yield from _ost(state, ost, first=number == 0)
        if number == 0:
            for mdt in reversed(mdts):
                if not mdt.index:
                    yield from (_osp(state, one, mdt.name) for one in state.mdts[1:])
                yield _osp(state, ost, mdt.name)
    yield from _client(state, alone=False)
    for mdt in reversed(mdts):
        yield from (_osp(state, ost, mdt.name) for ost in osts[1:])
    yield from _echo(server)


def _restarted(state: FakeLustre, server: FakeServer) -> Iterator[Device]:
    """As a start from the configuration makes them: an MDT knows every target at once."""
    for mdt in _own(state, server, "MDT"):
        yield from _mdt(state, mdt, fresh=False)
        yield from (_osp(state, one, mdt.name) for one in state.mdts if one is not mdt)
        yield from (_osp(state, ost, mdt.name) for ost in state.osts)
        yield _lwp(state, state.mdts[0], mdt)
    for number, ost in enumerate(_own(state, server, "OST")):
        yield from _ost(state, ost, first=number == 0)
    yield from _echo(server)


def _echo(server: FakeServer) -> Iterator[Device]:
    for name in server.echo_clients:
        yield Device("UP", "echo_client", name, f"{name}_UUID", 3)


def _own(state: FakeLustre, server: FakeServer, kind: str) -> list[FakeTarget]:
    return [one for one in state.targets if one.server == server.name and one.kind == kind]


def _mdt(state: FakeLustre, mdt: FakeTarget, *, fresh: bool) -> Iterator[Device]:
    fs, up = state.file_system, mdt.up
    first = mdt.index == 0
    short = mdt.name[3:]
    yield Device(
        "UP", f"osd-{mdt.osd}", f"{fs}-{mdt.name}-osd", f"{fs}-{mdt.name}-osd_UUID",
        13 if first else 11, mdt, shown=up,
    )  # fmt: skip
    if first:
        yield Device("UP", "mgs", "MGS", "MGS", 5, shown=up)
        uuid = "593e16aa-7a27-46de-9363-504492f394d2"
        yield Device("UP", "mgc", f"MGC{mgs_nid(state)}", uuid, 5, shown=up)
        yield Device("UP", "mds", "MDS", "MDS_uuid", 3, shown=up)
    lov = f"{fs}-{mdt.name}-mdtlov"
    yield Device("UP", "lod", lov, f"{lov}_UUID", 4, mdt, shown=up)
    references = (19 if first else 15) if fresh else (17 if first else 13)
    name = f"{fs}-{mdt.name}"
    yield Device("UP", "mdt", name, f"{name}_UUID", references, mdt, shown=up)
    yield Device("UP", "mdd", f"{fs}-MDD{short}", f"{fs}-MDD{short}_UUID", 4, mdt, shown=up)
    if first:
        yield Device("UP", "qmt", f"{fs}-QMT{short}", f"{fs}-QMT{short}_UUID", 4, mdt, shown=up)


def _ost(state: FakeLustre, ost: FakeTarget, *, first: bool) -> Iterator[Device]:
    name = f"{state.file_system}-{ost.name}"
    yield Device("UP", f"osd-{ost.osd}", f"{name}-osd", f"{name}-osd_UUID", 5, ost, shown=ost.up)
    if first:
        yield Device("UP", "ost", "OSS", "OSS_uuid", 3)
    yield Device("UP", "obdfilter", name, f"{name}_UUID", 9, ost, shown=ost.up)
    for mdt in state.mdts:
        yield _lwp(state, mdt, ost)


def _lwp(state: FakeLustre, to: FakeTarget, of: FakeTarget) -> Device:
    name = f"{state.file_system}-{to.name}-lwp-{of.name}"
    return Device("UP", "lwp", name, f"{name}_UUID", 5, shown=of.up)


def _osp(state: FakeLustre, to: FakeTarget, mdt: str) -> Device:
    kind = "osp" if to.kind == "MDT" else "osc"
    active = to.osp_active.get(mdt, True)
    return Device(
        "UP" if active else "IN",
        "osp",
        f"{state.file_system}-{to.name}-{kind}-{mdt}",
        f"{state.file_system}-{mdt}-mdtlov_UUID",
        5,
        to,
        mdt,
        state.target(mdt).up,
    )


def _client(state: FakeLustre, *, alone: bool) -> Iterator[Device]:
    fs, client, uuid = state.file_system, state.client_id, state.client_uuid
    if alone and state.client is None:
        yield Device("UP", "mgc", f"MGC{mgs_nid(state)}", "3547302e-74a0-4260-9a61-ddecc4161901", 5)
    yield Device("UP", "lov", f"{fs}-clilov-{client}", uuid, 4)
    yield Device("UP", "lmv", f"{fs}-clilmv-{client}", uuid, 5)
    for one in state.mdts:
        yield Device("UP", "mdc", f"{fs}-{one.name}-mdc-{client}", uuid, 5, one, client)
    for one in state.osts:
        status = "UP" if one.client_active else "IN"
        yield Device(status, "osc", f"{fs}-{one.name}-osc-{client}", uuid, 5, one, client)
