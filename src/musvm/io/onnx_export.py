"""The decision function of a model as an ONNX graph, to run without Python.

The graph computes, in doubles, what the model computes:

    f_l(x) = sum_i alpha_il k(x_i, x)       output `decision`, (N, L), or f_1 - f_0, (N,), for L = 2
    argmax_l f_l(x)                         output `label`, (N,)

k is the linear, polynomial, RBF or sigmoid kernel. The preparation in front of it, where there is
one, becomes part of the graph: imputation, scaling and one-hot encoding. What cannot be expressed
is refused, and the message says which step it was.

The input is `X`, (N, d) doubles with NaN for missing values. A model with categorical columns has
the inputs `numbers` and `categories` instead, the latter strings, "" for missing ones. The names of
the columns of each input, in their order, are in the graph's metadata.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

# Old enough for every runtime of recent years; nothing here needs more.
OPSET, ML_OPSET, IR_VERSION = 17, 3, 8


class ExportError(ValueError):
    """A model, or a step in front of it, has no equivalent in ONNX."""


def to_onnx(model: Any) -> Any:
    """The ONNX graph of a fitted model.

    Parameters
    ----------
    model : UniversumSVC, UniversumSVCCV, or a Pipeline that ends in one
        The model, fitted.

    Returns
    -------
    graph : onnx.ModelProto
        Write it with ``onnx.save``, or run it with ``onnxruntime``.

    Raises
    ------
    ExportError
        If the model or one of its steps cannot be expressed.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from musvm import UniversumSVC
    >>> from musvm.io.onnx_export import to_onnx
    >>> graph = to_onnx(UniversumSVC().fit(*load_iris(return_X_y=True)))
    >>> [output.name for output in graph.graph.output]
    ['decision', 'label']
    """
    onnx = _onnx()
    check_is_fitted(model)
    steps = list(model.steps) if hasattr(model, "steps") else [("model", model)]
    classifier = steps.pop()[1]
    classifier = getattr(classifier, "best_estimator_", classifier)
    _require_exportable(classifier)
    graph = _Graph(onnx)
    n_features = getattr(model, "n_features_in_", classifier.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    columns = [f"x{k}" for k in range(n_features)] if names is None else list(map(str, names))
    values = _prepared(graph, steps, columns)
    decision = _decision(graph, classifier, values)
    return _finish(graph, classifier, decision)


class _Graph:
    """Collects the nodes and constants of a graph; every result gets a name of its own."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self.inputs: list[Any] = []
        self.metadata: dict[str, str] = {}

    def op(self, kind: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        name = output or f"{kind}_{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        name = f"constant_{len(self.constants)}"
        array = np.asarray(values, order="C")
        if array.dtype.kind == "U":
            array = array.astype(object)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def input(self, name: str, kind: int, columns: list[str]) -> str:
        shape = ["N", len(columns)]
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, shape))
        self.metadata[f"columns of {name}"] = json.dumps(columns)
        return name


# ---------------------------------------------------------------------------------------------
# The preparation


def _prepared(graph: _Graph, steps: list[tuple[str, Any]], columns: list[str]) -> str:
    """The features that the classifier sees."""
    double = graph.onnx.TensorProto.DOUBLE
    if steps and hasattr(steps[0][1], "transformers_"):
        values = _column_transformer(graph, steps[0][1], columns)
        steps = steps[1:]
    else:
        values = graph.input("X", double, columns)
    return _numeric_steps(graph, steps, values)


def _numeric_steps(graph: _Graph, steps: list[tuple[str, Any]], values: str) -> str:
    for name, step in steps:
        if step is None or isinstance(step, str):  # "passthrough"
            continue
        translate = _NUMERIC_STEPS.get(type(step).__name__)
        if translate is None:
            raise ExportError(
                f"The step {name!r}, a {type(step).__name__}, cannot be exported to ONNX; "
                f"these can: {', '.join(sorted(_NUMERIC_STEPS))}, ColumnTransformer, OneHotEncoder."
            )
        values = translate(graph, step, values)
    return values


def _imputer(graph: _Graph, step: Any, values: str) -> str:
    fill = np.asarray(step.statistics_, dtype=np.float64)
    if step.add_indicator or not _is_nan(step.missing_values) or np.isnan(fill).any():
        raise ExportError(
            "A SimpleImputer can be exported if missing values are NaN, with no indicator and no "
            "empty column."
        )
    return graph.op("Where", graph.op("IsNaN", values), graph.constant(fill), values)


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and np.isnan(value)


def _standard_scaler(graph: _Graph, step: Any, values: str) -> str:
    if step.with_mean:
        values = graph.op("Sub", values, graph.constant(step.mean_))
    return graph.op("Div", values, graph.constant(step.scale_)) if step.with_std else values


