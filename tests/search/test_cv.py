"""`UniversumSVCCV` against loops over `UniversumSVC`, whoever computes the cells."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import tracemalloc
from itertools import product

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer, make_scorer, matthews_corrcoef
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from musvm import UniversumSVC, UniversumSVCCV, _progress, loo_error
from musvm.search import cv, memory, rule, run, steps
from musvm.search.comparison import Comparison, Opinion
from musvm.search.rule import Change, best_plain, best_with_universum, paired, soft_errors
from musvm.solvers import choose
from musvm.universum import random_average

N, M = 48, 30
rng = np.random.default_rng(1)
Y = np.arange(N) % 3
CENTRES = 1.3 * rng.normal(size=(3, 5))
X = CENTRES[Y] + rng.normal(size=(N, 5))
U = rng.normal(size=(M, 5))
Z, LABELS = np.vstack([X, U]), np.r_[Y, np.full(M, -1)]
CS, GAMMAS, DELTAS = [0.1, 1.0, 10.0], [0.05, 0.3], [0.0, 0.1]
TIGHT = 1e-9  # cells start warm and loops cold; at this gap their margins agree


def make_search(**parameters) -> UniversumSVCCV:
    settings = {
        "gammas": GAMMAS, "deltas": DELTAS, "universum_weights": ["balanced"], "criterion": 4,
        "n_steps": 2, **parameters,
    }  # fmt: skip
    return UniversumSVCCV(CS, **settings)


def table(search: UniversumSVCCV) -> pd.DataFrame:
    """What must be the same whoever computed it."""
    return pd.DataFrame(search.results_).drop(columns="seconds")


def assert_identical(a: UniversumSVCCV, b: UniversumSVCCV) -> None:
    pd.testing.assert_frame_equal(table(a), table(b), check_exact=True)
    assert np.array_equal(a.left_out_margins_, b.left_out_margins_)
    assert np.array_equal(a.best_estimator_.dual_coef_, b.best_estimator_.dual_coef_)
    assert a.best_params_ == b.best_params_


# ---------------------------------------------------------------------------------------------
# The criterion of every cell


def margins_by_hand(params, splits, X=X, y=Y, U=U, weight=None, **settings) -> np.ndarray:
    """Left-out margins of all splits, each from a model of its own."""
    margins = []
    for train, test in splits:
        model = UniversumSVC(tol=TIGHT, **settings, **params)
        model.fit(X[train], y[train], U, None if weight is None else weight[train])
        margins.append(model.projections(X[test])[np.arange(len(test)), y[test]])
    return np.concatenate(margins)


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize(
    "cv", [4, KFold(3, shuffle=True, random_state=0), list(StratifiedKFold(5).split(X, Y))]
)
def test_cells_are_what_a_loop_over_the_folds_finds(cv, loss):
    search = make_search(criterion=cv, tol=TIGHT, universum_loss=loss).fit(X, Y, universum=U)
    splitter = StratifiedKFold(4) if cv == 4 else cv
    splits = splitter if isinstance(splitter, list) else list(splitter.split(X, Y))
    for k, params in enumerate(search.results_["params"]):
        margins = margins_by_hand(params, splits, universum_loss=loss)
        np.testing.assert_allclose(search.left_out_margins_[k], margins, atol=1e-3)
        assert search.results_["error"][k] == np.mean(margins < 0)
        assert search.results_["hinge"][k] == pytest.approx(
            np.mean(np.maximum(0, 1 - margins)), abs=1e-3
        )


def margins_without(params, groups, X=X, y=Y, U=U, weight=None) -> np.ndarray:
    """The margin of every row when all rows of its group are left out."""
    splits = [(np.flatnonzero(groups != g), np.flatnonzero(groups == g)) for g in groups]
    margins = margins_by_hand(params, splits, X, y, U, weight)
    rows = np.concatenate([test for _, test in splits])
    return margins[[np.flatnonzero(rows == row)[0] for row in range(len(y))]]


def test_exact_leave_one_out_is_what_retraining_finds():
    search = UniversumSVCCV([1.0], gammas=[0.1], deltas=[0.05], criterion="loo", tol=TIGHT)
    search.fit(X, Y, universum=U)
    assert np.array_equal(search.left_out_rows_, np.arange(N))
    for k, params in enumerate(search.results_["params"]):
        margins = margins_without(params, np.arange(N))
        assert np.array_equal(search.left_out_errors_[k], margins < 0)
        assert search.results_["error"][k] == np.mean(margins < 0)


@pytest.mark.parametrize("method", ["span", "span-2016", "loo-estimate", "loo"])
def test_named_criteria_are_those_of_the_final_model(method):
    search = make_search(criterion=method, tol=TIGHT).fit(X, Y, universum=U)
    found = loo_error(search.best_estimator_, X, Y, universum=U, method=method)
    assert search.results_["criterion"][search.best_index_] == found.error
    margins = search.left_out_margins_[search.best_index_]
    # Exact leave-one-out stops where the label is certain, this far from the optimum.
    radius = 0.0 if found.radius is None else 2 * found.radius
    assert np.all(np.abs(margins - found.margins) <= 1e-6 + radius)


def test_copies_of_a_point_are_left_out_together():
    groups = np.r_[np.arange(N), [0, 0, 1, 7]]
    search = UniversumSVCCV([1.0], gammas=[0.1], deltas=[0.05], criterion="loo", tol=TIGHT)
    search.fit(X[groups], Y[groups], universum=U)
    for k, params in enumerate(search.results_["params"]):
        margins = margins_without(params, groups, X[groups], Y[groups])
        assert np.array_equal(search.left_out_errors_[k], margins < 0)
        assert search.results_["error"][k] == pytest.approx(np.mean(margins < 0))


@pytest.mark.parametrize("method", ["span", "span-2016", "loo-estimate", "loo"])
def test_a_weight_of_two_and_the_row_twice_are_the_same_search(method):
    weight = rng.choice([0.0, 1.0, 2.0], size=N)
    repeated = np.repeat(np.arange(N), weight.astype(int))
    weighted = make_search(criterion=method).fit(X, Y, U, sample_weight=weight)
    copied = make_search(criterion=method).fit(X[repeated], Y[repeated], U)
    pd.testing.assert_frame_equal(table(weighted), table(copied))


def test_weights_count_in_the_fits_and_in_the_error():
    weight = rng.choice([0.5, 1.0, 3.0], size=N)
    search = make_search(tol=TIGHT, class_weight="balanced").fit(X, Y, U, sample_weight=weight)
    splits = list(StratifiedKFold(4).split(X, Y))
    order = np.concatenate([test for _, test in splits])
    for k, params in enumerate(search.results_["params"]):
        margins = margins_by_hand(params, splits, weight=weight, class_weight="balanced")
        np.testing.assert_allclose(search.left_out_margins_[k], margins, atol=1e-3)
        assert search.results_["error"][k] == pytest.approx(
            np.average(margins < 0, weights=weight[order])
        )


def test_rows_of_weight_zero_are_not_there():
    weight = np.where(np.arange(N) % 7 == 0, 0.0, 1.0)
    kept = weight > 0
    assert_identical(
        make_search().fit(X, Y, U, sample_weight=weight), make_search().fit(X[kept], Y[kept], U)
    )


def test_groups_reach_the_splitter():
    groups = np.arange(N) // 6
    search = make_search(criterion=GroupKFold(3), tol=TIGHT).fit(X, Y, U, groups=groups)
    splits = list(GroupKFold(3).split(X, Y, groups))
    margins = margins_by_hand(search.results_["params"][0], splits)
    np.testing.assert_allclose(search.left_out_margins_[0], margins, atol=1e-3)


# ---------------------------------------------------------------------------------------------
# The two steps


def test_step_a_is_plain_and_step_b_keeps_its_choice():
    search = make_search(universum_weights=[0.1, "balanced"]).fit(X, Y, universum=U)
    cells = table(search)
    a, b = cells[cells.step == "a"], cells[cells.step == "b"]
    assert list(zip(a.gamma, a.C, strict=True)) == list(product(GAMMAS, CS))
    assert set(a.universum_weight) == {0.0}
    assert list(zip(b.universum_weight, b.delta, strict=True)) == [
        (weight, delta) for weight in (0.1, N / (3 * M)) for delta in DELTAS
    ]
    best = a.loc[a.soft_error.idxmin()]
    assert set(zip(b.gamma, b.C, strict=True)) == {(best.gamma, best.C)}


def test_three_steps_give_the_universum_a_C_of_its_own():
    weights = [0.1, 0.2, "balanced"]  # the last is the largest, 0.53
    search = make_search(universum_weights=weights, n_steps=3).fit(X, Y, universum=U)
    cells = table(search)
    a, rest = cells[cells.step == "a"], cells[cells.step == "b"]
    best = a.loc[a.soft_error.idxmin()]
    assert set(rest.gamma) == {best.gamma}
    probes = rest[(rest.universum_weight == N / (3 * M)) & (rest.delta == DELTAS[0])]
    assert probes.C.tolist() == CS
    own = probes.C[probes.soft_error.idxmin()]
    place = CS.index(own)
    around = CS[max(place - 1, 0) : place + 2]
    expected = {(own, w, d) for own in around for w in (0.1, 0.2, N / (3 * M)) for d in DELTAS}
    expected |= {(C, N / (3 * M), DELTAS[0]) for C in CS}
    assert set(zip(rest.C, rest.universum_weight, rest.delta, strict=True)) == expected
    assert len(rest) == len(expected)
    loop = make_search(universum_weights=weights, n_steps=1).fit(X, Y, universum=U)
    all_cells = table(loop).set_index(["gamma", "C", "universum_weight", "delta"]).soft_error
    for _, cell in rest.iterrows():
        name = (cell.gamma, cell.C, cell.universum_weight, cell.delta)
        assert all_cells[name] == pytest.approx(cell.soft_error, abs=1e-3)


def test_joint_search_has_every_combination():
    search = make_search(n_steps=1).fit(X, Y, universum=U)
    cells = table(search)
    combinations = set(zip(cells.gamma, cells.C, cells.universum_weight, cells.delta, strict=True))
    expected = {(g, C, 0.0, 0.0) for g, C in product(GAMMAS, CS)}
    expected |= {(g, C, N / (3 * M), d) for g, C, d in product(GAMMAS, CS, DELTAS)}
    assert combinations == expected
    assert len(cells) == len(expected)


def test_without_universum_there_is_no_step_b():
    search = make_search().fit(X, Y)
    assert set(search.results_["step"]) == {"a"}
    assert search.universum_helps_ is False
    comparison = search.comparison_
    assert comparison.universum is None
    assert comparison.difference is None
    assert comparison.chosen is comparison.plain
    assert comparison.gained.tolist() == comparison.lost.tolist() == []
    assert comparison.decision == "No universum was given."
    weightless = make_search(universum_weights=[0.0]).fit(X, Y, universum=U)
    assert set(weightless.results_["step"]) == {"a"}
    assert weightless.comparison_.decision == (
        "The universum was not tried: no weight but 0 was searched."
    )


def test_repeated_and_unsorted_values_do_not_matter():
    shuffled = UniversumSVCCV(
        [10.0, 0.1, 1.0, 0.1], gammas=[*GAMMAS, 0.05], deltas=[0.1, 0.0, 0.1], criterion=4,
        universum_weights=["balanced", "balanced"], n_steps=2,
    )  # fmt: skip
    assert_identical(shuffled.fit(X, Y, U), make_search().fit(X, Y, U))


@pytest.mark.parametrize("criterion", [4, "loo-estimate"])
def test_the_summary_is_that_of_the_chosen_cell(criterion):
    search = make_search(criterion=criterion).fit(X, Y, universum=U)
    results = search.results_
    assert search.best_score_ == results["error"][search.best_index_]
    assert search.best_params_ == results["params"][search.best_index_]
    assert search.universum_helps_ == (results["step"][search.best_index_] == "b")
    comparison = search.comparison_
    for finalist, step in ((comparison.plain, "a"), (comparison.universum, "b")):
        rows = np.flatnonzero(results["step"] == step)
        assert finalist.index == rows[results["soft_error"][rows].argmin()]
        assert finalist.params == results["params"][finalist.index]
        assert finalist.error == pytest.approx(finalist.wrong.mean())
        assert finalist.soft_error == pytest.approx(soft_errors(finalist.margins).mean())
        assert np.array_equal(finalist.margins, search.left_out_margins_[finalist.index])
        assert np.array_equal(finalist.wrong, search.left_out_errors_[finalist.index])
    gain = comparison.universum.error - comparison.plain.error
    assert comparison.difference == pytest.approx(gain)
    n = len(comparison.rows)
    assert comparison.difference == pytest.approx(
        (len(comparison.lost) - len(comparison.gained)) / n
    )
    assert comparison.uses_universum == search.universum_helps_
    assert comparison.chosen.error == search.best_score_
    soft = soft_errors(comparison.universum.margins) - soft_errors(comparison.plain.margins)
    assert comparison.soft_difference == pytest.approx(soft.mean())
    assert comparison.soft_standard_error == pytest.approx(soft.std(ddof=1) / np.sqrt(n))
    figures = comparison.as_dict()
    assert figures["soft_difference"] == comparison.soft_difference
    assert figures["soft_standard_error"] == comparison.soft_standard_error


# ---------------------------------------------------------------------------------------------
# Scores of one's own choice


def scores_by_hand(params, splits, scorer, X=X, y=Y, U=U) -> list[float]:
    """The scores of models of their own, on the labelled points left out."""
    return [
        scorer(UniversumSVC(tol=TIGHT, **params).fit(X[train], y[train], U), X[test], y[test])
        for train, test in splits
    ]


def fewest_of_class_0(estimator, X, y) -> float:
    """A score that has nothing to do with errors."""
    return -float(np.mean(estimator.predict(X) == 0))


@pytest.mark.parametrize(
    ("scoring", "labels"),
    [
        ("balanced_accuracy", Y),
        ("f1_macro", np.array(["b", "c", "a"])[Y]),
        ("roc_auc", Y % 2),
        (make_scorer(matthews_corrcoef), Y),
        (fewest_of_class_0, Y),
    ],
    ids=["balanced_accuracy", "strings", "binary", "scorer", "function"],
)
def test_scores_are_those_of_a_loop_over_the_folds(scoring, labels):
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    search = make_search(criterion="span", cv=splits, scoring=scoring, tol=TIGHT)
    search.fit(X, labels, universum=U)
    results, found = search.results_, search.cv_results_
    for k, params in enumerate(results["params"]):
        expected = scores_by_hand(params, splits, get_scorer(scoring), y=labels)
        splits_found = [found[f"split{s}_test_score"][k] for s in range(4)]
        np.testing.assert_allclose(splits_found, expected, atol=1e-12)
        assert found["mean_test_score"][k] == pytest.approx(np.mean(expected))
        assert found["std_test_score"][k] == pytest.approx(np.std(expected))
        assert results["score"][k] == found["mean_test_score"][k]
    comparison = search.comparison_
    for finalist, step in ((comparison.plain, "a"), (comparison.universum, "b")):
        rows = np.flatnonzero(results["step"] == step)
        assert finalist.score == results["score"][finalist.index] == results["score"][rows].max()
        assert comparison.as_dict()[{"a": "plain", "b": "universum"}[step]]["score"] == (
            finalist.score
        )
    assert search.universum_helps_ == (comparison.universum.score > comparison.plain.score + 1e-9)
    assert search.best_score_ == comparison.chosen.score == results["score"][search.best_index_]
    before, after = comparison.plain.score, comparison.universum.score
    change = f"goes from {before:.4g} to {after:.4g} with the universum"
    same = f"is {before:.4g} without the universum and with it"
    assert comparison.decision == (
        f"The mean score of the folds {same if abs(after - before) < 1e-9 else change}: "
        f"the universum is {'used' if search.universum_helps_ else 'left out'}."
    )
    head, *lines = str(comparison).splitlines()
    assert head.split()[:2] == ["score", "error"]
    assert [line.split()[2] for line in lines[:2]] == [f"{before:.4g}", f"{after:.4g}"]


def test_a_score_chooses_another_model_than_the_error():
    by_error = make_search().fit(X, Y, universum=U)
    search = make_search(scoring=fewest_of_class_0).fit(X, Y, universum=U)
    assert search.best_params_ != by_error.best_params_
    assert search.best_score_ < 0


def test_universum_rows_marked_by_a_label_are_not_scored():
    seen = []

    def count(estimator, X, y) -> float:
        seen.extend(y)
        return 0.0

    search = make_search(cv=3, scoring=count, universum_label=-1).fit(Z, LABELS)
    assert np.array_equal(np.unique(seen), [0, 1, 2])
    assert len(seen) == N * len(search.results_["C"])
    assert not search.universum_helps_, "equal scores: the simpler model"


def test_the_table_of_a_search_has_the_columns_of_scikit_learn():
    grid = GridSearchCV(UniversumSVC(), {"C": CS}, cv=4).fit(X, Y).cv_results_
    search = UniversumSVCCV(CS, cv=4, universum_weights=["balanced"], n_steps=2).fit(X, Y)
    found = search.cv_results_
    assert set(grid) <= set(found)
    rows = np.argsort([params["C"] for params in found["params"]])
    for name in ("split0_test_score", "split3_test_score", "mean_test_score", "std_test_score"):
        np.testing.assert_allclose(found[name][rows], grid[name], atol=1e-12)
    assert found["param_C"].tolist() == [params["C"] for params in found["params"]]
    assert np.all(found["mean_fit_time"] > 0)
    assert np.all(found["mean_score_time"] > 0)
    np.testing.assert_allclose(
        4 * (found["mean_fit_time"] + found["mean_score_time"]), search.results_["seconds"]
    )


@pytest.mark.parametrize(
    ("options", "column", "sign"),
    [
        ({"criterion": "span"}, "mean_test_bound", 1),
        ({"cv": 3}, "mean_test_soft_error", 1),
        ({"cv": 3, "scoring": "f1_macro"}, "mean_test_score", -1),
    ],
)
def test_the_table_of_a_search_has_what_ranks_its_cells(options, column, sign):
    found = make_search(**options).fit(X, Y, universum=U).cv_results_
    expected = rankdata(sign * found[column], method="min")
    np.testing.assert_array_equal(found["rank_test_score"], expected)


@pytest.mark.parametrize("criterion", ["span", "loo-estimate", "loo"])
def test_scoring_without_folds_is_refused(criterion):
    with pytest.raises(
        ValueError, match=f"scoring needs folds .* criterion='{criterion}' has none"
    ):
        make_search(criterion=criterion, scoring="accuracy").fit(X, Y, universum=U)


@pytest.mark.parametrize("score", [np.nan, None, [1.0, 2.0]], ids=str)
def test_a_score_that_is_no_number_is_refused(score):
    with pytest.raises(ValueError, match="scoring must give one finite number"):
        make_search(scoring=lambda *_: score).fit(X, Y, universum=U)


@pytest.mark.usefixtures("two_blas_threads")
def test_scores_resume_and_do_not_depend_on_the_workers(tmp_path):
    first = make_search(scoring="f1_macro", memory=tmp_path).fit(X, Y, universum=U)
    again = make_search(scoring="f1_macro", memory=tmp_path).fit(X, Y, universum=U)
    other = make_search(scoring="f1_macro", n_jobs=2).fit(X, Y, universum=U)
    assert_identical(first, again)
    assert_identical(first, other)
    assert make_search(memory=tmp_path).fit(X, Y, universum=U).comparison_.plain.score is None


def noisy_data(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classes that differ in two features of sixty, and a universum that shows the other ones."""
    random = np.random.default_rng(seed)
    y = np.arange(45) % 3
    angles = 2 * np.pi * y / 3
    X, universum = (2 * random.normal(size=(n, 60)) for n in (45, 150))
    X[:, :2] = 2 * np.column_stack([np.cos(angles), np.sin(angles)]) + X[:, :2] / 4
    universum[:, :2] = 0.0
    return X, y, universum


