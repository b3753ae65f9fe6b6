"""Tables: what is in the file is what is read, and what cannot be meant is refused with a place."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import string

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import Pipeline

pytest.importorskip("pandas", reason="tables with named columns need pandas")

import pandas

from musvm import UniversumSVC
from musvm.cli.tables import (
    Columns,
    Layout,
    TableError,
    classes_of,
    preparation,
    read,
    require_usable,
    where,
)

LABELLED = Layout(labelled=True)


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file into the working folder, so that messages have short names."""
    monkeypatch.chdir(tmp_path)

    def write(content, name="table.csv"):
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(data)
        return name

    return write


def refusal(name, layout=LABELLED, format=None):
    with pytest.raises(TableError) as error:
        read(name, layout, format)
    return str(error.value)


# ---------------------------------------------------------------------------------------------
# CSV

words = st.text(string.ascii_letters + " éß'\"-,;\n", min_size=1, max_size=8).map(
    lambda word: "w" + word.strip()
)
numbers = st.floats(allow_infinity=False, width=64)
column = st.one_of(
    st.tuples(st.just("number"), st.lists(numbers, min_size=12, max_size=12)),
    st.tuples(st.just("word"), st.lists(st.none() | words, min_size=12, max_size=12)),
)


@given(
    columns=st.lists(column, min_size=1, max_size=4),
    n=st.integers(1, 12),
    delimiter=st.sampled_from(",;\t"),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_a_csv_file_comes_back_as_it_was_written(
    columns, n, delimiter, quoting, end, tmp_path_factory
):
    buffer = io.StringIO()
    writer = csv.writer(buffer, delimiter=delimiter, quoting=quoting, lineterminator=end)
    names = [f"column {k}" for k in range(len(columns))]
    writer.writerow([*names, "label"])
    for row in range(n):
        cells = [values[row] for _, values in columns]
        writer.writerow([*("" if cell is None else cell for cell in cells), f"class {row % 3}"])
    path = tmp_path_factory.mktemp("csv") / "table.csv"
    path.write_bytes(buffer.getvalue().encode())
    table = read(str(path), LABELLED)
    assert table.columns.names == tuple(names)
    assert table.labels.tolist() == [f"class {row % 3}" for row in range(n)]
    for name, (kind, values) in zip(names, columns, strict=True):
        found, wanted = table.X[name].tolist(), values[:n]
        if kind == "number" or all(value is None for value in wanted):
            expected = [math.nan if value is None else value for value in wanted]
            np.testing.assert_array_equal(np.array(found), np.array(expected, dtype=float))
        else:
            assert name in table.columns.categorical
            assert [None if value != value else value for value in found] == wanted


def test_many_rows_are_read_like_few(write):
    """Chunks are an inside matter."""
    lines = [f"{row},{'word' if row % 2 else ''},{row % 3}" for row in range(10_000)]
    table = read(write("\n".join(["a,b,y", *lines])), LABELLED)
    assert len(table) == 10_000
    assert table.X["a"].tolist() == list(range(10_000))
    assert table.X["b"].isna().sum() == 5000
    assert where(table, 9_999) == "line 10001"


def test_a_column_may_start_with_missing_values_for_many_rows(write):
    lines = [f"{'' if row < 5000 else 'late'},{row % 2}" for row in range(6000)]
    table = read(write("\n".join(["a,y", *lines])), LABELLED)
    assert table.columns.categorical == ("a",)
    assert table.X["a"].isna().sum() == 5000


@pytest.mark.parametrize("missing", ["", "NA", "NaN", "?", "null", " ", "None"])
def test_missing_values(write, missing):
    table = read(write(f"a,b,y\n1,u,p\n{missing},{missing},q\n3,v,p\n"), LABELLED)
    assert table.X["a"].isna().tolist() == table.X["b"].isna().tolist() == [False, True, False]
    assert table.columns.categorical == ("b",)


def test_a_class_may_be_called_none(write):
    table = read(write("a,y\n1,None\n2,NA\n"), LABELLED)
    assert table.labels.tolist() == ["None", "NA"]


@pytest.mark.parametrize(
    ("content", "layout", "message"),
    [
        ("", LABELLED, "is empty"),
        ("\n\n", LABELLED, "no header"),
        ("a,b,y\n", LABELLED, "no rows"),
        ("a,y\n1,p\n2,q,r\n", LABELLED, "line 3 has 3 values, but there are 2 columns"),
        ("a,b,y\n1,2,p\n3,4\n", LABELLED, "line 3 has 2 values, but there are 3 columns"),
        ("a,y\n1,p\ntwo,q\n", LABELLED, "column 'a'.*line 2: '1.*line 3: 'two'.*--categorical"),
        ("a,y\none,p\n2,q\n", LABELLED, "column 'a'.*line 3: '2.*line 2: 'one'"),
        ("a,y\n1,p\ninf,q\n", LABELLED, "column 'a': line 3: .*infinite"),
        ("a,y\n1,p\n2,\n", LABELLED, "line 3 has no label in column 'y'.*--universum-label"),
        ("a,a\n1,2\n", LABELLED, "two columns are called 'a'"),
        (",y\n1,p\n", LABELLED, "column 1 has no name.*index=False"),
        ("y\np\n", LABELLED, "no feature columns"),
        ("1,2\n3,4\n", LABELLED, "line 1 has only numbers.*--no-header"),
        ('a,y\n"1,p\n', LABELLED, 'line 2: a " opens a cell and is never closed'),
        ("0.5,0.5,p\n1,2,q\n", LABELLED, "two columns are called '0.5'; if .* --no-header"),
        ("1,2,p\n3,4,q\n5,6,p\n", LABELLED, "line 1 has 2 numbers and 'p', a label of other"),
        ("# from the lab\na,b,y\n1,2,p\n", LABELLED, "line 1 is a comment.*remove it"),
        ("# lab; 2020\na;b;y\n1;2;p\n", LABELLED, "line 1 is a comment.*remove it"),
        ("# lab\na;y\n1;p\n", LABELLED, "line 1 is a comment.*remove it"),
        ("'a','y'\n1,'p'\n2,'q'\n", LABELLED, "line 1: names and words are quoted by '; quote"),
        ('a,y\n980,p\n"1,020",q\n', LABELLED, r"line 3: '1,020' looks like a number.*separators$"),
        ("a,y\n1,p\n", Layout(labelled=True, header=False), "line 1: 'a' stands .*--no-header if"),
        (b"\xff\xfea\x00,\x00", LABELLED, "is UTF-16 text; save it as UTF-8$"),
        ('a,y\n"1"2,p\n', LABELLED, "line 2: .*expected after"),
        (b"a,y\n1,p\n\xff,q\n", LABELLED, "line 3 is not UTF-8"),
        ("a,y\n1,p\n", Layout(labelled=True, target="z"), "no column 'z'; it has 'a', 'y'"),
        ("a,y\n1,p\n", Layout(labelled=True, ignored=("z",)), "no column 'z'"),
        ("a,y\n1,p\n", Layout(labelled=True, ignored=("a", "y")), "all its columns are ignored"),
    ],
)
def test_a_csv_file_is_refused_with_a_place(write, content, layout, message):
    name = write(content)
    with pytest.raises(TableError, match=f"(?s)^table.csv: .*{message}"):
        read(name, layout)


def test_names_that_look_odd_are_names_where_nothing_says_otherwise(write):
    """Wavelengths above a column of labels, and a first name that begins like a comment."""
    table = read(write("900.5,901.5,grade\n1,2,p\n3,4,q\n"), LABELLED)
    assert table.columns.names == ("900.5", "901.5")
    assert "--no-header" in table.notes[-1]
    assert read(write("#a,y\n1,p\n2,q\n"), LABELLED).columns.names == ("#a",)


def test_of_many_columns_the_last_is_named_too(write):
    names = [f"x{k}" for k in range(64)] + ["digit"]
    line = ",".join(["1"] * 64 + ["p"])
    name = write(f"{','.join(names)}\n{line}\n")
    said = refusal(name, Layout(labelled=True, target="kind"))
    assert said.endswith("it has 'x0', 'x1', 'x2', 'x3', 'x4' and 60 more, the last 'digit'")
    said = refusal(name, Layout(columns=Columns(1, ("absent",))))
    assert said.endswith("and 60 more, the last 'digit'")


# ---------------------------------------------------------------------------------------------
# Compressed files


@pytest.mark.parametrize("name", ["table.csv.gz", "table.TSV.GZ", "table.csv"])
def test_a_compressed_table_is_the_table(write, name):
    """What tells is how the file begins, not what it is called."""
    text = "a,b,y\n1,u,p\n2,v,q\n"
    plain, packed = (
        read(write(text), LABELLED),
        read(write(gzip.compress(text.encode()), name), LABELLED),
    )
    assert packed.X.equals(plain.X)
    assert packed.labels.tolist() == plain.labels.tolist()
    assert packed.path == name


def test_other_formats_may_be_compressed_too(write):
    table = read(write(gzip.compress(b"1 1:0.5\n2 2:0.25\n"), "table.libsvm.gz"), LABELLED)
    assert table.X.toarray().tolist() == [[0.5, 0.0], [0.0, 0.25]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"a,y\n1,p\n", mtime=0)[:-9], "is no complete gzip file"),
        (b"\x1f\x8b\x00 no such thing", "is no complete gzip file"),
        (gzip.compress(b"", mtime=0), "is empty"),
        (gzip.compress(b"a,y\n1,p\n\xff,q\n", mtime=0), "line 3 is not UTF-8 text"),
    ],
    ids=["cut off", "no gzip", "empty", "no UTF-8"],
)
def test_a_damaged_compressed_file_is_refused(write, content, message):
    with pytest.raises(TableError, match=f"^table.csv.gz: {message}"):
        read(write(content, "table.csv.gz"), LABELLED)


