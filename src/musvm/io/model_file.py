"""`musvm.save` and `musvm.load`: model files that are safe to open.

A model file is a skops file, that is a zip archive without code:

    schema.json   what the model consists of: names of types, numbers, strings
    N.npy, N.npz  its arrays
    musvm.json    format and library versions, and a summary of the training

Its contract:

- `load` builds objects of the types in a closed list and of no others. It reads the names of all
  types in the file first; if one is not on the list, nothing is built, nothing is imported and the
  names are reported. skops trusts many more types by itself; its list is not enough here.
- Nothing in the file is compressed, every array states its true size, and what is referred to in
  several places counts as often, so opening a file cannot take much more memory than the file has
  bytes.
- A model that was loaded gives the decision values of the model that was saved, bit by bit.
- Two files of one model, written with the same versions, are equal byte by byte.
"""

from __future__ import annotations

import io
import json
import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from os import PathLike, fspath
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.utils.validation import check_is_fitted

from musvm._files import replacing
from musvm._sklearn import validate_parameter_constraints
from musvm.dual.solution import Certificate
from musvm.estimator import PARAMETER_CONSTRAINTS
from musvm.io.archive import is_sound, read_zip, stored
from musvm.io.parts import calibrated, fitted_parts, innermost
from musvm.kernels import Kernel
from musvm.model import FittedModel
from musvm.search.comparison import Comparison, Finalist

FORMAT = "musvm model"
FORMAT_VERSION = 1
PACKAGES = ("musvm", "numpy", "scipy", "scikit-learn", "skops")

SCHEMA, HEADER = "schema.json", "musvm.json"
_ENTRY = re.compile(r"schema\.json|musvm\.json|\d{1,20}\.np[yz]", flags=re.ASCII)
# A model of the command line nests about twenty levels deep.
_DEEPEST = 200
# The contents with references written out may be so many times the file, and some more.
_LARGEST_EXPANSION, _ALWAYS_ALLOWED = 10, 200_000


class ModelFileError(ValueError):
    """A model file was refused: it is damaged, or holds what no model needs.

    Parameters
    ----------
    message : str
        What is wrong with the file.

    refused : list of str, default=None
        The names of the types that are not on the closed list, if any.

    Attributes
    ----------
    refused : list of str
        The names of the types that are not on the closed list.

    Examples
    --------
    >>> import os, tempfile
    >>> import musvm
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "no-model.skops")
    ...     with open(path, "wb") as file:
    ...         _ = file.write(b"something else")
    ...     try:
    ...         musvm.load(path)
    ...     except musvm.ModelFileError:
    ...         print("refused")
    refused
    """

    def __init__(self, message: str, refused: list[str] | None = None) -> None:
        super().__init__(message)
        self.refused = refused or []


@dataclass(frozen=True)
class Header:
    """What a model file says about itself.

    Attributes
    ----------
    format_version : version of the file format
    versions : versions of the libraries that wrote the file, by name
    summary : facts about the training: numbers, strings, lists and dictionaries of them
    """

    format_version: int
    versions: dict[str, str]
    summary: dict[str, Any]


# ---------------------------------------------------------------------------------------------
# The public functions


def save(
    model: Any, path: str | PathLike[str], *, summary: Mapping[str, Any] | None = None
) -> None:
    """Write a fitted model to a file that can be shared.

    The file holds no code, unlike a pickle. An existing file is replaced when the new one is
    complete, not before. It does hold the support vectors, which are rows of the training data.

    Parameters
    ----------
    model : UniversumSVC, UniversumSVCCV, RejectingClassifier, WithUniversum, or a Pipeline \
that ends in one
        The model, fitted, or scikit-learn's `CalibratedClassifierCV` of one. Kernels and ways to
        make a universum must be named: functions are not saved. The other steps of a pipeline
        are scikit-learn's scalers, encoders, imputers, `ColumnTransformer`, PCA and the like.

    path : str or path-like
        The file. By convention its name ends in ``.skops``.

    summary : mapping, default=None
        Facts to keep beside those that are read off the model: anything that JSON can hold.

    See Also
    --------
    load : Read the file.

    Examples
    --------
    >>> import os, tempfile
    >>> import musvm
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = musvm.UniversumSVC().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "iris.skops")
    ...     musvm.save(model, path)
    ...     same = musvm.load(path)
    >>> bool((same.decision_function(X) == model.decision_function(X)).all())
    True
    """
    content = to_bytes(model, summary)
    with replacing(Path(path)) as file:
        file.write(content)


