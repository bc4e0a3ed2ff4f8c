"""Diffs that others made: output of git and diff is applied in memory; a misfit is reported with its place."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from autofix.execution.runner import Script
from autofix.foreign import DiffError, patched
from autofix.project.files import FileError

TRAIN = "import model\n\nnet = model.net()\nstore = []\nfor step in range(9):\n    h = net(step)\n    store.append(h)\n"
MODEL = "def net():\n    return lambda x: x\n"
FIXED = TRAIN.replace("append(h)", "append(h.detach())")
HUNK = """\
@@ -4,4 +4,4 @@
 store = []
 for step in range(9):
     h = net(step)
-    store.append(h)
+    store.append(h.detach())
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    folder = tmp_path / "project" / "src"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text(TRAIN)
    (folder / "model.py").write_text(MODEL)
    monkeypatch.chdir(tmp_path / "project")
    return Script(folder / "train.py", args=("--epochs", "3"))


def git(folder: Path, *arguments: str) -> bytes:
    identity = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    command = ["git", *identity, *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True).stdout


HEADERS = {
    "git, from the working directory": "--- a/src/train.py\n+++ b/src/train.py\n",
    "no prefixes": "--- src/train.py\n+++ src/train.py\n",
    "from the script's folder": "--- a/train.py\t2024-01-01 10:00:00\n+++ b/train.py\t2024-01-01 10:00:01\n",
    "from a folder above": "--- a/project/src/train.py\n+++ b/project/src/train.py\n",
    "two names, as diff -u has them": "--- train.py.orig\n+++ src/train.py\n",
    "the other way round": "--- train.py\n+++ by_hand.py\n",
    "quoted": '--- "a/src/train.py"\n+++ "b/src/train.py"\n',
    "a mail's talk before": "Subject: detach\n---\n src/train.py | 2 +-\n\n--- a/src/train.py\n+++ b/src/train.py\n",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_the_file_is_found_however_the_diff_names_it(header: str, script: Script) -> None:
    done = patched(script, (header + HUNK).encode(), "fix.diff")
    assert (done.path, done.args, done.text, done.others) == (script.path, script.args, FIXED, ())
    assert script.path.read_text() == TRAIN


def test_an_absolute_path_is_taken(script: Script) -> None:
    header = f"--- {script.path}\n+++ {script.path}\n"
    assert patched(script, (header + HUNK).encode(), "fix.diff").text == FIXED


def test_a_diff_of_git_over_several_files_and_a_new_one(script: Script) -> None:
    root, folder = script.folder.parent, script.folder
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "one")
    (folder / "train.py").write_text(FIXED)
    (folder / "model.py").write_text("from deeper.café import f\n\n\n" + MODEL)
    (folder / "deeper").mkdir()
    (folder / "deeper" / "café.py").write_text("f = 1")
    (folder / "deeper" / "empty.py").touch()
    (folder / "model.py").chmod(0o755)
    git(root, "add", ".")
    for diff in (git(root, "diff", "--cached"), git(root, "diff", "--cached", "--no-prefix")):
        git(root, "stash", "-q")
        done = patched(script, diff, "fix.diff")
        git(root, "stash", "pop", "-q", "--index")
        assert done.text == FIXED
        assert dict(done.others) == {
            "model.py": "from deeper.café import f\n\n\n" + MODEL,
            "deeper/café.py": "f = 1",
            "deeper/empty.py": "",
        }
    git(root, "commit", "-qm", "two")
    mail = git(root, "format-patch", "-1", "--stdout")
    git(root, "checkout", "-q", "HEAD~1")
    assert patched(script, mail, "0001.patch").text == FIXED


def test_lines_that_have_moved_are_found(script: Script) -> None:
    script.path.write_text("# one\n# two\n\n" + TRAIN)
    done = patched(script, ("--- a/src/train.py\n+++ b/src/train.py\n" + HUNK).encode(), "fix.diff")
    assert done.text == "# one\n# two\n\n" + FIXED


def test_bytes_stay_as_they_are(script: Script) -> None:
    before = "# coding: latin-1\r\n# gr\xfcn\r\nx = 1\r\ny = 2".encode("latin-1")
    script.path.write_bytes(before)
    hunk = b"@@ -2,3 +2,3 @@\n # gr\xfcn\r\n-x = 1\r\n+x = 3\r\n y = 2\n\\ No newline at end of file\n"
    done = patched(script, b"--- a/train.py\n+++ b/train.py\n" + hunk, "fix.diff")
    assert done.text == "# coding: latin-1\r\n# grün\r\nx = 3\r\ny = 2"


HEAD = HEADERS["git, from the working directory"]
REFUSED = {
    "another text": (
        HEAD + HUNK.replace("h = net(step)", "h = net(2)"),
        "src/train.py:6:1: fix.diff does not fit: it expects `h = net(2)` here, and the file has `h = net(step)`",
    ),
    "other white space": (
        HEAD + HUNK.replace("     h =", " \th ="),
        "src/train.py:6:1: fix.diff does not fit: it expects `h = net(step)` here, and the file has `h = net(step)`; "
        "they differ in white space",
    ),
    "a file that is too short": (
        HEAD + "@@ -7,2 +7,1 @@\n     store.append(h)\n-print(h)\n",
        "src/train.py:7:1: fix.diff does not fit: the file ends before `print(h)`, which it expects",
    ),
    "twice the same": (
        HEAD + HUNK + HUNK,
        "src/train.py:4:1: fix.diff does not fit: it overlaps another of its hunks",
    ),
    "no diff": ("store.append(h.detach())\n", "fix.diff:1:1: changes nothing"),
    "nothing": ("", "fix.diff:1:1: changes nothing"),
    "a hunk that is cut off": (HEAD + HUNK[:-30], "fix.diff:7:1: no unified diff: hunk is shorter than expected"),
    "no header": (HUNK, "fix.diff:1:1: no unified diff: unexpected hunk found: @@ -4,4 +4,4 @@"),
    "no such file": (
        "--- a/lost.py\n+++ b/lost.py\n" + HUNK, "fix.diff:2:1: there is no file lost.py below src",
    ),
    "a file elsewhere": (
        "--- a/setup.py\n+++ b/setup.py\n" + HUNK,
        "fix.diff:2:1: setup.py lies outside of src, the project of which a copy is run; see --root",
    ),
    "a file that goes": (
        "--- a/src/model.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-def net():\n-    return lambda x: x\n",
        "fix.diff:2:1: src/model.py is deleted, which cannot be tried in a copy",
    ),
    "a new name": (
        "diff --git a/src/model.py b/src/net.py\nrename from src/model.py\nrename to src/net.py\n",
        "fix.diff:1:1: src/net.py is renamed, which cannot be tried in a copy",
    ),
    "bytes": (
        "diff --git a/src/a.bin b/src/a.bin\nindex 1..2 100644\nBinary files a/src/a.bin and b/src/a.bin differ\n",
        "fix.diff:1:1: src/a.bin is binary, which cannot be tried in a copy",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("diff", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_one_line_with_its_place(diff: str, reason: str, script: Script) -> None:
    Path("setup.py").write_text(TRAIN)
    with pytest.raises(DiffError) as refused:
        patched(script, diff.encode(), "fix.diff")
    assert str(refused.value) == reason


def test_a_patched_file_that_is_no_text_is_one_line(script: Script) -> None:
    diff = (HEAD + HUNK).encode().replace(b"h.detach()", b"h.detach('\xff')")
    with pytest.raises(FileError, match="byte 0xff is not utf-8"):
        patched(script, diff, "fix.diff")
