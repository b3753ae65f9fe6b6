"""
How do I get a report to pass on?
=================================

With :func:`musvm.report.write`: one HTML file about a search or a model that opens in any browser,
without a network. It has the data in numbers, the settings that the search tried, the SVM with and
without universum, the histograms of projections with a slider over Δ, the diagnosis of the
universum and the certificates.

.. raw:: html

    <iframe class="live-report" src="../_static/report.html" title="The report of this example"
    loading="lazy"></iframe>

Run this file with a name to keep the report: ``python examples/plot_report.py digits.html``.
"""

import sys
import tempfile
from pathlib import Path

from musvm import UniversumSVCCV, report
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(3, 5, 8), n_per_class=20, m=200, random_state=0)
X, y, universum = digits.data, digits.target, digits.universum

search = UniversumSVCCV([0.1, 1, 10, 100], gammas=[1 / 32, 1 / 16, 1 / 8], criterion=5)
search.fit(X, y, universum=universum)

# %%
# The models along Δ are fitted for the report. The class names, feature names and titles that end
# up in it are treated as text, whatever they contain.

# sphinx_gallery_thumbnail_path = "images/report.png"
with tempfile.TemporaryDirectory() as folder:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else Path(folder, "digits.html"))
    report.write(search, X, y, universum, path, title="The digits 3, 5 and 8", overwrite=True)
    print(f"{path.name}: {path.stat().st_size / 1e6:.1f} MB")

# %%
# Most of that is the library that draws the figures. From the shell, ``musvm fit ... --report
# report.html`` does the same.
