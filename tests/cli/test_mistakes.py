"""Mistakes at the shell, each answered by one sentence about what was wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("pandas", reason="tables need pandas")

import pandas
from typer.testing import CliRunner

import cli_tables
import musvm
from musvm import UniversumSVC, _messages
from musvm._progress import LOG_EVERY_S, FitProgress
from musvm.cli import app
from musvm.cli._options import METHODS
from musvm.cli._terminal import counted, in_the_shell
from musvm.loo.methods import METHODS as KNOWN_METHODS
from musvm.solvers.shortfall import shortfall

LONG = "a" * 300 + ".csv"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cli_tables.write_tables(tmp_path)
    (tmp_path / "model.skops").write_text("here already")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fit", "."], ".: is a folder, not a table"),
        (["fit", "nofile.csv"], "nofile.csv: cannot be read: No such file or directory"),
        (["fit", LONG], "cannot be read: File name too long"),
        (["fit", "train.csv", "--universum", "gone.csv"], "gone.csv: cannot be read: No such"),
        (["fit", "train.csv", "--out", LONG], "cannot be written: File name too long"),
        (
            ["fit", "train.csv", "--universum", "./train.csv", "--out", "new.skops"],
            "is the table of the classes, and a universum belongs to none of them",
        ),
        (["fit", LONG], "a…: cannot be read"),
        (["fit", "train.csv", "others.csv"], "none of them as --universum others.csv"),
        (["example-tables", "nowhere"], "no such folder: nowhere"),
        (["example-tables", "train.csv"], "train.csv is a file, not a folder"),
        (["fit", "train.csv", "--gamma", "0"], "'0' cannot be used: give numbers above 0"),
        (["fit", "train.csv", "--gamma", "-1"], "above 0, separated by commas, or scale or auto"),
        (["fit", "train.csv", "--gamma", "scal"], "or scale or auto; did you mean scale?"),
        (["fit", "train.csv", "--C", "0"], "--C: '0' cannot be used: give numbers above 0"),
        (["fit", "train.csv", "--C", "1,auto"], "auto is given alone, or numbers without it"),
        (["fit", "train.csv", "--delta", "-1"], "'-1' cannot be used: give numbers 0 or above"),
        (["fit", "train.csv", "--kernel", "rfb"], "linear, rbf, poly, sigmoid; did you mean rbf?"),
        (["fit", "train.csv", "--loss", "mx"], "'mx' is none of sum, max; did you mean max?"),
        (["fit", "train.csv", "--select", "lo"], "folds of 2 or more; did you mean loo?"),
        (["loo", "m", "train.csv", "--method", "spam"], "loo-estimate, loo; did you mean span?"),
        (
            ["inspect", "model.skops", "--universum", "others.csv"],
            "--universum: has no effect without --verify TRAIN",
        ),
        (
            ["predict", "model.skops", "new.csv", "--reject-label", "x"],
            "--reject-label: has no effect without --reject",
        ),
        (
            ["fit", "train.csv", "--target", "Species", "--out", "new.skops"],
            "there is no column 'Species'; did you mean 'species'?",
        ),
        (
            ["fit", "train.csv", "--target", "price", "--out", "new.skops"],
            "there is no column 'price'; it has 'sepal length', 'sepal width'",
        ),
        (["predict", "gone.skops", "new.csv"], "gone.skops: cannot be read: No such file"),
        (["predict", ".", "new.csv"], ".: is a folder, not a model file"),
        (["inspect", "gone.skops"], "gone.skops: cannot be read: No such file"),
        (["loo", "model.skops", "gone.csv"], "gone.csv: cannot be read: No such file"),
        (["diagnose", "train.csv", "gone.csv"], "gone.csv: cannot be read: No such file"),
    ],
)
def test_says_what_is_wrong(folder, arguments, said):
    result = CliRunner().invoke(app, arguments, env={"COLUMNS": "2000"})
    assert result.exit_code in (1, 2)
    assert isinstance(result.exception, SystemExit), result.exception
    assert said in " ".join(result.output.split())
    assert not (folder / "new.skops").exists()


def test_example_tables_are_not_replaced_without_being_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["example-tables"]).exit_code == 0
    first = (tmp_path / "digits.csv").read_bytes()
    (tmp_path / "digits.csv").write_text("mine")
    assert CliRunner().invoke(app, ["example-tables"]).exit_code == 2
    assert (tmp_path / "digits.csv").read_text() == "mine"
    assert CliRunner().invoke(app, ["example-tables", "--force"]).exit_code == 0
    assert (tmp_path / "digits.csv").read_bytes() == first


def test_progress_without_a_digit_of_the_gap_has_no_time_left(monkeypatch, capsys):
    times = iter([0.0, LOG_EVERY_S, 3 * LOG_EVERY_S])
    monkeypatch.setattr("musvm._progress.time.monotonic", lambda: next(times))
    with FitProgress(1e-4, verbose=1) as progress:
        progress.update(63, 2.0)
        progress.update(64, 1e-2)
    first, second = capsys.readouterr().err.splitlines()
    assert first.strip() == "Fit: round 63, gap 2.0e+00:   0%"
    assert second.strip() == "Fit: round 64, gap 1.0e-02:  50%, 30 s left"


# ---------------------------------------------------------------------------------------------
# A universum that was not used


@pytest.fixture
def unused(folder):
    """A model that was offered a universum and does not use it."""
    arguments = ["fit", "train.csv", "--universum", "others.csv", "--C", "1", "--weight", "0"]
    made = CliRunner().invoke(app, [*arguments, "--force"])
    assert made.exit_code == 0, made.output
    return made.output


@pytest.mark.parametrize(
    "arguments",
    [["loo", "model.skops", "train.csv"], ["inspect", "model.skops", "--verify", "train.csv"]],
)
@pytest.mark.parametrize("universum", [[], ["--universum", "others.csv"]])
def test_a_universum_that_was_not_used_is_not_asked_for(unused, arguments, universum):
    result = CliRunner().invoke(app, [*arguments, *universum])
    assert result.exit_code == 0, result.output


def test_one_setting_is_a_setting(unused):
    assert "error, 1 setting\n" in unused
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]


def test_a_table_that_is_not_the_one_of_the_fit_is_told_apart(unused, folder):
    lines = (folder / "train.csv").read_text().splitlines()
    (folder / "fewer.csv").write_text("\n".join(lines[:-1]) + "\n")
    result = CliRunner().invoke(app, ["inspect", "model.skops", "--verify", "fewer.csv"])
    assert result.exit_code == 1
    expected = f"fewer.csv: the table of the fit had {len(lines) - 1} rows, this one has 74"
    assert expected in result.output


@pytest.fixture
def remembering(folder):
    """A model of which every row, those of the universum too, is a support vector."""
    frame = cli_tables.flowers().drop(columns="colour").dropna()
    others = cli_tables.universum().drop(columns="colour")
    frame.to_csv("rows.csv", index=False)
    others[:20].to_csv("first.csv", index=False)
    others[20:].to_csv("second.csv", index=False)
    model = UniversumSVC(C=0.01).fit(frame.iloc[:, :4], frame["species"], universum=others)
    assert len(model.universum_support_) == len(others)
    musvm.save(model, "all.skops", summary={"target": "species"})
    return folder


@pytest.mark.parametrize(
    ("name", "line", "old", "new", "said"),
    [
        ("rows.csv", 4, ",setosa", ",virginica", "rows.csv: line 4 has another label than in the"),
        ("rows.csv", 5, ".", "9.", "rows.csv: line 5 has other values than in the fit"),
        ("first.csv", 2, ".", "9.", "first.csv: line 2 has other values than in the fit"),
        ("second.csv", 3, ".", "9.", "second.csv: line 3 has other values than in the fit"),
        ("first.csv", 2, ".", None, "first.csv: the universum of the fit had 30 rows, this one h"),
    ],
)
@pytest.mark.parametrize("command", [["inspect", "all.skops", "--verify"], ["loo", "all.skops"]])
def test_which_file_and_line_differ_from_the_fit(remembering, command, name, line, old, new, said):
    call = [*command, "rows.csv", "--universum", "first.csv", "--universum", "second.csv"]
    assert CliRunner().invoke(app, call).exit_code == 0
    lines = Path(name).read_text().splitlines()
    changed = [] if new is None else [lines[line - 1].replace(old, new, 1)]
    Path(name).write_text("\n".join([*lines[: line - 1], *changed, *lines[line:]]) + "\n")
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 1
    assert said in result.output


def test_a_column_of_nearly_the_right_name(unused, folder):
    text = (folder / "new.csv").read_text()
    (folder / "named.csv").write_text(text.replace("petal width", "Petal Width", 1))
    result = CliRunner().invoke(app, ["predict", "model.skops", "named.csv"])
    assert result.exit_code == 1
    assert "lacks the column 'petal width'" in result.output
    assert "this file has 'Petal Width': did you mean that? Rename it" in result.output


def test_a_flipped_byte_is_damage_and_a_table_is_no_model(unused, folder):
    content = bytearray((folder / "model.skops").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "flipped.skops").write_bytes(content)
    result = CliRunner().invoke(app, ["inspect", "flipped.skops"])
    assert result.exit_code == 1
    assert "the file is damaged; copy or fit it again" in result.output
    result = CliRunner().invoke(app, ["inspect", "train.csv"])
    assert "it is no model file" in result.output


QUICK = ["--C", "1", "--select", "2", "--force"]


def test_a_line_of_data_that_is_taken_for_names_is_refused_or_noted(folder):
    lines = (folder / "train.csv").read_text().splitlines()
    (folder / "headless.csv").write_text("\n".join(lines[1:]) + "\n")
    result = CliRunner().invoke(app, ["fit", "headless.csv", *QUICK])
    assert result.exit_code == 1
    assert "line 1 has 4 numbers and 'setosa', a label of other lines too" in result.output
    # A label that no other line has may be the name of the column.
    odd = lines[1].replace("setosa", "species")
    (folder / "odd.csv").write_text("\n".join([odd, *lines[2:]]) + "\n")
    result = CliRunner().invoke(app, ["fit", "odd.csv", *QUICK])
    assert result.exit_code == 0, result.output
    assert "odd.csv: columns are called '5.1', '3.5', '1.4' and 1 more; if that" in result.output
    for arguments in (["headless.csv", "--no-header"], ["train.csv"]):
        assert "--no-header" not in CliRunner().invoke(app, ["fit", *arguments, *QUICK]).output


def test_missing_cells_are_counted(folder):
    frame = pandas.read_csv("train.csv")
    frame.loc[:29, "petal width"] = np.nan
    frame.to_csv("gaps.csv", index=False)
    result = CliRunner().invoke(app, ["fit", "gaps.csv", *QUICK])
    n = int(frame.drop(columns="species").isna().to_numpy().sum())
    note = (
        f"Note: gaps.csv: {n} cells of 375 are missing, 30 of 75 in column 'petal width'; they "
        "count as the median of their column in training, categories as the most frequent one"
    )
    assert note in result.stderr.splitlines()
    frame.fillna({"colour": "red"}).fillna(1.0).to_csv("full.csv", index=False)
    result = CliRunner().invoke(app, ["predict", "model.skops", "full.csv"])
    assert "missing" not in result.stderr
    result = CliRunner().invoke(app, ["predict", "model.skops", "gaps.csv"])
    assert note in result.stderr.splitlines()


@pytest.mark.parametrize("nested", [False, True])
def test_the_note_on_an_optimistic_error_names_what_is_not(folder, nested):
    options = ["--C", "1,10", "--select", "2", "--force", *(["--nested", "2"] if nested else [])]
    result = CliRunner().invoke(app, ["fit", "train.csv", *options])
    assert result.exit_code == 0, result.output
    (told,) = [line for line in result.stderr.splitlines() if "optimistic" in line]
    expected = "that of the line nested is not." if nested else "that of --nested FOLDS is not."
    assert told.endswith(f"so it is optimistic; {expected}")


def test_labels_of_another_kind_are_noted(folder):
    assert CliRunner().invoke(app, ["fit", "train.csv", *QUICK]).exit_code == 0
    frame = pandas.read_csv("new.csv")
    frame["species"] = frame["species"].astype("category").cat.codes
    frame.to_csv("numbers.csv", index=False)
    result = CliRunner().invoke(app, ["predict", "model.skops", "numbers.csv"])
    assert (
        "Note: numbers.csv: none of its labels, such as '0', is a class of the model, such as "
        "'setosa': no share of correct predictions is told"
    ) in result.stderr.splitlines()


@pytest.mark.parametrize(
    ("share", "words"),
    [
        ("95", "95 cannot be used: give a share between 0.01 and 1; did you mean 0.95?"),
        ("0", "0 cannot be used: give a share between 0.01 and 1"),
        ("-1", "-1 cannot be used: give a share between 0.01 and 1"),
    ],
)
def test_a_share_in_per_cent_is_answered_with_the_share(folder, share, words):
    result = CliRunner().invoke(app, ["fit", "train.csv", "--accept", share])
    assert result.exit_code == 2
    assert result.stderr.rstrip().endswith(words)


def test_a_universum_of_labelled_rows_of_the_classes_is_noted(folder):
    result = CliRunner().invoke(app, ["fit", "train.csv", "--universum", "new.csv", *QUICK])
    assert result.exit_code == 0, result.output
    said = (
        "new.csv: 75 rows of 75 carry the label of a class, such as 'setosa'; a universum belongs"
    )
    assert said in result.output
    result = CliRunner().invoke(app, ["fit", "train.csv", "--universum", "others.csv", *QUICK])
    assert "carry the label" not in result.output


def test_diagnose_takes_universa_as_fit_does(folder):
    by_name = CliRunner().invoke(app, ["diagnose", "train.csv", "others.csv", "--select", "2"])
    by_option = CliRunner().invoke(
        app, ["diagnose", "train.csv", "--universum", "others.csv", "--select", "2"]
    )
    assert by_option.exit_code == 0, by_option.output
    assert by_option.output == by_name.output


def test_options_without_effect_on_a_fit_are_noted(folder):
    options = ["--kernel", "linear", "--gamma", "2", "--degree", "2", "--delta", "0.1"]
    result = CliRunner().invoke(app, ["fit", "train.csv", *options, "--C", "1", "--force"])
    assert result.exit_code == 0, result.output
    assert "Note: --gamma and --degree have no effect with the kernel linear\n" in result.output
    assert "Note: --delta has no effect without a universum\n" in result.output


def test_example_tables_where_a_folder_has_the_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits.csv").mkdir()
    result = CliRunner().invoke(app, ["example-tables"], env={"COLUMNS": "2000"})
    assert result.exit_code == 2
    assert "is a folder, where a file is to be written; give another folder" in result.output


# ---------------------------------------------------------------------------------------------
# Words of the shell


@pytest.mark.parametrize(
    ("said", "here"),
    [
        (
            "and pass the file as archive=..., or put it at x",
            "and pass the file as --data FILE, or",
        ),
        ("use folds, such as criterion=5, or raise cache_size.", "use folds, such as --select 5."),
        ("criterion='loo' needs", "--select loo needs"),
        ("3 of 9 universum rows are rows of X: a", "universum rows are rows of the training table"),
    ],
)
def test_advice_names_options(said, here):
    assert here in in_the_shell(said)


def test_advice_that_is_translated_is_given_by_the_library():
    """The sentences that the shell changes, in the library's own sources."""
    package = Path(_messages.__file__).parent
    # The shell quotes them all.
    files = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] != "cli"]
    sources = [path.read_text(encoding="utf-8") for path in files]
    # Sentences go over several lines, each a string of its own.
    text = re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))
    for sentence in (
        "pass the file as archive=...",
        "raise max_iter, scale the features, or loosen tol",
        ", or raise cache_size",
        "do not fit into cache_size=",
        "universum rows are rows of X",
        "its {name} had",
        "its classes are",
    ):
        assert sentence in text, sentence


