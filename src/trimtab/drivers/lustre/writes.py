"""What may ever be written on a server or client: every parameter, file and command, in one table.

The program that writes, the page on rights, the sudoers example and the tests rest on this table.
It is sent to a server with the writing program and checked there once more, so it stands alone:
Python 3.6, standard library, no other module of Trimtab. Names are built here from a template and
fields whose form is checked; a name, path, value or wildcard from outside never gets through.

Left out on purpose: ``osp.*.active`` (it blocks destroys), ``conf_param``, ``set_param -P`` of
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
"""Form of each part of a name. ``client`` is hexadecimal: ``osc.*`` has the MDTs' devices too."""

SUDO_WORDS = ["sudo", "-n"]
MOUNT_POINT = "/[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*"
MOUNT_POINT_CHARACTERS = 200
LIMIT_BYTES = 1 << 62
"""First number of bytes that is too large: those below begin with the hexadecimal digits 0 to 3."""


class NotInTable(Exception):
    """A name or value that is not in the table: nothing is written."""

    def __init__(self, code, text):
        Exception.__init__(self, text)
        self.code = code


class Grammar:
    """The values of a setting: a regular expression for the whole text, and limits of numbers."""

    def __init__(self, text, pattern, limits=None, words=(), increasing=False):
        self.text = text
        self.pattern = pattern
        self.limits = limits
        self.words = words
        self.increasing = increasing

    def takes(self, value):
        """Return whether a value is one of them."""
        if not isinstance(value, str) or len(value) > 200 or not re.fullmatch(self.pattern, value):
            return False
        numbers = [int(digits) for digits in re.findall("[0-9]+", value)]
        if self.limits is not None and re.fullmatch("[0-9]+%?", value):
            return value in self.words or self.limits[0] <= numbers[0] <= self.limits[1]
        if self.increasing:
            return numbers[0] > 0 and all(a < b for a, b in zip(numbers, numbers[1:]))  # noqa: B905, RUF007
        return True


def whole(low, high, *words):
    """Return the grammar of whole numbers within limits, and of words beside them."""
    pattern = "|".join(("0|[1-9][0-9]{0," + str(len(str(high)) - 1) + "}", *words))
    text = " or ".join((*words, f"{low} to {high}"))
    return Grammar(text, pattern, (low, high), words)


def percent():
    """Return the grammar of whole percentages, with or without the sign."""
    return Grammar("0 to 100, with % or without", "(?:0|[1-9][0-9]{0,2})%?", (0, 100))


def words(*choices):
    """Return the grammar of a few words."""
    return Grammar(" or ".join(choices), "|".join(choices))


def increasing():
    """Return the grammar of a list of positive numbers, each larger than the one before."""
    pattern = "[1-9][0-9]{0,6}(?: [1-9][0-9]{0,6}){0,15}"
    return Grammar("1 to 16 positive numbers, strictly increasing", pattern, increasing=True)


Row = collections.namedtuple("Row", "key kind name grammar service back undo why")
"""One thing that may be written.

key
    As instructions name it.
kind
    ``parameter`` of lctl or ``file``.
name
    Template over `FIELDS`.
grammar
    The values that it takes.
service
    Whose mount must be on the machine: ``mdt``, ``ost``, ``target`` (either), or ``client``.
back
    How it reads back: ``plain``, ``percent`` (``17%``), ``choice`` (the word in brackets),
    ``list``, ``default`` (``-1`` reads as the kernel's own value), ``moving`` (it changes alone).
undo
    What brings the previous value back.
why
    What it is good for.
"""

_BEFORE = "the value of before, which the action keeps; a remount brings Lustre's default"
_BEFORE_DEVICE = "the value of before, which the action keeps; the default after a restart"
_NOTHING = "nothing: Trimtab never switches them off; a remount of the client"
_BEFORE_CLIENT = "the value of before, which the action keeps; a remount of the client"


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


