"""`loo_error` on a fitted estimator: against fitting it n times, and on the data it was fitted on.

The oracle fits a `UniversumSVC` from scratch without each row. Class weights, C*/C and gamma are
numbers here: what is derived from the data would be derived again without the row.
"""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC

from musvm import UniversumSVC, UniversumSVCCV, _progress, loo_error
from musvm.loo.evaluate import METHODS

N, M, D = 36, 20, 6
rng = np.random.default_rng(5)
Y = np.array(["left", "right", "up"])[np.arange(N) % 3]
CENTRES = dict(zip(["left", "right", "up"], 1.1 * rng.normal(size=(3, D)), strict=True))
X = np.array([CENTRES[label] for label in Y]) + rng.normal(size=(N, D))
U = rng.normal(size=(M, D))
TIE = 1e-5  # decision values are known to about this at the gap of the oracle
WEIGHT = rng.choice([0.5, 1.0, 2.0, 3.0], size=N)


def make_model(**parameters) -> UniversumSVC:
    return UniversumSVC(
        **{"C": 2.0, "gamma": 0.1, "universum_weight": 0.3, "delta": 0.05, **parameters}
    )


def by_fitting_n_times(model, X, y, universum=None, weight=None, is_training=None):
    """Labels and decision values of every training row by a model that has not seen it."""
    predictions, values = [], []
    for t in np.flatnonzero(np.ones(len(y), dtype=bool) if is_training is None else is_training):
        kept = np.delete(np.arange(len(y)), t)
        precomputed = model.kernel == "precomputed"
        without = clone(model).set_params(tol=1e-8)
        without.fit(
            X[np.ix_(kept, kept)] if precomputed else X[kept],
            y[kept],
            universum,
            None if weight is None else weight[kept],
        )
        row = X[np.ix_([t], kept)] if precomputed else X[[t]]
        predictions.append(without.predict(row)[0])
        values.append(without.decision_function(row)[0])
    return np.array(predictions), np.array(values)


def differences(values: np.ndarray) -> np.ndarray:
    """The decision values less their mean, which no model determines."""
    return values - values.mean(axis=1, keepdims=True) if values.ndim == 2 else values


def leads(values: np.ndarray) -> np.ndarray:
    """How far the decision is from a tie."""
    if values.ndim == 1:
        return np.abs(values)
    ordered = np.sort(values, axis=1)
    return ordered[:, -1] - ordered[:, -2]


def assert_exact(model, X, y, universum=None, weight=None, is_training=None) -> None:
    model.fit(X, y, universum, weight)
    result = loo_error(model, X, y, universum, method="loo")
    predictions, values = by_fitting_n_times(model, X, y, universum, weight, is_training)
    own = y if is_training is None else y[is_training]
    tied = leads(values) <= TIE
    assert tied.mean() <= 0.05
    assert np.all(result.certified | tied), "only ties may stay uncertified"
    assert np.array_equal(result.predictions[~tied], predictions[~tied])
    assert abs(result.error - np.mean(predictions != own)) <= tied.mean()
    away = np.abs(differences(result.decision_values) - differences(values))
    away = away.max(axis=1) if away.ndim == 2 else away
    assert np.all(away <= result.radius + 1e-4), "farther off than it says"


# ---------------------------------------------------------------------------------------------
# Fitting n times


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.2])
@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_exact_for_kernels_and_losses(kernel, delta, loss):
    model = make_model(kernel=kernel, coef0=1.0, degree=2, delta=delta, universum_loss=loss)
    assert_exact(model, X, Y, U)


def test_exact_without_universum():
    assert_exact(make_model(), X, Y)


