"""`UniversumSVC`: the model is what its documentation says, measured by other means.

Oracles: the primal objective written out here, LIBLINEAR (through `LinearSVC`), explicit feature
maps, and equalities between two ways to state one problem.
"""

from __future__ import annotations

import gzip
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_svmlight_file, load_wine
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import LinearSVC

from musvm import UniversumSVC
from musvm._input.reading import read


def blobs(n: int, m: int, L: int = 3, d: int = 4, seed: int = 0):
    """n overlapping training points of L classes, m universum points between them."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % L
    centres = 2 * rng.normal(size=(L, d))
    X = centres[y] + rng.normal(size=(n, d))
    U = centres.mean(axis=0) + rng.normal(size=(m, d))
    return X, y, U


X, Y, U = blobs(45, 20)
KERNELS = ["linear", "rbf", "poly", rbf_kernel]


def hinge(F: np.ndarray, y: np.ndarray) -> np.ndarray:
    """max_l (f_l + [l != y]) - f_y, eq. (1)."""
    return np.array([max(f + (np.arange(len(f)) != k)) - f[k] for f, k in zip(F, y, strict=True)])


def universum_losses(F: np.ndarray, delta: float, loss: str) -> np.ndarray:
    """Eq. (4) for "sum", eq. (2) for "max"."""
    excess = np.maximum(F.max(axis=1, keepdims=True) - F - delta, 0.0)
    return excess.sum(axis=1) if loss == "sum" else excess.max(axis=1)


def same_model(a: UniversumSVC, b: UniversumSVC) -> bool:
    """Whether two models solve the same problem to the last digit.

    Decision values are sums over the support vectors in the order of the rows, so they may
    differ by rounding.
    """
    F, G = a.decision_function(X), b.decision_function(X)
    return a.objective_ == b.objective_ and np.allclose(F, G, rtol=1e-11, atol=1e-13)


# ---------------------------------------------------------------------------------------------
# The objective and its certificate


@pytest.mark.parametrize("loss", ["sum", "max"])
@pytest.mark.parametrize("delta", [0.0, 0.3])
@pytest.mark.parametrize("C", [0.01, 1.0])
def test_objective_is_the_primal_and_the_gap_certifies_it(C, delta, loss):
    clf = UniversumSVC(
        C, kernel="linear", delta=delta, universum_loss=loss, universum_weight=0.7, tol=1e-6
    ).fit(X, Y, universum=U)
    W = clf.coef_
    primal = (
        0.5 * np.sum(W**2)
        + C * hinge(X @ W.T, Y).sum()
        + 0.7 * C * universum_losses(U @ W.T, delta, loss).sum()
    )
    assert clf.objective_ == pytest.approx(primal, rel=1e-10)
    assert clf.converged_
    assert 0 <= clf.dual_gap_ <= 1e-6 * clf.objective_
    assert clf.n_iter_ >= 1


def test_universum_narrows_the_spread_of_the_universum():
    plain = UniversumSVC(C=1.0).fit(X, Y)
    with_universum = UniversumSVC(C=1.0).fit(X, Y, universum=U)
    assert with_universum.universum_score(U).mean() < 0.5 * plain.universum_score(U).mean()


@pytest.mark.parametrize("kernel", KERNELS)
def test_dual_coefficients_are_feasible_and_give_the_decision_values(kernel):
    C, weight = 0.5, 0.4
    clf = UniversumSVC(C, kernel=kernel, universum_weight=weight).fit(X, Y, universum=U)
    n_training = len(clf.support_)
    training, universum = clf.dual_coef_[:, :n_training].T, clf.dual_coef_[:, n_training:].T
    labels = Y[clf.support_]
    caps = C * (labels[:, None] == clf.classes_)
    np.testing.assert_allclose(clf.dual_coef_.sum(axis=0), 0, atol=1e-12)
    assert (training <= caps + 1e-12).all()
    assert (universum <= C * weight + 1e-12).all()

    points = np.vstack([X[clf.support_], U[clf.universum_support_]])
    assert np.array_equal(clf.support_vectors_, points)
    assert np.array_equal(clf.n_support_, np.bincount(labels, minlength=3))
    K = clf.model_.kernel.matrix(X, points)
    np.testing.assert_allclose(clf.decision_function(X), K @ clf.dual_coef_.T, atol=1e-10)


def test_points_that_are_no_support_vectors_can_be_left_out():
    first = UniversumSVC(C=1.0, gamma=0.3, universum_weight=0.2, tol=1e-9).fit(X, Y, universum=U)
    assert len(first.support_) < len(X)
    again = clone(first).fit(X[first.support_], Y[first.support_], universum=U)
    np.testing.assert_allclose(again.decision_function(X), first.decision_function(X), atol=1e-3)


# ---------------------------------------------------------------------------------------------
# LIBLINEAR and other independent models


def crammer_singer_objective(W: np.ndarray, X, y: np.ndarray, caps: np.ndarray) -> float:
    return 0.5 * np.sum(W**2) + caps @ hinge(X @ W.T, y)


def liblinear(C: float, X, y, sample_weight=None) -> np.ndarray:
    """LIBLINEAR's weights, all classes, run to convergence."""
    peer = LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=C, tol=1e-9, random_state=0
    )
    with warnings.catch_warnings():
        # It ignores max_iter and, in older versions, miscounts its iterations. Whether it has
        # converged is seen from its objective, which the tests compare with a certified one.
        warnings.simplefilter("ignore", ConvergenceWarning)
        return peer.fit(X, y, sample_weight=sample_weight).coef_