def test_a_file_that_opens_to_far_more_than_it_is_is_refused(write, monkeypatch):
    monkeypatch.setattr("musvm.cli.tables._read.ALWAYS_OPENED", 1000)
    content = gzip.compress(b"a,y\n" + b"1,p\n" * 200_000)
    with pytest.raises(TableError, match=r"more than 200 times its size; .* gzip -d"):
        read(write(content, "table.csv.gz"), LABELLED)


def test_the_name_of_a_compressed_file_must_tell_its_format(write):
    with pytest.raises(
        TableError, match=r"ends in '\.dat' .*, each also with \.gz\); pass --format"
    ):
        read(write(gzip.compress(b"a,y\n1,p\n"), "table.dat.gz"), LABELLED)


def test_lines_are_counted_as_an_editor_does(write):
    """Blank lines and line breaks inside quotes count."""
    table = read(write('a,b,y\n\n1,"two\nlines",p\n\n2,one,q\n'), LABELLED)
    assert [where(table, row) for row in range(2)] == ["line 3", "line 6"]
    assert "line 6 has 2 values" in refusal(write('a,b,y\n\n1,"two\nlines",p\n\n2,one\n'))


def test_a_mixture_is_accepted_where_the_user_says_what_it_is(write):
    name = write("a,b,y\n1,5,p\nx,6,q\n")
    table = read(name, Layout(labelled=True, categorical=("a", "b")))
    assert table.X["a"].tolist() == ["1", "x"]
    assert table.X["b"].tolist() == ["5", "6"]
    assert read(name, Layout(labelled=True, ignored=("a",))).columns.names == ("b",)


