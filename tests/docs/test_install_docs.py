"""What the page on installation tells people to type is what the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from trimtab.cli.main import trimtab
from trimtab.drivers.lustre.asking import ask_servers
from trimtab.launch.process import ProcessResult
from trimtab.model.site import Servers

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
TYPED = re.findall(r"^\$ trimtab ([a-z].*?)(?:\s+#.*|\s+>.*)?$", PAGE, re.MULTILINE)


def test_the_page_walks_through_every_command_of_a_site() -> None:
    assert {line.split()[0] for line in TYPED} >= {"init", "site", "targets", "snapshot", "watch"}


@pytest.mark.parametrize("line", TYPED)
def test_a_line_that_is_to_be_typed_is_understood(line: str) -> None:
    name, *words = shlex.split(line)
    context = click.Context(trimtab)
    command = trimtab.get_command(context, name)
    assert command is not None, name
    command.make_context(name, words, parent=context)


def test_the_forced_command_is_what_the_servers_are_asked_to_run() -> None:
    asked: list[str] = []

    def fan_out(
        nodes: Sequence[str], argv: tuple[str, ...], **_: object
    ) -> Mapping[str, ProcessResult]:
        asked.append(shlex.join(argv))
        nothing = ProcessResult(argv, b"", b"", 0, None, datetime.now(UTC), 0.0, 1.0)
        return dict.fromkeys(nodes, nothing)

    ask_servers(Servers(oss=("oss01",)), "scratch", fan_out=fan_out)
    assert re.findall(r'command="([^"]+)"', PAGE) == asked


def test_files_of_the_source_tree_that_are_named_are_there() -> None:
    for name in re.findall(r"`((?:deploy|docs)/[\w./-]+)`", PAGE):
        assert (ROOT / name).exists(), name