_SKIP = "how full a target is when the allocator skips a search, in percent of free blocks"
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
        undo="the number of before, which the MDS keeps until the target is opened; a remount of "
        "the MDT brings 20000",
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
        "from which imbalance on new files follow free space",
        "percent",
    ),
    _parameter(
        "lod/qos_prio_free",
        "lod.{fs}-{mdt}-mdtlov.qos_prio_free",
        percent(),
        "mdt",
        "how much free space weighs against spreading over servers",
        "percent",
    ),
    _parameter(
        "lod/qos_maxage",
        "lod.{fs}-{mdt}-mdtlov.qos_maxage",
        whole(1, 3600),
        "mdt",
        "how old an MDT's knowledge of free space may be, in seconds; not stored on 2.17",
    ),
    _osc("max_rpcs_in_flight", whole(1, 256), "requests of a client to an OST at a time"),
    _osc("max_pages_per_rpc", whole(1, 4096), "size of a request"),
    _osc("max_dirty_mb", whole(1, 2047), "how much a client buffers for an OST"),
    _osc("checksums", words("1"), "data checked on the way; never switched off"),
    _osc("checksum_type", words(*_CHECKSUM_TYPES), "with which algorithm", "choice"),
    _llite("max_read_ahead_mb", whole(0, 1048576), "read-ahead of a client in all"),
    _llite("max_read_ahead_per_file_mb", whole(0, 1048576), "read-ahead of one file"),
    _llite("checksums", words("1"), "data checked on the way; never switched off"),
    _ldiskfs("mb_c1_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_c2_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_c3_threshold", whole(0, 100), _SKIP),
    _ldiskfs("mb_optimize_scan", words("0", "1"), "whether groups are found by order lists"),
    _ldiskfs("mb_max_to_scan", whole(1, 100000), _SEARCH),
    _ldiskfs("mb_min_to_scan", whole(1, 100000), _SEARCH),
    _ldiskfs("mb_order2_req", whole(0, 64), "from which size on buddies are searched"),
    _ldiskfs("mb_stream_req", whole(0, 1048576), "up to which size files share a group"),
    _ldiskfs("mb_small_req", whole(1, 1048576), "the same, in Lustre's own form"),
    _ldiskfs("mb_large_req", whole(1, 1048576), "from which size on the stream goal is used"),
    _ldiskfs("mb_group_prealloc", whole(0, 1048576), "blocks preallocated for small files"),
    _ldiskfs("mb_max_linear_groups", whole(0, 100000), _SEARCH),
    _ldiskfs("mb_best_avail_max_trim_order", whole(0, 64), "how far a request may be cut"),
    _ldiskfs("mb_stats", words("0", "1"), "whether the allocator counts; nothing is reset"),
    Row(
        "ldiskfs/prealloc_table",
        "file",
        "/proc/fs/ldiskfs/{device}/prealloc_table",
        increasing(),
        "target",
        "list",
        _BEFORE,
        "sizes of preallocation in blocks; anything else would empty the table without an error",
    ),
    Row(
        "ldiskfs/mb_last_group",
        "file",
        "/proc/fs/ldiskfs/{device}/mb_last_group",
        words("0"),
        "target",
        "moving",
        "nothing: the allocator moves it with the next large write",
        "the allocator starts at the first group again",
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
    _queue("nr_requests", whole(4, 65536), "requests waiting at the device"),
    _queue("read_ahead_kb", whole(0, 1048576), "read-ahead of the device"),
    _queue("max_sectors_kb", whole(4, 65536), "largest request to the device"),
)
BY_KEY = {row.key: row for row in ROWS}

PERMANENT = ("lod/qos_threshold_rr", "lod/qos_prio_free", "lod/qos_maxage")
"""Rows that may be set for every mount to come too: never what closes a target."""
LIST_PERMANENT = ["lctl", "--device", "MGS", "llog_print", "params"]

CHANGELOG_USER = "trimtab"
"""The one name under which changelog users are registered, and removed, by Trimtab."""


def shortened(value):
    """Return a value from outside as a message may show it."""
    return repr(value)[:80]


def name_of(key, fields):
    """Return the row and the exact name of a setting.

    Raises `NotInTable` for a row that is not there, and for a field of another form.
    """
    row = BY_KEY.get(key) if isinstance(key, str) else None
    if row is None:
        raise NotInTable("setting-not-writable", f"{shortened(key)} is not among what is written")
    needed = set(re.findall(r"\{([a-z]+)\}", row.name))
    if not isinstance(fields, dict) or set(fields) != needed:
        raise NotInTable("name-invalid", "{} needs {}".format(key, ", ".join(sorted(needed))))
    for field, value in fields.items():
        if not isinstance(value, str) or not re.fullmatch(FIELDS[field], value):
            raise NotInTable("name-invalid", f"{shortened(value)} is no {field} of {key}")
    return row, row.name.format(**fields)


