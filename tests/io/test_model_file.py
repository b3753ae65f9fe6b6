"""Model files: what comes back is what was saved, and nothing else is ever loaded."""

from __future__ import annotations

import io
import json
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

pytest.importorskip("skops", reason="model files need skops")
pytest.importorskip("pandas", reason="tables with named columns need pandas")

import pandas

import model_files
import musvm
from musvm import RejectingClassifier, UniversumSVC, UniversumSVCCV, make_universum_pipeline
from musvm.io.model_file import (
    ModelFileError,
    from_bytes,
    load_with_header,
    to_bytes,
    trusted_types,
)
from musvm.universum import WithUniversum

DIGITS, DIGIT = load_digits(return_X_y=True)
DIGITS = DIGITS / 16
TRAINING, UNIVERSUM = DIGIT < 4, DIGITS[DIGIT > 6][:30]
X, Y = DIGITS[TRAINING][:60], DIGIT[TRAINING][:60]


@pytest.fixture(scope="module")
def model():
    return UniversumSVC(C=10, gamma=0.1, delta=0.1).fit(X, Y, universum=UNIVERSUM)


@pytest.fixture(scope="module")
def content(model):
    return to_bytes(model)


def load(content):
    return from_bytes(content, "model.skops")[0]


def mixed_table():
    iris, species = load_iris(return_X_y=True)
    frame = pandas.DataFrame(iris, columns=["a", "b", "c", "d"])
    frame["colour"] = np.where(species == 0, "red", "blue")
    frame.loc[3, "colour"] = None
    frame.loc[5, "a"] = np.nan
    return frame, np.array(["x", "y", "z"])[species]


def mixed_pipeline():
    frame, y = mixed_table()
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = ColumnTransformer(
        [("numbers", numbers, list("abcd")), ("categories", categories, ["colour"])]
    )
    return make_pipeline(columns, UniversumSVC()).fit(frame, y)


def fitted_models():
    binary = Y < 2
    return {
        "rbf": UniversumSVC(gamma=0.1).fit(X, Y, universum=UNIVERSUM),
        "linear": UniversumSVC(kernel="linear").fit(X, Y, universum=UNIVERSUM),
        "poly": UniversumSVC(kernel="poly", coef0=1).fit(X, Y, universum=UNIVERSUM),
        "binary": UniversumSVC().fit(X[binary], Y[binary].astype(bool)),
        "text labels": UniversumSVC().fit(X, Y.astype(str)),
        "sparse": UniversumSVC().fit(sp.csr_array(X), Y, universum=sp.csr_array(UNIVERSUM)),
        "sparse linear": UniversumSVC(kernel="linear").fit(sp.csr_matrix(X), Y),
        "weights": UniversumSVC(class_weight={0: 1.0, 1: 2.0, 2: 1.0, 3: 1.0}).fit(X, Y),
        "search": UniversumSVCCV([1, 10], criterion=2).fit(X, Y, universum=UNIVERSUM),
        "pipeline": make_pipeline(StandardScaler(), PCA(10), UniversumSVC()).fit(X, Y),
        "rejecting": rejecting(reject_label=-1).fit(X, Y, universum=UNIVERSUM),
        "rejecting, labels of two kinds": rejecting("none").fit(X, Y, universum=UNIVERSUM),
        "made universum": WithUniversum(UniversumSVC(), random_state=0).fit(X, Y),
        "made universum, pipeline, rejecting": make_pipeline(
            StandardScaler(), rejecting("none", WithUniversum(UniversumSVC(), random_state=0))
        ).fit(X, Y.astype(str)),
    }


def rejecting(reject_label, estimator=None):
    return RejectingClassifier(estimator or UniversumSVC(gamma=0.1), reject_label, target=0.8, cv=2)


def values(model, points):
    """Decision values; a model that rejects has one score for each point instead."""
    compute = getattr(model, "decision_function", None) or model.score_samples
    return compute(points)


@pytest.mark.parametrize(("name", "fitted"), fitted_models().items())
def test_a_loaded_model_is_the_model_bit_by_bit(name, fitted):
    points = X + 0.1
    loaded = load(to_bytes(fitted))
    assert type(loaded) is type(fitted)
    np.testing.assert_array_equal(values(loaded, points), values(fitted, points), strict=True)
    np.testing.assert_array_equal(loaded.predict(points), fitted.predict(points), strict=True)
    assert str(loaded) == str(fitted)


