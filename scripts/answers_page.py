"""Make the table of docs/maturity.md from what the stand-in for a Lustre answers.

What stands between ``<!-- answers -->`` and ``<!-- end -->`` is made from
tests/fake_lustre/answers.py. Without arguments the page is written; with ``--check`` it is only
compared.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402
from tests.fake_lustre.answers import ASSUMED, ASSUMED_AS_A_WHOLE, RECORDED  # noqa: E402

PAGE = ROOT / "docs" / "maturity.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is out of date."""
    page = remade(PAGE.read_text(), {"answers": text_of(_lines())})
    return write_or_check({PAGE: page}, arguments)


def _lines() -> Iterator[str]:
    assumed = (*ASSUMED_AS_A_WHOLE, *ASSUMED)
    resting = sum(row.changes for row in assumed)
    versions = sorted({row.recording[0] for row in RECORDED if row.recording is not None})
    yield f"Recorded: {len(RECORDED)} kinds of answers ({', '.join(versions)})."
    yield f"Assumed: {len(assumed)}, and a change rests on {resting} of them."
    yield ""
    yield "| assumed | exit code | what rests on it | a change |"
    yield "|---|---|---|---|"
    for row in assumed:
        form = row.form.replace("|file ", " ").replace("|", "\\|")
        name = form if row in ASSUMED_AS_A_WHOLE or not form else f"`{form}`"
        code = "" if row.words[:1] == ("file",) or row in ASSUMED_AS_A_WHOLE else row.exit_code
        changes = "**yes**" if row.changes else ""
        yield f"| {name or 'any other command'} | {code} | {row.rests} | {changes} |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