@pytest.mark.parametrize("criterion", ["span", "span-2016", "loo-estimate", "loo", 5])
def test_a_universum_that_helps_is_used_and_one_that_harms_is_not(criterion):
    X, y, helpful = noisy_data()
    X_test, y_test, _ = noisy_data(1)
    search = UniversumSVCCV([0.1, 10.0], kernel="linear", criterion=criterion)
    search.fit(X, y, universum=helpful)
    plain = clone(search).fit(X, y)
    assert search.universum_helps_ is True
    assert search.comparison_.difference < -search.comparison_.standard_error < 0
    assert search.best_params_["universum_weight"] != 0.0
    assert len(search.best_estimator_.universum_support_) > 0
    assert search.score(X_test, y_test) > plain.score(X_test, y_test)

    harmful = np.zeros_like(helpful)
    harmful[:, :2] = 3 * np.random.default_rng(2).normal(size=(150, 2))
    search.fit(X, y, universum=harmful)
    assert search.universum_helps_ is False
    assert search.best_params_["universum_weight"] == 0.0
    assert search.best_estimator_.universum_support_.tolist() == []
    assert np.array_equal(search.predict(X_test), plain.predict(X_test))


# ---------------------------------------------------------------------------------------------
# The rule


def results_of(*cells: tuple) -> dict:
    """A table of cells (kernel, C, universum weight, delta, soft error, criterion)."""
    names = ("kernel_setting", "C", "universum_weight", "delta", "soft_error", "criterion")
    return dict(zip(names, np.array(cells, dtype=float).T, strict=True))


