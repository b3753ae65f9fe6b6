"""The displays without comparing images: what is drawn is what was computed.

Every number on an axis is compared with the same number computed here from the decision values.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from musvm import ProjectionHistogramDisplay, UniversumSVC, UniversumSVCCV
from musvm.display import _Grid, bin_edges
from musvm.projections import Projections, project
from musvm.universum import WithUniversum

matplotlib = pytest.importorskip("matplotlib", reason="displays need matplotlib")
matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.colors import to_rgb  # noqa: E402

rng = np.random.default_rng(0)
N, L = 45, 3
Y = np.arange(N) % L
X = (1.5 * rng.normal(size=(L, 4)))[Y] + rng.normal(size=(N, 4))
U = rng.normal(size=(30, 4))
SVM = UniversumSVC(kernel="linear").fit(X, Y)
MUSVM = UniversumSVC(kernel="linear").fit(X, Y, universum=U)


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def projection(F, k):
    """f_k - max over the others, straight from the definition."""
    return F[:, k] - np.delete(F, k, axis=1).max(axis=1)


def drawn(patch):
    data = patch.get_data()
    return data.values, data.edges


def assert_draws(display, row, F, y, FU, *, classes=range(L), density=None):
    """Row `row` of the display shows the training points F, y and the universum points FU."""
    for k, label in enumerate(classes):
        own = projection(F[y == label], k)
        for patch, values in [
            (display.training_histograms_[row, k], own),
            (display.universum_histograms_[row, k], projection(FU, k)),
        ]:
            heights, edges = drawn(patch)
            expected = np.histogram(values, edges)[0]
            assert expected.sum() == len(values), "points outside the bins"
            if density is not False:
                expected = expected / len(values)
                expected = expected / np.diff(edges) if density else 100 * expected
            np.testing.assert_allclose(heights, expected)
            assert patch.axes is display.ax_[row, k]
    counts = np.array([np.sum(FU.argmax(axis=1) == k) for k in range(len(classes))])
    total = {None: 100, False: len(FU), True: 1}[density]
    shown = total * counts / len(FU)
    bars = display.label_bars_[row]
    assert [bar.get_height() for bar in bars] == pytest.approx(list(shown))
    assert [bar.get_center()[0] for bar in bars] == pytest.approx(list(range(len(classes))))
    assert bars[0].axes is display.ax_[row, -1]
    level = total / len(classes)
    assert display.uniform_lines_[row].get_ydata() == pytest.approx([level, level])


# ---------------------------------------------------------------------------------------------
# What is drawn


@pytest.mark.parametrize("density", [None, False, True])
def test_one_model(density):
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y, universum=U, density=density)
    assert display.ax_.shape == (1, L + 1)
    assert_draws(display, 0, SVM.decision_function(X), Y, SVM.decision_function(U), density=density)
    first = display.ax_[0, 0].get_ylabel()
    quantity = {None: "%", False: "number", True: "density"}[density]
    assert first == f"UniversumSVC\n{quantity} of points"


def test_a_class_beside_a_universum_many_times_its_size_can_be_seen():
    """Where points are counted, ten of them that pile up vanish beside hundreds."""
    own, others = np.tile([1.0, -1.0], (10, 1)), np.zeros((500, 2))
    display = ProjectionHistogramDisplay.from_projections([0] * 10, own, others, classes=[0, 1])
    heights = drawn(display.training_histograms_[0, 0])[0]
    assert heights.max() == drawn(display.universum_histograms_[0, 0])[0].max() == 100


def test_two_models_on_the_same_axes():
    display = ProjectionHistogramDisplay.from_estimators(
        {"SVM": SVM, "MU-SVM": MUSVM}, X, Y, universum=U
    )
    assert display.ax_.shape == (2, L + 1)
    for row, model in enumerate((SVM, MUSVM)):
        assert_draws(display, row, model.decision_function(X), Y, model.decision_function(U))
    assert [axes.get_ylabel() for axes in display.ax_[:, 0]] == [
        "SVM\n% of points",
        "MU-SVM\n% of points",
    ]
    for panels in (display.ax_[:, :L].ravel(), display.ax_[:, L]):
        assert len({(axes.get_xlim(), axes.get_ylim()) for axes in panels}) == 1
        assert all(axes.get_shared_x_axes().joined(axes, panels[0]) for axes in panels)
        assert all(axes.get_shared_y_axes().joined(axes, panels[0]) for axes in panels)
    # Class below class, the first model above the second.
    for k in range(L + 1):
        above, below = (axes.get_subplotspec() for axes in display.ax_[:, k])
        assert above.colspan == below.colspan
        assert above.rowspan.start < below.rowspan.start


def test_lines_colours_titles_and_labels():
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y, universum=U)
    for k in range(L):
        lines = display.margin_lines_[0, k]
        assert [set(line.get_xdata()) for line in lines] == [{-1}, {0}, {1}]
        assert {line.get_linestyle() for line in lines} == {"--"}
        axes = display.ax_[0, k]
        assert axes.get_title() == f"class {k}"
        assert axes.get_xlabel() == "projection\n(margin = 1)"
        low, high = axes.get_xlim()
        assert low < -1 < 1 < high
        training, universum = (
            patches[0, k]
            for patches in (display.training_histograms_, display.universum_histograms_)
        )
        assert training.get_fill()
        assert to_rgb(training.get_facecolor()) == to_rgb("tab:blue")
        assert not universum.get_fill()
        assert to_rgb(universum.get_edgecolor()) == to_rgb("black")
    labels = display.ax_[0, L]
    assert labels.get_title() == "labels of the universum"
    assert labels.get_ylabel() == "% of universum"
    assert [text.get_text() for text in labels.get_xticklabels()] == ["0", "1", "2"]
    assert [text.get_text() for text in display.legend_.get_texts()] == [
        "points of the class",
        "universum points",
        "margins (−1, +1)",
        "boundary (0)",
        "uniform labels",
    ]
    assert display.figure_ is labels.figure


def test_binary_problem():
    two = Y < 2
    svm = UniversumSVC().fit(X[two], Y[two])
    f, fU = svm.decision_function(X[two]), svm.decision_function(U)
    display = ProjectionHistogramDisplay.from_estimator(
        svm, X[two], Y[two], universum=U, density=False
    )
    for k, sign in enumerate((-1, 1)):
        for patch, values in [
            (display.training_histograms_[0, k], sign * f[Y[two] == k]),
            (display.universum_histograms_[0, k], sign * fU),
        ]:
            heights, edges = drawn(patch)
            np.testing.assert_array_equal(heights, np.histogram(values, edges)[0])
    assert [bar.get_height() for bar in display.label_bars_[0]] == [
        np.sum(svm.predict(U) == 0),
        np.sum(svm.predict(U) == 1),
    ]


def test_universum_marked_by_its_label():
    Z, labels = np.vstack([U, X]), np.r_[np.full(len(U), -1), Y]
    clf = UniversumSVC(kernel="linear", universum_label=-1).fit(Z, labels)
    display = ProjectionHistogramDisplay.from_estimator(clf, Z, labels)
    assert_draws(display, 0, clf.decision_function(X), Y, clf.decision_function(U))


def test_precomputed_kernel_with_marked_universum():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), -1)]
    K = rbf_kernel(Z)
    clf = UniversumSVC(kernel="precomputed", universum_label=-1).fit(K, labels)
    display = ProjectionHistogramDisplay.from_estimator(clf, K, labels)
    F = clf.decision_function(K)
    assert_draws(display, 0, F[:N], Y, F[N:])


def test_sparse_points_and_a_universum_in_parts():
    svm = UniversumSVC(kernel="linear").fit(sp.csr_array(X), Y)
    parts = (sp.csr_array(U[:10]), U[10:])
    display = ProjectionHistogramDisplay.from_estimator(svm, sp.csr_array(X), Y, universum=parts)
    assert_draws(display, 0, svm.decision_function(X), Y, svm.decision_function(U))


@pytest.mark.parametrize(
    "estimator",
    [
        make_pipeline(StandardScaler(), UniversumSVC()),
        GridSearchCV(UniversumSVC(), {"C": [0.1, 1.0]}, cv=3),
        UniversumSVCCV([0.1, 1.0], criterion=3),
        WithUniversum(UniversumSVC(), random_state=0),
        LogisticRegression(),
        SVC(decision_function_shape="ovr"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_other_classifiers(estimator):
    estimator.fit(X, Y)
    display = ProjectionHistogramDisplay.from_estimator(estimator, X, Y, universum=U)
    assert_draws(display, 0, estimator.decision_function(X), Y, estimator.decision_function(U))


def test_marked_universum_inside_a_pipeline_or_a_search():
    Z, labels = np.vstack([X, U]), np.r_[Y, np.full(len(U), 9)]
    pipe = make_pipeline(StandardScaler(), UniversumSVC(universum_label=9))
    search = UniversumSVCCV([1.0], deltas=[0.0], criterion=3, universum_label=9)
    for model in (pipe, search):
        model.fit(Z, labels)
        display = ProjectionHistogramDisplay.from_estimator(model, Z, labels)
        assert_draws(display, 0, model.decision_function(X), Y, model.decision_function(U))


def test_from_projections_draws_the_same():
    display = ProjectionHistogramDisplay.from_projections(
        Y, SVM.projections(X), SVM.projections(U), name="mine"
    )
    assert_draws(display, 0, SVM.decision_function(X), Y, SVM.decision_function(U))
    assert display.ax_[0, 0].get_ylabel() == "mine\n% of points"


def test_class_without_points_is_drawn_empty():
    some = Y != 1
    for density in (None, False, True):
        display = ProjectionHistogramDisplay.from_projections(
            Y[some],
            SVM.projections(X[some]),
            SVM.projections(U),
            classes=[0, 1, 2],
            density=density,
        )
        assert not drawn(display.training_histograms_[0, 1])[0].any()
        assert drawn(display.universum_histograms_[0, 1])[0].any()


def test_without_universum_there_are_the_class_panels_only():
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y)
    assert display.ax_.shape == (1, L)
    assert display.universum_histograms_ is None
    assert display.label_bars_ == []
    assert display.uniform_lines_ == []


# ---------------------------------------------------------------------------------------------
# Bins


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.integers(1, 200),
)
@settings(max_examples=60)
def test_bins_hold_every_point_and_are_centred_on_the_margins(values, bins):
    own = np.array(values)
    model = Projections([0, 1], np.zeros(len(own), int), own, np.empty((0, 2)))
    edges = bin_edges([model], bins)
    assert np.histogram(own, edges)[0].sum() == len(own)
    assert edges[0] < -1 < 1 < edges[-1]
    widths = np.diff(edges)
    np.testing.assert_allclose(widths, widths[0], rtol=1e-6)
    centres = (edges[1:] + edges[:-1]) / 2
    for position in (-1, 0, 1) if widths[0] <= 1 else (0,):
        assert np.abs(centres - position).min() < 1e-6 * widths[0]
    # About as many as asked for: the width is rounded, and there are spare bins at the ends.
    reach = max(own.max(), 1) - min(own.min(), -1)
    assert 0.5 * bins <= reach / widths[0] + 1
    assert len(widths) <= max(1.5 * bins, reach) + 5


def test_edges_of_bins_may_be_given():
    edges = [-2.0, -0.5, 0.5, 1.0, 8.0]
    display = ProjectionHistogramDisplay.from_estimator(
        SVM, X, Y, universum=U, bins=edges, density=False
    )
    heights, shown = drawn(display.universum_histograms_[0, 2])
    np.testing.assert_array_equal(shown, edges)
    np.testing.assert_array_equal(heights, np.histogram(SVM.projections(U)[:, 2], edges)[0])
    assert display.ax_[0, 0].get_xlim() == (-2.0, 8.0)


def test_density_counts_points_outside_the_edges_in_the_total():
    projections = np.array([[0.5, -0.5]] * 3 + [[99.0, -99.0]])
    display = ProjectionHistogramDisplay.from_projections(
        [0] * 4, projections, classes=[0, 1], bins=[0.0, 1.0], density=True
    )
    assert drawn(display.training_histograms_[0, 0])[0].tolist() == [0.75]


# ---------------------------------------------------------------------------------------------
# Text


def test_class_names_are_text_and_not_mathematics():
    names = np.array(["$a_1$", "cost_in_$", r"\frac{1}{2}$x"])
    svm = UniversumSVC().fit(X, names[Y])
    display = ProjectionHistogramDisplay.from_estimator(
        svm, X, names[Y], universum=U, name="C_1 = $2"
    )
    display.figure_.canvas.draw()  # mathtext that does not parse would raise here
    titles = [axes.title for axes in display.ax_[0, :L]]
    ticks = display.ax_[0, L].get_xticklabels()
    for k, name in enumerate(svm.classes_):
        assert titles[k].get_text() == f"class {name}"
        assert ticks[k].get_text() == name
    for text in (*titles, *ticks, display.ax_[0, 0].yaxis.label):
        assert not text.get_parse_math()
        assert not text.get_usetex()
    assert display.ax_[0, 0].get_ylabel().startswith("C_1 = $2\n")


def test_long_names_take_two_lines_at_most_and_stay_inside_the_figure():
    names = np.array(["end of no overtaking by lorries", "x" * 80, "a b c " * 30])
    svm = UniversumSVC().fit(X, names[Y])
    display = ProjectionHistogramDisplay.from_estimator(svm, X, names[Y], universum=U)
    titles = {axes.get_title() for axes in display.ax_[0, :L]}
    assert "class end of no overtaking\nby lorries" in titles
    assert all(len(title.split("\n")) <= 2 for title in titles)
    assert sum(title.endswith("…") for title in titles) == 2
    figure = display.figure_
    figure.canvas.draw()
    for axes in display.ax_.flat:
        box = axes.get_tightbbox()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y0 >= 0


# ---------------------------------------------------------------------------------------------
# Where it is drawn


@pytest.mark.parametrize("n_classes", [2, 4, 5, 7, 10, 12, 13, 26, 30])
@pytest.mark.parametrize("n_models", [1, 2])
def test_panels_of_many_classes_do_not_overlap(n_classes, n_models):
    grid = _Grid(n_models, n_classes, has_universum=True)
    taken = set()
    for row in range(n_models):
        for p in range(n_classes + 1):
            line, columns = grid.cell(row, p)
            cells = {(line, column) for column in range(columns.start, columns.stop)}
            assert cells, "a panel without a place"
            assert not taken & cells
            taken |= cells
    assert taken <= {(i, j) for i in range(grid.n_rows) for j in range(grid.n_columns)}
    assert grid.n_columns <= 6


def test_thirty_classes():
    y = np.arange(90) % 30
    centres = 4 * rng.normal(size=(30, 6))
    points, universum = centres[y] + rng.normal(size=(90, 6)), rng.normal(size=(40, 6))
    svm = UniversumSVC().fit(points, y)
    display = ProjectionHistogramDisplay.from_estimator(svm, points, y, universum=universum)
    assert display.ax_.shape == (1, 31)
    assert_draws(
        display,
        0,
        svm.decision_function(points),
        y,
        svm.decision_function(universum),
        classes=range(30),
    )
    figure = display.figure_
    figure.canvas.draw()
    smallest = min(axes.get_window_extent().height for axes in display.ax_.flat) / figure.dpi
    assert smallest > 0.8, "panels of less than 0.8 inches"


def test_one_given_axes_is_replaced_by_a_grid_in_its_place():
    figure, (left, right) = plt.subplots(1, 2)
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y, universum=U, ax=right)
    assert display.figure_ is figure
    assert not right.axison
    place = right.get_position()
    for axes in display.ax_.flat:
        position = axes.get_position()
        assert position.x0 >= place.x0 - 1e-9
        assert position.x1 <= place.x1 + 1e-9
    assert not left.has_data()


@pytest.mark.parametrize("n_classes", [2, 3, 7])
@pytest.mark.parametrize("layout", [None, "constrained"])
def test_displays_side_by_side_do_not_cover_each_other(n_classes, layout):
    labels = np.arange(70) % n_classes
    points = rng.normal(size=(70, 4)) + 3 * rng.normal(size=(n_classes, 4))[labels]
    svm = UniversumSVC().fit(points, labels)
    figure, places = plt.subplots(1, 2, figsize=(10, 4 if n_classes < 4 else 7), layout=layout)
    displays = [
        ProjectionHistogramDisplay.from_estimator(
            svm, points, labels, universum=U, ax=ax, name="a model"
        )
        for ax in places
    ]
    figure.canvas.draw()
    boxes = [axes.get_tightbbox() for display in displays for axes in display.ax_.flat]
    boxes += [display.legend_.get_window_extent() for display in displays]
    for k, box in enumerate(boxes):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert not any(
            min(box.x1, other.x1) - max(box.x0, other.x0) > 1
            and min(box.y1, other.y1) - max(box.y0, other.y0) > 1
            for other in boxes[:k]
        )
    panels = [axes.get_window_extent() for display in displays for axes in display.ax_.flat]
    assert min(box.height for box in panels) / figure.dpi > 0.5, "panels of less than half an inch"


@pytest.mark.parametrize("width", [1.0, 2.5, 3.5, 5.0, 12.0])
@pytest.mark.parametrize("n_classes", [2, 5, 13])
def test_panels_in_the_place_of_an_axes_have_their_width(n_classes, width):
    grid = _Grid(2, n_classes, True, width)
    assert 1 <= grid.n_columns <= max(1, width / 1.1)
    cells = {grid.cell(row, p)[0] for row in range(2) for p in range(n_classes + 1)}
    assert cells == set(range(grid.n_rows))


def test_given_axes_are_used_and_labelled_each():
    figure, axes = plt.subplots(2, 2)
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y, universum=U, ax=axes)
    assert display.ax_.ravel().tolist() == axes.ravel().tolist()
    assert display.figure_ is figure
    assert_draws(display, 0, SVM.decision_function(X), Y, SVM.decision_function(U))
    assert all(a.get_xlabel() and a.get_ylabel() for a in display.ax_[0, :L])
    assert len({a.get_xlim() for a in display.ax_[0, :L]}) == 1


def test_drawn_again_with_other_settings():
    display = ProjectionHistogramDisplay.from_estimator(SVM, X, Y, universum=U)
    before = display.figure_
    again = display.plot(bins=10, training_kwargs={"color": "green"})
    assert again is display
    assert display.figure_ is not before
    assert to_rgb(display.training_histograms_[0, 0].get_facecolor()) == to_rgb("green")


# ---------------------------------------------------------------------------------------------
# Mistakes


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"ax": [None] * 2}, "must hold 3 Axes, 3 for each"),
        ({"bins": 0}, "at least 1"),
        ({"bins": [1.0, 0.0]}, "increasing"),
        ({"y": Y + 1}, "labels that the model does not know: 3"),
        ({"y": Y[:-1]}, "inconsistent numbers of samples"),
    ],
)
def test_mistakes_are_named(changed, message):
    arguments = {"estimator": SVM, "X": X, "y": Y} | changed
    with pytest.raises(ValueError, match=message):
        ProjectionHistogramDisplay.from_estimator(**arguments)


def test_axes_outside_a_grid_are_refused():
    free = plt.figure().add_axes((0, 0, 1, 1))
    with pytest.raises(ValueError, match="not part of a grid"):
        ProjectionHistogramDisplay.from_estimator(SVM, X, Y, ax=free)


def test_classifier_without_decision_values_is_refused():
    neighbours = KNeighborsClassifier().fit(X, Y)
    with pytest.raises(TypeError, match="KNeighborsClassifier has no decision_function"):
        ProjectionHistogramDisplay.from_estimator(neighbours, X, Y)


def test_one_versus_one_values_are_refused():
    four = np.arange(N) % 4
    svc = SVC(decision_function_shape="ovo").fit(X, four)
    with pytest.raises(ValueError, match="4 classes, 6 values"):
        ProjectionHistogramDisplay.from_estimator(svc, X, four)


def test_models_of_different_classes_are_refused():
    names = np.array(["a", "b", "c"])[Y]
    models = {
        "numbers": project(SVM, X, Y),
        "letters": project(UniversumSVC().fit(X, names), X, names),
    }
    with pytest.raises(ValueError, match="same classes"):
        ProjectionHistogramDisplay(models).plot()
    with pytest.raises(ValueError, match="no model"):
        ProjectionHistogramDisplay({}).plot()


def test_projections_need_a_column_per_class():
    with pytest.raises(ValueError, match="There are 3 classes, projections has 2 columns"):
        ProjectionHistogramDisplay.from_projections(Y, np.zeros((N, 2)))


def test_message_without_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install 'musvm\[plot\]'"):
        ProjectionHistogramDisplay.from_estimator(SVM, X, Y)


def test_importing_the_package_does_not_import_matplotlib():
    code = "import sys, musvm; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
