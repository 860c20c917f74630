"""Count the files of Trimtab that a command runs: ``python scripts/files_run.py judge --csv FILE``.

A file counts if one of its functions was called in this process; being imported is not enough.
"""

from __future__ import annotations

import inspect
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Final

from trimtab.cli import main

PACKAGE: Final = Path(__file__).resolve().parents[1] / "src" / "trimtab"


def files_run(words: list[str]) -> tuple[int, list[str]]:
    """Return a command's exit code, and the files of which it called a function."""
    called: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        # The bodies of modules and classes are no functions.
        is_function = event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if is_function and frame.f_code.co_filename not in called and not _is_import(frame):
            called.add(frame.f_code.co_filename)

    code = 0
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    names = (Path(name) for name in called)
    return code, sorted(
        str(name.relative_to(PACKAGE)) for name in names if name.is_relative_to(PACKAGE)
    )


def _is_import(frame: FrameType | None) -> bool:
    """Return whether a call is part of importing a module."""
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    ended_with, files = files_run(sys.argv[1:])
    print(*files, f"{len(files)} files", sep="\n", file=sys.stderr)
    sys.exit(ended_with)
