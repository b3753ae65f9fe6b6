"""matplotlib's pyplot, which shows a new figure in a notebook and by `plt.show()`.

A figure that pyplot does not know, `matplotlib.figure.Figure()`, is drawn into files alone. That is
for scripts; what a person calls to look at makes its figure by this.
"""

from __future__ import annotations

from typing import Any


def pyplot_for(name: str) -> Any:
    """The module, or an error that says what needs it and how to install it."""
    try:
        import matplotlib.pyplot as pyplot
    except ModuleNotFoundError as error:
        message = f"{name} needs matplotlib: pip install 'musvm[plot]'"
        raise ModuleNotFoundError(message, name=error.name) from error
    return pyplot
