"""Every recorded output of a tool: the samples that are read from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scripts.goldens.facts import normal
from scripts.goldens.place import PLACE, fresh, trimtab

NO_TOOLS: Final = frozenset({"hosts", "record", "gufi", "gufi_trace", "mfu", "robinhood"})
"""Folders of fixtures that hold no output of a benchmark; the lists in them are of `purge`."""
_NO_OUTPUT: Final = (".cmd", ".err", ".rc", ".md")
_FIELDS: Final = ("metric", "value", "unit", "statistic", "repetition", "target", "output", "line")


def goldens() -> Iterator[tuple[str, Any]]:
    """Yield the results of each folder, file by file, as a dry import shows them."""
    fresh("tools")
    for folder in sorted((PLACE / "fixtures").iterdir()):
        if folder.name not in NO_TOOLS:
            words = ("import", folder, "--dry-run", "--site", "tools", "--timezone", "UTC")
            answer = trimtab(*words, environment={"TRIMTAB_STORE": "sqlite:////mnt/tools/t.db"})
            files = answer["document"]["files"]
            read = [file for file in files if not file["file"].endswith(_NO_OUTPUT)]
            head = normal({**answer, "document": {**answer["document"], "files": len(files)}})
            results = {file["file"].partition("fixtures/")[2]: _result(file) for file in read}
            yield folder.name, {**head, "files": results}


def _result(file: Mapping[str, Any]) -> dict[str, Any]:
    """Return a file's result with a sample a line: what, how much, and where it stands."""
    samples = [[sample[name] for name in _FIELDS] for sample in file["samples"]]
    result = normal({**file, "samples": len(samples)})
    del result["file"]
    return {**result, "samples": normal(samples)}
