"""Start the command line, or say in one line which packages it needs.

`musvm` and `python -m musvm` both come here. The commands are in `musvm.cli`, which needs the
optional packages Typer and Rich.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line with the arguments of this process."""
    try:
        from musvm.cli import app
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in {"typer", "click", "rich"}:
            raise
        raise SystemExit(
            f"The musvm command needs the package {package!r}: pip install 'musvm[cli]'"
        ) from None
    app(prog_name="musvm")


if __name__ == "__main__":
    main()
