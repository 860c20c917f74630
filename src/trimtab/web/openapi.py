"""OpenAPI from the declarations of the documents: one JSON Schema for ``--json`` and the API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trimtab.report.documents.encode import schema
from trimtab.report.documents.measured import FailureDocument

if TYPE_CHECKING:
    from fastapi import FastAPI

_MARK: Final = "x-trimtab-document"
_DEFINITIONS: Final = "#/$defs/"
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
    return {
        "description": description,
        "content": {"application/json": {"schema": {_MARK: name}}},
    }


def described(application: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document of an application."""
    from fastapi.openapi.utils import get_openapi

    if application.openapi_schema is None:
        document = get_openapi(
            title="Trimtab", version=application.version, routes=application.routes
        )
        components = document.setdefault("components", {}).setdefault("schemas", {})
        application.openapi_schema = _with_schemas(document, components)
    return application.openapi_schema or {}


def _with_schemas(node: Any, components: dict[str, Any]) -> Any:
    """Return a part of the document with every mark replaced by a reference."""
    if isinstance(node, list):
        return [_with_schemas(part, components) for part in node]
    if not isinstance(node, dict):
        return node
    if (name := node.get(_MARK)) is not None:
        if name not in components:
            components[name] = {}
            components[name] = _component(name, components)
        return {"$ref": f"#/components/schemas/{name}"}
    for key in list(node):
        if node is not components:
            node[key] = _with_schemas(node[key], components)
    return node


def _component(name: str, components: dict[str, Any]) -> dict[str, Any]:
    whole = schema(_DOCUMENTS[name])
    definitions = whole.pop("$defs")
    whole.pop("$schema")
    for kind, definition in definitions.items():
        # Two documents may know types of one name: each has its own.
        components[f"{name}.{kind}"] = _moved(definition, name)
    return _moved(whole, name)


def _moved(node: Any, name: str) -> Any:
    if isinstance(node, list):
        return [_moved(part, name) for part in node]
    if not isinstance(node, dict):
        return node
    return {
        key: f"#/components/schemas/{name}.{value.removeprefix(_DEFINITIONS)}"
        if key == "$ref" and isinstance(value, str)
        else _moved(value, name)
        for key, value in node.items()
    }
