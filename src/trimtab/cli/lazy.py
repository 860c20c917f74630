"""Groups of commands whose modules are imported when they are called: start-up is a feature."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click


class LazyGroup(click.Group):
    """A group that imports a subcommand's module only when it is called.

    Attributes
    ----------
    table
        Every subcommand, in order: the module that holds ``command``, and one line of help.
    """

    table: Mapping[str, tuple[str, str]] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or ``None`` if there is none of that name."""
        if cmd_name not in self.table:
            return None
        return import_module(self.table[cmd_name][0]).command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of subcommands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self.table.items()])
