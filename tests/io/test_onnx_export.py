"""The exported graph, run by onnxruntime, computes what the model computes."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler

pytest.importorskip("onnx", reason="the export needs onnx")
pytest.importorskip("onnxruntime", reason="running the graph needs onnxruntime")
pytest.importorskip("pandas", reason="tables with named columns need pandas")

import onnxruntime
import pandas

from musvm import UniversumSVC, UniversumSVCCV
from musvm.cli.tables import Columns, preparation
from musvm.io.onnx_export import ExportError, to_onnx

DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
UNIVERSUM = DIGITS[DIGIT > 6][:40]
POINTS = DIGITS[500:]  # others than those above and below

# Both sides compute in doubles, in almost the same order. The goal of the project is 1e-5; a
# factor that went through single precision shows at 1e-8.
TOLERANCE = 1e-12


def run(model, inputs):
    graph = to_onnx(model).SerializeToString()
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    decision, label = session.run(["decision", "label"], inputs)
    return decision, label


def training(n_classes):
    rows = np.flatnonzero(n_classes > DIGIT)[:80]
    return DIGITS[rows], DIGIT[rows]


def test_an_offset_costs_no_digits():
    X, y = training(3)
    model = UniversumSVC(gamma=0.05).fit(X + 1e6, y)
    decision, _ = run(model, {"X": POINTS + 1e6})
    np.testing.assert_allclose(decision, model.decision_function(POINTS + 1e6), atol=TOLERANCE)


KERNELS = [
    {"kernel": "linear"},
    {"kernel": "rbf", "gamma": 0.05},
    {"kernel": "rbf"},
    {"kernel": "poly", "degree": 3, "coef0": 1.0},
    {"kernel": "poly", "degree": 2, "coef0": 0.5, "gamma": 0.1},
    {"kernel": "sigmoid", "gamma": 0.01, "coef0": 0.1},
]


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("parameters", KERNELS, ids=lambda p: "-".join(map(str, p.values())))
@pytest.mark.filterwarnings("ignore:The kernel matrix is not positive semi-definite")
def test_decision_values_agree(parameters, n_classes):
    model = UniversumSVC(C=1, delta=0.1, **parameters)
    model.fit(*training(n_classes), universum=UNIVERSUM)
    decision, label = run(model, {"X": POINTS})
    expected = model.decision_function(POINTS)
    assert decision.dtype == np.float64
    assert decision.shape == expected.shape
    scale = np.abs(expected).max()
    np.testing.assert_allclose(decision, expected, rtol=0, atol=TOLERANCE * scale)
    # Labels where no two classes are level to rounding.
    values = np.column_stack([-expected, expected]) if expected.ndim == 1 else np.sort(expected)
    clear = np.abs(values[:, -1] - values[:, -2]) > 1e-9 * scale
    assert clear.mean() > 0.99
    np.testing.assert_array_equal(label[clear], model.predict(POINTS)[clear])


@pytest.mark.parametrize(
    "labels", [["x", "y", "z"], [10, 20, 30], [1.0, 2.0, 3.0]], ids=["text", "integers", "floats"]
)
def test_labels_keep_their_type(labels):
    X, species = load_iris(return_X_y=True)
    model = UniversumSVC().fit(X, np.array(labels)[species])
    _, label = run(model, {"X": X})
    assert label.tolist() == model.predict(X).tolist()
    assert type(label.tolist()[0]) is type(labels[0])


def table():
    X, species = load_iris(return_X_y=True)
    frame = pandas.DataFrame(X, columns=list("abcd"))
    frame.insert(0, "colour", np.where(species == 0, "red", "blue"))
    frame.insert(3, "size", np.where(X[:, 0] > 5.5, "large", "small"))
    frame.loc[3, "colour"] = None
    frame.loc[5, "a"] = np.nan
    return frame, np.array(["x", "y", "z"])[species]


def test_the_preparation_of_a_table_is_part_of_the_graph():
    frame, y = table()
    columns = Columns(6, tuple(frame.columns), ("colour", "size"))
    model = Pipeline([*preparation(columns), ("svm", UniversumSVC())]).fit(frame, y)
    new = frame.copy()
    new.loc[7, "colour"] = "never seen"
    new.loc[8, "b"] = np.nan
    properties = {p.key: json.loads(p.value) for p in to_onnx(model).metadata_props}
    assert properties["columns of numbers"] == ["a", "b", "c", "d"]
    assert properties["columns of categories"] == ["colour", "size"]
    assert properties["classes"] == ["x", "y", "z"]
    inputs = {
        "numbers": new[properties["columns of numbers"]].to_numpy(),
        "categories": new[properties["columns of categories"]].fillna("").to_numpy(dtype=object),
    }
    decision, label = run(model, inputs)
    np.testing.assert_allclose(decision, model.decision_function(new), rtol=0, atol=TOLERANCE)
    assert label.tolist() == model.predict(new).tolist()


def test_categories_alone():
    frame, y = table()
    frame = frame[["colour", "size"]]
    columns = Columns(2, ("colour", "size"), ("colour", "size"))
    model = Pipeline([*preparation(columns), ("svm", UniversumSVC())]).fit(frame, y)
    decision, _ = run(model, {"categories": frame.fillna("").to_numpy(dtype=object)})
    np.testing.assert_allclose(decision, model.decision_function(frame), rtol=0, atol=TOLERANCE)


def test_numbers_with_gaps():
    frame, y = table()
    numbers = frame[list("abcd")]
    model = Pipeline([*preparation(Columns(4, tuple("abcd"))), ("svm", UniversumSVC())])
    model.fit(numbers, y)
    decision, _ = run(model, {"X": numbers.to_numpy()})
    np.testing.assert_allclose(decision, model.decision_function(numbers), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize(
    "scaler",
    [StandardScaler(), StandardScaler(with_mean=False), MinMaxScaler((-1, 1)), MaxAbsScaler()],
)
def test_scalers(scaler):
    X, y = load_iris(return_X_y=True)
    model = make_pipeline(scaler, UniversumSVC()).fit(X, y)
    decision, _ = run(model, {"X": X + 0.3})
    np.testing.assert_allclose(decision, model.decision_function(X + 0.3), rtol=0, atol=TOLERANCE)


def test_sparse_models_and_searches():
    X, y = training(4)
    sparse = make_pipeline(MaxAbsScaler(), UniversumSVC()).fit(sp.csr_array(X), y)
    decision, _ = run(sparse, {"X": X})
    np.testing.assert_allclose(decision, sparse.decision_function(X), rtol=0, atol=TOLERANCE)
    search = UniversumSVCCV([1, 10], criterion=2).fit(X, y, universum=UNIVERSUM)
    decision, _ = run(search, {"X": X})
    np.testing.assert_allclose(decision, search.decision_function(X), rtol=0, atol=TOLERANCE)


def test_what_cannot_be_expressed_is_named():
    X, y = training(4)
    with pytest.raises(ExportError, match="'pca', a PCA"):
        to_onnx(make_pipeline(PCA(5), UniversumSVC()).fit(X, y))
    with pytest.raises(ExportError, match="'precomputed'"):
        to_onnx(UniversumSVC(kernel="precomputed").fit(X @ X.T, y))
    with pytest.raises(ExportError, match="kernel"):
        to_onnx(UniversumSVC(kernel=lambda A, B: A @ B.T).fit(X, y))
    with pytest.raises(ExportError, match="KNeighborsClassifier"):
        to_onnx(KNeighborsClassifier().fit(X, y))
    with pytest.raises(ExportError, match="clip"):
        to_onnx(make_pipeline(MinMaxScaler(clip=True), UniversumSVC()).fit(X, y))


def test_without_onnx_the_message_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'musvm\[onnx\]'"):
        to_onnx(UniversumSVC().fit(*training(2)))
