"""Write the table of formats in docs/import.md from the table of benchmarks.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

from trimtab.formats.format_table import TABLE

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

PAGE = ROOT / "docs" / "import.md"


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    return write_or_check({PAGE: remade(PAGE.read_text(), {"formats": _rows()})}, arguments)


def _rows() -> str:
    lines = ["| kind | reads | page |", "|---|---|---|"]
    for benchmark in TABLE:
        where = benchmark.documentation
        page = f"[{benchmark.title}]({where})" if where else ""
        lines.append(
            f"| `{benchmark.name}` | {benchmark.summary} | {page} |".replace("|  |", "| |")
        )
    lines.append(
        "| `lfs-df` | `lfs df`, as a snapshot | [lfs df](benchmarks/lustre-dumps.md#lfs-df) |"
    )
    lines.append(
        "| `lctl-get-param` | dumps of a server's parameters, as a snapshot "
        "| [lctl get_param](benchmarks/lustre-dumps.md#lctl-get_param) |"
    )
    return text_of(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
