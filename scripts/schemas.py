"""Write the JSON Schema of every ``--json`` document and of the site file into a directory.

``docs/schemas`` is committed: what changes there changes what programs read, and belongs into
``CHANGELOG.md``. ``tests/report/documents/test_schemas.py`` compares it with the code.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from trimtab.report.documents import DOCUMENTS, document_of
from trimtab.report.documents.encode import schema
from trimtab.site.schema import json_schema


def schema_texts() -> dict[str, str]:
    """Return the text of every schema, of the documents and of the site file, by its name."""
    schemas = {name: schema(document_of(name)) for name in DOCUMENTS}
    schemas["site-file"] = json_schema()
    return {
        name: json.dumps(value, indent=2, sort_keys=True) + "\n" for name, value in schemas.items()
    }


def main(directory: str) -> None:
    """Write one ``NAME.json`` a document, and remove those of documents that are gone."""
    target = Path(directory)
    target.mkdir(parents=True, exist_ok=True)
    texts = schema_texts()
    for file in target.glob("*.json"):
        if file.stem not in texts:
            file.unlink()
    for name, text in texts.items():
        (target / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main(sys.argv[1])
