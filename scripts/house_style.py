"""House style as a test: what ruff, pyright and import-linter do not check.

Each rule is a function that yields complaints; ``make lint`` fails when there are any.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAXIMUM = 70
FILE_LINES_MAXIMUM = 600
TRACKED_BYTES_MAXIMUM = 1024**2
BANNED = {
    r"shell=True": "argument lists only: no shell string",
    r"os\.system\(": "argument lists only: no shell string",
    r"\bTO" + r"DO\b|\bFIX" + r"ME\b|\bXX" + r"X\b": "finish it, or write it down in an issue",
    r"Not" + r"ImplementedError": "no stubs",
    r"open\([^)]*mb_" + r"groups": "reading mb_groups to its end makes some targets read-only",
    r"/ro" + r"ot/|/wo" + r"rk/": "no path of one machine",
}


def main() -> int:
    """Print every complaint and return 1 if there was one."""
    complaints = [complaint for rule in (_text, _functions, _sizes) for complaint in rule()]
    for complaint in complaints:
        print(complaint)
    return 1 if complaints else 0


def _tracked(*suffixes: str) -> Iterator[Path]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in listing.stdout.split("\0"):
        path = ROOT / name
        if name and path.is_file() and (not suffixes or path.suffix in suffixes):
            yield path


def _text() -> Iterator[str]:
    for path in _tracked(".py", ".rs", ".toml", ".sh", ".md", ".j2"):
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            for pattern, reason in BANNED.items():
                if re.search(pattern, line) and path != Path(__file__).resolve():
                    yield f"{path.relative_to(ROOT)}:{number}: {reason}"


def _functions() -> Iterator[str]:
    for path in _tracked(".py"):
        if not path.is_relative_to(ROOT / "src"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAXIMUM:
                    where = f"{path.relative_to(ROOT)}:{node.lineno}"
                    yield f"{where}: {node.name} has {lines} lines; it does not fit in a head"


def _sizes() -> Iterator[str]:
    for path in _tracked():
        if path.stat().st_size > TRACKED_BYTES_MAXIMUM:
            yield f"{path.relative_to(ROOT)}: larger than 1 MiB"
    for path in _tracked(".py", ".rs"):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAXIMUM:
            yield f"{path.relative_to(ROOT)}: {lines} lines; split it"


if __name__ == "__main__":
    sys.exit(main())