def calibrated_models():
    svc, pipeline = (
        UniversumSVC(gamma=0.1),
        make_universum_pipeline(StandardScaler(), UniversumSVC()),
    )
    fitted = UniversumSVC(gamma=0.1).fit(X, Y, universum=UNIVERSUM)
    in_folds = {"cv": 2, "ensemble": False}
    return {
        "classifier": CalibratedClassifierCV(svc, **in_folds),
        "two classes": CalibratedClassifierCV(svc, **in_folds),
        "several models": CalibratedClassifierCV(svc, cv=2, ensemble=True),
        "isotonic": CalibratedClassifierCV(svc, method="isotonic", **in_folds),
        "pipeline": CalibratedClassifierCV(pipeline, **in_folds),
        "search": CalibratedClassifierCV(UniversumSVCCV([1, 10], criterion=2), **in_folds),
        "fitted before": CalibratedClassifierCV(FrozenEstimator(fitted), ensemble=False),
        "in a pipeline": make_universum_pipeline(
            StandardScaler(), CalibratedClassifierCV(svc, **in_folds)
        ),
        "rejecting": rejecting(-1, CalibratedClassifierCV(svc, **in_folds)),
    }


@pytest.mark.parametrize("name", calibrated_models())
def test_a_calibrated_model_comes_back_bit_by_bit(name):
    rows = Y < 2 if name == "two classes" else Y < 4
    # A pipeline hands a universum on to a step whose `fit` names it, which calibration does not.
    takes_universum = name not in ("fitted before", "in a pipeline")
    extra = {"universum": (UNIVERSUM,)} if takes_universum else {}
    fitted = calibrated_models()[name].fit(X[rows], Y[rows], **extra)
    loaded = load(to_bytes(fitted))
    points = X + 0.1
    np.testing.assert_array_equal(loaded.predict(points), fitted.predict(points))
    if name != "rejecting":
        np.testing.assert_array_equal(loaded.predict_proba(points), fitted.predict_proba(points))
    assert from_bytes(to_bytes(fitted), "m")[1].summary["model"] == "UniversumSVC"


def test_the_header_of_a_calibrated_model_tells_how_many_models_it_has():
    several = CalibratedClassifierCV(UniversumSVC(C=3), cv=2).fit(X, Y)
    summary = from_bytes(to_bytes(several), "m")[1].summary
    assert summary["calibration"] == {"method": "sigmoid", "models": 2}
    assert summary["parameters"]["C"] == 3
    assert "support_vectors" not in summary
    one = CalibratedClassifierCV(UniversumSVC(), cv=2, ensemble=False).fit(X, Y)
    assert from_bytes(to_bytes(one), "m")[1].summary["converged"]


def test_calibrators_that_no_fit_leaves_behind_are_refused():
    fitted = CalibratedClassifierCV(UniversumSVC(), cv=2, ensemble=False).fit(X, Y)
    (one,) = fitted.calibrated_classifiers_
    calibrators, method = list(one.calibrators), one.method
    for damage in ("fewer", "unfitted", "unknown"):
        one.calibrators, one.method = list(calibrators), method
        if damage == "fewer":
            one.calibrators.pop()
        elif damage == "unfitted":
            one.calibrators[0] = type(calibrators[0])()
        else:
            one.method = "by ear"
        with pytest.raises(ModelFileError, match="is damaged"):
            load(to_bytes(fitted))


def test_another_search_says_what_of_it_can_be_saved():
    search = GridSearchCV(UniversumSVC(), {"C": [1, 10]}, cv=2).fit(X, Y)
    with pytest.raises(ModelFileError, match="Save its best_estimator_ instead"):
        to_bytes(search)


def test_a_random_state_comes_back_as_it_was():
    random_state = np.random.RandomState(3)
    fitted = UniversumSVC(random_state=random_state).fit(X, Y)
    loaded = load(to_bytes(fitted))
    np.testing.assert_array_equal(loaded.random_state.rand(5), random_state.rand(5))


def test_a_table_with_categories_comes_back_bit_by_bit():
    pipeline, (frame, _) = mixed_pipeline(), mixed_table()
    loaded = load(to_bytes(pipeline))
    np.testing.assert_array_equal(
        loaded.decision_function(frame), pipeline.decision_function(frame)
    )


IN_ANOTHER_PROCESS = """
import sys, numpy as np, musvm
points, *paths = sys.argv[1:]
for path in paths:
    model = musvm.load(path)
    compute = getattr(model, "decision_function", None) or model.score_samples
    np.save(path + ".npy", compute(np.load(points)))
"""


