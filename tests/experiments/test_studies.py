"""The studies on small, made-up data: their tasks run, and their measures are what they say."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from musvm.experiments import open_set, thresholds, universa
from musvm.experiments.data import Data, load_points
from musvm.experiments.experiment import run

rng = np.random.default_rng(0)


def clusters(centres, n):
    X = np.repeat(np.array(list(centres.values()), dtype=float), n, axis=0)
    return Data(X + rng.normal(size=X.shape), np.repeat(list(centres), n))


CENTRES = {0: [-5, -5, 0, 0], 1: [6, 0, 0, 0], 2: [0, 6, 0, 0], 3: [0, 0, 0, 0], 4: [0, 0, 20, 0]}
SITUATION = open_set.Situation(
    "made up", "own", (0, 1, 2), (3,), "own", {"far": ("own", (4,)), "noise": ("", ())}, 12
)


@pytest.fixture(scope="module")
def drawn():
    return open_set.draw_points({"own": clusters(CENTRES, 150)}, SITUATION, 0, 0)


def test_points_of_a_situation_are_different_points(drawn):
    assert (len(drawn.X), len(drawn.X_test), len(drawn.universum)) == (36, 300, 150)
    assert {kind: len(points) for kind, points in drawn.unknown.items()} == {
        "far": 150,
        "noise": 500,
    }
    everything = np.vstack([drawn.X, drawn.X_test, drawn.universum, drawn.unknown["far"]])
    assert len(np.unique(everything, axis=0)) == len(everything)


def test_every_entrant_gives_labels_and_scores_known_points_higher(drawn):
    found = open_set.entrants(drawn)
    assert len(found) == 19
    for name, entrant in found.items():
        assert np.mean(entrant.predict(drawn.X_test) == drawn.y_test) > 0.9, name
        known, unknown = entrant.score(drawn.X_test), entrant.score(drawn.unknown["far"])
        truth = [1] * len(known) + [0] * len(unknown)
        auroc = roc_auc_score(truth, np.r_[known, unknown])
        # A linear machine is sure of itself far away, on whichever side that is.
        assert auroc > 0.9 or "linear" in name or "logistic" in name, name


def test_scores_of_decision_values():
    F = np.array([[1.0, -2.0, 0.5], [0.0, 3.0, 1.0]])
    assert open_set.SCORES["spread"](F).tolist() == [3.0, 3.0]
    assert open_set.SCORES["lead"](F).tolist() == [0.5, 2.0]
    assert open_set.SCORES["maximum"](F).tolist() == [1.0, 3.0]


def test_background_class_is_the_last(drawn):
    found = open_set._with_background(drawn)
    for name, entrant in found.items():
        assert set(entrant.predict(drawn.universum)) <= {0, 1, 2}, name
        low, high = entrant.score(drawn.universum), entrant.score(drawn.X_test)
        assert np.median(low) < np.quantile(high, 0.05), name


def test_mahalanobis_distance_is_that_of_the_nearest_mean(drawn):
    score = open_set._mahalanobis(drawn)
    means = np.stack([drawn.X[drawn.y == label].mean(axis=0) for label in (0, 1, 2)])
    np.testing.assert_allclose(score(means), 0, atol=1e-9)
    assert score(means[:1] + 1.0)[0] < -1e-3


def test_curves_of_the_figure_are_rates_at_thresholds():
    fpr, ccr = open_set._curve(
        np.array([0, 1]), np.array([0, 0]), np.array([2.0, 3.0]), np.array([1.0])
    )
    assert set(fpr) == {1.0}
    assert set(ccr) == {0.5}


def test_every_maker_makes_a_universum():
    data = clusters(CENTRES, 1200)
    setting = universa.replace(
        universa.TASKS["mnist"][0], classes=(0, 1, 2), universa=(universa.Universum("pool", (3,)),)
    )
    part = universa.draw_partition(
        data, universa.replace(setting, n_train=10), "random", 0, 0, "pool", universa.POOL
    )
    model = universa.UniversumSVC(kernel="linear")
    for name, make in universa.MAKERS.items():
        points = make(part, model)
        assert str(len(points)) in name
        assert points.shape[1] == 4


def test_thresholds_accept_about_what_is_promised(tmp_path):
    study = thresholds.experiment(4, 0)
    assert load_points("digits", None, [0]).X.shape[1] == 64
    results = run(study, None, tmp_path, verbose=0)
    for name in thresholds.SOURCES:
        shares = thresholds.accepted(results, name)
        assert len(shares) == 4
        assert 75 < shares.mean() <= 100
    assert "| loo-estimate |" in study.page(results)
