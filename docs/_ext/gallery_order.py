"""The order of the examples in the gallery: from what to how to why."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

FIRST = (
    "plot_toy.py",
    "plot_does_it_help.py",
    "plot_when_it_helps.py",
    "plot_which_universum.py",
    "plot_no_universum.py",
    "plot_search.py",
    "plot_leave_one_out.py",
    "plot_pipeline.py",
    "plot_rejection.py",
    "plot_delta.py",
    "plot_losses.py",
    "plot_sum_or_max.py",
    "plot_certificate.py",
    "plot_model_file.py",
    "plot_report.py",
)


class ExampleOrder:
    """A key to sort examples by; those not listed come last, by name."""

    def __init__(self, src_dir: str | PathLike[str]) -> None:
        self.src_dir = src_dir

    def __call__(self, filename: str | PathLike[str]) -> tuple[int, str]:
        name = Path(filename).name
        return FIRST.index(name) if name in FIRST else len(FIRST), name
