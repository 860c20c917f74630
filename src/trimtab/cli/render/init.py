"""What was found of a file system, its site file, and the files that make it watched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from trimtab.cli.render.document import print_section
from trimtab.cli.render.screen import console
from trimtab.report.sections import Document, Section
from trimtab.units import plural
from trimtab.visible import shell_text

if TYPE_CHECKING:
    from trimtab.loop.initialise import Discovery
    from trimtab.loop.installing.install import InstalledFile


def print_file(discovery: Discovery, text: str) -> None:
    """Print a site file on standard output, and what was found on standard error."""
    print_aside(*found_sections(discovery))
    print(text, end="")


def print_aside(*sections: Section) -> None:
    """Print sections on standard error."""
    page = console(to_error=True)
    for section in sections:
        print_section(page, section)


def found_sections(discovery: Discovery) -> tuple[Section, Section]:
    """Return what was found of a file system, and what was not."""
    return (
        Section(lines=tuple(f"found: {line}" for line in discovery.facts)),
        Section(lines=tuple(f"not found: {line}" for line in discovery.not_found), tone="warning"),
    )


def written_document(out: str, name: str, sections: tuple[Section, ...]) -> Document:
    """Return the page of a new site file, with how to check it."""
    return Document(
        f"Site {name} written to {out}.",
        sections,
        more=("Read it, then compare it with the live system:",),
        command=shell_text(["trimtab", "site", out, "--validate"]),
    )


_STATES = {"absent": "new", "same": "already there", "differs": "differs from the existing one"}


def planned_sections(discovery: Discovery, planned: Sequence[InstalledFile]) -> Iterator[Section]:
    """Yield which files to install, then each in full."""
    states = [_STATES[file.state.value] for file in planned]
    each = ", ".join(f"{count} {state}" for state, count in Counter(states).items())
    paths = (f"{file.path} ({state})" for file, state in zip(planned, states, strict=True))
    yield Section(
        f"The watch of {discovery.site.name} needs {plural(len(planned), 'file')}: {each}.",
        tuple(paths),
    )
    yield from found_sections(discovery)
    for file in planned:
        if file.state.value != "same":
            yield Section(file.path, commands=tuple(file.text.splitlines()))


def installed_document(name: str, written: Sequence[str], following: Sequence[str]) -> Document:
    """Return the installed files and the commands that come next."""
    done = f"{plural(len(written), 'file')} written" if written else "every file was already there"
    sections = Section(lines=tuple(written)), Section("next:", commands=tuple(following))
    return Document(f"Site {name}: {done}.", sections)