def load(path: str | PathLike[str]) -> Any:
    """Read a model that :func:`save` has written. No code from the file is run.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    model : estimator
        The fitted model. Its decision values are those of the model that was saved.

    Raises
    ------
    ModelFileError
        If the file is damaged, is no model file, was written by a newer version, or names a type
        that is not on the closed list. The message then names all such types.

    See Also
    --------
    save : Write the file. Its example reads it as well.
    """
    return load_with_header(path)[0]


def load_with_header(path: str | PathLike[str]) -> tuple[Any, Header]:
    """Read a model, and what its file says about itself."""
    return from_bytes(Path(path).read_bytes(), fspath(path))


# ---------------------------------------------------------------------------------------------
# Writing


def to_bytes(model: Any, summary: Mapping[str, Any] | None = None) -> bytes:
    """The contents of a model file."""
    check_is_fitted(model)
    skops = _skops()
    _require_named_kernel(model)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": {package: _version(package) for package in PACKAGES},
        "summary": {**describe(model), **(summary or {})},
    }
    packed = _repack(skops.dumps(model), json.dumps(header, indent=1, allow_nan=False))
    # What would be refused when it is read is not written either.
    schema = json.loads(_read_entries(packed, "the model")[SCHEMA])
    if refused := sorted(_untrusted(schema)):
        hint = ""
        if _name(type(model)) in refused and hasattr(model, "best_estimator_"):
            hint = " Save its best_estimator_ instead."
        elif any("_skl_callbacks" in vars(part) for part in fitted_parts(model)):
            hint = " Remove its callbacks first, by set_callbacks()."
        raise ModelFileError(
            f"The model cannot be saved: it contains {', '.join(refused)}, and model files hold "
            f"no such type.{hint}",
            refused,
        )
    return packed


def describe(model: Any) -> dict[str, Any]:
    """Facts about a fitted model, read off it; of several calibrated ones, what they share."""
    classifier, calibration = innermost(model), calibrated(model)
    facts: dict[str, Any] = {
        "model": type(classifier).__name__,
        "classes": np.asarray(model.classes_).tolist(),
    }
    for name in ("n_features_in_", "feature_names_in_"):
        value = getattr(model, name, None)
        if value is not None:
            facts[name.removesuffix("_in_")] = np.asarray(value).tolist()
    if calibration is not None:
        models = len(calibration.calibrated_classifiers_)
        facts["calibration"] = {"method": calibration.method, "models": models}
    if hasattr(classifier, "dual_gap_"):
        parameters = classifier.get_params(deep=False)
        facts["parameters"] = {name: _plain(value) for name, value in parameters.items()}
        if calibration is not None and models > 1:
            return facts
        facts |= {
            "support_vectors": classifier.n_support_.tolist(),
            "universum_support_vectors": len(classifier.universum_support_),
            "objective": classifier.objective_,
            "relative_gap": classifier.model_.certificate.relative_gap,
            "converged": classifier.converged_,
        }
    return facts


def _plain(value: Any) -> Any:
    """A parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)


def _require_named_kernel(model: Any) -> None:
    for estimator in fitted_parts(model):
        if callable(getattr(estimator, "kernel", None)):
            raise ModelFileError(
                "The model cannot be saved: its kernel is a function, and model files hold no "
                "code. Use a named kernel, or kernel='precomputed'."
            )


def _repack(archive: bytes, header: str) -> bytes:
    """skops' archive with our header, uncompressed, and independent of memory addresses."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        schema = json.loads(source.read(SCHEMA))
        renamed = _renumber(schema)
        arrays = {renamed[name]: source.read(name) for name in source.namelist() if name != SCHEMA}
    entries = {HEADER: header.encode(), SCHEMA: json.dumps(schema, indent=1).encode()}
    for name, content in sorted(arrays.items()):
        entries[name] = stored(read_zip(content)) if name.endswith(".npz") else content
    return stored(entries)


def _renumber(schema: Any) -> dict[str, str]:
    """Replace memory addresses by 1, 2, ... in place; return the new names of the files."""
    numbers: dict[int, int] = {}
    files: dict[str, str] = {}
    for node in _nodes(schema):
        if "__id__" in node:
            node["__id__"] = numbers.setdefault(node["__id__"], len(numbers) + 1)
        if isinstance(node.get("file"), str):
            suffix = Path(node["file"]).suffix
            node["file"] = files.setdefault(node["file"], f"{len(files) + 1}{suffix}")
    return files


# ---------------------------------------------------------------------------------------------
# Reading


