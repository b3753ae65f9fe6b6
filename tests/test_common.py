"""scikit-learn's own checks of an estimator, none of them excused."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from musvm import UniversumSVC, UniversumSVCCV

ESTIMATORS = [
    UniversumSVC(),
    UniversumSVC(
        C=10.0,
        gamma=0.01,
        class_weight="balanced",
        delta=0.1,
        universum_loss="max",
        universum_weight=0.5,
        universum_label=99,
        tol=1e-6,
        random_state=3,
    ),
    UniversumSVCCV(),
    UniversumSVCCV(
        [0.1, 10.0],
        gammas=[0.01],
        criterion="loo-estimate",
        n_steps=1,
        universum_label=99,
        random_state=3,
    ),
]


# The checks know nothing of a universum.
@pytest.mark.filterwarnings("ignore:No row of y has universum_label=99:UserWarning")
@parametrize_with_checks(ESTIMATORS)
def test_sklearn_checks(estimator, check):
    check(estimator)
