"""The documentation builds without warnings, with its examples executed, and keeps its word."""

from __future__ import annotations

import doctest
import html.parser
import importlib
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import musvm
from chromium import chromium

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("plot_*.py"))
PAGES = sorted(
    page
    for folder in (".", "user_guide", "mathematics")
    for page in (ROOT / "docs" / folder).glob("*.md")
    if ">>>" in page.read_text(encoding="utf-8")
)
PUBLIC_MODULES = (
    "musvm",
    "musvm.datasets",
    "musvm.metrics",
    "musvm.report",
    "musvm.torch",
    "musvm.universum",
)
RETURNED = {"musvm.loo.LeaveOneOutResult"}  # by a public function; not made by hand
SPHINX = (
    "sphinx", "numpydoc", "pydata_sphinx_theme", "sphinx_gallery", "myst_parser",
    "sphinx_copybutton", "sphinx_design", "typer",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built pages. What the build reads is copied, so that nothing is left in the sources."""
    for package in SPHINX:
        pytest.importorskip(package, reason="needs the extra 'docs'")
    source, pages = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("pages")
    ignore = shutil.ignore_patterns("_build", "gallery", "generated", "__pycache__")
    for name in ("docs", "examples", "benchmarks"):
        shutil.copytree(ROOT / name, source / name, ignore=ignore)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so"))
    for name in ("CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff", "pyproject.toml"):
        shutil.copy2(ROOT / name, source)
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "docs", str(pages)]
    result = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return pages


# ---------------------------------------------------------------------------------------------
# The pages


def test_every_example_was_executed_and_shows_what_came_out(site):
    assert len(EXAMPLES) >= 8
    for example in EXAMPLES:
        page = (site / "gallery" / example.name).with_suffix(".html")
        text = page.read_text(encoding="utf-8")
        pictures = text.count('"sphx-glr-single-img"') + text.count('"sphx-glr-multi-img"')
        assert pictures >= example.read_text(encoding="utf-8").count("plt.show()"), example.name


class Resources(html.parser.HTMLParser):
    """Addresses that a browser loads by itself when it opens a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        if tag in ("script", "img", "iframe", "source") and attributes.get("src"):
            self.addresses.append(attributes["src"])
        if tag == "link" and attributes.get("rel") in ("stylesheet", "preload", "icon"):
            self.addresses.append(attributes["href"])


def pages_of(site: Path) -> list[Path]:
    """All pages but the theme's own templates."""
    return [page for page in site.rglob("*.html") if "_static" not in page.parts]


def test_the_pages_open_without_a_network(site):
    pages = pages_of(site)
    assert len(pages) > 40
    for page in pages:
        resources = Resources()
        resources.feed(page.read_text(encoding="utf-8"))
        for address in resources.addresses:
            if address.startswith("data:"):
                continue
            assert not re.match(r"(https?:)?//", address), f"{page.name} loads {address}"
            assert (page.parent / address.split("?")[0]).exists(), f"{page.name}: {address}"


def test_the_command_line_is_there_with_all_its_options(site):
    page = (site / "reference" / "shell.html").read_text(encoding="utf-8")
    text = html.unescape(re.sub(r"<[^>]*>", "", page))

    def commands(command, name):
        yield name, command
        for child, inner in getattr(command, "commands", {}).items():
            yield from commands(inner, f"{name} {child}")

    get_command = importlib.import_module("typer.main").get_command
    app = importlib.import_module("musvm.cli").app
    found = list(commands(get_command(app), "musvm"))
    assert len(found) > 15
    for name, command in found:
        # From its own usage to that of the next command.
        _, _, after = text.partition(f"Usage: {name} ")
        assert after, name
        shown = after.partition("Usage: ")[0]
        for parameter in command.params:
            if parameter.param_type_name == "option" and not parameter.hidden:
                assert parameter.opts[0] in shown, f"{name} {parameter.opts[0]}"


def test_code_can_be_copied(site, browser):
    browser.resize(1280)
    browser.open(site / "getting_started.html")
    # The buttons are put there by a script, which may take a moment.
    buttons = "document.querySelectorAll('button.copybtn').length"
    browser.wait_until(f"return {buttons} > 0")
    assert browser.run(f"return {buttons}") > 2


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with chromium(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.mark.parametrize("width", [1280, 390], ids=["desktop", "phone"])
def test_nothing_sticks_out_of_the_pages(site, browser, width):
    """Formulas are set, and no page has to be moved sideways: what is wide scrolls by itself."""
    browser.resize(width)
    folders = ("user_guide", "mathematics", "results", "benchmarks")
    shown = [page for page in pages_of(site) if page.relative_to(site).parts[0] in folders]
    shown += [site / "gallery" / "plot_delta.html"]
    shown += [site / "reference" / "generated" / "musvm.UniversumSVC.html"]
    for page in shown:
        browser.open(page)
        browser.wait_until("return document.readyState === 'complete'")
        if "mathjax/tex-chtml.js" in page.read_text(encoding="utf-8"):
            browser.driver.execute_async_script("MathJax.startup.promise.then(arguments[0]);")
            assert browser.run("return document.querySelectorAll('mjx-container').length") > 0
        assert browser.run("return document.documentElement.scrollWidth") <= width, page.name
        assert all(address.startswith(("file:", "data:")) for address in browser.requests())


# ---------------------------------------------------------------------------------------------
# The sources


def listed_names() -> set[str]:
    """Names in the reference, with their modules."""
    module, names = "", set()
    for line in (ROOT / "docs" / "reference" / "index.rst").read_text().splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split("::")[1].strip()
        elif re.fullmatch(r"   \w+", line):
            names.add(f"{module}.{line.strip()}")
    return names


def test_the_reference_lists_the_public_names_and_no_others():
    public = {
        f"{module}.{name}"
        for module in PUBLIC_MODULES
        for name in importlib.import_module(module).__all__
    }
    assert listed_names() == public | RETURNED


def test_getting_started_lists_what_can_be_installed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].keys() - {"test", "docs", "dev"}
    page = (ROOT / "docs" / "getting_started.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)) == extras


def test_the_page_about_the_shell_lists_every_command():
    app = pytest.importorskip("musvm.cli", reason="needs the extra 'cli'").app
    commands = {command.name or command.callback.__name__ for command in app.registered_commands}
    page = (ROOT / "docs" / "user_guide" / "shell.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `musvm ([\w-]+)` \|", page, re.MULTILINE)) == commands


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_code_on_the_pages_gives_what_it_shows(page):
    blocks = re.findall(
        r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    examples = "".join(block for block in blocks if ">>>" in block)
    if "import torch" in examples:
        pytest.importorskip("torch", reason="the page about PyTorch needs it")
    test = doctest.DocTestParser().get_doctest(examples, {}, page.name, str(page), 0)
    report: list[str] = []
    doctest.DocTestRunner().run(test, out=report.append)
    assert not report, "".join(report)


def test_the_citation_is_of_this_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE).group(1) == musvm.__version__
