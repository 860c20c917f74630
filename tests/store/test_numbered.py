"""Lines that several processes append to one directory, whatever kills them."""

import json
import os
import signal
import time

import pytest
from tests.support.counts import repetitions, seeded

from trimtab.base.error import DataError, RefusedError, UnreadableError
from trimtab.store.chain import opened_lines, text_of, unlinked


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "lines"


def opened(directory):
    return opened_lines(directory, owner=os.geteuid(), hint="keep it")


def test_who_has_not_read_the_last_line_appends_nothing(directory):
    with opened(directory) as one, opened(directory) as other:
        assert one.append(b'{"by":"one"}')
        assert not other.append(b'{"by":"other"}')
        assert other.read() == (b'{"by":"one"}',)
        assert other.append(b'{"by":"other"}')
        assert one.read() == (b'{"by":"other"}',)
        assert (one.read(), one.count, other.count) == ((), 2, 2)
    chain = unlinked(text_of(directory), hint="")
    assert chain.lines == (b'{"by":"one"}', b'{"by":"other"}')
    assert sorted(path.name for path in directory.iterdir()) == ["0000000001", "0000000002"]


def test_a_line_whose_answer_was_lost_is_ones_own(directory, monkeypatch):
    real = os.link

    def lost(*arguments, **named):
        real(*arguments, **named)
        raise FileExistsError  # as NFS says where the answer to the first try was lost

    with opened(directory) as lines:
        monkeypatch.setattr(os, "link", lost)
        assert lines.append(b'{"n":1}')
        monkeypatch.undo()
        assert lines.append(b'{"n":2}')
    assert len(unlinked(text_of(directory), hint="").lines) == 2


def test_a_line_that_was_changed_or_removed_is_noticed(directory):
    with opened(directory) as lines:
        assert all(lines.append(b'{"n":%d}' % number) for number in range(3))
    second = directory / "0000000002"
    whole = second.read_bytes()
    second.write_bytes(whole.replace(b"1}", b"7}"))
    with opened(directory) as lines, pytest.raises(DataError, match="does not follow"):
        lines.read()
    for text in (b"", whole[:-1], whole + whole):
        second.write_bytes(text)
        with opened(directory) as lines, pytest.raises(DataError):
            lines.read()
    second.unlink()
    with opened(directory) as lines:
        lines.read()
        assert lines.count == 1
    with pytest.raises(DataError, match="line 2 is missing"):
        text_of(directory)


def test_a_line_that_cannot_be_written_is_an_error(directory, monkeypatch):
    def full(*_arguments, **_named):
        raise OSError(28, "No space left on device")

    with opened(directory) as lines:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UnreadableError, match="No space left"):
            lines.append(b'{"n":1}')
        monkeypatch.undo()
        assert lines.append(b'{"n":1}')


def test_a_directory_of_others_is_refused(directory):
    directory.mkdir(mode=0o755)
    directory.chmod(0o755)
    with pytest.raises(RefusedError, match="open to others"), opened(directory):
        pass


def appender(directory, name, count):
    """Append so many lines, and say of each that it is there."""
    said = os.open(directory.with_name(f"said-{name}"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with opened(directory) as lines:
        for number in range(count):
            while not lines.append(json.dumps({"by": name, "n": number}).encode()):
                lines.read()
            os.write(said, b"%d\n" % number)


@pytest.mark.system
@pytest.mark.parametrize("kills", repetitions(gate=6, soak=300))
def test_processes_that_are_killed_leave_one_chain_with_every_line_once(directory, kills):
    """The riskiest question of several hosts: do they agree on one order without a lock?"""
    chance = seeded("numbered lines")
    names = []
    for kill in range(kills):
        processes = {}
        for host in range(3):
            name = f"{kill}-{host}"
            process = os.fork()
            if process == 0:
                code = 1
                try:
                    appender(directory, name, 40)
                    code = 0
                finally:
                    os._exit(code)
            processes[process] = name
        names += processes.values()
        time.sleep(chance.uniform(0.0, 0.1))
        killed = chance.choice(list(processes))
        os.kill(killed, signal.SIGKILL)
        for process in processes:
            code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            assert code == 0 or process == killed
    lines = [json.loads(line) for line in unlinked(text_of(directory), hint="").lines]
    written = [(line["by"], line["n"]) for line in lines]
    assert len(set(written)) == len(written)
    for name in names:
        path = directory.with_name(f"said-{name}")
        said = path.read_text().split() if path.exists() else []
        there = [n for by, n in written if by == name]
        assert there == list(range(len(there)))
        assert len(said) <= len(there) <= len(said) + 1, "at most the line that the kill cut"
