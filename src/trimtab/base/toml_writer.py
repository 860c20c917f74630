"""Writes a value as a commented TOML file, for editing, that reads back the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from trimtab.base.error import visible
from trimtab.base.toml_kind import inline_table, key_text
from trimtab.base.toml_schema import Entry, Group, Schema, SchemaTable, value_at

Comments = Mapping[str, Sequence[str]]
"""Lines above a table or key: ``servers``, ``servers.oss``, ``probe.hourly.schedule``."""
_INDENT_MAXIMUM: Final = 48
"""In characters: a longer value moves only its own comment to the right."""


class Writer:
    """Writes the tables of one file.

    Parameters
    ----------
    every_key
        Also write keys with default values uncommented.
    skip
        Selects tables or keys to omit.
    examples
        Whether to write a key without a value as a commented example.
    write
        Formats the value of a key; ``None``: its kind does.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        every_key: bool = False,
        examples: bool = True,
        skip: Callable[[SchemaTable | Entry, Any], bool] = lambda _entry, _whole: False,
        comments: Comments | None = None,
        write: Callable[[Entry, Any], str | None] | None = None,
    ) -> None:
        self._schema = schema
        self._every_key = every_key
        self._examples = examples
        self._skip = skip
        self._comments = comments or {}
        self._write = write or (lambda entry, value: entry.kind.write(value))

    def tables(self, whole: Any) -> Iterator[str]:
        """Yield the text of every table of a file, except groups."""
        for table in self._schema.every_table():
            if self._skip(table, whole):
                continue
            if table.keys and not (table.like and self._word(table, whole)):
                yield self.table(table, table.location, whole)
            for entry in table.keys:
                if entry.kind.rows is not None and (value := value_at(whole, entry.path)):
                    yield self._rows(entry, entry.kind.rows(value))

    def items(self, group: Group, items: Sequence[Any], *, hidden: bool = False) -> Iterator[str]:
        """Yield the text of every table of a group; ``hidden``: as an example."""
        for item in items:
            at = (*group.location, item.name) if group.named else group.location
            yield self.table(group.item.root, at, item, group=group, hidden=hidden)

    def table(
        self,
        table: SchemaTable,
        at: Sequence[str],
        whole: Any,
        *,
        group: Group | None = None,
        hidden: bool = False,
    ) -> str:
        """Return the text of one table, with its comment."""
        name = ".".join(at)
        head = f"[{'.'.join(map(key_text, at))}]"
        comment = table.comment if group is None else group.comment
        listed = group is not None and not group.named
        lines = [f"# {comment}"] if comment else []
        lines += self._above(name)
        lines.append(("# " if hidden else "") + (f"[{head}]" if listed else head))
        words = [
            self._word(below, whole)
            for below in table.entries.values()
            if isinstance(below, SchemaTable)
        ]
        assignments = [
            (entry, text)
            for entry in (*table.keys, *filter(None, words))
            if entry.kind.rows is None
            and not self._skip(entry, whole)
            and (text := self._assignment(entry, whole, hidden=hidden))
        ]
        widths = (len(text) for _, text in assignments)
        column = max((width for width in widths if width <= _INDENT_MAXIMUM), default=0)
        for entry, text in assignments:
            lines += self._above(f"{name}.{entry.name}")
            lines.append(f"{text.ljust(column)}  # {entry.comment}" if entry.comment else text)
        for each in table.entries.values():
            if isinstance(each, Group) and table.location:
                lines += self._inline(each, value_at(whole, each.path))
        return "\n".join(lines) + "\n"

    def _word(self, table: SchemaTable, whole: Any) -> Entry | None:
        """Return the key whose text replaces a table, if it is a known value."""
        if table.like is None or table.like.kind.write(value_at(whole, table.path or ())) is None:
            return None
        mark = replace(table.like.mark, comment=table.comment)
        return replace(table.like, location=table.location, path=table.path or (), mark=mark)

    def _inline(self, group: Group, items: Sequence[Any]) -> Iterator[str]:
        """Yield the lines of a list of tables within a table."""
        yield f"{key_text(group.location[-1])} = ["
        for item in items:
            texts = {
                entry.name: self._write(entry, value_at(item, entry.path))
                for entry in group.item.root.keys
            }
            yield f"  {inline_table({name: text for name, text in texts.items() if text})},"
        yield "]"

    def _rows(self, entry: Entry, rows: Mapping[str, str]) -> str:
        name = ".".join(entry.location)
        lines = [f"# {entry.comment}", *self._above(name), f"[{name}]"]
        return (
            "\n".join((*lines, *(f"{key_text(key)} = {text}" for key, text in rows.items()))) + "\n"
        )

    def _assignment(self, entry: Entry, whole: Any, *, hidden: bool) -> str:
        value = value_at(whole, entry.path)
        text = None if value is None and entry.kind.absent is None else self._write(entry, value)
        if text is None and not self._examples:
            return ""
        is_default = value == entry.default and not entry.is_required
        behind = hidden or text is None or (is_default and not self._every_key)
        assignment = f"{key_text(entry.name)} = {entry.example if text is None else text}"
        return f"# {assignment}" if behind else assignment

    def _above(self, name: str) -> list[str]:
        # Foreign text must stay one comment line.
        return [f"# {visible(line)}".rstrip() for line in self._comments.get(name, ())]
