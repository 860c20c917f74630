"""Turns a change of a target into instructions for servers, and their results into an answer.

::

    target, setting, value ──▶ orders: (server, instruction) each ──▶ ServerWriter, one by one
                                                                        │ one that is not done
                                                                        └▶ those before are put back
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from trimtab.base.action import Outcome
from trimtab.base.error import Message, RefusedError, ToolError, UsageError
from trimtab.base.snapshot import NotAvailable, Setting, not_available
from trimtab.reach.local_driver import read_queue
from trimtab.reach.local_telemetry import MountedState
from trimtab.reach.lustre.lustre_setting import folded
from trimtab.reach.lustre.lustre_view import ServerView, View
from trimtab.reach.lustre.read_table import CLIENT_SETTINGS
from trimtab.reach.lustre.server_write import InstructionResult, ServerWriter
from trimtab.reach.lustre.target_state import serving, several_drives, why_not_served
from trimtab.reach.lustre.write_table import (
    BY_KEY,
    PERMANENT,
    NotInTable,
    as_read,
    check_value,
    name_of,
    permanent_words,
)

MAX_CREATE_COUNT: Final = "20000"
"""OST_MAX_PRECREATE: the default of an MDT."""
_CLOSING: Final = ("obdfilter/no_create", "obdfilter/no_precreate")
"""Settings of a client by their name in a snapshot, to their row."""
_PER_INSTRUCTION_S: Final = 0.5
_PERMANENT_HINT: Final = f"permanent settings of targets: {', '.join(PERMANENT)}"


@dataclass(frozen=True, slots=True)
class Order:
    """One instruction for one server.

    Attributes
    ----------
    part
        The drive, MDT or target whose part of the setting it changes.
    name
        The parameter or file it changes.
    """

    server: str
    part: str
    name: str
    instruction: Mapping[str, Any]


@dataclass(slots=True)
class ChangeAttempt:
    """The outcome of the orders of one change.

    Attributes
    ----------
    results
        Each order that was sent, with its result.
    not_put_back
        After a failure: the names that could not be restored, with what is known about them.
    """

    results: list[tuple[Order, InstructionResult]] = field(default_factory=list)
    not_put_back: list[str] = field(default_factory=list)

    @property
    def failure(self) -> tuple[Order, InstructionResult] | None:
        """The first order that failed."""
        return next((pair for pair in self.results if not pair[1].done), None)


def setting_orders(
    view: View, target: str, backing: MountedState | None, name: str, value: str
) -> tuple[Order, ...] | NotAvailable:
    """Return the orders that change a setting of a target: one for each MDT or drive, or one.

    Raises
    ------
    RefusedError
        The setting is not writable.
    UsageError
        The value is not allowed.
    """
    words = name.split("/")
    key = {"block": "queue", "drives": "queue"}.get(words[0], words[0]) + "/" + words[-1]
    row = BY_KEY.get(key)
    if row is None:
        raise RefusedError(
            f"{name} is not writable",
            code="setting-read-only",
            hint="writable settings and the rights they need: docs/act-safety.md",
        )
    with _as_usage():
        check_value(row, value)
    if key == "osp/max_create_count":
        return creation_orders(view, target, value)
    server = serving(view, target)
    if isinstance(server, NotAvailable):
        return server
    if words[0] in {"obdfilter", "lod"}:
        return (_parameter_order(view, target, server, key, value),)
    if backing is None:
        return not_available("no-device", f"no device beneath {target} is seen")
    order = partial(_order, server.name, f"{view.file_system}-{target}", value=value)
    orders = tuple(_device_orders(order, backing, words))
    return orders or not_available("no-device", f"no device beneath {target} is seen")


def permanent_order(view: View, target: str, name: str, value: str | None) -> Order | NotAvailable:
    """Return the order for the MGS that sets a permanent value; ``None`` removes it.

    Raises
    ------
    RefusedError
        The setting cannot be set permanently.
    UsageError
        The value is not allowed.
    """
    if name not in PERMANENT:
        raise RefusedError(
            f"{name} cannot be set permanently", code="setting-not-permanent", hint=_PERMANENT_HINT
        )
    fields = {"fs": view.file_system, "mdt": target}
    row, parameter = name_of(name, fields)
    with _as_usage():
        permanent_words(row, parameter, value)
    servers = [server.name for server in view.servers.values() if server.has_mgs]
    if len(servers) != 1:
        return not_available(
            "mgs-not-seen", f"{len(servers)} of the servers report an MGS, not one"
        )
    instruction = {"do": "permanent", "row": name, "fields": fields, "value": value}
    return Order(servers[0], target, parameter, instruction)


@contextmanager
def _as_usage() -> Iterator[None]:
    try:
        yield
    except NotInTable as error:
        raise UsageError(str(error), code=error.code) from error


def _order(
    server: str,
    service: str,
    key: str,
    fields: dict[str, str],
    *,
    raw: str | None,
    value: str | None,
) -> Order:
    """Return the order for one part of a setting, under the server's name of the target."""
    instruction = {
        "do": "set",
        "row": key,
        "fields": fields,
        "place": {"service": service},
        "before": None if raw is None else raw.strip(),
        "value": value,
    }
    part = fields.get("device") or fields.get("mdt") or service
    return Order(server, part, name_of(key, fields)[1], instruction)