def from_bytes(content: bytes, name: str) -> tuple[Any, Header]:
    """The model and the header in the contents of a file called `name`."""
    skops = _skops()
    entries = _read_entries(content, name)
    header = _parse_header(entries[HEADER], name)
    schema = _parse_json(entries[SCHEMA], name)
    if refused := sorted(_untrusted(schema)):
        raise ModelFileError(
            f"{name} was refused: it contains {', '.join(refused)}, which no model of ours needs. "
            "Nothing in it was run. Do not trust where it comes from.",
            refused,
        )
    _require_small(schema, entries, len(content), name)
    try:
        model = skops.loads(content, trusted=sorted(set().union(*trusted_types().values())))
        _require_usable(model)
    # skops and scikit-learn fail in all manners on a state that no fit has left behind. Types
    # are known to be harmless here, so the only question is what the user is told.
    except Exception as error:
        raise ModelFileError(
            f"{name} is damaged: its contents do not make a model "
            f"({type(error).__name__}: {_first_line(error)}). It was written by musvm "
            f"{header.versions.get('musvm', '?')} with scikit-learn "
            f"{header.versions.get('scikit-learn', '?')}."
        ) from error
    return model, header


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _refuse(name: str, why: str) -> NoReturn:
    raise ModelFileError(f"{name} is not a model that musvm can read: {why}.")


def _read_entries(content: bytes, name: str) -> dict[str, bytes]:
    """The entries of the archive, each of its stated size and checksum."""
    if content[:1] == b"\x80":
        _refuse(name, "it is a pickle, which could run anything. It was not opened")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            _check_entries(archive.infolist(), len(content), name)
            entries = {info.filename: archive.read(info) for info in archive.infolist()}
    except ModelFileError:
        raise
    except (zipfile.BadZipFile, EOFError, OSError, ValueError, RuntimeError) as error:
        # Every zip archive begins so, and a text or a picture does not.
        is_ours = content[:2] == b"PK"
        what = "the file is damaged; copy or fit it again" if is_ours else "it is no model file"
        _refuse(name, f"{what} ({_first_line(error).rstrip('.')})")
    for needed in (HEADER, SCHEMA):
        if needed not in entries:
            _refuse(name, f"it has no {needed}; only files written by musvm.save can be loaded")
    for entry, data in entries.items():
        if not is_sound(entry, data):
            _refuse(name, f"its array {entry} is damaged")
    return entries


def _check_entries(infos: list[zipfile.ZipInfo], size: int, name: str) -> None:
    names = [info.filename for info in infos]
    if len(set(names)) < len(names):
        _refuse(name, "it has two entries of one name")
    if strange := [entry for entry in names if not _ENTRY.fullmatch(entry)]:
        _refuse(name, f"it has an entry {strange[0][:80]!r}")
    if any(info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1 for info in infos):
        _refuse(name, "it is compressed or encrypted, which musvm.save never does")
    if sum(info.file_size for info in infos) > size:
        _refuse(name, "its entries are larger than the file")


def _parse_json(content: bytes, name: str) -> Any:
    try:
        value = json.loads(content)
        _require_shallow(value)
    except (ValueError, RecursionError):
        _refuse(name, "its JSON cannot be read")
    return value


def _require_shallow(value: Any) -> None:
    """skops recurses into the schema; a file must not be able to exhaust the stack."""
    level, depth = [value], 0
    while level:
        depth += 1
        if depth > _DEEPEST:
            raise RecursionError
        level = [child for parent in level for child in _children(parent)]


def _require_small(schema: Any, entries: Mapping[str, bytes], size: int, name: str) -> None:
    """Objects of one number are one object, which skops audits wherever it stands."""
    try:
        expanded = _expanded_size(schema, {entry: len(data) for entry, data in entries.items()})
    except RecursionError:
        expanded = math.inf
    if expanded > _LARGEST_EXPANSION * size + _ALWAYS_ALLOWED:
        _refuse(name, "its parts refer to each other so often that it is far larger than the file")


def _expanded_size(schema: Any, files: Mapping[str, int]) -> float:
    """Entries and bytes of a schema with references written out; infinite if one is circular."""
    numbered: dict[Any, list[dict[str, Any]]] = {}
    for node in _nodes(schema):
        numbered.setdefault(_number(node), []).append(node)
    known: dict[Any, float] = {}

    def of_node(node: dict[str, Any]) -> float:
        file = node.get("file")
        own = 1 + (files.get(file, 0) if isinstance(file, str) else 0)
        return own + sum(map(of_value, node.values()))

    def of_value(value: Any) -> float:
        if not isinstance(value, dict):
            return (
                len(value) if isinstance(value, str) else 1 + sum(map(of_value, _children(value)))
            )
        number = _number(value)
        if number is None:
            return of_node(value)
        if number not in known:
            known[number] = math.inf
            # Which of them is the object and which refer to it depends on the order of reading.
            known[number] = max(map(of_node, numbered[number]))
        return known[number]

    return of_value(schema)