def test_step_a_takes_the_smallest_C_of_the_best_and_then_the_first_kernel():
    results = results_of(
        (0, 0.1, 0, 0, 0.2, 0.1),
        (0, 10.0, 0, 0, 0.1, 0.1),
        (1, 1.0, 0, 0, 0.1, 0.2),
        (0, 1.0, 0, 0, 0.1, 0.3),
        (0, 0.1, 1, 0, 0.0, 0.1),  # has a universum
    )
    assert best_plain(results, "soft_error") == 3
    assert best_plain(results, "criterion") == 0


def test_step_b_takes_the_largest_weight_of_the_best_and_then_the_smallest_delta():
    results = results_of(
        (0, 1.0, 0, 0, 0.0, 0.0),
        (0, 1.0, 0.5, 0.0, 0.1, 0.1),
        (0, 1.0, 1.0, 0.1, 0.1, 0.2),
        (0, 9.0, 1.0, 0.05, 0.1, 0.3),
        (1, 1.0, 1.0, 0.05, 0.1, 0.3),
        (0, 1.0, 1.0, 0.05, 0.1, 0.3),
    )
    assert best_with_universum(results, "soft_error") == 5
    assert best_with_universum(results, "criterion") == 1
    assert best_with_universum(results, "soft_error", np.arange(6) < 3) == 2
    assert best_with_universum(results_of((0, 1.0, 0, 0, 0.0, 0.0)), "soft_error") is None


