"""Histograms of projections: a picture of what a model makes of its universum.

One panel per class k shows how the projections onto k are distributed (`projections.py` defines
them): those of the training points of class k, and those of all universum points. One more panel
shows how often each label was given to the universum, beside the level at which all labels are
equally frequent. Several models are drawn on the same axes, one below the other.

Bins are the same in all panels. Their width is 1/k or a whole number, and bins are centred on
multiples of it, so that training points that pile up at the margin fall into one bin and not half
of them into each of two.

Heights are shares of the points of a group, in per cent: a universum is often many times as large
as a class, whose points would be lost beside it where points are counted.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from musvm._input.tensors import FloatArray
from musvm._pyplot import pyplot_for
from musvm.projections import Projections, encode, project

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARGIN_LINES = (-1.0, 0.0, 1.0)
PANEL_SIZE = (2.5, 2.2)  # inches
MAX_IN_ONE_ROW = 4  # classes; with more of them the label frequencies get a row of their own
LEAST_WIDTH = 1.1  # inches of a panel, in the place of a single Axes
MOST_COLUMNS = 6
TITLE_WIDTH = 26  # characters that fit above a panel of that size
TICK_WIDTH = 14
# Class names are text, whatever they contain: "$" starts no formula and "_" no subscript.
AS_TEXT: dict[str, Any] = {"parse_math": False, "usetex": False}
# What the heights of histograms and of label frequencies are, by `density`.
QUANTITIES = {
    None: ("% of points", "% of universum"),
    False: ("number of points", "universum points"),
    True: ("density of points", "share of universum"),
}


class ProjectionHistogramDisplay:
    """Histograms of projections of training and universum points.

    Create it with :meth:`from_estimator`, with :meth:`from_estimators` to compare models, or with
    :meth:`from_projections`. All parameters are stored as attributes.

    Parameters
    ----------
    models : dict of str to Projections
        The projections onto each model, by the name of the model.

    Attributes
    ----------
    figure_ : matplotlib Figure
        Figure that contains the panels.

    ax_ : ndarray of matplotlib Axes of shape (n_models, n_panels)
        The panels of each model: its classes, then the label frequencies if there is a universum.

    training_histograms_, universum_histograms_ : ndarray of matplotlib StepPatch of shape \
(n_models, n_classes)
        The histograms. Without a universum, `universum_histograms_` is None.

    margin_lines_ : ndarray of matplotlib Line2D of shape (n_models, n_classes, 3)
        The lines at -1, 0 and +1.

    label_bars_ : list of matplotlib BarContainer
        The label frequencies of each model; empty without a universum.

    uniform_lines_ : list of matplotlib Line2D
        The level at which all labels are equally frequent, for each model.

    legend_ : matplotlib Legend
        The legend.

    See Also
    --------
    musvm.universum.diagnose : The same in numbers, with a verdict.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from musvm import ProjectionHistogramDisplay, UniversumSVC
    >>> from musvm.datasets import load_digits_universum
    >>> digits = load_digits_universum(classes=(3, 5, 8), n_per_class=20, m=100, random_state=0)
    >>> X, y, U = digits.data, digits.target, digits.universum
    >>> svm = UniversumSVC(kernel="linear").fit(X, y)
    >>> musvm = UniversumSVC(kernel="linear").fit(X, y, universum=U)
    >>> display = ProjectionHistogramDisplay.from_estimators(
    ...     {"SVM": svm, "MU-SVM": musvm}, X, y, universum=U
    ... )
    >>> display.ax_.shape
    (2, 4)
    >>> plt.show()
    """

    def __init__(self, models: Mapping[str, Projections]) -> None:
        self.models = models

    # -----------------------------------------------------------------------------------------
    # Making one

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        universum: Any = None,
        name: str | None = None,
        **plot_params: Any,
    ) -> ProjectionHistogramDisplay:
        """Draw the projections onto one fitted classifier.

        Parameters
        ----------
        estimator : fitted classifier
            Any classifier whose `decision_function` has one value per class, or one in all for
            two classes: :class:`~musvm.UniversumSVC`, a search for it, a pipeline that ends in
            it.

        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Points, as a rule those that the model was fitted on.

        y : array-like of shape (n_samples,)
            Their labels. Rows with the estimator's `universum_label` are universum points.

        universum : {array-like, sparse matrix} of shape (m, n_features), or a tuple or list of \
