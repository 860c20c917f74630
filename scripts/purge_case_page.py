"""Make the tables of benchmarks/reports/purge-case.md from benchmarks/results/purge_case.json.

Without arguments the page is written; with ``--check`` it is only compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from math import ceil, exp
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.purge_case import case  # noqa: E402 (the tree is on the path now)
from scripts.page_blocks import remade, text_of, write_or_check  # noqa: E402

from trimtab.purge.purge_policy import RunCaps  # noqa: E402

PAGE = ROOT / "benchmarks" / "reports" / "purge-case.md"
RESULT = ROOT / "benchmarks" / "results" / "purge_case.json"
DAY_S = 86_400
Result = dict[str, Any]


def main(arguments: list[str]) -> int:
    """Write the page, or return 1 if it is not what it would be."""
    result = json.loads(RESULT.read_text())
    blocks = {name: text_of(lines(result)) for name, lines in BLOCKS.items()}
    return write_or_check({PAGE: remade(PAGE.read_text(), blocks)}, arguments)


def machine(result: Result) -> Iterator[str]:
    """Yield when and on what it was walked."""
    made, mixes, small = result["case"], result["mixes"], result["small"]
    on = made["machine"]
    yield (
        f"Walked on {made['date']} over {made['index']['rows']:,} names "
        f"({on['processors']} processors, {on['architecture']}, Linux {on['kernel']}, load "
        f"{on['load_average'][0]:.0f} at the beginning); the other mixes on {mixes['date']} over "
        f"{mixes['rows']:,} names each, the small file system on {small['date']}. "
        "`make purge-case` does it again."
    )


def assumptions(result: Result) -> Iterator[str]:
    """Yield what the case begins with, and where each figure is from."""
    made, mix = result["case"], result["case"]["mix"]
    held, growth = made["holdings"], made["growth"]
    kept = [
        f"{written:.3g} of it {days:g} d"
        for written, days in zip(mix["shares"], mix["kept_days"], strict=True)
    ]
    standing = [_percent(one, 0) for one in case.MIXES[0].standing]
    yield from _table(
        ("what", "here", "from"),
        [
            ("capacity", _pb(made["capacity_bytes"]), "printed (S1, II)"),
            (
                "target, age, minimum",
                "75 %; latest of atime, mtime, ctime; 8 weeks",
                "printed (S1, V)",
            ),
            ("lists", "once a week, for the week to come", "printed (S1, V.A)"),
            ("users", f"{made['users']:,}", "printed (S1, II)"),
            (
                "who holds how much",
                f"shares as 1 / ({made['even_users']} + k): the first of them about 20 TB",
                "assumed; 20 TB is the printed quota (S1, II)",
            ),
            (
                "how full",
                _percent(made["used_bytes"] / made["capacity_bytes"], 0),
                "assumed: a backlog, as when purging began",
            ),
            (
                "names",
                f"{made['index']['rows']:,}, so {_pb(held['bytes_all'])} in files of "
                f"{held['bytes_all'] / held['files_all'] / 1e6:.0f} MB on the average",
                "assumed: the number is not printed",
            ),
            (
                "how long files are kept",
                "; ".join(kept) + ", on the average",
                "assumed: as the [twin's scenario](../../docs/scenarios.md) has it",
            ),
            (
                "so what is there",
                " / ".join(standing) + ": what is kept for long piles up",
                "follows, at an even rate of writing",
            ),
            (
                "written a day",
                _pb(made["used_bytes"] / _held_days(case.MIXES[0])),
                "follows; 2.2 to 2.9 PB are printed (S3)",
            ),
            ("oldest", f"{mix['oldest_days']:g} d", "assumed"),
            (
                "read again later",
                f"{_percent(mix['reread_share'], 0)} of the directories",
                "assumed",
            ),
            (
                "growth of use",
                f"{growth['bytes_per_day'] / 1e12:.0f} TB a day, over {growth['days']} days",
                "assumed: a hundredth of the 2.9 PB that are written (S3)",
            ),
            ("size of a file", "independent of its age and owner", "assumed"),
        ],
    )


def policy(result: Result) -> Iterator[str]:
    """Yield the policy file."""
    told = {
        "root": "/mnt/scratch",
        "notices": "/mnt/scratch.notices",
        "top": "/mnt",
        "more": "",
    }
    yield from _fenced(case.POLICY.format(**told), "toml")


def horizon(result: Result) -> Iterator[str]:
    """Yield what ``horizon`` prints."""
    found = result["case"]["horizons"]
    command, options = found["command"].split(" --used", 1)
    yield from _fenced(f"$ {command} \\\n    --used{options}\n{found['text']}")


def slopes(result: Result) -> Iterator[str]:
    """Yield what a month more of age moves, where the curve is old and where it is young."""
    steps = {round(one["age_s"] / DAY_S): one for one in _large(result)["steps"]}
    old, young = (
        _slope(steps[older], steps[younger]) for older, younger in ((547, 365), (112, 56))
    )
    yield (
        f"Between a year and a year and a half, four weeks of age are {28 * 100 * old:.1f} % of "
        f"the file system; between 8 and 16 weeks they are {28 * 100 * young:.1f} %."
    )


def targets(result: Result) -> Iterator[str]:
    """Yield what other targets would take."""
    rows = []
    for one in result["case"]["horizons"]["targets"]:
        needed = one["needed"]
        after = needed["usage_after"]["fullness"]
        reached = needed["status"] == "reached"
        rows.append(
            (
                _percent(one["target"], 0),
                _days(needed["age_s"]) if reached else "out of reach",
                _pb(needed["freed"]["allocated_bytes"]),
                _millions(needed["freed"]["files"]),
                _percent(after),
                str(_runs(needed["freed"])),
                _days(one["published"]["age_s"])
                if one["published"]["status"] == "reached"
                else "everything eligible",
            )
        )
    head = ("target", "horizon", "frees", "million files", "leaves", "runs", "lists from")
    yield from _table(head, rows)


def reads(result: Result) -> Iterator[str]:
    """Yield what changes where nobody knows whether reads are recorded."""
    found = result["case"]["horizons"]
    rows = [
        (
            words,
            ", ".join(one["rules"]["counted"]),
            f"{one['rules']['minimum_age_s'] / DAY_S / 7:.0f} weeks",
            _days(one["needed"]["age_s"]),
            _millions(one["needed"]["freed"]["files"]),
            _pb(one["needed"]["eligible"]["allocated_bytes"]),
            _percent(_least(one)),
        )
        for words, one in (
            ("recorded, and shown by a canary", found["horizon"]),
            ("not known", found["without_reads"]),
        )
    ]
    head = ("reads", "counted", "minimum age", "horizon at 75 %", "million files")
    yield from _table((*head, "may go in all", "least fullness"), rows)


def users(result: Result) -> Iterator[str]:
    """Yield what the lists take from whom."""
    plan, held = result["case"]["plan"], result["case"]["holdings"]
    head = ("of each user", "a tenth under", "half under", "nine tenths under", "99 % under")
    rows = [
        ("holds", *(f"{one / 1e12:.2f} TB" for one in held["bytes"])),
        ("files held", *(f"{one:,.0f}" for one in held["files"])),
        ("files on the list", *(f"{one:,.0f}" for one in plan["user_files"])),
        ("bytes on the list", *(f"{one / 1e12:.2f} TB" for one in plan["user_bytes"])),
        ("share of what they hold", *(_percent(one, 0) for one in plan["user_shares"])),
    ]
    yield from _table((*head, "most"), rows)
    yield ""
    yield (
        f"{plan['users']:,} of {held['users']:,} users have a list. A tenth of the users holds "
        f"{_percent(held['top_tenth_share'], 0)} of the bytes, and {held['over_quota']:,} hold "
        "more than 20 TB."
    )


def lists(result: Result) -> Iterator[str]:
    """Yield how long the lists are."""
    plan, told = result["case"]["plan"], result["case"]["notices"]
    sizes = told["bytes"]
    yield (
        f"The plan names {plan['files']:,} files of {_pb(plan['allocated_bytes'])}, in "
        f"{plan['candidates_bytes'] / 1e9:.1f} GB. `notify --files` wrote {told['lists']:,} lists: "
        f"{sizes['txt'] / 1e9:.1f} GB of text, {sizes['jsonl'] / 1e9:.1f} GB of JSON lines, "
        f"{sizes['nul'] / 1e9:.1f} GB of names. Half of the texts are shorter than "
        f"{told['text_bytes'][1] / 1e3:.0f} kB, nine in ten than {told['text_bytes'][2] / 1e6:.1f} "
        f"MB; the longest has {told['text_bytes'][-1] / 1e6:.0f} MB."
    )


def notice(result: Result) -> Iterator[str]:
    """Yield the list of a user in the middle."""
    yield from _fenced(result["case"]["notices"]["example"])


def mixes(result: Result) -> Iterator[str]:
    """Yield the horizons of other mixes."""
    words = {mix.name: mix.words for mix in case.MIXES}
    rows = []
    for one in result["mixes"]["mixes"]:
        needed, published = one["needed"], one["published"]
        reached = needed["status"] == "reached"
        rows.append(
            (
                one["name"],
                words[one["name"]],
                _days(needed["age_s"]) if reached else "none",
                _days(published["age_s"])
                if published["status"] == "reached"
                else "everything eligible",
                _share(needed["freed"]["files"], one["files"]),
                _share(needed["eligible"]["allocated_bytes"], one["allocated_bytes"]),
                _percent(_least(one)),
            )
        )
    head = ("mix", "what differs", "horizon", "lists from", "files that go", "older than 8 weeks")
    yield from _table((*head, "least fullness"), rows)


def costs(result: Result) -> Iterator[str]:
    """Yield what each step took."""
    made = result["case"]
    steps = (
        ("the index, written", made["index"]),
        ("`horizon`, with the curve, by user and project", made["horizons"]),
        ("`query`: who holds what, in SQL", made["holdings"]),
        ("`plan`: chosen, sorted, hashed, signed", made["plan"]),
        ("`notify --files`", made["notices"]),
    )
    rows = [
        (
            words,
            f"{one['elapsed_s']:.1f} s",
            f"{one['processor_s']:.1f} s",
            f"{one['memory_bytes'] / 2**30:.2f} GiB",
        )
        for words, one in steps
    ]
    yield from _table(("step", "time", "of processors", "memory"), rows)
    yield ""
    lookups_s = made["notices"]["account_lookup_s"] * made["plan"]["users"]
    yield (
        f"The index takes up {made['index']['bytes'] / 1e9:.1f} GB. Of `notify`, "
        f"{lookups_s:.0f} s are accounts looked up in one file of {made['users']:,} lines."
    )


def caps(result: Result) -> Iterator[str]:
    """Yield how the caps cut the purge into runs."""
    freed = _large(result)["needed"]["freed"]
    by_files, by_bytes = _runs_by(freed)
    yield (
        f"With the default caps of a run, 5 million files and 5 % of the file system, the "
        f"{_millions(freed['files'])} million files and {_pb(freed['allocated_bytes'])} of the "
        f"backlog go in {max(by_files, by_bytes)} days: {by_files} by files, {by_bytes} by bytes."
    )


def daily(result: Result) -> Iterator[str]:
    """Yield what a run a day takes once the backlog is gone: what grows past the horizon."""
    found = _large(result)
    needed = found["needed"]
    away = [one for one in found["steps"] if abs(one["age_s"] - needed["age_s"]) > 20 * DAY_S]
    near = min(away, key=lambda one: abs(one["age_s"] - needed["age_s"]))
    older, younger = sorted((needed, near), key=lambda one: -one["age_s"])
    share = _slope(older, younger)
    files = (younger["freed"]["files"] - older["freed"]["files"]) * DAY_S
    yield (
        f"At the horizon one day of age is {share * case.CAPACITY_BYTES / 1e12:.0f} TB in "
        f"{files / (older['age_s'] - younger['age_s']) / 1e3:.0f} thousand files."
    )


def dry(result: Result) -> Iterator[str]:
    """Yield what the dry run of the small file system prints."""
    yield from _fenced("$ trimtab purge run PLAN\n" + result["small"]["dry"])


def run(result: Result) -> Iterator[str]:
    """Yield what the run prints."""
    yield from _fenced("$ trimtab purge run PLAN --apply\n" + result["small"]["run"])


def report(result: Result) -> Iterator[str]:
    """Yield what the report prints."""
    yield from _fenced("$ trimtab purge report\n" + result["small"]["report"])


def little(result: Result) -> Iterator[str]:
    """Yield what the small file system is."""
    made = result["small"]
    used = made["used"]
    yield (
        f"{made['files']:,} files of 20 users on an ext4 of {made['image_bytes'] / 2**30:g} GiB; "
        f"the plan names {made['planned']['files']:,} of them. While its lists stood "
        f"{used['read']} of those were read, {used['removed']} removed and {used['renamed']} "
        "renamed."
    )


BLOCKS: dict[str, Callable[[Result], Iterator[str]]] = {
    "machine": machine,
    "assumptions": assumptions,
    "policy": policy,
    "horizon": horizon,
    "slopes": slopes,
    "targets": targets,
    "caps": caps,
    "daily": daily,
    "reads": reads,
    "users": users,
    "lists": lists,
    "notice": notice,
    "mixes": mixes,
    "costs": costs,
    "small": little,
    "dry run": dry,
    "run": run,
    "report": report,
}


def _held_days(mix: case.Mix) -> float:
    """Return how many days of writing are there, at an even rate since the first."""
    both = zip(mix.shares, mix.kept_days, strict=True)
    return sum(share * days * (1 - exp(-mix.oldest_days / days)) for share, days in both)


def _large(result: Result) -> Result:
    return result["case"]["horizons"]["horizon"]


def _slope(older: Result, younger: Result) -> float:
    """Return by what share of the file system two steps of the curve differ for each day."""
    freed = younger["freed"]["allocated_bytes"] - older["freed"]["allocated_bytes"]
    return freed / case.CAPACITY_BYTES / (older["age_s"] - younger["age_s"]) * DAY_S


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _fenced(text: str, language: str = "") -> Iterator[str]:
    yield f"```{language}"
    yield from (line.rstrip() for line in text.rstrip().splitlines())
    yield "```"


def _least(found: Result) -> float:
    """Return the fullness that is left when all that may go is gone."""
    needed = found["needed"]
    return (case.USED_BYTES - needed["eligible"]["allocated_bytes"]) / case.CAPACITY_BYTES


def _runs(freed: Result) -> int:
    return max(_runs_by(freed))


def _runs_by(freed: Result) -> tuple[int, int]:
    """Return in how many runs, a day each, so much goes: by files and by bytes."""
    usual = RunCaps()
    assert usual.files is not None
    assert usual.filesystem_fraction is not None
    most_bytes = usual.filesystem_fraction * case.CAPACITY_BYTES
    return ceil(freed["files"] / usual.files), ceil(freed["allocated_bytes"] / most_bytes)


def _share(part: float, whole: float) -> str:
    return _percent(part / whole)


def _days(age_s: float) -> str:
    return f"{age_s / DAY_S:.0f} d"


def _pb(value: float) -> str:
    return f"{value / 1e15:.2f} PB"


def _millions(value: float) -> str:
    return f"{value / 1e6:.1f}"


def _percent(value: float, digits: int = 1) -> str:
    return f"{100 * value:.{digits}f} %"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
