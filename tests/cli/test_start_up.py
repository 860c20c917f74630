"""``--help`` is a light answer: no command loads documents, a site's file or a store to give it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.cli

PROGRAM = """
import sys
import click
from trimtab.cli import trimtab

HEAVY = ("trimtab.show.document", "trimtab.site.lookup", "trimtab.store.store", "numpy", "polars")

seen = set()

def walk(group, context, words):
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        beneath = click.Context(command, info_name=name, parent=context)
        command.get_help(beneath)
        new = {module for module in HEAVY if module in sys.modules} - seen
        seen.update(new)
        print(*words, name, *new)
        if isinstance(command, click.Group):
            walk(command, beneath, [*words, name])

walk(trimtab, click.Context(trimtab, info_name="trimtab"), ["trimtab"])
"""


def test_help_of_a_command_loads_nothing_heavy() -> None:
    words = [sys.executable, "-c", PROGRAM]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    lines = [line.split() for line in ended.stdout.splitlines()]
    assert ["trimtab", "purge", "run"] in lines
    assert [
        line for line in lines if "trimtab." in line[-1] or line[-1] in {"numpy", "polars"}
    ] == []
