"""Command groups that import a command only when it is called: start-up is a feature."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE: Final = "_TRIMTAB_COMPLETE"
"""Set by the completion scripts: complete the words in the environment instead of running."""


def loaded(place: str) -> click.Command:
    """Import a command from its place, ``module:name``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class SuggestingGroup(click.Group):
    """A group that suggests the nearest subcommand for an unknown one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the subcommand named by the first word; fail with a suggestion."""
        from trimtab.base.toml_problem import did_you_mean

        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = did_you_mean(name, self.list_commands(ctx))
            hint = near or f"{ctx.command_path} --help lists them"
            ctx.fail(f"there is no command {name!r}; {hint}")
        return super().resolve_command(ctx, args)


class LazyGroup(SuggestingGroup):
    """A group that imports a subcommand's module only when it is called.

    Attributes
    ----------
    groups
        Every subcommand under the title of its group, in order: ``module:command``, and one line
        of help.
    """

    groups: Mapping[str, Mapping[str, tuple[str, str]]] = {}

    @property
    def table(self) -> dict[str, tuple[str, str]]:
        """Every subcommand of every group."""
        return {name: entry for group in self.groups.values() for name, entry in group.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the subcommands in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a subcommand, or ``None`` if there is none of that name."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        command = loaded(entry[0])
        if COMPLETE in os.environ:
            from trimtab.show.command_options import completable

            return completable(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return the subcommands with this beginning, without importing them."""
        from click.shell_completion import CompletionItem

        options = click.Command.shell_complete(self, ctx, incomplete)
        return options + [
            CompletionItem(name, help=text)
            for name, (_, text) in self.table.items()
            if name.startswith(incomplete)
        ]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the subcommands group by group, without importing them."""
        widest = max(map(len, self.table))
        for title, group in self.groups.items():
            with formatter.section(title):
                formatter.write_dl(
                    [(name.ljust(widest), text) for name, (_, text) in group.items()]
                )
