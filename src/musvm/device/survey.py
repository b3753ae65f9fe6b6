"""The statement of the dual problem (`dual/problem.py`) on tensors: losses, gaps, violations.

Everything is in doubles and on the device of its arguments. Rows are points, training points
first, as everywhere; `DeviceProblem` holds the labels and caps there.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from musvm.dual.problem import DualRows

# A label this close to a bound, relative to the cap, counts as being there.
TINY = 1e-12


@dataclass(frozen=True)
class DeviceProblem:
    """`DualRows` on a device: `own` is the (n, L) indicator of every training point's label."""

    own: Tensor
    caps: Tensor
    delta: float
    is_max: bool

    @classmethod
    def of(cls, rows: DualRows, device: torch.device) -> DeviceProblem:
        labels = torch.as_tensor(rows.y, device=device)
        return cls(
            torch.nn.functional.one_hot(labels, rows.n_classes).bool(),
            torch.as_tensor(rows.caps, device=device),
            rows.delta,
            rows.universum_loss == "max",
        )

    @property
    def n_train(self) -> int:
        return len(self.own)


def losses(problem: DeviceProblem, F: Tensor) -> Tensor:
    """The loss of every point, (M,): hinge loss, then universum loss."""
    n = problem.n_train
    own = torch.where(problem.own, F[:n], 0.0).sum(1)
    hinge = (F[:n] + (~problem.own).double()).amax(1) - own
    U = F[n:]
    excess = (U.amax(1, keepdim=True) - U - problem.delta).clamp_(min=0.0)
    return torch.cat([hinge, excess.amax(1) if problem.is_max else excess.sum(1)])


def dual_costs(problem: DeviceProblem, alpha: Tensor) -> Tensor:
    """The part of D that is not quadratic, row by row, (M,)."""
    n = problem.n_train
    training = -torch.where(problem.own, alpha[:n], 0.0).sum(1)
    return torch.cat([training, problem.delta * alpha[n:].clamp(min=0.0).sum(1)])


def gap_and_primal(problem: DeviceProblem, alpha: Tensor, F: Tensor) -> tuple[float, float]:
    """P + D as a sum of rows that are each nonnegative, and P."""
    costly = problem.caps * losses(problem, F)
    products = (alpha * F).sum(1)
    gaps = costly + products + dual_costs(problem, alpha)
    primal = 0.5 * products.sum() + costly.sum()
    gap, primal = torch.stack([gaps.clamp_(min=0.0).sum(), primal]).tolist()
    return gap, primal


def violations(problem: DeviceProblem, alpha: Tensor, F: Tensor) -> Tensor:
    """`kkt_violations` of `dual/problem.py`, (M,)."""
    n = problem.n_train
    training = _training_violations(problem, alpha[:n], F[:n])
    return torch.cat([training, _universum_violations(problem, alpha[n:], F[n:])])


def _tiny(alpha: Tensor) -> Tensor:
    """How close to a bound a label counts as being there, by the mass of its row, (M, 1)."""
    return TINY * alpha.abs().amax(1, keepdim=True)


def _steepest(rises: Tensor, falls: Tensor) -> Tensor:
    return (falls.amax(1) - rises.amin(1)).clamp_(min=0.0)


def _training_violations(problem: DeviceProblem, alpha: Tensor, F: Tensor) -> Tensor:
    caps = problem.caps[: problem.n_train, None]
    slope = F - problem.own.double()
    room = torch.where(problem.own, caps - alpha, -alpha)
    return _steepest(torch.where(room > _tiny(alpha), slope, torch.inf), slope)


def _universum_violations(problem: DeviceProblem, a: Tensor, slope: Tensor) -> Tensor:
    caps = problem.caps[problem.n_train :, None]
    tiny = _tiny(a)
    positive, negative = a > tiny, a < -tiny
    rises = slope + problem.delta * (~negative).double()
    falls = slope + problem.delta * positive.double()
    if not problem.is_max:
        return _steepest(torch.where(a < caps - tiny, rises, torch.inf), falls)
    none, all_mass = torch.inf, 0.5 * a.abs().sum(1) >= caps[:, 0] * (1 - TINY)
    shrink = _steepest(torch.where(negative, rises, none), torch.where(positive, falls, -none))
    among_positive = _steepest(
        torch.where(negative, none, slope), torch.where(positive, slope, -none)
    )
    among_negative = _steepest(
        torch.where(negative, slope, none), torch.where(positive, -none, slope)
    )
    at_the_bound = torch.maximum(shrink, torch.maximum(among_positive, among_negative))
    return torch.where(all_mass, at_the_bound, _steepest(rises, falls))
