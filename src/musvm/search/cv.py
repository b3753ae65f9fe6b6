"""`UniversumSVCCV`: chooses the parameters of a `UniversumSVC`."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state
from sklearn.utils.validation import column_or_1d

from musvm._input import reading, tensors
from musvm._input.blocks import Blocks, merge
from musvm._input.mistakes import warn_of_universum
from musvm._input.reading import FitData
from musvm._input.weights import balanced_weight, row_caps
from musvm._messages import warn_user
from musvm._progress import Progress
from musvm._sklearn import (
    CallbackSupportMixin,
    FitEvents,
    Interval,
    StrOptions,
    all_or_nothing,
    fit_context,
    validate_parameter_constraints,
)
from musvm._threads import one_blas_thread
from musvm.dual.problem import UniversumLoss
from musvm.estimator import PARAMETER_CONSTRAINTS, ModelMethods, UniversumSVC
from musvm.kernels import KERNELS_WITH_GAMMA, Kernel, resolve_gamma
from musvm.loo.methods import METHODS
from musvm.model import FittedModel
from musvm.search.cells import CellFit, Options
from musvm.search.comparison import Comparison
from musvm.search.hints import hints
from musvm.search.leaks import is_made_of_training_points
from musvm.search.memory import CellStore
from musvm.search.pool import Pool
from musvm.search.rule import best_plain, best_with_universum, ranked_by
from musvm.search.run import Cell, Runner
from musvm.search.scale import DELTAS, default_Cs, default_weights
from musvm.search.scoring import FoldScorer
from musvm.search.sources import Grams, PointSources, Sources
from musvm.search.steps import Fold, Grid, Steps
from musvm.search.table import as_cv_results, as_table
from musvm.solvers.choose import GRAM_LIMIT, stays_on_device

# Matrices of all points that a named criterion holds at the same time.
N_MATRICES = 3


class UniversumSVCCV(ModelMethods, CallbackSupportMixin, BaseEstimator):
    """`UniversumSVC` that chooses its parameters itself.

    The search takes three steps. Step (a) chooses C and the kernel's `gamma` for the plain SVM,
    step (b) another C for the SVM with universum, and step (c) its C*/C and `delta`, for that C
    and its neighbours. The best
    plain SVM and the best SVM with universum are then compared on points that are left out, and
    one of them is chosen: `comparison_` has the two side by side, and `best_estimator_` is the
    chosen one, fitted to all data.

    By default nothing is resampled: every cell is judged by an estimate of its leave-one-out
    error that costs about as much as a fit.

    Parameters
    ----------
    Cs : array-like of float or None, default=None
        Values of C; positive. None takes seven, from 0.1 / s to 100 / s, where s is the mean
        squared distance of the training points from their mean in the space of the kernel.

    kernel : {'linear', 'poly', 'rbf', 'sigmoid', 'precomputed'} or callable, default='rbf'
        The kernel, as in `UniversumSVC`.

    gammas : array-like of float, 'scale' or 'auto', default=('scale',)
        Values of `gamma` for 'rbf', 'poly' and 'sigmoid'. 'scale' is resolved on all training
        points, in cross-validation as well.

    degree : int, default=3
        Degree of 'poly'.

    coef0 : float, default=0.0
        Constant term of 'poly' and 'sigmoid'.

    deltas : array-like of float, default=(0, 0.1, 0.3)
        Values of `delta`.

    universum_weights : array-like of float or 'balanced', or None, default=None
        Values of C*/C. None takes 0.03, 0.1, 0.3 and 1 times 'balanced', n / (m L).

    universum_loss : {'sum', 'max'}, default='sum'
        As in `UniversumSVC`.

    universum_label : str, int, float, bool or None, default=None
        Label in `y` that marks universum rows.

    class_weight : dict, 'balanced' or None, default=None
        Factors of C by class.

    criterion : {'span', 'span-2016', 'loo-estimate', 'loo'}, int or splitter, \
