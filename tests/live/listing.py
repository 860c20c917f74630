"""A tree as plain system calls and ``lfs`` show it, and what it can go through."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from stat import S_ISDIR, S_ISREG


def walk(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every name below a directory, relative to it, with what ``lstat`` says."""
    stack = [root]
    while stack:
        directory = stack.pop()
        with os.scandir(directory) as entries:
            for entry in entries:
                path = Path(entry.path)
                try:
                    status = path.lstat()
                except FileNotFoundError:
                    continue
                yield str(path.relative_to(root)), status
                if S_ISDIR(status.st_mode):
                    stack.append(path)


def rows_of(root: Path) -> dict[str, tuple[int, ...]]:
    """Return of each name what an index has too: type, size of files, owner, links, mtime."""
    rows: dict[str, tuple[int, ...]] = {}
    for name, status in walk(root):
        size = status.st_size if S_ISREG(status.st_mode) else 0
        kind = status.st_mode & 0o170000
        rows[name] = (kind, size, status.st_uid, status.st_gid, int(status.st_mtime))
    return rows


def times_of(root: Path) -> dict[str, tuple[int, int, int]]:
    """Return the three times of every name below a directory, and of itself, in nanoseconds."""
    return {
        name: (status.st_atime_ns, status.st_mtime_ns, status.st_ctime_ns)
        for name, status in (*walk(root), (".", root.lstat()))
    }


def works(words: Sequence[str]) -> bool:
    """Return whether a command of ``lfs`` succeeds."""
    return not subprocess.run(["lfs", *words], capture_output=True, check=False).returncode


ACTS = (
    *("create", "create", "create", "write", "rename", "link", "unlink", "rmdir", "mkdir", "chmod"),
    *("chown", "truncate", "symlink", "striped", "replace", "migrate", "utime"),
)


class Work:
    """People at work below a directory: one random act after the other, from a seed."""

    def __init__(
        self, root: Path, seed: int, mdts: int, lfs: Callable[[Sequence[str]], bool] = works
    ) -> None:
        self.root = root
        self._random = random.Random(seed)
        self._mdts = mdts
        self._lfs = lfs
        self._number = 0
        self.acts: dict[str, int] = {}

    def act(self) -> None:
        """Do one thing; an act that finds nothing to work on, or loses a race, is none."""
        name = self._random.choice(ACTS)
        try:
            getattr(self, "_" + name)()
        except OSError:
            return
        self.acts[name] = self.acts.get(name, 0) + 1

    def _new(self) -> Path:
        self._number += 1
        ending = self._random.choice(("a", "ü", "tab\t", "%"))
        return self._directory() / f"n{self._number} {ending}"

    def _all(self) -> tuple[list[Path], list[Path]]:
        directories, files = [self.root], []
        for name, status in walk(self.root):
            (directories if S_ISDIR(status.st_mode) else files).append(self.root / name)
        return directories, files

    def _directory(self) -> Path:
        return self._random.choice(self._all()[0])

    def _file(self) -> Path:
        files = self._all()[1]
        if not files:
            raise FileNotFoundError
        return self._random.choice(files)

    def _create(self) -> None:
        self._new().write_bytes(b"x" * self._random.choice((0, 1, 5000, 70000)))

    def _write(self) -> None:
        with self._file().open("ab") as opened:
            opened.write(b"y" * self._random.randrange(1, 9000))

    def _rename(self) -> None:
        directories, files = self._all()
        self._random.choice(directories[1:] + files or [self.root / "none"]).rename(self._new())

    def _replace(self) -> None:
        self._file().replace(self._file())

    def _link(self) -> None:
        os.link(self._file(), self._new(), follow_symlinks=False)

    def _unlink(self) -> None:
        self._file().unlink()

    def _rmdir(self) -> None:
        self._random.choice(self._all()[0][1:] or [self.root / "none"]).rmdir()

    def _mkdir(self) -> None:
        self._new().mkdir()

    def _chmod(self) -> None:
        self._file().chmod(self._random.choice((0o600, 0o644, 0o755)))

    def _chown(self) -> None:
        os.lchown(self._file(), self._random.choice((2001, 2002)), 2001)

    def _truncate(self) -> None:
        os.truncate(self._file(), self._random.randrange(0, 5000))

    def _symlink(self) -> None:
        self._new().symlink_to("nowhere")

    def _utime(self) -> None:
        old_s = self._random.randrange(10**9, 16 * 10**8)
        os.utime(self._file(), (old_s, old_s), follow_symlinks=False)

    def _striped(self) -> None:
        if not self._lfs(["mkdir", "-c", str(self._mdts), str(self._new())]):
            raise OSError

    def _migrate(self) -> None:
        directories = self._all()[0][1:]
        if directories:
            index = str(self._random.randrange(self._mdts))
            if not self._lfs(["migrate", "-m", index, str(self._random.choice(directories))]):
                raise OSError
