"""Values as the system prints them: the same whatever the spaces, signs and rounding."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.each import for_each

from trimtab.act.decide.setting_value import differing, harm_of, is_same, unfolded
from trimtab.reach.lustre.lustre_setting import folded

QOS, WBT = "lod/qos_threshold_rr", "drives/queue/wbt_lat_usec"
TABLE = "ldiskfs/md0/prealloc_table"


@for_each(
    "setting, shown, requested, same",
    [
        (QOS, "17%", "17", True),
        (QOS, "17", "17%", True),
        (QOS, "18%", "17%", True),
        (QOS, "16%", "17%", True),
        (QOS, "19%", "17%", False),
        (QOS, "100%", "99", False),
        (QOS, "99%", "100", False),
        (QOS, "1%", "0", False),
        (QOS, "0%", "1", False),
        ("ldiskfs/md0/mb_c1_threshold", "51", "50", True),
        ("ldiskfs/md0/mb_c1_threshold", "25", "50", False),
        (WBT, "18", "17", False),
        (WBT, "0", "0", True),
        (WBT, "0 (12)", "0", True),
        (WBT, "0 (11), 2000 (nvme3n1)", "0", False),
        (WBT, "", "0", False),
        (TABLE, "4 8 16 ", "4 8 16", True),
        (TABLE, "4 8 16 32", "4 8 16", False),
        ("drives/queue/scheduler", "none (11), mq-deadline (sda)", "none", False),
        ("drives/queue/scheduler", "[none] mq-deadline", "none", True),
        ("drives/queue/scheduler", "none [mq-deadline]", "none", False),
    ],
)
def test_same(setting, shown, requested, same):
    assert is_same(setting, shown, requested) is same


def test_what_differs_is_named():
    assert differing(WBT, "0 (9), 2000 (a, b), 75000 (c)", "0") == ("2000", "75000")
    assert differing("drives/queue/scheduler", "none (2), bfq (sda)", "none") == ("bfq",)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from(["0", "2000", "4 8"])))
def test_what_the_driver_folds_is_unfolded(values):
    if values:
        assert set(unfolded(folded(values))) == set(values.values())


@given(st.integers(0, 100), st.booleans(), st.booleans())
def test_a_percentage_that_was_written_is_never_written_again(percent, up, read_up):
    """Stored as n/256 and read back, each rounded down or up."""
    stored = -(-percent * 256 // 100) if up else percent * 256 // 100
    shown = -(-stored * 100 // 256) if read_up else stored * 100 // 256
    # 0 and 100 switch something off: a neighbour may be read as one of them, and is not the same.
    assert is_same(QOS, f"{shown}%", str(percent)) or shown in {0, 100}


@for_each(
    "setting, value, code",
    [
        ("drives/queue/discard_max_bytes", "0", "value-harmful"),
        ("block/sda/queue/discard_max_bytes", "00", "value-harmful"),
        ("drives/queue/discard_max_bytes", "0x0", "value-harmful"),
        ("drives/queue/discard_max_bytes", "2147483648", None),
        ("osc/checksums", "0", "value-harmful"),
        ("osc/checksums", "1", None),
        ("osc/checksum_type", "NONE", "value-harmful"),
        ("obdfilter/checksum_t10pi_enforce", "0", "value-harmful"),
        ("osc/checksum_type", "crc32c", None),
        (TABLE, "4 8 16", None),
        (TABLE, "0", "value-harmful"),
        (TABLE, "4 abc 16", "value-harmful"),
        (TABLE, "16 8", "value-harmful"),
        (TABLE, "8 8", "value-harmful"),
        ("osp/max_create_count", "0", "setting-forbidden"),
        ("obdfilter/degraded", "1", "setting-forbidden"),
        ("osp/active", "0", "setting-forbidden"),
        ("ldiskfs/md0/mb_last_group", "0", "setting-forbidden"),
        ("ldiskfs/md0/discard_stats", "0", "setting-forbidden"),
        ("ldiskfs/md0/trigger_fs_error", "1", "setting-forbidden"),
        (WBT, "0", None),
    ],
)
def test_harm(setting, value, code):
    reason = harm_of(setting, value)
    assert (reason and reason.code) == code
