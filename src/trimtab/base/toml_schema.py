"""A dataclass as the schema of a TOML file, read with all problems reported at once.

::

    @dataclass(frozen=True, slots=True)
    class Limits:
        fullness: float = key(FRACTION, "Used / (used + available) not to exceed.", 0.75)

The name of a key is the field's without its unit (``every_s`` is ``every``): the unit is part of
the text. `table` declares a table that is a dataclass itself, `tables` several of them, with names
(``[probe.NAME]``) or in a list (``[[exempt]]``). Fields without a declaration belong only to the
model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Final

from trimtab.base.error import UsageError
from trimtab.base.toml_kind import ValueKind
from trimtab.base.toml_problem import Location, Problem, problem_of, unknown_key

_MARK: Final = "trimtab.config"
"""Key in the metadata of a field."""
_SUFFIXES: Final = ("_bytes_per_s", "_per_s", "_bytes", "_s")


@dataclass(frozen=True, slots=True)
class _Mark:
    """The declaration of a field; ``kind`` is ``None`` for tables."""

    kind: ValueKind | None
    comment: str
    at: str
    example: str = ""
    changes: bool = False
    model: type | None = None
    named: bool | None = None
    """For several tables: whether they have names; ``None`` for a single table."""


def key(
    kind: ValueKind,
    comment: str,
    default: Any = MISSING,
    *,
    at: str = "",
    example: str = "",
    changes: bool = False,
) -> Any:
    """Declare a field of a dataclass as a key of a file.

    Parameters
    ----------
    comment
        Its description in one line, for the file, the documentation and the JSON Schema.
    default
        Without a default the key is required.
    at
        Its name in the file if different from the field's; with a dot, also its table.
    example
        An example as in a file, if the kind's own does not fit.
    changes
        Whether it may change at runtime.
    """
    metadata = {_MARK: _Mark(kind, comment, at, example, changes)}
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


def table(model: type, comment: str = "", default: Any = None, *, at: str = "") -> Any:
    """Declare a field of a dataclass as a table, ``[at]``.

    Parameters
    ----------
    default
        `MISSING`: the table is required; ``None``: the model's defaults.
    """
    metadata = {_MARK: _Mark(None, comment, at, model=model)}
    if default is None:
        return field(default_factory=model, metadata=metadata)
    return field(default=default, metadata=metadata)


def tables(item: type, at: str, comment: str, default: Any = (), *, named: bool = False) -> Any:
    """Declare a field of a dataclass as several tables: ``[at.NAME]``, or a list, ``[[at]]``."""
    mark = _Mark(None, comment, at, model=item, named=named)
    if isinstance(default, Mapping):
        return field(default_factory=lambda: default, metadata={_MARK: mark})
    return field(default=default, metadata={_MARK: mark})


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a table.

    Attributes
    ----------
    path
        Attribute path from the root to its value.
    default
        `MISSING` if the key is required.
    """

    location: Location
    path: tuple[str, ...]
    mark: _Mark
    default: Any

    @property
    def name(self) -> str:
        """The key."""
        return self.location[-1]

    @property
    def kind(self) -> ValueKind:
        """The kind of its value."""
        assert self.mark.kind is not None
        return self.mark.kind

    @property
    def comment(self) -> str:
        """Its description in one line."""
        return self.mark.comment

    @property
    def example(self) -> str:
        """An example as in a file."""
        return self.mark.example or self.kind.example

    @property
    def changes(self) -> bool:
        """Whether it may change at runtime."""
        return self.mark.changes

    @property
    def is_required(self) -> bool:
        """Whether the key is required."""
        return self.default is MISSING


@dataclass(frozen=True, slots=True)
class SchemaTable:
    """One table; ``path`` leads to its dataclass, ``None`` without one.

    Attributes
    ----------
    like
        Its key ``like``: a known value that the other keys modify. As ``NAME = "..."`` the same
        text may replace the table.
    must
        Whether the table is required, even without keys.
    """

    location: Location
    path: tuple[str, ...] | None
    comment: str
    entries: dict[str, Entry | SchemaTable | Group] = field(default_factory=dict)
    like: Entry | None = None
    must: bool = False

    @property
    def keys(self) -> list[Entry]:
        """Its own keys."""
        return [entry for entry in self.entries.values() if isinstance(entry, Entry)]

    @property
    def required(self) -> list[Entry]:
        """The required keys."""
        return [entry for entry in self.keys if entry.is_required]


