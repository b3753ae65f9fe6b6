"""The notebook among the examples: from a table to a saved model, without a warning.

`examples/from_table_to_model.ipynb` shows what this test writes into it when it is told to:

    MUSVM_WRITE_NOTEBOOK=1 python -m pytest tests/test_notebook.py

Otherwise the cells are run again and compared. Words must be the same; numbers may differ by what
another processor or another version of a library makes of the last digits.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pandas", reason="the notebook has tables of pandas")
pytest.importorskip("skops", reason="the notebook saves a model")

import notebooks

NOTEBOOK = Path(__file__).parents[1] / "examples" / "from_table_to_model.ipynb"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the cells print, in a folder of their own, every warning being an error."""
    folder = tmp_path_factory.mktemp("notebook")
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return notebooks.run(notebooks.read(NOTEBOOK))
    finally:
        os.chdir(before)


def test_the_notebook_runs_without_a_warning_and_shows_what_it_prints(printed):
    if os.environ.get("MUSVM_WRITE_NOTEBOOK"):
        notebooks.write(NOTEBOOK, notebooks.with_outputs(notebooks.read(NOTEBOOK), printed))
    shown = "".join(notebooks.stored(notebooks.read(NOTEBOOK)))
    found = "".join(printed)
    assert NUMBER.sub("#", found) == NUMBER.sub("#", shown), f"{NOTEBOOK.name} is out of date"
    pairs = (np.array(NUMBER.findall(text), dtype=float) for text in (found, shown))
    np.testing.assert_allclose(*pairs, rtol=0.02, atol=0.02)


def test_it_goes_all_the_way():
    cells = ["".join(cell["source"]) for cell in notebooks.code_cells(notebooks.read(NOTEBOOK))]
    code = "\n".join(cells)
    road = [
        "as_frame=True", "make_universum_pipeline(", "UniversumSVCCV(", "comparison_",
        "RejectingClassifier(", "CalibratedClassifierCV(", "musvm.save(", "musvm.load(",
    ]  # fmt: skip
    places = [code.find(name) for name in road]
    assert -1 not in places
    assert places == sorted(places)


def test_a_warning_or_an_error_in_a_cell_is_not_lost():
    def cell(*lines):
        return {"cell_type": "code", "source": [f"{line}\n" for line in lines]}

    noisy = {"cells": [cell("import warnings"), cell("warnings.warn('careful')")]}
    with pytest.raises(UserWarning, match="careful"):
        notebooks.run(noisy)
    with pytest.raises(ZeroDivisionError):
        notebooks.run({"cells": [cell("1 / 0")]})
    assert notebooks.run({"cells": [cell("a = 2", "print(a)", "a + 1")]}) == ["2\n3\n"]