default='loo-estimate'
        What judges a cell. The four names are methods of `loo_error`: two bounds on the
        leave-one-out error, an estimate of it, and the error itself. They need the kernel matrix
        of all points. An integer is a number of stratified folds. A splitter, or a list of
        splits, sees training points only; every universum point is in every training part.

    cv : int, splitter or None, default=None
        Folds in place of `criterion`, whatever that is, under the name that scikit-learn's searches
        use.

    scoring : str, callable or None, default=None
        What folds are scored by in place of errors, as in scikit-learn's searches: a name such as
        'balanced_accuracy', or a function of an estimator, points and labels. It sees the labelled
        points that a fold leaves out, each counted once, and a model that has `predict`,
        `decision_function` and `classes_`. Needs folds.

    n_steps : {1, 2, 3}, default=3
        1 searches all parameters at once. 2 takes the paper's steps: the SVM with universum has
        the C of the plain one. 3 gives it a C of its own.

    cache_size : float, default=4000
        Largest size of kernel matrices and kernel caches, of all workers together, in MB. The
        four named criteria hold three matrices of all points and are refused where these do not
        fit; folds of more than 3000 points are fitted as `UniversumSVC` fits them, with a cache.

    tol : float, default=1e-4
        Relative duality gap of every fit, as of `UniversumSVC`. Unless rounding is in the way,
        fits stop at a tenth of the gain times `tol`, and at a thousandth where points are left
        out one by one: estimates ask which variables are free.

    max_iter : int, default=1000
        Largest number of rounds of the solver for each fit.

    n_jobs : int or None, default=None
        Number of workers, by joblib: None is 1 unless a `joblib.parallel_config` says otherwise,
        -1 is all cores. The results do not depend on it, nor on the backend. Folds of many tensors,
        unless the kernel is linear, are fitted where these are, one after the other.

    memory : str, path or None, default=None
        Directory for finished cells. A search that was interrupted continues where it was if it
        is started again with the same directory, data and parameters.

    random_state : int, RandomState instance or None, default=None
        Order in which the solver visits the points. None is a fixed order as well.

    verbose : int, default=0
        1 shows a progress bar if the search takes more than a few seconds. It counts tasks: for
        every cell a fit and its judgement, or a fit for each fold.

    Attributes
    ----------
    best_estimator_ : UniversumSVC
        The model with the chosen parameters, fitted to all data.

    best_params_ : dict
        The chosen parameters of `UniversumSVC`. If the plain SVM won, `universum_weight` is 0.

    best_score_ : float
        Error of the chosen model: the share of training points, by weight, that are
        misclassified when they are left out. Smaller is better, unlike the `best_score_` of
        scikit-learn's searches: that is 1 minus this, as in `cv_results_`. It is
        `comparison_.chosen.error`.
        With `scoring`, its mean score over the folds, `comparison_.chosen.score`: larger is better.

    comparison_ : Comparison
        The best models without and with universum: `plain` and `universum`, each with its
        `params`, `error` and `soft_error`; the `difference` of the errors and its
        `standard_error`; the `soft_difference` of the soft errors and its `soft_standard_error`,
        which decide; the `criterion` that judged both, in words; the rows that only one of
        them gets right, `gained` and `lost`; `uses_universum`, and the `decision` in a sentence.
        `plot` draws the margins of the points when left out, and `as_dict` has all figures as
        plain numbers.

    hints_ : list of str
        What to know before trusting the result: that the choice is optimistic, which classes
        have a single point, and which parameters sit on the edge of what was tried.

    best_index_ : int
        Row of the chosen cell in `results_`.

    results_ : dict of ndarray
        One column per entry, one row per cell; ``pandas.DataFrame(search.results_)`` is a table.
        `step` is 'a' without universum and 'b' with it, whether step (b) or (c) has tried the
        cell. `criterion` is the share of points that
        the criterion counts; where that is an error and no bound, it is the `error`, and
        `soft_error` ranks the cells. `hinge` is the mean hinge loss of the left-out margins.
        `relative_gap`, `converged`, `n_iter` and
        `seconds` tell of the fits, the worst or the sum where there are several folds.
        `n_type_1` and `n_type_2` count training support vectors inside their bounds and at their
        bound, `n_universum_type_1` and `n_universum_type_2` those of the universum, on average
        over the folds. `params` are the parameters of `UniversumSVC`. With `scoring`, `score` is
        the mean of the folds, and ranks the cells.

    cv_results_ : dict
        The same cells under the names of scikit-learn's searches, those of every split among
        them. A score is what `scoring` says, or else 1 minus the error: larger is better. Cells are
        ranked by `mean_test_score` with `scoring`, and by `mean_test_soft_error` without, or by
        `mean_test_bound` where `criterion` is a span: `rank_test_score` is their rank by it.

    left_out_margins_ : ndarray of shape (n_cells, n_points)
        :math:`f_y(x) - \\max_{l \\ne y} f_l(x)` of the points left out, as the criterion sees
        it, for every row of `results_`.

    left_out_rows_ : ndarray of shape (n_points,)
        Rows of `X` that these points are: all training points for the four named criteria, the
        test points of one split after the other otherwise.

    left_out_errors_ : ndarray of bool of shape (n_cells, n_points)
        Whether the criterion counts the point as an error.

    universum_helps_ : bool
        Whether the chosen model uses the universum. `comparison_` tells how much it gains by it
        on the points left out, and how sure that is.

    classes_ : ndarray of shape (n_classes,)
        The class labels, sorted.

    n_iter_ : int
        Rounds of the solver for `best_estimator_`.

    n_features_in_ : int
        Number of features seen in `fit`.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where `X` has names that are all strings.

    See Also
    --------
    UniversumSVC : The model.
    UniversumSplit : For searches with scikit-learn's own tools.

    Notes
    -----
    **The rule.** A point that is left out with margin m has the soft error 1 / (1 + exp(2 m)).
    Cells are ranked by their mean; of equal ones without universum the smallest C is taken, of
    those with it the largest C*/C, then the smallest `delta`. The universum is used if it lowers
    both the soft error and the error, or the soft error by more than half a standard error of the
    difference. A span ranks cells by its own count, and the two finalists are judged by
    'loo-estimate', or by 5-fold cross-validation where that is faster.

    **Equal points are left out together.** Rows with the same features and label count as one
    point, of their summed weight, for the four named criteria. Otherwise a copy would answer for
    the point left out. So a row of weight 2 and the same row twice give the same search.

    **Clusters.** Inside ``with joblib.parallel_config(backend="dask")``, or any other backend
    that joblib knows, the cells are computed there. Every task uses one BLAS thread, which makes
    the results the same to the last digit on processors of one kind.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from musvm import UniversumSVCCV
    >>> X, y = load_digits(return_X_y=True)
    >>> X /= 16
    >>> classes, universum = y < 4, X[y >= 4][:100]
    >>> X, y = X[classes], y[classes]
    >>> search = UniversumSVCCV([1, 10, 100], gammas=[1 / 32, 1 / 8], criterion=5)
    >>> search.fit(X[:60], y[:60], universum=universum).best_params_["C"]
    10.0
    >>> search.comparison_.uses_universum
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{
            name: PARAMETER_CONSTRAINTS[name]
            for name in (
                "kernel", "degree", "coef0", "universum_loss", "universum_label", "class_weight",
                "cache_size", "tol", "max_iter", "random_state", "verbose",
            )
        },
        "Cs": ["array-like", None],
        "gammas": ["array-like"],
        "deltas": ["array-like"],
        "universum_weights": ["array-like", None],
        "criterion": [StrOptions(set(METHODS)), "cv_object"],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "n_steps": [Interval(Integral, 1, 3, closed="both")],
        "n_jobs": [Integral, None],
        "memory": [str, os.PathLike, None],
    }  # fmt: skip

    __metadata_request__fit: ClassVar[dict[str, bool]] = {
        "universum": True,
        "universum_sample_weight": True,
    }

    def __init__(
        self,
        Cs: Any = None,
        *,
        kernel: Any = "rbf",
        gammas: Any = ("scale",),
        degree: int = 3,
        coef0: float = 0.0,
        deltas: Any = DELTAS,
        universum_weights: Any = None,
        universum_loss: UniversumLoss = "sum",
        universum_label: Any = None,
        class_weight: Any = None,
        criterion: Any = "loo-estimate",
        cv: Any = None,
        scoring: Any = None,
        n_steps: int = 3,
        cache_size: float = 4000.0,
        tol: float = 1e-4,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        memory: str | os.PathLike[str] | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.Cs = Cs
        self.kernel = kernel
        self.gammas = gammas
        self.degree = degree
        self.coef0 = coef0
        self.deltas = deltas
        self.universum_weights = universum_weights
        self.universum_loss = universum_loss
        self.universum_label = universum_label
        self.class_weight = class_weight
        self.criterion = criterion
        self.cv = cv
        self.scoring = scoring
        self.n_steps = n_steps
        self.cache_size = cache_size
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.memory = memory
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = self.kernel == "precomputed"
        tags.input_tags.sparse = self.kernel != "precomputed"
        return tags

    # -----------------------------------------------------------------------------------------
    # Fitting

    @fit_context(prefer_skip_nested_validation=True)
    @all_or_nothing
    def fit(
        self,
        X: Any,
        y: Any,
        universum: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        universum_sample_weight: Any = None,
    ) -> UniversumSVCCV:
        """Search, and fit the model that wins.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features) or (n_samples, n_samples)
            Training points, and universum points where `universum_label` marks them. The square
            kernel matrix of all of them if `kernel` is 'precomputed'.

        y : array-like of shape (n_samples,)
            Labels: numbers, strings or booleans.

        universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of \
such arrays, default=None
            Points of no class. None leaves out steps (b) and (c), and so do no rows at all, with
            a warning.

        sample_weight : array-like of shape (n_samples,), default=None
            Factors of C for the rows of X, universum rows included, and of their weight in the
            criterion. A row of weight 0 is left out.

        groups : array-like of shape (n_samples,), default=None
            Groups of the rows of X, for splitters that keep them together.

        universum_sample_weight : array-like of shape (m,), or a tuple of such arrays, default=None
            Weights of the rows of `universum`: factors of C*. A row of weight 0 is left out.

        Returns
        -------
        self : UniversumSVCCV
            The fitted search.
        """
        groups = tensors.to_host(groups)
        data = self._read(X, y, universum, sample_weight, universum_sample_weight)
        precomputed = self.kernel == "precomputed"
        warn_of_universum(data, X, universum, precomputed=precomputed)
        # Blocks do not depend on the universum's weight, as long as it is positive.
        caps = row_caps(data, 1.0, self.class_weight, 1.0)
        blocks = merge(data, caps, equal_rows=not precomputed)
        grid, folds = self._grid(data, blocks), self._folds(data, groups)
        events = FitEvents(self, X, y, None)
        with (
            one_blas_thread(),
            Pool(self._n_jobs(data)) as pool,
            self._progress(grid, folds, events) as progress,
        ):
            method = self._judge if folds is None else None
            runner = Runner(self._options(), method, pool, CellStore(self.memory), progress)
            sources = self._sources(data, blocks, folds)
            steps = Steps(
                grid, data, blocks, self.class_weight, self.universum_loss, folds, sources, runner,
                self._scorer(data, folds),
            )  # fmt: skip
            cells = self._search(steps)
            self._describe(cells, grid)
            is_leak = not precomputed and is_made_of_training_points(data, blocks)
            self._choose(cells, steps, data, is_leak=is_leak)
            best = cells[self.best_index_]
            fit = steps.final(best)
            progress.total = progress.done
            events.end()
        self.classes_ = data.classes
        self.best_estimator_ = self._model(data, blocks, grid.kernels[best.spec.kernel], fit)
        self.n_iter_ = self.best_estimator_.n_iter_
        return self

    def _read(self, X: Any, y: Any, universum: Any, *weights: Any) -> FitData:
        """All rows, on the device of X where that is a tensor and folds are fitted there."""
        if tensors.is_tensor(X) and not isinstance(self._judge, str):
            parts = [X, *reading.universum_parts(universum)]
            n_points = sum(map(reading.n_rows, parts))
            # Cells of a linear kernel share no matrix that would be worth keeping there.
            if self.kernel != "linear" and stays_on_device(X, n_points, self.kernel, "auto"):
                from musvm._input import on_device

                return on_device.read(self, X, y, universum, *weights)
        on_host = map(tensors.to_host, (X, y, universum, *weights))
        return reading.read(self, *on_host)

    def _progress(self, grid: Grid, folds: list[Fold] | None, events: FitEvents) -> Progress:
        """What shows how many tasks are done, and tells it to callbacks."""
        # With folds, all of them and the final fit; otherwise a fit and a judgement of each cell.
        n_cells = self._n_cells(grid)
        n_tasks = 2 * n_cells if folds is None else n_cells * len(folds) + 1

        def follow(done: int) -> None:
            events.step("task", n_done=done)

        return Progress("Search", n_tasks, verbose=self.verbose, follow=follow, unit="tasks")

    def _n_jobs(self, data: FitData) -> int | None:
        """One after the other on a device, whose memory and time are one fit's at a time."""
        return 1 if tensors.is_tensor(data.X) else self.n_jobs

    def _search(self, steps: Steps) -> list[Cell]:
        """The cells of all steps, plain ones first."""
        grid, column = steps.grid, ranked_by(self._judge, self.scoring)
        plain: list[Cell] = []
        universum: list[Cell] = []
        for kernels in steps.batches(effective_n_jobs(self.n_jobs)):
            found = steps.without_universum(kernels)
            plain += found
            if self.n_steps == 1:
                universum += steps.with_universum(found, grid.all_but({}))
        if self.n_steps > 1 and grid.weights:
            best = plain[best_plain(as_table(plain, grid, self._judge), column)]
            done, starts = {}, [best]
            if self.n_steps == 3:
                same = [cell for cell in plain if cell.spec.kernel == best.spec.kernel]
                done, universum = grid.probe, steps.with_universum(same, grid.probe)
                row = best_with_universum(as_table(universum, grid, self._judge), column)
                assert row is not None
                around = grid.around(universum[row].spec)
                starts = [cell for cell in same if cell.spec.C in around]
            universum += steps.with_universum(starts, grid.all_but(done))
        return plain + steps.in_order(universum)

    def _describe(self, cells: list[Cell], grid: Grid) -> None:
        """Set the attributes that tell of all cells, and say if some are unfinished."""
        self.results_ = as_table(cells, grid, self._judge)
        self.left_out_rows_ = cells[0].rows
        self.left_out_margins_ = np.array([cell.margins[cell.judge_of_row] for cell in cells])
        self.left_out_errors_ = np.array([cell.wrong[cell.judge_of_row] for cell in cells])
        n_unfinished = int(np.sum(~self.results_["converged"]))
        if n_unfinished:
            warn_user(
                f"{n_unfinished} of {len(cells)} cells did not reach tol={self.tol:g}; the "
                f"largest relative duality gap is {self.results_['relative_gap'].max():.1e}: raise "
                "max_iter, scale the features, or loosen tol.",
                ConvergenceWarning,
            )

    def _choose(self, cells: list[Cell], steps: Steps, data: FitData, *, is_leak: bool) -> None:
        """Compare the finalists, choose one and set the attributes that tell of it."""
        results, column = self.results_, ranked_by(self._judge, self.scoring)
        found = best_plain(results, column), best_with_universum(results, column)
        rows = [row for row in found if row is not None]
        opinion = steps.opinion([cells[row] for row in rows], self._judge)
        params = [results["params"][row] for row in rows]
        scores = None if self.scoring is None else results["score"][rows].tolist()
        was_given = not bool(data.is_training.all())
        self.comparison_ = Comparison.of(
            opinion, rows, params, is_void=is_leak, was_given=was_given, scores=scores
        )
        for finalist in (self.comparison_.plain, self.comparison_.universum):
            if finalist is not None:
                results["error"][finalist.index] = finalist.error
                results["soft_error"][finalist.index] = finalist.soft_error
        chosen = self.comparison_.chosen
        self.best_index_, self.best_params_ = chosen.index, chosen.params
        self.best_score_ = chosen.error if chosen.score is None else chosen.score
        self.universum_helps_ = self.comparison_.uses_universum
        self.cv_results_ = as_cv_results(cells, results, column)
        self.hints_ = hints(results, self.comparison_, steps.grid, data)

    def _model(self, data: FitData, blocks: Blocks, kernel: Kernel, fit: CellFit) -> UniversumSVC:
        """The chosen cell as an estimator, as if fitted by itself."""
        model = UniversumSVC(
            kernel=self.kernel,
            degree=self.degree,
            coef0=self.coef0,
            universum_loss=self.universum_loss,
            universum_label=self.universum_label,
            class_weight=self.class_weight,
            tol=self.tol,
            max_iter=self.max_iter,
            random_state=self._options().seed,
            **self.best_params_,
        )
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(model, name, getattr(self, name))
        alpha = np.zeros((len(blocks.rows), len(data.classes)))
        alpha[: len(fit.alpha)] = fit.alpha
        model.model_ = FittedModel.of(
            kernel,
            data,
            row_caps(data, model.C, self.class_weight, model.universum_weight),
            blocks.shared_out(alpha),
            fit,
            delta=model.delta,
            universum_loss=self.universum_loss,
        )
        return model

    # -----------------------------------------------------------------------------------------
    # What to search

    def _grid(self, data: FitData, blocks: Blocks) -> Grid:
        n = len(blocks.y)
        balanced = balanced_weight(
            data.weight[data.is_training].sum(),
            data.weight[~data.is_training].sum(),
            len(data.classes),
        )
        weights = default_weights(balanced)
        if self.universum_weights is not None:
            weights = self._values("universum_weights", "universum_weight")
        has_gamma = self.kernel in KERNELS_WITH_GAMMA
        gammas = self._values("gammas", "gamma")
        given = list(dict.fromkeys(gammas)) if has_gamma else [1.0]
        X, weight = tensors.take(data.X, blocks.rows[:n]), blocks.total(data.weight)[:n]
        kernels = [
            Kernel(self.kernel, resolve_gamma(gamma, X, weight), self.degree, self.coef0)
            for gamma in given
        ]
        Cs = None if self.Cs is None else sorted(set(self._values("Cs", "C")))
        has_universum = len(blocks.rows) > n
        return Grid(
            kernels=kernels,
            gammas=given if has_gamma else None,
            Cs=[default_Cs(kernel, data, blocks) if Cs is None else Cs for kernel in kernels],
            weights=[w for w in dict.fromkeys(weights) if w != 0] if has_universum else [],
            deltas=sorted(set(self._values("deltas", "delta"))),
            balanced=balanced,
        )

    def _values(self, name: str, parameter: str) -> list[Any]:
        """The values given for a parameter of `UniversumSVC`, each checked as it checks them."""
        values = np.asarray(getattr(self, name), dtype=object).ravel().tolist()
        if not values:
            raise ValueError(f"{name} must hold at least one value.")
        for value in values:
            try:
                validate_parameter_constraints(PARAMETER_CONSTRAINTS, {parameter: value}, "")
            except ValueError as error:
                _, _, wanted = str(error).partition(" must be ")
                raise type(error)(f"Every value of {name} must be {wanted}") from None
        return [value if isinstance(value, str) else float(value) for value in values]

    def _sources(self, data: FitData, blocks: Blocks, folds: list[Fold] | None) -> Sources:
        """Gram matrices, which the named criteria need; or points, for folds of many of them."""
        M, limit = len(blocks.rows), int(np.sqrt(1e6 * self.cache_size / (8 * N_MATRICES)))
        if folds is None and max(limit, GRAM_LIMIT) < M:
            raise ValueError(
                f"criterion={self._judge!r} needs matrices of all points, which for {M:,} of them "
                f"do not fit into cache_size={self.cache_size:g} MB; up to {limit:,} points do: "
                "use folds, such as criterion=5, or raise cache_size."
            )
        if folds is None or M <= GRAM_LIMIT:
            return Grams(data, blocks)
        return PointSources(data, blocks, self.cache_size / effective_n_jobs(self.n_jobs))

    def _n_cells(self, grid: Grid) -> int:
        """How many cells there will be; of step (c) as if its C were on no edge of the grid."""
        n_plain, n_each = sum(map(len, grid.Cs)), len(grid.weights) * len(grid.deltas)
        if not n_each or self.n_steps == 1:
            return n_plain * (1 + n_each)
        if self.n_steps == 2:
            return n_plain + n_each
        n_Cs = len(grid.Cs[0])
        return n_plain + n_Cs + min(n_Cs, 3) * (n_each - 1)

    @property
    def _judge(self) -> Any:
        """What judges the cells."""
        return self.criterion if self.cv is None else self.cv

    def _options(self) -> Options:
        seed = self.random_state
        if seed is not None and not isinstance(seed, Integral):
            seed = check_random_state(seed).randint(np.iinfo(np.int32).max)
        return Options(
            float(self.tol),
            int(self.max_iter),
            None if seed is None else int(seed),
            keeps_decisions=self.scoring is not None,
        )

    def _scorer(self, data: FitData, folds: list[Fold] | None) -> FoldScorer | None:
        if self.scoring is None:
            return None
        if folds is None:
            raise ValueError(
                f"scoring needs folds to score, and criterion={self._judge!r} has none: use cv=5, "
                "say, or leave scoring out."
            )
        return FoldScorer(self.scoring, data, [test for _, test in folds])

    def _folds(self, data: FitData, groups: Any) -> list[Fold] | None:
        """Rows of every split, None where the criterion needs none."""
        if isinstance(self._judge, str):
            return None
        takes_part = data.is_training & (data.weight > 0)
        if isinstance(self._judge, Integral) or hasattr(self._judge, "split"):
            rows = np.flatnonzero(takes_part)
            labels = data.classes[data.codes[rows]]
            groups = None if groups is None else column_or_1d(groups)[rows]
            cv = check_cv(self._judge, labels, classifier=True)
            splits = [
                (rows[train], rows[test])
                for train, test in cv.split(tensors.take(data.X, rows), labels, groups)
            ]
        else:
            # Splits that were made before are of the rows of X, whatever their weight.
            splits = [(np.arange(data.n_given)[a], np.arange(data.n_given)[b])
                      for a, b in self._judge]  # fmt: skip
        folds = [(train[takes_part[train]], test[takes_part[test]]) for train, test in splits]
        for train, _ in folds:
            lost = np.setdiff1d(np.arange(len(data.classes)), data.codes[train])
            if len(lost):
                raise ValueError(
                    f"A split leaves no training points of class(es) "
                    f"{data.classes[lost].tolist()}: use fewer folds or a stratified splitter."
                )
        return folds

    @property
    def model_(self) -> FittedModel:  # type: ignore[override]
        """The model of `best_estimator_`, which answers for the search."""
        fitted: FittedModel = self.best_estimator_.model_
        return fitted
