"""Bad input is refused in a sentence that says what is wrong; odd input works.

"Works" means here: the fit is certified (or, where it says so, warns), every number is finite,
and nothing leaks a NumPy warning (pytest turns warnings into errors).
"""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.utils._param_validation import InvalidParameterError

from musvm import UniversumSVC

rng = np.random.default_rng(0)
Y = np.arange(30) % 3
X = (2 * rng.normal(size=(3, 4)))[Y] + rng.normal(size=(30, 4))
U = rng.normal(size=(12, 4))


def assert_sound(clf: UniversumSVC, points=X) -> None:
    """A certified fit with finite decision values that are usable."""
    assert clf.converged_
    assert clf.dual_gap_ >= -1e-12 * abs(clf.objective_)
    F = clf.decision_function(points)
    assert np.isfinite(F).all()
    assert set(clf.predict(points)) <= set(clf.classes_)
    np.testing.assert_allclose(clf.dual_coef_.sum(axis=0), 0, atol=1e-9 * clf.model_.caps.max())


def refusal(*args, parameters=None, **kwargs) -> str:
    """The words with which these data, or parameters, are refused."""
    try:
        UniversumSVC(**(parameters or {})).fit(*args, **kwargs)
    except ValueError as error:
        return str(error)
    return "They are not refused."


# ---------------------------------------------------------------------------------------------
# NaN and infinities, wrong shapes


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_values_that_are_not_finite(value, make):
    bad, bad_universum, weight = X.copy(), U.copy(), np.ones(30)
    bad[3, 1] = bad_universum[2, 0] = weight[5] = value
    kind = "NaN" if np.isnan(value) else "infinity"
    assert f"Input X contains {kind}" in refusal(make(bad), Y)
    assert f"Input universum contains {kind}" in refusal(X, Y, universum=make(bad_universum))
    assert f"Input universum contains {kind}" in refusal(X, Y, universum=(U, make(bad_universum)))
    assert f"Input sample_weight contains {kind}" in refusal(X, Y, sample_weight=weight)
    labels = Y.astype(float)
    labels[4] = value
    assert f"Input y contains {kind}" in refusal(X, labels)
    clf = UniversumSVC().fit(X, Y)
    for method in ("predict", "decision_function", "projections", "universum_score"):
        with pytest.raises(ValueError, match=f"Input X contains {kind}"):
            getattr(clf, method)(make(bad))


def test_wrong_shapes():
    assert "inconsistent numbers of samples" in refusal(X, Y[:-1])
    assert "Expected 2D array, got 1D array" in refusal(X[0], Y)
    assert "y should be a 1d array" in refusal(X, np.column_stack([Y, Y]))
    assert "sample_weight.shape == (29,), expected (30,)" in refusal(
        X, Y, sample_weight=np.ones(29)
    )
    assert "minimum of 1 is required" in refusal(np.empty((0, 4)), [])


@pytest.mark.parametrize(
    ("universum", "message"),
    [
        (U[:, :3], "universum has 3 features, but X has 4."),
        (np.hstack([U, U]), "universum has 8 features, but X has 4."),
        ((U, U[:, :3]), "universum has 3 features, but X has 4."),
        (sp.csr_array(U[:, :3]), "universum has 3 features, but X has 4."),
        (U[0], "universum must be an array of shape (m, n_features)"),
        (U[:, :, None], "universum must be an array of shape (m, n_features)"),
        ((U, U[0]), "Part 1 of universum has 1 dimension"),
        (3.0, "universum must be an array of shape (m, n_features), got a scalar."),
        ("points", "universum must be an array of shape (m, n_features), got a scalar."),
        ({"a": [[0.0]]}, "universum must be an array of shape (m, n_features), got a dict."),
    ],
)
def test_universum_of_the_wrong_shape(universum, message):
    assert message in refusal(X, Y, universum=universum)


