"""A universum that stays where it is: the model of the arrays, certified for every point."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler

from musvm import RejectingClassifier, UniversumSVC, UniversumSVCCV, loo_error
from musvm._input import reading, streams
from musvm._input.ranges import warn_if_on_another_scale
from musvm.dual import problem as statement
from musvm.dual.problem import DualRows
from musvm.solvers import growing
from peaks import peak_memory


@contextmanager
def streaming(first: int = 40):
    """Nothing is small enough to be copied, pieces are small, and few points are taken in."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "MOST_COPIED", 0)
        patch.setattr(streams, "PIECE_ENTRIES", 700)
        patch.setattr(growing, "FIRST", first)
        yield


@pytest.fixture(scope="module")
def digits():
    """Digits 0-4 as classes; all others, in single precision, as universum."""
    X, y = load_digits(return_X_y=True)
    X /= 16.0
    return X[y < 5][:300], y[y < 5][:300], X[y >= 5].astype(np.float32)


@pytest.fixture(scope="module")
def mapped(digits, tmp_path_factory):
    path = tmp_path_factory.mktemp("maps") / "universum.npy"
    np.save(path, digits[2])
    return np.load(path, mmap_mode="r")


FORMS = {
    "a memory map": lambda U: U,
    "an array": np.array,
    "a column-major array": np.asfortranarray,
    "parts": lambda U: (U[:100], np.array(U[100:])),
    "a function": lambda U: lambda: (U[k : k + 77] for k in range(0, len(U), 77)),
    "a function of sparse pieces": lambda U: lambda: map(sp.csr_array, (U[:200], U[200:])),
    "an object": lambda U: {"first": U[:200], "second": U[200:]}.values(),
    "doubles": lambda U: U.astype(np.float64),
}


def recomputed(model: UniversumSVC, X, y, U) -> tuple[float, float]:
    """Gap and primal objective by the definitions, from the dual variables of all rows."""
    points = np.vstack([X, U]).astype(float)
    fitted = model.model_
    order = np.r_[0 : len(points)]
    rows = DualRows(
        np.searchsorted(model.classes_, y).astype(np.intp), len(model.classes_),
        fitted.caps[order], model.delta, model.universum_loss,
    )  # fmt: skip
    F = fitted.kernel.matrix(points, points) @ fitted.alpha
    return statement.gap_and_primal(rows, fitted.alpha, F)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_model_of_an_array(digits, mapped, form):
    X, y, U = digits
    options = {"C": 10.0, "gamma": 0.1, "delta": 0.3, "solver": "working-set"}
    plain = UniversumSVC(**options).fit(X, y, universum=U)
    with streaming():
        model = UniversumSVC(**options).fit(X, y, universum=FORMS[form](mapped))
    assert model.converged_
    assert abs(model.objective_ - plain.objective_) <= max(model.dual_gap_, plain.dual_gap_)
    gap, primal = recomputed(model, X, y, U)
    assert model.dual_gap_ == pytest.approx(gap, rel=1e-6)
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert model.model_.fingerprint == plain.model_.fingerprint
    n = len(model.support_)
    np.testing.assert_array_equal(model.support_vectors_[:n], X[model.support_])
    np.testing.assert_array_equal(model.support_vectors_[n:], U[model.universum_support_])


def test_all_forms_have_the_same_digits(digits, mapped):
    X, y, _ = digits
    with streaming():
        values = [
            UniversumSVC(C=10.0, gamma=0.1, delta=0.3)
            .fit(X, y, universum=form(mapped))
            .decision_function(X)
            for form in FORMS.values()
        ]
    for found in values[1:]:
        np.testing.assert_array_equal(found, values[0])