def test_numbers_with_underscores_are_words(write):
    assert read(write("a,y\n1_000,p\n2_000,q\n"), LABELLED).X["a"].tolist() == ["1_000", "2_000"]


def test_without_a_header_columns_are_numbered(write):
    table = read(write("1,2,p\n3,4,q\n"), Layout(labelled=True, header=False))
    assert table.columns.names == ("x1", "x2")
    assert table.labels.tolist() == ["p", "q"]
    assert table.lines[0] == 1


def test_a_byte_order_mark_is_no_part_of_a_name(write):
    assert read(write(b"\xef\xbb\xbfa,y\n1,p\n"), LABELLED).columns.names == ("a",)


# ---------------------------------------------------------------------------------------------
# Columns by name

KNOWN = Columns(3, ("a", "b", "c"), ("c",))


def test_columns_are_found_by_name(write):
    table = read(write("id,a,b,c,y\n7,1,2,3,p\n"), Layout(columns=KNOWN, target="y"))
    assert table.X.columns.tolist() == ["a", "b", "c"]
    assert table.X["c"].tolist() == ["3"], "a category stays text"
    assert table.labels.tolist() == ["p"]
    assert table.notes == ("table.csv: ignored 'id', unknown to the model",)


def test_another_order_is_refused_by_name(write):
    name = write("a,c,b\n1,x,2\n")
    assert "'c' stands where 'b' was" in refusal(name, Layout(columns=KNOWN))
    table = read(name, Layout(columns=KNOWN, reorder=True))
    assert table.X.columns.tolist() == ["a", "b", "c"]
    assert table.X["b"].tolist() == [2.0]


