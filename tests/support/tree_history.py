"""Random changes of a real tree: names, links, contents, modes, times, whole subtrees."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from pathlib import Path


class History:
    """Random changes of a tree."""

    def __init__(self, top: Path, rng: random.Random) -> None:
        self.top, self.rng, self.made = top, rng, 0

    def act(self, count: int) -> None:
        steps = (
            self.create, self.create, self.create, self.directory, self.directory, self.delete,
            self.rename, self.move, self.link, self.write, self.mode, self.touch, self.replace,
            self.remove_tree, self.symlink,
        )  # fmt: skip
        for _ in range(count):
            with contextlib.suppress(OSError):
                self.rng.choice(steps)()

    def name(self) -> str:
        self.made += 1
        return self.rng.choice(("", "\n", "\udcff", "ü", "x" * 40)) + f"n{self.made % 97}"

    def all(self, *, directories: bool) -> list[Path]:
        return [
            path
            for path in sorted(self.top.rglob("*"))
            if (path.is_dir() and not path.is_symlink()) == directories
        ]

    def within(self) -> Path:
        return self.rng.choice([self.top, *self.all(directories=True)])

    def file(self) -> Path:
        return self.rng.choice(self.all(directories=False) or [self.top / "none"])

    def create(self) -> None:
        (self.within() / self.name()).write_text("x" * self.rng.randrange(5000))

    def directory(self) -> None:
        (self.within() / self.name()).mkdir()

    def delete(self) -> None:
        self.file().unlink()

    def rename(self) -> None:
        path = self.rng.choice([self.file(), self.within()])
        if path != self.top:
            path.rename(path.with_name(self.name()))

    def move(self) -> None:
        path = self.rng.choice([self.file(), self.within()])
        if path != self.top:
            path.rename(self.within() / path.name)

    def link(self) -> None:
        (self.within() / self.name()).hardlink_to(self.file())

    def write(self) -> None:
        self.file().write_text("y" * self.rng.randrange(9000))

    def mode(self) -> None:
        self.rng.choice([self.file(), self.within()]).chmod(self.rng.choice((0o700, 0o750)))

    def touch(self) -> None:
        path = self.rng.choice([self.file(), self.within()])
        os.utime(path, ns=(self.rng.randrange(10**18), self.rng.randrange(10**18)))

    def replace(self) -> None:
        """Put another directory in the place of one, with the mtime that it had."""
        path = self.within()
        if path != self.top:
            before = path.stat()
            shutil.rmtree(path)
            path.mkdir()
            (path / self.name()).write_text("other")
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def remove_tree(self) -> None:
        path = self.within()
        if path != self.top and self.rng.random() < 0.3:
            shutil.rmtree(path)

    def symlink(self) -> None:
        (self.within() / self.name()).symlink_to("nowhere")
