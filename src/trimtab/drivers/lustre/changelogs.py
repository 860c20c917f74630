"""Reads, clears and monitors the changelogs of a Lustre, through its client and servers.

A client has a device for each connected MDT, ``/dev/changelog-FSNAME-MDT0000``, for root only.
Reading starts at a record; writing clears. Both may hang while an MDT is down, so a child process
does it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from trimtab.drivers.lustre.asking import sudo_of, views_of
from trimtab.drivers.lustre.changelog import ChangelogUsers, mdts_of
from trimtab.drivers.lustre.changelog_child import clear, read
from trimtab.drivers.lustre.reads import OF_FOLLOWING, request
from trimtab.errors import ToolError
from trimtab.launch.child import ask_child, reason_of
from trimtab.launch.fleet import FanOut
from trimtab.model.site import Servers

DEVICES: Final = Path("/dev")
READ_MAX_BYTES: Final = 32 * 2**20
"""Limit of one read: a quarter of a million records."""
_READ_S: Final = 120.0
_CLEAR_S: Final = 120.0


def ask_users(
    servers: Servers, file_system: str, *, fan_out: FanOut
) -> Mapping[str, ChangelogUsers]:
    """Return the changelog users of each MDT: one round trip to each MDS.

    MDTs whose server did not answer are missing.

    Raises
    ------
    ToolError
        ssh, or the Python to run here, is missing.
    DataError
        A server's answer cannot be read.
    """
    answers = ask_users_by_server(servers, file_system, fan_out=fan_out)
    return {mdt: users for served in answers.values() for mdt, users in (served or {}).items()}


def ask_users_by_server(
    servers: Servers, file_system: str, *, fan_out: FanOut
) -> Mapping[str, Mapping[str, ChangelogUsers] | None]:
    """Return the changelog users of each MDS's MDTs; ``None`` if it did not answer.

    Raises
    ------
    ToolError, DataError
        As `ask_users`.
    """
    question = request(OF_FOLLOWING, deadline_s=servers.timeout_s, sudo=sudo_of(servers))
    views = views_of(servers.mds, question, servers, file_system, fan_out=fan_out)
    answers: dict[str, Mapping[str, ChangelogUsers] | None] = {}
    for name, view in views.items():
        if view.lacks("parameters"):
            answers[name] = None
        else:
            parameters = view.parameters
            texts = {key: parameters.get(key) or "" for key in parameters.names}
            answers[name] = mdts_of(texts, file_system)
    return answers


def mdts_of_client(file_system: str, devices: Path = DEVICES) -> tuple[str, ...]:
    """Return the MDTs whose changelogs this client can read."""
    names = (file.name for file in devices.glob(f"changelog-{file_system}-MDT*"))
    return tuple(sorted(name[-7:] for name in names if re.search("-MDT[0-9a-f]{4}$", name)))


def read_records(
    file_system: str,
    mdt: str,
    after: int,
    *,
    devices: Path = DEVICES,
    limit_bytes: int = READ_MAX_BYTES,
) -> tuple[bytes, bool]:
    """Return the records of an MDT after record ``after``, and whether that is all of them.

    Raises
    ------
    ToolError
        They could not be read in time.
    """
    device = str(devices / f"changelog-{file_system}-{mdt}")
    try:
        return ask_child(partial(read, device, after + 1, limit_bytes), device, deadline_s=_READ_S)
    except (OSError, ToolError) as error:
        raise _failed(f"the changelog of {mdt} cannot be read", error) from error


def clear_records(
    file_system: str, mdt: str, user: int, index: int, *, devices: Path = DEVICES
) -> None:
    """Clear the records of a user up to record ``index``.

    A missing user is not an error here; the next query of the users shows it.

    Raises
    ------
    ToolError
        The MDT refused, or did not answer in time.
    """
    device = str(devices / f"changelog-{file_system}-{mdt}")
    try:
        ask_child(partial(clear, device, user, index), device, deadline_s=_CLEAR_S)
    except FileNotFoundError:
        return
    except (OSError, ToolError) as error:
        raise _failed(f"records of {mdt} up to {index} cannot be cleared", error) from error


def _failed(failure: str, error: OSError | ToolError) -> ToolError:
    return ToolError(
        f"{failure}: {reason_of(error)}",
        code="changelog-unreachable",
        hint="the index is intact; repeat the command to continue. Reading changelogs needs root",
    )
