"""Trimtab under test: its commands, run as a user runs them, and what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tomlkit
from tests.live.cluster import Cluster
from tests.live.running import Wrong, require

_COMMAND_TIMEOUT_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command of Trimtab printed, and its exit code."""

    words: Sequence[str]
    code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> dict[str, Any]:
        """Its one JSON object."""
        try:
            return json.loads(self.stdout)
        except ValueError:
            text = f"{' '.join(self.words)} printed no JSON, code {self.code}: {self.complaint}"
            raise Wrong(text) from None

    @property
    def complaint(self) -> str:
        """What it printed last, for people."""
        return (self.stderr.strip() or self.stdout.strip())[-500:]

    @property
    def text(self) -> str:
        """All it printed, in one line."""
        return " ".join((self.stdout + " " + self.stderr).split())


class Subject:
    """A site, the commands of Trimtab on it, and a directory of its own on it.

    Parameters
    ----------
    directory
        On the file system under test; what rows make lies below it.
    state
        On a local disk: site files, store, plans, results.
    minutes
        How long random work goes on in the rows that have it.
    """

    def __init__(
        self,
        site: Mapping[str, Any],
        cluster: Cluster,
        directory: Path,
        state: Path,
        command: Sequence[str],
        minutes: float,
    ) -> None:
        self.cluster = cluster
        self.directory = directory
        self.state = state
        self.minutes = minutes
        self._site = site
        self._command = tuple(command)
        self.environment = {
            **os.environ,
            "TRIMTAB_STORE": str(state / "store.db"),
            "TRIMTAB_PURGE": str(state / "purge"),
            "COLUMNS": "200",
        }

    @property
    def name(self) -> str:
        """Of the site."""
        return self._site["site"]["name"]

    def site(self, label: str, **tables: Any) -> str:
        """Write the site file with other tables, and return its path: an argument for commands.

        Tables are merged into those of the site, ``policy`` is replaced: nothing is armed here
        that a row does not ask for.
        """
        document = json.loads(json.dumps(self._site, default=str))
        document.pop("policy", None)
        document.pop("snapshot", None)
        document.pop("probe", None)
        for key, value in tables.items():
            document[key] = {**document.get(key, {}), **value}
        file = self.state / f"{label}.toml"
        file.write_text(tomlkit.dumps(document))
        file.chmod(0o600)
        return str(file)

    def site_table(self, name: str) -> dict[str, Any]:
        """Return a table of the site file, empty where there is none."""
        return dict(self._site.get(name, {}))

    def place(self, name: str) -> Path:
        """Return a new, empty directory on the file system under test."""
        path = self.directory / name
        if path.exists():
            self.cluster.here("chattr", "-R", "-ia", str(path), code=None)
            self.cluster.here("rm", "-rf", "--one-file-system", str(path), timeout_s=3600.0)
        path.mkdir()
        return path

    def trimtab(
        self,
        *words: str,
        code: int | Sequence[int] | None = 0,
        timeout_s: float = _COMMAND_TIMEOUT_S,
        **environment: str,
    ) -> Answer:
        """Run a command of Trimtab; raise `Wrong` where it ends with another exit code."""
        done = subprocess.run(
            [*self._command, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",
            timeout=timeout_s,
            check=False,
            env={**self.environment, **environment},
            cwd=self.state,
        )
        answer = Answer(words, done.returncode, done.stdout, done.stderr)
        if code is not None:
            codes = (code,) if isinstance(code, int) else tuple(code)
            text = f"trimtab {' '.join(words)}: exit code {answer.code}: {answer.complaint}"
            require(answer.code in codes, text)
        return answer

    def json(self, *words: str, code: int | Sequence[int] | None = 0) -> dict[str, Any]:
        """Run a command with ``--json`` and return its document."""
        return self.trimtab(*words, "--json", code=code).document

    @contextmanager
    def running(self, *words: str, log: str) -> Iterator[subprocess.Popen[bytes]]:
        """Have a command run inside the block, its output in a file of the state directory."""
        with (self.state / log).open("wb") as output:
            process = subprocess.Popen(
                [*self._command, *words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.state,
            )
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
                    try:
                        process.wait(180.0)
                    except subprocess.TimeoutExpired:
                        process.kill()
                        process.wait()

    def killed_after(self, seconds: float, *words: str) -> Answer | None:
        """Run a command and kill it after so long; return its answer if it was over before."""
        process = subprocess.Popen(
            [*self._command, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            env=self.environment,
            cwd=self.state,
        )
        try:
            stdout, stderr = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        return Answer(words, process.returncode, stdout, stderr)

    # ---- what rows have in common ----------------------------------------------------------------

    def target_readings(self, site: str) -> dict[str, dict[str, Any]]:
        """Return the readings of each target as ``trimtab targets`` has them now."""
        document = self.json("targets", site, code=None)
        return {
            target["name"]: {
                reading["name"]: reading["value"]
                for reading in target["readings"]
                if reading["label"] is None
            }
            for target in document["targets"]
        }

    def ledger(self, site: str) -> list[dict[str, Any]]:
        """Return every action that the ledger has."""
        return self.json("actions", site, "--all")["actions"]

    def applied(self, command: str, site: str, *words: str) -> list[dict[str, Any]]:
        """Carry out a plan and return its actions, each of which must have been done."""
        document = self.json(command, site, "--apply", *words, code=None)
        actions = document["actions"]
        odd = [
            f"{action['instruction']['target']}: {action['outcome']}: {action['detail']}"
            for action in actions
            if action["outcome"] != "done"
        ]
        require(not odd, f"{command}: {'; '.join(odd)[:600]}")
        if not actions:
            plan = document["plan"]
            held = plan["held"] + [one["reason"] for one in plan["untouched"]]
            raise Wrong(
                f"{command} --apply did nothing: {'; '.join(held)[:600] or 'no reason given'}"
            )
        return actions


def wait_while(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Let time pass as long as a process lives; raise `Wrong` where it ends by itself."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        if process.poll() is not None:
            raise Wrong(f"it ended by itself with exit code {process.returncode}")
        time.sleep(1.0)