def scaled(data) -> tuple[np.ndarray, np.ndarray]:
    return MinMaxScaler((-1, 1)).fit_transform(data.data), data.target


def embedded(name: str) -> tuple[np.ndarray, np.ndarray]:
    points, y = scaled({"iris": load_iris, "wine": load_wine, "digits": load_digits}[name]())
    return points[:400], y[:400]


@pytest.mark.parametrize("ignored", [None, 0.0], ids=["no universum", "universum of weight 0"])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("name", ["iris", "wine", "digits"])
def test_plain_svm_has_the_objective_of_liblinear(name, C, ignored):
    points, y = embedded(name)
    clf = UniversumSVC(C, kernel="linear", tol=1e-6)
    if ignored is None:
        clf.fit(points, y)
    else:
        clf.set_params(universum_weight=ignored).fit(points, y, universum=points[::3] * 0.5)
    assert_not_above_liblinear(clf, points, y)


@pytest.mark.parametrize("name", ["vehicle", "vowel", "segment"])
def test_plain_svm_has_the_objective_of_liblinear_on_real_data(name, data_folder):
    with gzip.open(data_folder / "libsvm" / f"{name}.scale.gz") as file:
        points, y = load_svmlight_file(file)
    points, y = points[:600], np.unique(y[:600], return_inverse=True)[1]
    assert_not_above_liblinear(
        UniversumSVC(1.0, kernel="linear", tol=1e-6).fit(points, y), points, y
    )


def assert_not_above_liblinear(clf: UniversumSVC, points, y) -> None:
    caps = np.full(len(y), clf.C)
    ours = crammer_singer_objective(clf.coef_, points, y, caps)
    theirs = crammer_singer_objective(liblinear(clf.C, points, y), points, y, caps)
    assert ours <= theirs * (1 + clf.tol)
    assert ours == pytest.approx(theirs, rel=1e-4)
    assert clf.objective_ == pytest.approx(ours, rel=1e-9)


def test_weights_are_those_of_liblinear():
    rng = np.random.default_rng(1)
    weight = rng.choice([0.1, 1.0, 3.0], size=len(X))
    clf = UniversumSVC(0.5, kernel="linear", tol=1e-8).fit(X, Y, sample_weight=weight)
    theirs = liblinear(0.5, X, Y, sample_weight=weight)
    # LIBLINEAR leaves the mean of the weights over the classes free; decision values do not.
    np.testing.assert_allclose(clf.coef_, theirs - theirs.mean(axis=0), atol=2e-3)
    ours = crammer_singer_objective(clf.coef_, X, Y, 0.5 * weight)
    assert ours <= crammer_singer_objective(theirs, X, Y, 0.5 * weight) * (1 + clf.tol)


def test_two_classes_are_the_binary_svm_of_twice_the_C():
    points, y = X[Y < 2], Y[Y < 2]
    clf = UniversumSVC(0.5, kernel="linear", tol=1e-9).fit(points, y)
    peer = LinearSVC(
        C=1.0, loss="hinge", fit_intercept=False, tol=1e-9, max_iter=10**6, random_state=0
    )
    peer.fit(points, y)
    assert clf.coef_.shape == (1, X.shape[1])
    np.testing.assert_allclose(clf.coef_, peer.coef_, atol=1e-3)
    np.testing.assert_allclose(
        clf.decision_function(points), peer.decision_function(points), atol=1e-3
    )
    assert np.array_equal(clf.predict(points), peer.predict(points))


