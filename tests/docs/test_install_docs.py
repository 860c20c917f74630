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


INSTALLS = re.compile(
    r"\b(?:pip3?|pipx|uv|uvx|conda|mamba|spack|docker|podman|buildah|apt|apt-get|dnf|yum|zypper)\b"
    r"[^\n`&;|#]*?\b(?:install|add|run|pull|from)\b[^\n`&;|#]*?[\s'\"(]trimtab(?:\[[^\]]*\])?(?=[\s'\"`),]|$)"
)
"""A command that has some index looked up for the project's name."""


def named_to_an_index(text: str) -> list[str]:
    """Return the commands of a text that would install whatever has the project's name."""
    joined = text.replace("\\\n", " ")
    return [match for match in INSTALLS.findall(joined) if "--no-index" not in match]


def test_no_command_asks_an_index_for_a_name_that_anybody_could_register() -> None:
    folders = ("src", "docs", "deploy", "scripts", ".ci", "crates", "benchmarks")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*")]
    files += [file for file in ROOT.iterdir() if file.suffix in {".md", ".toml", ""}]
    texts = {
        file: file.read_text(errors="replace")
        for file in files
        if file.is_file() and file.suffix not in {".so", ".png", ".json", ".csv", ".pyc"}
    }
    assert len(texts) > 500
    found = {str(file.relative_to(ROOT)): named_to_an_index(text) for file, text in texts.items()}
    assert {file: commands for file, commands in found.items() if commands} == {}


@pytest.mark.parametrize(
    ("command", "is_safe"),
    [
        ("pip install trimtab", False),
        ("python -m pip install 'trimtab[web]'", False),
        ("uv tool install trimtab", False),
        ("pipx install \\\n  trimtab", False),
        ("spack install trimtab", False),
        ("docker run --rm trimtab check /scratch", False),
        ("pip install --no-index --find-links . 'trimtab[web]'", True),
        ('pip install "$(ls ./trimtab-*.whl)[dask]"', True),
        ("pip install --editable '.[dask]'", True),
        ("dnf install ./trimtab-1.rpm", True),
        ("spack install site.trimtab", True),
        ("podman run localhost/trimtab", True),
    ],
)
def test_commands_that_ask_an_index_are_told_from_others(command: str, is_safe: bool) -> None:
    assert (not named_to_an_index(command)) == is_safe
