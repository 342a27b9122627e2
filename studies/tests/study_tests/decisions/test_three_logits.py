"""Closed forms against enumeration of every trajectory up to a length beyond which nothing is left."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_studies.decisions import appendix_c
from holdfast_studies.decisions import three_logits as model
from holdfast_studies.decisions.three_logits import Logits

REFERENCE = appendix_c.REFERENCE
LOGIT = st.floats(-1.5, 1.5)


def trajectories(rounds):
    """Every trajectory that stops within so many rounds."""
    for num in range(1, rounds + 1):
        for attempts in itertools.product("CW", repeat=num):
            actions = []
            for k, attempt in enumerate(attempts):
                actions += [attempt, "STOP" if k == num - 1 else "RESAMPLE"]
            yield actions


def enumerate_expectation(theta, value, rounds):
    """E[value(steps)] under the policy, and how much probability the enumeration holds."""
    total, mass = 0.0, 0.0
    for actions in trajectories(rounds):
        steps = model.read_trajectory(actions)
        chance = math.exp(sum(model.logp(step, theta) for step in steps))
        total += chance * value(steps)
        mass += chance
    return total, mass


def numeric_gradient(function, theta, step=1e-5):
    parts = []
    for index in range(3):
        moved = [list(theta), list(theta)]
        moved[0][index] += step
        moved[1][index] -= step
        parts.append((function(Logits(*moved[0])) - function(Logits(*moved[1]))) / (2 * step))
    return Logits(*parts)


FAST = Logits(0.3, 1.5, -0.6)  # stops soon: eight rounds hold all but 2e-5 of the probability


def test_accuracy_and_kl_by_enumeration():
    accuracy, mass = enumerate_expectation(FAST, lambda steps: steps[-2].action == "C", 8)
    assert mass == pytest.approx(1, abs=1e-4)
    assert model.expected_accuracy(FAST) == pytest.approx(accuracy, abs=1e-4)
    length = 3

    def kl(steps):
        each = [model.logp(s, FAST) - model.logp(s, REFERENCE) for s in steps]
        return sum(ratio * (length if s.logit == 0 else 1) for s, ratio in zip(steps, each, strict=True))

    assert model.expected_kl(FAST, REFERENCE, length=length) == pytest.approx(
        enumerate_expectation(FAST, kl, 8)[0], abs=1e-3
    )


@given(LOGIT, LOGIT, LOGIT)
@settings(deadline=None, max_examples=50)
def test_gradients_are_those_of_the_expectations(s, dc, dw):
    theta = Logits(s, dc, dw)
    for index, part in enumerate(numeric_gradient(model.expected_accuracy, theta)):
        assert model.reward_gradient(theta)[index] == pytest.approx(part, abs=1e-7)
    numeric = numeric_gradient(lambda t: model.expected_kl(t, REFERENCE, length=5), theta)
    for index, part in enumerate(numeric):
        assert model.reward_kl_gradient(theta, REFERENCE, length=5)[index] == pytest.approx(part, abs=1e-6)


@pytest.mark.parametrize(
    ("estimator", "derivative"),
    [("k1", lambda _: -1.0), ("k2", lambda x: x), ("k3", lambda x: math.exp(x) - 1)],
)
def test_estimators_in_the_loss_by_enumeration(estimator, derivative):
    """Sampled states are constants: E[sum over steps of dk/dx * dx/dtheta], x = logp_ref - logp, dx = -score."""
    for index in range(3):

        def gradient(steps, index=index):
            return sum(
                -derivative(model.logp(s, REFERENCE) - model.logp(s, FAST)) * model.score(s, FAST)
                for s in steps
                if s.logit == index
            )

        expected = model.loss_kl_gradient(FAST, REFERENCE, estimator=estimator)[index]
        assert expected == pytest.approx(enumerate_expectation(FAST, gradient, 8)[0], abs=1e-3)


def test_k1_in_the_reward_by_enumeration():
    """REINFORCE: E[(whole KL of the trajectory) * (its score)] is the gradient of the expected KL."""
    for index in range(3):

        def gradient(steps, index=index):
            whole = sum(model.logp(s, FAST) - model.logp(s, REFERENCE) for s in steps)
            return whole * sum(model.score(s, FAST) for s in steps if s.logit == index)

        expected = model.reward_kl_gradient(FAST, REFERENCE)[index]
        assert expected == pytest.approx(enumerate_expectation(FAST, gradient, 8)[0], abs=2e-3)


def test_length_weighs_on_sampling_alone_in_the_loss_and_on_decisions_too_in_the_reward():
    """In the reward, deciding to go on pays for later rounds: the ratio tends to a constant; in the loss it grows like L."""
    theta, lengths = appendix_c.THETA, (1e5, 1e7)
    loss = [model.loss_kl_gradient(theta, REFERENCE, estimator="k3", length=n) for n in lengths]
    reward = [model.reward_kl_gradient(theta, REFERENCE, length=n) for n in lengths]
    assert loss[1].s / loss[1].dW == pytest.approx(100 * loss[0].s / loss[0].dW)
    assert reward[1].s / reward[1].dW == pytest.approx(reward[0].s / reward[0].dW, rel=1e-2)


def test_reference_updates_make_cycles():
    """The drag vanishes when the reference is refreshed and grows until the next time; without refreshing it never vanishes."""
    start = Logits(-0.5, 1.0, -0.5)
    moments = list(model.train(start, steps=300, refresh_every=50))
    refreshed = [m.step for m in moments if m.refreshed]
    assert refreshed == [50, 100, 150, 200, 250]
    assert all(abs(moments[step].drag.s) < 1e-12 < abs(moments[step - 1].drag.s) for step in refreshed)
    without = list(model.train(start, steps=300))
    assert all(abs(m.drag.s) > 1e-6 for m in without[1:])
    assert moments[-1].accuracy > without[-1].accuracy > moments[0].accuracy


def test_appendix_c_exact():
    """MATH §5, computed independently in float64."""
    exact = {
        "d1_sample": 0.469280, "d1_decision": -0.042865, "d2_sample": -0.330720, "d2_decision": -0.021845,
        "Q sample W": 0.073850, "Q RESAMPLE": -0.395430, "Q sample C": -0.352565, "Q STOP": -0.021845,
        "drag s": -0.185702, "drag dW": -0.078222, "drag dC": -0.002179,
        "push s": -0.098688, "push dW": 0.098908, "push dC": 0.049875,
        "net s": -0.284390, "net dW": 0.020686, "net dC": 0.047696,
    }  # fmt: skip
    rows = {row.name: row for row in appendix_c.table()}
    assert rows.keys() == exact.keys()
    for name, value in exact.items():
        assert rows[name].exact == pytest.approx(value, abs=1e-6), name
        assert abs(rows[name].paper - rows[name].exact) < 2e-3


def test_the_length_of_an_attempt_in_every_reading():
    """By hand: at L = 1 all readings of one trajectory agree, and drag s = -.5987 * -.0474 + .4013 * -.0632."""
    one = appendix_c.worked_example(length=1).drag
    assert one == pytest.approx((0.0030, -0.0022, -0.0210), abs=5e-5)
    assert appendix_c.expected_drag(1) == pytest.approx((-0.0367, -0.0169, -0.0212), abs=5e-5)
    assert appendix_c.expected_drag(8) == pytest.approx((-0.305, -0.0157, -0.0226), abs=5e-4)
    printed, tokens = appendix_c.worked_example().drag, appendix_c.token_by_token()
    assert (tokens.dC, tokens.dW) == pytest.approx((printed.dC, printed.dW)), "decisions see the same returns"


def test_errata_are_numbers():
    figures = {name: value for erratum in appendix_c.errata() for name, value in erratum.figures.items()}
    readings = {
        "L = 1": 0.14, "8 in the penalty, as printed": 2.4, "8 in penalty and score": 19, "token by token": 0.48,
        "expected, L = 1": 1.7, "expected, L = 8": 13.5,
    }  # fmt: skip
    for name, ratio in readings.items():
        assert figures[name] == pytest.approx(ratio, rel=0.03), name
    assert abs(figures["net at 0.001, s"] - figures["push, s"]) < 2e-4
    assert figures["expected push, s"] == pytest.approx(0.1119, abs=5e-5)
    assert figures["expected push, dC"] == pytest.approx(0.0112, abs=5e-5)
    assert figures["expected push, dW"] == pytest.approx(0.0898, abs=5e-5)
    assert figures["accuracy"] == pytest.approx(0.8716, abs=5e-5)
    assert figures["drag on s, +log"] == -figures["drag on s, -log"]