def test_universum_with_other_columns():
    frame = pd.DataFrame(X, columns=list("abcd"))
    other = pd.DataFrame(U, columns=list("abce"))
    message = "names of the columns of X, in the same order: column 3 is 'd' in X, but 'e' in univ"
    assert message in refusal(frame, Y, universum=other)
    swapped = pd.DataFrame(U, columns=list("bacd"))
    assert "in the same order" in refusal(frame, Y, universum=swapped)
    UniversumSVC().fit(frame, Y, universum=U)
    with pytest.warns(UserWarning, match="universum has names of columns and X has none"):
        UniversumSVC().fit(X, Y, universum=swapped)


def test_prediction_on_another_width():
    clf = UniversumSVC().fit(X, Y, universum=U)
    with pytest.raises(ValueError, match="X has 3 features, but UniversumSVC is expecting 4"):
        clf.predict(X[:, :3])


def test_prediction_before_the_fit():
    for method in ("predict", "decision_function", "projections", "universum_score"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(UniversumSVC(), method)(X)


# ---------------------------------------------------------------------------------------------
# Parameters


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("C", 0.0),
        ("C", -1.0),
        ("C", np.inf),
        ("kernel", "gaussian"),
        ("gamma", -1.0),
        ("gamma", "wide"),
        ("degree", -1),
        ("degree", 2.5),
        ("coef0", np.inf),
        ("delta", -0.1),
        ("universum_weight", -0.5),
        ("universum_weight", "equal"),
        ("universum_loss", "mean"),
        ("universum_label", [1, 2]),
        ("class_weight", "unbalanced"),
        ("tol", 0.0),
        ("max_iter", 0),
        ("random_state", "seed"),
        ("verbose", -1),
    ],
)
def test_parameters_out_of_range(name, value):
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of UniversumSVC must"):
        UniversumSVC(**{name: value}).fit(X, Y)


# ---------------------------------------------------------------------------------------------
# Labels and classes


def test_one_class():
    assert "number of classes has to be greater than one; got 1 class" in refusal(X, np.zeros(30))
    marked = np.where(Y == 2, -1, 0)
    assert "got 1 class" in refusal(X, marked, parameters={"universum_label": -1})
    everything = np.full(30, -1)
    assert "only the universum label" in refusal(X, everything, parameters={"universum_label": -1})


def test_continuous_labels():
    assert "Unknown label type" in refusal(X, X[:, 0])


def test_class_of_one_sample():
    labels = np.r_[[7], Y[1:]]
    clf = UniversumSVC(C=10).fit(X, labels, universum=U)
    assert_sound(clf)
    assert clf.n_support_[3] == 1
    assert clf.predict(X[:1]) == 7


@pytest.mark.parametrize(
    "names",
    [
        np.array(["b", "a", "c"]),
        np.array(["b", "a", "c"], dtype=object),
        np.array([2, -1, 7], dtype=object),
        np.array([2.0, -1.0, 7.0], dtype=object),
        np.array([3, -5, 100], dtype=np.int8),
        np.array([1.0, 0.0, 2.0], dtype=np.float32),
    ],
)
def test_labels_of_every_type(names):
    clf = UniversumSVC().fit(X, names[Y], universum=U)
    assert clf.classes_.tolist() == sorted(names.tolist())
    plain = UniversumSVC().fit(X, Y, universum=U)
    assert clf.objective_ == pytest.approx(plain.objective_, rel=1e-4)
    assert np.mean(clf.predict(X) == names[Y]) > 0.8


@pytest.mark.parametrize("dtype", [bool, object])
def test_boolean_labels(dtype):
    labels = np.equal(Y, 1).astype(dtype)
    clf = UniversumSVC().fit(X, labels, universum=U)
    assert clf.classes_.tolist() == [False, True]
    assert clf.predict(X).dtype == bool
    assert np.array_equal(clf.predict(X), clf.decision_function(X) > 0)


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        (["a", "b", "none"], "none"),
        ([1, 2, -1], -1),
        ([1, 2, -1], -1.0),
        ([1.0, 2.0, -1.0], np.int64(-1)),
        ([True, False, 5], 5),
        ([2, 3, 0], False),
    ],
)
def test_universum_label_of_every_type(labels, label):
    y = np.array(labels)[Y]
    clf = UniversumSVC(universum_label=label).fit(X, y)
    assert len(clf.classes_) == 2
    assert label not in clf.classes_.tolist()
    direct = UniversumSVC().fit(X[Y < 2], y[Y < 2], universum=X[Y == 2])
    assert clf.objective_ == direct.objective_


