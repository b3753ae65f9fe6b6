"""Ten real data sets, some rows of each: four of scikit-learn's and six from the data folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn import datasets
from sklearn.utils import shuffle

OF_SKLEARN = ("iris", "wine", "breast_cancer", "digits")
OF_LIBSVM = {
    "vehicle": "vehicle.scale.gz",
    "vowel": "vowel.scale.gz",
    "segment": "segment.scale.gz",
    "satimage": "satimage.scale.gz",
    "letter": "letter.scale.gz",
}
CHARACTERS = "nist_digits_letters.npz"
NAMES = (*OF_SKLEARN, *OF_LIBSVM, "characters")


def load(name: str, folder: Path | None, n_rows: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Points and labels of up to `n_rows` rows, always the same; None if the file is not there."""
    if name in OF_SKLEARN:
        X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    else:
        path = _file(name, folder)
        if path is None:
            return None
        X, y = _characters(path) if name == "characters" else _libsvm(path)
    return shuffle(X, y, random_state=0, n_samples=min(n_rows, len(y)))


def _file(name: str, folder: Path | None) -> Path | None:
    wanted = CHARACTERS if name == "characters" else f"libsvm/{OF_LIBSVM[name]}"
    path = None if folder is None else folder / wanted
    return path if path is not None and path.exists() else None


def _libsvm(path: Path) -> tuple[np.ndarray, np.ndarray]:
    X, y = datasets.load_svmlight_file(str(path))
    return X.toarray(), y


def _characters(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits in 28 x 28 grey pixels."""
    with np.load(path) as archive:
        is_digit = np.char.isdigit(archive["labels"])
        images, labels = archive["images28"][is_digit], archive["labels"][is_digit]
    return images.reshape(len(images), -1).astype(float), labels
