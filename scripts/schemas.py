"""Write the JSON Schema of every ``--json`` document and of the site file into a directory.

``docs/schemas`` is committed: what changes there changes what programs read, and belongs into
``CHANGELOG.md``. ``tests/report/documents/test_schemas.py`` compares it with the code.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from trimtab.model.compare import CompareResult
from trimtab.model.ladder import Ladder
from trimtab.model.status import Status
from trimtab.model.target import SiteState
from trimtab.report.documents import judged, measured, purged, simulated
from trimtab.report.documents.encode import schema
from trimtab.site.schema import json_schema
from trimtab.twin.kept import TwinRun
from trimtab.twin.scenario.model import Scenario
from trimtab.whatif.sizing.sizing import Sizing

DOCUMENTS: Final[Mapping[str, type]] = {
    "check": measured.CheckDocument,
    "status": Status,
    "runs": measured.RunsDocument,
    "show": measured.ShowDocument,
    "init": measured.InitDocument,
    "site": measured.SiteDocument,
    "targets": SiteState,
    "snapshot": measured.SnapshotDocument,
    "watch": measured.WatchDocument,
    "probe": measured.ProbeDocument,
    "sweep": judged.SweepDocument,
    "import": measured.ImportDocument,
    "compare": CompareResult,
    "hints": judged.HintsDocument,
    "ladder": Ladder,
    "survey": measured.SurveyDocument,
    "judge": judged.JudgeDocument,
    "incidents": judged.IncidentsDocument,
    "explain": judged.ExplainDocument,
    "correlate": judged.CorrelateDocument,
    "event": measured.EventsDocument,
    "size": Sizing,
    "whatif": simulated.WhatIfDocument,
    "reproduce": simulated.ReproduceDocument,
    "twin": simulated.AmplificationDocument,
    "twin-list": simulated.ScenariosDocument,
    "twin-run": TwinRun,
    "twin-show": Scenario,
    "purge": purged.PurgeReportDocument,
    "purge-policy": purged.PurgePolicyDocument,
    "purge-scan": purged.IndexDocument,
    "purge-import": purged.IndexDocument,
    "purge-query": purged.PurgeQueryDocument,
    "purge-horizon": purged.PurgeHorizonDocument,
    "purge-evasion": purged.PurgeEvasionDocument,
    "purge-replay": purged.PurgeReplayDocument,
    "purge-plan": purged.PurgePlanDocument,
    "purge-notify": purged.PurgeNotifyDocument,
    "purge-arm": purged.PurgeArmDocument,
    "purge-run": purged.PurgeRunDocument,
    "error": measured.FailureDocument,
}
"""Name of the schema to what the command prints."""


def schemas() -> dict[str, dict[str, Any]]:
    """Return the schema of every document and of the site file by name."""
    return {name: schema(kind) for name, kind in DOCUMENTS.items()} | {"site-file": json_schema()}


def main(directory: str) -> None:
    """Write one ``NAME.json`` a document."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, document in schemas().items():
        (target / f"{name}.json").write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
