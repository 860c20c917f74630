"""Whether a document fits its schema."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import jsonschema
from scripts.schemas import schema_text


@cache
def _validator(name: str, *, whole: bool = True) -> jsonschema.Draft202012Validator:
    schema = json.loads(schema_text(name))
    if not whole:
        schema = _without_required(schema)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())


def _without_required(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            key: _without_required(value)
            for key, value in schema.items()
            if not (key == "required" and isinstance(value, list))
        }
    return [_without_required(part) for part in schema] if isinstance(schema, list) else schema


def misfits(document: Any, name: str, *, whole: bool = True) -> list[str]:
    """Return what in a document does not fit the schema of that name; empty: it fits.

    Parameters
    ----------
    whole
        ``False``: keys that the schema requires may be absent, as in a document of before.
    """
    return [
        f"{error.json_path}: {error.message}"
        for error in _validator(name, whole=whole).iter_errors(document)
    ]
