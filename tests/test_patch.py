from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

import pytest
from unidiff.patch import Hunk

from autofix import patch as patches
from autofix.patch import Change, PatchError, apply, changed_lines, hunks_of, patch

BODY = b"".join(b"line %d\n" % number for number in range(40))

CONTENTS = {
    "one line in the middle": (BODY, BODY.replace(b"line 20\n", b"line twenty\n")),
    "first and last line": (BODY, BODY.replace(b"line 0\n", b"zero\n").replace(b"line 39\n", b"end\n")),
    "lines inserted": (BODY, BODY.replace(b"line 9\n", b"line 9\nand\nmore\n")),
    "inserted before the first": (BODY, b"new\n" + BODY),
    "lines removed": (BODY, BODY.replace(b"line 9\nline 10\n", b"")),
    "everything removed": (b"x\n", b""),
    "carriage returns": (BODY.replace(b"\n", b"\r\n"), BODY.replace(b"line 20\n", b"new\n").replace(b"\n", b"\r\n")),
    "mixed line endings": (b"a\r\nb\nc\r\nd\n", b"a\r\nB\nC\r\nd\n"),
    "old Macintosh": (b"a\rb\rc\r", b"a\rB\rc\r"),
    "no newline at the end, last line changes": (b"a\nb\nc", b"a\nb\nC"),
    "no newline at the end, another line changes": (b"a\nb\nc", b"A\nb\nc"),
    "newline at the end comes": (b"a\nb", b"a\nb\n"),
    "newline at the end goes": (b"a\nb\n", b"a\nb"),
    "carriage return without newline at the end": (b"a\r\nb\r", b"A\r\nb\r"),
    "no newline and far apart": (BODY + b"end", BODY.replace(b"line 3\n", b"3\n") + b"end"),
    "latin-1": ("# ä\nx = 'ö'\n".encode("latin-1"), "# ä\nx = 'ü'\n".encode("latin-1")),
    "byte order mark": (b"\xef\xbb\xbfx = 1\n", b"\xef\xbb\xbfx = 2\n"),
    "form feed and separators": (
        "a\n\fx = '\u2028\x85\x1c'\nc\n".encode(),
        "a\n\fx = '\u2028\x85\x1c!'\nc\n".encode(),
    ),
    "lines that look like a patch": (b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", b"--- a/x\n+++ b/y\n@@ -1 +1 @@\n"),
    "blank lines and blanks": (b"\n\n \n\t\nx\n\n", b"\n\n \n\t\ny\n\n"),
}
NAMES = {
    "plain": "a.py",
    "folders": "src/deep/a.py",
    "a space": "my scripts/train it.py",
    "not ASCII": "modèle/тест.py",
    "a quote and a backslash": 'a"b\\c.py',
    "a tab and a newline": "a\tb\nc.py",
    "looks like a prefix": "a/b/a.py",
    "begins with a dash": "-x.py",
}


def apply_with(tool: str, folder: Path, text: bytes) -> None:
    """Apply *text* in *folder* as a user would."""
    command = {
        "git": ["git", "apply", "--whitespace=nowarn", "-"],
        "patch": ["patch", "-p1", "--silent", "--no-backup-if-mismatch"],
    }[tool]
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, check=False)
    if b"Invalid byte sequence" in done.stderr:
        pytest.skip("this patch takes no name with a newline")  # since version 2.8
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def lay_out(folder: Path, changes: list[Change]) -> None:
    for change in changes:
        path = folder / change.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(change.before)


def require(tool: str) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on this machine")


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize(("before", "after"), CONTENTS.values(), ids=CONTENTS.keys())
def test_git_and_patch_take_every_content(tmp_path: Path, tool: str, before: bytes, after: bytes) -> None:
    require(tool)
    changes = [Change("a.py", before, after)]
    lay_out(tmp_path, changes)
    apply_with(tool, tmp_path, patch(changes))
    left = tmp_path / "a.py"
    assert (left.read_bytes() if left.exists() else b"") == after
    assert [path.name for path in tmp_path.iterdir()] in (["a.py"], [])


@pytest.mark.parametrize("tool", ["git", "patch"])
@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_git_and_patch_take_every_name(tmp_path: Path, tool: str, name: str) -> None:
    require(tool)
    changes = [Change(name, b"a\nb\n", b"a\nc\n")]
    lay_out(tmp_path, changes)
    apply_with(tool, tmp_path, patch(changes))
    assert (tmp_path / name).read_bytes() == b"a\nc\n"