@settings(max_examples=25, deadline=None)
@given(
    kernel=st.sampled_from(["linear", "rbf", "poly"]),
    solver=st.sampled_from(["auto", "gram", "working-set"]),
    loss=st.sampled_from(["sum", "max"]),
    C=st.sampled_from([0.01, 1.0, 30.0]),
    delta=st.sampled_from([0.0, 0.1, 1.0]),
    intercept=st.booleans(),
    n_pieces=st.integers(1, 5),
    seed=st.integers(0, 2**16),
)
def test_random_problems_are_solved_for_all_points(
    kernel, solver, loss, C, delta, intercept, n_pieces, seed
):
    """Weights, copies and rows of no weight among them: the objective is that of the arrays."""
    rng = np.random.default_rng(seed)
    L, d = int(rng.integers(2, 5)), int(rng.integers(2, 7))
    y = np.arange(40) % L
    X, U = rng.normal(size=(40, d)), rng.normal(size=(60, d))
    U[:5], U[5:8] = U[10], X[:3]
    weight = rng.integers(0, 3, size=60) + np.r_[1, np.zeros(59)]
    options = {
        "kernel": kernel, "gamma": 0.3, "coef0": 1.0, "degree": 2, "C": C, "delta": delta,
        "universum_loss": loss, "fit_intercept": intercept, "solver": solver, "tol": 1e-5,
    }  # fmt: skip
    given = {"universum_sample_weight": weight}
    plain = UniversumSVC(**options).fit(X, y, universum=U, **given)
    pieces = np.array_split(U, n_pieces)
    with streaming(first=int(rng.integers(4, 60))):
        model = UniversumSVC(**options).fit(X, y, universum=lambda: iter(pieces), **given)
    assert model.converged_
    allowed = max(model.dual_gap_, plain.dual_gap_) + 1e-12 * plain.objective_
    assert abs(model.objective_ - plain.objective_) <= allowed
    gap, primal = _with_weights(model, X, y, U)
    assert model.objective_ == pytest.approx(primal, rel=1e-9)
    assert model.dual_gap_ == pytest.approx(gap, rel=1e-4, abs=1e-9 * primal)


def _with_weights(model, X, y, U) -> tuple[float, float]:
    """As `recomputed`, of the rows that have a weight."""
    kept = np.flatnonzero(model.model_.caps > 0)
    fitted, points = model.model_, np.vstack([X, U])[kept]
    rows = DualRows(
        y.astype(np.intp), len(model.classes_), fitted.caps[kept], model.delta,
        model.universum_loss,
    )  # fmt: skip
    F = fitted.kernel.matrix(points, points) @ fitted.alpha[kept]
    return statement.gap_and_primal(rows, fitted.alpha[kept], F)


def test_sparse_points_and_pieces(digits):
    X, y, U = digits
    options = {"C": 10.0, "gamma": 0.1, "delta": 0.3, "solver": "working-set"}
    plain = UniversumSVC(**options).fit(sp.csr_array(X), y, universum=sp.csr_array(U))
    with streaming():
        model = UniversumSVC(**options).fit(
            sp.csr_array(X), y, universum=lambda: [sp.csr_array(U[:99]), U[99:]]
        )
    assert sp.issparse(model.support_vectors_)
    assert abs(model.objective_ - plain.objective_) <= max(model.dual_gap_, plain.dual_gap_)
    assert model.model_.fingerprint == plain.model_.fingerprint


def test_points_within_delta_are_never_kept_but_for_a_first_sample(digits):
    """Noise, where a narrow RBF kernel vanishes: only a sample of it is ever taken."""
    X, y, _ = digits
    noise = np.random.default_rng(0).uniform(size=(5000, X.shape[1]))
    taken = []
    original = streams.StreamedRows.__getitem__

    def noted(self, rows):
        taken.append(original(self, rows))
        return taken[-1]

    with streaming(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.StreamedRows, "__getitem__", noted)
        model = UniversumSVC(C=10.0, gamma=1.0, delta=0.1).fit(X, y, universum=lambda: [noise])
    assert not len(model.universum_support_)
    # No pixel of a digit is like noise everywhere; 1,000 of them are looked at for their range.
    kept = [int((rows > 0).all(axis=1).sum()) for rows in taken]
    assert max(kept) == 1000
    assert sorted(kept)[-2] == 20
    assert len(model.support_vectors_) == len(model.support_)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.float64])