def test_missing_columns_are_named(write):
    assert "lacks the columns 'b', 'c'" in refusal(write("a,d\n1,2\n"), Layout(columns=KNOWN))


def test_a_word_where_the_model_has_numbers_is_refused(write):
    message = refusal(write("a,b,c\n1,2,x\n1,two,x\n"), Layout(columns=KNOWN))
    assert message == "table.csv: column 'b': line 3: 'two' is not a number"


def test_unknown_columns_need_not_make_sense(write):
    table = read(write("a,b,c,junk\n1,2,x,5\n1,2,x,word\n"), Layout(columns=KNOWN))
    assert table.X.columns.tolist() == ["a", "b", "c"]
    assert table.X["c"].tolist() == ["x", "x"]


# ---------------------------------------------------------------------------------------------
# Parquet


def test_parquet_columns_know_their_types(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    frame = pandas.DataFrame(
        {
            "number": [1.5, None, 3.0],
            "whole": pandas.array([1, None, 3], dtype="Int64"),
            "word": ["x", None, "y"],
            "flag": [True, False, True],
            "category": pandas.Categorical(["u", "v", "u"]),
            "y": [1, 2, 1],
        }
    )
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    table = read(str(path), LABELLED)
    assert table.columns.categorical == ("word", "flag", "category")
    np.testing.assert_array_equal(table.X["number"], [1.5, np.nan, 3.0])
    np.testing.assert_array_equal(table.X["whole"], [1.0, np.nan, 3.0])
    assert table.X["flag"].tolist() == ["True", "False", "True"]
    assert table.X["category"].tolist() == ["u", "v", "u"]
    assert table.labels.tolist() == ["1", "2", "1"]


def test_parquet_and_csv_give_the_same_table(tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    frame = pandas.DataFrame({"a": [0.1, None], "zip": [10115, 80331], "y": ["p", "q"]})
    frame.to_parquet(tmp_path / "table.parquet")
    frame.to_csv(tmp_path / "table.csv", index=False)
    layout = Layout(labelled=True, categorical=("zip",))
    one, other = (read(str(tmp_path / f"table.{kind}"), layout) for kind in ("csv", "parquet"))
    pandas.testing.assert_frame_equal(one.X, other.X)
    assert one.columns == other.columns
    assert one.X["zip"].tolist() == ["10115", "80331"]


def test_parquet_refusals(write, tmp_path):
    pytest.importorskip("pyarrow", reason="Parquet needs pyarrow")
    assert "no complete Parquet" in refusal(write(b"PAR1 and no more", "t.parquet"))
    dates = pandas.DataFrame({"when": pandas.to_datetime(["2020-01-01"]), "y": ["p"]})
    dates.to_parquet(tmp_path / "dates.parquet")
    assert "column 'when': holds values of type datetime64" in refusal("dates.parquet")
    infinite = pandas.DataFrame({"a": [1.0, np.inf], "y": ["p", "q"]})
    infinite.to_parquet(tmp_path / "infinite.parquet")
    assert "column 'a': row 2: the number is infinite" in refusal("infinite.parquet")
    text = pandas.DataFrame({"a": ["1", "two"], "b": [1.0, 2.0], "c": ["x", "y"]})
    text.to_parquet(tmp_path / "text.parquet")
    assert "where the model expects numbers" in refusal("text.parquet", Layout(columns=KNOWN))


# ---------------------------------------------------------------------------------------------
# NPZ


def npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_npz_with_and_without_names(write):
    X = np.array([[1, 2], [3, 4]], dtype=np.int32)
    table = read(write(npz(X=X, y=np.array(["p", "q"])), "t.npz"), LABELLED)
    np.testing.assert_array_equal(table.X, X.astype(float))
    assert table.columns == Columns(2)
    assert table.labels.tolist() == ["p", "q"]
    named = npz(X=X, y=np.array([1.0, 2.0]), feature_names=np.array(["a", "b"]))
    table = read(write(named, "t.npz"), LABELLED)
    assert table.columns.names == ("a", "b")
    assert table.labels.tolist() == ["1", "2"]
    assert len(read(write(npz(points=X), "t.npz"), Layout())) == 2, "the only matrix is X"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"y": np.arange(2)}, "no array 'X'"),
        ({"X": np.eye(2)}, "no array 'y'"),
        ({"X": np.eye(2), "y": np.arange(3)}, "one label for each row"),
        ({"X": np.arange(2), "y": np.arange(2)}, "matrix of numbers"),
        ({"X": np.array([["a"]]), "y": np.arange(1)}, "matrix of numbers"),
        ({"X": np.eye(2) * 1j, "y": np.arange(2)}, "matrix of numbers"),
        ({"X": np.array([[1.0], [np.inf]]), "y": np.arange(2)}, r"infinite at \[1, 0\]"),
        ({"X": np.array([[None]]), "y": np.arange(1)}, "'X.npy' is no array we read"),
        ({"X": np.eye(2), "y": np.arange(2), "feature_names": np.array(["a"])}, "one name for"),
    ],
)
def test_npz_refusals(write, arrays, message):
    with pytest.raises(TableError, match=f"^t.npz: .*{message}"):
        read(write(npz(**arrays), "t.npz"), LABELLED)


