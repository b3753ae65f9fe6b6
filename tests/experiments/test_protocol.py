"""The protocol against selections written out by hand, and its tie-breaking."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier

from musvm import UniversumSVC
from musvm.experiments.data import load_data
from musvm.experiments.models import Binary, Direct, Judged
from musvm.experiments.protocol import Cell, Study, choose, make_partition, run_cell
from musvm.experiments.settings import C_GRID, C_GRID_2019, DELTA_GRID, SETTINGS

CELL = Cell(partition=1, universum="digits-147", m=60, criterion="cv")
STUDY = Study(SETTINGS["digits"])


@pytest.fixture(scope="module")
def data():
    return load_data(SETTINGS["digits"])


@pytest.fixture(scope="module")
def part(data):
    return make_partition(data, STUDY, CELL)


class Scripted:
    """A family whose judgements are given."""

    def __init__(self, plain, joined):
        self.judgements = {False: plain, True: joined}
        self.asked = []

    def judge(self, part, Cs, weights, deltas):
        self.asked.append((list(Cs), list(weights), list(deltas)))
        return self.judgements[any(weights)]


def errors_left_out(part, make, universum):
    """Errors of stratified 5-fold cross-validation, with nothing of the package's own search."""
    wrong = 0
    for kept, left in StratifiedKFold(5).split(part.X, part.y):
        model = make().fit(part.X[kept], part.y[kept], universum=universum)
        wrong += int(np.sum(model.predict(part.X[left]) != part.y[left]))
    return wrong / len(part.y)


def test_cross_validation_is_the_one_written_out_by_hand(part):
    family = Direct("rbf", 0.25, "sum", "cv")
    for C, weight, delta in [(0.1, 0.0, 0.0), (10.0, 0.0, 0.0), (1.0, 0.5, 0.05)]:
        [judged] = family.judge(part, [C], [weight], [delta])

        def make(C=C, weight=weight, delta=delta):
            return UniversumSVC(C, gamma=0.25, delta=delta, universum_weight=weight)

        expected = errors_left_out(part, make, part.universum if weight else None)
        assert judged.error == pytest.approx(expected)
        assert (judged.C, judged.weight, judged.delta) == (C, weight, delta)


def test_one_vs_rest_is_scikit_learns_without_a_universum(part):
    judged = Judged(1.0, 0.0, 0.0, 0.0)
    ours = Binary("one-vs-rest", "rbf", 0.25, "sum").fit(judged, part.X, part.y, part.universum)
    theirs = OneVsRestClassifier(UniversumSVC(1.0, gamma=0.25)).fit(part.X, part.y)
    np.testing.assert_allclose(
        ours.decision_values(part.X_test), theirs.decision_function(part.X_test), atol=1e-2
    )


def test_one_vs_rest_passes_the_universum_to_every_binary_problem(part):
    judged = Judged(1.0, 0.3, 0.05, 0.0)
    ours = Binary("one-vs-rest", "rbf", 0.25, "sum").fit(judged, part.X, part.y, part.universum)
    for k, label in enumerate(np.unique(part.y)):
        binary = UniversumSVC(1.0, gamma=0.25, delta=0.05, universum_weight=0.3)
        binary.fit(part.X, part.y == label, universum=part.universum)
        np.testing.assert_array_equal(
            ours.decision_values(part.X_test)[:, k], binary.decision_function(part.X_test)
        )


def test_one_vs_one_counts_wins_then_values(part):
    judged = Judged(1.0, 0.3, 0.05, 0.0)
    ours = Binary("one-vs-one", "rbf", 0.25, "sum").fit(judged, part.X, part.y, part.universum)
    classes = np.unique(part.y)
    wins, sums = np.zeros((2, len(part.X_test), 3))
    for k, l in ((0, 1), (0, 2), (1, 2)):
        rows = np.isin(part.y, classes[[k, l]])
        binary = UniversumSVC(1.0, gamma=0.25, delta=0.05, universum_weight=0.3)
        binary.fit(part.X[rows], part.y[rows] == classes[k], universum=part.universum)
        value = binary.decision_function(part.X_test)
        for i, v in enumerate(value):
            wins[i, k if v > 0 else l] += 1
            sums[i, k] += v
            sums[i, l] -= v
    expected = [
        max(range(3), key=lambda c, i=i: (wins[i, c], sums[i, c])) for i in range(len(wins))
    ]
    np.testing.assert_array_equal(ours.predict(part.X_test), classes[expected])


@pytest.mark.parametrize("scheme", ["one-vs-rest", "one-vs-one"])
def test_binary_machines_count_the_errors_of_their_own_predictions(part, scheme):
    family = Binary(scheme, "rbf", 0.25, "sum")
    [judged] = family.judge(part, [0.1], [0.0], [0.0])
    wrong = 0
    for kept, left in StratifiedKFold(5).split(part.X, part.y):
        model = family.fit(judged, part.X[kept], part.y[kept], None)
        wrong += int(np.sum(model.predict(part.X[left]) != part.y[left]))
    assert judged.error == pytest.approx(wrong / len(part.y))


def test_ties_go_to_the_smallest_c_and_the_smallest_delta(part):
    plain = [Judged(0.1, 0, 0, 0.2), Judged(10.0, 0, 0, 0.1), Judged(1.0, 0, 0, 0.1)]
    joined = [Judged(1.0, 0.4, 0.1, 0.1), Judged(1.0, 0.4, 0.05, 0.1), Judged(1.0, 0.4, 0.0, 0.3)]
    chosen = choose(C_GRID, Scripted(plain, joined), part)
    assert chosen["svm"].C == 1.0
    assert chosen["mu_svm"].delta == 0.05


def test_the_grids_and_the_weight_are_the_papers(part):
    family = Scripted([Judged(10.0, 0, 0, 0.5)], [Judged(10.0, 1, 0, 0.5)])
    choose(STUDY.setting.Cs, family, part)
    n_over_mL = 60 / (60 * 3)
    assert family.asked == [
        ([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0], [0.0], [0.0]),
        ([10.0], [pytest.approx(n_over_mL)], [0.0, 0.01, 0.05, 0.1]),
    ]
    assert SETTINGS["sequel"].Cs == C_GRID_2019 == (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def test_binary_machines_are_not_chosen_by_bounds(data):
    with pytest.raises(ValueError, match="cross-validation only"):
        run_cell(data, Study(model="one-vs-one"), Cell(0, "digits-147", 60, "span"))


def test_a_cell_reports_the_errors_of_models_with_the_chosen_parameters(data, part):
    outcome = run_cell(data, STUDY, CELL)
    for name, universum in (("svm", None), ("mu_svm", part.universum)):
        told = outcome[name]
        model = UniversumSVC(
            told["C"], gamma=0.25, delta=told["delta"], universum_weight=told["weight"]
        ).fit(part.X, part.y, universum=universum)
        assert told["error"] == np.mean(model.predict(part.X_test) != part.y_test)
        assert told["C"] in C_GRID
        assert told["delta"] in DELTA_GRID
    better = outcome["mu_svm"]["criterion"] < outcome["svm"]["criterion"]
    assert outcome["either"] == outcome["mu_svm" if better else "svm"]
    assert outcome["unfinished"] == []


def test_departures_name_what_is_not_the_papers():
    assert STUDY.departures == {}
    assert Study(loss="max", seed=3).departures == {"seed": 3, "loss": "max"}