@pytest.mark.parametrize(
    ("relative", "hidden", "rounds"), [(1e-2, 1e-9, 9), (1e-2, 1e-9, 2), (1e-2, 1e-2, 2)]
)
def test_a_fit_that_falls_short_is_answered_with_options(relative, hidden, rounds):
    """Its rounds are over, its path is at an end, or rounding hides the gap."""
    solution = SimpleNamespace(
        relative_gap=relative, hidden_gap=hidden, n_rounds=rounds, gap=relative, primal=1.0
    )
    said = shortfall(solution, tol=1e-4, max_iter=9, largest=1e9)
    assert in_the_shell(said).endswith(": leave out --no-scale, or smaller --C.")


def test_the_methods_of_the_shell_are_those_of_the_library():
    assert tuple(KNOWN_METHODS) == METHODS


def test_all_commands_have_one_default_of_jobs():
    from typer.main import get_command

    def commands(group):
        for command in group.commands.values():
            yield from commands(command) if hasattr(command, "commands") else [command]

    found = {
        parameter.default
        for command in commands(get_command(app))
        for parameter in command.params
        if parameter.name == "jobs"
    }
    assert found == {1}


def test_what_needs_no_data_starts_without_the_libraries():
    code = (
        "import sys; from musvm.__main__ import main; sys.argv = ['musvm', *{!r}]\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({{'sklearn', 'scipy', 'pandas', 'matplotlib'}} & sys.modules.keys()))"
    )
    for arguments in (["--help"], ["fit", "nofile.csv"], ["predict", "no.skops", "no.csv"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(arguments)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.splitlines()[-1] == "[]", arguments


@pytest.mark.parametrize("name", ["nan", "inf", "None", "NA"])
def test_a_class_may_have_any_name(folder, name):
    """Words that stand for no number elsewhere are labels where labels are read."""
    text = (folder / "train.csv").read_text()
    label = cli_tables.flowers()["species"].iloc[0]
    (folder / "odd.csv").write_text(text.replace(label, name))
    arguments = ["fit", "odd.csv", "--out", "odd.skops", "--select", "2", "--C", "1"]
    result = CliRunner().invoke(app, [*arguments, "--kernel", "linear"])
    assert result.exit_code == 0, result.output
    predicted = CliRunner().invoke(app, ["predict", "odd.skops", "odd.csv"])
    assert predicted.exit_code == 0, predicted.output
    assert name in predicted.stdout.split()


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "train.csv", "--out", "train.csv"],
        ["fit", "train.csv", "--universum", "others.csv", "--out", "./others.csv"],
        ["fit", "train.csv", "--out", "one.skops", "--report", "one.skops"],
    ],
)
def test_no_file_of_a_command_replaces_another(arguments, tmp_path, monkeypatch):
    """Not even with --force: it would cost the table, or the model."""
    cli_tables.write_tables(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    result = CliRunner().invoke(app, [*arguments, "--force"])
    assert result.exit_code == 2
    assert "another file of this command" in " ".join(result.stderr.split())
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