def test_universum_label_among_objects_of_another_type():
    y = np.array(["a", "b", -1], dtype=object)[Y]
    clf = UniversumSVC(universum_label=-1).fit(X, y)
    assert clf.classes_.tolist() == ["a", "b"]


def test_labels_of_mixed_types():
    assert "y mixes strings with labels of other types" in refusal(
        X, np.array(["a", 1, 2], dtype=object)[Y]
    )


def test_universum_label_that_became_a_string():
    y = np.r_[np.array(["a", "b"])[Y % 2], [-1] * 12]
    message = "universum_label=-1 matches no label, but y has '-1': set universum_label='-1'"
    assert message in refusal(np.vstack([X, U]), y, parameters={"universum_label": -1})


def test_universum_label_that_is_absent_leaves_the_plain_svm_and_says_so():
    with pytest.warns(UserWarning, match="No row of y has universum_label=-1"):
        clf = UniversumSVC(universum_label=-1).fit(X, Y)
    assert clf.objective_ == UniversumSVC().fit(X, Y).objective_


def test_universum_in_both_forms():
    assert "in one of the two forms" in refusal(
        X, Y, universum=U, parameters={"universum_label": 2}
    )
    clf = UniversumSVC(universum_label=9).fit(X, Y, universum=U)
    assert clf.objective_ == UniversumSVC().fit(X, Y, universum=U).objective_


# ---------------------------------------------------------------------------------------------
# Weights


def test_negative_weights():
    weight = np.ones(30)
    weight[3] = -1
    assert "Negative values in data passed to `sample_weight`" in refusal(
        X, Y, sample_weight=weight
    )
    assert "class_weight must hold finite" in refusal(X, Y, parameters={"class_weight": {0: -1.0}})
    assert "class_weight must hold finite" in refusal(
        X, Y, parameters={"class_weight": {0: np.nan}}
    )


def test_class_that_loses_all_weight():
    assert "weights of all samples are zero in class(es) [1]" in refusal(
        X, Y, sample_weight=1.0 * (Y != 1)
    )
    assert "weights of all samples are zero in class(es) [2]" in refusal(
        X, Y, parameters={"class_weight": {2: 0.0}}
    )


def test_weight_of_a_class_that_is_not_there():
    assert "not in class_weight" in refusal(X, Y, parameters={"class_weight": {"a": 1.0}})


def test_rows_of_weight_zero_are_left_out():
    weight = 1.0 * (np.arange(30) >= 9)
    clf = UniversumSVC().fit(X, Y, universum=U, sample_weight=weight)
    assert clf.objective_ == UniversumSVC().fit(X[9:], Y[9:], universum=U).objective_
    assert clf.support_.min() >= 9


def test_universum_rows_of_weight_zero_are_left_out():
    Z, labels = np.vstack([X, U]), np.r_[Y, [-1] * 12]
    weight = np.r_[np.ones(30), np.zeros(12)]
    clf = UniversumSVC(universum_label=-1).fit(Z, labels, sample_weight=weight)
    assert clf.objective_ == UniversumSVC().fit(X, Y).objective_


# ---------------------------------------------------------------------------------------------
# Odd geometry


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_duplicated_points(kernel):
    Z, labels = np.vstack([X, X, X[:5]]), np.r_[Y, Y, Y[:5]]
    clf = UniversumSVC(0.1, kernel=kernel).fit(Z, labels, universum=(U, U))
    assert_sound(clf)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_same_point_in_two_classes_and_in_the_universum(kernel, delta):
    Z, labels = np.vstack([X, X[:6]]), np.r_[Y, (Y[:6] + 1) % 3]
    clf = UniversumSVC(0.1, kernel=kernel, delta=delta).fit(Z, labels, universum=X[:6])
    assert_sound(clf)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly", "sigmoid"])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_all_points_are_one_point(kernel, make):
    for value in (0.0, 0.1):
        Z = make(np.full((30, 4), value))
        clf = UniversumSVC(kernel=kernel).fit(Z, Y, universum=Z[:12])
        assert_sound(clf, Z)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_zero_rows_and_constant_features(kernel):
    Z = np.hstack([X, np.ones((30, 1)), np.zeros((30, 1))])
    Z[:4] = 0.0
    V = np.hstack([U, np.ones((12, 2))])
    V[:2] = 0.0
    assert_sound(UniversumSVC(0.1, kernel=kernel).fit(Z, Y, universum=V), Z)