@given(st.integers(0, 2**32 - 1), st.integers(2, 50))
def test_difference_and_standard_error_are_those_of_paired_values(seed, n):
    plain, other = np.random.default_rng(seed).random((2, n)) < 0.3
    difference = other.astype(float) - plain
    mean, error = paired([plain, other], np.ones(n))
    assert mean == pytest.approx(difference.mean(), abs=1e-12)
    assert error == pytest.approx(difference.std(ddof=1) / np.sqrt(n), abs=1e-12)
    scaled = paired([plain, other], np.full(n, 7.0))
    assert scaled == pytest.approx((mean, error), abs=1e-12)


def test_soft_errors_are_the_logistic_function_of_twice_the_margin():
    margins = np.array([-50.0, -1.0, 0.0, 0.5, 1.0, 800.0])
    expected = [1.0, 1 / (1 + np.exp(-2)), 0.5, 1 / (1 + np.exp(1)), 1 / (1 + np.exp(2)), 0.0]
    np.testing.assert_allclose(soft_errors(margins), expected, rtol=1e-12, atol=1e-12)


def test_a_universum_must_gain_in_both_errors_or_half_a_standard_error_in_the_soft_one():
    """Of two points, soft errors that change by -c and d: mean (d - c) / 2, error (d + c) / 2."""
    weight, plain, same = np.ones(2), np.zeros(2), np.zeros(2, dtype=bool)

    def used(soft, wrong=same, plain_wrong=same):
        margins = np.log(1 / np.asarray(soft) - 1) / 2  # the inverse of the soft error
        return Change.of((plain, margins), (plain_wrong, wrong), weight).is_gain

    assert used([0.19, 0.6])  # -0.105 against 0.5 * 0.205
    assert not used([0.21, 0.6])  # -0.095 against 0.5 * 0.195
    assert used([0.21, 0.6], plain_wrong=np.array([True, False]))  # one error fewer
    assert not used([0.21, 0.6], wrong=np.array([True, False]))
    assert not used([0.5, 0.5], plain_wrong=np.array([True, True]))  # the same soft error
    assert not used([0.4, 0.7], plain_wrong=np.array([True, True]))  # a larger one
    assert used([0.45, 0.45])  # all points gain alike: no doubt about it


def test_models_that_differ_by_the_noise_of_the_solver_are_equal():
    """The same optimum found on two ways: the smaller C, and no universum, as if it were exact."""
    noise = 4e-5
    cells = [(0, 1.0, 0, 0, 0.1, 0.1), (0, 10.0, 0, 0, 0.1 - noise, 0.1)]
    with_universum = [
        (0, C, weight, *rest) for (_, C, _, *rest), weight in zip(cells, (2, 1), strict=True)
    ]
    results = results_of(*cells, *with_universum)
    assert best_plain(results, "soft_error") == 0
    assert best_with_universum(results, "soft_error") == 2
    weight, right = np.ones(50), np.zeros(50, dtype=bool)
    margins = np.linspace(-1.0, 2.0, 50)
    assert not Change.of((margins, margins + noise), (right, right), weight).is_gain
    # What is more than noise decides as ever, and so do counts, however small their difference.
    results["soft_error"][[1, 3]] -= 1e-3
    assert best_plain(results, "soft_error") == 1
    assert best_with_universum(results, "soft_error") == 3
    results["criterion"][1] -= noise
    assert best_plain(results, "criterion") == 1
    assert Change.of((margins, margins + 1e-2), (right, right), weight).is_gain


def compared(plain, universum):
    """The comparison of two models with these margins at the points left out."""
    margins = [np.asarray(values, dtype=float) for values in (plain, universum)]
    rows = np.arange(len(margins[0]))
    wrong = [values <= 0 for values in margins]
    opinion = Opinion("error", margins, wrong, np.ones(len(rows)), rows, rows)
    params = [{"C": 1.0, "universum_weight": weight, "delta": 0.0} for weight in (0, 1)]
    return Comparison.of(opinion, [0, 1], params)


