"""Configuration of the documentation: `sphinx-build -W docs docs/_build/html`.

The build needs no network. Formulas are set by a copy of MathJax that is part of the output, and
links to other projects are plain links. Where there is a network, MUSVM_DOCS_INTERSPHINX=1 makes
names of other projects lead to their own pages. The examples are executed; what they print and
draw is part of the pages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from sphinx.application import Sphinx

import musvm

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE / "_ext"))

# The solver takes one BLAS thread for itself. This is for what the examples do around it.
os.environ.setdefault("OMP_NUM_THREADS", "1")

project = "musvm"
author = "The musvm developers"
copyright = author
release = musvm.__version__
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",
    "sphinx-mathjax-offline",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "house",
    "shell_reference",
]
if os.environ.get("MUSVM_DOCS_INTERSPHINX"):
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "sklearn": ("https://scikit-learn.org/stable", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
        "joblib": ("https://joblib.readthedocs.io/en/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
    }
exclude_patterns = ["_build", "_templates", "**/GALLERY_HEADER.rst", "results/*.md.in"]
templates_path = ["_templates"]
language = "en_GB"
default_role = "literal"  # what docstrings mean by single backticks
numfig = True  # so that equations are numbered by page
nitpicky = True
nitpick_ignore_regex = [(r"py:.*", r"(sklearn|matplotlib|numpy|joblib|pandas|skops|python)\b.*")]

# ---------------------------------------------------------------------------------------------
# Markdown

myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
mathjax3_config = {"chtml": {"scale": 0.92}}

# What the copy button leaves out: prompts, and what was printed.
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# ---------------------------------------------------------------------------------------------
# The reference

autodoc_typehints = "none"  # the docstrings say more
autodoc_default_options = {
    # scikit-learn adds these to every estimator.
    "exclude-members": "set_fit_request, set_score_request, set_split_request, "
    "get_metadata_routing, get_params, set_params",
}
autosummary_generate = True
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False  # the template lists them
numpydoc_validation_checks: set[str] = set()

# ---------------------------------------------------------------------------------------------
# The gallery

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "within_subsection_order": "gallery_order.ExampleOrder",
    "doc_module": ("musvm",),
    "backreferences_dir": "reference/generated/backreferences",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
    "capture_repr": ("__repr__",),
    "matplotlib_animations": False,
}

# ---------------------------------------------------------------------------------------------
# Pages

html_theme = "pydata_sphinx_theme"
html_title = f"musvm {release}"
html_static_path = ["_static"]
html_css_files = ["musvm.css"]
html_js_files = ["figures.js"]
html_context = {"default_mode": "auto"}
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "musvm"},
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc", "sg_download_links"],
}
WITHOUT_SIDEBAR = (
    "getting_started",
    "citing",
    "changelog",
    "architecture",
    "contributing",
    "versions",
    "faq",
)
html_sidebars: dict[str, list[str]] = {page: [] for page in WITHOUT_SIDEBAR}


def copy_benchmarks(app: Sphinx) -> None:
    """Put the benchmarks' tables and plots beside their page."""
    source, target = ROOT / "benchmarks" / "results", HERE / "benchmarks" / "results"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    kept = (file for file in source.glob("*") if "-quick" not in file.stem)
    pages = [shutil.copy2(f, target) for f in sorted(kept) if f.suffix in (".md", ".png", ".svg")]
    if not pages:
        (target / "none.md").write_text("# No results\n\nThis copy of the sources has none.\n")


def write_report(app: Sphinx, error: Exception | None) -> None:
    """The report of the example about it, for that page to show."""
    if error is None and app.builder.format == "html":
        page = Path(app.outdir, "_static", "report.html")
        script = ROOT / "examples" / "plot_report.py"
        subprocess.run([sys.executable, script, page], check=True, stdout=subprocess.DEVNULL)


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", copy_benchmarks)
    app.connect("build-finished", write_report)
