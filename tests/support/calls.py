"""Which of several solvers a path calls, and from where each begins."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


def starts_of(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """What `alpha` was at every call of a solver that the module knows by this name."""
    starts, solver = [], getattr(module, name)

    def recorded(*args, **kwargs):
        starts.append(kwargs.get("alpha"))
        return solver(*args, **kwargs)

    monkeypatch.setattr(module, name, recorded)
    return starts