def test_exact_for_two_classes():
    two = Y != "up"
    assert_exact(make_model(), X[two], Y[two], U)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_exact_with_sample_and_class_weights(loss):
    """A row is left out with all its weight."""
    class_weight = {"left": 1.0, "right": 0.5, "up": 2.0}
    assert_exact(make_model(universum_loss=loss, class_weight=class_weight), X, Y, U, WEIGHT)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_exact_with_copies_of_rows(loss):
    """Of equal rows one is left out and the others stay; one copy has another label."""
    rows = np.r_[np.arange(N), 0, 0, 1, 5, 7]
    y = Y[rows]
    y[-1] = "left" if Y[7] != "left" else "right"
    universum = np.vstack([U, U[:4], X[:2]])
    assert_exact(make_model(universum_loss=loss), X[rows], y, universum)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_exact_with_fewer_dimensions_than_support_vectors(C):
    """In two dimensions the kernel matrix has rank 2 and most support vectors are redundant."""
    iris, y = load_iris(return_X_y=True)
    rows = np.arange(0, 150, 5)
    Z = iris[rows][:, 2:] - iris[:, 2:].mean(axis=0)
    model = make_model(C=C, kernel="linear")
    model.fit(Z, y[rows], Z[::2] + 0.1)
    assert len(model.support_) > 2
    assert_exact(model, Z, y[rows], Z[::2] + 0.1)


@pytest.mark.parametrize("loss", ["sum", "max"])
def test_exact_with_the_universum_as_a_label(loss):
    Z, y = np.vstack([U[:8], X, U[8:]]), np.r_[["none"] * 8, Y, ["none"] * (M - 8)]
    model = make_model(universum_label="none", universum_loss=loss)
    assert_exact(model, Z, y, is_training=y != "none")


def test_exact_with_a_precomputed_kernel_and_weights():
    Z, y = np.vstack([X, U]), np.r_[Y, ["none"] * M]
    model = make_model(kernel="precomputed", universum_label="none")
    assert_exact(model, rbf_kernel(Z, gamma=0.1), y, None, np.r_[WEIGHT, np.ones(M)], y != "none")


def test_exact_on_digits():
    Z, target = load_digits(n_class=6, return_X_y=True)
    Z = Z[:90] / 16.0
    in_class = target[:90] < 4
    model = make_model(gamma=0.05)
    assert_exact(model, Z[in_class], target[:90][in_class], Z[~in_class])


# ---------------------------------------------------------------------------------------------
# The same data in other forms


def assert_same(found, expected) -> None:
    assert found.error == expected.error
    assert np.array_equal(found.types, expected.types)
    assert found.two_active_share == expected.two_active_share
    np.testing.assert_allclose(found.margins, expected.margins, atol=1e-6)
    assert (found.predictions is None) == (expected.predictions is None)
    if expected.predictions is not None:
        assert np.array_equal(found.predictions, expected.predictions)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("loss", ["sum", "max"])
def test_every_form_of_the_data_gives_the_same(loss, method):
    """Universum as an argument, in parts, as a label; dense, sparse, and as a kernel matrix."""
    settings = {"tol": 1e-10, "universum_loss": loss}
    expected = loo_error(make_model(**settings).fit(X, Y, U), X, Y, U, method=method)
    parts = (U[:7], U[7:])
    found = loo_error(make_model(**settings).fit(X, Y, parts), X, Y, parts, method=method)
    assert_same(found, expected)

    Z, y = np.vstack([X, U]), np.r_[Y, ["none"] * M]
    model = make_model(universum_label="none", **settings).fit(Z, y)
    assert_same(loo_error(model, Z, y, method=method), expected)

    sparse = sp.csr_matrix(X), sp.csr_matrix(U)
    model = make_model(**settings).fit(sparse[0], Y, sparse[1])
    assert_same(loo_error(model, sparse[0], Y, sparse[1], method=method), expected)

    gram = rbf_kernel(Z, gamma=0.1)
    model = make_model(kernel="precomputed", universum_label="none", **settings).fit(gram, y)
    assert_same(loo_error(model, gram, y, method=method), expected)


