"""House style as a test: what ruff, pyrefly and import-linter do not check.

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
    r"^(?!settings\.register_profile).*\bderandom" + r"ize=|@se" + r"ed\(": "profiles of "
    "tests/conftest.py choose the examples: the same in every gate, others in every soak",
    r"/ro" + r"ot/|/wo" + r"rk/": "no path of one machine",
    r"\bfac" + r"ts/|\bfirst se" + r"ed\b": "cite a source by its number in docs/sources.md",
}
ERRORS = re.compile("(Usage|Tool|Refused|Unreadable|Data)Error|NoAnswer|NeverStarted|JobLost")
EMPTY_NAMES = re.compile(
    "_*(asked|found|given|how|kept|one|own|said|such|there|these|thing|things|told|what)_*"
)
"""Words that name nothing: a binding says what it holds."""


def main() -> int:
    """Print every complaint and return 1 if there was one."""
    complaints = [complaint for rule in RULES for complaint in rule()]
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
    banned = re.compile("|".join(BANNED), re.MULTILINE)
    for path in _tracked(".py", ".rs", ".toml", ".sh", ".md", ".j2"):
        text = path.read_text()
        if path == Path(__file__).resolve() or not banned.search(text):
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            for pattern, reason in BANNED.items():
                if re.search(pattern, line):
                    yield f"{path.relative_to(ROOT)}:{number}: {reason}"


def _code() -> Iterator[str]:
    """Apply the rules for nodes to the package's code, each file parsed once."""
    for path in _tracked(".py"):
        if path.is_relative_to(ROOT / "src"):
            for node in ast.walk(ast.parse(path.read_text())):
                for rule in (_functions, _names, _codes):
                    for complaint in rule(node):
                        yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {complaint}"


def _functions(node: ast.AST) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        lines = (node.end_lineno or node.lineno) - node.lineno + 1
        if lines > FUNCTION_LINES_MAXIMUM:
            yield f"{node.name} has {lines} lines; it does not fit in a head"


def _names(node: ast.AST) -> Iterator[str]:
    """Find bindings that say nothing; fields are data, named as documents and stores name them."""
    match node:
        case ast.Attribute(value=ast.Name(), attr=name, ctx=ast.Store()):
            names = [name]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            names = [getattr(node, "name", ""), *_parameters(node)]
            names += _variables(node)
        case _:
            names = []
    yield from (
        f"{name} names nothing: say what it holds" for name in names if EMPTY_NAMES.fullmatch(name)
    )


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[str]:
    arguments = function.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        yield argument.arg


def _variables(function: ast.AST) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _codes(node: ast.AST) -> Iterator[str]:
    """Find errors whose sentence is written in place and has no code; a `Message` has its own."""
    match node:
        case ast.Call(func=ast.Name(id=error), args=[ast.Constant() | ast.JoinedStr(), *_]) if (
            ERRORS.fullmatch(error) and "code" not in {word.arg for word in node.keywords}
        ):
            yield f"{error} without a code, which programs and tests hold on to"


def _sizes() -> Iterator[str]:
    for path in _tracked():
        if path.stat().st_size > TRACKED_BYTES_MAXIMUM:
            yield f"{path.relative_to(ROOT)}: larger than 1 MiB"
    for path in _tracked(".py", ".rs"):
        lines = len(path.read_text().splitlines())
        if lines > FILE_LINES_MAXIMUM:
            yield f"{path.relative_to(ROOT)}: {lines} lines; split it"


RULES = (_text, _code, _sizes)

if __name__ == "__main__":
    sys.exit(main())
