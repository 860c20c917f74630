"""The schemas are those whose fingerprints are committed."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
from scripts.schemas import NAMES, ROOT, SITE_FILE, committed, differences, fingerprint, schema_text


def test_the_committed_fingerprints_are_those_of_the_code() -> None:
    made = {name: fingerprint(schema_text(name)) for name in NAMES}
    known = committed()
    differing = sorted(name for name in made | known if made.get(name) != known.get(name))
    assert differing == [], (
        "programs read these documents; see what changed with: python scripts/schemas.py --against "
        "COMMIT; where it is intended, write it into CHANGELOG.md and accept it with: "
        "python scripts/schemas.py --accept"
    )


_EACH_BY_ITSELF = """
import os
from scripts.schemas import DOCUMENTS, fingerprint, schema_text
for name in DOCUMENTS:
    if os.fork() == 0:
        print(fingerprint(schema_text(name)), name, flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.mark.system
def test_how_a_document_is_written_needs_no_module_but_its_own() -> None:
    """No command imports more: what another module declares would be missing in its JSON."""
    command = [sys.executable, "-c", _EACH_BY_ITSELF]
    output = subprocess.check_output(command, cwd=ROOT, text=True)
    made = {name: digest for digest, name in map(str.split, output.splitlines())}
    assert made == {name: digest for name, digest in committed().items() if name != SITE_FILE}


def test_a_fingerprint_is_of_the_rules_and_not_of_the_words() -> None:
    text = schema_text("error")
    described = json.loads(text)
    described["description"] = "Other words."
    assert fingerprint(json.dumps(described)) == fingerprint(text)
    narrowed = json.loads(text)
    narrowed["required"] = narrowed["required"][1:]
    assert fingerprint(json.dumps(narrowed)) != fingerprint(text)


def test_what_changed_names_the_schema_and_the_rule() -> None:
    error = schema_text("error")
    assert differences({"error": error}, {"error": error}) == ""
    shown = differences({"error": error}, {"error": error.replace('"string"', '"number"', 1)})
    assert "after/error.json" in shown
    assert re.search(r'^-.*"string"', shown, re.M)
    assert re.search(r'^\+.*"number"', shown, re.M)
    assert "+++ after/error.json" in differences({}, {"error": error})
