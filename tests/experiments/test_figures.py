"""The pages on the paper's figures and on rejection, from made-up numbers and small data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from musvm.experiments import figures, rejection
from musvm.experiments.data import Partition

rng = np.random.default_rng(0)
RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_page_of_figures_counts_partitions_and_pairs_differences():
    numbers = np.zeros((1, 2, 3, len(figures.COLUMNS)))
    columns = list(figures.COLUMNS)
    numbers[0, :, :, columns.index("spread")] = [[0.5, 0.6, 0.7], [0.1, 0.2, 0.9]]
    numbers[0, :, :, columns.index("label_entropy")] = [[0.5] * 3, [0.8, 0.8, 0.2]]
    numbers[0, :, :, columns.index("error")] = [[0.1] * 3, [0.05, 0.1, 0.2]]
    page = figures.as_page(["sign"], numbers, ["FIGURE"])
    assert "smaller spread in 2, the more even labels in 2, the smaller test error in 1" in page
    assert "| sign, SVM | 0.00 | 0.00 | 0.60 |" in page
    change = np.array([-0.4, -0.4, 0.2])
    error = change.std(ddof=1) / np.sqrt(3)
    assert f"{change.mean():+.2f} ± {error:.2f}" in page
    assert "FIGURE" in page


def test_figures_in_the_documentation_are_small():
    files = sorted(RESULTS.glob("figure_*.png"))
    assert len(files) == 2
    assert all(file.stat().st_size < 150_000 for file in files)


# ---------------------------------------------------------------------------------------------
# Rejection


def draw(n: int, centres) -> np.ndarray:
    return np.repeat(np.asarray(centres, dtype=float), n, axis=0) + rng.normal(
        size=(n * len(centres), 2)
    )


CENTRES = [[0, 0], [6, 0], [0, 6]]
PART = Partition(
    X=draw(15, CENTRES),
    y=np.repeat([0, 1, 2], 15),
    X_test=draw(40, CENTRES),
    y_test=np.repeat([0, 1, 2], 40),
    universum=draw(30, [[6, 6]]),
    groups=None,
)


@pytest.mark.parametrize("estimator", [LogisticRegression(), SVC()])
def test_universum_as_a_class_is_never_predicted_and_scores_low(estimator):
    model = rejection.UniversumAsClass(estimator).fit(PART.X, PART.y, PART.universum)
    assert model.classes_.tolist() == [0, 1, 2]
    assert set(model.predict(PART.universum)) <= {0, 1, 2}
    assert np.mean(model.predict(PART.X_test) == PART.y_test) > 0.9
    own, foreign = model.universum_score(PART.X_test), model.universum_score(draw(50, [[6, 6]]))
    assert np.quantile(own, 0.1) > np.quantile(foreign, 0.9)


def test_judged_columns_follow_their_definitions():
    entry = rejection.Entry(LogisticRegression(), "predict_proba")
    foreign = draw(50, [[3, 3]])
    auroc, rejected, accuracy, accepted_cv, rejected_cv, overall = rejection.judge(
        entry, PART, foreign
    )
    rejecting = entry.fit(PART)
    own, other = rejecting.score_samples(PART.X_test), rejecting.score_samples(foreign)
    pairs = [(a > b) + 0.5 * (a == b) for a in own for b in other]
    assert auroc == pytest.approx(np.mean(pairs))
    threshold = np.sort(own)[::-1][round(0.95 * len(own)) - 1]  # 95 % are at least this
    assert rejected == pytest.approx(np.mean(other < threshold), abs=1 / len(other))
    assert accepted_cv == np.mean(rejecting.predict(PART.X_test) != rejection.REJECTED)
    assert rejected_cv == np.mean(rejecting.predict(foreign) == rejection.REJECTED)
    right = rejecting.estimator_.predict(PART.X_test) == PART.y_test
    assert overall == right.mean()
    assert accuracy == pytest.approx(right[own >= threshold].mean(), abs=0.02)


def test_page_of_rejection_compares_with_the_first():
    n_columns = len(rejection.COLUMNS)
    outcomes = {
        "UniversumSVC": np.full((4, n_columns), 90.0),
        "other": np.array([[88.0] * n_columns, [86.0] * n_columns] * 2),
    }
    page = rejection.as_page(outcomes, 100)
    assert "| UniversumSVC |" + " 90.0 |" * n_columns in page
    standard_error = np.std([2, 4, 2, 4], ddof=1) / 2
    assert "| other |" + f" +3.00 ± {standard_error:.2f} |" * n_columns in page