def test_one_feature():
    assert_sound(UniversumSVC().fit(X[:, :1], Y, universum=U[:, :1]), X[:, :1])


def test_two_samples():
    clf = UniversumSVC().fit(X[:2], Y[:2])
    assert_sound(clf)
    assert np.array_equal(clf.predict(X[:2]), Y[:2])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e-8, 1e8])
def test_extreme_C(kernel, C):
    clf = UniversumSVC(C, kernel=kernel).fit(X, Y, universum=U)
    assert_sound(clf)


@pytest.mark.parametrize("C", [1e308, 1e200])
def test_C_or_weights_beyond_what_can_be_added_up(C):
    assert "too much to compute with" in refusal(X, Y, parameters={"C": C})
    assert "too much to compute with" in refusal(X, Y, sample_weight=np.full(30, C))


@pytest.mark.parametrize("scale", [1e20, 1e40, 1e100])
def test_features_beyond_single_precision(scale):
    """Their kernel with gamma="scale" is that of ordinary ones, and all paths take it."""
    for kernel in ("rbf", "poly"):
        objectives = [
            UniversumSVC(kernel=kernel, solver=solver, tol=1e-6).fit(factor * X, Y).objective_
            for solver, factor in (("gram", 1.0), ("gram", scale), ("working-set", scale))
        ]
        np.testing.assert_allclose(objectives, objectives[0], rtol=1e-5)


@pytest.mark.parametrize("solver", ["gram", "working-set", "linear", "interior", "auto"])
def test_linear_kernels_are_refused_on_every_path_where_doubles_end(solver):
    parameters = {"kernel": "linear", "solver": solver}
    expected = UniversumSVC(**parameters).fit(X, Y).objective_
    taken = UniversumSVC(C=1e-40, **parameters).fit(1e20 * X, Y).objective_
    assert taken * 1e40 == pytest.approx(expected, rel=2e-4)
    assert "scale the features" in refusal(1e160 * X, Y, parameters=parameters)


def test_class_names_that_are_no_text():
    """Bytes that are no UTF-8 arrive as lone surrogates, from file names for one."""
    names = np.array(["a", "b\udc80", "c"])
    clf = UniversumSVC().fit(X, names[Y])
    assert set(clf.predict(X)) <= set(names)


def test_huge_C_separates_what_can_be_separated():
    Z = np.vstack([X, 3 * np.eye(4)])
    clf = UniversumSVC(1e8, gamma=1.0, tol=1e-6).fit(Z, np.arange(34) % 4)
    assert clf.projections(Z)[np.arange(34), np.arange(34) % 4].min() > 1 - 1e-4


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 1e-9, 1.0, 3.0, 1e6])
def test_delta_from_zero_to_far_above_one(delta, loss):
    clf = UniversumSVC(delta=delta, universum_loss=loss).fit(X, Y, universum=U)
    assert_sound(clf)
    if delta == 1e6:
        assert clf.objective_ == pytest.approx(UniversumSVC().fit(X, Y).objective_, rel=1e-4)
        assert len(clf.universum_support_) == 0


@pytest.mark.parametrize("m", [1, 29, 30, 31, 200])
def test_any_number_of_universum_points(m):
    V = np.random.default_rng(m).normal(size=(m, 4))
    clf = UniversumSVC().fit(X, Y, universum=V)
    assert_sound(clf)
    assert clf.model_.caps[30:] == pytest.approx(np.full(m, 30 / (m * 3)))


def test_many_classes():
    labels = np.arange(30) % 15
    assert_sound(UniversumSVC().fit(X, labels, universum=U))


# ---------------------------------------------------------------------------------------------
# Containers and memory layouts

