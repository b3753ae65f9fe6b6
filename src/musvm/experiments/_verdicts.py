"""From the outcomes of the diagnosis experiment to thresholds, and the page about them.

A *case* is what a rule sees, the measures, together with what happened. Thresholds are set by
balanced accuracy, the mean over the three outcomes of the share of right verdicts; otherwise the
most frequent outcome would win.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import product

import numpy as np
from scipy.stats import spearmanr

from musvm.experiments.tables import Paired, as_markdown, difference, paired
from musvm.universum.diagnosis import VERDICTS, Measures, Thresholds, Verdict

Rule = Callable[[Measures], Verdict]
Case = tuple[Measures, Verdict]

SEED = 0
STEPS = [round(0.05 * k, 2) for k in range(25)]  # candidates for every threshold
NAMES = [field.name for field in fields(Measures)]


@dataclass(frozen=True)
class Pair:
    """The outcomes of a task with one universum, one of them for each partition."""

    group: str
    task: str
    universum: str
    outcomes: list[dict[str, float]]

    @cached_property
    def difference(self) -> Paired:
        """Test error of the MU-SVM minus that of the plain SVM, in per cent."""
        svm, musvm = (np.array([o[name] for o in self.outcomes]) for name in ("svm", "musvm"))
        return paired(100 * musvm, 100 * svm)

    @cached_property
    def truth(self) -> Verdict:
        d = self.difference
        if d.mean == 0 or abs(d.mean) < 2 * d.standard_error:
            return "neither"
        return "helps" if d.mean < 0 else "hurts"

    @cached_property
    def measures(self) -> Measures:
        """Means over the partitions."""
        return Measures(
            **{name: float(np.mean([o[name] for o in self.outcomes])) for name in NAMES}
        )

    @property
    def case(self) -> Case:
        return self.measures, self.truth

    @property
    def single_cases(self) -> list[Case]:
        """The measures of one partition each, which is what a user has."""
        return [(Measures(**{name: o[name] for name in NAMES}), self.truth) for o in self.outcomes]


def halves(pairs: Sequence[Pair]) -> tuple[list[Pair], list[Pair]]:
    """Pairs to set thresholds with, and pairs to judge them; no classes are on both sides."""
    groups = sorted({pair.group for pair in pairs})
    order = np.random.default_rng(SEED).permutation(len(groups))
    chosen: set[str] = set()
    for position in order:
        if 2 * sum(pair.group in chosen for pair in pairs) < len(pairs):
            chosen.add(groups[position])
    return (
        [pair for pair in pairs if pair.group in chosen],
        [pair for pair in pairs if pair.group not in chosen],
    )


# ---------------------------------------------------------------------------------------------
# Rules


def n_right(rule: Rule, cases: Sequence[Case]) -> int:
    return sum(rule(measures) == truth for measures, truth in cases)


def balanced_accuracy(rule: Rule, cases: Sequence[Case]) -> float:
    """The mean of the shares of right verdicts among cases with the same outcome."""
    by_truth = [[case for case in cases if case[1] == truth] for truth in VERDICTS]
    return float(np.mean([n_right(rule, alike) / len(alike) for alike in by_truth if alike]))


def fit_thresholds(cases: Sequence[Case]) -> Thresholds:
    """The best balanced accuracy; among equals, the fewest harmful universa recommended."""
    candidates = (
        Thresholds(min_entropy=e, min_spread=low, max_spread=high)
        for e, low, high in product(STEPS, STEPS, STEPS)
        if low <= high
    )

    def merit(thresholds: Thresholds) -> tuple[float, int]:
        rule = thresholds.verdict
        harmful = sum(rule(m) == "helps" and truth == "hurts" for m, truth in cases)
        return round(balanced_accuracy(rule, cases), 9), -harmful

    return max(candidates, key=merit)


def fit_paper_rule(cases: Sequence[Case]) -> Rule:
    """The paper's reading: a wide or biased universum helps, a narrow and even one does not."""

    def rule_of(max_entropy: float, min_spread: float) -> Rule:
        def rule(measures: Measures) -> Verdict:
            wide_or_biased = measures.spread >= min_spread or measures.label_entropy <= max_entropy
            return "helps" if wide_or_biased else "neither"

        return rule

    rules = [rule_of(e, s) for e, s in product(STEPS, STEPS)]
    return max(rules, key=lambda rule: balanced_accuracy(rule, cases))


# ---------------------------------------------------------------------------------------------
# The page

