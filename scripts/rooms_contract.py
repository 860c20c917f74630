"""The contract of the rooms, for import-linter: a room uses only the rooms above it.

A face (`command.py`, `screen.py`, `page.py` and what begins with these words) may use any room, and
only faces, `cli` and `web` use a face. No files import each other in a circle, and none imports too
many.
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class RoomsContract(Contract):
    """``rooms``, highest first, ``faces`` as patterns of file names, and the two limits."""

    rooms: Any = fields.ListField(subfield=fields.StringField())
    faces: Any = fields.ListField(subfield=fields.StringField())
    users_of_faces: Any = fields.ListField(subfield=fields.StringField())
    arrows_most: Any = fields.IntegerField()
    imports_most: Any = fields.IntegerField()

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Return what is wrong, one sentence each."""
        root = "trimtab"
        order = {room: number for number, room in enumerate(self.rooms)}
        wrong, arrows, imported = [], set(), Counter[str]()
        for module in sorted(graph.modules):
            if module.partition(".")[0] != root or module.count(".") == 0:
                continue
            room = module.split(".")[1]
            if room not in order:
                wrong.append(f"{module} is in no room")
                continue
            for other in sorted(graph.find_modules_directly_imported_by(module)):
                if other.partition(".")[0] != root or other.count(".") == 0:
                    continue
                imported[module] += 1
                at = other.split(".")[1]
                if self._is_face(other) and not (
                    self._is_face(module) or room in self.users_of_faces
                ):
                    wrong.append(f"{module} -> {other}, a face")
                elif at in order and at != room and not self._is_face(module):
                    arrows.add((room, at))
                    if order[at] > order[room]:
                        wrong.append(f"{module} -> {other}")
        wrong += [
            f"{module} imports {count} of our modules, at most {self.imports_most}"
            for module, count in sorted(imported.items())
            if count > self.imports_most
        ]
        if len(arrows) > self.arrows_most:
            wrong.append(f"{len(arrows)} arrows between rooms, at most {self.arrows_most}")
        return ContractCheck(kept=not wrong, metadata={"wrong": wrong})

    def _is_face(self, module: str) -> bool:
        name = module.rpartition(".")[2]
        return any(fnmatchcase(name, pattern) for pattern in self.faces)

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print it."""
        for text in check.metadata["wrong"]:
            output.print_error(text)
