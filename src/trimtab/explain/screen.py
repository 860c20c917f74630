"""What ``trimtab hints`` shows on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trimtab.show import command_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trimtab.base.finding import Tone
    from trimtab.explain.hint import Hint, JobRequest


def print_hints(request: JobRequest, hints: Sequence[Hint], directory: str) -> None:
    """Print lines for a job script, followed by the reason of each."""
    from trimtab.explain.hint import HintBasis, paste_text
    from trimtab.show.document import Section
    from trimtab.show.screen_document import console, print_section, print_wrapped

    tones: dict[HintBasis, Tone | None] = {
        HintBasis.MEASURED: "healthy",
        HintBasis.DOCUMENTED: None,
        HintBasis.RULE_OF_THUMB: "warning",
    }
    out, extent = console(), command_options.extent()
    out.print("For the job script", style="bold")
    for line in paste_text(request, hints, directory).splitlines():
        out.print(line, soft_wrap=True)
    if extent.brief:
        return
    out.print("Why", style="bold")
    sources = list(dict.fromkeys(hint.source for hint in hints))
    for hint in hints:
        number = sources.index(hint.source) + 1
        title = f"{hint.name} {hint.value}  {hint.basis.value} [{number}]"
        print_section(out, Section(title, (f"{hint.reason}.",), tone=tones[hint.basis]))
    if not extent.everything:
        print_wrapped(out, "--all shows the sources, --brief the lines for the job script", "dim")
        return
    numbered = (f"[{number}] {source}" for number, source in enumerate(sources, start=1))
    print_section(out, Section(lines=tuple(numbered)))
