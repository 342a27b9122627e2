import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.config import InputError
from holdfast.diagnostics import calibrate
from holdfast.diagnostics.calibration import normal_interval
from holdfast.diagnostics.counts import count
from holdfast.diagnostics.decomposition import decompose

RESPONSES = st.lists(st.tuples(st.lists(st.booleans(), max_size=5), st.booleans()), min_size=1, max_size=25)


def two_stage_process(rng, num, p_s, p_dc, p_dw):
    """Responses of a process that is exactly the model."""
    rows = []
    for _ in range(num):
        row = []
        while True:
            row.append(bool(rng.random() < p_s))
            if rng.random() < (p_dc if row[-1] else 1 - p_dw):
                break
        rows.append(row)
    return rows


def test_by_hand():
    """[W C] [C] [W] [C W C], all stopped.

    First right 2 of 4. Right attempts 4: stopped on 3, so p_dC = 3/4. Wrong attempts 3: resampled 2, p_dW = 2/3.
    Predicted = .5*.75 / (.5*.75 + .5/3) = 9/13. Observed 3/4. Pooled p_s 4/7: the formula gives 3/4, an identity.
    """
    figures = calibrate([[False, True], [True], [False], [True, False, True]], draws=100)
    assert figures.p_s.value == 0.5
    assert figures.p_s_pooled.value == pytest.approx(4 / 7)
    assert figures.p_dC.value == 0.75
    assert figures.p_dW.value == pytest.approx(2 / 3)
    assert figures.predicted.value == pytest.approx(9 / 13)
    assert figures.observed.value == 0.75
    assert figures.wrong_to_right.value == 0.5
    assert figures.right_to_wrong.value == 0.0
    assert figures.attempts.value == 7 / 4
    assert figures.reflection_pays is True
    assert figures.identity_gap == pytest.approx(0, abs=1e-12)


def test_at_most_two_attempts_by_hand():
    """The same responses: stop right 3/8, stop wrong 1/6, go on 11/24. Two attempts give 3/8 (1 + 11/24) = 35/64."""
    found = calibrate([[False, True], [True], [False], [True, False, True]], max_attempts=2, draws=100)
    assert found.predicted.value == pytest.approx(35 / 64)


def test_a_held_out_problem_is_predicted_from_the_other_one():
    """Two problems, two folds: each response counts with the prediction made from the other problem's responses."""
    first, second = [[False, True], [True], [False]], [[True, False], [False, False, True], [True], [True], [False]]
    rows, names = [*first, *second], ["a"] * len(first) + ["b"] * len(second)
    order = [3, 0, 5, 1, 7, 4, 2, 6]
    found = calibrate([rows[i] for i in order], problems=[names[i] for i in order], draws=100)
    of_first, of_second = (calibrate(each, draws=100).predicted.value for each in (first, second))
    assert of_first != pytest.approx(of_second, abs=0.1)
    assert found.held_out.value == pytest.approx((3 * of_second + 5 * of_first) / 8)


@given(RESPONSES)
@settings(deadline=None, max_examples=150)
def test_pooled_formula_is_an_identity_on_any_process(rows):
    """MATH §5: whatever produced the responses, with p_s pooled the formula returns their accuracy."""
    attempts, stopped = [row for row, _ in rows], [ended and bool(row) for row, ended in rows]
    found = calibrate(attempts, stopped, draws=100)
    if found.identity_gap is not None:
        assert found.identity_gap == pytest.approx(0, abs=1e-12)


@given(RESPONSES)
@settings(deadline=None, max_examples=100)
def test_never_nan_and_always_a_reason(rows):
    found = calibrate([row for row, _ in rows], [ended for _, ended in rows], draws=100)
    for name, figure in found.row().items():
        if isinstance(figure, dict) and name != "counts":
            assert figure["value"] is None or np.isfinite(figure["value"]), name
            assert figure["value"] is not None or figure["why"], name
            if figure["value"] is not None and figure["low"] is not None:
                assert figure["low"] <= figure["high"]


def test_recovers_the_rates_of_a_true_process_and_predicts_held_out():
    rng = np.random.default_rng(1)
    found = calibrate(two_stage_process(rng, 4000, 0.4, 0.9, 0.7), draws=200)
    for figure, truth in ((found.p_s, 0.4), (found.p_dC, 0.9), (found.p_dW, 0.7)):
        assert figure.low - 0.01 <= truth <= figure.high + 0.01
    assert abs(found.held_out_error) < 0.02


def test_first_attempts_unlike_later_ones_show_in_the_held_out_prediction():
    """Attempts after the first are always right: the two-stage model is false, and only the held-out line can say so."""
    rows = [[True] if i % 2 else [False, True] for i in range(400)]
    found = calibrate(rows, draws=100)
    assert found.identity_gap == pytest.approx(0, abs=1e-12)
    assert found.observed.value == 1.0
    rows = [[True] if i % 4 == 0 else [False, i % 4 != 1] for i in range(400)]
    assert abs(calibrate(rows, draws=100).held_out_error) > 0.03


def test_cut_off_is_no_decision():
    found = calibrate([[False, False], [True]], [False, True], draws=100)
    assert found.counts["decided_wrong"] == 1
    assert found.p_dW.value == 1.0
    assert found.cut_off.value == 0.5
    assert found.observed.value == 0.5
    assert found.observed_stopped.value == 1.0