such arrays, default=None
            Universum points.

        name : str, default=None
            Name of the model. None takes the name of its class.

        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        display : ProjectionHistogramDisplay
            The display, drawn.
        """
        name = type(estimator).__name__ if name is None else name
        return cls.from_estimators({name: estimator}, X, y, universum=universum, **plot_params)

    @classmethod
    def from_estimators(
        cls,
        estimators: Mapping[str, Any],
        X: Any,
        y: Any,
        *,
        universum: Any = None,
        **plot_params: Any,
    ) -> ProjectionHistogramDisplay:
        """Draw the projections onto several fitted classifiers, on the same axes.

        Parameters
        ----------
        estimators : dict of str to fitted classifier
            The models from top to bottom, by name, such as ``{"SVM": svm, "MU-SVM": musvm}``.

        X, y, universum
            As in :meth:`from_estimator`.

        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        display : ProjectionHistogramDisplay
            The display, drawn.
        """
        models = {
            name: project(estimator, X, y, universum) for name, estimator in estimators.items()
        }
        return cls(models).plot(**plot_params)

    @classmethod
    def from_projections(
        cls,
        y: Any,
        projections: Any,
        universum_projections: Any = None,
        *,
        classes: Any = None,
        name: str = "",
        **plot_params: Any,
    ) -> ProjectionHistogramDisplay:
        """Draw projections that are already computed.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels of the training points.

        projections : array-like of shape (n_samples, n_classes)
            Their projections onto every class, see :meth:`musvm.UniversumSVC.projections`.

        universum_projections : array-like of shape (m, n_classes), default=None
            Projections of the universum points onto every class.

        classes : array-like of shape (n_classes,), default=None
            The class of each column. None takes the sorted labels in `y`.

        name : str, default=""
            Name of the model.

        **plot_params
            Passed to :meth:`plot`.

        Returns
        -------
        display : ProjectionHistogramDisplay
            The display, drawn.
        """
        check_consistent_length(y, projections)
        classes = np.unique(column_or_1d(y)) if classes is None else np.asarray(classes)
        training = check_array(projections, dtype=np.float64, input_name="projections")
        universum = np.empty((0, len(classes)))
        if universum_projections is not None:
            universum = check_array(
                universum_projections, dtype=np.float64, input_name="universum_projections"
            )
        if not training.shape[1] == universum.shape[1] == len(classes) > 1:
            raise ValueError(
                f"There are {len(classes)} classes, projections has {training.shape[1]} columns "
                f"and universum_projections {universum.shape[1]}: each class needs its column."
            )
        codes = encode(y, classes)
        own = training[np.arange(len(codes)), codes]
        return cls({name: Projections(classes, codes, own, universum)}).plot(**plot_params)

    # -----------------------------------------------------------------------------------------
    # Drawing

    def plot(
        self,
        ax: Any = None,
        *,
        bins: int | Sequence[float] = 40,
        density: bool | None = None,
        training_kwargs: dict[str, Any] | None = None,
        universum_kwargs: dict[str, Any] | None = None,
    ) -> ProjectionHistogramDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes or array-like of Axes, default=None
            A single Axes is replaced by a grid of panels in its place; a figure without a layout
            engine is given the constrained one, which makes room for their labels. An array-like
            must hold one Axes per panel, as in `ax_`. None makes a new figure.

        bins : int or sequence of float, default=40
            About how many bins to use from the smallest to the largest projection, or the edges
            of the bins. Points outside the edges are not drawn.

        density : bool or None, default=None
            None draws shares in per cent: of the points of the class, and of the universum, in
            every bin. False draws numbers of points, True densities, whose area is 1.

        training_kwargs, universum_kwargs : dict, default=None
            Passed to :meth:`matplotlib.axes.Axes.stairs` for the histograms.

        Returns
        -------
        display : ProjectionHistogramDisplay
            The display itself.
        """
        pyplot = pyplot_for("ProjectionHistogramDisplay")
        models = list(self.models.values())
        place = None if ax is None else _width(ax)
        grid = _Grid.of(models, place)
        edges = bin_edges(models, bins)
        new_figure = ax is None
        if new_figure:
            ax = pyplot.figure(figsize=grid.size, layout="constrained").add_subplot()
        self.ax_, labelled = _panels(ax, grid)
        self.figure_ = self.ax_[0, 0].figure
        styles = (
            {"fill": True, "color": "tab:blue", "alpha": 0.75} | (training_kwargs or {}),
            {"color": "black", "linewidth": 1.2} | (universum_kwargs or {}),
        )
        self._draw_histograms(grid, edges, density, styles)
        self._draw_label_frequencies(grid, density)
        self._write(grid, density, labelled)
        self._draw_legend(None if new_figure else ax)
        return self

    def _draw_histograms(
        self,
        grid: _Grid,
        edges: FloatArray,
        density: bool | None,
        styles: tuple[dict[str, Any], ...],
    ) -> None:
        shape = (grid.n_models, grid.n_classes)
        self.training_histograms_ = np.empty(shape, dtype=object)
        self.universum_histograms_ = np.empty(shape, dtype=object) if grid.has_universum else None
        self.margin_lines_ = np.empty((*shape, len(MARGIN_LINES)), dtype=object)
        highest = 0.0
        for (row, k), _ in np.ndenumerate(self.training_histograms_):
            axes, model = self.ax_[row, k], list(self.models.values())[row]
            groups = [(self.training_histograms_, model.training[model.codes == k])]
            if self.universum_histograms_ is not None:
                groups.append((self.universum_histograms_, model.universum[:, k]))
            for (artists, values), style in zip(groups, styles, strict=False):
                heights = _heights(values, edges, density)
                artists[row, k] = axes.stairs(heights, edges, **style)
                highest = max(highest, heights.max())
            for i, position in enumerate(MARGIN_LINES):
                colour = "0.35" if position else "tab:red"
                self.margin_lines_[row, k, i] = axes.axvline(
                    position, color=colour, linestyle="--", linewidth=0.9
                )
        # Limits are set and not only shared: the axes may be the caller's.
        for axes in self.ax_[:, : grid.n_classes].flat:
            axes.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * highest or 1))

    def _draw_label_frequencies(self, grid: _Grid, density: bool | None) -> None:
        self.label_bars_: list[Any] = []
        self.uniform_lines_: list[Any] = []
        if not grid.has_universum:
            return
        for axes, model in zip(self.ax_[:, -1], self.models.values(), strict=True):
            counts = model.label_counts
            total = {None: counts.sum() / 100, False: 1, True: counts.sum()}[density]
            heights = counts / total
            positions = np.arange(grid.n_classes)
            self.label_bars_.append(axes.bar(positions, heights, color="0.3", width=0.7))
            level = heights.sum() / grid.n_classes
            self.uniform_lines_.append(axes.axhline(level, color="tab:orange", linewidth=1.5))
        highest = max(bar.get_height() for bars in self.label_bars_ for bar in bars)
        for axes in self.ax_[:, -1]:
            axes.set(xlim=(-0.6, grid.n_classes - 0.4), ylim=(0, 1.05 * highest))

    def _write(
        self, grid: _Grid, density: bool | None, labelled: Callable[[int, int], _Sides]
    ) -> None:
        """Titles, axis labels and class names."""
        classes = [str(label) for label in next(iter(self.models.values())).classes]
        quantity, share = QUANTITIES[density]
        size = "medium" if grid.width is None else "small"
        for (row, p), axes in np.ndenumerate(self.ax_):
            left, bottom = labelled(row, p)
            # In the place of an Axes there is little room, and one model is named above the panels.
            named = grid.width is None or grid.n_models > 1
            name = _wrap(list(self.models)[row], TITLE_WIDTH) if named else ""
            if p < grid.n_classes:
                title = f"class {classes[p]}"
                axes.tick_params(labelleft=left, labelbottom=bottom)
                below = "projection\n(margin = 1)" if grid.width is None else "projection"
                axes.set_xlabel(below if bottom else "", fontsize=size)
                beside = f"{name}\n{quantity}".strip() if left else ""
                axes.set_ylabel(beside, fontsize=size, **AS_TEXT)
            else:
                title = "labels of the universum"
                beside = f"{name}\n{share}".strip() if left else share
                axes.set_ylabel(beside, fontsize=size, **AS_TEXT)
                _name_ticks(axes, classes, roomy=grid.is_tall)
            if grid.width is not None:
                axes.tick_params(labelsize="small")
            axes.set_title(_wrap(title, grid.title_width(p)), fontsize=size, **AS_TEXT)

    def _draw_legend(self, place: Any) -> None:
        """The legend: above a new figure, above the panels in the place of an Axes, or in one."""
        entries = {"points of the class": self.training_histograms_[0, 0]}
        if self.universum_histograms_ is not None:
            entries["universum points"] = self.universum_histograms_[0, 0]
        entries["margins (−1, +1)"] = self.margin_lines_[0, 0, 0]
        entries["boundary (0)"] = self.margin_lines_[0, 0, 1]
        if self.uniform_lines_:
            entries["uniform labels"] = self.uniform_lines_[0]
        artists, texts = list(entries.values()), list(entries)
        if place is None:
            self.legend_ = self.figure_.legend(
                artists,
                texts,
                loc="outside upper center",
                ncols=len(texts) if self.ax_.shape[1] > 3 else 3,
                frameon=False,
                fontsize="small",
            )
        elif _is_single(place):
            cells = self.ax_[0, 0].get_gridspec()
            above = self.figure_.add_subplot(cells[0, :])
            above.set_axis_off()
            if len(self.models) == 1:
                above.set_title(next(iter(self.models)), fontsize="medium", **AS_TEXT)
            style: dict[str, Any] = {"loc": "center", "frameon": False, "fontsize": "x-small"}
            self.legend_ = above.legend(artists, texts, ncols=min(3, cells.ncols), **style)
        else:
            self.legend_ = self.ax_[0, 0].legend(artists, texts, fontsize="x-small")


