"""The diagnosis experiment: truth and thresholds of made-up pairs, and its stored results."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from musvm.experiments import _verdicts as verdicts
from musvm.experiments import diagnosis as experiment
from musvm.experiments._verdicts import Pair
from musvm.experiments.data import Data
from musvm.experiments.diagnosis import AVERAGE, BETWEEN, Task
from musvm.universum.diagnosis import THRESHOLDS, Measures, Thresholds

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def pair(differences, *, source="s", spread=0.5, entropy=1.0) -> Pair:
    """A pair with these differences of test errors, in per cent, and these measures."""
    measures = asdict(Measures(spread, spread, spread, spread, entropy))
    outcomes = [{"svm": 0.1, "musvm": 0.1 + d / 100, **measures} for d in differences]
    return Pair(source, source, "u", outcomes)


@pytest.mark.parametrize(
    ("differences", "truth"),
    [
        ([-1, -2, -1, -2], "helps"),
        ([1, 2, 1, 2], "hurts"),
        ([-3, 3, -1, 1], "neither"),
        ([0, 0, 0, 0], "neither"),
        ([1, 1, 1, 1], "hurts"),
    ],
)
def test_truth_is_two_standard_errors(differences, truth):
    assert pair(differences).truth == truth
    assert pair(differences).difference.mean == pytest.approx(np.mean(differences))


def test_every_data_set_is_left_out_once_and_as_a_whole():
    pairs = [pair([1, 2], source=f"data {k % 7}") for k in range(40)]
    judged = []
    for source, others, own in verdicts.left_out(pairs):
        assert {p.source for p in own} == {source}
        assert source not in {p.source for p in others}
        assert len(others) + len(own) == 40
        judged += own
    assert sorted(map(id, judged)) == sorted(map(id, pairs))


def test_a_pair_has_no_part_in_the_rule_that_judges_it():
    # Each data set has an outcome of its own, so the others' most frequent one is never right.
    pairs = [pair([-1, -2], source="a")] * 3 + [pair([1, 2], source="b")] * 3
    judgements = verdicts.cross_validate(verdicts.most_frequent, pairs)
    assert judgements == [("hurts", "helps")] * 3 + [("helps", "hurts")] * 3


def made_by(rule: Thresholds) -> list[Pair]:
    """Pairs all over the range whose truth follows a rule."""
    differences = {"helps": [-1, -2], "neither": [-1, 1], "hurts": [1, 2]}
    return [
        pair(differences[rule.verdict(Measures(1, 1, s, 1, e))], spread=s, entropy=e)
        for s in np.arange(0.025, 1.2, 0.1)
        for e in np.arange(0.025, 1.0, 0.1)
    ]


def test_thresholds_that_explain_everything_are_found():
    made = made_by(Thresholds(min_entropy=0.6, min_spread=0.3, max_spread=0.9))
    cases = verdicts.cases_of(made)
    judgements = verdicts.judge(verdicts.fit_rule(cases), cases)
    assert verdicts.n_right(judgements) == len(cases)


def test_among_equal_thresholds_the_cautious_one_is_taken():
    # Alike in every measure: one helps and one hurts, so either verdict is right once.
    cases = verdicts.cases_of([pair([-1, -2]), pair([1, 2])])
    assert verdicts.fit_rule(cases)(cases[0][0]) == "hurts"


def test_the_papers_reading_is_fitted_too():
    biased = [pair([-1, -2], entropy=0.2), pair([-1, -2], spread=1.1)]
    even = [pair([-1, 1], entropy=0.9), pair([-1, 1], entropy=0.9, spread=0.1)]
    rule = verdicts.fit_paper_rule(verdicts.cases_of(biased + even))
    assert [rule(p.measures) for p in biased + even] == ["helps"] * 2 + ["neither"] * 2


def test_page_counts_verdicts():
    pairs = [
        pair(d, source=f"s{k}", entropy=e, spread=0.4 + 0.01 * k)
        for k in range(6)
        for d, e in [([-1, -2], 0.95), ([1, 2], 0.05), ([1, 2], 0.06)]
    ]
    page = verdicts.as_page(pairs, m=7)
    assert "| the rule, one data set left out | 18 of 18 (100%) | 100% |" in page
    assert "| the same, each partition by itself | 36 of 36 (100%) | 100% |" in page
    assert "| the most frequent outcome, one data set left out | 12 of 18 (67%) | 50% |" in page
    assert "| helps | 6 | 0 | 0 |" in page
    assert "| hurts | 0 | 0 | 12 |" in page
    assert "| s5 | " in page
    assert "on 18 pairs" in page
    assert "from zero: 6 helps, 0 neither, 12 hurts." in page
    assert "the most frequent outcome, 6 more verdicts are\nright" in page
    assert "- *hurts* was said 12 times, and right 12 times." in page


def test_page_owns_up_to_a_rule_that_does_no_better_than_knowing_nothing():
    # Whether a universum helps has nothing to do with what the rule can see.
    pairs = [
        pair(d, source=f"s{k}", spread=0.1 * k, entropy=0.1 * k)
        for k in range(5)
        for d in ([-1, -2], [1, 2], [-1, 1], [-1, 1])
    ]
    page = verdicts.as_page(pairs, m=7)
    assert "is worth nothing that we\ncould measure" in page
    assert "the first 10 partitions" in page


def test_balanced_accuracy_is_the_mean_over_the_outcomes_that_occur():
    judgements = [("helps", "helps")] * 9 + [("helps", "hurts")]
    assert verdicts.balanced_accuracy(judgements) == 0.5
    assert verdicts.n_right(judgements) == 9


def test_partition_of_a_small_task():
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    data = Data((3 * rng.normal(size=(4, 6)))[y] + rng.normal(size=(400, 6)), y, None)
    task = Task("made up", [0, 1, 2], {"3": [3], AVERAGE: [], BETWEEN: [3]}, n_train=10, n_test=50)
    outcomes = {}
    for universum in task.universa:
        study = experiment.study_of(task, universum, data)
        outcomes[universum] = experiment.run_partition(study, 0, data)
        assert outcomes[universum] == experiment.run_partition(study, 0, data)
    assert len({outcome["svm"] for outcome in outcomes.values()}) == 1, "not the same points"
    assert len({outcome["spread"] for outcome in outcomes.values()}) > 1
    for outcome in outcomes.values():
        assert all(0 <= outcome[name] <= 1 for name in ("svm", "musvm", "inside", "piling"))


def test_stored_results_give_the_thresholds_of_the_library_and_the_page():
    pairs = experiment.read(RESULTS / "diagnosis.json")
    assert len(pairs) >= 30
    assert all(len(p.outcomes) >= 10 for p in pairs)
    assert verdicts.fit_thresholds(verdicts.cases_of(pairs)) == THRESHOLDS
    page = verdicts.as_page(pairs, experiment.M)
    assert (RESULTS / "diagnosis.md").read_text(encoding="utf-8") == page


def test_tasks_name_their_pairs_once():
    names = [(task.name, universum) for task in experiment.TASKS for universum in task.universa]
    assert len(set(names)) == len(names)
