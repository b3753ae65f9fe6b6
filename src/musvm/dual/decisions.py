"""What decision values say, on any device: leads, margins and spreads.

With f_l(x) the decision value of class l, the *lead* of class k at x is

    p_k(x) = f_k(x) - max_{l != k} f_l(x),

positive where k is predicted. The *margin* of a point (x, y) is the lead of its own class, and

    max_l f_l(x) - min_l f_l(x) = - min_k p_k(x)

is the *spread* of the decision values, which the universum loss holds below Delta.
"""

from __future__ import annotations

from musvm._input.tensors import Array, FloatArray, IntArray, namespace


def leads(F: Array) -> Array:
    """(n, L) lead of every class over the best of the others.

    Where two share the first place, the second best is as good as the best.
    """
    xp = namespace(F)
    best = xp.sort(F, axis=1)[:, -2:]
    return F - xp.where(best[:, 1:] == F, best[:, :1], best[:, 1:])


def winning_leads(F: Array) -> Array:
    """(n,) by how much the highest decision value exceeds the second."""
    best = namespace(F).sort(F, axis=1)[:, -2:]
    return best[:, 1] - best[:, 0]


def own_margins(F: FloatArray, y: IntArray) -> FloatArray:
    """(n,) f_y - max_{l != y} f_l: the lead of every point's own class."""
    margins: FloatArray = leads(F)[namespace(F).arange(len(y)), y]
    return margins


def spread(F: Array) -> Array:
    """(n,) max_l f_l - min_l f_l."""
    xp = namespace(F)
    return xp.max(F, axis=1) - xp.min(F, axis=1)