def test_another_process_computes_the_same_bits(tmp_path):
    models = fitted_models()
    paths = {name: tmp_path / f"{name}.skops" for name in models}
    for name, model in models.items():
        musvm.save(model, paths[name])
    np.save(tmp_path / "points.npy", X + 0.05)
    files = [str(tmp_path / "points.npy"), *map(str, paths.values())]
    subprocess.run([sys.executable, "-c", IN_ANOTHER_PROCESS, *files], check=True)
    for name, model in models.items():
        there = np.load(f"{paths[name]}.npy")
        np.testing.assert_array_equal(there, values(model, X + 0.05), err_msg=name, strict=True)


def test_a_loaded_model_that_rejects_has_its_threshold():
    fitted = rejecting(-1).fit(X, Y, universum=UNIVERSUM)
    loaded = load(to_bytes(fitted))
    assert loaded.threshold_ == fitted.threshold_
    assert np.mean(loaded.predict(UNIVERSUM) == -1) > 0, "nothing is rejected: the test is idle"


def test_a_function_that_makes_the_universum_is_not_saved():
    made = WithUniversum(UniversumSVC(), make=lambda X, y, m, random_state: X[:m] / 2).fit(X, Y)
    with pytest.raises(ModelFileError, match="cannot be saved"):
        to_bytes(made)


def test_two_files_of_one_model_are_equal(model, content):
    assert to_bytes(model) == content
    assert to_bytes(load(content)) == content


def test_a_model_refuses_columns_in_another_order_by_name(tmp_path):
    frame, y = mixed_table()
    numbers = frame[list("abcd")].fillna(0.0)
    path = tmp_path / "model.skops"
    musvm.save(UniversumSVC().fit(numbers, y), path)
    loaded = musvm.load(path)
    with pytest.raises(ValueError, match=r"(?s)feature names.*order"):
        loaded.predict(numbers[list("bacd")])
    with pytest.raises(ValueError, match=r"(?s)feature names.*'?d'?"):
        loaded.predict(numbers.rename(columns={"d": "e"}))


def test_the_header_tells_versions_and_training(model, tmp_path):
    path = tmp_path / "model.skops"
    musvm.save(model, path, summary={"source": "digits"})
    _, header = load_with_header(path)
    assert header.format_version == 1
    assert header.versions["musvm"] == musvm.__version__
    assert {"numpy", "scipy", "scikit-learn", "skops"} < header.versions.keys()
    assert header.summary["source"] == "digits"
    assert header.summary["classes"] == [0, 1, 2, 3]
    assert header.summary["parameters"]["delta"] == 0.1
    assert header.summary["support_vectors"] == model.n_support_.tolist()
    assert header.summary["relative_gap"] == model.model_.certificate.relative_gap


# ---------------------------------------------------------------------------------------------
# Saving