def test_npz_without_names_does_not_pass_for_named_columns(write):
    name = write(npz(X=np.ones((1, 3))), "t.npz")
    assert "have no names" in refusal(name, Layout(columns=KNOWN))
    assert "X has 3 columns, but the model has 2" in refusal(name, Layout(columns=Columns(2)))


def test_broken_npz(write):
    content = npz(X=np.eye(3), y=np.arange(3))
    assert "no complete NPZ" in refusal(write(content[:-30], "t.npz"))
    assert "no complete NPZ" in refusal(write(b"not a zip", "t.npz"))
    buffer = io.BytesIO()
    np.save(buffer, np.eye(2))
    assert "np.savez" in refusal(write(buffer.getvalue(), "t.npz"))


# ---------------------------------------------------------------------------------------------
# LIBSVM


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 6), st.booleans())
def test_libsvm_text_comes_back_as_it_was_written(seed, n, d, zero_based):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    X[0, -1] = 1.0  # or the number of features cannot be known
    y = rng.integers(-1, 3, size=n)
    first = 0 if zero_based else 1
    lines = [
        " ".join([str(label), *(f"{k + first}:{row[k]!r}" for k in np.flatnonzero(row).tolist())])
        for label, row in zip(y.tolist(), X.tolist(), strict=True)
    ]
    text = "# a comment\n" + "  # another\n".join(lines) + "\n"
    table = _read_bytes(text.encode(), Layout(labelled=True, zero_based=zero_based), "libsvm")
    assert sp.issparse(table.X)
    np.testing.assert_array_equal(table.X.toarray(), X)
    assert table.labels.tolist() == [str(label) for label in y]


def _read_bytes(content, layout, format):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "table")
        path.write_bytes(content)
        return read(str(path), layout, format)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1:2\nx 1:2\n", "line 2: .*float"),
        ("1 1:2\n1 1:y\n", "line 2: .*float"),
        ("1 1:2\n\n# fine\n1 2:1 1:1\n", "line 4: .*sorted"),
        ("1 0:1\n", "line 1: .*--zero-based"),
        ("1 1:1\n1 1:inf\n", "line 2 has a value that is not finite"),
        ("1 99999999999:1\n", "line 1: "),
        ("1 999999999:1\n", "line 1: feature 999999999 is out of range"),
        ("1 -3:1\n", "line 1: "),
        ("1 1\n", "line 1: "),
        ("1 :1\n", "line 1: "),
    ],
)
def test_libsvm_refusals_name_the_line(write, text, message):
    with pytest.raises(TableError, match=f"^t.libsvm: {message}"):
        read(write(text, "t.libsvm"), LABELLED)


