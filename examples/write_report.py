"""
A report on handwritten digits
==============================

Searches C, the kernel's width and :math:`\\Delta` for the digits 3, 5 and 8, with other digits as
universum, and writes what it found as one HTML file that opens in any browser.

Run this file with the name of the report: ``python examples/write_report.py digits.html``.
"""

import sys

from musvm import UniversumSVCCV, report
from musvm.datasets import load_digits_universum

digits = load_digits_universum(classes=(3, 5, 8), n_per_class=20, m=200, random_state=0)
X, y, universum = digits.data, digits.target, digits.universum

search = UniversumSVCCV([0.1, 1, 10, 100], gammas=[1 / 32, 1 / 16, 1 / 8], criterion=5)
search.fit(X, y, universum=universum)
path = sys.argv[1] if len(sys.argv) > 1 else "report.html"
print(report.write(search, X, y, universum, path, title="The digits 3, 5 and 8", overwrite=True))
