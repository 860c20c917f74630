r"""The database of Robinhood 3, as ``mysqldump --hex-blob`` writes it.

::

    ENTRIES   id, uid, gid, size, blocks, last_access, last_mod, last_mdchange, type, nlink ...
    NAMES     id, parent_id, name ...               one row for each name
    VARS      RootId: of the directory that nobody has in NAMES

Names, identities and owners are VARBINARY: as hexadecimal digits they need no escapes, and a row
is what lies between parentheses. Both tables are written to disk by the hash of the identity, then
joined piece by piece; directories are in memory, level by level beneath the root. Source:
``db_schema.def``, ``listmgr_init.c``, ``rbh_misc.c`` of Robinhood at 806084c9 (2025-12).

Times are whole seconds. ``last_access`` is the later one of access and modification, unless
``last_access_only_atime`` was set, and ``creation_time`` no birth. What a row says is as old as
its last update; what Robinhood has not looked at is not in the dump.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, BinaryIO, Final

from trimtab.errors import DataError
from trimtab.purge.index import fields
from trimtab.purge.index.importers.column_map import NO_NAMES, Names
from trimtab.purge.index.manifest import TimeTrust
from trimtab.purge.index.reading import CHUNK_BYTES, RECORD_MAX_BYTES, Reading

if TYPE_CHECKING:
    import polars as pl

_ENTRIES: Final = ("id", "uid", "gid", "size", "blocks", "last_access", "last_mod", "last_mdchange",
                   "type", "nlink")  # fmt: skip
_NAMES: Final = ("id", "parent_id", "name")
_WANTED: Final = {"ENTRIES": _ENTRIES, "NAMES": _NAMES, "VARS": ("varname", "value")}
_PROJECT: Final = "projid"
_TYPES: Final = {"symlink": "l", "dir": "d", "file": "f", "chr": "c", "blk": "b", "fifo": "p",
                 "sock": "s"}  # fmt: skip
_COLUMNS: Final = frozenset(
    {"id", "nlink", "uid", "gid", "size_bytes", "allocated_bytes", "atime_ns", "mtime_ns",
     "ctime_ns", "type"}
)  # fmt: skip
_CREATE: Final = re.compile(rb"CREATE TABLE `(\w+)` \(")
_COLUMN: Final = re.compile(rb"\s+`(\w+)` ")
_INSERT: Final = re.compile(rb"INSERT INTO `(\w+)`(?: \(([^()]*)\))? VALUES\s*")
_ROW: Final = re.compile(rb"\(((?:'(?:[^'\\]|\\.|'')*'|[^'()])*)\)", re.DOTALL)
_VALUE: Final = re.compile(rb"'((?:[^'\\]|\\.|'')*)'|([^',]+)", re.DOTALL)
_ROOT_ID: Final = re.compile(rb"\('RootId','([^']*)'\)")
_END: Final = b"-- Dump completed"
_HINT: Final = "mysqldump --single-transaction --quick --hex-blob DATABASE ENTRIES NAMES VARS"
_DIGITS: Final = r"\A0x(?:[0-9A-Fa-f]{2})+\z"
_FID: Final = r"\A0x[0-9a-f]{1,16}:0x[0-9a-f]{1,8}:0x[0-9a-f]{1,8}\z"
_INODE: Final = r"\A[0-9A-Fa-f]+:[0-9A-Fa-f]{1,16}\z"
_PIECE_BYTES: Final = 4 * 1024**3
"""Of a dump for each piece that is joined at once."""
_PIECES: Final = 64
_PART_ROWS: Final = 2_000_000
_LEVELS: Final = 10_000


@dataclass(slots=True)
class _Table:
    """Rows of a table on their way to disk, in pieces by the hash of the identity."""

    place: Path
    pieces: int
    columns: tuple[str, ...] = ()
    files: list[list[Path]] = field(default_factory=list)
    rows: int = 0
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _held: int = 0

    def add(self, frame: pl.DataFrame) -> None:
        self._frames.append(frame)
        self._held += frame.height
        if self._held >= _PART_ROWS:
            self.write()

    def write(self) -> None:
        import polars as pl

        if not self._frames:
            return
        whole = pl.concat(self._frames, how="diagonal_relaxed")
        self.rows += whole.height
        self._frames, self._held = [], 0
        parts = whole.with_columns(piece=pl.col("id").hash() % self.pieces).partition_by(
            "piece", as_dict=True, include_key=False
        )
        files = self.files or [[] for _ in range(self.pieces)]
        for (piece,), part in parts.items():
            file = self.place / f"{id(self):x}-{len(files[piece])}-{piece}.parquet"
            part.write_parquet(file, compression="lz4", statistics=False)
            files[piece].append(file)
        self.files = files

    def of(self, piece: int) -> pl.DataFrame | None:
        """Return the rows of a piece; ``None`` where there are none."""
        import polars as pl

        files = self.files[piece] if self.files else []
        return pl.concat([pl.read_parquet(file) for file in files]) if files else None


def read(
    file: BinaryIO, reading: Reading, *, work: Path, size_bytes: int, names: Names = NO_NAMES
) -> Iterator[pl.DataFrame]:
    """Yield the rows of a dump.

    Parameters
    ----------
    work
        Where both tables are written while they are joined: some 100 bytes a name.
    size_bytes
        Of the dump, about: how many pieces are made of it.
    names
        Numbers of the users and groups that Robinhood keeps by name.

    Raises
    ------
    DataError
        It is no such dump, or lacks a table or column.
    """
    reading.times, reading.resolution_ns = TimeTrust.SECONDS, fields.NS_PER_S
    reading.columns |= _COLUMNS
    reading.note(
        "last_access of Robinhood may be the later one of access and modification "
        "(last_access_only_atime)"
    )
    pieces = min(_PIECES, 1 + size_bytes // _PIECE_BYTES)
    with TemporaryDirectory(dir=work) as place:
        tables = {name: _Table(Path(place), pieces) for name in ("ENTRIES", "NAMES")}
        root = _spread(file, tables, reading)
        if _PROJECT in tables["ENTRIES"].columns:
            reading.columns.add("project")
        for name, table in tables.items():
            if not set(_WANTED[name]) <= set(table.columns):
                lacking = ", ".join(sorted(set(_WANTED[name]) - set(table.columns)))
                raise DataError(
                    f"the dump has no table {name} with {lacking}",
                    code="format-unknown", hint=_HINT,
                )  # fmt: skip
        yield from _joined(tables["ENTRIES"], tables["NAMES"], root, reading, names)


def _spread(file: BinaryIO, tables: dict[str, _Table], reading: Reading) -> str | None:
    """Write the tables of a dump to disk; return the identity of the root, if it is in it."""
    root = None
    ended = False
    for table, columns, rows in _statements(file, tables, reading):
        if table == "VARS":
            root_id = _ROOT_ID.search(rows)
            root = root_id[1].decode("ascii", "replace") if root_id else root
        elif table == "":
            ended = True
        else:
            frame = _frame(rows, columns, _WANTED[table], reading)
            if not tables[table].rows and not frame["id"].str.contains(_DIGITS).any():
                raise DataError(
                    "identities and names of the dump are not hexadecimal digits",
                    code="format-unknown", hint=_HINT,
                )  # fmt: skip
            tables[table].add(frame)
    for each in tables.values():
        each.write()
    if not ended:
        reading.refuse("the dump does not say that it was completed: it was cut off")
    return root


def _statements(  # noqa: C901 (a grammar of lines)
    file: BinaryIO, tables: dict[str, _Table], reading: Reading
) -> Iterator[tuple[str, tuple[str, ...], bytes]]:
    """Yield table, columns and rows of what is inserted; an empty name once, where the dump ends.

    Rows come as the lines in which the dump has them, many of them or one.
    """
    known: dict[str, list[str]] = {}
    defined = table = ""
    columns: tuple[str, ...] = ()
    held: list[bytes] = []
    held_bytes = offset = 0
    for line in iter(lambda: file.readline(_LINE_MAX_BYTES), b""):
        offset += len(line)
        if table and line.startswith(b"("):
            rows = line
        elif begun := _INSERT.match(line):
            table = begun[1].decode()
            names = known.get(table, [])
            if begun[2] is not None:
                names = [part.strip(b" `").decode() for part in begun[2].split(b",")]
            columns = tuple(names)
            if table in tables:
                tables[table].columns = columns
            rows = line[begun.end() :]
        else:
            table, rows = "", b""
            if created := _CREATE.match(line):
                defined = created[1].decode()
                known[defined] = []
            elif defined and (column := _COLUMN.match(line)):
                known[defined].append(column[1].decode())
            elif line.startswith(_END):
                yield "", (), b""
        if table not in _WANTED or not rows:
            continue
        held.append(rows)
        held_bytes += len(rows)
        ends = rows.rstrip().endswith(b";")
        if ends or held_bytes >= CHUNK_BYTES:
            yield table, columns, b"".join(held)
            held, held_bytes = [], 0
        table = "" if ends else table
    if held:
        reading.refuse("the dump ends within a statement", offset=offset)
        yield table, columns, b"".join(held)


_LINE_MAX_BYTES: Final = 64 * RECORD_MAX_BYTES
"""A statement of mysqldump is usually 1 MiB, and no longer than ``net_buffer_length``."""


def _frame(
    rows: bytes, columns: tuple[str, ...], wanted: tuple[str, ...], reading: Reading
) -> pl.DataFrame:
    """Return the columns of inserted rows as text.

    Raises
    ------
    DataError
        The dump does not name its columns, or lacks one.
    """
    import polars as pl

    if not set(wanted) <= set(columns):
        lacking = ", ".join(name for name in wanted if name not in columns)
        raise DataError(f"a table of the dump has no {lacking}", code="format-unknown", hint=_HINT)

    text = rows.strip().removesuffix(b";").removesuffix(b",")
    many = text.count(b"),(") + text.count(b"),\n(") + 1
    names = [*wanted, *(name for name in (_PROJECT,) if name in columns and "uid" in wanted)]
    lines = text.replace(b"),(", b"\n").replace(b"),\n(", b"\n").removeprefix(b"(")
    if b"\\" not in lines and lines.endswith(b")"):
        try:
            frame = pl.read_csv(
                lines.removesuffix(b")"), has_header=False,
                quote_char="'", null_values="NULL",
                schema={name: pl.String for name in columns},
            )  # fmt: skip
            if frame.height == many:
                return frame.select(names)
        except (pl.exceptions.PolarsError, ValueError):
            pass  # something in it is odd: each row is looked at
    return _slowly(text, columns, reading).select(names)


def _slowly(text: bytes, columns: tuple[str, ...], reading: Reading) -> pl.DataFrame:
    """Return rows one after another, as the grammar has them; what is none is refused."""
    import polars as pl

    rows: list[list[str | None]] = []
    at = 0
    for row in _ROW.finditer(text):
        if text[at : row.start()].strip(b",\n ") != b"":
            reading.refuse("it is no row of a dump", text=text[at : row.start()])
        at = row.end()
        values = [
            None if bare == b"NULL" else (bare or quoted).decode("latin-1")
            for quoted, bare in _VALUE.findall(row[1])
        ]
        if len(values) == len(columns):
            rows.append(values)
        else:
            reading.refuse(f"it has {len(values)} values instead of {len(columns)}", text=row[0])
    if text[at:].strip(b",\n ") != b"":
        reading.refuse("it is no row of a dump", text=text[at:])
    return pl.DataFrame(rows, schema={name: pl.String for name in columns}, orient="row")


def _joined(
    entries: _Table, names: _Table, root: str | None, reading: Reading, known: Names
) -> Iterator[pl.DataFrame]:
    import polars as pl

    directories = _directories(entries, names, root)
    for piece in range(names.pieces):
        named, inodes = names.of(piece), entries.of(piece)
        if named is None:
            continue
        if inodes is None:
            inodes = pl.DataFrame(schema={name: pl.String for name in entries.columns})
        rows = named.join(inodes, on="id", how="left", maintain_order="left").join(
            directories, left_on="parent_id", right_on="id", how="left", maintain_order="left"
        )
        nameless = inodes.join(named, on="id", how="anti").height - inodes.filter(
            pl.col("id") == _hex(root or "")
        ).height  # fmt: skip
        if nameless:
            reading.note("the dump has entries without a name: they are left out")
        for at in range(0, rows.height, _PART_ROWS):
            yield _typed(rows.slice(at, _PART_ROWS), reading, known)


def _hex(text: str) -> str:
    return "0x" + text.encode().hex().upper()


def _directories(entries: _Table, names: _Table, root: str | None) -> pl.DataFrame:
    """Return the path of each directory by its identity, both as hexadecimal digits."""
    import polars as pl

    col = pl.col
    parts: list[pl.DataFrame] = []
    for piece in range(names.pieces):
        named, inodes = names.of(piece), entries.of(piece)
        if named is not None and inodes is not None:
            inner = inodes.filter(col("type") == "dir").select("id")
            parts.append(named.join(inner, on="id", how="semi").select(_NAMES))
    nodes = pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(_NAMES, pl.String))
    nodes = nodes.unique("id", keep="first", maintain_order=True)
    top = _hex(root) if root else _only_root(nodes, names)
    level = pl.DataFrame({"id": [top], "above": [""]})
    levels = [level]
    while level.height and len(levels) < _LEVELS:
        level = nodes.join(level, left_on="parent_id", right_on="id").select(
            "id",
            above=pl.when(col("above") == "")
            .then(col("name").str.slice(2))
            .otherwise(pl.concat_str("above", pl.lit("2F"), col("name").str.slice(2))),
        )
        levels.append(level)
    return pl.concat(levels)


def _only_root(nodes: pl.DataFrame, names: _Table) -> str:
    """Return the directory that has no name, where the dump does not say which is the root."""
    import polars as pl

    above = [
        frame.select("parent_id").unique()
        for piece in range(names.pieces)
        if (frame := names.of(piece)) is not None
    ]
    if not above:
        return ""
    tops = pl.concat(above).unique().join(nodes, left_on="parent_id", right_on="id", how="anti")
    if tops.height != 1:
        raise DataError(
            f"{tops.height} directories of the dump have no name: which is the root is not known",
            code="root-unknown",
            hint=f"with its table VARS it says so: {_HINT}",
        )
    return str(tops.item())


def _typed(rows: pl.DataFrame, reading: Reading, known: Names) -> pl.DataFrame:
    """Return rows in the types of the index, without those that are not what they should be."""
    import polars as pl

    col = pl.col
    texts = rows.select(
        pl.when(col("id").str.starts_with("0x")).then(_decoded("id")).cast(pl.String, strict=False),
        parent=_bytes(col("above")),
        name=_decoded("name"),
    )
    owners = [
        _owner(rows[name], numbers).alias(name)
        for name, numbers in (("uid", known.users), ("gid", known.groups))
    ]
    times = {"atime_ns": "last_access", "mtime_ns": "last_mod", "ctime_ns": "last_mdchange"}
    frame = pl.DataFrame(
        [
            *texts.select("parent", "name"),
            *owners,
            fields.whole(rows["size"], pl.UInt64).alias("size_bytes"),
            fields.blocks(rows["blocks"]).alias("allocated_bytes"),
            fields.whole(rows["nlink"], pl.UInt32),
            *(fields.seconds(rows[source]).alias(name) for name, source in times.items()),
            rows["type"].replace_strict(_TYPES, default=None, return_dtype=pl.String),
            *_identity(texts["id"]),
        ]
    )
    if _PROJECT in rows.columns:
        project = fields.whole(rows[_PROJECT], pl.UInt32).alias("project")
        frame = frame.with_columns(project)
    return _good(frame, rows, reading)


def _bytes(digits: pl.Expr) -> pl.Expr:
    return digits.str.decode("hex", strict=False)


def _decoded(name: str) -> pl.Expr:
    """Return the bytes of a value; empty ones are printed as an empty text."""
    import polars as pl

    column = pl.col(name)
    return pl.when(column.str.starts_with("0x")).then(_bytes(column.str.slice(2)))


def _owner(values: pl.Series, numbers: Mapping[str, int]) -> pl.Series:
    """Return numbers of users or groups, which a dump has as numbers, or as names."""
    import polars as pl

    every = values.unique().drop_nulls().to_list()
    known: dict[str, int | None] = {}
    for value in every:
        text = value
        if value.startswith("0x"):
            try:
                text = bytes.fromhex(value[2:]).decode()
            except ValueError:
                continue
        number = numbers.get(text)
        if number is None and text.isascii() and text.isdigit() and int(text) < 2**32:
            number = int(text)
        known[value] = number
    return values.replace_strict(known, default=None, return_dtype=pl.UInt32)


def _identity(ids: pl.Series) -> list[pl.Series]:
    """Return identities and their kind: of Lustre a FID, else a key and the inode number."""
    import polars as pl

    col = pl.col
    parts = ids.alias("id").to_frame().with_columns(
        fid=col("id").str.contains(_FID), inode=col("id").str.contains(_INODE)
    )  # fmt: skip
    parts = parts.with_columns(col("id").str.splitn(":", 3).struct.unnest())
    fid = pl.concat_str(
        *(
            col(f"field_{place}").str.slice(2).str.zfill(digits)
            for place, digits in ((0, 16), (1, 8), (2, 8))
        )
    )
    inode = pl.concat_str(pl.lit("0" * 16), col("field_1").str.zfill(16))
    both = parts.select(
        pl.when("fid").then(fid).when("inode").then(inode)
        .str.decode("hex", strict=False).alias("id"),
        pl.when("fid").then(pl.lit("fid")).otherwise(pl.lit("inode")).alias("id_kind"),
    )  # fmt: skip
    return both.get_columns()


def _good(frame: pl.DataFrame, rows: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    import polars as pl

    col = pl.col
    odd = (
        col("name").bin.contains(b"/")
        | col("name").bin.contains(b"\0")
        | (col("name").bin.size() == 0)
        | col("name").is_in([b".", b".."])
    )
    good = frame.select(pl.all_horizontal(pl.all().is_not_null()) & ~odd).to_series()
    good = good.fill_null(value=False)
    if good.all():
        return frame
    for at in (~good).arg_true().to_list():
        wrong = [name for name, value in frame.row(at, named=True).items() if value is None]
        if rows["type"][at] is None and rows["nlink"][at] is None:
            reason = "the dump has a name without its entry"
        elif "parent" in wrong:
            reason = "its directory is not beneath the root"
        elif wrong:
            reason = f"{', '.join(wrong)}: not what it should be"
        else:
            reason = "its name cannot be one"
        reading.refuse(reason, text=str(rows["name"][at] or "").encode())
    return frame.filter(good)