def _max_abs_scaler(graph: _Graph, step: Any, values: str) -> str:
    return graph.op("Div", values, graph.constant(step.scale_))


def _min_max_scaler(graph: _Graph, step: Any, values: str) -> str:
    if step.clip:
        raise ExportError("A MinMaxScaler with clip=True cannot be exported.")
    values = graph.op("Mul", values, graph.constant(step.scale_))
    return graph.op("Add", values, graph.constant(step.min_))


_NUMERIC_STEPS: dict[str, Callable[[_Graph, Any, str], str]] = {
    "SimpleImputer": _imputer,
    "StandardScaler": _standard_scaler,
    "MaxAbsScaler": _max_abs_scaler,
    "MinMaxScaler": _min_max_scaler,
}


def _column_transformer(graph: _Graph, transformer: Any, columns: list[str]) -> str:
    """Numbers and categories side by side, in the transformer's order."""
    parts = [part for part in transformer.transformers_ if len(part[2])]
    if any(part[0] == "remainder" and part[1] != "drop" for part in parts):
        raise ExportError("A ColumnTransformer that passes a remainder on cannot be exported.")
    parts = [part for part in parts if part[0] != "remainder" and part[1] != "drop"]
    if transformer.transformer_weights or not all(map(_has_names, parts)):
        raise ExportError(
            "A ColumnTransformer can be exported if it chooses columns by name, without weights."
        )
    texts = [name for _, step, names in parts if _encoder(step) for name in names]
    numbers = [name for name in columns if name not in texts]
    onnx = graph.onnx
    given: dict[str, str] = {}
    if numbers:
        given |= dict.fromkeys(numbers, graph.input("numbers", onnx.TensorProto.DOUBLE, numbers))
    if texts:
        given |= dict.fromkeys(texts, graph.input("categories", onnx.TensorProto.STRING, texts))
    made = []
    for _, step, names in parts:
        if encoder := _encoder(step):
            made += _encoded(graph, step, encoder, names, texts, given[names[0]])
            continue
        where = graph.constant(np.array([numbers.index(name) for name in names]))
        chosen = graph.op("Gather", given[names[0]], where, axis=1)
        made.append(_numeric_steps(graph, _steps_of(step), chosen))
    return graph.op("Concat", *made, axis=1)


def _has_names(part: Any) -> bool:
    return not isinstance(part[2], str) and all(isinstance(name, str) for name in part[2])


def _steps_of(step: Any) -> list[tuple[str, Any]]:
    return step.steps if hasattr(step, "steps") else [(type(step).__name__, step)]


def _encoder(step: Any) -> Any:
    """The one-hot encoder at the end of a branch, if there is one."""
    last = _steps_of(step)[-1][1]
    return last if type(last).__name__ == "OneHotEncoder" else None


def _encoded(
    graph: _Graph, step: Any, encoder: Any, names: list[str], texts: list[str], given: str
) -> list[str]:
    """One-hot codes of some columns; a category that was not seen in training is all zeros."""
    *before, _ = _steps_of(step)
    imputers = [made for _, made in before if type(made).__name__ == "SimpleImputer"]
    if len(before) > 1 or len(imputers) != len(before):
        raise ExportError("Only a SimpleImputer can stand before a OneHotEncoder.")
    if encoder.drop is not None or encoder.handle_unknown != "ignore":
        raise ExportError(
            "A OneHotEncoder can be exported with drop=None, handle_unknown='ignore'."
        )
    made = []
    for position, name in enumerate(names):
        found = encoder.categories_[position]
        if not all(isinstance(category, str) for category in found):
            raise ExportError(f"The categories of column {name!r} are not text.")
        keys, codes = list(found), list(range(len(found)))
        if imputers:
            keys.append("")
            codes.append(keys.index(imputers[0].statistics_[position]))
        column = graph.op("Gather", given, graph.constant(np.array([texts.index(name)])), axis=1)
        code = graph.op(
            "LabelEncoder",
            column,
            domain="ai.onnx.ml",
            keys_strings=keys,
            values_int64s=codes,
            default_int64=-1,
        )
        same = graph.op("Equal", code, graph.constant(np.arange(len(found), dtype=np.int64)))
        made.append(graph.op("Cast", same, to=graph.onnx.TensorProto.DOUBLE))
    return made


# ---------------------------------------------------------------------------------------------
# The model


def _require_exportable(classifier: Any) -> None:
    if not hasattr(classifier, "dual_coef_") or not hasattr(classifier, "universum_support_"):
        raise ExportError(f"A {type(classifier).__name__} cannot be exported to ONNX.")
    if classifier.kernel not in _KERNELS:
        raise ExportError(
            f"The kernel {classifier.kernel!r} cannot be exported to ONNX; these can: "
            f"{', '.join(_KERNELS)}."
        )