def test_polynomial_kernel_is_the_linear_one_on_its_features():
    def features(Z):
        """phi with <phi(x), phi(z)> = (<x, z> + 1)^2."""
        i, j = np.triu_indices(Z.shape[1])
        squares = Z[:, i] * Z[:, j] * np.where(i == j, 1.0, np.sqrt(2.0))
        return np.hstack([squares, np.sqrt(2.0) * Z, np.ones((len(Z), 1))])

    settings = {"C": 0.1, "delta": 0.1, "tol": 1e-9}
    by_kernel = UniversumSVC(kernel="poly", degree=2, gamma=1.0, coef0=1.0, **settings)
    by_kernel.fit(X, Y, universum=U)
    explicit = UniversumSVC(kernel="linear", **settings).fit(features(X), Y, universum=features(U))
    assert by_kernel.objective_ == pytest.approx(explicit.objective_, rel=1e-8)
    np.testing.assert_allclose(
        by_kernel.decision_function(X), explicit.decision_function(features(X)), atol=1e-3
    )


# ---------------------------------------------------------------------------------------------
# Ways to pass the universum


@pytest.mark.parametrize("kernel", KERNELS)
def test_label_form_is_the_same_model(kernel):
    settings = {"C": 0.3, "kernel": kernel, "delta": 0.1}
    apart = UniversumSVC(**settings).fit(X, Y, universum=U)
    order = np.random.default_rng(0).permutation(len(X) + len(U))
    stacked, labels = np.vstack([X, U])[order], np.r_[Y, np.full(len(U), -1)][order]
    marked = UniversumSVC(**settings, universum_label=-1).fit(stacked, labels)
    assert np.array_equal(marked.classes_, [0, 1, 2])
    assert same_model(apart, marked)
    assert np.array_equal(np.sort(order[marked.support_]), apart.support_)
    assert np.array_equal(
        np.sort(order[marked.universum_support_]), len(X) + apart.universum_support_
    )


@pytest.mark.parametrize(
    "form",
    [
        lambda: (U,),
        lambda: (U[:7], U[7:]),
        lambda: [U[:7], U[7:]],
        lambda: (U[:7], sp.csr_array(U[7:])),
        lambda: (U, np.empty((0, U.shape[1]))),
        lambda: U.tolist(),
        lambda: (U.tolist(),),
        lambda: sp.coo_matrix(U),
        lambda: tuple(map(tuple, U)),
    ],
)
def test_every_form_of_universum_is_the_same(form):
    whole = UniversumSVC().fit(X, Y, universum=U)
    other = UniversumSVC().fit(X, Y, universum=form())
    assert same_model(whole, other)
    assert np.array_equal(whole.universum_support_, other.universum_support_)


@pytest.mark.parametrize("nothing", [None, (), [], np.empty((0, 4)), (np.empty((0, 4)),), "weight"])
def test_no_universum_is_the_plain_svm(nothing):
    plain = UniversumSVC().fit(X, Y)
    if isinstance(nothing, str):
        other = UniversumSVC(universum_weight=0).fit(X, Y, universum=U)
    elif nothing is None:
        other = UniversumSVC().fit(X, Y, universum=nothing)
    else:
        with pytest.warns(UserWarning, match="universum has no points: this is a plain SVM"):
            other = UniversumSVC().fit(X, Y, universum=nothing)
    assert same_model(plain, other)
    assert len(other.universum_support_) == 0


def test_universum_does_not_change_the_kernel():
    with pytest.warns(UserWarning, match="far outside the range of X"):
        with_universum = UniversumSVC().fit(X, Y, universum=50 * U)
    plain = UniversumSVC().fit(X, Y)
    assert with_universum.model_.kernel == plain.model_.kernel