SPARSE = ["csr", "csc", "coo", "lil", "dok", "dia", "bsr"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", SPARSE)
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_sparse_of_every_format(kernel, form, kind):
    Z, V = X * (np.abs(X) > 0.7), U * (np.abs(U) > 0.7)
    make = getattr(sp, f"{form}_{kind}")
    clf = UniversumSVC(0.1, kernel=kernel).fit(make(Z), Y, universum=make(V))
    dense = UniversumSVC(0.1, kernel=kernel).fit(Z, Y, universum=V)
    assert sp.issparse(clf.support_vectors_)
    assert clf.objective_ == pytest.approx(dense.objective_, rel=1e-4)
    np.testing.assert_allclose(
        clf.decision_function(make(Z)), clf.decision_function(Z), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        dense.decision_function(make(Z)), dense.decision_function(Z), rtol=1e-9, atol=1e-12
    )


def test_sparse_with_stored_zeros_and_entries_in_two_parts():
    data, indices = np.ones(6), np.array([0, 0, 1, 2, 3, 3])
    Z = sp.csr_array((np.r_[0.0, data[1:]], indices, [0, 2, 4, 6]), shape=(3, 4))
    before = Z.copy()
    clf = UniversumSVC(kernel="linear").fit(Z, [0, 1, 2])
    plain = UniversumSVC(kernel="linear").fit(Z.toarray(), [0, 1, 2])
    np.testing.assert_allclose(clf.coef_, plain.coef_, atol=1e-3)
    assert np.array_equal(Z.data, before.data)
    assert np.array_equal(Z.indices, before.indices)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_prediction_adds_up_entries_in_two_parts_as_the_fit_does(kernel):
    halves = sp.csr_array(
        (np.repeat(X / 2, 2), np.tile(np.repeat(np.arange(4), 2), 30), 8 * np.arange(31)),
        shape=X.shape,
    )
    clf = UniversumSVC(kernel=kernel).fit(X, Y)
    before = halves.copy()
    found, expected = clf.decision_function(halves), clf.decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.array_equal(halves.data, before.data)
    assert np.array_equal(halves.indices, before.indices)


def test_dense_points_with_a_sparse_universum_and_the_reverse():
    plain = UniversumSVC().fit(X, Y, universum=U)
    assert UniversumSVC().fit(X, Y, universum=sp.csc_array(U)).objective_ == plain.objective_
    mixed = UniversumSVC().fit(sp.csr_array(X), Y, universum=U)
    assert mixed.objective_ == pytest.approx(plain.objective_, rel=1e-4)


def test_sparse_precomputed_kernel():
    with pytest.raises(TypeError, match="Sparse data was passed"):
        UniversumSVC(kernel="precomputed").fit(sp.csr_array(linear_kernel(X)), Y)


def test_read_only_and_fortran_ordered_arrays():
    plain = UniversumSVC().fit(X, Y, universum=U)
    frozen = [np.asfortranarray(X), Y.copy(), np.asfortranarray(U), np.ones(30)]
    copies = [array.copy() for array in frozen]
    for array in frozen:
        array.setflags(write=False)
    clf = UniversumSVC().fit(*frozen)
    assert clf.objective_ == plain.objective_
    assert all(np.array_equal(a, b) for a, b in zip(frozen, copies, strict=True))
    assert np.array_equal(clf.decision_function(frozen[0]), plain.decision_function(X))
    strided = np.repeat(X, 2, axis=1)[:, ::2]
    assert UniversumSVC().fit(strided, Y, universum=U).objective_ == plain.objective_
    K = rbf_kernel(X, gamma=0.1)
    K.setflags(write=False)
    assert_sound(UniversumSVC(kernel="precomputed").fit(K, Y), K)


def test_single_precision_is_solved_in_double():
    X32, U32 = X.astype(np.float32), U.astype(np.float32)
    single = UniversumSVC().fit(X32, Y, universum=U32)
    double = UniversumSVC().fit(X32.astype(np.float64), Y, universum=U32.astype(np.float64))
    assert single.objective_ == double.objective_
    assert single.dual_coef_.dtype == single.support_vectors_.dtype == np.float64
    assert single.decision_function(X32).dtype == np.float64


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, bool])
def test_features_of_other_types(dtype):
    Z, V = (X > 0).astype(dtype), (U > 0).astype(dtype)
    clf = UniversumSVC().fit(Z, Y, universum=V)
    assert clf.objective_ == UniversumSVC().fit(Z * 1.0, Y, universum=V * 1.0).objective_


