"""`fit_intercept` and `universum_sample_weight`, each against the same written out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import LinearSVC

import musvm
from musvm import UniversumSVC, UniversumSVCCV, loo_error

rng = np.random.default_rng(0)
N, M = 60, 25
SHIFT = np.array([3.0, 0, 0, 0])
Y = np.arange(N) % 3
X = (1.5 * rng.normal(size=(3, 4)))[Y] + rng.normal(size=(N, 4)) + SHIFT
U = rng.normal(size=(M, 4)) + SHIFT
NEW = rng.normal(size=(20, 4)) + 0.7 * SHIFT
Z, LABELS = np.vstack([X, U]), np.r_[Y, np.full(M, -1)]
EXACT = {"C": 0.5, "delta": 0.1, "tol": 1e-8}


def with_ones(points):
    return np.column_stack([points, np.ones(len(points))])


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("solver", ["gram", "working-set", "linear"])
def test_linear_kernel_is_a_column_of_ones(solver, form, loss):
    options = EXACT | {"tol": 1e-6, "kernel": "linear", "solver": solver, "universum_loss": loss}
    options["max_iter"] = 100_000
    clf = UniversumSVC(fit_intercept=True, **options).fit(form(X), Y, universum=form(U))
    column = UniversumSVC(**options).fit(with_ones(X), Y, universum=with_ones(U))
    # Both are within their gaps of one optimum.
    assert clf.objective_ == pytest.approx(column.objective_, rel=2e-6)
    np.testing.assert_allclose(
        clf.decision_function(form(NEW)), column.decision_function(with_ones(NEW)), atol=5e-3
    )
    np.testing.assert_allclose(clf.intercept_, column.coef_[:, -1], atol=5e-3)
    np.testing.assert_allclose(
        clf.decision_function(NEW), NEW @ clf.coef_.T + clf.intercept_, rtol=0, atol=1e-12
    )
    assert np.abs(clf.intercept_).max() > 0.05


@pytest.mark.parametrize("solver", ["gram", "working-set"])
def test_rbf_kernel_is_one_more(solver):
    clf = UniversumSVC(gamma=0.2, fit_intercept=True, solver=solver, **EXACT)
    clf.fit(X, Y, universum=U)
    matrix = UniversumSVC(kernel="precomputed", universum_label=-1, **EXACT)
    matrix.fit(rbf_kernel(Z, gamma=0.2) + 1, LABELS)
    assert clf.objective_ == pytest.approx(matrix.objective_, rel=2e-8)
    np.testing.assert_allclose(
        clf.decision_function(NEW),
        matrix.decision_function(rbf_kernel(NEW, Z, gamma=0.2) + 1),
        atol=1e-3,
    )
    np.testing.assert_allclose(clf.intercept_, clf.dual_coef_.sum(axis=1), atol=1e-14)


def test_is_the_intercept_of_liblinear():
    options = {"multi_class": "crammer_singer", "tol": 1e-10, "max_iter": 10**6, "random_state": 0}
    theirs = LinearSVC(C=0.5, intercept_scaling=1, **options).fit(X, Y)
    ours = UniversumSVC(0.5, kernel="linear", fit_intercept=True, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-4)


def test_two_classes_have_one_intercept():
    two = Y < 2
    clf = UniversumSVC(kernel="linear", fit_intercept=True).fit(X[two], Y[two], universum=U)
    assert clf.intercept_.shape == (1,)
    np.testing.assert_allclose(
        clf.decision_function(NEW), (NEW @ clf.coef_.T + clf.intercept_).ravel(), atol=1e-12
    )


def test_there_is_none_by_default():
    assert UniversumSVC().fit(X, Y).intercept_.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_files_and_tensors_have_the_intercept(kernel, tmp_path):
    clf = UniversumSVC(kernel=kernel, gamma=0.2, fit_intercept=True).fit(X, Y, universum=U)
    expected = clf.decision_function(NEW)
    musvm.save(clf, tmp_path / "model.skops")
    loaded = musvm.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(loaded.decision_function(NEW), expected)
    torch = pytest.importorskip("torch")
    on_tensor = clf.decision_function(torch.as_tensor(NEW))
    np.testing.assert_allclose(on_tensor.numpy(), expected, atol=1e-12)
    fitted_there = UniversumSVC(kernel=kernel, gamma=0.2, fit_intercept=True)
    fitted_there.set_params(solver="working-set", tol=1e-6)
    fitted_there.fit(torch.as_tensor(X), torch.as_tensor(Y), universum=torch.as_tensor(U))
    assert fitted_there.objective_ == pytest.approx(clf.objective_, rel=2e-4)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_onnx_graphs_have_the_intercept(kernel, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    clf = UniversumSVC(kernel=kernel, gamma=0.2, fit_intercept=True).fit(X, Y, universum=U)
    bare = UniversumSVC(kernel=kernel, gamma=0.2).fit(X, Y, universum=U)
    values = []
    for model in (clf, bare):
        graph = musvm.to_onnx(model)
        session = onnxruntime.InferenceSession(graph.SerializeToString())
        name = session.get_inputs()[0].name
        found = session.run(None, {name: NEW})
        values.append(next(a for a in found if np.shape(a) == (len(NEW), 3)))
    np.testing.assert_allclose(values[0], clf.decision_function(NEW), atol=1e-10)
    assert not np.allclose(values[0], values[1], atol=1e-3)


def test_leave_one_out_sees_the_intercept():
    clf = UniversumSVC(gamma=0.2, fit_intercept=True, **EXACT).fit(X, Y, universum=U)
    matrix = UniversumSVC(kernel="precomputed", universum_label=-1, **EXACT)
    K = rbf_kernel(Z, gamma=0.2) + 1
    matrix.fit(K, LABELS)
    ours = loo_error(clf, X, Y, universum=U, method="loo-estimate")
    theirs = loo_error(matrix, K, LABELS, method="loo-estimate")
    np.testing.assert_allclose(ours.decision_values, theirs.decision_values, atol=1e-2)
    assert ours.error == theirs.error


def test_precomputed_kernel_says_what_to_do():
    with pytest.raises(ValueError, match="with 1 added to every entry"):
        UniversumSVC(kernel="precomputed", fit_intercept=True).fit(X @ X.T, Y)


# ---------------------------------------------------------------------------------------------
# Weights of universum points

WEIGHT = np.arange(M) % 3
REPEATED = np.repeat(U, WEIGHT, axis=0)


@pytest.mark.parametrize("weight", ["balanced", 0.3])
def test_weights_are_repetitions(weight):
    clf = UniversumSVC(delta=0.1, universum_weight=weight)
    clf.fit(X, Y, universum=U, universum_sample_weight=WEIGHT)
    again = UniversumSVC(delta=0.1, universum_weight=weight).fit(X, Y, universum=REPEATED)
    assert clf.objective_ == again.objective_
    np.testing.assert_array_equal(clf.predict(NEW), again.predict(NEW))
    assert not np.isin(clf.universum_support_, np.flatnonzero(WEIGHT == 0)).any()
    assert clf.objective_ != UniversumSVC(delta=0.1).fit(X, Y, universum=U).objective_


def test_weights_of_several_parts():
    whole = UniversumSVC().fit(X, Y, universum=U, universum_sample_weight=WEIGHT)
    parts = UniversumSVC().fit(
        X, Y, universum=(U[:9], U[9:]), universum_sample_weight=(WEIGHT[:9], WEIGHT[9:])
    )
    assert whole.objective_ == parts.objective_
    assert (
        UniversumSVC().fit(X, Y, universum=U, universum_sample_weight=np.zeros(M)).objective_
        == UniversumSVC().fit(X, Y).objective_
    )


def test_the_search_weighs_as_well():
    search = UniversumSVCCV([0.1, 1.0], deltas=[0, 0.1])
    search.fit(X, Y, universum=U, universum_sample_weight=WEIGHT)
    again = UniversumSVCCV([0.1, 1.0], deltas=[0, 0.1]).fit(X, Y, universum=REPEATED)
    assert search.best_params_ == again.best_params_
    assert search.best_score_ == again.best_score_
    assert search.best_estimator_.objective_ == again.best_estimator_.objective_


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.ones(M - 1), "24 entries, but universum has 25 rows"),
        (-np.ones(M), "egative"),
        (np.full(M, np.nan), "NaN"),
    ],
)
def test_wrong_weights_are_refused(weight, message):
    with pytest.raises(ValueError, match=message):
        UniversumSVC().fit(X, Y, universum=U, universum_sample_weight=weight)


def test_rows_marked_in_y_are_weighted_by_sample_weight():
    with pytest.raises(ValueError, match="are weighted by sample_weight"):
        UniversumSVC(universum_label=-1).fit(Z, LABELS, universum_sample_weight=np.ones(M))