def test_libsvm_has_as_many_features_as_the_model(write):
    columns = Columns(5, sparse=True)
    assert read(write("0 2:1\n", "t.svm"), Layout(columns=columns)).X.shape == (1, 5)
    assert "line 1: " in refusal(write("0 6:1\n", "t.svm"), Layout(columns=columns))
    assert "have no names" in refusal(write("0 1:1\n", "t.svm"), Layout(columns=KNOWN))


# ---------------------------------------------------------------------------------------------
# Any format


def test_unknown_extensions_ask_for_the_format(write):
    assert "--format csv|parquet|npz|libsvm" in refusal(write("a,y\n1,p\n", "table.dat"))
    assert len(read(write("a,y\n1,p\n", "table.dat"), LABELLED, "csv")) == 1


def test_absent_files_are_named(write, tmp_path):
    assert refusal("absent.csv") == "absent.csv: cannot be read: No such file or directory"
    (tmp_path / "folder.csv").mkdir()
    assert refusal("folder.csv").startswith("folder.csv: cannot be read: ")


# ---------------------------------------------------------------------------------------------
# Labels and preparation


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1))
def test_whole_numbers_are_integer_classes(labels):
    found = classes_of(np.array([str(label) for label in labels]))
    assert found.dtype == np.int64
    assert found.tolist() == labels


@pytest.mark.parametrize(
    "labels", [["01", "1"], ["1.0", "2"], ["a", "1"], [str(2**70), "1"], ["+1", "-1"]]
)
def test_other_labels_stay_text(labels):
    assert classes_of(np.array(labels)).tolist() == labels


def table_with_categories(write):
    text = "a,colour,b,y\n1,red,10,p\n,blue,20,q\n3,,30,p\n5,red,40,q\n"
    return read(write(text), LABELLED)


def test_preparation_is_median_standardisation_and_one_hot(write):
    table = table_with_categories(write)
    steps = Pipeline(preparation(table.columns))
    made = np.asarray(steps.fit_transform(table.X))
    a, b = np.array([1, 3, 3, 5.0]), np.array([10, 20, 30, 40.0])
    red = np.array([1.0, 0, 1, 1])  # the most frequent, where it is missing
    expected = np.column_stack([(a - a.mean()) / a.std(), (b - b.mean()) / b.std(), 1 - red, red])
    np.testing.assert_allclose(made, expected, atol=1e-15)


def test_new_rows_use_the_statistics_of_training(write):
    table = table_with_categories(write)
    steps = Pipeline(preparation(table.columns)).fit(table.X)
    new = read(write("a,colour,b\n,green,25\n"), Layout(columns=table.columns))
    made = np.asarray(steps.transform(new.X)).ravel()
    np.testing.assert_allclose(made, [0.0, 0.0, 0.0, 0.0], atol=1e-15)


def test_numbers_alone_need_no_column_transformer(write):
    table = read(write("a,b,y\n1,2,p\n2,1,q\n"), LABELLED)
    assert [name for name, _ in preparation(table.columns)] == ["impute", "scale"]
    assert [name for name, _ in preparation(table.columns, scale=False)] == ["impute"]


def test_sparse_features_stay_sparse(write):
    table = read(write("1 1:2 3:-4\n2 2:1\n", "t.svm"), LABELLED)
    made = Pipeline(preparation(table.columns)).fit_transform(table.X)
    assert sp.issparse(made)
    np.testing.assert_array_equal(made.toarray(), [[1, 0, -1], [0, 1, 0]])
    assert preparation(table.columns, scale=False) == []


def test_a_data_frame_of_the_user_is_as_good_as_a_table(write):
    """Whatever type pandas gives to text, the pipeline predicts the same."""
    table = table_with_categories(write)
    pipeline = Pipeline([*preparation(table.columns), ("svm", UniversumSVC())])
    pipeline.fit(table.X, table.labels)
    frame = pandas.read_csv("table.csv")
    np.testing.assert_array_equal(
        pipeline.decision_function(frame), pipeline.decision_function(table.X)
    )


