"""Running small system tools (fstrim, blkid, nvme, systemctl) with a deadline and no shell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trimtab.errors import ToolError
from trimtab.launch.process import Execute, ProcessResult
from trimtab.model.telemetry import NotAvailable, not_available

OUTPUT_LIMIT_BYTES: Final = 1 << 22
"""These tools print a page; the longest is a drive's JSON log of about 10 KiB."""


def run_tool(
    execute: Execute,
    argv: Sequence[str],
    *,
    timeout_s: float,
    environment: dict[str, str] | None = None,
) -> ProcessResult | NotAvailable:
    """Return the result of a tool that succeeded, or why there is none.

    Never raises: a missing, late or failed tool is a reason.
    """
    try:
        result = execute(
            argv,
            timeout_s=timeout_s,
            output_limit_bytes=OUTPUT_LIMIT_BYTES,
            environment=environment,
        )
    except ToolError as error:
        return not_available(error.code, error.message)
    if result.problem is not None:
        text = f"{' '.join(argv[:2])}: {result.problem}{complaint(result)}"
        return not_available("tool-failed", text)
    return result


def complaint(result: ProcessResult) -> str:
    """Return the first line of a tool's standard error as ``: text``, shortened."""
    text = (result.stderr or result.stdout).decode("utf-8", "replace").strip()
    return f": {text.splitlines()[0][:200]}" if text else ""