def _decision(graph: _Graph, model: Any, values: str) -> str:
    """f_l(x), (N, L)."""
    F = _without_intercept(graph, model, values)
    if not model.fit_intercept:
        return F
    return graph.op("Add", F, graph.constant(model.model_.intercept))


def _without_intercept(graph: _Graph, model: Any, values: str) -> str:
    if model.kernel == "linear":
        return graph.op("MatMul", values, graph.constant(model.model_.weights.T))
    Z = model.support_vectors_
    Z = Z.toarray() if sp.issparse(Z) else Z
    kernel = _KERNELS[model.kernel](graph, model, Z, values)
    return graph.op("MatMul", kernel, graph.constant(model.dual_coef_.T))


def _products(graph: _Graph, model: Any, Z: Any, values: str) -> str:
    """gamma <x, z> + coef0."""
    # gamma is part of the constant: as a factor of its own, onnxruntime fuses it into the product
    # in single precision.
    products = graph.op("MatMul", values, graph.constant(model.model_.kernel.gamma * Z.T))
    return graph.op("Add", products, graph.constant(np.float64(model.coef0)))


def _poly(graph: _Graph, model: Any, Z: Any, values: str) -> str:
    degree = graph.constant(np.float64(model.degree))
    return graph.op("Pow", _products(graph, model, Z, values), degree)


def _sigmoid(graph: _Graph, model: Any, Z: Any, values: str) -> str:
    return graph.op("Tanh", _products(graph, model, Z, values))


def _rbf(graph: _Graph, model: Any, Z: Any, values: str) -> str:
    """exp(-gamma |x - z|^2), the distances by |x|^2 - 2 <x, z> + |z|^2, never below 0.

    Points are moved by the mean of the support vectors, so that an offset costs no digits.
    """
    centre = Z.mean(axis=0)
    values, Z = graph.op("Sub", values, graph.constant(centre)), Z - centre
    rows = graph.constant(np.array([1], dtype=np.int64))
    lengths = graph.op("ReduceSum", graph.op("Mul", values, values), rows, keepdims=1)
    products = graph.op("MatMul", values, graph.constant(-2.0 * Z.T))
    squares = graph.op(
        "Add", graph.op("Add", products, lengths), graph.constant((Z**2).sum(axis=1))
    )
    distances = graph.op("Max", squares, graph.constant(np.float64(0)))
    return graph.op(
        "Exp", graph.op("Mul", distances, graph.constant(np.float64(-model.model_.kernel.gamma)))
    )


_KERNELS: dict[str, Any] = {"linear": None, "poly": _poly, "rbf": _rbf, "sigmoid": _sigmoid}


def _finish(graph: _Graph, model: Any, decision: str) -> Any:
    """Name the outputs and put the graph together."""
    from musvm import __version__

    onnx, types = graph.onnx, graph.onnx.TensorProto
    helper = onnx.helper
    classes = np.asarray(model.classes_)
    classes = classes.astype(np.int64) if classes.dtype.kind in "biu" else classes
    kind = {"i": types.INT64, "f": types.DOUBLE}.get(classes.dtype.kind, types.STRING)
    classes = classes if kind != types.STRING else classes.astype(np.str_)
    best = graph.op("ArgMax", decision, axis=1, keepdims=0)
    if len(classes) == 2:
        first, second = (
            graph.op("Gather", decision, graph.constant(np.int64(k)), axis=1) for k in (0, 1)
        )
        graph.op("Sub", second, first, output="decision")
        shape: list[Any] = ["N"]
    else:
        graph.op("Identity", decision, output="decision")
        shape = ["N", len(classes)]
    graph.op("Gather", graph.constant(classes), best, axis=0, output="label")
    outputs = [
        helper.make_tensor_value_info("decision", types.DOUBLE, shape),
        helper.make_tensor_value_info("label", kind, ["N"]),
    ]
    made = helper.make_graph(graph.nodes, "musvm", graph.inputs, outputs, graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
    model_proto = helper.make_model(
        made,
        opset_imports=opsets,
        ir_version=IR_VERSION,
        producer_name="musvm",
        producer_version=__version__,
    )
    graph.metadata["classes"] = json.dumps(model.classes_.tolist())
    helper.set_model_props(model_proto, graph.metadata)
    onnx.checker.check_model(model_proto)
    return model_proto


def _onnx() -> Any:
    try:
        import onnx
        import onnx.checker
        import onnx.helper
        import onnx.numpy_helper
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "onnx":
            raise
        raise ModuleNotFoundError(
            "The export needs the package onnx: pip install 'musvm[onnx]'", name="onnx"
        ) from None
    return onnx