PAGE = """\
# Does the verdict come true?

{{func}}`musvm.universum.diagnose` guesses, from the plain SVM alone, whether a universum will help.
Here the guess is compared with what happened, on {n} pairs of a classification task and a
universum, over {partitions} random partitions each. C of the plain SVM and Δ of the MU-SVM are
chosen by 5-fold cross-validation on the training points, C*/C = n/(mL), m = {m}. A universum
*helps* or *hurts* if the paired difference of the test errors is more than two standard errors
from zero: {truths}. Made by `python -m musvm.experiments.diagnosis`.

About half of the pairs set the thresholds, the others judge them; the classes of one half do not
appear in the other. The form of the rule was settled with earlier runs on some of these data sets
in view, so the second half is not wholly untouched.

**The rule.** *hurts* if the label entropy is below {t.min_entropy:g} or the spread above
{t.max_spread:g}; otherwise *neither* if the spread is below {t.min_spread:g}; otherwise *helps*.

## How often it is right

The {n_judge} pairs that judge the rule; rows are verdicts, columns what happened:

{confusion}
{scores}
*Balanced* is the mean of the shares of right verdicts among pairs with the same outcome; a rule
that knows nothing has 33 %, or 50 % where only two outcomes occur. *Each partition by itself* is
what a user gets: one training set, one verdict, compared with what happened over all partitions.
*Always the same* gives every pair the most frequent outcome of the pairs that set the thresholds.
*The paper's reading* says that a universum helps if it is wide or its labels are biased, with
thresholds set in the same way. *The halves exchanged* sets the thresholds with the judging pairs
(entropy {r.min_entropy:g}, spread {r.min_spread:g} and {r.max_spread:g}).

## Which measure tells

Rank correlation over all pairs between each measure and the change of the test error in standard
errors. Positive: the larger the measure, the more the universum hurts.

{correlations}
## All pairs

Test error in per cent; MU-SVM minus SVM in the same partition, mean ± standard error; measures are
means over the partitions.

{pairs}
"""


def confusion_table(cases: Sequence[Case], rule: Rule) -> str:
    counts = Counter((rule(measures), truth) for measures, truth in cases)
    rows = [[said, *(str(counts[said, truth]) for truth in VERDICTS)] for said in VERDICTS]
    return as_markdown(["verdict", *VERDICTS], rows)


def score_table(setting: Sequence[Pair], judging: Sequence[Pair]) -> str:
    """Right verdicts of the rule and of its competitors on both halves."""
    set_by, judged_by = ([pair.case for pair in pairs] for pairs in (setting, judging))
    single = [
        [case for pair in pairs for case in pair.single_cases] for pairs in (setting, judging)
    ]
    usual = Counter(truth for _, truth in set_by).most_common(1)[0][0]
    rule, exchanged = fit_thresholds(set_by).verdict, fit_thresholds(judged_by).verdict
    entries: list[tuple[str, Rule, Sequence[Case], Sequence[Case]]] = [
        ("the rule", rule, set_by, judged_by),
        ("the rule, each partition by itself", rule, single[0], single[1]),
        ("the halves exchanged", exchanged, judged_by, set_by),
        (f"always the same: {usual}", lambda measures: usual, set_by, judged_by),
        ("the paper's reading", fit_paper_rule(set_by), set_by, judged_by),
    ]
    rows = [[name, *_scores(rule, a), *_scores(rule, b)] for name, rule, a, b in entries]
    return as_markdown(
        ["right verdicts", "cases that set it", "balanced", "cases that judge it", "balanced"], rows
    )


def _scores(rule: Rule, cases: Sequence[Case]) -> list[str]:
    n, total = n_right(rule, cases), len(cases)
    return [f"{n} of {total} ({n / total:.0%})", f"{balanced_accuracy(rule, cases):.0%}"]


def correlation_table(pairs: Sequence[Pair]) -> str:
    changes = [pair.difference.mean / (pair.difference.standard_error or 1) for pair in pairs]
    rows = []
    for name in NAMES:
        result = spearmanr([getattr(pair.measures, name) for pair in pairs], changes)
        rows.append([name.replace("_", " "), f"{result.statistic:+.2f}", f"{result.pvalue:.2g}"])
    return as_markdown(["measure", "correlation", "p"], rows)


def pair_table(setting: Sequence[Pair], judging: Sequence[Pair], rule: Rule) -> str:
    rows = [
        [
            f"{pair.task}: {pair.universum}",
            half,
            f"{100 * np.mean([outcome['svm'] for outcome in pair.outcomes]):.2f}",
            difference(pair.difference),
            *(f"{getattr(pair.measures, name):.2f}" for name in NAMES),
            pair.truth,
            rule(pair.measures),
        ]
        for half, pairs in (("sets", setting), ("judges", judging))
        for pair in pairs
    ]
    columns = [name.replace("_", " ") for name in NAMES]
    return as_markdown(
        ["task: universum", "half", "SVM", "MU-SVM minus SVM", *columns, "truth", "verdict"], rows
    )


def as_page(pairs: Sequence[Pair], m: int) -> str:
    """The page, with every number computed here."""
    setting, judging = halves(pairs)
    thresholds = fit_thresholds([pair.case for pair in setting])
    truths = Counter(pair.truth for pair in pairs)
    return PAGE.format(
        n=len(pairs),
        partitions=len(pairs[0].outcomes),
        m=m,
        truths=", ".join(f"{truths[truth]} {truth}" for truth in VERDICTS),
        t=thresholds,
        r=fit_thresholds([pair.case for pair in judging]),
        n_judge=len(judging),
        confusion=confusion_table([pair.case for pair in judging], thresholds.verdict),
        scores=score_table(setting, judging),
        correlations=correlation_table(pairs),
        pairs=pair_table(setting, judging, thresholds.verdict),
    )
