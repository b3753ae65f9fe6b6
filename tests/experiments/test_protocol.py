"""The protocol against selections written out by hand, and its tie-breaking."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import StratifiedKFold
from sklearn.multiclass import OneVsRestClassifier

from musvm import UniversumSVC
from musvm.experiments.data import load_data
from musvm.experiments.models import Direct, Judged, OneVsRest
from musvm.experiments.protocol import Cell, Study, choose, make_partition, run_cell
from musvm.experiments.settings import C_GRID, DELTA_GRID

CELL = Cell(partition=1, universum="digits-147", m=60, criterion="cv")
STUDY = Study("digits")


@pytest.fixture(scope="module")
def data():
    return load_data("digits")


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
    judged = Judged(1.0, 0.0, 0.0, 0.0, 0.0)
    ours = OneVsRest("rbf", 0.25, "sum").fit(judged, part.X, part.y, part.universum)
    theirs = OneVsRestClassifier(UniversumSVC(1.0, gamma=0.25)).fit(part.X, part.y)
    np.testing.assert_allclose(
        ours.decision_values(part.X_test), theirs.decision_function(part.X_test), atol=1e-2
    )


def test_one_vs_rest_passes_the_universum_to_every_binary_problem(part):
    judged = Judged(1.0, 0.3, 0.05, 0.0, 0.0)
    ours = OneVsRest("rbf", 0.25, "sum").fit(judged, part.X, part.y, part.universum)
    for k, label in enumerate(np.unique(part.y)):
        binary = UniversumSVC(1.0, gamma=0.25, delta=0.05, universum_weight=0.3)
        binary.fit(part.X, part.y == label, universum=part.universum)
        np.testing.assert_array_equal(
            ours.decision_values(part.X_test)[:, k], binary.decision_function(part.X_test)
        )


def test_one_vs_rest_counts_the_errors_of_its_own_predictions(part):
    family = OneVsRest("rbf", 0.25, "sum")
    [judged] = family.judge(part, [0.1], [0.0], [0.0])
    wrong = 0
    for kept, left in StratifiedKFold(5).split(part.X, part.y):
        model = family.fit(judged, part.X[kept], part.y[kept], None)
        wrong += int(np.sum(model.predict(part.X[left]) != part.y[left]))
    assert judged.error == pytest.approx(wrong / len(part.y))


def test_ties_go_to_the_smallest_c_or_to_the_smallest_hinge_loss(part):
    plain = [
        Judged(0.1, 0, 0, 0.2, 0.1),
        Judged(10.0, 0, 0, 0.1, 0.5),
        Judged(1.0, 0, 0, 0.1, 0.7),
    ]
    joined = [Judged(1.0, 1, 0.1, 0.1, 0.1)]
    assert choose(STUDY, Scripted(plain, joined), part)["svm"].C == 1.0
    assert choose(Study(ties="hinge"), Scripted(plain, joined), part)["svm"].C == 10.0


def test_ties_of_the_universum_go_to_the_largest_weight_then_the_smallest_delta(part):
    plain = [Judged(1.0, 0, 0, 0.5, 0.5)]
    joined = [
        Judged(1.0, 0.2, 0.0, 0.1, 0.0),
        Judged(1.0, 0.4, 0.1, 0.1, 0.9),
        Judged(1.0, 0.4, 0.05, 0.1, 0.9),
        Judged(1.0, 0.9, 0.0, 0.3, 0.0),
    ]
    chosen = choose(STUDY, Scripted(plain, joined), part)["mu_svm"]
    assert (chosen.weight, chosen.delta) == (0.4, 0.05)


def test_the_grids_and_the_weight_are_the_papers(part):
    family = Scripted([Judged(10.0, 0, 0, 0.5, 0.5)], [Judged(10.0, 1, 0, 0.5, 0.5)])
    choose(STUDY, family, part)
    n_over_mL = 60 / (60 * 3)
    assert family.asked == [
        ([1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0, 1000.0], [0.0], [0.0]),
        ([10.0], [pytest.approx(n_over_mL)], [0.0, 0.01, 0.05, 0.1]),
    ]


def test_a_searched_weight_has_the_papers_among_its_values(part):
    family = Scripted([Judged(1.0, 0, 0, 0.5, 0.5)], [Judged(1.0, 1, 0, 0.5, 0.5)])
    choose(Study(weight="searched"), family, part)
    weights = family.asked[1][1]
    assert len(weights) > 1
    assert any(weight == pytest.approx(1 / 3) for weight in weights)


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


def test_a_universum_of_averages_lies_in_the_hull_of_the_training_points(data, part):
    averages = make_partition(data, Study(universum="random-average"), CELL).universum
    assert averages.shape == part.universum.shape
    assert np.all(averages >= part.X.min(axis=0) - 1e-12)
    assert np.all(averages <= part.X.max(axis=0) + 1e-12)
    assert not np.allclose(averages, part.universum)


def test_departures_name_what_is_not_the_papers():
    assert STUDY.departures == {}
    assert Study("digits", loss="max", seed=3).departures == {"seed": 3, "loss": "max"}
