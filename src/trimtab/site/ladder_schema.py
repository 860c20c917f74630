"""What may stand in a file of published figures: strict models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from trimtab.errors import UsageError
from trimtab.model.hardware import Figure
from trimtab.site.figures import parse_figure
from trimtab.site.schema import Fraction, HardwareTable, Table, Text, refuse

_FIGURE_JSON = {"type": "string", "examples": ["38 GB/s", "1600 kIOPS", "88.4 %", "6 to 8 GB/s"]}


def _figure(value: object, unit: str | None = None) -> Figure:
    if not isinstance(value, str):
        raise refuse(f"{str(value)[:40]!r} is not text", 'write it as "38 GB/s"')
    try:
        return parse_figure(value, unit)
    except UsageError as error:
        raise refuse(error.message, error.hint) from error


def _measured(unit: str) -> Any:
    def read(value: object) -> tuple[Figure, ...]:
        figures = tuple(
            _figure(one, unit) for one in (value if isinstance(value, list) else [value])
        )
        if not figures or any(figure.possible()[0] <= 0 for figure in figures):
            raise refuse("a rate is more than 0", "leave out what was not measured")
        return figures

    return read


_LIST_JSON = WithJsonSchema({"anyOf": [_FIGURE_JSON, {"type": "array", "items": _FIGURE_JSON}]})
Printed = Annotated[Figure, BeforeValidator(_figure), WithJsonSchema(_FIGURE_JSON)]
Rates = Annotated[tuple[Figure, ...], BeforeValidator(_measured("B/s")), _LIST_JSON]
Operations = Annotated[tuple[Figure, ...], BeforeValidator(_measured("1/s")), _LIST_JSON]


class LadderTable(Table):
    """Whose ladder it is."""

    name: Text
    source: Text | None = None
    networked: bool | None = None
    notes: list[Text] | None = None


class RungTable(Table):
    """What one layer delivered; a list of figures is one of repetitions."""

    layer: Literal["drive", "raid", "ost", "network", "client", "application"]
    write: Rates | None = None
    read: Rates | None = None
    write_iops: Operations | None = None
    read_iops: Operations | None = None
    drives: int | None = Field(default=None, ge=1, le=10_000_000)
    osts: int | None = Field(default=None, ge=1, le=1_000_000)
    servers: int | None = Field(default=None, ge=1, le=1_000_000)
    nodes: int | None = Field(default=None, ge=1, le=1_000_000)
    tool: Text | None = None
    source: Text | None = None
    epoch: Text | None = None
    fullness: Fraction | None = None
    conditions: dict[str, Text] | None = None
    notes: list[Text] | None = None


class PrintedTable(Table):
    """A printed value, and what it should follow from."""

    what: Text
    value: Printed
    formula: Text | None = Field(default=None, alias="from")
    at_least: bool | None = None
    assumes: Text | None = None
    where: Text | None = None
    note: Text | None = None


class LadderToml(Table):
    """A whole file."""

    ladder: LadderTable
    hardware: HardwareTable = HardwareTable()
    rung: list[RungTable] = Field(default=[])
    figures: dict[str, Printed] = Field(default={})
    printed: list[PrintedTable] = Field(default=[])
