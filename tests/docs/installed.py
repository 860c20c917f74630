"""A host with the package, used as docs/install.md says; root runs it in a copy of one.

Only the standard library and the installed command: what is here is what an administrator does.
"""

from __future__ import annotations

import http.cookiejar
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

LUSTRE, FILES = Path("/srv/scratch"), Path("/srv/files")
FAKE = Path("/srv/fake")
STATE, NOTICES = Path("/var/lib/trimtab"), Path("/var/spool/trimtab/notices")
AGO_S = 21 * 86400
UNITS = Path("/usr/lib/systemd/system")
PAST = """
import sys
from datetime import timedelta
from trimtab.base import event
behind, now = timedelta(seconds=float(sys.argv.pop(1))), event.utc_now
event.utc_now = lambda: now() - behind
from trimtab.cli import main
main()
"""
"""The command as it would have been earlier: a notice period of two weeks is not waited for."""
POLICY = """
[policy]
name = "files"
root = "/srv/files"
target = "1%"
[age]
counted = ["mtime"]
[notice]
directory = "/var/spool/trimtab/notices"
[caps]
user = "unlimited"
file_system = "unlimited"
[guards]
settle = "0"
"""


def run(*words: object, code: int = 0, **environment: str) -> str:
    """Run a program; it ends with the code that is expected. Return what it printed."""
    argv = [str(word) for word in words]
    ended = subprocess.run(
        argv, env={**os.environ, **environment}, capture_output=True, text=True, timeout=240,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ended.returncode == code, (argv, ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout + ended.stderr


def as_unit(unit: str, *words: object) -> tuple[object, ...]:
    """Return a command as root with no other capabilities than a unit has."""
    text = (UNITS / unit).read_text().replace("\\\n", " ")
    (bounding,) = re.findall(r"^CapabilityBoundingSet=(.*)$", text, re.MULTILINE)
    kept = [f"+{name.removeprefix('CAP_').lower()}" for name in bounding.split()]
    return ("setpriv", f"--bounding-set={','.join(['-all', *kept])}", "--inh-caps=-all", *words)


def as_user(*words: object) -> tuple[object, ...]:
    """Return a command as the user ``trimtab``."""
    return ("runuser", "-u", "trimtab", "--", *words)


def earlier(ago_s: float, *words: object) -> str:
    """Run a command of a purge as it would have been earlier."""
    return run("/opt/trimtab/bin/python", "-c", PAST, ago_s, "purge", *words)


def sites() -> None:
    """Make two sites: a Lustre with servers, and the file system that is purged."""
    servers = "mds1,mds2,oss1,oss2,oss3,oss4"
    lustre = ("init", LUSTRE, "--driver", "lustre", "--name", "scratch", "--servers", servers)
    reached = ("--ssh", FAKE / "bin/ssh", "--user", "trimtab", "--sudo", "--install", "--yes")
    run("trimtab", *lustre, *reached)
    run("trimtab", "init", FILES, "--name", "files", "--install", "--yes")
    for name in ("scratch", "files"):
        file = Path(f"/etc/trimtab/sites/{name}.toml")
        text = file.read_text()
        # Probes take a minute of a device; a snapshot shows as well who may write where. What
        # stays are the tables that are set: those behind are all comments or defaults.
        text = re.sub(r"(?ms)^\[(probe\.hourly|policy\.purge|metrics)\]\n.*?(?=^\[|\Z)", "", text)
        if name == "files":
            text += (
                '\n[policy.purge]\nschedule = "weekly on sunday at 03:00"\n'
                f'policy = "/etc/trimtab/purge.toml"\ndirectory = "{STATE / "plans"}"\n'
                '\n[metrics]\ntextfile = "/srv/metrics/trimtab.prom"\n'
            )
        file.write_text(text)
    run("trimtab", "site", "files")


def watched() -> None:
    """Watch as root, and as the user: each has a record of its own.

    The watch makes and publishes a plan: its unit's rights are enough for it.
    """
    long_ago_s = time.time() - 400 * 86400
    old = [FILES / f"old {number}" for number in range(4)]
    (FILES / "young").touch()
    for file in old:
        file.write_bytes(b"x" * 2**20)
        os.chown(file, 1, 1)
    for file in old:
        os.utime(file, (long_ago_s, long_ago_s))
    os.sync()
    Path("/etc/trimtab/purge.toml").write_text(POLICY)
    Path("/etc/trimtab/purge-roots").write_text(f"{FILES}\n")
    watch = ("trimtab", "watch", "--once")
    run(*as_unit("trimtab-watch@.service", *watch, "files"))
    run(*as_unit("trimtab-watch@.service", *watch, "scratch"))
    run("chmod", "-R", "a+rwX", FAKE)  # each of its programs notes what it was asked
    run(*as_user(*watch, "scratch"))
    assert (STATE / "trimtab.db").stat().st_uid == 0
    assert "trimtab" in Path("/srv/metrics/trimtab.prom").read_text()
    assert "old 3" in listed_for_owner()
    own = next(Path("/var/lib/trimtab-user").rglob("trimtab.db"))
    assert own.owner() == "trimtab"
    run(*as_user("trimtab", "store", "check", "--store", STATE / "trimtab.db"), code=5)
    refused = run("trimtab", "status", "scratch", "--store", own, code=2)
    assert "others could have root write anywhere" in refused


def listed_for_owner() -> str:
    """Return what the owner of the files reads in the list of the only plan."""
    listed = next(NOTICES.rglob("daemon*.txt"))
    return run("setpriv", "--reuid=1", "--regid=1", "--clear-groups", "cat", listed)


def purged() -> None:
    """Scan, plan, publish, arm and run, as a person who is root."""
    index, plan = STATE / "plans/1.index", STATE / "plans/1.plan"
    earlier(0, "scan", FILES, "--index", index)
    manifest = json.loads((index / "manifest.json").read_text())
    for name in ("started_ns", "ended_ns"):
        manifest[name] -= AGO_S * 10**9
    (index / "manifest.json").write_text(json.dumps(manifest))
    policy = ("--policy", "/etc/trimtab/purge.toml")
    earlier(AGO_S - 600, "plan", "--index", index, *policy, "--out", plan, "--site", "files")
    earlier(AGO_S - 1200, "notify", plan)
    earlier(3 * 86400, "arm", plan)
    shown()
    said = run("trimtab", "purge", "run", plan, "--apply", "--site", "files")
    # The oldest go first, until the target is reached.
    left = sorted(file.name for file in FILES.iterdir() if not file.name.startswith("."))
    assert "young" in left, said
    assert len(left) < 5, (left, said)
    assert (STATE / "purge/key").stat().st_mode & 0o777 == 0o600


def shown() -> None:
    """Look at the plan on the dashboard, which has no capabilities."""
    serve = ("trimtab", "serve", "--site", "files", "--bind", "127.0.0.1:0")
    words = [str(word) for word in as_unit("trimtab-web.service", *serve)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as served:
        try:
            assert served.stdout is not None
            line = next(line for line in served.stdout if line.startswith("Open "))
            link = line.split()[1]
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}),
                urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()),
            )
            opener.open(link, timeout=120).read()
            api = link.partition("/enter")[0] + "/api/v1/sites/files/plans"
            document = json.loads(opener.open(api, timeout=120).read())
        finally:
            served.terminate()
    states = [entry["state"] for entry in document["plans"]]
    assert states == ["waits for approval", "armed"], document
    assert document["problems"] == [], document


