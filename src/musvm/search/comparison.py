"""The two finalists of a search side by side: the only source of figures about them.

Both are judged by the same criterion on the same points, each left out. With d_i the error of the
model with universum at point i minus that of the plain one (-1, 0 or 1) and s_i the share of the
point's weight,

    difference      sum_i s_i d_i
    standard error  sqrt(n / (n - 1) sum_i s_i^2 (d_i - difference)^2)

and the same of the soft errors, which decide (`rule.py`).

Terminal, JSON, report and model file print what stands here and compute nothing of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._messages import Tabulated
from musvm._pyplot import pyplot_for
from musvm.search.rule import EQUAL, IN_WORDS, Change, soft_errors


@dataclass(frozen=True)
class Opinion:
    """What one criterion says of one or two models, on the same points.

    Attributes
    ----------
    words : the criterion, to follow "the"
    margins, wrong : of the judges, for each model
    weight : (J,) how much every judge counts
    rows : (R,) rows of the data that were left out
    judge_of_row : (R,) the judge that stands for each of them
    """

    words: str
    margins: Sequence[FloatArray]
    wrong: Sequence[BoolArray]
    weight: FloatArray
    rows: IntArray
    judge_of_row: IntArray


@dataclass(frozen=True)
class Finalist:
    """One of the two models that are compared.

    Attributes
    ----------
    params : dict
        Its parameters of `UniversumSVC`.

    error : float
        Share of the points, by weight, that it misclassifies when they are left out.

    soft_error : float
        The same with a point of margin m when left out counted as 1 / (1 + exp(2 m)), by how
        clearly it is classified; what decides.

    index : int
        Its row in `results_`.

    margins : ndarray of shape (n_points,)
        :math:`f_y(x) - \\max_{l \\ne y} f_l(x)` of the points when left out.

    wrong : ndarray of bool of shape (n_points,)
        Whether they are misclassified.

    score : float or None
        Its mean score over the folds, where the search was given a `scoring`; that decides then.
    """

    params: dict[str, Any]
    error: float
    soft_error: float
    index: int
    margins: FloatArray = field(repr=False)
    wrong: BoolArray = field(repr=False)
    score: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain numbers, without those of the points."""
        figures = {"params": dict(self.params), "error": self.error, "soft_error": self.soft_error}
        return figures if self.score is None else {**figures, "score": self.score}


