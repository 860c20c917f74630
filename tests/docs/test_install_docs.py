"""What the page on installation tells people to type is what the program takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from trimtab.base.site import Servers
from trimtab.cli import trimtab
from trimtab.reach.lustre.server_query import ask_servers
from trimtab.reach.process import ProcessResult
from trimtab.store.location import SYSTEM_DIRECTORY
from trimtab.store.purge_place import DEFAULT

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "install.md").read_text()
TYPED = re.findall(r"^(?:\$|root#) trimtab ([a-z].*?)(?:\s+#.*|\s+>.*)?$", PAGE, re.MULTILINE)


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


def layout() -> dict[str, tuple[str, str]]:
    """Return owner and mode of every directory that is declared, by path."""
    lines = (ROOT / "deploy/tmpfiles.d/trimtab.conf").read_text().splitlines()
    fields = [line.split() for line in lines if not line.startswith("#")]
    assert all(kind == "d" and user == group for kind, _, _, user, group, _ in fields)
    return {path: (user, mode) for _, path, mode, user, *_ in fields}


def test_the_table_of_directories_is_the_declared_one() -> None:
    rows = re.findall(r"^\| `(/[^`]+)` \| (\w+) \| (\d{4}) \|", PAGE, re.MULTILINE)
    assert {path: (owner, mode) for path, owner, mode in rows} == layout()


def test_nothing_of_roots_lies_below_what_another_user_can_write() -> None:
    for path, (owner, mode) in layout().items():
        for above, (owner_above, mode_above) in layout().items():
            if path.startswith(f"{above}/"):
                assert owner_above == "root", (path, above)
                assert not int(mode_above, 8) & 0o022, (path, above)
        # The lists of users are there for users.
        if path.startswith("/var/spool/"):
            assert (owner, int(mode, 8) & 0o001) == ("root", 1), path


def test_defaults_and_units_are_of_the_declared_directories() -> None:
    assert str(SYSTEM_DIRECTORY) in layout()
    assert layout()[str(DEFAULT)] == ("root", "0700")
    home = (ROOT / "deploy/sysusers.d/trimtab.conf").read_text().split()[-1]
    assert layout()[home] == ("trimtab", "0700")
    for unit in ("trimtab-watch@.service", "trimtab-web.service"):
        text = (ROOT / "deploy" / unit).read_text()
        (directory,), (mode,) = (
            re.findall(rf"^{key}=(\S+)$", text, re.MULTILINE)
            for key in ("StateDirectory", "StateDirectoryMode")
        )
        assert layout()[f"/var/lib/{directory}"] == ("root", mode)
        for line in re.findall(r"^Read\w+Paths=(.*)$", text, re.MULTILINE):
            assert {path.lstrip("-") for path in line.split()} <= layout().keys()
        assert "\nUser=" not in text
    drop_in = PAGE.partition("```ini\n")[2].partition("```")[0]
    assert f"\nStateDirectory={Path(home).name}\n" in drop_in
    assert f"\nWorkingDirectory={home}\n" in drop_in


def test_every_path_that_is_named_is_in_a_declared_directory() -> None:
    """``trimtab-act`` is on servers, made by hand (deploy/README.md)."""
    named: dict[str, str] = {}
    for folder in ("src", "docs", "deploy", "scripts"):
        for file in (ROOT / folder).rglob("*"):
            if file.is_file() and file.suffix in {".py", ".md", ".service", ".toml", ".conf", ""}:
                text = file.read_text(errors="replace")
                for path in re.findall(r"/var/(?:lib|spool)/trimtab[\w./-]*", text):
                    named[path.rstrip("./")] = str(file.relative_to(ROOT))
    assert len(named) > 8
    declared = {*layout(), "/var/lib/trimtab-act"}
    assert {
        path: file
        for path, file in named.items()
        if not any(path == place or path.startswith(f"{place}/") for place in declared)
    } == {}


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
