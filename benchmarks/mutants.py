"""`python -m benchmarks.mutants COMMIT`: how many small faults, made at random, the default suite notices.

Changes one operator, condition or number of src or flows at a time, and runs the tests that execute its line, the
fastest first, until one fails. Adds a file to results/mutants. Takes hours; `--resume` continues an interrupted call.
`--only src/firmlake/warehouse` draws from one package and runs only its own tests: minutes, and no file.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results/mutants"
MAX_TEST_SECONDS = 120
"""Tests of one mutant, by the durations of the undisturbed suite. Lines that nearly all tests execute need a limit."""

_COMPARISONS = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
}


class Mutant(NamedTuple):
    """One changed expression: its file, first line, place in the text, and the new text."""

    file: str
    line: int
    start: int
    end: int
    text: str


def find_mutants(file: Path, root: Path) -> Iterator[Mutant]:
    """Yield every mutant of a file, in the order of its text."""
    source = file.read_bytes()
    starts = [0, *(found.end() for found in re.finditer(rb"\n", source))]
    tree = ast.parse(source)
    annotations = {id(part) for node in ast.walk(tree) for part in _annotation_parts(node)}
    for node in ast.walk(tree):
        if id(node) not in annotations and (changed := _change(node)) is not None:
            start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
            yield Mutant(str(file.relative_to(root)), node.lineno, start, end, f"({ast.unparse(changed)})")


def _annotation_parts(node: ast.AST) -> Iterator[ast.AST]:
    for name in ("annotation", "returns"):
        if isinstance(part := getattr(node, name, None), ast.AST):
            yield from ast.walk(part)


def _change(node: ast.AST) -> ast.expr | None:
    """Give the expression that takes the place of this one, if it is of a kind that is changed."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=comparators) if type(operator) in _COMPARISONS:
            return ast.Compare(left, [_COMPARISONS[type(operator)]()], comparators)
        case ast.BoolOp(op=operator, values=values):
            return ast.BoolOp(ast.And() if isinstance(operator, ast.Or) else ast.Or(), values)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _ARITHMETIC:
            return ast.BinOp(left, _ARITHMETIC[type(operator)](), right)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return operand
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return ast.IfExp(test, orelse, body)
        case ast.Constant(value=bool(value)):
            return ast.Constant(not value)
        case ast.Constant(value=int(value)):
            return ast.Constant(value + 1)
    return None


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()  # noqa: S607


