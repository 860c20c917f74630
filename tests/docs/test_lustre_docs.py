"""What the pages say is read is what is read, to the name; every trap is told whole."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.support.each import for_each

from trimtab.base.site import Servers, Ssh
from trimtab.base.snapshot import TELEMETRY_UNITS
from trimtab.reach.lustre import collector, collector_tree, read_table, server_query

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "lustre.md").read_text()
TRAPS = (DOCS / "traps.md").read_text()
LEADS = ("What happens.", "Why.", "What Trimtab does.", "By hand.")
MIB = 2**20


def section(text: str, *titles: str) -> str:
    """Return the text below a heading, down to the next of its level or above."""
    for level, title in enumerate(titles, start=2):
        _, found, text = text.partition(f"\n{'#' * level} {title}\n")
        assert found, title
        text = re.split(rf"\n#{{2,{level}}} ", text)[0]
    return text


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of every row of the tables in a text, headings left out."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        heading = number + 1 < len(lines) and re.fullmatch(r"[|\- ]+", lines[number + 1])
        if line.startswith("|") and not heading and not re.fullmatch(r"[|\- ]+", line):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def coded(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def firsts(text: str) -> list[str]:
    return [name for row in rows(text) for name in coded(row[0])]


@pytest.mark.parametrize(
    ("titles", "read"),
    [
        (
            ("Parameters", "Of a server"),
            {*read_table.SERVER_PARAMETERS, *read_table.SERVER_IMPORTS},
        ),
        (
            ("Parameters", "Of the client"),
            {*read_table.CLIENT_PARAMETERS, *read_table.CLIENT_IMPORTS},
        ),
        (("Where each value of a target comes from",), TELEMETRY_UNITS),
    ],
    ids=lambda value: value[-1] if isinstance(value, tuple) else "",
)
def test_every_name_is_told_once(titles: tuple[str, ...], read: Collection[str]) -> None:
    assert sorted(firsts(section(PAGE, *titles))) == sorted(read)


def test_commands_on_a_server() -> None:
    told = {
        coded(key)[0]: (coded(command)[0], rights)
        for command, key, rights, _ in rows(section(PAGE, "Commands", "On a server"))
    }
    read = {
        key: (" ".join(command["argv"]), "sudo" if command.get("sudo") else "anybody")
        for key, command in read_table.COMMANDS.items()
    }
    assert told == {**read, "parameters": ("lctl get_param ...", read["parameters"][1])}


def test_files_of_a_server() -> None:
    below = {
        "ldiskfs: settings and errors": "/sys/fs/ldiskfs/*/",
        "ldiskfs: statistics": "/proc/fs/ldiskfs/*/",
    }
    part = section(PAGE, "Files of a server")
    told = firsts(part.partition("\n### ")[0])
    for title, directory in below.items():
        told += [directory + name for name in firsts(section(PAGE, "Files of a server", title))]
    assert sorted(told) == sorted(read_table.SERVER_FILES)


def test_files_of_block_devices() -> None:
    part = section(PAGE, "Files of a server", "Block devices")
    told = {name for row in rows(part) for name in coded(row[1])}
    assert told == collector_tree.BLOCK_NAMES


def test_limits() -> None:
    told = {row[0]: row[1] for row in rows(section(PAGE, "How, and how often"))}
    request = read_table.server_request(deadline_s=Servers().timeout_s, sudo=None)
    commands = request["commands"]
    assert told == {
        "deadline of one server, for everything": f"{Servers().timeout_s:g} s",
        "deadline of one command on a server": f"{commands[0]['timeout_s']:g} s",
        "commands at the same time on a server": f"{collector.JOBS_AT_ONCE}",
        "NVMe drives asked on a server": f"{collector.EACH_LIMIT}",
        f"processes of one name that hang in the kernel for {collector.HUNG_S / 60:g} min,"
        " from which on no more are started": f"{collector.HUNG_LIMIT}",
        "block devices looked at on a server": f"{collector_tree.DEVICES_LIMIT}",
        "length of one file": f"{collector_tree.FILE_LIMIT_BYTES // MIB} MiB",
        "output of one command": f"{commands[0]['limit_bytes'] // MIB} MiB",
        "answer of one server": f"{request['limit_bytes'] // MIB} MiB",
        "deadline of the client's commands, for all of them": (
            f"{server_query.CLIENT_TIMEOUT_S:g} s"
        ),
        "from the deadline of one of them to SIGKILL, and from there to leaving it behind": (
            f"{server_query.KILL_S:g} s each"
        ),
        "connections at the same time": f"{Ssh().fanout}",
    }


def test_what_is_lost_without_rights_are_values_of_a_target() -> None:
    lost_because_then = [row for row in rows(section(PAGE, "Rights")) if len(row) == 3]
    lost = [name for row in lost_because_then for name in coded(row[0])]
    assert len(lost) > 5
    assert set(lost) <= set(TELEMETRY_UNITS)


@for_each("trap", re.findall(r"^## (.*)$", TRAPS, re.MULTILINE))
def test_a_trap_is_told_whole(trap: str) -> None:
    text = section(TRAPS, trap)
    assert re.findall(r"^\*\*(.*?)\*\*", text, re.MULTILINE) == list(LEADS)


@pytest.mark.parametrize("name", sorted(collector_tree.NEVER_OPENED))
def test_no_page_gives_a_command_that_reads_what_is_never_opened(name: str) -> None:
    for page in DOCS.glob("*.md"):
        blocks = re.findall(r"^```\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        inline = coded(page.read_text())
        for command in (*blocks, *inline):
            assert not re.search(rf"\b(cat|head|grep|less|dd)\b.*/{name}\b", command), page