def test_unidentified_is_said():
    assert "no wrong attempt" in calibrate([[True], [True]]).p_dW.why
    assert "no right attempt" in calibrate([[False], [False]]).p_dC.why
    assert calibrate([[False], [False]]).predicted.value == 0.0
    assert calibrate([[True], [True]]).predicted.value == 1.0
    assert "never stops" in calibrate([[False, False], [False, False]], [False, False]).predicted.why
    assert "no response has an attempt" in calibrate([[]]).p_s.why
    assert calibrate([[True], [True]]).reflection_pays is None
    assert "no wrong attempt" in calibrate([[True], [True]]).gain.why
    assert "no right attempt" in calibrate([[False], [False]]).gain.why


def test_echo_needs_answers():
    assert calibrate([[False, False, True]]).echo.value is None
    found = calibrate([[False, False, True]], answers=[["7", "7", "8"]])
    assert found.echo.value == 0.5


def test_all_or_none_still_has_an_interval():
    found = calibrate([[True]] * 20)
    assert found.p_s.low < 0.9
    assert normal_interval(found.p_s) == (1.0, 1.0)


def test_right_on_few_problems_however_often_is_right_on_few_problems():
    """200 right answers to 2 problems are Wilson's of 2 of 2, [.342, 1]; no second attempt either."""
    found = calibrate([[True]] * 200, problems=["a"] * 100 + ["b"] * 100, draws=50)
    for share in (found.p_s, found.p_dC, found.observed, found.predicted):
        assert (share.value, share.low, share.high) == (1, pytest.approx(0.342, abs=1e-3), 1)
    assert (found.cut_off.low, found.cut_off.high) == (0, pytest.approx(0.658, abs=1e-3))
    assert (found.p_s.n, found.p_s.hits) == (200, 200)


def test_normal_approximation_leaves_the_unit_interval():
    found = calibrate([[True]] + [[False]] * 99)
    assert normal_interval(found.observed)[0] < 0 < found.observed.low + 1e-9


def test_responses_to_one_problem_are_drawn_together():
    rows = [[True]] * 50 + [[False]] * 50
    alone = calibrate(rows, draws=400).p_s
    together = calibrate(rows, problems=[i // 25 for i in range(100)], draws=400).p_s
    assert together.high - together.low > 1.5 * (alone.high - alone.low)


def test_wrong_lengths_are_the_users():
    with pytest.raises(InputError, match="'stopped' has 1 entries for 2"):
        calibrate([[True], [False]], [True])
    with pytest.raises(InputError, match="no responses"):
        calibrate([])


def test_decomposition_adds_up_in_both_orders():
    rng = np.random.default_rng(2)
    weak, strong = two_stage_process(rng, 500, 0.4, 0.95, 0.2), two_stage_process(rng, 500, 0.5, 0.9, 0.8)
    parts = decompose(count(weak, None), count(strong, None), draws=200)
    total = parts.total.value
    assert parts.sampling_first.value + parts.decision_second.value == pytest.approx(total)
    assert parts.decision_first.value + parts.sampling_second.value == pytest.approx(total)
    assert parts.sampling.value + parts.decision.value == pytest.approx(total)
    assert parts.decision.value > parts.sampling.value > 0
    assert parts.decision.low > 0


def test_decomposition_draws_responses_to_one_problem_together():
    """Every response four times over: without its problem it would seem to be four, and the interval half as wide."""
    rng = np.random.default_rng(3)
    weak, strong = two_stage_process(rng, 150, 0.4, 0.95, 0.2), two_stage_process(rng, 150, 0.5, 0.9, 0.8)
    names = [*range(150)]
    counts = [count(each, None) for each in (weak, strong)]
    again = [count([*each] * 4, None) for each in (weak, strong)]
    once = decompose(*counts, problems=(names, names)).total
    together = decompose(*again, problems=(names * 4, names * 4)).total
    apart = decompose(*again).total
    assert (together.low, together.high) == pytest.approx((once.low, once.high))
    assert apart.high - apart.low < 0.6 * (once.high - once.low)


def test_decomposition_of_models_that_always_did_the_same_has_a_width():
    """Three responses each. Wilson of 3 of 3 is [.438, 1], of 0 of 3 [0, .562]: -1 + hypot(.562, .562) = -.206."""
    wrong = decompose(count([[True]] * 3, None), count([[False]] * 3, None), draws=100).observed
    assert (wrong.value, wrong.low, wrong.high) == (-1, -1, pytest.approx(-0.206, abs=1e-3))
    alike = decompose(count([[True]] * 3, None), count([[True]] * 3, None), draws=100)
    for part in (alike.observed, alike.total, alike.sampling):
        assert (part.value, part.low, part.high) == (0, pytest.approx(-0.562, abs=1e-3), pytest.approx(0.562, abs=1e-3))


def test_decomposition_of_a_model_that_never_erred_says_why():
    parts = decompose(count([[True]] * 5, None), count([[False], [True]], None), draws=100)
    assert "never had to decide" in parts.sampling_first.why  # B's wrong attempts under A's decisions, which has none
    assert parts.observed.value == -0.5


def test_a_model_without_a_fault_has_intervals_too():
    """10 x [W C], 10 x [C]: no draw decides wrongly. Wilson of 20 of 20 is [.839, 1], of 10 of 10 [.722, 1]; gain from
    1 - hypot(.161, .278) = .679."""
    found = calibrate([[False, True], [True]] * 10, draws=50)
    assert (found.predicted.value, found.predicted.high) == (1, 1)
    assert found.predicted.low == found.held_out.low == pytest.approx(0.839, abs=1e-3)
    assert (found.gain.value, found.gain.high) == (1, 1)
    assert found.gain.low == pytest.approx(0.679, abs=1e-3)
    none = calibrate([[False]] * 20, draws=50)
    assert (none.predicted.low, none.predicted.high) == (0, pytest.approx(0.161, abs=1e-3))
