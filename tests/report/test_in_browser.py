"""The HTML report in a browser: what a reader sees, hears of and can do.

Nothing here is known from the page's own numbers: models are fitted afresh and their projections
counted again.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from chromium import chromium
from musvm import UniversumSVC, UniversumSVCCV, loo_error, report
from report_page import assert_counts

pytest.importorskip("plotly", reason="the report needs plotly")
pytest.importorskip("jinja2", reason="the report needs jinja2")

HOSTILE = np.array(
    [
        "</script><script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        '<a href="javascript:alert(1)">x</a>',
        "<b>b</b> &lt;i&gt; $x^2$ %{x}",
    ]
)
DELTAS = [0.0, 0.1, 0.45]
SHOWN = 1


@pytest.fixture(scope="module")
def data():
    X, y = make_blobs([14, 11, 9, 8], n_features=5, cluster_std=3.0, random_state=1)
    U = np.random.default_rng(0).normal(X.mean(axis=0), 5.0, size=(25, 5))
    return X / 5, HOSTILE[y], U / 5


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.fixture(scope="module")
def file(data, tmp_path_factory):
    """A report on a search that, with a single cell of step (b), must look at Delta = 0.1."""
    X, y, U = data
    search = UniversumSVCCV(
        [0.1, 1.0, 2.0],
        kernel="linear",
        deltas=[DELTAS[SHOWN]],
        universum_weights=["balanced"],
        n_steps=2,
        criterion=3,
        tol=1e-8,
    ).fit(X, y, universum=U)
    path = tmp_path_factory.mktemp("report") / "report.html"
    report.write(search, X, y, U, path, deltas=DELTAS, title="<script>alert(2)</script>.csv")
    return path, search


@pytest.fixture
def opened(browser, file):
    browser.resize(1280)
    browser.set_theme("light")
    browser.open(file[0])
    browser.settle()
    return browser


def fresh_model(search, X, y, U, delta):
    """A model of the report's path, fitted by itself; None is the plain SVM."""
    model = UniversumSVC(search.best_params_["C"], kernel="linear", tol=1e-10)
    if delta is None:
        return model.fit(X, y)
    return model.set_params(delta=delta).fit(X, y, universum=U)


def drawn_shares(browser, panel, axis):
    """Heights of the bars in a panel as percentages, measured on the screen."""
    return browser.run(
        """
        const panel = document.querySelectorAll(".panel")[arguments[0]];
        const axis = panel._fullLayout[arguments[1]];
        const cell = panel.querySelector(".subplot.x" + axis._id);
        return [...cell.querySelectorAll(".bars .point path")].map(
            (bar) => bar.getBBox().height / axis._length * axis.range[1]);
        """,
        panel,
        axis,
    )


def traces(browser, panel):
    """What Plotly was given for a panel: heights in per cent by name and axis."""
    rows = browser.run(
        "return document.querySelectorAll('.panel')[arguments[0]]"
        ".data.map((t) => [t.name, t.yaxis, t.x, t.y]);",
        panel,
    )
    return {(name, axis): (np.array(x), np.array(y)) for name, axis, x, y in rows}


def assert_shown(browser, k, axis, training, universum):
    """The histograms of class k are those of these projections."""
    shown = traces(browser, k)
    for name, values in (("training", training), ("universum", universum)):
        centres, heights = shown[name, axis]
        width = centres[1] - centres[0]
        edges = np.append(centres - width / 2, centres[-1] + width / 2)
        counts = heights * len(values) / 100
        assert np.allclose(counts, np.round(counts), atol=1e-9)
        assert_counts(np.round(counts), values, edges, 1e-2)
        assert counts.sum() == pytest.approx(len(values))
    layout_axis = "yaxis2" if axis == "y2" else "yaxis"
    bars = np.array(drawn_shares(browser, k, layout_axis))
    heights = shown["training", axis][1]
    assert np.allclose(bars, heights[heights > 0] if len(bars) < len(heights) else heights, atol=1)


def test_nothing_is_loaded_and_nothing_fails(opened, file):
    assert opened.requests() == [file[0].as_uri()]
    assert opened.console() == []


def test_every_part_works_without_a_complaint(opened, file):
    """Slider, sorting, both themes, a phone, a hovering mouse and a printer: no error follows."""
    slider = opened.driver.find_element("id", "delta")
    slider.send_keys("\ue014\ue014")  # arrow right, twice
    for button in opened.driver.find_elements("css selector", "th button"):
        opened.run("arguments[0].click();", button)
    opened.set_theme("dark")
    opened.resize(390)
    opened.settle()
    opened.run(
        "Plotly.Fx.hover(document.querySelector('.labels'), [{curveNumber: 0, pointNumber: 0}]);"
    )
    assert opened.print_pdf().startswith(b"%PDF")
    opened.settle()
    assert opened.console() == []
    assert opened.requests() == [file[0].as_uri()]


