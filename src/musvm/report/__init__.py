"""The HTML report: one file about a search or a model, its data and its universum.

document.py   `write`, and what goes where
subject.py    the search or model that it is about
models.py     the plain SVM, the MU-SVM and the path of models over Delta
content.py    tables and the numbers of the figures
sentences.py  the words
text.py       names, which are not to be trusted, and numbers as text
page.py       the template, and the file
"""

from musvm.report.document import write

__all__ = ["write"]
