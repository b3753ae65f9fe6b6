"""One entry point to all benchmarks.

    python benchmarks                     # lists them
    python benchmarks core scale          # runs these, with their own defaults
    python benchmarks all --quick         # every one on small problems: does it run?

Options after the names go to each script. Results are stored in `benchmarks/results/`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def scripts() -> dict[str, Path]:
    """Every script by name; files that start with an underscore are their parts."""
    return {path.stem: path for path in sorted(FOLDER.glob("[!_]*.py"))}


def question(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def main() -> int:
    known = scripts()
    arguments = sys.argv[1:]
    n_names = next((k for k, a in enumerate(arguments) if a.startswith("-")), len(arguments))
    names, options = arguments[:n_names], arguments[n_names:]
    if not names or unknown(names, known):
        for name in unknown(names, known):
            print(f"there is no benchmark {name!r}", file=sys.stderr)
        for name, path in known.items():
            print(f"{name:<12} {question(path)}")
        return 2 if names else 0
    chosen = list(known) if names == ["all"] else names
    failed = []
    for name in chosen:
        print(f"\n=== {name} ===", flush=True)
        command = [sys.executable, str(known[name]), *options]
        if subprocess.run(command, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def unknown(names: list[str], known: dict[str, Path]) -> list[str]:
    return [] if names == ["all"] else [name for name in names if name not in known]


if __name__ == "__main__":
    sys.exit(main())
