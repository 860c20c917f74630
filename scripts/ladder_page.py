"""Write what `trimtab ladder` says of the worked examples into docs/ladder.md.

What stands between ``<!-- ladder FILE -->`` or ``<!-- printed -->`` and ``<!-- end -->`` is made
from the data. Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from trimtab.judge.efficiency_ladder import CheckedClaim, Match
from trimtab.judge.ladder_analysis import build_ladder
from trimtab.probe.ladder import of_file
from trimtab.probe.page_comparison import MATCHES, computed_text, printed_text
from trimtab.probe.question_file import load_ladder

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import names_of, remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "ladder.md"
_WIDTH = 120


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    page = PAGE.read_text()
    made = remade(page, {name: _made(name) for name in names_of(page)})
    return write_or_check({PAGE: made}, arguments)


def _made(name: str) -> str:
    if name == "printed":
        return printed_table()
    return f"```\n{ladder_output(name.removeprefix('ladder '))}```\n"


def ladder_output(file: str) -> str:
    """Return what the command prints of a file, up to the printed values."""
    trimtab = Path(sys.executable).parent / "trimtab"
    ended = subprocess.run(
        [str(trimtab), "ladder", file, "--all"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": str(_WIDTH)},
    )
    text = ended.stdout.partition("\nprinted values, and")[0]
    command = f"$ trimtab ladder {file} --all"
    return text_of([command, *(line.rstrip() for line in text.splitlines())])


def printed_table() -> str:
    """Return every printed value of all examples with what its inputs give, as Markdown."""
    lines = [
        "| printed | what | from | inputs give | within rounding | |",
        "|---|---|---|---|---|---|",
    ]
    for file in sorted((ROOT / "docs" / "examples").glob("*.toml")):
        if "[ladder]" not in file.read_text():
            continue
        ladder = build_ladder(of_file(load_ladder(file)))
        lines.append(f"| | **{ladder.name}** | [{file.name}](examples/{file.name}) | | | |")
        lines += [_row(one) for one in ladder.claims]
    return text_of(lines)


def _row(one: CheckedClaim) -> str:
    claim = one.claim
    value, bounds = computed_text(one)
    what = f"{claim.what} ({claim.where})" if claim.where else claim.what
    formula = f"`{claim.formula}`" if claim.formula else "-"
    match = MATCHES[one.match][0]
    match = match if one.match is Match.GIVEN else f"**{match}**"
    said = "; ".join(filter(None, (match, claim.assumes, claim.note)))
    return f"| {printed_text(one)} | {what} | {formula} | {value} | {bounds} | {said} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
