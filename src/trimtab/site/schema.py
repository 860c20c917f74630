"""The schema of a site file: the fields of `trimtab.model.site`, and the benchmarks."""

from __future__ import annotations

from typing import Any, Final

from trimtab.config.kinds import choice
from trimtab.config.schema import Schema
from trimtab.config.schema import json_schema as schema_of
from trimtab.measure.table import names
from trimtab.model.site import Site, SiteProbe

BENCHMARKS: Final = (
    *("auto", *names("phases", "one command")),  # benchmarks that a probe can run by itself
    *names("site command", "servers"),  # outputs of a probe's ``command``
)
_BENCHMARK: Final = choice(BENCHMARKS)
SCHEMA: Final = Schema(
    Site,
    home="site",
    tables={
        "site": "The file system.",
        "servers": "",
        "limits": "",
        "snapshot": "When telemetry is read, in addition to before and after each probe.",
    },
    kinds={"probe.benchmark": _BENCHMARK},
)
PROBE: Final = Schema(SiteProbe, kinds={"benchmark": _BENCHMARK})
"""The schema of one probe."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a site file, for editors."""
    return schema_of(SCHEMA)
