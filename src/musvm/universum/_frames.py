"""Frame in, frame out: universum points in the library of the table they were made from."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np


def like(frame: Any, points: Any) -> Any:
    """Points as a frame of the library, and with the columns, of `frame`, if it is a frame."""
    for library in ("pandas", "polars"):
        module = sys.modules.get(library)  # a frame can only come from a library that is loaded
        if module is not None and isinstance(frame, module.DataFrame):
            dense = points if isinstance(points, np.ndarray) else points.toarray()
            if library == "pandas":
                return module.DataFrame(dense, columns=frame.columns)
            return module.DataFrame(dense, schema=list(frame.columns))
    return points


def rows(frame: Any, points: Any, indices: Any) -> Any:
    """Some rows of a frame as they are, types and index kept; of the points if it is no frame."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(frame, pandas.DataFrame):
        return frame.iloc[indices]
    if polars is not None and isinstance(frame, polars.DataFrame):
        return frame[indices.tolist()]
    return points[indices]
