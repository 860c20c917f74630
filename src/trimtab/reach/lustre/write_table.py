"""Everything that may be written on a server or client: parameters, files and commands.

The writing program, the docs on rights, the sudoers example and the tests use this table. It is
sent to servers with the writing program and checked there again, so it is self-contained: Python
3.6, standard library, no other module of Trimtab. Names are built here from a template and
validated fields; a name, path, value or wildcard from outside never gets through.

Deliberately excluded: ``osp.*.active`` (it blocks destroys), ``conf_param``, ``set_param -P`` of
anything but `PERMANENT`, ``discard_max_bytes`` (0 cannot be undone), checksums off, statistics (a
write resets them), ``reserved_clusters``, ``trigger_fs_error``.
"""

import collections
import re

FIELDS = {
    "fs": "[A-Za-z0-9_-]{1,8}",
    "ost": "OST[0-9a-f]{4}",
    "mdt": "MDT[0-9a-f]{4}",
    "client": "[0-9a-f]{16}",
    "device": "dm-[0-9]{1,3}|md[0-9]{1,3}|nvme[0-9]{1,3}n[0-9]{1,2}|sd[a-z]{1,2}|vd[a-z]"
    "|loop[0-9]{1,3}",
}
"""Format of each part of a name. ``client`` is hexadecimal, as ``osc.*`` includes MDTs."""

SUDO_WORDS = ["sudo", "-n"]
MOUNT_POINT = "/[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*"
MOUNT_POINT_CHARACTERS = 200
LIMIT_BYTES = 1 << 62
"""Exclusive limit of byte counts: smaller ones start with the hexadecimal digits 0 to 3."""


class NotInTable(Exception):
    """A name or value outside of the table: nothing is written."""

    def __init__(self, code, text):
        Exception.__init__(self, text)
        self.code = code


class Grammar:
    """The valid values of a setting: a regular expression and limits of numbers."""

    def __init__(self, text, pattern, limits=None, words=(), increasing=False):
        self.text = text
        self.pattern = pattern
        self.limits = limits
        self.words = words
        self.increasing = increasing

    def takes(self, value):
        """Return whether a value is valid."""
        if not isinstance(value, str) or len(value) > 200 or not re.fullmatch(self.pattern, value):
            return False
        numbers = [int(digits) for digits in re.findall("[0-9]+", value)]
        if self.limits is not None and re.fullmatch("[0-9]+%?", value):
            return value in self.words or self.limits[0] <= numbers[0] <= self.limits[1]
        if self.increasing:
            return numbers[0] > 0 and all(a < b for a, b in zip(numbers, numbers[1:]))  # noqa: B905, RUF007
        return True


def whole(low, high, *words):
    """Return the grammar of integers within limits, and of additional words."""
    pattern = "|".join(("0|[1-9][0-9]{0," + str(len(str(high)) - 1) + "}", *words))
    text = " or ".join((*words, f"{low} to {high}"))
    return Grammar(text, pattern, (low, high), words)


def percent():
    """Return the grammar of integer percentages, with or without ``%``."""
    return Grammar("0 to 100, with % or without", "(?:0|[1-9][0-9]{0,2})%?", (0, 100))


def words(*choices):
    """Return the grammar of a few words."""
    return Grammar(" or ".join(choices), "|".join(choices))


def increasing():
    """Return the grammar of a list of positive numbers, each larger than the one before."""
    pattern = "[1-9][0-9]{0,6}(?: [1-9][0-9]{0,6}){0,15}"
    return Grammar("1 to 16 positive numbers, strictly increasing", pattern, increasing=True)


Row = collections.namedtuple("Row", "key kind name grammar service back undo why")
"""One writable parameter or file.

key
    Its name in instructions.
kind
    ``parameter`` of lctl or ``file``.
name
    Template with `FIELDS`.
grammar
    Its valid values.
service
    What must be mounted on the machine: ``mdt``, ``ost``, ``target`` (either), or ``client``.
back
    Form in which it reads back: ``plain``, ``percent`` (``17%``), ``choice`` (the word in
    brackets), ``list``, ``default`` (``-1`` reads as the kernel's own value), ``moving`` (it
    changes by itself).
undo
    How the previous value is restored.
why
    What it does.
"""

