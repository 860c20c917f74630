"""OpenAPI from the declarations of the documents: one JSON Schema for ``--json`` and the API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from trimtab.report.documents.encode import schema
from trimtab.report.documents.measured import FailureDocument

if TYPE_CHECKING:
    from fastapi import FastAPI

_COMPONENTS: Final = "#/components/schemas/"
_DOCUMENTS: Final[dict[str, type]] = {}


def answers(document: type) -> dict[int | str, dict[str, Any]]:
    """Return the ``responses`` of a route that answers with a document."""
    return {
        200: _content(document, "The document."),
        "4XX": _content(FailureDocument, "Refused, with the reason and its code."),
    }


def _content(document: type, description: str) -> dict[str, Any]:
    name = f"{document.__module__.rpartition('.')[2]}.{document.__name__}"
    _DOCUMENTS[name] = document
    reference = {"$ref": f"{_COMPONENTS}{name}"}
    return {"description": description, "content": {"application/json": {"schema": reference}}}


def described(application: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    from fastapi.openapi.utils import get_openapi

    if application.openapi_schema is None:
        document = get_openapi(
            title="Trimtab", version=application.version, routes=application.routes
        )
        components = document.setdefault("components", {}).setdefault("schemas", {})
        for name, kind in _DOCUMENTS.items():
            # Two documents may know types of one name: each has its own.
            text = json.dumps(schema(kind)).replace("#/$defs/", f"{_COMPONENTS}{name}.")
            whole = json.loads(text)
            definitions = whole.pop("$defs")
            whole.pop("$schema")
            components |= {f"{name}.{each}": of for each, of in definitions.items()}
            components[name] = whole
        application.openapi_schema = document
    return application.openapi_schema or {}