def test_the_histograms_are_those_of_models_fitted_afresh(opened, file, data):
    X, y, U = data
    plain, other = (fresh_model(file[1], X, y, U, d) for d in (None, DELTAS[SHOWN]))
    for k, name in enumerate(plain.classes_):
        for model, axis in ((plain, "y"), (other, "y2")):
            own = model.projections(X[y == name])[:, k]
            assert_shown(opened, k, axis, own, model.projections(U)[:, k])


def test_the_slider_changes_the_histograms(opened, file, data):
    """By keyboard: home, arrow right, end."""
    X, y, U = data
    slider = opened.driver.find_element("id", "delta")
    for keys, delta in zip(("\ue011", "\ue014", "\ue010"), DELTAS, strict=True):
        slider.send_keys(keys)
        opened.settle()
        said = f"Δ = {delta:g}"
        assert opened.driver.find_element("id", "delta-shown").text == said
        assert slider.get_attribute("aria-valuetext") == said
        model = fresh_model(file[1], X, y, U, delta)
        for k, name in enumerate(model.classes_):
            own = model.projections(X[y == name])[:, k]
            assert_shown(opened, k, "y2", own, model.projections(U)[:, k])
        marked = opened.driver.find_elements("css selector", ".path tr.marked")
        assert [row.text.split()[0] for row in marked] == [f"{delta:g}"]


def test_the_slider_changes_errors_and_the_curve_of_rejection(opened, file, data):
    X, y, U = data
    slider, curves = opened.driver.find_element("id", "delta"), []
    for keys, delta in zip(("\ue011", "\ue014", "\ue010"), DELTAS, strict=True):
        slider.send_keys(keys)
        opened.settle()
        model = fresh_model(file[1], X, y, U, delta)
        left_out = loo_error(model, X, y, universum=U, method="loo").error
        for name, error in (("training", 1 - model.score(X, y)), ("left-out", left_out)):
            shown = opened.driver.find_element("id", f"{name}-error").text
            assert shown.split() == [f"{100 * error:.1f}", "%"]
        curves.append(opened.run("return document.querySelector('.accepted').data.map((t) => t.y)"))
    plain, chosen = zip(*curves, strict=True)
    assert plain[0] == plain[1] == plain[2]
    assert chosen[0] != chosen[2]
    assert chosen[0][0] == 0, "no threshold, no point"


def test_no_table_is_clipped_on_a_desk(opened):
    wide = opened.run(
        "return [...document.querySelectorAll('.scroll')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1).map((e) => e.ariaLabel)"
    )
    assert wide == []


def test_the_slider_changes_the_labels(opened, file, data):
    X, y, U = data
    counts = {}
    for keys, delta in (("", 0.1), ("\ue010", 0.45)):
        opened.driver.find_element("id", "delta").send_keys(keys)
        opened.settle()
        shown = opened.run("return document.querySelector('.labels').data.map((t) => t.x);")
        counts[delta] = np.round(np.array(shown) * len(U) / 100).astype(int)
    for row, delta in ((0, None), (1, 0.1), (1, 0.45)):
        model = fresh_model(file[1], X, y, U, delta)
        projections = model.projections(U)
        surely = np.bincount(
            projections.argmax(axis=1)[projections.max(axis=1) > 1e-2], minlength=4
        )
        drawn = counts[0.1 if delta is None else delta][row]
        assert np.all(surely <= drawn)
        assert drawn.sum() == len(U)
    assert not np.array_equal(counts[0.1][1], counts[0.45][1])


def column_of(table, position):
    rows = table.find_elements("css selector", "tbody tr")
    return [row.find_elements("css selector", "td")[position].text for row in rows]


def test_the_table_sorts(opened, file):
    search = file[1]
    # The last table of the section lists all cells; the first compares the finalists.
    table = opened.driver.find_elements("css selector", "#search table")[-1]
    headers = table.find_elements("css selector", "th")
    names = [header.text for header in headers]
    for name, values in (("error", search.results_["error"]), ("C", search.results_["C"])):
        position = next(k for k, shown in enumerate(names) if shown.split() == [name])
        button = headers[position].find_element("css selector", "button")
        for order in ("ascending", "descending"):
            button.click()
            cells = column_of(table, position)
            numbers = [float(cell.removesuffix(" %")) for cell in cells]
            assert numbers == sorted(numbers, reverse=order == "descending")
            assert headers[position].get_attribute("aria-sort") == order
        scale = 100 if name == "error" else 1
        assert sorted(numbers) == pytest.approx(sorted(scale * values), abs=0.05)
    marked = opened.driver.find_elements("css selector", "#search tr.marked")
    assert len(marked) == 1, "the chosen cell is still marked after sorting"


def test_cells_without_a_number_are_sorted_last(opened):
    button = opened.driver.find_element("css selector", ".path th button")
    for _ in range(2):
        opened.run("arguments[0].click();", button)
        assert (
            column_of(opened.driver.find_element("css selector", ".path"), 0)[-1] == "no universum"
        )