def test_a_large_map_is_never_copied(dtype, kernel, tmp_path, monkeypatch):
    m, d = 12_000, 400
    path = tmp_path / "universum.npy"
    written = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(m, d))
    rng = np.random.default_rng(0)
    written[:] = rng.integers(0, 200, size=(m, d))
    del written
    monkeypatch.setattr(streams, "MOST_COPIED", 2**20)
    # Pieces as small next to this map as they are next to a large one.
    for name in ("_input.streams.PIECE_ENTRIES", "kernels.PIECE_ENTRIES", "model.CHUNK",
                 "solvers.backends.host.CHUNK"):  # fmt: skip
        monkeypatch.setattr(f"musvm.{name}", 2**16)
    monkeypatch.setattr(growing, "FIRST", 100)
    U = np.load(path, mmap_mode="r")
    X, y = rng.integers(0, 200, size=(60, d)).astype(float), np.arange(60) % 3
    model = UniversumSVC(C=1e-4, kernel=kernel, gamma=1e-5, delta=1.5)
    with peak_memory() as peak:
        model.fit(X, y, universum=U)
        predicted, certified = model.predict(U), model.certified(U)
    assert model.converged_
    # As floats it would take 4 bytes for every entry, as doubles 8. A thousand points that are
    # looked at for their range take most of what is left.
    assert peak() < 3 * m * d, f"{peak() / (m * d):.2f} bytes for every entry"
    np.testing.assert_array_equal(predicted, model.predict(U.astype(float)))
    np.testing.assert_array_equal(certified, model.certified(U.astype(float)))


def test_a_large_map_is_not_copied_to_find_that_it_was_standardised(tmp_path, monkeypatch):
    m, d = 12_000, 400
    rng = np.random.default_rng(0)
    path = tmp_path / "universum.npy"
    np.save(path, StandardScaler().fit_transform(rng.normal(size=(m, d))))
    monkeypatch.setattr(streams, "MOST_COPIED", 2**20)
    monkeypatch.setattr(streams, "PIECE_ENTRIES", 2**16)
    X, y = rng.normal(3.0, 20.0, size=(60, d)), np.arange(60) % 3
    data = reading.read(UniversumSVC(), X, y, np.load(path, mmap_mode="r"), None, may_stream=True)
    with pytest.warns(UserWarning, match="mean 0 and deviation 1"), peak_memory() as peak:
        warn_if_on_another_scale(data)
    # All of it would take 8 bytes for every entry; the thousand rows that are looked at first, with
    # what is computed of them, take 2.
    assert peak() < 3 * m * d, f"{peak() / (m * d):.2f} bytes for every entry"


def test_an_iterator_is_refused_in_one_sentence(digits):
    X, y, U = digits
    with pytest.raises(ValueError, match=r"read only once: pass a function"):
        UniversumSVC().fit(X, y, universum=(part for part in [U]))


def test_a_function_that_gives_fewer_rows_the_next_time_is_refused(digits):
    X, y, U = digits
    calls = []

    def shrinking():
        calls.append(1)
        return [U[: 400 - 10 * len(calls)]]

    with streaming(), pytest.raises(ValueError, match=r"rows with those of X .* shuffle=False"):
        UniversumSVC(delta=0.1).fit(X, y, universum=shrinking)


OTHER_ROWS = r"gave other rows than when it was first read: .* shuffle=False"