@dataclass(frozen=True, slots=True)
class Group:
    """Several tables of one kind."""

    location: Location
    path: tuple[str, ...]
    comment: str
    item: Schema
    named: bool


class Said(dict[str, Any]):
    """The contents of a file for one dataclass: attribute to value, `Said`, or `Items`."""

    def put(self, path: Sequence[str], value: Any) -> None:
        """Set the value at a path of attributes."""
        self.within(path[:-1])[path[-1]] = value

    def within(self, path: Sequence[str]) -> Said:
        """Return the contents for the dataclass at a path."""
        stated = self
        for part in path:
            stated = stated.setdefault(part, Said())
        return stated


Items = list[tuple[str, Said]]
"""The contents of several tables, by name or number."""


class Schema:
    """The schema of a file, from the fields of a dataclass.

    Parameters
    ----------
    model
        The dataclass.
    home
        Default table of keys; empty: top level.
    tables
        Comments of tables that are not dataclasses, in file order; an empty comment only reserves a
        position.
    kinds
        Kinds of keys (``probe.benchmark``) that only a higher layer knows; they replace the
        declared ones. The kind of a table (``osts.drive``) applies to its key ``like``.
    """

    def __init__(
        self,
        model: type,
        home: str = "",
        tables: Mapping[str, str] | None = None,
        kinds: Mapping[str, ValueKind] | None = None,
    ) -> None:
        self.model = model
        self._home: Location = (home,) if home else ()
        self._comments = dict(tables or {})
        self._kinds = dict(kinds or {})

    @cached_property
    def root(self) -> SchemaTable:
        """The file, or one of several tables."""
        root = SchemaTable((), (), "")
        for name, comment in self._comments.items():
            root.entries[name] = SchemaTable((name,), None, comment)
        self._add(self.model, root, (), self._home)
        return root

    def _add(self, model: type, root: SchemaTable, path: tuple[str, ...], above: Location) -> None:
        for each in fields(model):
            mark: _Mark | None = each.metadata.get(_MARK)
            if mark is None:
                continue
            inside, below = (*path, each.name), above if path else ()
            if mark.kind is not None:
                name = mark.at or _without_unit(each.name)
                at = tuple(name.split(".")) if "." in name else (*above, name)
                mark = replace(mark, kind=self._kinds.get(".".join(at), mark.kind))
                self._put(root, at, Entry(at, inside, mark, _default(each)))
            elif mark.model is not None:
                at = (*below, mark.at or each.name)
                if mark.named is not None:
                    kinds = {
                        name.removeprefix(f"{mark.at}."): kind
                        for name, kind in self._kinds.items()
                        if name.startswith(f"{mark.at}.")
                    }
                    item = Schema(mark.model, kinds=kinds)
                    self._put(root, at, Group(at, inside, mark.comment, item, mark.named))
                else:
                    kind = self._kinds.get(".".join(at))
                    like = (
                        Entry((*at, "like"), (*inside, "like"), _like(kind), None) if kind else None
                    )
                    must = _default(each) is MISSING
                    self._put(root, at, SchemaTable(at, inside, mark.comment, like=like, must=must))
                    self._add(mark.model, root, inside, at)

    @staticmethod
    def _put(root: SchemaTable, at: Location, entry: Entry | SchemaTable | Group) -> None:
        table = root
        for length in range(1, len(at)):
            below = table.entries.setdefault(at[length - 1], SchemaTable(at[:length], None, ""))
            assert isinstance(below, SchemaTable)
            table = below
        old = table.entries.get(at[-1])
        if isinstance(old, SchemaTable) and isinstance(entry, SchemaTable):  # keeps its position
            entry = replace(entry, comment=entry.comment or old.comment, entries=old.entries)
        table.entries[at[-1]] = entry

    def every_table(self) -> Iterator[SchemaTable]:
        """Yield every table except those of groups, in file order."""
        stack = [self.root]
        while stack:
            table = stack.pop()
            yield table
            stack += reversed(
                [each for each in table.entries.values() if isinstance(each, SchemaTable)]
            )

    def every_key(self) -> Iterator[Entry]:
        """Yield every key except those of groups, in file order."""
        for table in self.every_table():
            yield from table.keys

    def group(self, name: str) -> Group:
        """Return a group of tables by its name in the file."""
        group = self.root.entries[name]
        assert isinstance(group, Group)
        return group

    def read(
        self, values: Mapping[str, Any], *, partial: bool = False
    ) -> tuple[Said, list[Problem]]:
        """Parse the tables of a file; return their contents and all problems.

        Parameters
        ----------
        partial
            Whether missing keys are allowed, as they come from elsewhere; list entries must be
            complete.
        """
        reader = _Reader(self, partial)
        stated = Said()
        reader.table(self.root, values, stated, ())
        return stated, reader.problems

    def missing(
        self, table: SchemaTable, values: Mapping[str, Any], at: Location = ()
    ) -> Iterator[Problem]:
        """Yield problems for missing required keys of a table."""
        for entry in table.required:
            if entry.name not in values:
                hint = f"{entry.name} = {entry.example}"
                yield Problem((*at, entry.name), "is missing", hint, "missing-key")

    def build(self, stated: Said, base: Any = None, **more: Any) -> Any:
        """Build the dataclass of a file, with missing values from ``base``.

        Parameters
        ----------
        base
            ``None``: the defaults.
        more
            Fields that are not in files.
        """
        return _built(self.model, stated, base, more)


