"""`loo_error`: leave-one-out for a fitted estimator and the data it was fitted on.

The model's dual problem is stated once more, on single rows: where `fit` merges copies of a row
into one block of the dual, leaving out one copy must leave the others. Its solution on single rows
is the fitted one, each block shared out in proportion to the caps of its rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from musvm._input import reading, tensors
from musvm._input.reading import FitData
from musvm._input.tensors import FloatArray, IntArray
from musvm._messages import instead_of
from musvm._progress import Progress
from musvm.dual.decisions import own_margins, winning_leads
from musvm.dual.problem import DualProblem
from musvm.dual.solution import DualSolution, solution_of
from musvm.estimator import UniversumSVC
from musvm.loo.estimate import is_singular
from musvm.loo.evaluate import LeaveOneOutResult, evaluate
from musvm.model import FittedModel, OtherDataError
from musvm.solvers.by_turns import FACE_TOL, solve_with_gram

# Rounds for the last digits of a solution, and how far above rounding these may be.
MOST_ROUNDS, ABOVE_ROUNDING = 60, 10.0
# Parameters of an estimator that its fitted model holds as they are.
OF_THE_PROBLEM = ("kernel", "degree", "coef0", "delta", "universum_loss")


def loo_error(
    fitted: Any,
    X: Any,
    y: Any,
    universum: Any = None,
    *,
    method: str = "span",
    max_radius: float = np.inf,
    verbose: int = 0,
) -> LeaveOneOutResult:
    """Leave-one-out error of a fitted model, on the data it was fitted on.

    Every training point is left out once, and counts as an error if the model trained without it
    would misclassify it. Universum points are never left out.

    Parameters
    ----------
    fitted : UniversumSVC
        The fitted model, or a fitted search whose `best_estimator_` it is.

    X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
        The `X` of its `fit`: its numbers, dense, sparse or a tensor. Other data is refused.

    y : array-like of shape (n_samples,)
        The `y` of its `fit`.

    universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of such \
