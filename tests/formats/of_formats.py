"""What must hold of every format: cut, changed, mixed and foreign files give no wrong number."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.formats.damage import RUBBISH, cuts, flips

from trimtab.base.error import DataError
from trimtab.base.run import RunStatus, Sample
from trimtab.formats.format_table import formats
from trimtab.formats.measurement import Measurement, OutputFile, OutputFormat

Key = tuple[str | None, str, int | None, str | None, str]


def values(measurements: tuple[Measurement, ...]) -> dict[Key, float]:
    """Return every believed number of a file by what it is of."""
    return {
        (run.name, sample.metric, sample.repetition, sample.target, sample.statistic): sample.value
        for run in measurements
        if run.status is not RunStatus.FAILED
        for sample in run.samples
        if sample.believed and sample.value is not None
    }


def by_name(measurements: tuple[Measurement, ...]) -> dict[str | None, Measurement]:
    """Return the results of a file by their names."""
    return {measured.name: measured for measured in measurements}


def samples(
    measured: Measurement, metric: str | None, statistic: str = "total", target: str | None = None
) -> list[Sample]:
    """Return the samples of one metric, or of any, of the whole unless said otherwise."""
    key = (statistic, target)
    of_key = [sample for sample in measured.samples if (sample.statistic, sample.target) == key]
    return [sample for sample in of_key if metric in (None, sample.metric)]


def figure(
    measured: Measurement, metric: str, statistic: str = "total", target: str | None = None
) -> Sample:
    """Return the only sample of a metric."""
    (sample,) = samples(measured, metric, statistic, target)
    return sample


def believed(
    measured: Measurement, metric: str | None, statistic: str = "total", target: str | None = None
) -> list[float]:
    """Return the values of those samples that are believed."""
    of_metric = samples(measured, metric, statistic, target)
    return [s.value for s in of_metric if s.believed and s.value is not None]


def source(path: Path, change: Callable[[bytes], bytes] = lambda content: content) -> OutputFile:
    """Return a file with those beside it, as an import finds them."""
    names = dict.fromkeys(name for form in formats() for name in form.companions(path.name))
    paths = {name: path.parent / name for name in names}
    beside = {name: other.read_bytes() for name, other in paths.items() if other.is_file()}
    return OutputFile(path.name, change(path.read_bytes()), beside)


def read_or_none(form: OutputFormat, source: OutputFile) -> tuple[Measurement, ...] | None:
    """Return the results, ``None`` where it says that there is none; any other error escapes."""
    try:
        found = form.read(source)
    except DataError:
        return None
    assert found, "a format returns results or raises DataError"
    for one in found:
        assert one.kind == form.kind
        assert one.status is RunStatus.OK or one.problem
    return found


def recognised(source: OutputFile) -> list[str]:
    """Return the kinds of the formats that claim a file: one, or none."""
    return [form.kind for form in formats() if form.recognises(source)]


def check_cut(
    form: OutputFormat,
    source: OutputFile,
    *,
    seed: int = 0,
    as_whole: Callable[[Key], bool] = lambda key: False,
) -> None:
    """Cut a file after every line and at random bytes: no number may differ from the whole file's.

    Parameters
    ----------
    as_whole
        Keys for which a cut file may rightly tell another value (a sum over what is there so
        far), as long as the result is not ``ok``.
    """
    whole = values(form.read(source))
    for content in cuts(source.content, seed):
        found = read_or_none(form, OutputFile(source.name, content, source.beside))
        for key, value in values(found or ()).items():
            if as_whole(key):
                assert any(one.status is not RunStatus.OK for one in found or ())
                continue
            assert key in whole, f"cut at {len(content)}: {key} is not in the whole file"
            assert value == whole[key], f"cut at {len(content)}: {key}"


def check_line_ends(form: OutputFormat, source: OutputFile) -> None:
    """Give it the line ends of Windows and a byte order mark: every number must be the same."""
    whole = values(form.read(source))
    for content in (source.content.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + source.content):
        other = OutputFile(source.name, content, source.beside)
        assert form.recognises(other)
        assert values(form.read(other)) == whole


PREFIXES: dict[str, bytes] = {
    "srun --label": b"0: ",
    "mpirun --tag-output": b"[1,0]<stdout>:",
    "mpirun --tag-output of Open MPI 5": b"[prterun-node01-4711@1,0]<stdout>: ",
    "pdsh": b"node-01.cluster: ",
    "mpirun -l": b"[0] ",
    "ts": b"Nov  8 10:00:00 ",
    "ts %FT%T%z": b"2026-11-08T10:00:00+0100 ",
    "ts -s": b"00:00:01 ",
    "ts [%F %T]": b"[2026-11-08 10:00:00] ",
    "pasted as code": b"    ",
    "tab": b"\t",
    "srun --label | ts": b"Nov 18 10:00:00 12: ",
}
"""What launchers and people put before each line of an output."""


def prefixed(content: bytes, prefix: bytes) -> bytes:
    """Return a text with a prefix before each line."""
    lines = content.split(b"\n")
    last = lines.pop()
    return b"".join(prefix + line + b"\n" for line in lines) + (prefix + last if last else b"")


def check_rubbish(form: OutputFormat) -> None:
    """Give it everything that is no output of it: a data error or a failed result, no numbers."""
    for content in RUBBISH:
        source = OutputFile("rubbish", content)
        form.recognises(source)
        if form.recognises(source):
            continue  # a fragment of its own, which the cuts are for
        assert values(read_or_none(form, source) or ()) == {}, content[:60]


def check_changed(form: OutputFormat, source: OutputFile, *, seed: int = 0) -> None:
    """Change bytes, lose and double lines: it must not crash, hang, or invent negative numbers."""
    for content in flips(source.content, seed):
        changed = OutputFile(source.name, content, source.beside)
        form.recognises(changed)
        assert all(value >= 0 for value in values(read_or_none(form, changed) or ()).values())


def check_damaged(form: OutputFormat, source: OutputFile) -> None:
    """Cut it, change it, and give it other line ends."""
    check_cut(form, source)
    check_line_ends(form, source)
    check_changed(form, source)


def sources(paths: Iterable[Path]) -> list[OutputFile]:
    """Return files as sources, named as they lie; skips the test where there is none."""
    found = [OutputFile(str(path), path.read_bytes()) for path in paths]
    if not found:
        pytest.skip("the collection of real outputs is not here")
    return found
