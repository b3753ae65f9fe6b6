"""Progress on standard error for work that takes a while: what is done and the time left.

On a terminal a bar, drawn by Rich where it is installed; otherwise, and in a notebook, one line
that is rewritten; elsewhere (a log file) a line now and then. A line that was shown is followed by
what was done in the end, and how long it took.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

PATIENCE_S = 2.0  # Work that ends sooner shows nothing.
REFRESH_S = 0.2
LOG_EVERY_S = 10.0
# What the first few steps take says little: workers start, and the first may be the largest.
LEAST_SHARE = 0.05


class Progress:
    """Counts steps towards `total` and shows them; silent with `verbose=0`.

    `follow` is told how many are done, whenever that changes. Steps that are nothing to count, such
    as bytes, are shown as a share. `unit` names what is counted.
    `total`, `update`, `reset` and `close` are also the protocol that pooch asks of a progress
    bar. As a context manager it closes itself.
    """

    def __init__(
        self,
        label: str,
        total: int = 0,
        *,
        verbose: int = 1,
        follow: Callable[[int], None] | None = None,
        counts: bool = True,
        unit: str = "",
    ) -> None:
        self.label = label
        self._unit = f" {unit}" if unit else ""
        self._counts = counts
        self._follow = follow
        self.total = total
        self.done = 0
        self._verbose = verbose
        self._start = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._rewrites = self._is_terminal or _is_notebook()
        self._next_time = self._start + PATIENCE_S
        self._bar: Any = None
        self._shown = False

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def update(self, steps: int) -> None:
        self.done += steps
        if self._follow is not None:
            self._follow(self.done)
        now = time.monotonic()
        if self._verbose and now >= self._next_time:
            self._next_time = now + (REFRESH_S if self._rewrites else LOG_EVERY_S)
            self._show(now - self._start)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._shown and self._counts:
            self._print(f"{self._so_far}, {time.monotonic() - self._start:.0f} s", end="\n")
        elif self._shown and self._rewrites:
            print(file=sys.stderr)
        self._shown = False

    def _show(self, elapsed: float) -> None:
        if self._is_terminal and not self._shown:
            self._bar = _rich_bar(self.label, counts=self._counts)
        self._shown = True
        if self._bar is not None:
            self._bar.update(
                self._bar.task_ids[0],
                description=self.label,
                completed=self.done,
                total=self.total or None,
            )
            return
        share = min(self.done / self.total, 1.0) if self.total > 0 else 0.0
        left = f", {elapsed / share - elapsed:.0f} s left" if share >= LEAST_SHARE else ""
        self._print(f"{self._so_far}{left}", end="\r" if self._rewrites else "\n")

    @property
    def _so_far(self) -> str:
        if self.total <= 0:
            return f"{self.label}: {self.done}{self._unit}"
        if self._counts:
            return f"{self.label}: {self.done} of {self.total}{self._unit}"
        return f"{self.label}: {min(self.done / self.total, 1.0):4.0%}"

    @staticmethod
    def _print(text: str, *, end: str) -> None:
        print(f"{text:<70}", end=end, file=sys.stderr, flush=True)


class FitProgress:
    """The progress of a fit towards its relative gap `tol`, which falls about exponentially.

    So the share that is done is measured in digits of the gap, from 1 down to `tol`.
    """

    def __init__(self, tol: float, *, verbose: int) -> None:
        self._progress = Progress("Fit", 1000, verbose=verbose, counts=False)
        self._digits = max(-math.log10(tol), 1e-3)

    def __enter__(self) -> FitProgress:
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.close()

    def update(self, n_rounds: int, gap: float) -> None:
        if not math.isfinite(gap):
            return
        share = -math.log10(max(gap, 1e-300)) / self._digits
        steps = int(1000 * min(max(share, 0.0), 1.0))
        self._progress.label = f"Fit: round {n_rounds}, gap {gap:.1e}"
        self._progress.update(max(steps - self._progress.done, 0))


def _is_notebook() -> bool:
    """Whether standard error is that of a notebook, which rewrites lines but is no terminal."""
    return type(sys.stderr).__module__.partition(".")[0] == "ipykernel"


def _rich_bar(label: str, *, counts: bool) -> Any:
    """A bar on standard error, already shown, or None without Rich."""
    try:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn
        from rich.progress import Progress as Bar
    except ImportError:
        return None
    columns = list(Bar.get_default_columns())
    if counts:
        columns.insert(2, MofNCompleteColumn())
    bar = Bar(*columns, console=Console(stderr=True), transient=True)
    bar.add_task(label, total=None)
    bar.start()
    return bar