class Suite:
    """A checkout of one commit, the tests that execute each of its lines, and how long each test takes."""

    def __init__(self, commit: str, folder: Path, tests: str | None) -> None:
        self.root, self._data, self._part = folder / "tree", folder / "coverage", tests
        if not self.root.exists():
            _git("clone", "-q", str(ROOT), str(self.root))
            _git("-C", str(self.root), "checkout", "-q", commit)
        self._tests = folder / "tests.json"
        self.seconds = self._measure(folder / "seconds.json")
        self._contexts: dict[str, dict[int, list[str]]] = {}

    def pytest(self, *arguments: str, timeout: float | None = None, **environment: str) -> int:
        """Run pytest in the checkout, with this module as a plugin; gives its exit code, 1 if it takes too long."""
        path = os.pathsep.join([str(self.root / "src"), str(Path(__file__).parent)])
        command = [sys.executable, "-m", "pytest", "-q", "-p", "mutants", "-p", "no:randomly", "-p", "no:cacheprovider"]
        try:
            return subprocess.run(
                [*command, *arguments],
                cwd=self.root,
                env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=timeout,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return 1

    def _measure(self, file: Path) -> dict[str, float]:
        if not file.exists():
            settings = file.with_suffix(".ini")
            settings.write_text(f"[run]\nsource = src,flows\ndata_file = {self._data}\n")
            options = ["--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", "--timeout=900"]
            part = ["-n", "1", self._part] if self._part else ["-n", "2"]
            self.pytest(*part, *options, MUTANTS_SECONDS=str(file))
        seconds: dict[str, float] = json.loads(file.read_text())
        return seconds

    def tests_of(self, mutant: Mutant) -> list[str]:
        """List the tests that execute the line, the fastest first; of a line run at import, those of its whole file."""
        from coverage import CoverageData

        if mutant.file not in self._contexts:
            data = CoverageData(str(self._data))
            data.read()
            self._contexts[mutant.file] = data.contexts_by_lineno(str(self.root / mutant.file))
        lines = self._contexts[mutant.file]
        names = {context.rpartition("|")[0] for context in lines.get(mutant.line, ())} - {""}
        if not names and mutant.line in lines:
            names = {context.rpartition("|")[0] for contexts in lines.values() for context in contexts} - {""}
        known = sorted(
            (self.seconds[name], name) for name in {name.partition("@")[0] for name in names} & self.seconds.keys()
        )
        chosen, total = [], 0.0
        for seconds, name in known:
            total += seconds
            if chosen and total > MAX_TEST_SECONDS:
                break
            chosen.append(name)
        return chosen

    def notices(self, mutant: Mutant) -> bool:
        """Change the file, run its tests until one fails, and change it back."""
        tests, file = self.tests_of(mutant), self.root / mutant.file
        if not tests:
            return False
        source = file.read_bytes()
        self._tests.write_text(json.dumps(tests))
        file.write_bytes(source[: mutant.start] + mutant.text.encode() + source[mutant.end :])
        try:
            timeout = 90 + 5 * sum(self.seconds[name] for name in tests)
            files = sorted({name.partition("::")[0] for name in tests})
            return self.pytest("-x", "-n", "0", *files, timeout=timeout, MUTANTS_TESTS=str(self._tests)) not in (0, 5)
        finally:
            file.write_bytes(source)


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """As a plugin of pytest: keep the named tests, in the order in which they are named."""
    if path := os.environ.get("MUTANTS_TESTS"):
        order = {name: place for place, name in enumerate(json.loads(Path(path).read_text()))}
        items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """As a plugin of pytest: write the duration of each test that passed."""
    if (path := os.environ.get("MUTANTS_SECONDS")) and not os.environ.get("PYTEST_XDIST_WORKER"):
        seconds: Counter[str] = Counter()
        for report in terminalreporter.stats.get("passed", []):
            seconds[report.nodeid.partition("@")[0]] += report.duration
        Path(path).write_text(json.dumps(seconds))


def choose_mutants(root: Path, count: int, seed: int, only: str | None = None) -> list[Mutant]:
    """Draw mutants of all packages, or only one, each with the same chance; the same for the same commit and seed."""
    files = sorted([*(root / "src").rglob("*.py"), *(root / "flows").glob("*.py")])
    if only:
        files = [file for file in files if file.is_relative_to(root / only)]
    every = [mutant for file in files for mutant in find_mutants(file, root)]
    return random.Random(seed).sample(every, min(count, len(every)))  # noqa: S311


def main() -> None:
    """Draw the mutants, run their tests, and keep which ones were noticed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("commit", nargs="?", default="HEAD")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=Path, help="keeps the checkout and its coverage; default: a temporary folder")
    parser.add_argument("--only", help="a package or file of src or flows; its tests are the folder of the same name")
    parser.add_argument("--resume", action="store_true", help="go on with the results of an interrupted call")
    options = parser.parse_args()
    folder = options.work or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    name = _git("-C", str(ROOT), "rev-parse", "--short=8", options.commit)
    suite = Suite(options.commit, folder.resolve(), options.only and f"tests/{Path(options.only).stem}")
    file = (folder if options.only else RESULTS) / f"{name}-{options.seed}.json"
    results = json.loads(file.read_text())["mutants"] if options.resume and file.exists() else []
    file.parent.mkdir(parents=True, exist_ok=True)
    for mutant in choose_mutants(suite.root, options.count, options.seed, options.only)[len(results) :]:
        results.append({**mutant._asdict(), "noticed": suite.notices(mutant)})
        noticed = sum(result["noticed"] for result in results)
        sys.stdout.write(
            f"{noticed} of {len(results)} noticed; {mutant.file}:{mutant.line}: {results[-1]['noticed']}\n"
        )
        sys.stdout.flush()
        file.write_text(json.dumps({"noticed": noticed, "count": len(results), "mutants": results}, indent=1) + "\n")
    if options.work is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
