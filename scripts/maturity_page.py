"""Make the tables of docs/maturity.md: what ran on a real Lustre, and what the stand-in assumes.

The block ``live`` is the last result of ``make live``, benchmarks/results/live.json; ``answers`` is
made from tests/fake_lustre/answers.py. Without arguments the page is written; with ``--check`` it
is only compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402
from tests.fake_lustre.answers import ASSUMED, ASSUMED_AS_A_WHOLE, RECORDED  # noqa: E402
from tests.live.rows import CAPABILITIES  # noqa: E402
from tests.live.running import outcomes_of, table  # noqa: E402

LIVE = ROOT / "benchmarks" / "results" / "live.json"
PAGE = ROOT / "docs" / "maturity.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is out of date."""
    blocks = {"live": text_of(_ran()), "answers": text_of(_assumed())}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def _ran() -> Iterator[str]:
    kept = json.loads(LIVE.read_text())
    outcomes = outcomes_of(kept)
    days = sorted({outcome.at[:10] for outcome in outcomes.values()})
    passed = sum(outcome.passed for outcome in outcomes.values())
    yield (
        f"{passed} of {len(CAPABILITIES)} passed on {' and '.join(days)}: Lustre {kept['lustre']} "
        f"on Linux {kept['kernel']}, Trimtab at {kept['commit']}."
    )
    yield ""
    yield from table(list(CAPABILITIES.values()), outcomes).splitlines()


def _assumed() -> Iterator[str]:
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
