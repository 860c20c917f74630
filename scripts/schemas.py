"""Write the JSON Schema of every ``--json`` document into a directory."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trimtab.report.documents import check, kept

DOCUMENTS = {
    "check": check.CheckDocument,
    "status": kept.StatusDocument,
    "runs": kept.RunsDocument,
    "show": kept.ShowDocument,
    "error": check.FailureDocument,
}


def main(directory: str) -> None:
    """Write one ``NAME.json`` a document."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    for name, document in DOCUMENTS.items():
        schema = document.model_json_schema(mode="serialization")
        (target / f"{name}.json").write_text(json.dumps(schema, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
