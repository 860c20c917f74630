"""The rules by which detectors are held against one another, on what can be counted by hand."""

from benchmarks.judge import score

STEP = score.Step(at=1000, way=-1, tolerance=24)


def test_a_change_that_later_reruns_place_nearby_is_one_false_alarm():
    told = [(300, [(200, -1)]), (400, [(230, -1), (390, 1)]), (500, [(230, 1), (389, 1)])]
    assert score.false_alarms(told) == 3  # 200 down, 390 up, 230 up
    assert score.false_alarms([]) == 0


def test_the_first_rerun_that_places_it_counts():
    told = [(1000, []), (1006, [(500, -1)]), (1012, [(976, -1)]), (1018, [(1000, -1)])]
    assert score.rerun_delay(told, STEP) == 12
    assert score.rerun_delay(told[:2], STEP) is None
    assert score.rerun_delay([(1000, []), (1012, [(975, -1), (1000, 1)])], STEP) is None


def test_what_was_placed_there_before_it_happened_is_luck():
    assert score.rerun_delay([(1000, [(990, -1)]), (1006, [(1000, -1)])], STEP) is None


def test_an_alarm_counts_from_the_first_run_after_the_step():
    assert score.alarm_delay([(999, -1), (1003, 1), (1010, -1), (1020, -1)], STEP) == 11
    assert score.alarm_delay([(1000, -1)], STEP) == 1
    assert score.alarm_delay([(1003, 1)], STEP) is None


def test_the_loosest_threshold_within_the_allowed_rate():
    rates = [(9.0, 0.0), (5.0, 0.1), (3.0, 0.4), (2.0, 0.05)]
    assert score.loosest_within(rates, 0.1) == 5.0
    assert score.loosest_within(rates, 0.0) == 9.0
    assert score.loosest_within([(9.0, 0.2)], 0.1) is None


def test_what_is_never_told_is_later_than_all():
    assert score.median_delay([3, None, 5]) == 5
    assert score.median_delay([3, None, None]) is None


def test_the_sign_test_knows_pairs():
    assert score.sign_test([True, True], [True, True]) == 1.0
    assert score.sign_test([True] * 10, [False] * 10) == 2 / 1024


def test_f1_counts_each_place_once_and_every_annotator():
    assert score.f_measure([[10, 20], [11, 20]], [10, 20]) == 1.0
    assert score.f_measure([[40]], [40, 70]) == 0.8  # a third of the places is nobody's
    assert score.f_measure([[40], []], [40]) == 1.0
    assert score.f_measure([[40], []], []) == 6 / 7  # precision 1, recall 3/4
    assert score.f_measure([[40, 44]], [42]) == 0.8  # one place cannot be both
    assert score.f_measure([[40]], [45]) == 1.0 > score.f_measure([[40]], [46]) == 0.5


def test_covering_weighs_the_best_overlap_of_each_segment_by_its_length():
    assert score.covering([[10, 20]], [10, 20], 45) == 1.0
    assert score.covering([[50]], [], 100) == 0.5
    assert score.covering([[]], [50], 100) == 0.5
    assert score.covering([[60]], [50], 100) == (60 * 50 / 60 + 40 * 40 / 50) / 100
    assert score.covering([[60], []], [], 100) == (0.52 + 1) / 2
