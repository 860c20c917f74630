"""Which document each command prints with ``--json``; its module is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.report.documents import acting, answers, judged, kept, measured, purged, simulated

__all__ = [
    "DOCUMENTS",
    "acting",
    "answers",
    "declare",
    "document_of",
    "judged",
    "kept",
    "measured",
    "purged",
    "simulated",
]

DOCUMENTS: Final[Mapping[str, str]] = {
    "check": "measured.CheckDocument",
    "init": "measured.InitDocument",
    "init-install": "measured.InstallDocument",
    "site": "measured.SiteDocument",
    "targets": "targets.SiteState",
    "snapshot": "measured.SnapshotDocument",
    "probe": "measured.ProbeDocument",
    "sweep": "judged.SweepDocument",
    "watch": "kept.WatchDocument",
    "alerts": "kept.AlertsDocument",
    "alerts-test": "kept.AlertsTestDocument",
    "watch-status": "acting.WatchStateDocument",
    "import": "measured.ImportDocument",
    "status": "answers.StatusDocument",
    "judge": "judged.JudgeDocument",
    "incidents": "judged.IncidentsDocument",
    "explain": "judged.ExplainDocument",
    "correlate": "judged.Correlated",
    "event": "kept.EventsDocument",
    "compare": "judged.CompareResult",
    "ladder": "judged.Ladder",
    "survey": "measured.SurveyDocument",
    "hints": "judged.HintsDocument",
    "twin": "simulated.AmplificationDocument",
    "twin-list": "simulated.ScenariosDocument",
    "twin-show": "simulated.Scenario",
    "twin-run": "simulated.TwinRun",
    "size": "simulated.Sizing",
    "whatif": "simulated.WhatIfDocument",
    "tune": "acting.PlanDocument",
    "trim": "acting.PlanDocument",
    "balance": "acting.PlanDocument",
    "revert": "acting.PlanDocument",
    "actions": "acting.ActionsDocument",
    "purge": "purged.PurgeReportDocument",
    "purge-policy": "purged.PurgePolicyDocument",
    "purge-scan": "purged.IndexDocument",
    "purge-follow": "purged.IndexDocument",
    "purge-follow-register": "acting.RegistrationDocument",
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
    "report": "answers.MonthDocument",
    "runs": "kept.RunsDocument",
    "show": "kept.ShowDocument",
    "store": "kept.StoreCopyDocument",
    "store-check": "kept.StoreCheckDocument",
    "store-rebuild": "kept.StoreRebuildDocument",
    "error": "values.FailureDocument",
}
"""Name of the schema to the module and class of the command's document."""


def document_of(schema: str) -> type:
    """Return the class of the document with a schema."""
    module, _, name = DOCUMENTS[schema].partition(".")
    return getattr(_module(module), name)


def declare(document: type) -> None:
    """Import the module that declares how a class is written that is a document as it is."""
    for path in DOCUMENTS.values():
        module, _, name = path.partition(".")
        if name == document.__name__:
            _module(module)


def _module(name: str) -> ModuleType:
    return import_module(f"trimtab.report.documents.{name}")


def __getattr__(name: str) -> ModuleType:
    """Import a module of documents on first use: ``documents.kept.RunsDocument``."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _module(name)