@settings(deadline=None)
@given(data=st.data(), change=st.sampled_from(["swapped", "another value", "negated", "as it was"]))
def test_rows_that_change_between_passes_are_refused(data, change):
    """Whatever two rows change places, or whichever entry changes, from any pass on."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**16)))
    X, U = rng.normal(size=(30, 3)), rng.normal(size=(50, 3))
    later, rows = U.copy(), data.draw(st.permutations(range(50)))[:2]
    if change == "swapped":
        later[rows] = U[rows[::-1]]
    elif change == "another value":
        later[rows[0], data.draw(st.integers(0, 2))] += data.draw(st.sampled_from([1e-12, 1.0]))
    elif change == "negated":
        later[rows[0]] *= -1
    calls, n_pieces = [], data.draw(st.integers(1, 4))

    def source():
        calls.append(1)
        return iter(np.array_split(U if len(calls) == 1 else later, n_pieces))

    # An inside row that is nobody's support vector matters too: the certificate is about it.
    model = UniversumSVC(C=data.draw(st.sampled_from([0.01, 10.0])), gamma=0.5, delta=0.1)
    with streaming(first=data.draw(st.integers(4, 80))):
        if change == "as it was":
            assert model.fit(X, np.arange(30) % 3, universum=source).converged_
            return
        with pytest.raises(ValueError, match=OTHER_ROWS):
            model.fit(X, np.arange(30) % 3, universum=source)


def test_a_file_that_is_written_to_during_a_fit_is_noticed(digits, tmp_path):
    X, y, U = digits
    path = tmp_path / "universum.npy"
    np.save(path, U)
    written = np.load(path, mmap_mode="r+")
    original = streams.StreamedRows.read.__func__

    def and_then_change(cls, *arguments, **options):
        found = original(cls, *arguments, **options)
        written[17, 3] += 1
        return found

    with streaming(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams.StreamedRows, "read", classmethod(and_then_change))
        with pytest.raises(ValueError, match=OTHER_ROWS):
            UniversumSVC(delta=0.1).fit(X, y, universum=np.load(path, mmap_mode="r"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_shuffled_loader_is_refused_and_one_in_order_is_not(digits, wrapped):
    torch = pytest.importorskip("torch", reason="loaders are PyTorch's")
    X, y, U = digits

    def loader(shuffle):
        return torch.utils.data.DataLoader(torch.as_tensor(U), batch_size=50, shuffle=shuffle)

    model = UniversumSVC(C=10.0, gamma=0.1, delta=0.3)
    whole = model.fit(X, y, universum=U).objective_
    if wrapped:
        model = RejectingClassifier(model, reject_label=-1, cv=2)
    with pytest.raises(ValueError, match=OTHER_ROWS):
        model.fit(X, y, universum=loader(True))
    fitted = model.fit(X, y, universum=loader(False))
    svm = fitted.estimator_ if wrapped else fitted
    assert svm.objective_ == pytest.approx(whole, rel=1e-3)


@pytest.mark.parametrize(
    ("pieces", "message"),
    [
        (lambda: 3, r"must return an iterator over arrays"),
        (lambda: np.zeros((3, 64)), r"must return an iterator over arrays"),
        (lambda: [np.zeros(64)], r"got 1 dimension"),
        (lambda: [np.zeros((3, 5))], r"universum has 5 features, but X has 64"),
        (lambda: [np.full((3, 64), np.nan)], r"universum contains NaN"),
    ],
)
def test_wrong_pieces_are_refused(digits, pieces, message):
    X, y, _ = digits
    with pytest.raises(ValueError, match=message):
        UniversumSVC().fit(X, y, universum=pieces)


def test_a_map_with_an_infinite_entry_is_refused(digits):
    X, y, U = digits
    broken = U.copy()
    broken[-1, 3] = np.inf
    with streaming(), pytest.raises(ValueError, match=r"universum contains infinity"):
        UniversumSVC().fit(X, y, universum=broken)


def test_no_pieces_at_all_are_the_plain_machine(digits):
    X, y, _ = digits
    plain = UniversumSVC().fit(X, y)
    with pytest.warns(UserWarning, match="The universum has no points: this is a plain SVM"):
        model = UniversumSVC().fit(X, y, universum=lambda: iter([]))
    assert model.objective_ == pytest.approx(plain.objective_, abs=plain.dual_gap_)
    assert model.model_.fingerprint == plain.model_.fingerprint


def test_those_who_need_arrays_say_so(digits):
    X, y, U = digits
    for call in (
        lambda: UniversumSVCCV().fit(X, y, universum=lambda: [U]),
        lambda: loo_error(UniversumSVC().fit(X, y), X, y, universum=lambda: [U]),
    ):
        with pytest.raises(ValueError, match=r"in pieces, which only UniversumSVC\.fit takes"):
            call()


def test_leave_one_out_takes_the_array_of_a_map(digits, mapped):
    X, y, U = digits
    X, y = X[:60], y[:60]
    options = {"C": 1.0, "gamma": 0.1, "delta": 0.3, "tol": 1e-6}
    plain = UniversumSVC(**options).fit(X, y, universum=U[:80])
    with streaming():
        model = UniversumSVC(**options).fit(X, y, universum=mapped[:80])
        found = loo_error(model, X, y, universum=mapped[:80], method="span")
    assert found.error == loo_error(plain, X, y, universum=U[:80], method="span").error


def test_entries_that_are_stored_in_two_parts_stay_so_while_labels_are_certified(digits):
    X, y, _ = digits
    model = UniversumSVC(kernel="linear", tol=1e-2).fit(X, y)
    once = sp.csr_array(X)
    halves = np.repeat(0.5 * once.data, 2), np.repeat(once.indices, 2), 2 * once.indptr
    twice = sp.csr_array(halves, shape=X.shape)
    np.testing.assert_array_equal(model.certified(twice), model.certified(X))
    assert twice.nnz == 2 * once.nnz
