"""When and on what was measured: no path and no host name, which mean nothing elsewhere."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from typing import Any


def measured_on() -> dict[str, Any]:
    """Return the date, and the machine with what else it has to do now."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "machine": {
            "processors": os.cpu_count(),
            "architecture": platform.machine(),
            "kernel": platform.release(),
            "load_average": os.getloadavg(),
        },
    }


def measured_at() -> dict[str, str]:
    """Return the time, the machine in words, as pages print it, and the version of Python."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}",
        "python": platform.python_version(),
    }