def test_columns_that_cannot_be_features_are_refused(write):
    empty = read(write("a,b,y\n1,,p\n2,,q\n"), LABELLED)
    with pytest.raises(TableError, match="column 'b' has no values; pass --ignore 'b'"):
        require_usable(empty)
    lines = "\n".join(f"{row},name {row},{row % 2}" for row in range(50))
    identified = read(write(f"a,who,y\n{lines}\n"), LABELLED)
    with pytest.raises(TableError, match=r"column 'who' has 50 categories.*--ignore 'who'"):
        require_usable(identified)


# ---------------------------------------------------------------------------------------------
# Columns, as a model file keeps them


STORED = {"n": 2, "names": ["a", "b"], "categorical": ["b"], "sparse": False}


@pytest.mark.parametrize("columns", [Columns(2, ("a", "b"), ("b",)), Columns(3, sparse=True)])
def test_columns_come_back_from_json(columns):
    assert Columns.from_dict(json.loads(json.dumps(columns.as_dict()))) == columns


@pytest.mark.parametrize(
    "change",
    [
        {"names": []},
        {"names": ""},
        {"names": ["a"]},
        {"names": ["a", 1]},
        {"names": ["a", "a"], "categorical": []},
        {"names": None},
        {"n": 2.0},
        {"n": 0, "names": [], "categorical": []},
        {"n": math.inf},
        {"categorical": ["c"]},
        {"categorical": {"b": 1}},
        {"sparse": 0},
    ],
    ids=str,
)
def test_columns_that_no_table_has_are_refused(change):
    with pytest.raises((KeyError, TypeError, ValueError)):
        Columns.from_dict(STORED | change)
    assert Columns.from_dict(STORED).n == 2


# ---------------------------------------------------------------------------------------------
# Tables that look like something else


@pytest.mark.parametrize("cells", [["1,5", "2,25"], ["3 %", "14 %"], ["$3", "$4.50"], ["1.000,5"]])
def test_numbers_in_another_notation_are_no_categories(write, cells):
    lines = [f'"{cell}",{k % 2}' for k, cell in enumerate(cells)]
    message = refusal(write("a,label\n" + "\n".join(lines) + "\n"))
    assert f"line 2: {cells[0]!r} looks like a number" in message
    assert "--categorical 'a'" in message


@pytest.mark.parametrize("cells", [["2020-01-05", "2021-02-03"], ["1.2.3.4", "10.0.0.1"], ["3a"]])
def test_dates_addresses_and_codes_stay_categories(write, cells):
    lines = [f"{cell},{k % 2}" for k, cell in enumerate(cells)]
    table = read(write("a,label\n" + "\n".join(lines) + "\n"), LABELLED)
    assert table.columns.categorical == ("a",)


def test_whole_numbers_are_one_class_with_and_without_a_decimal_point(write):
    table = read(write("a,label\n1,1\n2,1.0\n3,2.\n4,2.5\n"), LABELLED)
    assert table.labels.tolist() == ["1", "1", "2", "2.5"]


def test_an_archive_that_opens_to_far_more_than_it_is_is_refused(write):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, X=np.zeros((40_000, 1000)), y=np.arange(40_000))
    assert "opens to 0.3 GB" in refusal(write(buffer.getvalue(), "bomb.npz"))


def test_features_counted_far_beyond_the_file_are_refused(write):
    assert "out of range" in refusal(write("1 1:1 16000000:1\n2 1:2\n", "bomb.svm"))


def test_columns_are_found_by_name_without_searching_for_each(write):
    """A list searched for every name makes 50,000 columns a matter of minutes."""

    class Names(list):
        def index(self, *args):
            raise AssertionError("searched")

    from musvm.cli.tables import _csv
    from musvm.cli.tables._table import roles_of

    names = Names([f"c{k}" for k in range(20)])
    roles = roles_of(names, LABELLED, "table")
    table = _csv._collect(iter([(2, ["1"] * 20)]), names, roles, "table")
    assert table.columns.n == 19