def test_what_cannot_be_loaded_is_not_saved(tmp_path):
    path = tmp_path / "model.skops"
    with_function = make_pipeline(FunctionTransformer(np.log1p), UniversumSVC()).fit(X, Y)
    with pytest.raises(ModelFileError, match="FunctionTransformer") as refusal:
        musvm.save(with_function, path)
    assert any("FunctionTransformer" in name for name in refusal.value.refused)
    with pytest.raises(ModelFileError, match="KNeighborsClassifier"):
        musvm.save(KNeighborsClassifier().fit(X, Y), path)
    own_kernel = UniversumSVC(kernel=lambda A, B: A @ B.T).fit(X, Y)
    with pytest.raises(ModelFileError, match="kernel is a function"):
        musvm.save(own_kernel, path)
    with pytest.raises(NotFittedError):
        musvm.save(UniversumSVC(), path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(model, tmp_path, monkeypatch):
    path = tmp_path / "model.skops"
    path.write_bytes(b"old")

    def full_disk(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("musvm._files.os.replace", full_disk)
    with pytest.raises(OSError, match="No space"):
        musvm.save(model, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_without_skops_the_message_names_the_extra(monkeypatch, model):
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'musvm\[skops\]'"):
        to_bytes(model)


# ---------------------------------------------------------------------------------------------
# The closed list

SENTINEL = "sentinel-of-a-hostile-model"


@pytest.mark.parametrize("where", ["root", "attribute", "deep", "hidden"])
@pytest.mark.parametrize(("name", "node"), model_files.hostile_nodes(SENTINEL).items())
def test_types_off_the_list_are_named_and_nothing_runs(
    content, name, node, where, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)

    def change(schema):
        if where == "root":
            return {**schema, **node}
        attributes = schema["content"]["content"]
        if where == "attribute":
            attributes["C"] = node
        elif where == "deep":
            attributes["class_weight"] = model_files.container("list", "ListNode", [node])
        else:  # where skops has no reason to look
            attributes["C"]["aside"] = [{"more": node}]
        return schema

    hostile = model_files.with_json(content, "schema.json", change)
    with model_files.no_code_runs(), pytest.raises(ModelFileError, match="was refused") as refusal:
        load(hostile)
    assert name in refusal.value.refused
    assert name in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_the_watch_itself_works(tmp_path):
    with pytest.raises(AssertionError, match="pickle"), model_files.no_code_runs():
        pickle.loads(pickle.dumps(UniversumSVC()))
    with pytest.raises(AssertionError, match="subprocess"), model_files.no_code_runs():
        subprocess.run(["true"], check=True)


def test_every_name_in_a_hostile_file_is_reported(content):
    def change(schema):
        found = list(model_files.nodes(schema))
        found[-1] |= {"__module__": "os", "__class__": "remove"}
        found[-2] |= {"__module__": "shutil", "__class__": "rmtree"}

    with pytest.raises(ModelFileError) as refusal:
        load(model_files.with_json(content, "schema.json", change))
    assert refusal.value.refused == ["os.remove", "shutil.rmtree"]


def test_a_trusted_name_with_another_loader_is_refused(content):
    def change(schema):
        next(model_files.nodes(schema))["__loader__"] = "TypeNode"

    with pytest.raises(ModelFileError, match="was refused"):
        load(model_files.with_json(content, "schema.json", change))


def test_the_list_is_closed():
    """It names types one by one, all of them data, containers or estimators."""
    names = set().union(*trusted_types().values())
    assert all(name.split(".")[0] in {"builtins", "numpy", "scipy", "sklearn", "musvm"}
               for name in names)  # fmt: skip
    assert not {name for name in names if "Function" in name or name.endswith("Node")}
    assert "FunctionNode" not in trusted_types()


def test_plain_skops_files_and_pickles_are_not_model_files(model, tmp_path):
    import skops.io

    with pytest.raises(ModelFileError, match=r"no musvm\.json"):
        load(skops.io.dumps(model))
    with model_files.no_code_runs(), pytest.raises(ModelFileError, match="pickle"):
        load(b"\x80\x05cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(ModelFileError, match="zip"):
        load(b"not an archive")


# ---------------------------------------------------------------------------------------------
# Damage


@given(st.data())
def test_truncated_files_are_refused(content, data):
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ModelFileError):
        load(content[:length])


@given(st.data())
def test_a_changed_byte_is_found_or_does_no_harm(model, content, data):
    position = data.draw(st.integers(0, len(content) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda byte: byte != content[position]))
    changed = content[:position] + bytes([value]) + content[position + 1 :]
    with model_files.no_code_runs():
        try:
            loaded = load(changed)
        except ModelFileError:
            return
    # Dates and the like in the archive mean nothing; what means something is checksummed.
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))


def replace_array(content, data, suffix=".npy"):
    parts = model_files.entries(content)
    name = next(name for name in parts if name.endswith(suffix))
    return model_files.archive({**parts, name: data})


def test_an_array_that_claims_terabytes_is_refused_before_it_is_made(content):
    with pytest.raises(ModelFileError, match="array"):
        load(replace_array(content, model_files.npy((1 << 40,))))
    with pytest.raises(ModelFileError, match="array"):
        load(replace_array(content, model_files.npy((-1,))))


def test_compressed_entries_are_refused(content):
    bomb = model_files.archive(model_files.entries(content), zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelFileError, match="compressed"):
        load(bomb)


def test_a_sparse_matrix_that_points_outside_itself_is_refused():
    """Compiled code would follow such indices."""
    sparse = UniversumSVC().fit(sp.csr_array(X), Y)
    content = to_bytes(sparse)
    matrix = sparse.support_vectors_.copy()
    matrix.indices[0] = 10_000_000
    buffer = io.BytesIO()
    sp.save_npz(buffer, matrix, compressed=False)
    with pytest.raises(ModelFileError, match="array"):
        load(replace_array(content, buffer.getvalue(), ".npz"))


def test_extra_and_doubled_entries_are_refused(content):
    parts = model_files.entries(content)
    with pytest.raises(ModelFileError, match="entry"):
        load(model_files.archive({**parts, "../../evil.py": b""}))
    buffer = io.BytesIO(content)
    with zipfile.ZipFile(buffer, "a") as made, pytest.warns(UserWarning, match="Duplicate"):
        made.writestr("schema.json", b"{}")
    with pytest.raises(ModelFileError, match="two entries"):
        load(buffer.getvalue())


def test_json_that_is_deep_or_none_is_refused(content):
    parts = model_files.entries(content)
    for schema in (b"{", b"\xff", b"[" * 100_000, b"[" * 300 + b"]" * 300):
        with pytest.raises(ModelFileError, match="JSON"):
            load(model_files.archive({**parts, "schema.json": schema}))


LARGEST = "the largest array"


def listed(number: int, *content):
    """A list in a schema; of an object that stands elsewhere its number is enough."""
    kind = {"__class__": "list", "__module__": "builtins", "__loader__": "ListNode"}
    return {**kind, "__id__": number, "content": list(content)}


def nested(levels: int):
    node = listed(10**6)
    for level in range(1, levels):
        node = listed(10**6 + level, node, listed(10**6 + level - 1))
    return node


def circular():
    return listed(10**6, listed(10**6))


def repeated(times: int):
    kind = {"__class__": "ndarray", "__module__": "numpy", "__loader__": "NdArrayNode"}
    array = {**kind, "type": "numpy", "file": LARGEST}
    return listed(10**6, *[{**array, "__id__": 10**6 + n} for n in range(1, times + 1)])


@pytest.mark.parametrize(
    "bomb",
    [nested(18), nested(60), circular(), repeated(8000)],
    ids=["18 levels", "60 levels", "circular", "one array often"],
)
def test_references_that_multiply_are_refused_before_they_are_followed(content, bomb):
    parts = model_files.entries(content)
    largest = max((name for name in parts if name.endswith(".npy")), key=lambda n: len(parts[n]))

    def plant(schema):
        schema["content"]["content"]["class_weight"] = json.loads(
            json.dumps(bomb).replace(LARGEST, largest)
        )

    with pytest.raises(ModelFileError, match="far larger than the file"):
        load(model_files.with_json(content, "schema.json", plant))


def test_a_file_of_a_newer_format_asks_for_an_upgrade(content):
    newer = model_files.with_json(content, "musvm.json", lambda h: {**h, "format_version": 99})
    with pytest.raises(ModelFileError, match="Upgrade"):
        load(newer)
    for broken in ({}, [], {"format": "musvm model"}, {"format": "other"}):
        with pytest.raises(ModelFileError, match=r"musvm\.json"):
            load(model_files.with_json(content, "musvm.json", lambda _, b=broken: b))


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("model_.classes", [0, 1]),
        ("model_.dual_coef", "text"),
        ("model_.dual_coef", [[1.0, 2.0]]),
        ("model_.vectors", [[1.0]]),
        ("model_.kernel", "rbf"),
        ("model_.kernel.name", "linear"),
        ("model_.certificate", "none"),
        ("model_", "text"),
        ("kernel", "unknown"),
        ("kernel", 3),
        ("C", "many"),
        ("model_.kernel.gamma", None),
        ("model_.support", "text"),
        ("model_.n_training_support", 10**6),
        ("model_.weights", "text"),
        ("n_features_in_", 3),
    ],
)
def test_a_state_that_no_fit_leaves_behind_is_refused(content, attribute, value):
    def change(schema):
        *above, last = attribute.split(".")
        state = schema["content"]["content"]
        for name in above:
            state = state[name]["content"]["content"]
        state[last] = model_files.text(value)

    with pytest.raises(ModelFileError, match="damaged"):
        load(model_files.with_json(content, "schema.json", change))


@pytest.mark.parametrize("damage", ["longer", "shorter", "unnamed", "gone"])
def test_steps_of_a_pipeline_that_are_no_pairs_are_refused(damage):
    def change(schema):
        steps = schema["content"]["content"]["steps"]["content"]
        first = steps[0]["content"]
        if damage == "longer":
            first.append(model_files.text("third"))
        elif damage == "shorter":
            del first[1]
        elif damage == "unnamed":
            first[0] = model_files.text(5)
        else:
            steps.clear()

    whole = to_bytes(make_pipeline(StandardScaler(), UniversumSVC()).fit(X, Y))
    with pytest.raises(ModelFileError, match="damaged"):
        load(model_files.with_json(whole, "schema.json", change))


def test_an_unknown_skops_protocol_is_refused(content):
    newer = model_files.with_json(content, "schema.json", lambda s: {**s, "protocol": 99})
    with pytest.raises(ModelFileError, match="protocol"):
        load(newer)


def test_the_file_can_be_read_without_us(content):
    """`unzip -p model.skops musvm.json` is all it takes to see what it is."""
    header = json.loads(model_files.entries(content)["musvm.json"])
    assert header["format"] == "musvm model"
