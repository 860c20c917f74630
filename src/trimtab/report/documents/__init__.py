"""Documents printed by ``--json``: model values in thin envelopes, one per command.

Numbers are base SI with the unit beside them, ratios are fractions, intervals are ``[low, high]``
with ``level``, times are RFC 3339 with offset, and missing values are null with a reason. `encode`
writes them and derives their JSON Schemas.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trimtab.report.documents import acting as acting
    from trimtab.report.documents import judged as judged
    from trimtab.report.documents import kept as kept
    from trimtab.report.documents import measured as measured
    from trimtab.report.documents import purged as purged
    from trimtab.report.documents import simulated as simulated

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
    "status": "kept.StatusDocument",
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
    "report": "kept.MonthDocument",
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
    return getattr(import_module(f"{__name__}.{module}"), name)


def declare(document: type) -> None:
    """Import the module that declares how a document class is written, if another room does."""
    for path in DOCUMENTS.values():
        module, _, name = path.partition(".")
        if name == document.__name__:
            import_module(f"{__name__}.{module}")


def __getattr__(name: str) -> ModuleType:
    """Import a module of documents on first use: ``documents.kept.RunsDocument``."""
    if name not in {"acting", "judged", "kept", "measured", "purged", "simulated"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
