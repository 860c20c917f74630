"""Reads and clears the changelogs of a Lustre, manages their users, and looks up FIDs.

A client has a device for each connected MDT, ``/dev/changelog-FSNAME-MDT0000``, for root only:
reading starts at a record, writing clears. Users are listed, registered and removed on the MDSs.
FIDs are looked up on the mounted client. What may hang while an MDT is down runs in a child
process (`trimtab.reach.lustre.lustre_child`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from trimtab.base.error import ToolError
from trimtab.base.site import Servers
from trimtab.base.snapshot import NotAvailable, not_available
from trimtab.base.visible import visible
from trimtab.reach.bounded import ask_child, reason_of
from trimtab.reach.fleet import FanOut
from trimtab.reach.lustre.change_order import Order, act_alone
from trimtab.reach.lustre.changelog import NEEDED, ChangelogUsers, mdts_of
from trimtab.reach.lustre.lustre_child import Names, clear, list_by_fid, mdt_indices, read
from trimtab.reach.lustre.read_table import OF_FOLLOWING, request
from trimtab.reach.lustre.server_query import sudo_of, views_of
from trimtab.reach.lustre.server_write import ServerWriter
from trimtab.reach.lustre.write_table import CHANGELOG_USER, changelog_parameter, mdt_service
from trimtab.reach.lustre.writer_order import REGISTER_TIMEOUT_S

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


@dataclass(frozen=True, slots=True)
class Registrar:
    """Trimtab's changelog users on the MDTs of a file system.

    Attributes
    ----------
    writer
        ``None`` for read-only use.
    """

    servers: Servers
    file_system: str
    writer: ServerWriter | None
    fan_out: FanOut

    def user(self, mdt: str) -> str | NotAvailable:
        """Return the user of an MDT, empty if it has none; see `ChangelogRegistrar.user`."""
        users = ask_users(self.servers, self.file_system, fan_out=self.fan_out).get(mdt)
        if users is None:
            return not_available("server-silent", f"the server of {mdt} does not answer")
        return ", ".join(user.name for user in users.of(CHANGELOG_USER))

    def change(self, server: str, mdt: str, before: str, *, registered: bool) -> str | NotAvailable:
        """Register or remove the user of an MDT; see `ChangelogRegistrar.change`."""
        if self.writer is None:
            return not_available("driver-read-only", "this driver is read-only")
        fields = {"fs": self.file_system, "mdt": mdt}
        instruction = {
            "do": "changelog", "fields": fields, "place": {"service": mdt_service(fields)},
            "registered": registered, "before": before, "needed": sorted(NEEDED),
        }  # fmt: skip
        order = Order(server, mdt, changelog_parameter(fields, "changelog_users"), instruction)
        timeout_s = self.servers.timeout_s + REGISTER_TIMEOUT_S
        change = f"{'registration' if registered else 'removal'} of the changelog user of {mdt}"
        result = act_alone(self.writer, order, change, timeout_s=timeout_s)
        return result if isinstance(result, NotAvailable) else result.found or ""


_TIMEOUT_S: Final = 600.0
_BATCH: Final = 1000
"""Directories per child: its answer is held in memory."""

_Answer = TypeVar("_Answer")


def list_directories(root: str, directories: Sequence[bytes]) -> Iterator[tuple[bytes, Names, int]]:
    """Yield each directory, its entries and its error number (0 also for a deleted one).

    Raises
    ------
    ToolError
        They could not be listed in time.
    """
    from trimtab._core import GONE_ERRNOS

    for start in range(0, len(directories), _BATCH):
        batch = directories[start : start + _BATCH]
        answers = _answer(partial(list_by_fid, root, batch, GONE_ERRNOS), root)
        for directory, (names, number) in zip(batch, answers, strict=True):
            yield directory, names, number


def mdts_of_fids(root: str, files: Sequence[bytes]) -> Mapping[bytes, str | None]:
    """Return the MDT of each FID, from its sequence; ``None`` if Lustre does not know.

    Raises
    ------
    ToolError
        They could not be queried in time.
    """
    one_each = list({file[:8]: file for file in files}.values())
    indices = _answer(partial(mdt_indices, root, one_each), root)
    of_sequence = {
        file[:8]: None if index is None else f"MDT{index:04x}"
        for file, index in zip(one_each, indices, strict=True)
    }
    return {file: of_sequence[file[:8]] for file in files}


def _answer(question: Callable[[], _Answer], root: str) -> _Answer:
    try:
        return ask_child(question, root, deadline_s=_TIMEOUT_S)
    except (OSError, ToolError) as error:
        raise ToolError(
            f"directories of {visible(root)} cannot be listed: {reason_of(error)}",
            code="listing-failed",
            hint="the index is intact; repeat the command",
        ) from error
