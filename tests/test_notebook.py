"""Notebooks: read cell by cell as one program, told in cells, and repaired without another byte changed."""

from __future__ import annotations

import io
import json
import subprocess
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

import autofix
from autofix.cli import main
from autofix.project import notebook
from autofix.project.cells import NotebookError
from autofix.project.magics import neutral, unread, why_not

SET_UP = """\
%matplotlib inline
!pip list | head -1
import torch
from torch import nn
net = nn.LSTM(4, 8)
head = nn.Linear(8, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()])
h = None"""
LOOP = """\
%%time
for step in range(20):
    x = torch.randn(3, 2, 4)
    out, h = net(x, h)  # «état»
    loss = head(out).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()"""
SET_UP_TO_RUN = SET_UP.replace("%matplotlib inline\n!pip list | head -1", "%env EPOCHS=20\n!echo begun")
"""What a kernel can run that has no matplotlib."""
FIXED = LOOP.replace("# «état»\n", "# «état»\n    h = tuple(state.detach() for state in h)\n")
PLAIN_LOOP, PLAIN_FIXED = LOOP.removeprefix("%%time\n"), FIXED.removeprefix("%%time\n")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(made: Any, path: str) -> None:
    nbformat.write(made, path)  # type: ignore[no-untyped-call]


def written(made: Any) -> str:
    return str(nbformat.writes(made))  # type: ignore[no-untyped-call]


def cells_of(path: str) -> Any:
    return nbformat.read(path, as_version=4).cells  # type: ignore[no-untyped-call]


def book(*cells: str, **metadata: Any) -> Any:
    made = new_notebook(metadata=metadata)  # type: ignore[no-untyped-call]
    for number, source in enumerate(cells):
        output = new_output("stream", text=f"été {number}\n")  # type: ignore[no-untyped-call]
        cell = new_code_cell(source, outputs=[output], metadata={"tags": ["a"]})  # type: ignore[no-untyped-call]
        made.cells.append(cell)
    return made


def trained() -> Any:
    made = book(SET_UP, LOOP)
    made.cells.insert(0, new_markdown_cell("# Training"))  # type: ignore[no-untyped-call]
    return made


def check(capsys: pytest.CaptureFixture[str], *words: str, code: int) -> tuple[str, str]:
    assert main(["check", *words]) == code
    said = capsys.readouterr()
    return said.out, said.err


