"""Which document each command prints with ``--json``; its module is imported on first use."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.report.documents import acting, answers, judged, kept, measured, simulated

__all__ = [
    "DOCUMENTS",
    "acting",
    "answers",
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
    "purge": "trimtab.purge.report.PurgeReportDocument",
    "purge-policy": "trimtab.purge.policy_file.PurgePolicyDocument",
    "purge-scan": "trimtab.purge.index.manifest.IndexDocument",
    "purge-follow": "trimtab.purge.index.manifest.IndexDocument",
    "purge-follow-register": "acting.RegistrationDocument",
    "purge-import": "trimtab.purge.index.manifest.IndexDocument",
    "purge-query": "trimtab.purge.index.query.PurgeQueryDocument",
    "purge-horizon": "trimtab.loop.purging.horizons.PurgeHorizonDocument",
    "purge-evasion": "trimtab.purge.signs.PurgeEvasionDocument",
    "purge-replay": "trimtab.loop.purging.replaying.PurgeReplayDocument",
    "purge-plan": "trimtab.loop.purging.planning.PurgePlanDocument",
    "purge-notify": "trimtab.loop.purging.noticing.PurgeNotifyDocument",
    "purge-arm": "trimtab.loop.purging.arming.PurgeArmDocument",
    "purge-run": "trimtab.loop.purging.running.PurgeRunDocument",
    "purge-recover": "trimtab.loop.purging.recovering.PurgeRecoverDocument",
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