def _number(node: dict[str, Any]) -> Any:
    number = node.get("__id__")
    return number if isinstance(number, (int, float, str)) else None


def _children(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


def _parse_header(content: bytes, name: str) -> Header:
    header = _parse_json(content, name)
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        _refuse(name, f"its {HEADER} does not say {FORMAT!r}")
    number, versions, summary = (
        header.get(key) for key in ("format_version", "versions", "summary")
    )
    if type(number) is not int or not isinstance(versions, dict) or not isinstance(summary, dict):
        _refuse(name, f"its {HEADER} is incomplete")
    if number > FORMAT_VERSION:
        _refuse(
            name,
            f"it has format {number}, written by musvm {versions.get('musvm', '?')}, and this "
            f"version reads up to {FORMAT_VERSION}. Upgrade: pip install -U musvm",
        )
    return Header(number, {str(k): str(v) for k, v in versions.items()}, summary)


# ---------------------------------------------------------------------------------------------
# The closed list


_PLAIN = {
    "JsonNode": {"builtins.str"},
    "DictNode": {"builtins.dict"},
    "ListNode": {"builtins.list"},
    "TupleNode": {"builtins.tuple"},
    "SliceNode": {"builtins.slice"},
    "TypeNode": {
        *("builtins." + name for name in ("str", "int", "float", "bool")),
        *("numpy." + name for name in ("float64", "float32", "int64")),
    },
    "NdArrayNode": {
        "numpy.ndarray",
        *("numpy." + name for name in ("float64", "float32", "int64", "bool", "bool_", "str_")),
    },
    "DTypeNode": {"numpy.dtype"},
    "RandomStateNode": {"numpy.random.mtrand.RandomState"},
}


@cache
def trusted_types() -> dict[str, frozenset[str]]:
    """The closed list: for every kind of entry in a schema, the types it may name."""
    sparse = {_name(kind) for kind in (sp.csr_array, sp.csr_matrix)}
    lists = {**_PLAIN, "SparseMatrixNode": sparse, "ObjectNode": set(_estimators())}
    return {loader: frozenset(names) for loader, names in lists.items()}


@cache
def _estimators() -> tuple[str, ...]:
    """Names of the estimators that a model file may contain."""
    from sklearn import calibration, decomposition, impute, isotonic, preprocessing
    from sklearn.compose import ColumnTransformer
    from sklearn.feature_selection import VarianceThreshold
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline

    import musvm
    from musvm.universum import WithUniversum

    own = [musvm.UniversumSVC, musvm.UniversumSVCCV, musvm.RejectingClassifier, WithUniversum]
    own += [musvm.UniversumPipeline]
    scalers = [
        getattr(preprocessing, name)
        for name in (
            "StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler", "Normalizer",
            "QuantileTransformer", "PowerTransformer", "PolynomialFeatures", "Binarizer",
            "OneHotEncoder", "OrdinalEncoder", "LabelEncoder",
        )
    ]  # fmt: skip
    others = [
        Pipeline, FeatureUnion, ColumnTransformer, FrozenEstimator, VarianceThreshold,
        impute.SimpleImputer, impute.MissingIndicator,
        decomposition.PCA, decomposition.TruncatedSVD,
    ]  # fmt: skip
    # Probabilities. Only one of these names is public; temperatures are of scikit-learn 1.8.
    names = "_CalibratedClassifier", "_SigmoidCalibration", "_TemperatureScaling"
    others += [CalibratedClassifierCV, isotonic.IsotonicRegression]
    others += [getattr(calibration, name) for name in names if hasattr(calibration, name)]
    parts = [FittedModel, Kernel, Certificate, Comparison, Finalist]
    return tuple(_name(kind) for kind in (*own, *parts, *scalers, *others))


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every dictionary in a schema, at any depth, in the order of the file."""
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
        waiting.extend(reversed(_children(value)))


def _untrusted(schema: Any) -> set[str]:
    """Names of the types in a schema, wherever they stand, that are not on the closed list."""
    trusted = trusted_types()
    refused = set()
    for node in _nodes(schema):
        loader = node.get("__loader__")
        named = {"__class__", "__module__", "__loader__"} & node.keys()
        if not named or all(isinstance(node[key], dict) for key in named):
            continue  # A dictionary of nodes; its keys are a user's.
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if not isinstance(loader, str) or name not in trusted.get(loader, frozenset()):
            refused.add(name)
    return refused


# ---------------------------------------------------------------------------------------------
# Making sure of the result


def _require_usable(model: Any) -> None:
    """Find out a state that no fit leaves behind, before it fails in the middle of a prediction."""
    if not is_classifier(model):
        raise TypeError(f"{type(model).__name__} is no classifier")
    check_is_fitted(model)
    for estimator in fitted_parts(model):
        if isinstance(estimator, CalibratedClassifierCV):
            _require_calibrators(estimator)
        elif hasattr(estimator, "steps"):
            _require_named_steps(estimator.steps)
        if type(estimator).__name__ == "UniversumSVC":
            _require_consistent(estimator)


def _require_calibrators(model: CalibratedClassifierCV) -> None:
    """Every model has the calibrators that its method needs: one for each decision value."""
    L = len(model.classes_)
    for one in model.calibrated_classifiers_:
        needed = 1 if one.method == "temperature" or L == 2 else L
        if one.method not in ("sigmoid", "isotonic", "temperature"):
            raise ValueError("it is calibrated by an unknown method")
        if np.shape(one.classes) != (L,) or len(one.calibrators) != needed:
            raise ValueError("the number of calibrators is not that of its classes")
        for calibrator in one.calibrators:
            check_is_fitted(calibrator)


def _require_named_steps(steps: Any) -> None:
    """A pipeline's steps are pairs of a name and an estimator, with at least one of them."""
    pairs = all(isinstance(step, (tuple, list)) and len(step) == 2 for step in steps)
    if not (steps and pairs and all(isinstance(name, str) for name, _ in steps)):
        raise ValueError("the steps of its pipeline are no pairs of a name and an estimator")


def _require_consistent(model: Any) -> None:
    """The shapes and kinds of the arrays that predictions are computed from."""
    validate_parameter_constraints(
        PARAMETER_CONSTRAINTS, model.get_params(deep=False), caller_name=type(model).__name__
    )
    fitted = model.model_
    parts = fitted, fitted.kernel, fitted.certificate
    if [type(part) for part in parts] != [FittedModel, Kernel, Certificate]:
        raise TypeError("a part of the fitted model is of another kind")
    if (fitted.kernel.name, fitted.kernel.constant) != (model.kernel, float(model.fit_intercept)):
        raise ValueError("its kernel is not that of its parameters")
    L, s = _matrix(model.dual_coef_).shape
    rows = [np.asarray(model.support_), np.asarray(model.universum_support_)]
    if np.shape(model.classes_) != (L,) or L < 2:
        raise ValueError("the number of classes differs between its arrays")
    if any(index.dtype.kind != "i" or index.ndim != 1 for index in rows):
        raise ValueError("the support is no list of rows")
    n_training = fitted.n_training_support
    if type(n_training) is not int or not 0 <= n_training <= s:
        raise ValueError("its number of training rows is not one of its support vectors")
    if sum(map(len, rows)) != s or any(np.any(index < 0) for index in rows):
        raise ValueError("the number of support vectors differs between its arrays")
    if model.kernel != "precomputed":
        shape = _matrix(model.support_vectors_).shape
        if shape != (s, model.n_features_in_):
            raise ValueError("the number of features differs between its arrays")
        if model.kernel == "linear" and _matrix(fitted.weights).shape != (L, shape[1]):
            raise ValueError("its weights do not match its features")
    if model.kernel != "linear" and fitted.weights is not None:
        raise ValueError("it has weights, which belong to a linear kernel")
    if not np.isfinite(float(fitted.kernel.gamma)):
        raise ValueError("gamma is not finite")


def _matrix(value: Any) -> Any:
    """A matrix of finite doubles, or an error."""
    entries = value.data if sp.issparse(value) else value
    if np.ndim(value) != 2 or getattr(entries, "dtype", None) != np.float64:
        raise TypeError("a matrix of doubles was expected")
    if not np.isfinite(entries).all():
        raise ValueError("an array is not finite")
    return value


def _skops() -> Any:
    try:
        import skops.io
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "skops":
            raise
        raise ModuleNotFoundError(
            "Model files need the package skops: pip install 'musvm[skops]'", name="skops"
        ) from None
    return skops.io


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