_BEFORE = "the previous value, which the action stores; a remount restores Lustre's default"
_BEFORE_DEVICE = "the previous value, which the action stores; the default after a restart"
_NOTHING = "not needed: Trimtab never switches them off; a remount of the client"
_BEFORE_CLIENT = "the previous value, which the action stores; a remount of the client"


def _parameter(key, name, grammar, service, why, back="plain", undo=_BEFORE):  # noqa: PLR0917
    return Row(key, "parameter", name, grammar, service, back, undo, why)


def _ldiskfs(name, grammar, why):
    path = "/sys/fs/ldiskfs/{device}/" + name
    return Row("ldiskfs/" + name, "file", path, grammar, "target", "plain", _BEFORE, why)


def _queue(name, grammar, why, back="plain"):
    path = "/sys/class/block/{device}/queue/" + name
    return Row("queue/" + name, "file", path, grammar, "target", back, _BEFORE_DEVICE, why)


def _osc(name, grammar, why, back="plain"):
    parameter = "osc.{fs}-{ost}-osc-{client}." + name
    undo = _NOTHING if name == "checksums" else _BEFORE_CLIENT
    return _parameter("osc/" + name, parameter, grammar, "client", why, back, undo)


def _llite(name, grammar, why):
    parameter = "llite.{fs}-{client}." + name
    undo = _NOTHING if name == "checksums" else _BEFORE_CLIENT
    return _parameter("llite/" + name, parameter, grammar, "client", why, undo=undo)


_SKIP = "free blocks, in percent, below which the allocator skips a search"
_SEARCH = "how long the block allocator searches"
_CHECKSUM_TYPES = ("adler", "crc32", "crc32c", "t10ip512", "t10ip4K", "t10crc512", "t10crc4K")

ROWS = (
    _parameter(
        "osp/max_create_count",
        "osp.{fs}-{ost}-osc-{mdt}.max_create_count",
        # OST_MIN_PRECREATE to OST_MAX_PRECREATE, lustre_idl.h
        whole(32, 20000, "0"),
        "mdt",
        "0 closes an OST to new files, for one MDT",
        undo="the previous number, which the MDS stores until the target is opened; a remount of "
        "the MDT restores 20000",
    ),
    _parameter(
        "obdfilter/no_create",
        "obdfilter.{fs}-{ost}.no_create",
        words("0", "1"),
        "ost",
        "1 closes an OST to new files, for all MDTs (Lustre 2.16 and later)",
        undo="0; a remount or failover of the OST",
    ),
    _parameter(
        "obdfilter/no_precreate",
        "obdfilter.{fs}-{ost}.no_precreate",
        words("0", "1"),
        "ost",
        "the name of no_create before Lustre 2.16",
        undo="0; a remount or failover of the OST",
    ),
    _parameter(
        "lod/qos_threshold_rr",
        "lod.{fs}-{mdt}-mdtlov.qos_threshold_rr",
        percent(),
        "mdt",
        "imbalance above which new files are placed by free space",
        "percent",
    ),
    _parameter(
        "lod/qos_prio_free",
        "lod.{fs}-{mdt}-mdtlov.qos_prio_free",
        percent(),
        "mdt",
        "weight of free space against spreading over servers",
        "percent",
    ),
    _parameter(
        "lod/qos_maxage",
        "lod.{fs}-{mdt}-mdtlov.qos_maxage",
        whole(1, 3600),
        "mdt",
        "maximum age of an MDT's free-space data, in seconds; not stored on 2.17",
    ),
    _osc("max_rpcs_in_flight", whole(1, 256), "concurrent requests of a client to an OST"),
    _osc("max_pages_per_rpc", whole(1, 4096), "size of a request"),
    _osc("max_dirty_mb", whole(1, 2047), "dirty data a client buffers for an OST"),
    _osc("checksums", words("1"), "checksums of data in transfer; never switched off"),
    _osc("checksum_type", words(*_CHECKSUM_TYPES), "checksum algorithm", "choice"),
    _llite("max_read_ahead_mb", whole(0, 1048576), "total read-ahead of a client"),
    _llite("max_read_ahead_per_file_mb", whole(0, 1048576), "read-ahead of one file"),
    _llite("checksums", words("1"), "checksums of data in transfer; never switched off"),
    _ldiskfs("mb_c1_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_c2_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_c3_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_optimize_scan", words("0", "1"), "whether groups are found through order lists"),
    _ldiskfs("mb_max_to_scan", whole(1, 100000), _SEARCH),
    _ldiskfs("mb_min_to_scan", whole(1, 100000), _SEARCH),
    _ldiskfs("mb_order2_req", whole(0, 64), "request size from which buddies are searched"),
    _ldiskfs("mb_stream_req", whole(0, 1048576), "file size up to which files share a group"),
    _ldiskfs("mb_small_req", whole(1, 1048576), "the same, in Lustre's patch"),
    _ldiskfs("mb_large_req", whole(1, 1048576), "request size from which the stream goal is used"),
    _ldiskfs("mb_group_prealloc", whole(0, 1048576), "blocks preallocated for small files"),
    _ldiskfs("mb_max_linear_groups", whole(0, 100000), _SEARCH),
    _ldiskfs("mb_best_avail_max_trim_order", whole(0, 64), "how far a request may be trimmed"),
    _ldiskfs("mb_stats", words("0", "1"), "allocator counters on or off; never resets them"),
    Row(
        "ldiskfs/prealloc_table",
        "file",
        "/proc/fs/ldiskfs/{device}/prealloc_table",
        increasing(),
        "target",
        "list",
        _BEFORE,
        "preallocation sizes in blocks; an invalid list would silently empty the table",
    ),
    Row(
        "ldiskfs/mb_last_group",
        "file",
        "/proc/fs/ldiskfs/{device}/mb_last_group",
        words("0"),
        "target",
        "moving",
        "nothing: the allocator moves it with the next large write",
        "the allocator starts again at the first group",
    ),
    Row(
        "ldiskfs/mb_last_groups",
        "file",
        "/proc/fs/ldiskfs/{device}/mb_last_groups",
        words("0"),
        "target",
        "moving",
        "nothing: the allocator moves it with the next large write",
        "the name of mb_last_group from Linux 6.17 on",
    ),
    _queue("wbt_lat_usec", whole(0, 10000000, "-1"), "writeback throttling; 0 is off", "default"),
    _queue(
        "scheduler",
        words("none", "mq-deadline", "kyber", "bfq", "noop", "deadline", "cfq"),
        "I/O scheduler",
        "choice",
    ),
    _queue("nr_requests", whole(4, 65536), "maximum number of queued requests"),
    _queue("read_ahead_kb", whole(0, 1048576), "read-ahead of the device"),
    _queue("max_sectors_kb", whole(4, 65536), "largest request to the device"),
)
BY_KEY = {row.key: row for row in ROWS}