def followed() -> None:
    """Register a reader of the changelogs: the journal is root's, the servers are over ssh."""
    said = run("trimtab", "purge", "follow", "scratch", "--register", "--yes")
    assert "MDT0000" in said
    assert (STATE / "actions").stat().st_uid == 0
    run("trimtab", "purge", "follow", "scratch", "--deregister", "--yes")


def verified() -> None:
    """Have systemd read the units with what was installed, and with the drop-in of the page."""
    page = Path(sys.argv[1]).read_text()
    for unit in ("trimtab-watch@scratch.service", "trimtab-web.service"):
        drop_in = Path(f"/etc/systemd/system/{unit}.d/user.conf")
        drop_in.parent.mkdir(parents=True, exist_ok=True)
        drop_in.write_text(page.partition("```ini\n")[2].partition("```")[0])
        complaints = run("systemd-analyze", "verify", "--man=no", unit)
        assert "trimtab" not in complaints, complaints


def removed() -> None:
    """Remove everything as the page says; systemd itself does not run here."""
    section = Path(sys.argv[1]).read_text().partition("\n## Removal\n")[2]
    commands = re.findall(r"^(root|server)# ([^#\n]+?)(?: +#.*)?$", section, re.MULTILINE)
    # Servers have the files of deploy/sudoers.d, and the directory that deploy/README.md makes.
    for name in ("trimtab", "trimtab-act"):
        Path(f"/etc/sudoers.d/{name}").write_text("# of Trimtab\n")
    Path("/var/lib/trimtab-act").mkdir()
    Path("/etc/cron.d/trimtab-scratch").write_text("# of Trimtab\n")
    (LUSTRE / "trimtab").mkdir()
    for host, command in commands:
        words = command.replace("/scratch/", f"{LUSTRE}/")
        if words.startswith(("systemctl ", "trimtab ")):
            continue
        # One host plays both; its user is gone by then.
        code = 6 if (host, words) == ("server", "userdel --remove trimtab") else 0
        run("sh", "-ec", words, code=code)


def main() -> None:
    """Walk through it all."""
    for part in (sites, watched, purged, followed, verified, removed):
        part()
        print(f"{part.__name__}: well")


if __name__ == "__main__":
    main()
