"""The command `musvm`, one file per subcommand.

Contract of every subcommand: results go to stdout, progress, notes and errors to stderr; `--json`
prints one JSON document and nothing else on stdout; colour, boxes and progress bars appear on
terminals only; a user's mistake ends with one line and a nonzero status, never with a traceback.
A subcommand imports what it needs when it runs, so that `--help` stays quick.

Status: 0 done; 1 the data, the model file or the disk would not have it; 2 the command line was
wrong; 130 interrupted.
"""

from musvm.cli._app import app

# Each of these registers its subcommand with the app.
from musvm.cli import diagnose, fit, predict, inspect, loo, export  # isort: skip
from musvm.cli import example_tables, demo, reproduce  # isort: skip

__all__ = [
    "app",
    "demo",
    "diagnose",
    "example_tables",
    "export",
    "fit",
    "inspect",
    "loo",
    "predict",
    "reproduce",
]