def test_precomputed_kernel_is_the_same_model():
    Z, labels = np.vstack([U[:5], X, U[5:]]), np.r_[[9] * 5, Y, [9] * 15]
    direct = UniversumSVC(gamma=0.2, universum_label=9, tol=1e-8).fit(Z, labels)
    clf = UniversumSVC(kernel="precomputed", universum_label=9, tol=1e-8)
    clf.fit(rbf_kernel(Z, gamma=0.2), labels)
    new = X + 0.1
    np.testing.assert_allclose(
        clf.decision_function(rbf_kernel(new, Z, gamma=0.2)),
        direct.decision_function(new),
        atol=1e-3,
    )
    assert np.array_equal(clf.predict(rbf_kernel(new, Z, gamma=0.2)), direct.predict(new))
    assert (labels[clf.support_] != 9).all()
    assert (labels[clf.universum_support_] == 9).all()


# ---------------------------------------------------------------------------------------------
# Weights


@st.composite
def counts(draw):
    """How often to repeat each of the 18 + 6 points; no class disappears, nor the universum."""
    repeat = draw(st.lists(st.integers(0, 3), min_size=24, max_size=24))
    return np.array(repeat) | np.r_[np.ones(3, int), np.zeros(20, int), 1]


@settings(max_examples=25)
@given(counts(), st.sampled_from(["balanced", 0.5]), st.sampled_from(["balanced", None]))
def test_weights_are_repetitions(repeat, universum_weight, class_weight):
    points, y, universum = blobs(18, 6)
    Z, labels = np.vstack([points, universum]), np.r_[y, [-1] * 6]
    clf = UniversumSVC(
        universum_label=-1, universum_weight=universum_weight, class_weight=class_weight
    )
    weighted = clone(clf).fit(Z, labels, sample_weight=repeat)
    repeated = clone(clf).fit(Z.repeat(repeat, axis=0), labels.repeat(repeat))
    assert same_model(weighted, repeated)


def test_the_order_of_the_rows_does_not_matter():
    order = np.random.default_rng(0).permutation(len(X))
    straight = UniversumSVC().fit(X, Y, universum=U)
    assert same_model(straight, UniversumSVC().fit(X[order], Y[order], universum=U[::-1]))


def test_copies_share_the_dual_variables_in_proportion_to_their_weights():
    doubled, y = np.vstack([X, X]), np.r_[Y, Y]
    clf = UniversumSVC().fit(doubled, y, sample_weight=np.r_[np.ones(45), np.full(45, 3.0)])
    np.testing.assert_allclose(3 * clf.model_.alpha[:45], clf.model_.alpha[45:], rtol=1e-12)


def test_class_weight_multiplies_C():
    by_class = UniversumSVC(gamma=0.1, class_weight={0: 2.0, 2: 0.5}, universum_weight=1.0)
    by_sample = UniversumSVC(gamma=0.1, universum_weight=1.0)
    factors = np.array([2.0, 1.0, 0.5])[Y]
    assert same_model(
        by_class.fit(X, Y, universum=U), by_sample.fit(X, Y, universum=U, sample_weight=factors)
    )


def test_balanced_class_weight_gives_every_class_the_same_total():
    kept = np.r_[np.flatnonzero(Y == 0)[:3], np.flatnonzero(Y == 1)[:5], np.flatnonzero(Y == 2)]
    clf = UniversumSVC(class_weight="balanced").fit(X[kept], Y[kept])
    totals = np.bincount(Y[kept], clf.model_.caps)
    np.testing.assert_allclose(totals, len(kept) / 3)


def test_balanced_universum_weight_is_n_over_m_L():
    n, m, L = len(X), len(U), 3
    assert same_model(
        UniversumSVC().fit(X, Y, universum=U),
        UniversumSVC(universum_weight=n / (m * L)).fit(X, Y, universum=U),
    )


# ---------------------------------------------------------------------------------------------
# Methods and attributes


def test_projections_are_the_lead_over_the_best_other_class():
    clf = UniversumSVC().fit(X, Y, universum=U)
    F = clf.decision_function(X)
    expected = [[f[k] - max(np.delete(f, k)) for k in range(3)] for f in F]
    np.testing.assert_array_equal(clf.projections(X), expected)
    assert np.array_equal(clf.classes_[clf.projections(X).argmax(axis=1)], clf.predict(X))


def test_projections_of_two_classes_are_the_decision_values_of_either_sign():
    clf = UniversumSVC().fit(X[Y < 2], Y[Y < 2])
    decision = clf.decision_function(X)
    np.testing.assert_array_equal(clf.projections(X), np.column_stack([-decision, decision]))
    assert np.array_equal(clf.predict(X), clf.classes_[(decision > 0).astype(int)])


