"""What a kernel of low rank costs: where the optimum of the exact one must be.

Nystroem's method maps points to a few hundred features z(x), and the linear machine on these is
the machine of the kernel k'(x, x') = <z(x), z(x')>. Its duality gap certifies the optimum of this
*approximate* problem. With K' and K the two kernel matrices,

    E = K - K'  is positive semi-definite,    D(alpha) = D'(alpha) + 1/2 <alpha, E alpha>,

since K' is a projection of K, and no constraint of the dual depends on the kernel. So D is nowhere
below D', and the dual variables alpha' of the approximate solution are feasible for both. Between
its objective P' and its gap that leaves the exact optimum P* no other place than

    P' - gap' - 1/2 <alpha', E alpha'>   <=   P*   <=   P'.

The last term is the cost of the approximation, at most. Only support vectors have a share in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted

from musvm._input import reading
from musvm._input.tensors import FloatArray, IntArray
from musvm._sklearn import safe_indexing
from musvm.estimator import UniversumSVC
from musvm.kernels import PIECE_ENTRIES

# Features of the same points, computed twice, differ by rounding alone.
_SAME = 1e-6


@dataclass(frozen=True)
class ApproximationCost:
    """What `approximation_cost` found.

    Attributes
    ----------
    objective : float
        Of the model, P': no less than the optimum of the exact kernel.
    lower_bound : float
        The optimum of the exact kernel is no less than this.
    cost : float
        The share of the approximation in the difference, 1/2 <alpha, E alpha>; the rest is the
        duality gap.
    residual : float
        Share of the trace of the kernel matrix, over the support vectors, that the features leave
        out: 0 where they hold the whole kernel.
    """

    objective: float
    lower_bound: float
    cost: float
    residual: float

    @property
    def relative(self) -> float:
        """How far the objective may be from the exact optimum, relative to the objective."""
        return (self.objective - self.lower_bound) / self.objective


def approximation_cost(pipeline: Any, X: Any, universum: Any = None) -> ApproximationCost:
    """Bound the optimum of the exact kernel from a fit with Nystroem's features.

    Parameters
    ----------
    pipeline : Pipeline
        Fitted; its last two steps are a :class:`sklearn.kernel_approximation.Nystroem` and a
        :class:`UniversumSVC` with a linear kernel, as :func:`make_universum_pipeline` makes it.

    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        The training points of its fit.

    universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of such \
arrays, default=None
        The universum of its fit, if it had one.

    Returns
    -------
    cost : ApproximationCost
        The bounds, and what share of the kernel the features leave out.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.kernel_approximation import Nystroem
    >>> from musvm import UniversumSVC, approximation_cost, make_universum_pipeline
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= 16
    >>> X, y, U = X[y < 5][:500], y[y < 5][:500], X[y >= 5][:500]
    >>> features = Nystroem(gamma=0.05, n_components=300, random_state=0)
    >>> model = make_universum_pipeline(features, UniversumSVC(kernel="linear", delta=0.1))
    >>> found = approximation_cost(model.fit(X, y, universum=U), X, universum=U)
    >>> exact = UniversumSVC(gamma=0.05, delta=0.1, tol=1e-6).fit(X, y, universum=U)
    >>> bool(found.lower_bound <= exact.objective_ <= found.objective)
    True
    """
    features, model = _last_steps(pipeline)
    points = _support_points(model, X, universum)
    for _, step in pipeline.steps[:-2]:
        points = points if step in (None, "passthrough") else step.transform(points)
    Z, alpha = model.support_vectors_, model.dual_coef_.T
    if not np.allclose(features.transform(points), Z, atol=_SAME):
        raise ValueError("These are not the data that the pipeline was fitted to.")
    cost, lost, trace = 0.0, 0.0, 0.0
    step = max(PIECE_ENTRIES // max(len(Z), 1), 1)
    for start in range(0, len(Z), step):
        part = slice(start, start + step)
        K = _exact_kernel(features, safe_indexing(points, np.arange(len(Z))[part]), points)
        E = K - Z[part] @ Z.T
        cost += 0.5 * float(np.sum(alpha[part] * (E @ alpha)))
        lost += float(np.trace(E[:, part]))
        trace += float(np.trace(K[:, part]))
    cost = max(cost, 0.0)
    lower_bound = model.objective_ - model.dual_gap_ - cost
    return ApproximationCost(
        model.objective_, lower_bound, cost, max(lost / trace, 0.0) if trace else 0.0
    )


def _last_steps(pipeline: Any) -> tuple[Nystroem, UniversumSVC]:
    steps = [step for _, step in getattr(pipeline, "steps", [])][-2:]
    if [type(step) for step in steps] != [Nystroem, UniversumSVC] or steps[1].kernel != "linear":
        raise ValueError(
            "approximation_cost needs a pipeline that ends with Nystroem and "
            "UniversumSVC(kernel='linear')."
        )
    check_is_fitted(steps[1])
    if steps[0].kernel == "precomputed":
        raise ValueError("approximation_cost needs a kernel that is not precomputed.")
    return steps[0], steps[1]


def _support_points(model: UniversumSVC, X: Any, universum: Any) -> Any:
    """The support vectors as they were before all steps, in the order of the model's."""
    fitted = model.model_
    start = fitted.universum_start or None
    parts = [X, *reading.universum_parts(universum)]
    lengths = [reading.n_rows(part) for part in parts]
    expected = len(fitted.caps), len(fitted.caps) if start is None else start
    if (sum(lengths), lengths[0]) != expected:
        raise ValueError("These are not the data that the pipeline was fitted to.")
    return _rows_of(parts, np.cumsum([0, *lengths]), fitted.support)


def _rows_of(parts: list[Any], starts: IntArray, rows: IntArray) -> Any:
    """Rows of parts that lie on top of each other, as doubles."""
    found: FloatArray | None = None
    for part, start, stop in zip(parts, starts, starts[1:], strict=False):
        here = np.flatnonzero((rows >= start) & (rows < stop))
        taken = safe_indexing(part, rows[here] - start)
        dense = taken.toarray() if hasattr(taken, "toarray") else np.asarray(taken, dtype=float)
        if found is None:
            found = np.empty((len(rows), dense.shape[1]))
        found[here] = dense
    return found


def _exact_kernel(features: Nystroem, X: Any, Z: Any) -> FloatArray:
    names = ("gamma", "degree", "coef0")
    given = {name: getattr(features, name) for name in names}
    options = dict(features.kernel_params or {}) | {
        name: value for name, value in given.items() if value is not None
    }
    K: FloatArray = pairwise_kernels(X, Z, metric=features.kernel, filter_params=True, **options)
    return K
