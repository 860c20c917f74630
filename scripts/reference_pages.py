"""Write the reference of the documentation from the code: commands, tables of the store, library.

docs/commands.md whole, and a block of docs/store.md and of docs/library.md. ``--check`` says which
differ.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

DOCS: Final = ROOT / "docs"
PACKAGES: Final = ("trimtab", "trimtab.judge")
"""Packages whose ``__all__`` programs may rely on."""


def commands_page() -> str:
    """Return the page of every command with its options."""
    from trimtab.cli import COMMANDS, trimtab
    from trimtab.show.command_group import loaded

    lines = [
        "# Commands",
        "",
        "Made from `trimtab --help`. Each page of the guide names its commands.",
    ]
    for name, (place, _) in COMMANDS.items():
        command = loaded(place)
        lines += _command(f"trimtab {name}", command, click.Context(trimtab, info_name="trimtab"))
    return text_of(lines)


def _command(words: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, parent=parent, info_name=words.rpartition(" ")[2])
    pieces = " ".join(command.collect_usage_pieces(context))
    yield from ("", f"## {words}", "", "```", f"{words} {pieces}".rstrip(), "```", "")
    yield from inspect.cleandoc((command.help or "").partition("\f")[0]).splitlines()
    rows = [
        record
        for option in command.params
        if option.name != "help" and (record := option.get_help_record(context)) is not None
    ]
    if rows:
        yield from ("", "| option | |", "|---|---|")
        for names, help_text in rows:
            described = " ".join(help_text.split()).replace("|", "\\|")
            yield f"| `{names.replace('|', '/')}` | {described} |"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from _command(f"{words} {name}", below, context)


def tables() -> str:
    """Return the tables of the store."""
    from trimtab.store import schema

    lines = ["", f"Schema revision {schema.HEAD}."]
    for table in schema.metadata.tables.values():
        lines += ["", f"### {table.name}", "", "| column | type | |", "|---|---|---|"]
        for column in table.columns:
            notes = ["key"] if column.primary_key else []
            notes += [f"→ {key.target_fullname}" for key in column.foreign_keys]
            notes += ["may be null"] if column.nullable else []
            lines.append(f"| `{column.name}` | {_type_of(column.type)} | {', '.join(notes)} |")
    return text_of(lines)


def _type_of(kind: Any) -> str:
    known = {"UtcMicroseconds": "time", "PlainJson": "JSON", "AnyText": "text", "Text": "text"}
    numbers = {"BigInteger": "integer", "Integer": "integer", "Double": "number"}
    more = {"Boolean": "true or false", "LargeBinary": "bytes"}
    return {**known, **numbers, **more}[type(kind).__name__]


def functions() -> str:
    """Return what programs may import."""
    lines: list[str] = []
    for name in PACKAGES:
        package = importlib.import_module(name)
        for export in package.__all__:
            if export != "__version__":
                lines += _export(f"{name}.{export}", getattr(package, export))
    return text_of(lines)


def _export(name: str, value: Any) -> Iterator[str]:
    yield from ("", f"### {name}", "", "```", *_described(name, value))
    if inspect.isclass(value):
        for method, function in vars(value).items():
            if not method.startswith("_") and callable(function):
                yield from ("", *_described(f".{method}", function))
    yield "```"


def _described(name: str, value: Any) -> Iterator[str]:
    signature = str(inspect.signature(value)).replace("'", "")
    yield f"{name}{signature.partition(' -> ')[0]}"
    for line in (inspect.getdoc(value) or "").splitlines():
        yield f"    {line}".rstrip()


def pages() -> dict[Path, str]:
    """Return each page with its text."""
    return {
        DOCS / "commands.md": commands_page(),
        **_block("store.md", "tables", tables()),
        **_block("library.md", "functions", functions()),
    }


def _block(page: str, name: str, text: str) -> dict[Path, str]:
    return {DOCS / page: remade((DOCS / page).read_text(), {name: text})}


if __name__ == "__main__":
    sys.exit(write_or_check(pages(), sys.argv[1:]))