def test_universum_score_is_the_spread_of_the_decision_values():
    clf = UniversumSVC().fit(X, Y, universum=U)
    F = clf.decision_function(X)
    np.testing.assert_array_equal(clf.universum_score(X), np.ptp(F, axis=1))
    binary = UniversumSVC().fit(X[Y < 2], Y[Y < 2])
    np.testing.assert_array_equal(binary.universum_score(X), np.abs(binary.decision_function(X)))


def test_coef_belongs_to_the_linear_kernel():
    clf = UniversumSVC(kernel="linear").fit(X, Y)
    np.testing.assert_allclose(X @ clf.coef_.T, clf.decision_function(X), atol=1e-12)
    assert clf.coef_.shape == (3, X.shape[1])
    clf.set_params(kernel="rbf").fit(X, Y)
    with pytest.raises(AttributeError, match="only available with kernel='linear'"):
        clf.coef_  # noqa: B018
    with pytest.raises(NotFittedError):
        UniversumSVC(kernel="linear").coef_  # noqa: B018


def test_score_leaves_universum_rows_out():
    stacked, labels = np.vstack([U, X]), np.r_[[-1] * len(U), Y]
    clf = UniversumSVC(universum_label=-1).fit(stacked, labels)
    accuracy = np.mean(clf.predict(X) == Y)
    assert clf.score(stacked, labels) == accuracy
    assert clf.score(X, Y) == accuracy
    weight = np.r_[np.full(len(U), 100.0), np.arange(len(X))]
    expected = np.average(clf.predict(X) == Y, weights=np.arange(len(X)))
    assert clf.score(stacked, labels, sample_weight=weight) == pytest.approx(expected)
    with pytest.raises(ValueError, match="nothing to score"):
        clf.score(U, [-1] * len(U))


def test_fits_are_repeatable_with_and_without_a_seed():
    for seed in (None, 5):
        first = UniversumSVC(random_state=seed).fit(X, Y, universum=U)
        assert same_model(first, UniversumSVC(random_state=seed).fit(X, Y, universum=U))


def test_verbose_prints_one_line(capsys):
    UniversumSVC(verbose=1).fit(X, Y)
    out = capsys.readouterr().out
    assert out.startswith("[UniversumSVC] ")
    assert "relative duality gap" in out
    assert out.count("\n") == 1
    UniversumSVC().fit(X, Y)
    assert capsys.readouterr().out == ""


def test_unfinished_fit_warns_with_the_gap_and_what_to_do():
    clf = UniversumSVC(C=50, tol=1e-12, max_iter=1)
    with pytest.warns(ConvergenceWarning) as record:
        clf.fit(X, Y, universum=U)
    assert len(record) == 1
    assert record[0].filename == __file__
    message = str(record[0].message)
    gained = clf.C * len(Y) - clf.objective_
    relative = clf.dual_gap_ / min(clf.objective_, gained)
    assert gained < clf.objective_
    assert f"{relative:.1e}, of what the model gains over zero weights, above tol=1e-12" in message
    assert "raise max_iter, scale the features, or loosen tol" in message
    assert not clf.converged_
    assert clf.n_iter_ == 1


# ---------------------------------------------------------------------------------------------
# What later computations on a fitted model need


def test_alpha_of_all_rows_is_recovered_in_the_order_of_the_fit():
    clf = UniversumSVC(kernel="linear").fit(X, Y, universum=U)
    alpha = clf.model_.alpha
    assert alpha.shape == (65, 3)
    np.testing.assert_allclose(alpha.T @ np.vstack([X, U]), clf.coef_, atol=1e-12)
    order = np.random.default_rng(0).permutation(65)
    marked = UniversumSVC(kernel="linear", universum_label=-1)
    marked.fit(np.vstack([X, U])[order], np.r_[Y, [-1] * 20][order])
    assert np.array_equal(marked.model_.alpha, alpha[order])
    assert np.array_equal(marked.model_.caps, clf.model_.caps[order])