@pytest.mark.parametrize(
    ("plain", "universum", "reason"),
    [
        ([0.0, 0.0], [0.66, -0.2], "and the error falls as well: the universum is used."),
        ([1.0, 1.0], [2.0, 0.95], "more than half of that: the universum is used."),
        (
            [0.5, 0.5], [0.9, 0.3],
            "less than half of that, and the error does not fall: the universum is left out.",
        ),
        ([0.5, 0.5], [0.5, 0.5], "no more than the solver leaves open: the universum is left out."),
        ([0.5, 0.5], [0.4, 0.4], "standard error of 0.00: the universum is left out."),
    ],
)  # fmt: skip
def test_the_decision_gives_its_figures_and_its_reason(plain, universum, reason):
    found = compared(plain, universum)
    assert found.decision.endswith(reason)
    change, error = 100 * found.soft_difference, 100 * found.soft_standard_error
    assert f"changes by {change:+.2f} points, with a standard error of {error:.2f}" in (
        found.decision
    )
    assert found.decision in str(found)
    assert found.decision in found._repr_html_()
    assert rule.IN_WORDS in str(found)


def test_models_that_agree_everywhere_are_not_said_to_differ_by_nothing_for_certain():
    found = compared([0.5, 0.5, -1.0], [0.9, 0.4, -1.0])
    assert (found.difference, found.standard_error) == (0, 0)
    assert found.change == "the two models disagree on no point"
    assert "0.00 ± 0.00" not in str(found)
    assert "The two models disagree on no point." in str(found)
    other = compared([0.5, 0.5, -1.0], [0.9, 0.4, 1.0])
    assert other.change == (
        "the error changes by -33.33 points, with a standard error of 33.33: 1 gained, 0 lost"
    )


def test_a_comparison_of_an_earlier_version_is_read_without_what_it_does_not_have():
    found = compared([0.5, 0.5, -1.0], [0.9, 0.4, 1.0])
    earlier = object.__new__(Comparison)
    new = ("soft_difference", "soft_standard_error", "was_given")
    vars(earlier).update({k: v for k, v in vars(found).items() if k not in new})
    assert earlier.decision == (
        f"With the universum the soft error goes from {found.plain.soft_error:.2%} to "
        f"{found.universum.soft_error:.2%}: the universum is used."
    )
    assert earlier.change == found.change
    assert earlier.as_dict()["soft_difference"] is None


def test_the_words_on_the_soft_error_are_those_of_its_formula():
    values = soft_errors(np.array([0.0, 1.0, -1.0]))
    assert re.findall(r"0\.\d+", rule.IN_WORDS) == [f"{value:.2g}" for value in values]


def test_the_plot_of_a_comparison_is_a_figure_that_notebooks_show():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    found = compared([0.5, 0.5, -1.0], [0.9, 0.4, 1.0])
    before = plt.get_fignums()
    ax = found.plot()
    try:
        assert set(plt.get_fignums()) - set(before) == {ax.figure.number}
        assert plt.gcf() is ax.figure
        assert found.plot(ax=ax) is ax
        assert len(plt.get_fignums()) == len(before) + 1
    finally:
        plt.close(ax.figure)


@pytest.mark.parametrize("method", ["span", "span-2016"])
def test_spans_leave_the_last_word_to_the_estimate(method):
    search = make_search(criterion=method).fit(X, Y, universum=U)
    b = np.flatnonzero(search.results_["step"] == "b")
    delta = search.results_["delta"][b[search.results_["criterion"][b].argmin()]]
    finalists = make_search(
        gammas=[search.best_params_["gamma"]], deltas=[delta], criterion="loo-estimate"
    )
    finalists.Cs = [search.best_params_["C"]]
    expected = finalists.fit(X, Y, universum=U).comparison_
    found = search.comparison_
    assert found.criterion == expected.criterion == "estimated leave-one-out error"
    assert (found.difference, found.standard_error) == (
        expected.difference, expected.standard_error,
    )  # fmt: skip
    assert found.plain.error == expected.plain.error
    assert found.universum.error == expected.universum.error
    assert found.uses_universum == expected.uses_universum


@pytest.mark.parametrize("method", ["span", "span-2016"])
def test_a_span_is_never_shown_as_an_error(method):
    search = make_search(criterion=method).fit(X, Y, universum=U)
    results, comparison = search.results_, search.comparison_
    finalists = [comparison.plain.index, comparison.universum.index]
    others = np.setdiff1d(np.arange(len(results["C"])), finalists)
    assert np.isnan(results["error"][others]).all()
    assert np.isfinite(results["criterion"]).all()
    model = search.best_estimator_
    assert search.best_score_ == loo_error(model, X, Y, U, method="loo-estimate").error


def test_a_universum_made_of_the_training_points_is_not_judged_by_points_left_out():
    random = np.random.default_rng(5)
    y = np.arange(30) % 3
    points = random.normal(size=(3, 40))[y] + random.normal(size=(30, 40))
    averages = random_average(points, y, 50, random_state=0)
    void = UniversumSVCCV(kernel="linear", criterion=3).fit(points, y, universum=averages)
    assert void.comparison_.is_void
    assert not void.comparison_.uses_universum
    assert "made of the training points" in void.comparison_.decision
    foreign = averages + 0.01 * random.normal(size=averages.shape)
    search = UniversumSVCCV(kernel="linear", criterion=3).fit(points, y, universum=foreign)
    assert not search.comparison_.is_void
    sparse = void.fit(sp.csr_array(points), y, universum=sp.csr_array(averages))
    assert sparse.comparison_.is_void
    # As many points as features: all points are combinations of them, and nothing is known.
    assert not void.fit(X, Y, universum=U).comparison_.is_void