@pytest.mark.parametrize("tool", ["git", "patch"])
def test_one_patch_holds_many_files_in_many_encodings(tmp_path: Path, tool: str) -> None:
    require(tool)
    changes = [Change(f"f{number}/a b.py", *content) for number, content in enumerate(CONTENTS.values())]
    lay_out(tmp_path, changes)
    apply_with(tool, tmp_path, patch(changes))
    for change in changes:
        left = tmp_path / change.name
        assert (left.read_bytes() if left.exists() else b"") == change.after


@pytest.mark.parametrize("seed", range(20))
def test_random_changes_apply(tmp_path: Path, seed: int) -> None:
    require("git")
    chance = random.Random(seed)
    pieces = [b"a\n", b"b\n", b"\n", b"a\r\n", b"\x85\n", b"- c\n", b"\\ d\n", b"\xe2\x80\xa8\n", b"e\r"]
    before = [chance.choice(pieces) for _ in range(60)] + [chance.choice([b"", b"end"])]
    after = [piece if chance.random() < 0.9 else chance.choice(pieces) for piece in before]
    after = [piece for piece in after if chance.random() < 0.97]
    changes = [Change("a.py", b"".join(before), b"".join(after))]
    if changes[0].before == changes[0].after:
        return
    lay_out(tmp_path, changes)
    apply_with("git", tmp_path, patch(changes))
    assert (tmp_path / "a.py").read_bytes() == changes[0].after


def test_patch_fills_an_empty_file(tmp_path: Path) -> None:
    """Git would take the empty file for one that does not exist yet; but no mistake is found in an empty file."""
    require("patch")
    changes = [Change("a.py", b"", b"x\n")]
    lay_out(tmp_path, changes)
    apply_with("patch", tmp_path, patch(changes))
    assert (tmp_path / "a.py").read_bytes() == b"x\n"


def test_no_change_is_no_patch() -> None:
    assert patch([Change("a.py", BODY, BODY)]) == b""
    assert patch([]) == b""
    assert hunks_of(Change("a.py", BODY, BODY)) == []


def test_a_file_outside_the_working_directory_is_named_from_the_root() -> None:
    assert patch([Change("/srv/a.py", b"a\n", b"b\n")]).startswith(b"--- a/srv/a.py\n+++ b/srv/a.py\n@@ ")


def test_a_patch_that_does_not_hold_is_never_given_out(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = patches.unified

    def forged(change: Change) -> str:
        return honest(change).replace("+b", "+c")

    monkeypatch.setattr(patches, "unified", forged)
    with pytest.raises(PatchError, match=r"the patch for a\.py does not lead"):
        patch([Change("a.py", b"a\n", b"b\n")])
    monkeypatch.setattr(patches, "unified", lambda change: honest(change).replace("@@ -1 +1 @@", "@@ -1,9 +1,9 @@"))
    with pytest.raises(PatchError, match="cannot be parsed back"):
        patch([Change("a.py", b"a\n", b"b\n")])


def three_hunks() -> tuple[bytes, list[Hunk]]:
    after = BODY.replace(b"line 5\n", b"five\n").replace(b"line 20\n", b"").replace(b"line 35\n", b"line 35\nmore\n")
    hunks = hunks_of(Change("a.py", BODY, after))
    assert len(hunks) == 3
    return after, hunks


def test_any_of_the_hunks_can_be_applied_without_the_others() -> None:
    after, hunks = three_hunks()
    assert apply(hunks, BODY) == after
    assert apply([], BODY) == BODY
    assert apply(hunks[:1], BODY) == BODY.replace(b"line 5\n", b"five\n")
    assert apply(hunks[1:2], BODY) == BODY.replace(b"line 20\n", b"")
    assert apply(hunks[::2], BODY) == BODY.replace(b"line 5\n", b"five\n").replace(b"line 35\n", b"line 35\nmore\n")


def test_hunks_that_do_not_fit_are_refused() -> None:
    _, hunks = three_hunks()
    with pytest.raises(PatchError, match="does not fit at line 3"):
        apply(hunks, BODY.replace(b"line 4\n", b"else\n"))
    with pytest.raises(PatchError, match="does not fit"):
        apply(hunks[::-1], BODY)


def test_knows_which_lines_of_the_source_a_hunk_changes() -> None:
    _, hunks = three_hunks()
    assert [sorted(set(changed_lines(hunk))) for hunk in hunks] == [[6], [21], [36]]