def test_a_mistake_is_told_in_its_cell(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(trained(), "nb.ipynb")
    out, _ = check(capsys, "nb.ipynb", code=1)
    assert out.startswith("nb.ipynb:cell 3:4:5: AF102 [*] `h` carries")
    assert "nb.ipynb:cell 3:7:5: note: this backward frees the graph" in out
    out, _ = check(capsys, "--output-format", "json", "nb.ipynb", code=1)
    cause = next(role for role in json.loads(out)["findings"][0]["roles"] if role["cause"])
    assert (cause["file"], cause["cell"], cause["start"]) == ("nb.ipynb", 3, {"line": 4, "column": 5})
    out, _ = check(capsys, "--output-format", "full", "nb.ipynb", code=1)
    assert "> 4 |     out, h = net(x, h)  # «état»\n" in out and "  2 | for step in range(20):\n" in out


def test_machines_are_told_the_line_of_the_file(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(trained(), "nb.ipynb")
    lines = Path("nb.ipynb").read_text().split("\n")
    at = next(number for number, line in enumerate(lines, 1) if "out, h = net" in line)
    column = lines[at - 1].index("out, h") + 1
    out, _ = check(capsys, "--output-format", "github", "nb.ipynb", code=1)
    assert f"file=nb.ipynb,line={at},col={column},endLine={at}" in out and "::nb.ipynb:cell 3:4:5: AF102" in out
    out, _ = check(capsys, "--output-format", "sarif", "nb.ipynb", code=1)
    (place,) = json.loads(out)["runs"][0]["results"][0]["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "nb.ipynb"
    assert place["physicalLocation"]["region"]["startLine"] == at
    assert place["logicalLocations"][0]["fullyQualifiedName"] == "nb.ipynb:cell 3:4:5"
    out, _ = check(capsys, "--output-format", "gitlab", "nb.ipynb", code=1)
    assert json.loads(out)[0]["location"]["positions"]["begin"] == {"line": at, "column": column}


STYLES: list[tuple[str, Callable[[Any], str]]] = [
    ("as-jupyter-writes-it", lambda made: written(made) + "\n"),
    ("on-one-line", lambda made: json.dumps(made)),
    ("indented-by-tabs", lambda made: json.dumps(made, indent="\t", ensure_ascii=False)),
    ("windows-line-ends", lambda made: json.dumps(made, indent=2).replace("\n", "\r\n")),
    ("a-string-for-each-source", lambda made: json.dumps(made, indent=4, sort_keys=True)),
    ("escapes-for-no-reason", lambda made: json.dumps(made, indent=1).replace("m", "\\u006d").replace("/", "\\/")),
]


@pytest.mark.parametrize("style", [style for _, style in STYLES], ids=[name for name, _ in STYLES])
def test_a_fix_changes_the_source_of_its_cell_alone(
    style: Callable[[Any], str], here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = trained()
    before = style(made).encode()
    path = here / "nb.ipynb"
    path.write_bytes(before)
    check(capsys, "--fix", "nb.ipynb", code=0)
    after = path.read_bytes()
    old, new = json.loads(before), json.loads(after)
    assert "".join(new["cells"][2]["source"]) == FIXED
    new["cells"][2]["source"] = old["cells"][2]["source"]
    assert old == new and list(old) == list(new)
    # All that is new stands in one place, and nothing was taken away.
    first = next(at for at in range(len(before)) if before[at] != after[at])
    assert after.endswith(before[first:])
    nbformat.validate(new)


@pytest.mark.parametrize("indent", ["    ", "\t", "  "])
def test_a_cell_that_is_indented_as_a_whole_is_read(
    indent: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [textwrap.indent(SET_UP, indent), "", textwrap.indent(PLAIN_LOOP, indent)]
    write(book(*cells), "nb.ipynb")
    out, err = check(capsys, "--fix", "--output-format", "concise", "nb.ipynb", code=0)
    assert err == "" and out.startswith("Fixed 1 mistake; ")
    assert [cell.source for cell in cells_of("nb.ipynb")] == [
        *cells[:2],
        textwrap.indent(PLAIN_FIXED, indent),
    ]


def test_git_takes_the_diff(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write(trained(), "nb.ipynb")
    assert main(["check", "--diff", "nb.ipynb"]) == 1
    diff = capfd.readouterr().out
    assert diff.count("\n+") == 2  # the header's, and one line
    assert '\n+    "    h = tuple(state.detach() for state in h)\\n",\n' in diff
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "apply"], input=diff.encode(), check=True)
    assert cells_of("nb.ipynb")[2].source == FIXED
    assert main(["check", "nb.ipynb"]) == 0


def test_a_review_shows_the_lines_of_the_cell(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(trained(), "nb.ipynb")
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert main(["review", "nb.ipynb"]) == 0
    out = capsys.readouterr().out
    assert "AF102 cell 3, line 4: `h` carries" in out and "\n+    h = tuple(state.detach() for state in h)\n" in out
    assert cells_of("nb.ipynb")[2].source == FIXED


def test_the_python_api_knows_cells(here: Path) -> None:
    write(trained(), "nb.ipynb")
    result = autofix.check("nb.ipynb", isolated=True)
    (finding,) = result.findings
    assert str(finding.place) == "nb.ipynb:cell 3:4:5"
    assert [(edit.place.line, edit.content) for edit in finding.edits] == [(5, FIXED.splitlines(keepends=True)[4])]
    assert "".join(json.loads(result.patched["nb.ipynb"])["cells"][2]["source"]) == FIXED


def test_a_broken_cell_is_named_and_the_rest_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(book(SET_UP, "x = (1,\nprint 'no'", "%%bash\nfor x in *; do echo $x; done", LOOP), "nb.ipynb")
    out, err = check(capsys, "nb.ipynb", code=1)
    assert err.startswith("nb.ipynb:cell 2:1:5: '(' was never closed") and err.count("\n") == 1
    assert out.startswith("nb.ipynb:cell 4:4:5: AF102") and out.endswith("; 1 cell could not be read.\n")
    check(capsys, "--fix", "nb.ipynb", code=1)
    assert cells_of("nb.ipynb")[3].source == FIXED


def test_a_broken_cell_is_named_once_where_the_rest_is_repaired(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(book(SET_UP, "x = (", "y = [0.0]\n!ls\ny.append(w.detach().numpy())", LOOP), "nb.ipynb")
    _, err = check(capsys, "--fix", "-q", "nb.ipynb", code=1)
    assert err.splitlines() == ["nb.ipynb:cell 2:1:5: '(' was never closed"]


EXERCISE = """\
w = torch.zeros(3, requires_grad=True)
for i in range(3):
    loss = (w - 1).pow(2).mean()
    loss.backward()"""


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("pass", 1),
        ("loss = <YOUR CODE>", 0),
        ("print(<YOUR CODE>)", 1),
        ("def train(w):\n    loss = <YOUR CODE>", 1),
        ("def train(w):\n    total = w.sum()\nreturn total", 1),
    ],
    ids=["no-exercise", "assigned", "not-assigned", "of-a-function", "returns"],
)
def test_what_a_broken_cell_assigns_is_not_known(
    cell: str, code: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(book("import torch", EXERCISE, cell, "loss.backward()"), "nb.ipynb")
    main(["check", "nb.ipynb"])
    assert ("AF1" in capsys.readouterr().out) == bool(code)


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("a, b = f(x, y=<Z>", "a, b"),
        ("net.w[i] += ??  # c = 3", "net, i"),
        ("for i, j in <X>:", "i, j"),
        ("with open('a = b') as f: x = <", "x, f"),
        ("if (n := <X>) == 3: pass", "n"),
        ("x: int = <A>; c = d = ?!", "x, c, d"),
        ("train(model, lr=<YOUR LR>)", ""),
        ("from m import <A>", ""),
        ("x <= <3>; y == ?!", ""),
    ],
)
def test_the_names_that_a_line_may_bind_are_found(source: str, names: str) -> None:
    (line,) = unread(source)
    assert set(line.lead.removesuffix(" = get_ipython()").split(", ")) == set(names.split(", "))
    assert line.stands_for == source


def test_a_cell_with_an_old_keyword_is_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    moved = "x = torch.randn(4, 3).cuda(async=True)\n%time y = x"
    write(book(SET_UP, moved, LOOP), "nb.ipynb")
    out, err = check(capsys, "nb.ipynb", code=1)
    assert err == ""
    assert "nb.ipynb:cell 2:1:28: AF701" in out and "nb.ipynb:cell 3:4:5: AF102" in out
    check(capsys, "--fix", "nb.ipynb", code=0)
    cells = cells_of("nb.ipynb")
    assert cells[1].source == moved.replace("async", "non_blocking")
    assert cells[2].source == FIXED


def test_comments_suppress_findings_within_cells(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quiet = LOOP.replace("# «état»", "# autofix: ignore[AF102]")
    write(book("1  # autofix: ignore[AF101]", SET_UP, quiet), "nb.ipynb")
    out, _ = check(capsys, "nb.ipynb", code=1)
    assert out.splitlines()[0].startswith("nb.ipynb:cell 1:1:4: AF001") and "AF102" not in out
    write(trained(), "nb.ipynb")
    check(capsys, "--add-ignores", "nb.ipynb", code=0)
    assert "# «état»  # autofix: ignore[AF102]\n" in cells_of("nb.ipynb")[2].source
    check(capsys, "nb.ipynb", code=0)


def test_notebooks_in_folders_are_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / ".ipynb_checkpoints").mkdir()
    write(trained(), "nb.ipynb")
    write(trained(), ".ipynb_checkpoints/nb-checkpoint.ipynb")
    write(book("x <- 1", kernelspec={"name": "ir", "language": "R", "display_name": "R"}), "r.ipynb")
    out, err = check(capsys, code=1)
    assert err == "r.ipynb: skipped: its kernel runs R, not Python\n"
    assert "Found 1 mistake (1 fixable with --fix); the backward pass was followed.\n" in out
    assert check(capsys, "r.ipynb", code=0)[1] == err


def test_a_notebook_without_code_is_passed_over(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(new_notebook(cells=[new_markdown_cell("Notes, and nothing to run.")]), "notes.ipynb")  # type: ignore[no-untyped-call]
    write(new_notebook(cells=[]), "empty.ipynb")  # type: ignore[no-untyped-call]
    Path("right.py").write_text("import torch\n", encoding="utf-8")
    assert main(["check", "."]) == 0
    assert capsys.readouterr().out == "No mistakes found in 3 files.\n"


def test_changed_lines_of_cells_are_known_to_git(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = trained()
    write(made, "nb.ipynb")
    own = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "one"]):
        subprocess.run([*own, *words], check=True)
    made.cells[0].source = "# Other"
    write(made, "nb.ipynb")
    check(capsys, "--since", "HEAD", "nb.ipynb", code=0)
    made.cells[2].source = LOOP.replace("# «état»", "")
    write(made, "nb.ipynb")
    check(capsys, "--since", "HEAD", "nb.ipynb", code=1)


def test_older_notebooks_are_read(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [{"cell_type": "code", "language": "python", "input": source, "outputs": []} for source in (SET_UP, LOOP)]
    old = {"metadata": {"name": ""}, "nbformat": 3, "nbformat_minor": 0, "worksheets": [{"cells": cells}]}
    Path("nb.ipynb").write_text(json.dumps(old))
    out, _ = check(capsys, "nb.ipynb", code=1)
    assert out.startswith("nb.ipynb:cell 2:4:5: AF102")
    check(capsys, "--fix", "nb.ipynb", code=0)
    assert cells_of("nb.ipynb")[1].source == FIXED


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[1, 2]", "1:1: not a notebook: it has no `nbformat`"),
        ('{"cells": [],\n "nbformat": 4,,}', "2:16: not a notebook: no valid JSON ("),
        (" \n", "2:1: not a notebook: the file is empty"),
        ('{"cells": [], "nbformat": 9}', "1:1: nbformat 9 is unknown"),
        ('{"cells": [], "nbformat": 4} 5', "1:1: not a notebook: text follows the end of the JSON"),
        ("[" * 200_000, "1:1: not a notebook: its values are nested too deeply"),
    ],
    ids=["list", "broken", "empty", "future", "more", "deep"],
)
def test_what_is_no_notebook_is_said(text: str, reason: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("nb.ipynb").write_text(text)
    _, err = check(capsys, "nb.ipynb", code=1)
    assert err.startswith(f"nb.ipynb:{reason}") and err.count("\n") == 1


MAGICS = [
    ("%matplotlib inline\nx = 1", "pass\nx = 1"),
    ("if x:\n    !pip install \\\n        torch\ny = 1", "if x:\n    pass\n\ny = 1"),
    ("%time y = f(x)", "pass; y = f(x)"),
    ("z = %time f(x)", "z =       f(x)"),
    ("files = !ls *.py", "files = None"),
    ("net.forward??\n?net", "pass\npass"),
    ("pip install torch\nx = 1", "pass\nx = 1"),
    ("x = (a\n     % b)\n%ls", "x = (a\n     % b)\npass"),
    ("s = '''\n%ls\n!ls\n'''\n%ls", "s = '''\n%ls\n!ls\n'''\npass"),
    ("x = y \\\n  % 3\n# what?\n%ls", "x = y \\\n  % 3\n# what?\npass"),
    ("%%capture out\ny = 1", "pass\ny = 1"),
    ("cat + dog", "cat + dog"),
]


@pytest.mark.parametrize(("source", "read"), MAGICS, ids=[source for source, _ in MAGICS])
def test_magics_are_put_out_of_the_way(source: str, read: str) -> None:
    lines = neutral(source)
    assert "\n".join(line.text for line in lines) == read
    assert "\n".join(line.stands_for + line.text[len(line.lead) :] for line in lines) == source
    assert why_not(read) is None


def raw_of(sources: Sequence[str]) -> str:
    return written(book(*sources))


@pytest.mark.parametrize(
    "sources",
    [
        ["a = 1", ""],
        ["", "", "a\n\n"],
        ["%ls\r\nx = 1\r\n", "y"],
        ["'\ud83d'"],
        ["# %% [autofix] cell 1\nx"],
        ["(", "!x"],
        ["    a = 1\n    b = 2", "\tx = 1\n\n\t!ls \\\n\t  -l\n"],
    ],
    ids=repr,
)
def test_what_is_read_is_what_is_written(sources: list[str]) -> None:
    raw = json.dumps(book(*sources))
    read = notebook.read(raw)
    assert read.with_text(read.text) == raw
    assert list(read.sources(read.text).values()) == sources


def test_no_patch_moves_a_cell_or_a_magic() -> None:
    read = notebook.read(raw_of(["%ls", "x = 1"]))
    for text in (
        read.text.replace("cell 2\n", "cell 3\n"),
        read.text.replace("pass", "x"),
        "".join(line for line in read.text.splitlines(keepends=True) if "pass" not in line),
    ):
        with pytest.raises(NotebookError, match="a patch would"):
            read.with_text(text)


def test_a_run_tells_and_repairs_cells(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    cells = ["get_ipython().system('true')\ndisplay('begun')\n!true", SET_UP_TO_RUN, LOOP]
    write(book(*cells), "nb.ipynb")
    assert main(["run", "--fix", "--no-static", "nb.ipynb"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("nb.ipynb:cell 3:4:14: AF100 a backward call reaches a graph")
    assert "passed  cell 3, line 7: RuntimeError: Trying to backward" in out
    assert "Proved: the patched script trains.\nWrote nb.ipynb.\n" in out
    found = cells_of("nb.ipynb")
    assert [cell.source for cell in found[:2]] == cells[:2]
    assert "detach" in found[2].source and found[2].source.startswith("%%time\nfor step")


@pytest.mark.parametrize("lacking", ["", "nbclient"])
def test_a_run_repairs_a_cell_that_is_indented_as_a_whole(
    lacking: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autofix.execution.kernels.lacking", lambda _: lacking)
    write(book(SET_UP_TO_RUN if not lacking else SET_UP, textwrap.indent(PLAIN_LOOP, "  ")), "nb.ipynb")
    assert main(["run", "--fix", "nb.ipynb"]) == 0
    told = capsys.readouterr()
    assert "Proved: the patched script trains.\nWrote nb.ipynb.\n" in told.out
    assert cells_of("nb.ipynb")[1].source == textwrap.indent(PLAIN_FIXED, "  ")
    note = "autofix: note: nb.ipynb runs as a script, without magics and shell commands: "
    assert note not in told.err if not lacking else f"{note}{lacking} is not installed (pip install " in told.err


def test_a_notebook_with_a_broken_cell_is_not_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(book("x = (", LOOP), "nb.ipynb")
    assert main(["run", "nb.ipynb"]) == 2
    assert "nb.ipynb:cell 1:1:5: '(' was never closed" in capsys.readouterr().err
