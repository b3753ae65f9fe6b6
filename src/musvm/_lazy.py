"""Attributes that are computed when they are first asked for, and forks.

`functools.cached_property` holds a lock while it computes, in Python before 3.12: one for all
instances of a class. A child that is forked while another thread computes inherits the lock and
nobody who would release it, and waits for ever. Without the lock two threads may compute the same
value twice, which does no harm.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, TypeVar

T = TypeVar("T")


class lazy(functools.cached_property[T]):  # noqa: N801  (it is used like a function)
    """`functools.cached_property` without a lock.

    Examples
    --------
    >>> from musvm._lazy import lazy
    >>> class Circle:
    ...     @lazy
    ...     def area(self):
    ...         print("computing")
    ...         return 3.14
    >>> circle = Circle()
    >>> circle.area, circle.area
    computing
    (3.14, 3.14)
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        super().__init__(function)
        self.lock = nullcontext()
