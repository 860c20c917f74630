"""Files looked at where a server of some of them is lost: a FUSE that does not answer for those."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest
from tests.support import silent_fuse

from trimtab.base.error import RefusedError
from trimtab.purge.core_call import AskedFile, Exact, look_on
from trimtab.reach import process

pytestmark = pytest.mark.system


def asked(inode: int, name: str) -> AskedFile:
    return AskedFile(inode.to_bytes(16, "big"), b"", name.encode())


def test_files_are_looked_at_in_a_process_of_its_own(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / f"f{number}").write_bytes(b"x" * number)
    files = [asked((tmp_path / f"f{number}").stat().st_ino, f"f{number}") for number in range(5)]
    answers = look_on(str(tmp_path), lustre=False, project=False)([*files, asked(1, "none")])
    assert [answer.size_bytes for answer in answers[:5]] == [0, 1, 2, 3, 4]
    assert answers[5].gone
    with pytest.raises(FileNotFoundError):
        look_on(str(tmp_path / "none"), lustre=False, project=False)(files)
    with pytest.raises(RefusedError, match="not on Lustre"):
        look_on(str(tmp_path), lustre=True, project=False)(files)


def test_a_lost_server_is_not_waited_for_without_end(tmp_path: Path) -> None:
    root = tmp_path / "scratch"
    root.mkdir()
    # Node 1 is the root: an odd node is an odd file's next.
    files = [asked(number + 2, f"f{number}") for number in range(8)]
    with silent_fuse.silent_mount(root, mute=True, files=8):
        began_s = time.monotonic()
        look = look_on(str(root), lustre=False, project=False, threads=4, deadline_s=3.0)
        answers = look(files)
        elapsed_s = time.monotonic() - began_s
        lost = Exact(errno=errno.ETIMEDOUT)
        known = Exact(silent_fuse.FILE_BYTES, silent_fuse.FILE_BYTES)
        assert list(answers) == [known, lost] * 4
        assert elapsed_s < 60
        left = set(process._pids)
        assert left
    ends_s = time.monotonic() + 30
    while left & set(process._pids) and time.monotonic() < ends_s:
        process.reap()
        time.sleep(0.1)
    assert not left & set(process._pids)
