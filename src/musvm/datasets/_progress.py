"""A progress line on standard error: percentage and time left, for work that takes a while."""

from __future__ import annotations

import sys
import time

PATIENCE_S = 2.0  # Work that ends sooner shows nothing.


class Progress:
    """Counts steps towards `total` and shows them; `total`, `update`, `reset` and `close` are
    also the protocol that pooch asks of a progress bar.

    On a terminal one line is rewritten; elsewhere (a log file) a line is added now and then.
    """

    def __init__(self, label: str, total: int = 0, *, verbose: int = 1) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self._verbose = verbose
        self._start = time.monotonic()
        self._is_terminal = sys.stderr.isatty()
        self._next_line = self._start + PATIENCE_S
        self._shown = False

    def update(self, steps: int) -> None:
        self.done += steps
        now = time.monotonic()
        if self._verbose and now >= self._next_line:
            self._next_line = now + (0.2 if self._is_terminal else 10.0)
            self._show(now - self._start)

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        if self._shown and self._is_terminal:
            print(file=sys.stderr)
        self._shown = False

    def _show(self, elapsed: float) -> None:
        text = f"{self.label}: {self.done}"
        if self.total > 0:
            share = min(self.done / self.total, 1.0)
            left = elapsed / share - elapsed if share > 0 else float("nan")
            text = f"{self.label}: {share:4.0%}, {left:.0f} s left"
        end = "\r" if self._is_terminal else "\n"
        print(f"{text:<70}", end=end, file=sys.stderr, flush=True)
        self._shown = True