PERMANENT = ("lod/qos_threshold_rr", "lod/qos_prio_free", "lod/qos_maxage")
"""Rows that may also be set permanently: never one that closes a target."""
LIST_PERMANENT = ["lctl", "--device", "MGS", "llog_print", "params"]

CHANGELOG_USER = "trimtab"
"""The name of Trimtab's changelog users."""


def shortened(value):
    """Return a value from outside, shortened for a message."""
    return repr(value)[:80]


def name_of(key, fields):
    """Return the row and the exact name of a setting.

    Raises `NotInTable` for an unknown row or a malformed field.
    """
    row = BY_KEY.get(key) if isinstance(key, str) else None
    if row is None:
        raise NotInTable("setting-not-writable", f"{shortened(key)} is not writable")
    needed = set(re.findall(r"\{([a-z]+)\}", row.name))
    if not isinstance(fields, dict) or set(fields) != needed:
        raise NotInTable("name-invalid", "{} needs {}".format(key, ", ".join(sorted(needed))))
    for field, value in fields.items():
        if not isinstance(value, str) or not re.fullmatch(FIELDS[field], value):
            raise NotInTable("name-invalid", f"{shortened(value)} is not a valid {field} of {key}")
    return row, row.name.format(**fields)


def check_value(row, value):
    """Raise `NotInTable` for a value that is invalid for a row."""
    if not row.grammar.takes(value):
        text = f"{row.key} accepts {row.grammar.text}, not {shortened(value)}"
        raise NotInTable("setting-value-refused", text)


def set_words(row, name, value):
    """Return the command that sets a parameter."""
    check_value(row, value)
    return ["lctl", "set_param", name + "=" + value]