def test_names_are_shown_as_text(opened):
    expected = sorted(HOSTILE.tolist())
    captions = opened.driver.find_elements("css selector", ".panels figcaption")
    assert [caption.text for caption in captions] == [f"class {name}" for name in expected]
    assert opened.driver.find_element("css selector", "h1").text == "<script>alert(2)</script>.csv"
    assert opened.driver.title == "<script>alert(2)</script>.csv"
    ticks = opened.run(
        "return [...document.querySelectorAll('.labels .yaxislayer-above text')]"
        ".map((t) => t.textContent);"
    )
    shortened = [name if len(name) <= 24 else name[:23] + "…" for name in expected]
    assert ticks == shortened
    assert opened.run("return document.scripts.length") == 3
    assert opened.run("return document.querySelectorAll('img, iframe, .plot a').length") == 0
    assert opened.run("return document.querySelectorAll('.labels tspan').length") == 0


def test_names_are_text_under_the_mouse(opened):
    expected = sorted(HOSTILE.tolist())
    for k, name in enumerate(expected):
        opened.run(
            "Plotly.Fx.hover(document.querySelector('.labels'), [{curveNumber: 0, pointNumber: "
            f"{k}}}]);"
        )
        opened.wait_until(
            "return document.querySelector('.labels .hoverlayer').textContent"
            ".startsWith(arguments[0]);",
            name if len(name) <= 24 else name[:23] + "…",
        )


def test_no_script_but_the_page_s_own_runs(opened):
    """Even if a name got past the escaping, the content security policy would stop it."""
    ran = opened.run(
        """
        const script = document.createElement("script");
        script.textContent = "window.injected = true";
        document.body.append(script);
        return window.injected === true;
        """
    )
    assert not ran


def test_the_page_fits_the_screen(opened):
    for width in (1280, 768, 390, 320):
        opened.resize(width)
        # Plotly waits a moment before it follows a change of size.
        opened.wait_until(
            "return [...document.querySelectorAll('.plot')].every((p) => "
            "Math.abs(p.querySelector('svg').clientWidth - p.clientWidth) <= 1);"
        )
        assert opened.run("return document.documentElement.scrollWidth") <= width
        sizes = opened.run(
            "return [...document.querySelectorAll('.plot')].map((p) => [p, p.closest('section')]"
            ".map((e) => e.getBoundingClientRect().right));"
        )
        assert all(drawing <= room for drawing, room in sizes), width


def test_captions_are_read_without_scrolling_on_a_phone(opened):
    opened.resize(390)
    opened.settle()
    beyond = opened.run(
        "return [...document.querySelectorAll('caption')].map(caption =>"
        " caption.getBoundingClientRect().right"
        " - caption.closest('.scroll').getBoundingClientRect().right);"
    )
    assert len(beyond) > 4
    assert max(beyond) < 1


def test_figures_follow_the_theme(opened):
    for theme, is_dark in (("dark", True), ("light", False)):
        opened.set_theme(theme)
        opened.settle()
        colours = opened.run(
            """
            const section = getComputedStyle(document.querySelector("section")).backgroundColor;
            const plot = document.querySelector(".panel .main-svg").style.background;
            return [section, plot];
            """
        )
        levels = [[int(c) for c in colour[4:-1].split(",")] for colour in colours]
        assert levels[0] == levels[1], theme
        assert (max(levels[0]) < 128) == is_dark


def test_paper_is_light_and_the_screen_stays_dark(opened):
    background = "document.querySelector('.panel .main-svg').style.background"
    opened.set_theme("dark")
    opened.wait_until(f"return {background} !== 'rgb(255, 255, 255)';")
    opened.run(f"addEventListener('beforeprint', () => {{ window.printed = {background}; }});")
    opened.print_pdf()
    opened.settle()
    assert opened.run("return window.printed;") == "rgb(255, 255, 255)"
    assert opened.run(f"return {background};") != "rgb(255, 255, 255)"


def test_every_figure_and_control_has_a_name(opened):
    unnamed = opened.run(
        """
        const figures = [...document.querySelectorAll("[role=img], [role=region]")]
            .filter((e) => !e.getAttribute("aria-label"));
        const inputs = [...document.querySelectorAll("input")].filter((e) => !e.labels.length);
        const buttons = [...document.querySelectorAll("button")].filter((e) => !e.textContent);
        return figures.length + inputs.length + buttons.length;
        """
    )
    assert unnamed == 0
    axes = opened.run(
        "return [...document.querySelectorAll('.panel')].map((p) => "
        "[p.layout.xaxis.title.text, p.layout.yaxis.title.text, p.layout.yaxis2.title.text]);"
    )
    assert axes == [["projection (margin = 1)", "% of points", "% of points"]] * 4


def test_without_a_universum(browser, data, tmp_path):
    X, y, _ = data
    model = UniversumSVC(2.0, kernel="linear", tol=1e-8).fit(X, y)
    browser.open(report.write(model, X, y, None, tmp_path / "plain.html"))
    browser.settle()
    assert browser.console() == []
    for k, name in enumerate(model.classes_):
        (key, (_, heights)), *others = traces(browser, k).items()
        assert not others
        assert key[0] == "training"
        assert heights.sum() == pytest.approx(100)
        assert np.sum(y == name) > 0
