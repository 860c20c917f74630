"""That every command has a golden, or a reason why it has none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import click

from trimtab.cli import trimtab

LEFT_OUT: Final[Mapping[str, str]] = {
    "serve": "prints no document; its pages are goldens of the dashboard",
    "demo": "prints no document; simulates what `twin run` does, then serves it",
}
"""Commands without a golden, and why."""


def every_command() -> Iterator[str]:
    """Yield the words of every command that is no group: ``purge scan``."""
    yield from _below(trimtab, "")


def uncovered(goldens: Iterable[Any], left_out: Mapping[str, str] = LEFT_OUT) -> list[str]:
    """Return a line for each command that has no golden and no reason, or both, or is none."""
    called = {golden["command"] for golden in goldens if "command" in golden}
    commands = set(every_command())
    covered = {
        one for one in commands if any(f"{words} ".startswith(f"{one} ") for words in called)
    }
    return [
        *(f"`{one}` has no golden: add one, or a line to LEFT_OUT" for one in
          sorted(commands - covered - {*left_out})),
        *(f"`{one}` is in LEFT_OUT, and has a golden" for one in sorted(covered & {*left_out})),
        *(f"`{one}` is in LEFT_OUT, and no command" for one in sorted({*left_out} - commands)),
    ]  # fmt: skip


def _below(command: click.Command, words: str) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield words
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        held = command.get_command(context, name)
        assert held is not None
        yield from _below(held, f"{words} {name}".strip())