@dataclass(frozen=True, repr=False)
class Comparison(Tabulated):
    """The best models without and with universum, and what decided between them.

    It is printed, and shown in a notebook, as a table of the two and sentences about them;
    `as_dict` has the figures for JSON, `plot` draws the margins.

    Attributes
    ----------
    plain : Finalist
        The best model without universum.

    universum : Finalist or None
        The best model with it; None where the search had no universum.

    criterion : str
        What judged both, in words: an error, never a bound.

    difference : float or None
        The error with universum minus the error without; negative where it helps.

    standard_error : float or None
        Standard error of `difference`, from the points on which the two disagree. 0 where they
        disagree on none, which says little about other points.

    soft_difference : float or None
        The soft error with universum minus the one without; what decides.

    soft_standard_error : float or None
        Standard error of `soft_difference`.

    uses_universum : bool
        Whether the search chose the model with universum.

    rows : ndarray of shape (n_points,)
        Rows of `X` that the left-out points are.

    is_void : bool
        Whether the universum was found to be made of the training points. Points that are left
        out are still in it, so its errors mean nothing, and it is not used.

    was_given : bool
        Whether the search was given universum points, whatever weights it tried for them.
    """

    plain: Finalist
    universum: Finalist | None
    criterion: str
    difference: float | None
    standard_error: float | None
    uses_universum: bool
    rows: IntArray = field(repr=False)
    is_void: bool = False
    # These are unknown to model files of earlier versions.
    soft_difference: float | None = None
    soft_standard_error: float | None = None
    was_given: bool = False

    # The names, and the parameters.
    _columns_of_text: ClassVar[tuple[int, ...]] = (0, -1)

    @classmethod
    def of(
        cls,
        opinion: Opinion,
        indices: Sequence[int],
        params: Sequence[dict[str, Any]],
        *,
        is_void: bool = False,
        was_given: bool = True,
        scores: Sequence[float] | None = None,
    ) -> Comparison:
        """The comparison of the plain model, and of one with universum if there is a second."""
        finalists = [
            Finalist(
                params=params[k],
                error=_mean(opinion.wrong[k], opinion.weight),
                soft_error=_mean(soft_errors(opinion.margins[k]), opinion.weight),
                index=indices[k],
                margins=opinion.margins[k][opinion.judge_of_row],
                wrong=opinion.wrong[k][opinion.judge_of_row],
                score=None if scores is None else float(scores[k]),
            )
            for k in range(len(indices))
        ]
        words, rows = opinion.words, opinion.rows
        if len(finalists) == 1:
            return cls(finalists[0], None, words, None, None, False, rows, was_given=was_given)
        change = Change.of(opinion.margins, opinion.wrong, opinion.weight)
        gains = change.is_gain if scores is None else scores[1] > scores[0] + EQUAL
        plain, universum = finalists
        return cls(
            plain,
            universum,
            criterion=words,
            difference=change.error,
            standard_error=change.standard_error,
            soft_difference=change.soft_error,
            soft_standard_error=change.soft_standard_error,
            uses_universum=gains and not is_void,
            rows=rows,
            is_void=is_void,
            was_given=True,
        )

    def _rows(self) -> list[list[str]]:
        score = [] if self.plain.score is None else ["score"]
        rows = [
            ["", *score, "error", "soft error", "parameters"],
            ["without universum", *_cells(self.plain)],
        ]
        if self.universum is not None:
            rows.append(["with universum", *_cells(self.universum)])
        return rows

    def _sentences(self) -> list[str]:
        sentences = [f"Errors are the {self.criterion}.", IN_WORDS]
        if self.change is not None:
            sentences.append(f"{self.change[0].upper()}{self.change[1:]}.")
        return [*sentences, self.decision]

    @property
    def agrees(self) -> bool:
        """Whether the two models are right and wrong on the same points."""
        return len(self.gained) == len(self.lost) == 0

    @property
    def change(self) -> str | None:
        """What becomes of the error, in words; None where there is no model with universum."""
        if self.difference is None or self.standard_error is None:
            return None
        if self.agrees:
            return "the two models disagree on no point"
        return (
            f"the error changes by {100 * self.difference:+.2f} points, with a standard error of "
            f"{100 * self.standard_error:.2f}: {len(self.gained)} gained, {len(self.lost)} lost"
        )

    @property
    def chosen(self) -> Finalist:
        """The finalist that the search chose."""
        return self.universum if self.uses_universum and self.universum is not None else self.plain

    @property
    def gained(self) -> IntArray:
        """Rows that only the model with universum classifies correctly."""
        return self._disagreement(self.plain, self.universum)

    @property
    def lost(self) -> IntArray:
        """Rows that only the plain model classifies correctly."""
        return self._disagreement(self.universum, self.plain)

    def _disagreement(self, wrong: Finalist | None, right: Finalist | None) -> IntArray:
        if wrong is None or right is None:
            return self.rows[:0]
        return self.rows[wrong.wrong & ~right.wrong]

    @property
    def decision(self) -> str:
        """What decided, in a sentence."""
        if self.universum is None:
            if self.was_given:
                return "The universum was not tried: no weight but 0 was searched."
            return "No universum was given."
        if self.is_void:
            return (
                "The universum is made of the training points, so those left out are still in it "
                "and its errors mean nothing; it is left out."
            )
        if self.plain.score is not None and self.universum.score is not None:
            before, after = self.plain.score, self.universum.score
            if abs(after - before) <= EQUAL:
                what = f"is {before:.4g} without the universum and with it"
            else:
                what = f"goes from {before:.4g} to {after:.4g} with the universum"
            return f"The mean score of the folds {what}: {self._fate}."
        return f"With the universum the soft error {self._soft_change}: {self._fate}."

    @property
    def _fate(self) -> str:
        return f"the universum is {'used' if self.uses_universum else 'left out'}"

    @property
    def _soft_change(self) -> str:
        """The difference of the soft errors with its standard error, and what the rule says."""
        assert self.universum is not None
        if (change := self._figures) is None:
            return f"goes from {self.plain.soft_error:.2%} to {self.universum.soft_error:.2%}"
        return (
            f"changes by {100 * change.soft_error:+.2f} points, with a standard error of "
            f"{100 * change.soft_standard_error:.2f}{change.reason}"
        )

    @property
    def _figures(self) -> Change | None:
        """What changes with the universum; None where a figure is missing."""
        figures = (
            self.difference,
            self.standard_error,
            self.soft_difference,
            self.soft_standard_error,
        )
        known = [figure for figure in figures if figure is not None]
        return Change(*known) if len(known) == len(figures) else None

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain numbers and texts, for JSON and model files."""
        return {
            "criterion": self.criterion,
            "plain": self.plain.as_dict(),
            "universum": None if self.universum is None else self.universum.as_dict(),
            "difference": self.difference,
            "standard_error": self.standard_error,
            "soft_difference": self.soft_difference,
            "soft_standard_error": self.soft_standard_error,
            "gained": self.gained.tolist(),
            "lost": self.lost.tolist(),
            "uses_universum": self.uses_universum,
            "is_void": self.is_void,
            "was_given": self.was_given,
            "change": self.change,
            "decision": self.decision,
        }

    def plot(self, ax: Any = None) -> Any:
        """Draw which share of the points has a left-out margin below every value.

        Where a curve crosses 0 it shows the error of its model; the lower curve is the better
        one. Needs matplotlib.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; new axes if None.

        Returns
        -------
        ax : matplotlib axes
            The axes.
        """
        if ax is None:
            pyplot = pyplot_for("The plot of a comparison")
            ax = pyplot.figure(figsize=(5, 4), layout="constrained").add_subplot()
        for finalist, name, colour in (
            (self.plain, "plain SVM", "tab:grey"),
            (self.universum, "with universum", "tab:blue"),
        ):
            if finalist is not None:
                ax.ecdf(finalist.margins, label=f"{name}: {finalist.error:.1%}", color=colour)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set(xlabel="margin of a point when left out", ylabel="share of the points below")
        ax.legend(title=self.criterion)
        return ax


def _cells(finalist: Finalist) -> list[str]:
    """The figures of a finalist as text; a weight of 0, which a plain SVM has, goes without."""
    params = {
        name: value
        for name, value in finalist.params.items()
        if finalist.params.get("universum_weight") != 0 or name not in ("delta", "universum_weight")
    }
    words = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in params.items()
    )
    score = [] if finalist.score is None else [f"{finalist.score:.4g}"]
    return [*score, f"{finalist.error:.2%}", f"{finalist.soft_error:.2%}", words]


def _mean(values: Any, weight: FloatArray) -> float:
    return float(weight @ values / weight.sum())