def _parameter_order(view: View, target: str, server: ServerView, key: str, value: str) -> Order:
    fields = {"fs": view.file_system, "mdt" if key.startswith("lod/") else "ost": target}
    raw = server.parameters.get(name_of(key, fields)[1])
    service = f"{view.file_system}-{target}"
    return _order(server.name, service, key, fields, raw=raw, value=value)


def _device_orders(
    order: Callable[..., Order], backing: MountedState, words: list[str]
) -> Iterator[Order]:
    """Yield an order for the named device, or for each drive."""
    knob, ext4 = words[-1], backing.ext4
    if words[0] != "ldiskfs":
        named = (
            [words[1]]
            if words[0] == "block"
            else [drive.name for drive in several_drives(backing.description)]
        )
        for device in named:
            raw = read_queue(backing.host, device).get(knob)
            yield order(f"queue/{knob}", {"device": device}, raw=raw)
    elif ext4 is not None and words[1] == ext4.device:
        directory = ext4.statistics if knob in _STATISTICS else ext4.settings
        text = backing.host.read_text(f"{directory}/{knob}")
        raw = None if isinstance(text, NotAvailable) else " ".join(text.split())
        yield order(f"ldiskfs/{knob}", {"device": ext4.device}, raw=raw)


_STATISTICS: Final = frozenset({"mb_last_group", "mb_last_groups", "prealloc_table"})


def client_orders(
    view: View, client: str, here: bool, name: str, value: str
) -> tuple[Order, ...] | NotAvailable:
    """Return the orders that change a setting of a client: one for each of its connections.

    Raises
    ------
    RefusedError
        The setting is not writable.
    UsageError
        The value is not allowed.
    """
    pattern = CLIENT_SETTINGS.get(name)
    if pattern is None:
        raise RefusedError(f"{name} of a client is not writable", code="setting-read-only")
    key = pattern.replace(".*.", "/")
    row = BY_KEY[key]
    with _as_usage():
        check_value(row, value)
    parameters = view.client.parameters if here else view.clients[client].client_parameters
    orders = []
    for full_name, raw in parameters.matching(pattern).items():
        fields = _client_fields(full_name, view.file_system)
        if fields is None:
            continue
        order = _order(client, client, key, fields, raw=as_read(row, raw), value=value)
        instruction = {**order.instruction, "place": None}  # a client has no target mounted
        part = fields.get("ost", client)
        orders.append(replace(order, part=part, instruction=instruction))
    if not orders:
        return not_available("setting-missing", f"{client} has no {pattern}")
    return tuple(orders)