def _built(model: type, stated: Said, base: Any, more: Mapping[str, Any]) -> Any:
    values, base = dict(more), stated.get("like", base)
    for each in fields(model):
        if each.name not in stated:
            continue
        value, mark = stated[each.name], each.metadata[_MARK]
        if isinstance(value, Said):
            below = None if base is None else getattr(base, each.name)
            values[each.name] = _built(mark.model, value, below, {})
        elif mark.named is not None and isinstance(value, list):
            values[each.name] = tuple(
                _built(mark.model, item, None, {"name": name} if mark.named else {})
                for name, item in value
            )
        else:
            values[each.name] = value
    return model(**values) if base is None else replace(base, **values)


class _Reader:
    """Reads the tables of a file, and collects problems."""

    def __init__(self, schema: Schema, partial: bool, whole: Schema | None = None) -> None:
        self._schema = schema
        self._whole = schema if whole is None else whole
        self._partial = partial
        self.problems: list[Problem] = []

    def table(
        self, table: SchemaTable, values: Mapping[str, Any], stated: Said, above: Location
    ) -> None:
        at = (*above, *table.location)
        if table.path:
            stated.within(table.path)
        for name, value in values.items():
            entry = table.entries.get(name, table.like if name == "like" else None)
            if isinstance(entry, SchemaTable) and entry.like and not isinstance(value, Mapping):
                entry = entry.like
            if entry is None:
                self._unknown(table, (*at, name))
            elif isinstance(entry, Entry):
                try:
                    stated.put(entry.path, entry.kind.read(value))
                except UsageError as error:
                    self.problems.append(problem_of(error, (*at, name)))
            elif isinstance(entry, Group):
                stated.put(entry.path, self._items(entry, value, (*above, *entry.location)))
            elif isinstance(value, Mapping):
                self.table(entry, value, stated, above)
            else:
                self._wrong((*at, name), "must be a table")
        if not self._partial:
            self._missing(table, values, above)

    def _missing(self, table: SchemaTable, values: Mapping[str, Any], above: Location) -> None:
        if table.like is None or "like" not in values:
            self.problems += self._schema.missing(table, values, (*above, *table.location))
        for name, below in table.entries.items():
            if isinstance(below, SchemaTable) and name not in values:
                self._missing_table(below, above)

    def _missing_table(self, table: SchemaTable, above: Location) -> None:
        if table.required or table.must:
            keys = ", ".join(f"{entry.name} = {entry.example}" for entry in table.required)
            hint = f"write [{'.'.join(table.location)}]" + (f" with {keys}" if keys else "")
            self.problems.append(
                Problem((*above, *table.location), "is missing", hint, "missing-table")
            )

    def _items(self, group: Group, value: Any, at: Location) -> Items:
        """Return the contents of each table of a group."""
        if group.named and not isinstance(value, Mapping):
            self._wrong(at, "must be a table", f"write [{'.'.join(at)}.NAME]")
            return []
        if not group.named and not isinstance(value, list):
            self._wrong(at, "must be a list of tables", f"write [[{'.'.join(at)}]]")
            return []
        pairs = value.items() if isinstance(value, Mapping) else enumerate(value)
        items: Items = []
        for name, values in pairs:
            place = (*at, str(name))
            if not isinstance(values, Mapping):
                self._wrong(place, "must be a table")
                continue
            reader = _Reader(group.item, self._partial and group.named, self._whole)
            stated = Said()
            reader.table(group.item.root, values, stated, place)
            self.problems += reader.problems
            items.append((str(name), stated))
        return items

    def _wrong(self, at: Location, message: str, hint: str | None = None) -> None:
        self.problems.append(Problem(at, message, hint, "wrong-type"))

    def _unknown(self, table: SchemaTable, at: Location) -> None:
        *above, key = at
        elsewhere = [
            name
            for name, other in self._whole.root.entries.items()
            if above and name != above[0] and key in _names(other)
        ]
        known = [*table.entries, *(["like"] if table.like else [])]
        self.problems.append(unknown_key(at, known, elsewhere))