# ---------------------------------------------------------------------------------------------
# Where the panels go


class _Sides(NamedTuple):
    """Which sides of a panel carry a label."""

    left: bool
    bottom: bool


class _Grid(NamedTuple):
    """Where the panels go.

    The panels of a class stand below each other, one for each model. Few classes make one row
    for each model, with the label frequencies at its end. More classes are broken into bands of
    such rows, and the label frequencies of each model get a row of their own at the bottom.
    """

    n_models: int
    n_classes: int
    has_universum: bool
    width: float | None = None  # inches that there are; as many as are needed where it is None

    @classmethod
    def of(cls, models: Sequence[Projections], width: float | None = None) -> _Grid:
        if not models:
            raise ValueError("There is no model to draw.")
        first = models[0]
        for model in models[1:]:
            if not np.array_equal(model.classes, first.classes):
                raise ValueError("The models must have the same classes.")
        return cls(len(models), len(first.classes), len(first.universum) > 0, width)

    @property
    def n_panels(self) -> int:
        return self.n_classes + self.has_universum

    @property
    def most_columns(self) -> int:
        if self.width is None:
            return MOST_COLUMNS
        return min(max(1, int(self.width / LEAST_WIDTH)), MOST_COLUMNS)

    @property
    def is_tall(self) -> bool:
        return self.n_classes > MAX_IN_ONE_ROW or self.n_panels > self.most_columns

    @property
    def n_columns(self) -> int:
        if not self.is_tall:
            return self.n_panels
        most = self.most_columns
        if most < MAX_IN_ONE_ROW:
            return min(most, self.n_classes)
        # Few empty cells for some classes; the width of a page for many.
        widths = range(most, MAX_IN_ONE_ROW - 1, -1)
        return most if self.n_classes > 12 else min(widths, key=lambda n: -self.n_classes % n)

    @property
    def n_class_rows(self) -> int:
        return self.n_models * (math.ceil(self.n_classes / self.n_columns))

    @property
    def n_rows(self) -> int:
        return self.n_class_rows + self.n_models * (self.is_tall and self.has_universum)

    @property
    def size(self) -> tuple[float, float]:
        width, height = PANEL_SIZE
        return width * self.n_columns, height * self.n_rows + 0.5

    def title_width(self, p: int) -> int:
        """Characters that fit above panel p."""
        columns = self.cell(0, p)[1]
        n_columns = columns.stop - columns.start
        if self.width is None:
            return TITLE_WIDTH * max(1, n_columns // 2)
        inches = self.width / self.n_columns * n_columns
        return max(8, int(TITLE_WIDTH * inches / PANEL_SIZE[0]))

    def cell(self, row: int, p: int) -> tuple[int, slice]:
        """Line and columns of panel p of the model in this row."""
        if self.is_tall and p == self.n_classes:
            return self.n_class_rows + row, slice(0, self.n_columns)
        band, column = divmod(p, self.n_columns)
        return band * self.n_models + row, slice(column, column + 1)

    def sides(self, row: int, p: int) -> _Sides:
        """Labels at the left edge of the grid and below the lowest panel of each column."""
        lowest = row == self.n_models - 1 and p + self.n_columns >= self.n_classes
        return _Sides(left=self.cell(row, p)[1].start == 0, bottom=lowest)


def _is_single(ax: Any) -> bool:
    """Whether this is one Axes, and not several."""
    return hasattr(ax, "get_subplotspec")


def _width(ax: Any) -> float | None:
    """How many inches wide a single Axes is; None of several, which have their places."""
    if not _is_single(ax):
        return None
    return float(ax.get_position().width * ax.figure.bbox.width / ax.figure.dpi)


def _panels(ax: Any, grid: _Grid) -> tuple[Any, Callable[[int, int], _Sides]]:
    """(n_models, n_panels) Axes, the given ones or new ones, and which of their sides to label."""
    shape = (grid.n_models, grid.n_panels)
    if not _is_single(ax):
        given = np.asarray(ax, dtype=object)
        if given.size != math.prod(shape):
            raise ValueError(
                f"ax must hold {math.prod(shape)} Axes, {grid.n_panels} for each model; "
                f"got {given.size}."
            )
        return given.reshape(shape), lambda row, p: _Sides(left=True, bottom=True)
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError("ax is not part of a grid: make it with subplots, or pass one per panel.")
    ax.set_axis_off()
    above = grid.width is not None  # a line for the legend
    whole = ax.figure.figure  # of which a subfigure is a part
    if whole.get_layout_engine() is None:
        whole.set_layout_engine("constrained")
    cells = place.subgridspec(
        above + grid.n_rows, grid.n_columns, height_ratios=[0.2] * above + [1.0] * grid.n_rows
    )
    panels = np.empty(shape, dtype=object)
    for (row, p), _ in np.ndenumerate(panels):
        # Panels of one kind zoom together.
        twin = panels[0, 0] if p < grid.n_classes else panels[0, p]
        line, columns = grid.cell(row, p)
        spec = cells[above + line, columns]
        panels[row, p] = ax.figure.add_subplot(spec, sharex=twin, sharey=twin)
    return panels, grid.sides


# ---------------------------------------------------------------------------------------------
# What is drawn


def _wrap(name: str, width: int) -> str:
    """A name on at most two lines of `width` characters; the rest becomes an ellipsis."""
    lines = textwrap.wrap(name, width) or [""]
    if len(lines) > 2:
        lines = [lines[0], lines[1][: width - 1] + "…"]
    return "\n".join(lines)


def bin_edges(models: Sequence[Projections], bins: int | Sequence[float]) -> FloatArray:
    """Edges of bins shared by all panels, as the module's docstring says."""
    if not isinstance(bins, (int, np.integer)):
        edges = np.asarray(bins, dtype=np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0).all():
            raise ValueError("bins must be a number of bins or at least two increasing edges.")
        return edges
    if bins < 1:
        raise ValueError(f"bins must be at least 1, got {bins}.")
    pooled = np.concatenate([a.ravel() for m in models for a in (m.training, m.universum)])
    low, high = min(-1.0, pooled.min(initial=0.0)), max(1.0, pooled.max(initial=0.0))
    if not np.isfinite([low, high]).all():
        raise ValueError("The projections contain NaN or infinite values.")
    wanted = (high - low) / bins
    width = 1 / max(1, round(1 / wanted)) if wanted < 1 else math.ceil(wanted)
    # One empty bin at each end keeps points and lines off the frame.
    first, last = math.floor(low / width + 0.5) - 1, math.ceil(high / width - 0.5) + 1
    return width * (np.arange(first, last + 2) - 0.5)


def _name_ticks(axes: Axes, classes: list[str], *, roomy: bool) -> None:
    """Class names below the bars, tilted where they would run into each other."""
    names = [_wrap(name, TICK_WIDTH) for name in classes]
    tilted = max(map(len, names)) > (5 if roomy else 3)
    axes.set_xticks(
        range(len(names)),
        names,
        rotation=45 if tilted else 0,
        ha="right" if tilted else "center",
        rotation_mode="anchor" if tilted else "default",
        fontsize="small",
        **AS_TEXT,
    )


def _heights(values: FloatArray, edges: FloatArray, density: bool | None) -> FloatArray:
    """Points per bin, their share or their density; points outside the edges are in the total."""
    counts: FloatArray = np.histogram(values, edges)[0]
    if density is False:
        return counts
    shares = counts / max(len(values), 1)
    return shares / np.diff(edges) if density else 100 * shares