def test_lists():
    plain = UniversumSVC().fit(X, Y, universum=U)
    lists = UniversumSVC().fit(X.tolist(), Y.tolist(), universum=U.tolist())
    assert lists.objective_ == plain.objective_


# ---------------------------------------------------------------------------------------------
# Kernel matrices


def test_precomputed_kernel_with_a_separate_universum():
    said = refusal(
        linear_kernel(X), Y, universum=linear_kernel(U, X), parameters={"kernel": "precomputed"}
    )
    assert re.search(
        r"pass as X the \(n \+ m\) x \(n \+ m\) kernel matrix .* universum_label", said
    )


def test_precomputed_kernel_that_is_not_square():
    parameters = {"kernel": "precomputed"}
    assert "must be square, got shape (30, 4)" in refusal(X, Y, parameters=parameters)


def test_precomputed_kernel_that_is_not_symmetric():
    K = linear_kernel(X)
    K[3, 4] += 0.5
    said = refusal(K, Y, parameters={"kernel": "precomputed"})
    assert re.search("not symmetric: .* differ by 0.5", said)


def test_precomputed_kernel_in_single_precision():
    K = rbf_kernel(X.astype(np.float32), gamma=np.float32(0.1))
    assert K.dtype == np.float32
    assert_sound(UniversumSVC(kernel="precomputed").fit(K, Y), K)


def test_precomputed_kernel_with_rows_of_weight_zero():
    K, weight = rbf_kernel(X, gamma=0.1), 1.0 * (np.arange(30) >= 9)
    clf = UniversumSVC(kernel="precomputed").fit(K, Y, sample_weight=weight)
    part = UniversumSVC(kernel="precomputed").fit(K[9:, 9:], Y[9:])
    assert clf.objective_ == part.objective_
    np.testing.assert_allclose(clf.decision_function(K), part.decision_function(K[:, 9:]))


@pytest.mark.parametrize("kernel", ["sigmoid", "precomputed", "poly", lambda A, B: -(A @ B.T)])
def test_indefinite_kernel_warns_and_gives_a_stationary_point(kernel):
    parameters = {"C": 0.05, "kernel": kernel, "universum_label": -1, "coef0": -1.0, "degree": 1}
    Z, labels = np.vstack([X, U]), np.r_[Y, [-1] * 12]
    data = np.tanh(Z @ Z.T - 1) if kernel == "precomputed" else Z
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        clf = UniversumSVC(**parameters).fit(data, labels)
    about_kernel = [w for w in record if "not positive semi-definite" in str(w.message)]
    assert len(about_kernel) == 1
    assert about_kernel[0].filename == __file__
    assert "stationary point" in str(about_kernel[0].message)
    assert all(w in about_kernel or w.category is ConvergenceWarning for w in record)
    assert np.isfinite(clf.decision_function(data)).all()
    assert clf.dual_gap_ >= -1e-9 * abs(clf.objective_)


def test_semidefinite_kernels_do_not_warn():
    Z, labels = np.vstack([X, U]), np.r_[Y, [-1] * 12]
    for kernel in (linear_kernel, lambda A, B: rbf_kernel(A, B, gamma=0.1)):
        assert_sound(UniversumSVC(0.05, kernel=kernel).fit(X, Y, universum=U))
        assert_sound(
            UniversumSVC(0.05, kernel="precomputed", universum_label=-1).fit(kernel(Z, Z), labels),
            kernel(X, Z),
        )


def test_kernel_that_overflows():
    assert "NaN or infinite values: scale" in refusal(
        X * 1e150, Y, parameters={"kernel": "poly", "gamma": 1}
    )
    assert "pass gamma as a number" in refusal(X * 1e200, Y)
