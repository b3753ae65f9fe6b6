"""The two finalists of a search side by side: the only source of figures about them.

Both are judged by the same criterion on the same points, each left out. With d_i the error of the
model with universum at point i minus that of the plain one (-1, 0 or 1) and s_i the share of the
point's weight,

    difference      sum_i s_i d_i
    standard error  sqrt(n / (n - 1) sum_i s_i^2 (d_i - difference)^2)

Terminal, JSON, report and model file print what stands here and compute nothing of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from musvm._input.tensors import BoolArray, FloatArray, IntArray
from musvm._messages import aligned, html_table
from musvm.search.rule import EQUAL, is_gain, paired, soft_errors


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
        The same with every point counted by how clearly it is classified; what decides.

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
        """The figures as plain numbers."""
        figures = {"params": dict(self.params), "error": self.error, "soft_error": self.soft_error}
        return figures if self.score is None else {**figures, "score": self.score}


@dataclass(frozen=True, repr=False)
class Comparison:
    """The best models without and with universum, and what decided between them.

    It is printed, and shown in a notebook, as a table of the two and sentences about them.

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
        Standard error of `difference`, from the points on which the two disagree.

    uses_universum : bool
        Whether the search chose the model with universum.

    rows : ndarray of shape (n_points,)
        Rows of `X` that the left-out points are.

    is_void : bool
        Whether the universum was found to be made of the training points. Points that are left
        out are still in it, so its errors mean nothing, and it is not used.
    """

    plain: Finalist
    universum: Finalist | None
    criterion: str
    difference: float | None
    standard_error: float | None
    uses_universum: bool
    rows: IntArray = field(repr=False)
    is_void: bool = False

    @classmethod
    def of(
        cls,
        opinion: Opinion,
        indices: Sequence[int],
        params: Sequence[dict[str, Any]],
        *,
        is_void: bool = False,
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
        if len(finalists) == 1:
            return cls(finalists[0], None, opinion.words, None, None, False, opinion.rows)
        difference, standard_error = paired(opinion.wrong, opinion.weight)
        if scores is None:
            gains = is_gain(opinion.margins, opinion.wrong, opinion.weight)
        else:
            gains = scores[1] > scores[0] + EQUAL
        used = gains and not is_void
        plain, universum = finalists
        figures = difference, standard_error, used
        return cls(plain, universum, opinion.words, *figures, opinion.rows, is_void)

    def __repr__(self) -> str:
        """The two finalists as a table, and what decided."""
        rows = self._rows()
        width = max(len(row[-1]) for row in rows)
        table = aligned([[*row[:-1], row[-1].ljust(width)] for row in rows])
        return "\n".join([table, *self._sentences()])

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        return html_table(self._rows()) + f"<p>{'<br>'.join(map(escape, self._sentences()))}</p>"

    def _rows(self) -> list[list[str]]:
        rows = [
            ["", "error", "soft error", "parameters"],
            ["without universum", *_cells(self.plain)],
        ]
        if self.universum is not None:
            rows.append(["with universum", *_cells(self.universum)])
        return rows

    def _sentences(self) -> list[str]:
        sentences = [f"Errors are the {self.criterion}."]
        if self.difference is not None and self.standard_error is not None:
            sentences.append(
                f"The change is {100 * self.difference:+.2f} ± {100 * self.standard_error:.2f} "
                f"points: {len(self.gained)} gained, {len(self.lost)} lost."
            )
        return [*sentences, self.decision]

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
            return "No universum was given."
        if self.is_void:
            return (
                "The universum is made of the training points, so those left out are still in it "
                "and its errors mean nothing; it is left out."
            )
        if self.plain.score is not None and self.universum.score is not None:
            what = f"from {self.plain.score:.4g} to {self.universum.score:.4g} with the universum"
            fate = "used" if self.uses_universum else "left out"
            return f"The mean score of the folds goes {what}, which is {fate}."
        before, after = self.plain.soft_error, self.universum.soft_error
        verb = "falls" if after < before else "goes"
        change = f"The soft error {verb} from {before:.2%} to {after:.2%} with the universum"
        if self.uses_universum:
            return f"{change}, which is used."
        too_little = ", too little to count: it" if after < before else ", which"
        return f"{change}{too_little} is left out."

    def as_dict(self) -> dict[str, Any]:
        """The figures as plain numbers and texts, for JSON and model files."""
        return {
            "criterion": self.criterion,
            "plain": self.plain.as_dict(),
            "universum": None if self.universum is None else self.universum.as_dict(),
            "difference": self.difference,
            "standard_error": self.standard_error,
            "gained": self.gained.tolist(),
            "lost": self.lost.tolist(),
            "uses_universum": self.uses_universum,
            "is_void": self.is_void,
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
            from matplotlib.figure import Figure

            ax = Figure(figsize=(5, 4), layout="constrained").subplots()
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
    return [f"{finalist.error:.2%}", f"{finalist.soft_error:.2%}", words]


def _mean(values: Any, weight: FloatArray) -> float:
    return float(weight @ values / weight.sum())
