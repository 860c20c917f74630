"""Write the JSON Schema of every ``--json`` document and of the site file into a directory.

``make docs`` writes them beside the pages. What is committed is the fingerprint of each, in
`FINGERPRINTS`: what changes there changes what programs read, and belongs into ``CHANGELOG.md``.
``tests/show/test_encode.py`` compares them with the code.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trimtab.base.encode import schema
from trimtab.site.site_file import json_schema

ROOT = Path(__file__).resolve().parents[1]
FINGERPRINTS = ROOT / "tests/show/schemas.sha256"
SITE_FILE = "site-file"
DOCUMENTS: Final[Mapping[str, str]] = {
    "check": "CheckDocument",
    "init": "InitDocument",
    "init-install": "InstallDocument",
    "site": "SiteDocument",
    "targets": "SiteState",
    "snapshot": "SnapshotDocument",
    "inventory": "InventoryDocument",
    "holders": "HoldersDocument",
    "probe": "ProbeDocument",
    "sweep": "SweepDocument",
    "watch": "WatchDocument",
    "alerts": "AlertsDocument",
    "alerts-test": "AlertsTestDocument",
    "watch-status": "WatchStateDocument",
    "import": "ImportDocument",
    "status": "StatusDocument",
    "judge": "JudgeDocument",
    "incidents": "IncidentsDocument",
    "explain": "ExplainDocument",
    "correlate": "Correlated",
    "event": "EventsDocument",
    "maintenance": "MaintenanceDocument",
    "silence": "SilencesDocument",
    "compare": "CompareResult",
    "ladder": "Ladder",
    "survey": "SurveyDocument",
    "hints": "HintsDocument",
    "twin": "AmplificationDocument",
    "twin-list": "ScenariosDocument",
    "twin-show": "Scenario",
    "twin-run": "TwinRun",
    "size": "Sizing",
    "whatif": "WhatIfDocument",
    "tune": "PlanDocument",
    "trim": "PlanDocument",
    "balance": "PlanDocument",
    "revert": "PlanDocument",
    "actions": "ActionsDocument",
    "purge": "PurgeReportDocument",
    "purge-policy": "PurgePolicyDocument",
    "purge-scan": "IndexDocument",
    "purge-follow": "IndexDocument",
    "purge-follow-register": "RegistrationDocument",
    "purge-import": "IndexDocument",
    "purge-query": "PurgeQueryDocument",
    "purge-horizon": "PurgeHorizonDocument",
    "purge-evasion": "PurgeEvasionDocument",
    "purge-replay": "PurgeReplayDocument",
    "purge-plan": "PurgePlanDocument",
    "purge-notify": "PurgeNotifyDocument",
    "purge-arm": "PurgeArmDocument",
    "purge-run": "PurgeRunDocument",
    "purge-recover": "PurgeRecoverDocument",
    "report": "MonthDocument",
    "runs": "RunsDocument",
    "show": "ShowDocument",
    "store": "StoreCopyDocument",
    "store-check": "StoreCheckDocument",
    "store-rebuild": "StoreRebuildDocument",
    "error": "FailureDocument",
}
"""Schema to the class of the document."""
_CLASS: Final = re.compile(r"^class (\w+)", re.MULTILINE)
_SHAPE: Final = re.compile(r"^shape\(\s*(\w+)", re.MULTILINE)
NAMES = (*DOCUMENTS, SITE_FILE)


@cache
def modules() -> dict[str, str]:
    """Return class to the module that declares how it is written, or else defines it."""
    homes: dict[str, str] = {}
    for pattern in (_CLASS, _SHAPE):  # what the second finds counts
        for file in sorted((ROOT / "src/trimtab").rglob("*.py")):
            name = ".".join(file.relative_to(ROOT / "src").with_suffix("").parts)
            homes |= dict.fromkeys(pattern.findall(file.read_text()), name)
    return homes


def document_of(name: str) -> type:
    """Return the class of the document with a schema."""
    document = DOCUMENTS[name]
    return getattr(import_module(modules()[document]), document)


@cache
def schema_text(name: str) -> str:
    """Return the schema of a document, or of the site file."""
    value = json_schema() if name == SITE_FILE else schema(document_of(name))
    return json.dumps(value, indent=2, sort_keys=True) + "\n"


def rules(value: Any) -> Any:
    """Return a schema without its descriptions: words may be improved, and change nothing."""
    if isinstance(value, dict):
        return {
            key: rules(part)
            for key, part in value.items()
            if key != "description" or not isinstance(part, str)
        }
    return [rules(part) for part in value] if isinstance(value, list) else value


def fingerprint(text: str) -> str:
    """Return the SHA-256 of the canonical JSON of a schema's rules."""
    canonical = json.dumps(rules(json.loads(text)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


def committed() -> dict[str, str]:
    """Return the committed fingerprints by the name of the schema."""
    lines = (line.split() for line in FINGERPRINTS.read_text().splitlines())
    return {name: digest for digest, name in lines}


def write(directory: Path) -> None:
    """Write one ``NAME.json`` a schema."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (directory / f"{name}.json").write_text(schema_text(name))


def accept() -> None:
    """Write the fingerprints of the schemas as they are."""
    lines = (f"{fingerprint(schema_text(name))}  {name}\n" for name in sorted(NAMES))
    FINGERPRINTS.write_text("".join(lines))


def schemas_of(commit: str) -> dict[str, str]:
    """Return the schemas that the code of a commit makes, with this compiled core."""
    with tempfile.TemporaryDirectory() as place:
        archive = subprocess.run(
            ["git", "archive", commit, "src", "scripts"], cwd=ROOT, check=True, capture_output=True
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            files.extractall(place, filter="data")
        for core in (ROOT / "src/trimtab").glob("_core*.so"):
            shutil.copy(core, f"{place}/src/trimtab")
        subprocess.run(
            [sys.executable, "scripts/schemas.py", "schemas"],
            cwd=place, check=True, env={**os.environ, "PYTHONPATH": f"{place}/src"},
        )  # fmt: skip
        return {file.stem: file.read_text() for file in Path(place, "schemas").glob("*.json")}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return how schemas differ, as a unified diff."""
    return "".join(
        line
        for name in sorted(before.keys() | after.keys())
        for line in difflib.unified_diff(
            before.get(name, "").splitlines(keepends=True),
            after.get(name, "").splitlines(keepends=True),
            f"before/{name}.json",
            f"after/{name}.json",
        )
    )


def main() -> None:
    """Write the schemas, accept them, or print what changed in them."""
    parser = argparse.ArgumentParser(description=__doc__)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("directory", nargs="?", type=Path, help="write every schema into it")
    what.add_argument("--accept", action="store_true", help="write the fingerprints")
    what.add_argument("--against", metavar="COMMIT", help="print what changed since a commit")
    asked = parser.parse_args()
    if asked.accept:
        accept()
    elif asked.against:
        now = {name: schema_text(name) for name in NAMES}
        print(differences(schemas_of(asked.against), now), end="")
    else:
        write(asked.directory)


if __name__ == "__main__":
    main()
