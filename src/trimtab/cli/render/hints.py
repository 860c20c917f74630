"""Hints for a job as text: what to paste, then why."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.cli.render.text import console
from trimtab.explain.hints import Basis, Hint, JobRequest, paste_text

_STYLES = {Basis.MEASURED: "green", Basis.DOCUMENTED: "", Basis.RULE_OF_THUMB: "yellow"}


def print_hints(request: JobRequest, hints: Sequence[Hint], directory: str) -> None:
    """Print lines for a job script, and beneath them the reason of each."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    out.print("For the job script", style="bold")
    for line in paste_text(request, hints, directory).splitlines():
        out.print(line, soft_wrap=True)
    out.print()
    out.print("Why", style="bold")
    sources = list(dict.fromkeys(hint.source for hint in hints))
    for hint in hints:
        head = Text(f"{hint.name} {hint.value}  ")
        head.append(hint.basis.value, style=_STYLES[hint.basis])
        head.append(f" [{sources.index(hint.source) + 1}]", style="dim")
        out.print(head, soft_wrap=True)
        out.print(Padding(Text(f"{hint.reason}."), (0, 0, 0, 2)))
    out.print()
    for number, source in enumerate(sources, start=1):
        out.print(Text(f"[{number}] {source}", style="dim"), soft_wrap=True)