def permanent_words(row, name, value):
    """Return the command that sets a parameter permanently; ``None`` removes it."""
    if row.key not in PERMANENT:
        raise NotInTable("setting-not-writable", f"{row.key} cannot be set permanently")
    if value is None:
        return ["lctl", "set_param", "-P", "-d", name]
    check_value(row, value)
    return ["lctl", "set_param", "-P", name + "=" + value]


def get_words(name):
    """Return the command that reads a parameter back."""
    return ["lctl", "get_param", "-n", name]


def tee_words(path):
    """Return the command that writes its input to a file, for users other than root."""
    return ["tee", path]


def changelog_parameter(fields, leaf):
    """Return the parameter of an MDT's changelog: its users, or its record types."""
    if leaf not in ("changelog_users", "changelog_current_mask"):
        raise NotInTable("name-invalid", f"{shortened(leaf)} is not a changelog parameter")
    return f"mdd.{mdt_service(fields)}.{leaf}"


def mdt_service(fields):
    """Return the name of an MDT's service, which is also its device's."""
    if not isinstance(fields, dict) or set(fields) != {"fs", "mdt"}:
        raise NotInTable("name-invalid", "an MDT must have a file system and a number")
    for field, value in fields.items():
        if not isinstance(value, str) or not re.fullmatch(FIELDS[field], value):
            raise NotInTable("name-invalid", f"{shortened(value)} is not a valid {field}")
    return "{fs}-{mdt}".format(**fields)


def register_words(fields):
    """Return the command that registers the changelog user of an MDT.

    Without its own mask the user gets the default one, which includes all required types.
    """
    return ["lctl", "--device", mdt_service(fields), "changelog_register", "-u", CHANGELOG_USER]


def deregister_words(fields):
    """Return the command that removes the changelog user of an MDT.

    By name, which is unique on an MDT (`mdd_changelog_name_check`): by number it could remove
    another's. Every Lustre that registers by name supports it, since 2.15.
    """
    return ["lctl", "--device", mdt_service(fields), "changelog_deregister", "-u", CHANGELOG_USER]


def recovery_name(service):
    """Return the parameter with a target's recovery status, from its service's name."""
    if not re.fullmatch("{}-(?:{}|{})".format(FIELDS["fs"], FIELDS["ost"], FIELDS["mdt"]), service):
        raise NotInTable("name-invalid", f"{shortened(service)} is not a service")
    tree = "obdfilter" if service[-7:-4] == "OST" else "mdt"
    return tree + "." + service + ".recovery_status"


def trim_words(mount_point, start, length):
    """Return the command that trims a range.

    Numbers are hexadecimal and of fixed length, so that sudoers can list every form.
    """
    numbers = (start, length)
    if any(isinstance(n, bool) or not isinstance(n, int) for n in numbers) or not (
        0 <= start < LIMIT_BYTES and 0 < length < LIMIT_BYTES
    ):
        raise NotInTable("range-invalid", f"{shortened(numbers)} is not a range")
    parts = mount_point.split("/") if isinstance(mount_point, str) else [".."]
    if (
        not set(parts).isdisjoint({".", ".."})
        or len(mount_point) > MOUNT_POINT_CHARACTERS
        or not re.fullmatch(MOUNT_POINT, mount_point)
    ):
        raise NotInTable(
            "mount-point-invalid", f"{shortened(mount_point)} is not a valid mount point"
        )
    offsets = ["--offset", f"0x{start:016x}", "--length", f"0x{length:016x}"]
    return ["fstrim", *offsets, "--verbose", mount_point]


def as_read(row, text):
    """Return the value in the text that a setting reads as.

    Raises `NotInTable` for text of unknown format.
    """
    value = " ".join(text.split())
    if row.back == "choice":
        active = re.findall(r"\[([^][ ]+)\]", value)
        # A queue without schedulers reads only "none".
        value = active[0] if len(active) == 1 else value
    if row.back == "percent":
        value = value if value.endswith("%") else value + "%"
    if len(value) > 200 or any(not 32 <= ord(letter) < 127 for letter in value):
        raise NotInTable("value-unreadable", f"{row.key} reads as {shortened(text)}")
    return value


def is_same(row, value, wanted):
    """Return whether a value read back equals the wanted one."""
    if row.back == "moving" or (row.back == "default" and wanted == "-1"):
        return re.fullmatch(r"(?:[0-9]+|[0-9]+# [0-9]+)(?: [0-9]+# [0-9]+)*", value) is not None
    return value == as_read(row, wanted)