def _client_fields(full_name: str, file_system: str) -> dict[str, str] | None:
    """Split the name of a client's parameter; ``None`` for an MDT's or another's."""
    device = full_name.split(".")[1]
    rest = device.removeprefix(f"{file_system}-")
    if rest == device:
        return None
    if full_name.startswith("llite."):
        return {"fs": file_system, "client": rest}
    ost, _, client = rest.partition("-osc-")
    return None if client.startswith("MDT") else {"fs": file_system, "ost": ost, "client": client}


# Creation ----------------------------------------------------------------------------------------


def creation_orders(view: View, target: str, value: str | None) -> tuple[Order, ...] | NotAvailable:
    """Return the orders that set ``max_create_count`` of an OST on every MDT.

    Parameters
    ----------
    value
        ``None``: the value before it was closed.
    """
    orders = []
    for mdt in (name for name in view.targets if name.startswith("MDT")):
        mds = view.mds_of.get(mdt)
        if mds is None:
            # Recorded: an MDT that is left out continues to create objects there.
            return not_available(
                "mdt-not-seen", f"not every MDT is visible: {why_not_served(view, mdt)}"
            )
        fields = {"fs": view.file_system, "ost": target, "mdt": mdt}
        raw = mds.parameters.get(name_of("osp/max_create_count", fields)[1])
        if raw is None:
            reason = mds.why_no("parameters", f"max_create_count of {target} for {mdt}")
            return NotAvailable(reason)
        service = f"{view.file_system}-{mdt}"
        order = _order(mds.name, service, "osp/max_create_count", fields, raw=raw, value=value)
        more: dict[str, object] = {"keep": value == "0"}
        if value is None:
            more = {"do": "restore", "closed": "0", "default": MAX_CREATE_COUNT}
        orders.append(replace(order, instruction={**order.instruction, **more}))
    if not orders:
        return not_available("mdt-not-seen", f"no MDT of {view.file_system} is visible")
    return tuple(orders)


def switch_orders(view: View, target: str, value: str) -> tuple[Order, ...] | NotAvailable:
    """Return the order that sets ``no_create`` of an OST (``no_precreate`` before 2.16)."""
    server = serving(view, target)
    if isinstance(server, NotAvailable):
        return server
    for key in _CLOSING:
        order = _parameter_order(view, target, server, key, value)
        if order.instruction["before"] is not None:
            return (order,)
    return NotAvailable(server.why_no("parameters", f"obdfilter no_create of {target}"))


def is_open(orders: Sequence[Order]) -> bool:
    """Return whether the orders' parameters already allow new files."""
    closed = {
        "osp/max_create_count": "0",
        "obdfilter/no_create": "1",
        "obdfilter/no_precreate": "1",
    }
    return all(order.instruction["before"] != closed[order.instruction["row"]] for order in orders)


# Carrying out ------------------------------------------------------------------------------------


def carry_out(
    writer: ServerWriter, orders: Sequence[Order], *, here: bool = False, put_back: bool = True
) -> ChangeAttempt:
    """Carry out orders, server by server; after a failure revert the earlier writes.

    Parameters
    ----------
    put_back
        False: completed orders stay and the rest is still tried (to open what can be opened).
    """
    attempt = ChangeAttempt()
    for server in dict.fromkeys(order.server for order in orders):
        orders_here = [order for order in orders if order.server == server]
        results = writer.act(
            server,
            [order.instruction for order in orders_here],
            timeout_s=writer.servers.timeout_s + _PER_INSTRUCTION_S * len(orders_here),
            go_on=not put_back,
            here=here,
        )
        attempt.results += zip(orders_here, results, strict=True)
        if put_back and attempt.failure is not None:
            _put_back(writer, attempt, here=here)
            return attempt
    return attempt