def test_data_of_the_fit_is_recognised_and_other_data_is_not():
    clf = UniversumSVC().fit(X, Y, universum=U)

    def recognised(*args):
        return read(clf, *args, None, reset=False).fingerprint == clf.model_.fingerprint

    changed = X.copy()
    changed[3, 1] = np.nextafter(changed[3, 1], np.inf)
    assert recognised(X, Y, U)
    assert recognised(np.asfortranarray(X), Y.tolist(), (U[:3], U[3:]))
    assert not recognised(changed, Y, U)
    assert not recognised(X, Y, None)
    assert not recognised(X, np.r_[Y[1:], Y[:1]], U)
    assert not recognised(X[::-1], Y[::-1], U)
    assert not recognised(X, Y + 1, U)
    assert not recognised(X, Y, U[::-1])


def test_fitted_state_is_arrays_numbers_and_strings():
    parameters = set(UniversumSVC().get_params())
    for clf in (
        UniversumSVC().fit(X, Y, universum=U),
        UniversumSVC(kernel="linear").fit(sp.csr_array(X), Y, universum=U),
    ):
        state = {k: v for k, v in vars(clf).items() if k not in parameters}
        state |= vars(state.pop("model_"))
        state |= vars(state.pop("kernel")) | vars(state.pop("certificate"))
        plain = (np.ndarray, sp.csr_array, int, float, str, bool, type(None))
        assert {k: type(v) for k, v in state.items() if type(v) not in plain} == {}


@pytest.mark.parametrize("C", [1e-4, 1e-2, 1.0, 100.0])
def test_the_default_tolerance_gives_the_labels_of_the_optimum_at_every_C(C):
    """At C = 1e-4, a gap of 1e-4 of P left 7 to 10 % of these labels wrong."""
    digits, labels = load_digits(return_X_y=True)
    train, rest = slice(0, 100), slice(100, None)
    loose = UniversumSVC(C, gamma="scale").fit(digits[train], labels[train])
    tight = UniversumSVC(C, gamma="scale", tol=1e-9).fit(digits[train], labels[train])
    differ = loose.predict(digits[rest]) != tight.predict(digits[rest])
    assert loose.converged_
    assert tight.converged_
    assert differ.mean() <= 1e-3


@pytest.mark.parametrize("C", [1e8, 1e10])
def test_an_optimum_that_gains_nothing_converges_however_large_C_is(C):
    """A point with both labels: rounding is large next to the gain, 0, and small next to P."""
    model = UniversumSVC(C).fit([[1.0], [1.0]], [0, 1])
    assert model.converged_
    assert model.dual_gap_ == 0.0


def test_rounding_that_hides_the_aim_and_not_the_tolerance_is_no_shortfall():
    """Of raw wine at C = 1e4 it hides a tenth of what `tol` allows for, which fits aim at."""
    wine, labels = load_wine(return_X_y=True)
    inside = labels < 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = UniversumSVC(1e4, kernel="linear", delta=0.0).fit(
            wine[inside], labels[inside], universum=wine[~inside]
        )
    gained = model.C * inside.sum() - model.objective_
    assert model.dual_gap_ <= model.tol * min(model.objective_, gained)


def test_a_gap_small_next_to_the_gain_is_too_large_for_some_labels():
    """A gap of 1e-4 of the gain, ten times as large, leaves one of these not the optimum's."""
    wine, labels = load_wine(return_X_y=True)
    models = [UniversumSVC(1.0, tol=tol) for tol in (1e-3, 1e-4, 1e-9)]
    loose, default, tight = (model.fit(wine, labels).predict(wine) for model in models)
    assert (loose != tight).any()
    np.testing.assert_array_equal(default, tight)


@pytest.mark.parametrize("solver", ["auto", "interior"])
@pytest.mark.parametrize("C", [1.0, 1e4])
def test_features_as_they_come_are_solved(C, solver):
    """Columns that differ by four orders of magnitude, and classes that can be separated."""
    wine, labels = load_wine(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = UniversumSVC(C, kernel="linear", solver=solver).fit(wine, labels)
    assert model.converged_
    assert model.n_iter_ <= 100


def test_interior_points_take_other_kernels_too():
    plain = UniversumSVC(10.0, gamma=0.1, solver="gram", tol=1e-8).fit(X, Y, universum=U)
    other = UniversumSVC(10.0, gamma=0.1, solver="interior", tol=1e-8).fit(X, Y, universum=U)
    assert other.converged_
    assert other.objective_ == pytest.approx(plain.objective_, rel=1e-7)
