"""What may stand in a site file: the fields of `trimtab.model.site`, and the known benchmarks."""

from __future__ import annotations

from typing import Any, Final

from trimtab.config.kinds import choice
from trimtab.config.schema import Schema
from trimtab.config.schema import json_schema as schema_of
from trimtab.measure.table import names
from trimtab.model.site import Site, SiteProbe

BENCHMARKS: Final = (
    *("auto", *names("phases", "one command")),  # what a probe can run by itself
    *names("site command", "servers"),  # the output of a probe's ``command`` may be that
)
_BENCHMARK: Final = choice(BENCHMARKS)
SCHEMA: Final = Schema(
    Site,
    home="site",
    tables={
        "site": "Which file system this is.",
        "servers": "",
        "limits": "",
        "snapshot": "When telemetry is read, besides before and after each probe.",
    },
    kinds={"probe.benchmark": _BENCHMARK},
)
PROBE: Final = Schema(SiteProbe, kinds={"benchmark": _BENCHMARK})
"""What may stand in one probe of it."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a site file, for editors."""
    return schema_of(SCHEMA)