def _put_back(writer: ServerWriter, attempt: ChangeAttempt, *, here: bool) -> None:
    """Revert the writes of a change that failed; note what may still differ."""
    writer = replace(writer, dead_man_s=None)
    for order, result in reversed(attempt.results):
        if not result.wrote:
            continue
        before = order.instruction["before"]
        back: dict[str, Any] = {"before": result.found, "value": before, "keep": False}
        (restored,) = writer.act(
            order.server, [{**order.instruction, "do": "set", **back}], here=here
        )
        if not restored.done:
            current = restored.found or result.found or "?"
            attempt.not_put_back.append(
                f"{order.name} on {order.server} (now {current}, was {before}): {restored.detail}"
            )


def answer_of(attempt: ChangeAttempt, change: str) -> NotAvailable | None:
    """Return why a change was not made, ``None`` if it was.

    Raises
    ------
    UsageError
        The system refuses the value.
    RefusedError
        The server refuses the change: a later token, no permission.
    ToolError
        The stored value is unknown or another one, or not everything was restored.
    """
    if attempt.failure is None:
        return None
    order, result = attempt.failure
    code, text = result.detail.code, f"{change}: {order.name} on {result.server}: {result.detail}"
    if attempt.not_put_back:
        # An unknown outcome is reported first; that the value stays is no news.
        unknown = result.outcome is Outcome.UNKNOWN
        raise ToolError(
            f"{text}; not restored: {'; '.join(attempt.not_put_back)}",
            code=code if unknown else "partly-written",
            hint="check the current value and restore it by hand, or with: trimtab revert SITE ID",
        )
    match result.outcome:
        case Outcome.REFUSED if code in {"setting-value-refused", "range-invalid"}:
            raise UsageError(text, code=code)
        case Outcome.REFUSED if code == "discard-unsupported":
            return NotAvailable(Message(code, text))
        case Outcome.REFUSED:
            raise RefusedError(text, code=code, hint=_HINTS.get(code))
        case Outcome.NOT_STORED | Outcome.UNKNOWN | Outcome.FAILED:
            raise ToolError(text, code=code)
        case _:
            return NotAvailable(Message(code, text))


def act_alone(
    writer: ServerWriter, order: Order, change: str, *, timeout_s: float | None = None
) -> InstructionResult | NotAvailable:
    """Carry out a change of a single order that nothing reverts, and return its result.

    Raises
    ------
    UsageError, RefusedError, ToolError
        As `answer_of`.
    """
    (result,) = writer.act(order.server, [order.instruction], timeout_s=timeout_s)
    return answer_of(ChangeAttempt([(order, result)]), change) or result


def confirm_results(results: Sequence[InstructionResult]) -> None:
    """Check that every server kept a change.

    Raises
    ------
    ToolError
        ``setting-not-kept``: some of it was reverted, or changed, before it was confirmed.
        ``not-confirmed``: a server could not be reached and will revert it at its deadline.
    """
    failures = [result for result in results if not result.done]
    if not failures:
        return
    late = {Outcome.SKIPPED, Outcome.CHANGED}
    worst = next((result for result in failures if result.outcome not in late), failures[0])
    if worst.outcome in late:
        text = f"it was not confirmed in time, and {worst.server} reverted it: {worst.detail}"
        raise ToolError(text, code="setting-not-kept")
    text = f"it could not be confirmed, and {worst.server} will revert it: {worst.detail}"
    raise ToolError(text, code="not-confirmed")


_HINTS: Final = {
    "permission-denied": "install deploy/sudoers.d/trimtab-act on that server, and set sudo = true",
    "state-not-writable": "create /var/lib/trimtab-act there, owned by the user who acts",
    "fenced": "another instance has taken over: this one must stop. If its store is gone for good, "
    "remove FILE_SYSTEM.token in /var/lib/trimtab-act there",
}


def as_setting(name: str, attempt: ChangeAttempt, source: str) -> Setting:
    """Return a setting as read back, folded over all its parts."""
    values = {order.part: result.found or "" for order, result in attempt.results}
    return Setting(name, folded(values), source)