def _names(entry: Entry | SchemaTable | Group) -> Iterator[str]:
    """Yield the keys of a table, or of a group's entries."""
    if isinstance(entry, SchemaTable):
        yield from entry.entries
    elif isinstance(entry, Group):
        yield from entry.item.root.entries


def _like(kind: ValueKind) -> _Mark:
    return _Mark(kind, "A known one; the other keys override its values.", "")


def _without_unit(name: str) -> str:
    suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), "")
    return name.removesuffix(suffix)


def _default(each: Any) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def value_at(whole: Any, path: Sequence[str]) -> Any:
    """Return the value at a path of attributes."""
    for part in path:
        whole = getattr(whole, part)
    return whole


def _has_text(entry: Entry) -> bool:
    """Whether the default can be written: ``None`` needs a word for no value."""
    return entry.default is not None or entry.kind.absent is not None


def json_schema(schema: Schema, title: str = "") -> dict[str, Any]:
    """Return the JSON Schema of a file, for editors; TOML has no null, so neither has it."""
    return {"title": title} | _table_schema(schema.root) if title else _table_schema(schema.root)


def _table_schema(table: SchemaTable) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for name, entry in table.entries.items():
        if isinstance(entry, Entry):
            properties[name] = {**entry.kind.schema, **_json_default(entry)}
            properties[name]["description"] = entry.comment
        elif isinstance(entry, SchemaTable):
            properties[name] = _table_schema(entry)
        else:
            item = _table_schema(entry.item.root)
            several = (
                {"type": "object", "additionalProperties": item}
                if entry.named
                else {"type": "array", "items": item}
            )
            properties[name] = several | {"description": entry.comment}
    required = [entry.name for entry in table.required] + [
        name
        for name, each in table.entries.items()
        if isinstance(each, SchemaTable) and each.required
    ]
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    if table.comment:
        schema["description"] = table.comment
    schema["properties"] = properties
    return schema | ({"required": required} if required else {})


def _json_default(entry: Entry) -> dict[str, Any]:
    """Return the default in file form."""
    import tomllib

    text = None if entry.is_required or not _has_text(entry) else entry.kind.write(entry.default)
    return {} if text is None else {"default": tomllib.loads(f"x = {text}")["x"]}