@pytest.mark.parametrize("method", METHODS)
def test_order_of_the_rows(method):
    """Results are in the order of X, universum rows skipped; the types of those come last."""
    order = np.random.default_rng(0).permutation(N)
    expected = loo_error(make_model(tol=1e-10).fit(X, Y, U), X, Y, U, method=method)
    model = make_model(tol=1e-10).fit(X[order], Y[order], U)
    found = loo_error(model, X[order], Y[order], U, method=method)
    np.testing.assert_allclose(found.margins, expected.margins[order], atol=1e-6)
    assert np.array_equal(found.types[:N], expected.types[:N][order])
    assert np.array_equal(found.types[N:], expected.types[N:])


@pytest.mark.parametrize("method", METHODS)
def test_a_row_of_weight_zero_counts_for_nothing(method):
    weight = np.ones(N)
    weight[[3, 20]] = 0.0
    used = weight > 0
    model = make_model(tol=1e-10).fit(X, Y, U, weight)
    found = loo_error(model, X, Y, U, method=method)
    small = make_model(tol=1e-10).fit(X[used], Y[used], U)
    expected = loo_error(small, X[used], Y[used], U, method=method)
    assert found.error == expected.error
    np.testing.assert_allclose(found.margins[used], expected.margins, atol=1e-6)
    own = [list(model.classes_).index(label) for label in Y[~used]]
    np.testing.assert_allclose(found.margins[~used], model.projections(X[~used])[[0, 1], own])
    assert found.types[:N][~used].tolist() == [0, 0]
    if found.predictions is not None:
        assert np.array_equal(found.predictions[~used], model.predict(X[~used]))


def test_a_copy_is_not_missed_but_a_weight_is():
    """Two equal rows vouch for each other; the same row with weight 2 is left out as a whole."""
    lonely = np.zeros((1, D))
    lonely[0, 0] = 30.0
    Z, y = np.vstack([X, lonely, lonely]), np.r_[Y, ["up", "up"]]
    twice = loo_error(make_model().fit(Z, y, U), Z, y, U, method="loo")
    assert twice.predictions[-2:].tolist() == ["up", "up"]
    # Far from all others under this kernel, so without it nothing is known about its place.
    weight = np.r_[np.ones(N), 2.0]
    model = make_model().fit(Z[:-1], y[:-1], U, weight)
    once = loo_error(model, Z[:-1], y[:-1], U, method="loo")
    assert abs(once.margins[-1]) <= 1e-8
    assert twice.margins[-1] > 0.5


# ---------------------------------------------------------------------------------------------
# Other data


def changed(array: np.ndarray) -> np.ndarray:
    """One entry moved by one unit in the last place."""
    array = array.copy()
    array[4, 2] = np.nextafter(array[4, 2], np.inf)
    return array


def swapped(array: np.ndarray) -> np.ndarray:
    """The first two rows, which have different labels, change places."""
    return array[np.r_[1, 0, 2 : len(array)]]