def random_labels(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """100 points in 50 dimensions with labels of ten classes that mean nothing, and a universum."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(100, 50))
    return X, random.permutation(np.arange(100) % 10), random.normal(size=(100, 50))


@pytest.mark.parametrize("criterion", ["span", "loo-estimate", 5])
def test_random_labels_are_called_random(criterion):
    X, y, _ = random_labels(0)
    search = UniversumSVCCV(kernel="linear", criterion=criterion).fit(X, y)
    assert search.best_score_ >= 0.8, "the truth is 0.9"
    if criterion == "span":
        assert search.results_["criterion"].min() < 0.5, "a span would say this"


def test_an_estimate_that_folds_contradict_is_not_shown():
    X, y, U = random_labels(10)
    search = UniversumSVCCV([100.0], kernel="linear", deltas=[0], universum_weights=["balanced"])
    search.fit(X, y, universum=U)
    model = UniversumSVC(100.0, kernel="linear").fit(X, y, universum=U)
    found = search.comparison_
    assert found.criterion == "5-fold cross-validation error"
    assert loo_error(model, X, y, U, method="loo-estimate").error < found.universum.error
    assert found.universum.error > 0.8
    assert search.best_score_ > 0.8


def assert_same_comparison(a: UniversumSVCCV, b: UniversumSVCCV) -> None:
    """Of fits that started elsewhere and end at a gap of TIGHT."""
    found, expected = a.comparison_, b.comparison_
    assert (found.difference, found.standard_error) == (
        expected.difference,
        expected.standard_error,
    )
    assert found.criterion == expected.criterion
    for one, other in ((found.plain, expected.plain), (found.universum, expected.universum)):
        assert (one.params, one.error) == (other.params, other.error)
        assert one.soft_error == pytest.approx(other.soft_error, abs=1e-6)


def test_spans_leave_the_last_word_to_folds_where_the_estimate_is_slow(monkeypatch):
    monkeypatch.setattr(steps, "DIRECT_LIMIT", 0)
    search = UniversumSVCCV(
        [1.0], gammas=[0.1], deltas=[0.1], universum_weights=["balanced"], tol=TIGHT,
        criterion="span",
    ).fit(X, Y, universum=U)  # fmt: skip
    by_folds = clone(search).set_params(criterion=5).fit(X, Y, universum=U)
    assert_same_comparison(search, by_folds)
    assert search.comparison_.criterion == "5-fold cross-validation error"
    few = np.r_[np.flatnonzero(Y < 2), 2, 5]  # only two points of class 2: two folds
    search.fit(X[few], Y[few], universum=U)
    by_folds.set_params(criterion=2).fit(X[few], Y[few], universum=U)
    assert_same_comparison(search, by_folds)


# ---------------------------------------------------------------------------------------------
# Beyond the Gram matrix


@pytest.mark.parametrize("kernel", ["linear", "rbf", "precomputed"])
def test_folds_of_many_points_are_fitted_without_a_gram_matrix(kernel, monkeypatch):
    """The same search, with and without the matrix, at a gap where their margins agree."""
    data, labels = (rbf_kernel(Z, gamma=0.3) if kernel == "precomputed" else Z), LABELS
    search = make_search(kernel=kernel, universum_label=-1, n_steps=3, tol=TIGHT)
    with_matrix = clone(search).fit(data, labels)
    monkeypatch.setattr(cv, "GRAM_LIMIT", 10)
    monkeypatch.setattr(choose, "GRAM_LIMIT", 10)

    def no_matrix(*_):
        raise AssertionError("a Gram matrix was asked for")

    monkeypatch.setattr(cv, "Grams", no_matrix)
    search.fit(data, labels)
    columns = ["step", "gamma", "C", "universum_weight", "delta", "criterion"]
    pd.testing.assert_frame_equal(table(search)[columns], table(with_matrix)[columns])
    np.testing.assert_allclose(search.left_out_margins_, with_matrix.left_out_margins_, atol=1e-4)
    assert search.comparison_.uses_universum == with_matrix.comparison_.uses_universum
    np.testing.assert_allclose(
        search.decision_function(data), with_matrix.decision_function(data), atol=1e-4
    )


@pytest.mark.usefixtures("two_blas_threads")
def test_folds_of_many_points_resume_and_do_not_depend_on_the_workers(monkeypatch, tmp_path):
    monkeypatch.setattr(cv, "GRAM_LIMIT", 10)
    first = make_search(memory=str(tmp_path)).fit(X, Y, universum=U)
    with joblib.parallel_config(backend="threading", n_jobs=2):
        second = make_search().fit(X, Y, universum=U)
    assert_identical(first, second)
    monkeypatch.setattr(run, "fit_cell", None)  # everything is there already
    assert_identical(make_search(memory=str(tmp_path)).fit(X, Y, universum=U), first)


@pytest.mark.parametrize("criterion", ["span", "loo-estimate", "loo"])
def test_named_criteria_are_refused_where_their_matrices_do_not_fit(criterion, monkeypatch):
    monkeypatch.setattr(cv, "GRAM_LIMIT", 10)
    search = make_search(criterion=criterion, cache_size=0.1)  # 64 points
    with pytest.raises(ValueError, match="up to 64 points do: use folds, such as criterion=5"):
        search.fit(X, Y, universum=U)
    assert make_search(criterion=3, cache_size=0.1).fit(X, Y, universum=U).best_score_ >= 0


# ---------------------------------------------------------------------------------------------
# The model


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_best_estimator_is_what_fitting_its_parameters_gives(kernel):
    search = make_search(kernel=kernel, tol=TIGHT, coef0=1.0).fit(X, Y, universum=U)
    best = search.best_estimator_
    again = UniversumSVC(kernel=kernel, coef0=1.0, tol=TIGHT, **search.best_params_)
    again.fit(X, Y, universum=U)
    assert best.get_params() == again.get_params()
    assert best.dual_gap_ <= TIGHT * best.objective_
    assert best.objective_ == pytest.approx(again.objective_, rel=2 * TIGHT)
    np.testing.assert_allclose(best.decision_function(X), again.decision_function(X), atol=1e-3)
    assert np.array_equal(search.predict(X), again.predict(X))
    assert search.score(X, Y) == again.score(X, Y)
    np.testing.assert_array_equal(search.projections(U), best.projections(U))
    np.testing.assert_array_equal(search.universum_score(U), best.universum_score(U))


def test_universum_in_any_form_is_the_same_search():
    array = make_search().fit(X, Y, universum=U)
    parts = make_search().fit(X, Y, universum=(U[:7], U[7:]))
    label = make_search(universum_label=-1).fit(Z, LABELS)
    sparse = make_search().fit(sp.csr_array(X), Y, universum=sp.csr_matrix(U))
    for other in (parts, label):
        assert_identical(array, other)
    assert table(sparse).error.tolist() == table(array).error.tolist()
    assert label.score(Z, LABELS) == array.score(X, Y)
    assert label.classes_.tolist() == [0, 1, 2]


def test_precomputed_kernel_is_the_same_search():
    direct = make_search(gammas=[0.3], tol=TIGHT).fit(X, Y, universum=U)
    search = make_search(kernel="precomputed", universum_label=-1, tol=TIGHT)
    search.fit(rbf_kernel(Z, gamma=0.3), LABELS)
    assert table(search).error.tolist() == table(direct).error.tolist()
    assert np.isnan(search.results_["gamma"]).all()
    np.testing.assert_allclose(
        search.decision_function(rbf_kernel(X, Z, gamma=0.3)),
        direct.decision_function(X),
        atol=1e-6,
    )


@pytest.mark.parametrize("criterion", ["span", "loo", 4])
def test_every_entry_of_a_gram_matrix_is_computed_once(criterion):
    computed = []

    def kernel(A, B):
        computed.append(len(A) * len(B))
        return rbf_kernel(A, B, gamma=0.3)

    UniversumSVCCV(CS, kernel=kernel, deltas=DELTAS, criterion=criterion).fit(X, Y, universum=U)
    # Once each, the mirror image of K_nU included: a function need not be symmetric.
    assert sum(computed) == (N + M) ** 2


@pytest.mark.parametrize(
    ("delta", "criterion"),
    [
        (0.1, "loo-estimate"),  # the most of these, by far
        (0.0, "loo-estimate"),  # where all labels of a universum point are free
        (0.1, "span"),
    ],
)
def test_memory_of_a_search(delta, criterion):
    """A quarter of 2 GB for half of 1000 + 1000 points of 10 classes: it grows with the square."""
    random = np.random.default_rng(0)
    y = np.arange(500) % 10
    X, universum = random.normal(size=(2, 500, 20))
    X[np.arange(500), y] += 2
    search = UniversumSVCCV([0.1, 10.0], deltas=[delta], criterion=criterion)
    tracemalloc.start()
    try:
        search.fit(X, y, universum=universum)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= 2e9 / 4, f"{peak / 1e6:.0f} MB"


def test_indefinite_kernels_are_named_once():
    with pytest.warns(UserWarning, match="not positive semi-definite") as warned:
        make_search(kernel="sigmoid", gammas=[1.0, 2.0]).fit(X, Y, universum=U)
    assert len(warned) == 1


@pytest.mark.filterwarnings("ignore:The solver stopped")  # says the final fit
def test_cells_that_did_not_converge_are_named():
    search = make_search(max_iter=1, tol=1e-14)
    with pytest.warns(ConvergenceWarning, match=r"of 8 cells did not reach tol=1e-14"):
        search.fit(X, Y, universum=U)
    assert not search.results_["converged"].all()


# ---------------------------------------------------------------------------------------------
# Whoever computes it


@pytest.fixture(scope="module")
def serial() -> UniversumSVCCV:
    with threadpool_limits(2, user_api="blas"):  # other processes have one
        return make_search(universum_weights=["balanced", 1.0]).fit(X, Y, universum=U)


@pytest.mark.parametrize("backend", ["threading", "loky", "multiprocessing"])
def test_backends_agree_to_the_last_digit(backend, serial):
    with joblib.parallel_config(backend=backend):
        assert_identical(clone(serial).set_params(n_jobs=2).fit(X, Y, universum=U), serial)


def test_blas_threads_do_not_matter(serial):
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            assert_identical(clone(serial).fit(X, Y, universum=U), serial)


def test_random_state_makes_a_search_reproducible():
    first, second = (
        make_search(random_state=np.random.RandomState(5)).fit(X, Y, universum=U) for _ in range(2)
    )
    assert_identical(first, second)
    assert isinstance(first.best_estimator_.random_state, int)


@pytest.mark.parametrize("n_jobs", [None, 2])
@pytest.mark.parametrize(
    ("criterion", "n_steps", "n_tasks"),
    [
        (4, 2, 33),  # 6 + 2 cells on 4 folds, and the final fit
        ("loo-estimate", 2, 16),  # a fit and a judgement of each cell
        ("span", 2, 18),  # and a second opinion on two of them
        ("loo-estimate", 3, 24),  # step (b) has 3 cells, step (c) 3 more
        ("loo-estimate", 1, 36),
    ],
)
def test_progress_counts_every_task_once(criterion, n_steps, n_tasks, n_jobs, monkeypatch, capsys):
    seen = []
    monkeypatch.setattr(_progress, "PATIENCE_S", 0.0)
    monkeypatch.setattr(_progress, "LOG_EVERY_S", 0.0)
    monkeypatch.setattr(
        _progress.Progress, "close", lambda self: seen.append((self.done, self.total))
    )
    with joblib.parallel_config(backend="threading"):
        make_search(criterion=criterion, n_steps=n_steps, verbose=1, n_jobs=n_jobs).fit(X, Y, U)
    assert seen == [(n_tasks, n_tasks)]
    shown = capsys.readouterr()
    assert f"Search: {n_tasks} of {n_tasks}" in shown.err
    assert shown.out == ""


def test_silent_by_default(monkeypatch, capsys):
    monkeypatch.setattr(_progress, "PATIENCE_S", 0.0)
    make_search().fit(X, Y, universum=U)
    assert capsys.readouterr() == ("", "")


# ---------------------------------------------------------------------------------------------
# Finished cells on disk


@pytest.fixture
def computed(monkeypatch) -> list:
    """The (C, delta) of every fit that is really computed; serial searches only."""
    calls = []

    def counted(gram, part, options, C, delta, start):
        calls.append((C, delta))
        return fit_cell(gram, part, options, C, delta, start)

    fit_cell = run.fit_cell
    monkeypatch.setattr(run, "fit_cell", counted)
    return calls


KILLED = """
    import os, signal, sys
    sys.path.insert(0, sys.argv[2])
    import test_cv
    from musvm.search import memory

    save, saved = memory.CellStore.save, []

    def save_and_die(self, key, arrays):
        save(self, key, arrays)
        saved.append(key)
        if len(saved) == 13:
            os.kill(os.getpid(), signal.SIGKILL)

    memory.CellStore.save = save_and_die
    test_cv.make_search(memory=sys.argv[1]).fit(test_cv.X, test_cv.Y, test_cv.U)
"""


def test_search_killed_half_way_computes_the_rest_and_agrees(tmp_path, computed):
    script = textwrap.dedent(KILLED)
    killed = subprocess.run([sys.executable, "-c", script, tmp_path, os.path.dirname(__file__)])
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.cell"))) == 13
    search = make_search(memory=tmp_path).fit(X, Y, universum=U)
    assert len(computed) == 33 - 13
    assert_identical(search, make_search().fit(X, Y, universum=U))


def test_finished_search_computes_nothing_again(tmp_path, computed):
    first = make_search(memory=tmp_path).fit(X, Y, universum=U)
    computed.clear()
    again = make_search(memory=str(tmp_path)).fit(X, Y, universum=U)
    assert computed == []
    assert_identical(first, again)
    assert np.array_equal(first.results_["seconds"], again.results_["seconds"])


def test_cells_of_a_shorter_grid_are_used_and_others_are_not(tmp_path, computed):
    shorter = UniversumSVCCV(CS[:2], gammas=GAMMAS, criterion=4, memory=tmp_path)
    shorter.fit(X, Y)
    computed.clear()
    shorter.set_params(Cs=CS).fit(X, Y)
    assert computed[:8] == [(CS[2], 0.0)] * 8
    assert len(computed) <= 9  # and the final fit, if its C is new
    for changed in (
        {"X": X + 1e-12},
        {"y": (Y + 1) % 3},
        {"sample_weight": np.r_[2.0, np.ones(N - 1)]},
    ):
        computed.clear()
        clone(shorter).fit(**{"X": X, "y": Y, **changed})
        assert len(computed) == 25
    for parameter in ({"tol": 1e-5}, {"max_iter": 99}, {"random_state": 1}, {"criterion": 5}):
        computed.clear()
        clone(shorter).set_params(**parameter).fit(X, Y)
        assert len(computed) > 24


DAMAGE = {
    "emptied": lambda content: b"",
    "cut off": lambda content: content[:-20],
    "one bit flipped": lambda content: content[:100] + bytes([content[100] ^ 1]) + content[101:],
    "replaced by a pickle": lambda content: pickle.dumps({"alpha": np.zeros(3)}),
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=list(DAMAGE))
def test_damaged_cell_is_computed_again_with_a_warning(damage, tmp_path, computed):
    first = make_search(memory=tmp_path).fit(X, Y, universum=U)
    path = sorted(tmp_path.glob("*.cell"))[5]
    path.write_bytes(damage(path.read_bytes()))
    computed.clear()
    with pytest.warns(UserWarning, match="cannot be used .* computed again") as warned:
        again = make_search(memory=tmp_path).fit(X, Y, universum=U)
    assert len(warned) == len(computed) == 1
    assert_identical(first, again)
    computed.clear()
    make_search(memory=tmp_path).fit(X, Y, universum=U)  # it was repaired
    assert computed == []


def test_cell_under_the_name_of_another_is_not_trusted(tmp_path, computed):
    first = make_search(memory=tmp_path).fit(X, Y, universum=U)
    one, other = sorted(tmp_path.glob("*.cell"))[:2]
    one.write_bytes(other.read_bytes())
    with pytest.warns(UserWarning, match="checksum"):
        again = make_search(memory=tmp_path).fit(X, Y, universum=U)
    assert_identical(first, again)


def test_cells_hold_no_pickles_and_are_never_loaded_as_such(tmp_path):
    store = memory.CellStore(tmp_path)
    store.save("key", {"alpha": np.array([{"a": 1}], dtype=object)})
    with pytest.warns(UserWarning, match="allow_pickle=False"):
        found = store.load("key")
    assert found is None


# ---------------------------------------------------------------------------------------------
# Inside scikit-learn


def test_pipeline_scales_the_universum_too():
    stretch = np.array([1.0, 10.0, 0.1, 1.0, 5.0])
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = Pipeline(
            [("scale", StandardScaler()), ("search", make_search())], transform_input=["universum"]
        ).fit(X * stretch, Y, universum=(U * stretch,))
    scaler = StandardScaler().fit(X * stretch)
    by_hand = make_search().fit(
        scaler.transform(X * stretch), Y, universum=scaler.transform(U * stretch)
    )
    assert_identical(pipe["search"], by_hand)


def test_cross_validation_of_a_search():
    outer = StratifiedKFold(3)
    scores = cross_val_score(make_search(), X, Y, cv=outer, params={"universum": (U,)})
    by_hand = [
        make_search().fit(X[train], Y[train], universum=U).score(X[test], Y[test])
        for train, test in outer.split(X, Y)
    ]
    assert scores.tolist() == by_hand


def test_copies():
    search = make_search().fit(X, Y, universum=U)
    again = pickle.loads(pickle.dumps(search))
    assert_identical(search, again)
    assert np.array_equal(again.decision_function(X), search.decision_function(X))
    assert not hasattr(clone(search), "results_")
    assert clone(search).get_params() == search.get_params()


def test_frames_keep_their_names():
    names = list("abcde")
    frame, universum = (pd.DataFrame(values, columns=names) for values in (X, U))
    labels = pd.Series(np.array(["cat", "dog", "eel"])[Y])
    search = make_search().fit(frame, labels, universum=universum)
    assert search.feature_names_in_.tolist() == names
    assert search.best_estimator_.feature_names_in_.tolist() == names
    assert search.classes_.tolist() == ["cat", "dog", "eel"]
    assert search.score(frame, labels) == search.best_estimator_.score(frame, labels)
    with pytest.raises(ValueError, match="feature names should match"):
        search.predict(frame[names[::-1]])


def test_binary_problems_have_one_decision_value():
    search = make_search().fit(X[Y < 2], Y[Y < 2], universum=U)
    assert search.decision_function(X).shape == (N,)


# ---------------------------------------------------------------------------------------------
# Refusals


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"Cs": []}, "Cs must hold at least one value"),
        ({"Cs": [1.0, -1.0]}, "Every value of Cs must be a float in the range"),
        ({"Cs": [np.nan]}, "Every value of Cs"),
        ({"Cs": 1.0}, "'Cs' parameter"),
        ({"gammas": "scale"}, "'gammas' parameter"),
        ({"gammas": ["scael"]}, "Every value of gammas"),
        ({"deltas": [-0.1]}, "Every value of deltas"),
        ({"universum_weights": ["even"]}, "Every value of universum_weights"),
        ({"criterion": "spam"}, "'criterion' parameter"),
        ({"criterion": 1}, "'criterion' parameter"),
        ({"kernel": "gauss"}, "'kernel' parameter"),
        ({"scoring": "acuracy"}, "'scoring' parameter"),
    ],
)
def test_senseless_parameters_are_refused(parameters, match):
    with pytest.raises(ValueError, match=match):
        UniversumSVCCV(**parameters).fit(X, Y, universum=U)


def test_split_without_a_class_is_refused():
    splits = [(np.flatnonzero(Y != 2), np.flatnonzero(Y == 2))]
    with pytest.raises(ValueError, match=r"no training points of class\(es\) \[2\]"):
        make_search(criterion=splits).fit(X, Y)


@pytest.mark.parametrize("seed", [2, 3, 9])
def test_estimates_are_those_of_the_optimum_whatever_the_tolerance(seed):
    """Left-out margins depend on which variables are free, and a small gap leaves others so."""
    rng = np.random.RandomState(seed)
    X, y = load_digits(return_X_y=True)
    classes = rng.choice(10, 4, replace=False)
    members = [rng.choice(np.flatnonzero(y == c), 10, replace=False) for c in classes]
    others = rng.choice(np.flatnonzero(~np.isin(y, classes)), 200, replace=False)
    train = np.concatenate(members)
    softly = [
        UniversumSVCCV(
            [1e-4, 1e-3], deltas=[0, 0.1], kernel="linear", universum_weights=[0.1], tol=tol
        )
        .fit(X[train], y[train], universum=X[others])
        .cv_results_["mean_test_soft_error"]
        for tol in (1e-4, 1e-9)
    ]
    np.testing.assert_allclose(softly[0], softly[1], rtol=0, atol=1e-5)
