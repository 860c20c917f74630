"""What goes wrong, and when."""

from __future__ import annotations

from .state import FakeLustre, Fault, Output


def due(state: FakeLustre, host: str | None, command: str, words: str = "") -> list[Fault]:
    """Return the faults that meet this call, and let those that change the state do so."""
    if not state.faults:
        return []
    name = host or state.client_name
    happening = []
    for fault in state.faults:
        if fault.command not in (None, command, words or command) or (
            fault.host not in (None, name) and not (fault.host == "client" and host is None)
        ):
            continue
        fault.seen += 1
        if fault.seen <= fault.after_calls:
            continue
        if fault.times is not None and fault.happened >= fault.times:
            continue
        fault.happened += 1
        happening.append(fault)
    return happening


def spoil(state: FakeLustre, host: str | None, fault: Fault, output: Output) -> None:
    """Let a fault change what is answered."""
    match fault.kind:
        case "hang":
            output.stdout = cut(output.stdout, fault) if fault.lines or fault.bytes else ""
            output.hang_s = max(output.hang_s, fault.seconds)
        case "slow":
            output.hang_s += fault.seconds
        case "half":
            output.stdout = cut(output.stdout, fault)
        case "garbage":
            output.stdout = fault.text
        case "empty":
            output.stdout = output.stderr = ""
        case "exit":
            output.exit_code = fault.code
        case "die":
            output.stdout = cut(output.stdout, fault)
            output.exit_code = 255
            if host is not None:
                state.kill_server(host)


def cut(text: str, fault: Fault) -> str:
    """Return what a fault leaves of a text."""
    if fault.lines is not None:
        return "".join(text.splitlines(keepends=True)[: fault.lines])
    return text[: len(text) // 2 if fault.bytes is None else fault.bytes]