OTHERS = {
    "X changed": (changed(X), Y, U),
    "X of another order": (swapped(X), Y, U),
    "X and y of another order": (swapped(X), swapped(Y), U),
    "fewer rows": (X[:-1], Y[:-1], U),
    "more rows": (np.vstack([X, X[:1]]), np.r_[Y, Y[:1]], U),
    "y changed": (X, np.r_[Y[1:2], Y[1:]], U),
    "y of another order": (X, swapped(Y), U),
    "y with other names": (X, np.char.upper(Y), U),
    "universum changed": (X, Y, changed(U)),
    "universum of another order": (X, Y, swapped(U)),
    "universum cut": (X, Y, U[:-1]),
    "universum forgotten": (X, Y, None),
    "universum among the training rows": (np.vstack([X, U]), np.r_[Y, np.resize(Y, M)], None),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", OTHERS)
def test_other_data_is_refused(name, method):
    model = make_model().fit(X, Y, U)
    with pytest.raises(ValueError, match="fitted on"):
        loo_error(model, *OTHERS[name], method=method)


def test_a_universum_is_refused_where_there_was_none():
    with pytest.raises(ValueError, match="fitted on"):
        loo_error(make_model().fit(X, Y), X, Y, U)


def test_another_kernel_matrix_is_refused():
    gram = rbf_kernel(X, gamma=0.1)
    model = make_model(kernel="precomputed").fit(gram, Y)
    with pytest.raises(ValueError, match="fitted on"):
        loo_error(model, rbf_kernel(X, gamma=0.2), Y)


def test_another_universum_label_is_refused():
    Z, y = np.vstack([X, U]), np.r_[Y, ["none"] * M]
    model = make_model(universum_label="none").fit(Z, y)
    with pytest.raises(ValueError, match="fitted on"):
        loo_error(model, Z, np.where(y == "up", "none", np.where(y == "none", "up", y)))


def test_other_features_are_refused():
    with pytest.raises(ValueError, match="features"):
        loo_error(make_model().fit(X, Y, U), X[:, :-1], Y, U[:, :-1])


@pytest.mark.parametrize("changes", [{"delta": 0.5}, {"kernel": "linear"}])
def test_parameters_set_after_the_fit_are_refused(changes):
    model = make_model().fit(X, Y, U).set_params(**changes)
    with pytest.raises(ValueError, match="after it was fitted"):
        loo_error(model, X, Y, U)


def test_parameters_that_the_fit_has_settled_do_not_matter():
    model = make_model().fit(X, Y, U)
    expected = loo_error(model, X, Y, U)
    assert_same(loo_error(model.set_params(C=3.0, gamma=0.2), X, Y, U), expected)


def test_what_is_no_fitted_model_is_refused():
    with pytest.raises(NotFittedError):
        loo_error(make_model(), X, Y, U)
    for other in (SVC().fit(X, Y), make_pipeline(make_model()).fit(X, Y)):
        with pytest.raises(TypeError, match="UniversumSVC"):
            loo_error(other, X, Y)
    with pytest.raises(ValueError, match="method must be one of"):
        loo_error(make_model().fit(X, Y), X, Y, method="jackknife")


# ---------------------------------------------------------------------------------------------
# The rest of the result


def test_a_search_stands_for_its_model():
    search = UniversumSVCCV([0.1, 1.0], gammas=[0.1]).fit(X, Y, U)
    found = loo_error(search, X, Y, U)
    assert found.error == loo_error(search.best_estimator_, X, Y, U).error
    # The error that a search shows is an estimate, never a bound.
    assert loo_error(search, X, Y, U, method="loo-estimate").error == search.best_score_


def test_what_the_exact_method_says_of_itself():
    model = make_model(C=1.0).fit(X, Y, U)
    exact, span = (loo_error(model, X, Y, U, method=m) for m in ("loo", "span"))
    assert 0 < exact.n_without_resolve <= N
    assert 0.0 <= exact.types_kept_share <= 1.0
    assert exact.radius.shape == exact.certified.shape == (N,)
    assert (span.radius, span.certified, span.n_without_resolve) == (None, None, None)
    assert "error" in repr(exact)


def test_progress_is_shown_if_asked_for(capsys, monkeypatch):
    monkeypatch.setattr(_progress, "PATIENCE_S", 0.0)
    model = make_model().fit(X, Y, U)
    loo_error(model, X, Y, U, method="loo")
    assert capsys.readouterr() == ("", "")
    loo_error(model, X, Y, U, method="loo", verbose=1)
    assert f"Leaving out: {N} of {N}," in capsys.readouterr().err


def test_exact_decision_values_are_as_close_as_asked_for():
    model = make_model().fit(X, Y, universum=U)
    _, values = by_fitting_n_times(model, X, Y, U)
    usual = loo_error(model, X, Y, U, method="loo")
    close = loo_error(model, X, Y, U, method="loo", max_radius=1e-3)
    assert close.radius.max() <= 1e-3 < usual.radius.max()
    assert close.certified.all()
    np.testing.assert_array_equal(close.predictions, usual.predictions)
    for result in (usual, close):
        off = np.ptp(result.decision_values - values, axis=1)
        assert np.all(off <= result.radius + TIE)
