"""Commands that screens, errors, pages and documents name, taken from text and read by click.

A command in a sentence goes from ``trimtab`` to the next mark of punctuation or to the prose that
follows it: words in small letters that are neither a subcommand nor the value of an option.
"""

from __future__ import annotations

import ast
import html
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import click

from trimtab.cli import trimtab

PLACE: Final = "PLACE"
"""Stands for what the program fills in: a site, a time, a path."""
_BEGIN: Final = re.compile(r"(?<![\w./-])trimtab (?=[a-z-])")
_PART: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|.", re.S)
_END: Final = re.compile(r"[;,()`\n|<>\[\]&'\"]|: |[.:?!](?=\s|$)| - ")
_CHOSEN: Final = re.compile(r"[A-Z]+")
_PROSE: Final = re.compile(r"[a-z]+")
_SCENARIOS: Final = {"template", "perlmutter"}
_FILLED_IN: Final = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)


def commands_in(text: str) -> Iterator[list[str]]:
    """Yield the words of every command in a text, with the prose behind it."""
    for begin in _BEGIN.finditer(text):
        line = ""
        for part in _PART.finditer(text, begin.end()):
            if len(part.group()) == 1 and _END.match(text, part.start()):
                break
            line += part.group()
        yield shlex.split(line)


def read(words: Sequence[str]) -> click.Context:
    """Let click read the words of a command, without running it; files need not exist.

    Raises
    ------
    click.UsageError
        There is no such command or option, or something is missing or too many.
    """
    context, command = click.Context(trimtab, info_name="trimtab"), trimtab
    rest = list(words)
    with patch.object(click.ParamType, "__call__", _converted):
        while isinstance(command, click.Group):
            if not rest:
                raise click.MissingParameter(ctx=context, param_type="subcommand")
            name, command, rest = command.resolve_command(context, rest)
            assert command is not None
            if not isinstance(command, click.Group):
                return command.make_context(name, rest, parent=context)
            context = click.Context(command, parent=context, info_name=name)
    raise AssertionError


_CONVERT: Final = click.ParamType.__call__


def _converted(
    kind: click.ParamType,
    value: Any,
    param: click.Parameter | None = None,
    ctx: click.Context | None = None,
) -> Any:
    """Return a value as click would, but for a file, and for what the reader puts in."""
    stands_for = isinstance(value, str) and _CHOSEN.fullmatch(value)
    return (
        value if stands_for or isinstance(kind, click.Path) else _CONVERT(kind, value, param, ctx)
    )


def without_prose(
    words: Sequence[str], *, names: Collection[str] = (), is_name_enough: bool = False
) -> list[str]:
    """Return a command without the prose behind it, as a reader would type it.

    Parameters
    ----------
    names
        Words in small letters that are no prose: the site's name.
    is_name_enough
        Whether the name of a command will do, as where it is only spoken of.

    Raises
    ------
    click.UsageError
        Click would not read it.
    """
    problem: click.UsageError = click.UsageError(f"no command: {' '.join(words)}")
    for count in range(len(words), 0, -1):
        if any(word.startswith("--") for word in words[count:]):
            break
        try:
            context = read(words[:count])
        except click.exceptions.Exit:  # --help
            return list(words[:count])
        except click.MissingParameter as error:
            if is_name_enough:
                return list(words[:count])
            problem = error
        except click.UsageError as error:
            problem = error
        else:
            taken = _positional(context) - {*names, *_SCENARIOS}
            if not any(_PROSE.fullmatch(word) for word in taken):
                return list(words[:count])
    raise problem


def _positional(context: click.Context) -> set[str]:
    """Return the words that a command takes by their place."""
    words: set[str] = set()
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument) and not isinstance(parameter.type, click.Choice):
            value = context.params.get(str(parameter.name))
            words |= {str(part) for part in (value if isinstance(value, tuple) else (value,))}
    return words


def literals(file: Path) -> Iterator[tuple[int, str, bool]]:
    """Yield the line and the text of each string of a module, and whether it is only for readers.

    What is filled in is `PLACE`. Docstrings, and help of options, name commands.
    """
    tree = ast.parse(file.read_text())
    spoken = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    spoken |= {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.keyword) and node.arg == "help"
        for part in ast.walk(node.value)
    }
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node)} - {id(node)}
            parts = (p.value if isinstance(p, ast.Constant) else PLACE for p in node.values)
            yield node.lineno, "".join(map(str, parts)), id(node) in spoken
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in inside
        ):
            yield node.lineno, node.value, id(node) in spoken


def hints(source: str) -> Iterator[str]:
    """Yield the strings of every ``hint=`` of a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.keyword) and node.arg == "hint":
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def every_command(command: click.Command, context: click.Context) -> Iterator[click.Command]:
    """Yield a command and all below it."""
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from every_command(below, context)


def template_text(file: Path) -> str:
    """Return what a template prints, with `PLACE` where something is filled in."""
    return html.unescape(_FILLED_IN.sub(PLACE, file.read_text()))