arrays, default=None
        The `universum` of its `fit`.

    method : {'span', 'span-2016', 'loo-estimate', 'loo'}, default='span'
        How the error is found, from the cheapest to the exact one. **The default is a bound, and
        no error**: take 'loo-estimate' or 'loo' to learn how good a model is.

        'span' and 'span-2016' bound it without predicting anything: a support vector counts as an
        error if it depends too little on the others. They assume that leaving out a point changes
        no other point's type, which rarely holds: on labels drawn at random they say anything from
        0 to 37 % where the truth is 90 %. 'span-2016' also counts every support vector at its bound
        as an error. They may rank models.

        'loo-estimate' predicts every point after a linear correction of the model. Where support
        vectors depend on each other the last digits of the solution are computed first: the
        correction depends on which variables are free. A search judges its cells as they are.

        'loo' is the exact error. Its predictions are those of models trained without the point,
        and proven to be; few of these models have to be trained to the end.

    max_radius : float, default=inf
        For 'loo': go on until differences of the left-out decision values are known within this
        radius. By default only the labels are made certain, which is sooner done.

    verbose : int, default=0
        1 shows the progress of 'loo'.

    Returns
    -------
    result : LeaveOneOutResult
        With attributes `error`, which for the spans is a bound, `predictions`, `decision_values`,
        `margins`, `types` and others. There is one entry for every training point, in the order of
        `X`, rows of `universum_label` skipped. In `types` the universum points follow. Points of
        zero weight have the model's own predictions and do not count in the error.

    See Also
    --------
    UniversumSVCCV : Chooses parameters by these errors.

    Notes
    -----
    A point of weight 2 is left out as a whole; of two equal rows one is left out.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from musvm import UniversumSVC, loo_error
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = UniversumSVC(C=10).fit(X, y)
    >>> result = loo_error(clf, X, y, method="loo")
    >>> round(result.error, 3), bool(result.certified.all())
    (0.04, True)
    >>> y[result.predictions != y], result.predictions[result.predictions != y]
    (array([1, 1, 1, 1, 2, 2]), array([2, 2, 2, 2, 1, 1]))
    """
    model = getattr(fitted, "best_estimator_", fitted)
    if not isinstance(model, UniversumSVC):
        raise TypeError(
            "loo_error needs a fitted UniversumSVC, got "
            f"{type(model).__name__}. {instead_of(model)}"
        )
    check_is_fitted(model)
    data = _same_data(model, X, y, universum)
    problem, solution = _restate(model, data)
    if method == "loo-estimate":
        solution = _with_its_face(problem, solution)
    with Progress("Leaving out", verbose=verbose) as progress:

        def advance(done: int, total: int) -> None:
            progress.total = total
            progress.update(done - progress.done)

        result = evaluate(problem, solution, method, callback=advance, max_radius=max_radius)
    return _for_the_caller(model.model_, data, result)


def _same_data(estimator: UniversumSVC, X: Any, y: Any, universum: Any) -> FitData:
    X, y, universum = map(tensors.to_host, (X, y, universum))
    data = reading.read(estimator, X, y, universum, None, reset=False)
    if estimator.universum_weight == 0:  # the fit has ignored a universum, and so it may be absent
        data = data.of_X
    if not estimator.model_.is_of(data):
        raise OtherDataError(
            "loo_error needs the X, y and universum that the model was fitted on, with the rows "
            "in the same order",
            estimator.model_.difference_from(data),
        )
    return data


def _restate(estimator: UniversumSVC, data: FitData) -> tuple[DualProblem, DualSolution]:
    """The dual problem on single rows, and the fitted solution of it."""
    model = estimator.model_
    kernel = model.kernel
    fitted = kernel.name, kernel.degree, kernel.coef0, model.delta, model.universum_loss
    if fitted != tuple(getattr(estimator, name) for name in OF_THE_PROBLEM):
        raise ValueError("The parameters of the model were changed after it was fitted; fit again.")
    stated = model.problem_on(data)
    problem = stated.with_gram()
    return problem, solution_of(problem, model.alpha[stated.rows], tol=estimator.tol)


def _with_its_face(problem: DualProblem, solution: DualSolution) -> DualSolution:
    """The solution with the free variables of the optimum, which the estimate lets answer.

    Where support vectors depend on each other, a model whose decision values are right to three
    digits may have others, which make up for any point left out: on random labels of ten classes
    the estimate was 12 % so, and is 97.
    """
    small = max(FACE_TOL, ABOVE_ROUNDING * solution.hidden_gap)
    if solution.relative_gap <= small or not is_singular(problem.gram, solution.alpha):
        return solution
    exact = solve_with_gram(problem, alpha=solution.alpha, tol=small, max_iter=MOST_ROUNDS)
    return min(exact, solution, key=lambda one: one.gap)


def _for_the_caller(
    model: FittedModel, data: FitData, result: LeaveOneOutResult
) -> LeaveOneOutResult:
    """The result for all rows of `fit`, in their order and with the caller's labels."""
    rows = model.rows_of(data)
    training = np.flatnonzero(data.is_training)
    order = np.concatenate([training, np.flatnonzero(~data.is_training)])
    types = np.zeros(len(order), dtype=np.intp)
    types[rows] = result.types
    unused = np.setdiff1d(training, rows)
    place = np.searchsorted(training, unused) - np.arange(len(unused))

    def completed(found: Any, of_unused: Any) -> Any:
        return None if found is None else np.insert(found, place, of_unused, axis=0)

    values, radius = _as_fitted(model, data, unused)
    F = completed(result.decision_values, values)
    predictions = completed(result.predictions, values.argmax(axis=1))
    return replace(
        result,
        types=types[order],
        margins=completed(result.margins, own_margins(values, data.codes[unused])),
        predictions=None if predictions is None else data.classes[predictions],
        decision_values=F[:, 1] - F[:, 0] if F is not None and len(data.classes) == 2 else F,
        radius=completed(result.radius, radius),
        certified=completed(result.certified, winning_leads(values) >= radius),
        n_without_resolve=_plus(result.n_without_resolve, len(unused)),
    )


def _plus(count: int | None, more: int) -> int | None:
    return None if count is None else count + more


def _as_fitted(model: FittedModel, data: FitData, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Decision values of rows that take no part in the fit, and what is certain about them."""
    if not len(rows):
        return np.empty((0, len(data.classes))), np.empty(0)
    points = data.X[rows]
    diagonal = (
        points[np.arange(len(rows)), rows]
        if model.kernel.is_precomputed
        else (model.kernel.diagonal(points))
    )
    return model.decision_values(points), model.radii(diagonal)
