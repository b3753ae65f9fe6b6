"""scikit-learn's callbacks, from version 1.9 on: what they are told of fits and searches."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("sklearn.callback", reason="scikit-learn has no callbacks before 1.9")

import musvm
from musvm import UniversumSVC, UniversumSVCCV

rng = np.random.default_rng(0)
Y = np.arange(60) % 3
X = rng.normal(size=(60, 4)) + 1.5 * rng.normal(size=(3, 4))[Y]
U = rng.normal(size=(25, 4))


class Recorder:
    """Keeps what it is told."""

    def __init__(self, fail_at: int | None = None):
        self.events: list[str] = []
        self.facts: list[dict] = []
        self.fail_at = fail_at

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context, *, metadata=None):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context, *, metadata=None):
        self.events.append(f"end {context.task_name}")
        if metadata is not None:
            self.facts.append(metadata)
        if len(self.facts) == self.fail_at:
            raise KeyboardInterrupt


def test_a_fit_tells_its_rounds_and_their_gap():
    recorder = Recorder()
    model = UniversumSVC(kernel="linear", solver="linear", tol=1e-2).set_callbacks(recorder)
    model.fit(X, Y, universum=U)
    rounds = [facts["n_rounds"] for facts in recorder.facts]
    assert len(rounds) > 1
    assert rounds == sorted(rounds)
    assert recorder.facts[-1]["relative_gap"] <= model.tol
    steps = ["begin round", "end round"] * len(rounds)
    assert recorder.events == ["setup", "begin fit", *steps, "end fit", "teardown"]
    same = UniversumSVC(kernel="linear", solver="linear", tol=1e-2).fit(X, Y, universum=U)
    np.testing.assert_array_equal(model.dual_coef_, same.dual_coef_)


def test_a_search_tells_its_tasks():
    recorder = Recorder()
    search = UniversumSVCCV([0.1, 1.0], criterion=3).set_callbacks(recorder)
    search.fit(X, Y, universum=U)
    done = [facts["n_done"] for facts in recorder.facts]
    assert done == sorted(done)
    assert done[-1] > len(search.results_["C"])
    assert recorder.events[:2] == ["setup", "begin fit"]
    assert recorder.events[-2:] == ["end fit", "teardown"]


@pytest.mark.parametrize("make", [UniversumSVC, lambda: UniversumSVCCV([0.1, 1.0], criterion=3)])
def test_an_interrupted_fit_ends_its_callbacks_and_leaves_the_estimator_as_it_was(make):
    recorder = Recorder(fail_at=1)
    model = make().set_callbacks(recorder)
    before = dict(vars(model))
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, universum=U)
    assert recorder.events[-1] == "teardown"
    assert vars(model) == before


def test_a_model_is_saved_without_callbacks(tmp_path):
    pytest.importorskip("skops", reason="model files need skops")
    model = UniversumSVC().set_callbacks(Recorder()).fit(X, Y)
    with pytest.raises(musvm.ModelFileError, match=r"Remove its callbacks first, by set_callbacks"):
        musvm.save(model, tmp_path / "model.skops")
    musvm.save(model.set_callbacks(), tmp_path / "model.skops")
    same = musvm.load(tmp_path / "model.skops")
    np.testing.assert_array_equal(same.decision_function(X), model.decision_function(X))
