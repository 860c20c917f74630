"""Which document each command prints with ``--json``; its module is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.report.documents import acting, judged, kept, measured, simulated

__all__ = [
    "DOCUMENTS",
    "acting",
    "declare",
    "document_of",
    "judged",
    "kept",
    "measured",
    "simulated",
]

DOCUMENTS: Final[Mapping[str, str]] = {
    "check": "measured.CheckDocument",
    "init": "measured.InitDocument",
    "init-install": "measured.InstallDocument",
    "site": "measured.SiteDocument",
    "targets": "trimtab.model.target.SiteState",
    "snapshot": "measured.SnapshotDocument",
    "probe": "trimtab.loop.probing.probe_now.ProbeDocument",
    "sweep": "judged.SweepDocument",
    "watch": "trimtab.loop.watching.upcoming.WatchDocument",
    "alerts": "trimtab.loop.alerting.receivers.AlertsDocument",
    "alerts-test": "trimtab.loop.alerting.receivers.AlertsTestDocument",
    "watch-status": "trimtab.loop.watching.upcoming.WatchStateDocument",
    "import": "measured.ImportDocument",
    "status": "trimtab.model.status.StatusDocument",
    "judge": "judged.JudgeDocument",
    "incidents": "judged.IncidentsDocument",
    "explain": "judged.ExplainDocument",
    "correlate": "trimtab.model.correlation.Correlated",
    "event": "kept.EventsDocument",
    "compare": "trimtab.model.compare.CompareResult",
    "ladder": "trimtab.model.ladder.Ladder",
    "survey": "measured.SurveyDocument",
    "hints": "judged.HintsDocument",
    "twin": "simulated.AmplificationDocument",
    "twin-list": "simulated.ScenariosDocument",
    "twin-show": "simulated.Scenario",
    "twin-run": "simulated.TwinRun",
    "size": "simulated.Sizing",
    "whatif": "simulated.WhatIfDocument",
    "tune": "trimtab.loop.acting.visit.PlanDocument",
    "trim": "trimtab.loop.acting.visit.PlanDocument",
    "balance": "trimtab.loop.acting.visit.PlanDocument",
    "revert": "trimtab.loop.acting.visit.PlanDocument",
    "actions": "acting.ActionsDocument",
    "purge": "purged.PurgeReportDocument",
    "purge-policy": "purged.PurgePolicyDocument",
    "purge-scan": "purged.IndexDocument",
    "purge-follow": "purged.IndexDocument",
    "purge-follow-register": "trimtab.loop.purging.registering.RegistrationDocument",
    "purge-import": "purged.IndexDocument",
    "purge-query": "purged.PurgeQueryDocument",
    "purge-horizon": "purged.PurgeHorizonDocument",
    "purge-evasion": "purged.PurgeEvasionDocument",
    "purge-replay": "purged.PurgeReplayDocument",
    "purge-plan": "purged.PurgePlanDocument",
    "purge-notify": "purged.PurgeNotifyDocument",
    "purge-arm": "purged.PurgeArmDocument",
    "purge-run": "purged.PurgeRunDocument",
    "purge-recover": "purged.PurgeRecoverDocument",
    "report": "trimtab.report.month.MonthDocument",
    "runs": "kept.RunsDocument",
    "show": "kept.ShowDocument",
    "store": "kept.StoreCopyDocument",
    "store-check": "kept.StoreCheckDocument",
    "store-rebuild": "trimtab.loop.verdicts.StoreRebuildDocument",
    "error": "encode.FailureDocument",
}
"""Name of the schema to the module and class of the command's document."""


def document_of(schema: str) -> type:
    """Return the class of the document with a schema."""
    module, _, name = DOCUMENTS[schema].rpartition(".")
    return getattr(_module(module), name)


def declare(document: type) -> None:
    """Import the module that declares how a class is written that is a document as it is."""
    for path in DOCUMENTS.values():
        module, _, name = path.rpartition(".")
        if name == document.__name__:
            _module(module)


def _module(name: str) -> ModuleType:
    return import_module(name if "." in name else f"trimtab.report.documents.{name}")


def __getattr__(name: str) -> ModuleType:
    """Import a module of documents on first use: ``documents.kept.RunsDocument``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _module(name)
