"""The contract of the rooms, for import-linter: a room uses only the rooms above it.

A face (`command.py`, `screen.py`, `page.py` and files whose names begin so) may use any room, and
only faces, `cli` and `web` use a face. What decides is pure: it reads no file, clock or network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

ROOT = "trimtab"
_NAMES = fields.ListField(subfield=fields.StringField())


class RoomsContract(Contract):
    """What holds between rooms.

    Attributes
    ----------
    rooms
        Highest in the list first: each uses only those before it.
    faces
        Patterns of the names of their files.
    users_of_faces
        Rooms that use faces.
    pure
        Patterns of modules that decide, such as ``judge.*``; their faces are left out.
    outside
        What these must not import.
    arrows_most, imports_most
        Maximum number of pairs of rooms of which one uses the other, and of our own modules that
        a file imports.
    """

    rooms: Any = _NAMES
    faces: Any = _NAMES
    users_of_faces: Any = _NAMES
    pure: Any = _NAMES
    outside: Any = _NAMES
    arrows_most: Any = fields.IntegerField()
    imports_most: Any = fields.IntegerField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return what is wrong, a sentence each."""
        order = {room: number for number, room in enumerate(self.rooms)}
        wrong, arrows, imported = [], set(), Counter[str]()
        for module, other in _imports(graph):
            if not _is_ours(other):
                if self._is_pure(module) and other in self.outside:
                    wrong.append(f"{module} -> {other}: what decides is pure")
                continue
            room, used = module.split(".")[1], other.split(".")[1]
            if room not in order:
                wrong.append(f"{module} is in no room")
                continue
            imported[module] += 1
            if self._is_face(other):
                if not (self._is_face(module) or room in self.users_of_faces):
                    wrong.append(f"{module} -> {other}: a face")
            elif room != used and not self._is_face(module):
                arrows.add((room, used))
                if order.get(used, 0) > order[room]:
                    wrong.append(f"{module} -> {other}: {used} is below {room}")
        wrong += [
            f"{module} imports {count} of our modules, at most {self.imports_most}"
            for module, count in sorted(imported.items())
            if count > self.imports_most
        ]
        if len(arrows) > self.arrows_most:
            wrong.append(f"{len(arrows)} arrows between rooms, at most {self.arrows_most}")
        return ContractCheck(kept=not wrong, metadata={"wrong": list(dict.fromkeys(wrong))})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print it."""
        for text in check.metadata["wrong"]:
            output.print_error(text)

    def _is_face(self, module: str) -> bool:
        name = module.rpartition(".")[2]
        return any(fnmatchcase(name, pattern) for pattern in self.faces)

    def _is_pure(self, module: str) -> bool:
        path = module.removeprefix(f"{ROOT}.")
        return not self._is_face(module) and any(fnmatchcase(path, one) for one in self.pure)


def _imports(graph: ImportGraph) -> Iterator[tuple[str, str]]:
    """Yield each module of ours with each that it imports."""
    for module in sorted(filter(_is_ours, graph.modules)):
        for other in sorted(graph.find_modules_directly_imported_by(module)):
            yield module, other


def _is_ours(module: str) -> bool:
    """Return whether a module is in a room; the core and the package itself are in none."""
    return module.startswith(f"{ROOT}.") and module != f"{ROOT}._core"
