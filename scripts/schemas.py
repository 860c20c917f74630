"""Write the JSON Schema of every ``--json`` document and of the site file into a directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trimtab.report.documents import (
    check,
    compare,
    correlate,
    events,
    hints,
    imported,
    incidents,
    judge,
    kept,
    ladder,
    probe,
    purge,
    purge_evasion,
    purge_replay,
    purge_run,
    reproduce,
    site,
    size,
    survey,
    sweep,
    twin,
    whatif,
)
from trimtab.site.schema import json_schema

DOCUMENTS = {
    "check": check.CheckDocument,
    "status": kept.StatusDocument,
    "runs": kept.RunsDocument,
    "show": kept.ShowDocument,
    "init": site.InitDocument,
    "site": site.SiteDocument,
    "targets": site.TargetsDocument,
    "snapshot": site.SnapshotDocument,
    "watch": site.WatchDocument,
    "probe": probe.ProbeDocument,
    "sweep": sweep.SweepDocument,
    "import": imported.ImportDocument,
    "compare": compare.CompareDocument,
    "hints": hints.HintsDocument,
    "ladder": ladder.LadderDocument,
    "survey": survey.SurveyDocument,
    "judge": judge.JudgeDocument,
    "incidents": incidents.IncidentsDocument,
    "explain": incidents.ExplainDocument,
    "correlate": correlate.CorrelateDocument,
    "event": events.EventsDocument,
    "size": size.SizeDocument,
    "whatif": whatif.WhatIfDocument,
    "reproduce": reproduce.ReproduceDocument,
    "twin": twin.AmplificationDocument,
    "twin-list": twin.ScenariosDocument,
    "twin-run": twin.RunDocument,
    "twin-show": twin.ScenarioDocument,
    "purge": purge_run.PurgeReportDocument,
    "purge-policy": purge.PurgePolicyDocument,
    "purge-scan": purge.IndexDocument,
    "purge-import": purge.IndexDocument,
    "purge-query": purge_run.PurgeQueryDocument,
    "purge-horizon": purge.PurgeHorizonDocument,
    "purge-evasion": purge_evasion.PurgeEvasionDocument,
    "purge-replay": purge_replay.PurgeReplayDocument,
    "purge-plan": purge.PurgePlanDocument,
    "purge-notify": purge_run.PurgeNotifyDocument,
    "purge-arm": purge_run.PurgeArmDocument,
    "purge-run": purge_run.PurgeRunDocument,
    "error": check.FailureDocument,
}


def main(directory: str) -> None:
    """Write one ``NAME.json`` a document."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    schemas = {
        name: document.model_json_schema(mode="serialization")
        for name, document in DOCUMENTS.items()
    }
    for name, schema in (schemas | {"site-file": json_schema()}).items():
        (target / f"{name}.json").write_text(json.dumps(schema, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