def check_value(row, value):
    """Raise `NotInTable` for a value that a row does not take."""
    if not row.grammar.takes(value):
        text = f"{row.key} takes {row.grammar.text}, not {shortened(value)}"
        raise NotInTable("setting-value-refused", text)


def set_words(row, name, value):
    """Return the command that sets a parameter."""
    check_value(row, value)
    return ["lctl", "set_param", name + "=" + value]


def permanent_words(row, name, value):
    """Return the command that sets a parameter for every mount to come; ``None`` forgets it."""
    if row.key not in PERMANENT:
        raise NotInTable("setting-not-writable", f"{row.key} is not set permanently")
    if value is None:
        return ["lctl", "set_param", "-P", "-d", name]
    check_value(row, value)
    return ["lctl", "set_param", "-P", name + "=" + value]


def get_words(name):
    """Return the command that reads a parameter back."""
    return ["lctl", "get_param", "-n", name]


def tee_words(path):
    """Return the command that writes its input into a file, for those who are not root."""
    return ["tee", path]


def changelog_parameter(fields, leaf):
    """Return the parameter that tells of an MDT's changelog: its users, or what is recorded."""
    if leaf not in ("changelog_users", "changelog_current_mask"):
        raise NotInTable("name-invalid", f"{shortened(leaf)} is not read")
    return f"mdd.{mdt_service(fields)}.{leaf}"


def mdt_service(fields):
    """Return the name of an MDT's service, which is that of its device, too."""
    if not isinstance(fields, dict) or set(fields) != {"fs", "mdt"}:
        raise NotInTable("name-invalid", "an MDT is a file system and a number")
    for field, value in fields.items():
        if not isinstance(value, str) or not re.fullmatch(FIELDS[field], value):
            raise NotInTable("name-invalid", f"{shortened(value)} is no {field}")
    return "{fs}-{mdt}".format(**fields)


def register_words(fields):
    """Return the command that registers the changelog user of an MDT.

    Without a mask of its own the user gets the default one, which has all that is followed.
    """
    return ["lctl", "--device", mdt_service(fields), "changelog_register", "-u", CHANGELOG_USER]


def deregister_words(fields):
    """Return the command that removes the changelog user of an MDT.

    By name, which an MDT gives to one user alone (`mdd_changelog_name_check`): by number it would
    take those of others, too. It is known to every Lustre that registers by name, from 2.15 on.
    """
    return ["lctl", "--device", mdt_service(fields), "changelog_deregister", "-u", CHANGELOG_USER]


def recovery_name(service):
    """Return the parameter that says whether a target is in recovery, of its service's name."""
    if not re.fullmatch("{}-(?:{}|{})".format(FIELDS["fs"], FIELDS["ost"], FIELDS["mdt"]), service):
        raise NotInTable("name-invalid", f"{shortened(service)} is no service")
    tree = "obdfilter" if service[-7:-4] == "OST" else "mdt"
    return tree + "." + service + ".recovery_status"


def trim_words(mount_point, start, length):
    """Return the command that trims a range.

    Numbers are hexadecimal and of one length, so that sudoers can name every form.
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
        raise NotInTable("mount-point-invalid", f"{shortened(mount_point)} is not trimmed")
    offsets = ["--offset", f"0x{start:016x}", "--length", f"0x{length:016x}"]
    return ["fstrim", *offsets, "--verbose", mount_point]


def as_read(row, text):
    """Return the value in what a setting reads as.

    Raises `NotInTable` for text that is none of its forms.
    """
    value = " ".join(text.split())
    if row.back == "choice":
        active = re.findall(r"\[([^][ ]+)\]", value)
        # A queue with no scheduler to choose from says only "none".
        value = active[0] if len(active) == 1 else value
    if row.back == "percent":
        value = value if value.endswith("%") else value + "%"
    if len(value) > 200 or any(not 32 <= ord(letter) < 127 for letter in value):
        raise NotInTable("value-unreadable", f"{row.key} reads as {shortened(text)}")
    return value


def is_same(row, value, wanted):
    """Return whether a value that was read is the wanted one."""
    if row.back == "moving" or (row.back == "default" and wanted == "-1"):
        return re.fullmatch(r"(?:[0-9]+|[0-9]+# [0-9]+)(?: [0-9]+# [0-9]+)*", value) is not None
    return value == as_read(row, wanted)
