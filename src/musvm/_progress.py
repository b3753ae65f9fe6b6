"""Progress on standard error for work that takes a while: what is done and the time left.

On a terminal a bar, drawn by Rich where it is installed, otherwise one line that is rewritten;
elsewhere (a log file) a line now and then.
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


class Progress:
    """Counts steps towards `total` and shows them; silent with `verbose=0`.

    `follow` is told how many are done, whenever that changes. Steps that are nothing to count, such
    as bytes, are shown as a share.
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
    ) -> None:
        self.label = label
        self._counts = counts
        self._follow = follow
        self.total = total
        self.done = 0
        self._verbose = verbose
        self._start = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
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
            self._next_time = now + (REFRESH_S if self._is_terminal else LOG_EVERY_S)
            self._show(now - self._start)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
        elif self._shown and self._is_terminal:
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
        text = f"{self.label}: {self.done}"
        if self.total > 0:
            share = min(self.done / self.total, 1.0)
            done = f"{self.done} of {self.total}" if self._counts else f"{share:4.0%}"
            text = f"{self.label}: {done}"
            if share > 0:
                text += f", {elapsed / share - elapsed:.0f} s left"
        end = "\r" if self._is_terminal else "\n"
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
