"""Write what a shell of an installed Trimtab uses: man pages, and completion for three shells.

``python scripts/shell_files.py build/share`` fills a directory that goes to ``/usr/share``. All is
derived from the commands themselves.
"""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from trimtab.base.code_version import __version__
from trimtab.cli import completion_script, trimtab

COMPLETIONS: Final = {
    "bash": "bash-completion/completions/trimtab",
    "zsh": "zsh/site-functions/_trimtab",
    "fish": "fish/vendor_completions.d/trimtab.fish",
}


def commands(
    command: click.Command, context: click.Context
) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield a command and all below it, each with its context."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, info_name=name, parent=context)
            yield from commands(below, inner)


def man_page(command: click.Command, context: click.Context) -> str:
    """Return the page of one command in the language of man(7)."""
    path = context.command_path
    name = path.replace(" ", "-")
    short = command.get_short_help_str(200).rstrip(".")
    lines = [
        f'.TH "{name.upper()}" 1 "" "Trimtab {__version__}" "User Commands"',
        ".ad l",  # a list of choices has no space to stretch
        ".SH NAME",
        rf"{_roff(name)} \- {_roff(short)}",
        ".SH SYNOPSIS",
        rf".B {_roff(path)}",
        _roff(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(inspect.cleandoc(command.help or "")),
        ".SH OPTIONS",
        *_options(command, context),
    ]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for below in command.list_commands(context):
            lines += [".TP", rf"\fB{_roff(name)}\-{_roff(below)}\fR(1)"]
            lines.append(_roff(_short(command, context, below)))
    above = [] if context.parent is None else [context.parent.command_path.replace(" ", "-")]
    if above:
        lines += [".SH SEE ALSO", rf"\fB{_roff(above[0])}\fR(1)"]
    return "\n".join(lines) + "\n"


def _short(group: click.Group, context: click.Context, name: str) -> str:
    table = getattr(group, "table", {})
    if name in table:
        return table[name][1]
    below = group.get_command(context, name)
    return "" if below is None else below.get_short_help_str(200)


def _paragraphs(text: str) -> Iterator[str]:
    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            yield ".PP"
        yield _roff(" ".join(paragraph.split()))


def _options(command: click.Command, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None:
            yield ".TP"
            yield rf"\fB{_roff(record[0])}\fR"
            yield _roff(record[1])


def _roff(text: str) -> str:
    """Return text of which no character acts."""
    escaped = text.replace("\\", r"\(rs").replace("-", r"\-").replace("'", r"\(aq")
    escaped = escaped.replace("|", r"|\:")  # a line may end there: lists of choices are long words
    return rf"\&{escaped}" if escaped.startswith(".") else escaped


def write(share: Path) -> list[Path]:
    """Write every file below a directory and return their paths."""
    texts = {f"man/man1/{name}.1": page for name, page in man_pages()}
    texts |= {place: completion_script(shell) for shell, place in COMPLETIONS.items()}
    for place, text in texts.items():
        path = share / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o644)
    return [share / place for place in texts]


def man_pages() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every page."""
    root = click.Context(trimtab, info_name="trimtab")
    for command, context in commands(trimtab, root):
        yield context.command_path.replace(" ", "-"), man_page(command, context)


def main(arguments: Sequence[str] | None = None) -> None:
    """Write them where it is asked for, and say how many."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("share", type=Path)
    written = write(parser.parse_args(arguments).share)
    print(f"{len(written)} files")


if __name__ == "__main__":
    main()
