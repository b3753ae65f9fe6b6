"""The command line's contract: plain text in pipes, one line for a mistake, clear about extras."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tomllib
from importlib.metadata import metadata, version
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs typer")
pytest.importorskip("matplotlib", reason="the demo's figure needs matplotlib")

from typer.testing import CliRunner

from musvm.cli import app
from musvm.experiments import demo


def run(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "musvm", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        check=False,
    )


def run_without(package: str, *arguments: str, module: str) -> subprocess.CompletedProcess[str]:
    """Run a module's `main` as if `package` were not installed."""
    code = (
        f"import sys; sys.modules[{package!r}] = None; sys.argv = {['musvm', *arguments]!r}\n"
        f"import runpy; runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_version():
    result = run("--version")
    assert result.stdout == f"musvm {version('musvm')}\n"
    assert result.returncode == 0


def test_the_command_and_the_module_start_the_same_function():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"musvm": "musvm.__main__:main"}


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"]])
def test_every_command_is_listed_with_a_whole_sentence(arguments):
    """Where the terminal is as narrow as a pipe is taken to be."""
    listed = CliRunner().invoke(app, arguments).output.partition("Commands:")[2]
    assert len(listed.splitlines()) > 8
    cut = [line for line in listed.splitlines() if line.endswith("...")]
    assert not cut


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"]])
def test_help_gives_examples_and_is_plain_text_in_a_pipe(arguments):
    result = run(*arguments)
    assert result.returncode == 0
    assert "Examples:\n    musvm demo\n" in result.stdout
    assert result.stdout.isascii(), "boxes and colours do not belong in a pipe"
    assert "\x1b" not in result.stdout


COMMANDS = [command.name or command.callback.__name__ for command in app.registered_commands]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_examples_that_begin_with_it(command):
    result = CliRunner().invoke(app, [command, "--help"])
    assert result.exit_code == 0
    shown = result.stdout.partition("Examples:\n")[2]
    assert f"musvm {command}" in shown
    assert all("musvm " in line for line in shown.splitlines() if line.strip())


def test_options_and_their_values_complete():
    """What a shell asks when the tab key is pressed."""
    environment = {"_MUSVM_COMPLETE": "complete_bash", "COMP_CWORD": "3"}
    for words, expected in (
        ("musvm fit --select ", ["span", "span-2016", "loo-estimate", "loo", "5", "10"]),
        ("musvm fit --kernel ", ["linear", "rbf", "poly", "sigmoid"]),
    ):
        result = subprocess.run(
            [sys.executable, "-m", "musvm"],
            env=os.environ | environment | {"COMP_WORDS": words},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.stdout.split() == expected


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal to send")
def test_an_interrupt_ends_quietly_with_its_own_status():
    code = (
        "import time\nfrom musvm.cli import app\n"
        "@app.command()\ndef wait():\n    print('ready', flush=True); time.sleep(60)\n"
        "app(['wait'], prog_name='musvm')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs ignore the signal, and so would their children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate()
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_without_a_command_it_shows_the_help():
    result = run()
    assert "Commands:" in result.stdout + result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["demo", "--nonsense"], "No such option"),
        (["demo", "--partitions", "1"], "--partitions"),
        (["demo", "--partitions", "many"], "--partitions"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--jobs", "0"], "use -1 for all cores"),
        (["demo", "--figure", "demo.docx"], "no image format ends in 'demo.docx'"),
        (["demo", "--figure", "demo"], "no image format ends in 'demo'"),
        (["demo", "--figure", "missing/demo.png"], "no such folder: missing"),
        (["demo", "--figure", "."], "is a directory"),
    ],
)
def test_a_mistake_is_answered_with_a_message(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_a_real_process_shows_no_traceback(tmp_path):
    absent = run("predict", "absent.skops", "absent.csv", cwd=tmp_path)
    assert absent.returncode == 1
    assert absent.stderr == "Error: absent.skops: cannot be read: No such file or directory\n"
    result = run("demo", "--figure", "missing/demo.png", cwd=tmp_path)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert result.stderr.isascii(), "boxes and colours do not belong in a pipe"


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_command_line_packages_are_named_with_their_extra(package):
    result = run_without(package, "demo", module="musvm")
    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        f"The musvm command needs the package '{package}': pip install 'musvm[cli]'"
    ]


def test_missing_matplotlib_is_named_with_its_extra_before_any_work():
    result = run_without("matplotlib", "demo", module="musvm")
    assert result.returncode == 1
    assert result.stdout == ""
    assert result.stderr.splitlines() == [
        "Error: drawing the figure needs matplotlib: pip install 'musvm[plot]', or pass --no-figure"
    ]


def test_another_missing_module_is_not_blamed_on_the_extra():
    result = run_without("json", "demo", module="musvm")
    assert "musvm[cli]" not in result.stderr
    assert "json" in result.stderr


def test_messages_name_extras_that_exist():
    assert {"cli", "plot"} <= set(metadata("musvm").get_all("Provides-Extra"))


def test_an_unwritable_figure_does_not_cost_the_result(tmp_path, monkeypatch):
    class FullDisk:
        def savefig(self, *args, **kwargs):
            raise OSError(28, "No space left on device")

    outcome = demo.Outcome(0, 0.5, 0.25, 1.0, 1.0, 0.0, 1, 1e-5)
    monkeypatch.setattr(demo, "run_partitions", lambda n, **kwargs: iter([outcome] * n))
    monkeypatch.setattr(demo, "draw_figure", lambda *args: FullDisk())
    result = CliRunner().invoke(app, ["demo", "--figure", str(tmp_path / "demo.png")])
    assert result.exit_code == 1
    assert re.search(r"plain SVM +50\.00", result.stdout)
    assert "p = undefined" in result.stdout
    assert "No space left on device" in result.stderr
