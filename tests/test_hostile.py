"""A checkout that means harm, or is merely odd: it is read without a hang, without a way out of it, and to the end."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from autofix.project import files
from autofix.project.discovery import discover
from autofix.project.gather import gather
from autofix.project.ignoring import pattern, read_gitignore, without_backtracking
from autofix.project.layout import layout_of
from autofix.project.reading import read

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")

TRAINING = """\
import torch
from torch import nn
{0}
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    h = net(torch.randn(2, 4))
    store.append(h)
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "checkout"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    return folder


def autofix(*arguments: str, **options: int) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own, for at most a minute."""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "NO_COLOR": "1"}
    command = [sys.executable, "-m", "autofix", *arguments]
    captured = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.run(command, text=True, check=False, env=environment, timeout=60, **captured)  # type: ignore[call-overload,no-any-return]


# Files that are none


def test_pipes_devices_sockets_and_links_are_passed_by_with_a_word(checkout: Path) -> None:
    Path("train.py").write_text(TRAINING.format("import helper, endless, circle, secret, plug"))
    for name in ("helper.py", ".gitignore", "pyproject.toml", "setup.cfg", "setup.py"):
        os.mkfifo(name)
    Path("endless.py").symlink_to("/dev/zero")
    Path("circle.py").symlink_to("circle.py")
    (checkout.parent / "secret.py").write_text("import torch\nloss.backward()\n")
    Path("secret.py").symlink_to("../secret.py")
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("plug.py")
        done = autofix("check", ".")
    assert done.returncode == 1
    assert "AF101" in done.stdout
    assert done.stderr.splitlines() == [
        "circle.py: skipped: too many levels of symbolic links",
        "endless.py: skipped: a link to /dev/zero, outside of the project",
        "helper.py: skipped: a named pipe",
        "plug.py: skipped: a socket",
        f"secret.py: skipped: a link to {checkout.parent}/secret.py, outside of the project",
        "setup.py: skipped: a named pipe",
    ]


@pytest.mark.parametrize(
    ("name", "reason"), [("pipe.py", "a named pipe"), ("zero.py", "a device"), ("plug.py", "a socket")]
)
def test_a_file_that_is_none_is_one_line_where_it_is_named(checkout: Path, name: str, reason: str) -> None:
    os.mkfifo("pipe.py")
    Path("zero.py").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as plug:
        plug.bind("plug.py")
        with pytest.raises(files.FileError, match=f"cannot be read: it is {reason}"):
            files.read(Path(name))


def test_a_file_without_an_end_is_one_line(checkout: Path) -> None:
    with open("sparse.py", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(files.FileError, match="cannot be read: larger than 16 megabytes"):
        files.read(Path("sparse.py"))


def test_a_pipe_that_the_shell_hands_over_is_read(checkout: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x = 1\n")
    os.close(writer)
    try:
        assert read(Path(f"/dev/fd/{reader}")) == b"x = 1\n"
    finally:
        os.close(reader)


def test_folders_in_folders_without_an_end(checkout: Path) -> None:
    Path("a.py").write_text("x = 1\n")
    here = os.open(".", os.O_RDONLY)
    for _ in range(2100):
        os.mkdir("d", dir_fd=here)
        here, above = os.open("d", os.O_RDONLY, dir_fd=here), here
        os.close(above)
    os.close(here)
    said: list[str] = []
    try:
        assert discover([Path()], said.append) == [Path("a.py")]
        assert len(said) == 1 and said[0].endswith("d: skipped: file name too long")
    finally:
        subprocess.run(["rm", "-rf", "d"], check=False)


@pytest.mark.skipif(os.geteuid() == 0 if hasattr(os, "geteuid") else True, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_passed_by_with_a_word(checkout: Path) -> None:
    Path("secret").mkdir(mode=0)
    said: list[str] = []
    assert discover([Path()], said.append) == []
    assert said == ["secret: skipped: permission denied"]


# Paths out of the checkout


@pytest.mark.parametrize("way", ["link to a file", "link to a folder", "search path"])
def test_nothing_outside_of_the_checkout_is_read_or_written(checkout: Path, way: str) -> None:
    outside = checkout.parent / "private"
    outside.mkdir()
    (outside / "model.py").write_text("import torch\nstore = []\n")
    if way == "search path":
        start = f"import sys\nsys.path.insert(0, {str(outside)!r})\nimport model"
    elif way == "link to a file":
        Path("model.py").symlink_to("../private/model.py")
        start = "import model"
    else:
        Path("pack").symlink_to("../private")
        start = "import pack.model"
    Path("train.py").write_text(TRAINING.format(start))
    assert not gather(Path("train.py"), files.read(Path("train.py"))).companions


def test_what_the_user_has_put_on_the_path_is_read_wherever_it_lies(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = checkout.parent / "library"
    outside.mkdir()
    (outside / "model.py").write_text("import torch\nstore = []\n")
    monkeypatch.setenv("PYTHONPATH", str(outside))
    Path("train.py").write_text(TRAINING.format("import model"))
    assert len(gather(Path("train.py"), files.read(Path("train.py"))).companions) == 1


def test_a_path_that_grows_without_an_end_is_given_up(checkout: Path) -> None:
    doubled = "a = 'xxxxxxxx'\n" + "a = a + a\n" * 60 + "import sys\nsys.path.insert(0, a)\nimport model"
    Path("train.py").write_text(TRAINING.format(doubled))
    assert not gather(Path("train.py"), files.read(Path("train.py"))).companions


@pytest.mark.parametrize(
    "text", ["x = " + "[" * 5000, 'tool.pytest.ini_options.pythonpath = ["\\u0000", "%s"]' % ("n" * 5000)]
)
def test_odd_project_files_say_nothing(checkout: Path, text: str) -> None:
    Path("pyproject.toml").write_text(text)
    Path("train.py").write_text("x = 1\n")
    assert layout_of(Path("train.py")).import_roots == (checkout,)


# Ignore files

ODD = ["!", "\\", "[z-a]", "!!", "\\\\\\", "[[:alpha:]", "(?P", "a" * 5000, "[!]", "/"]


def test_lines_of_an_ignore_file_that_are_no_patterns_say_nothing(checkout: Path) -> None:
    Path("a.py").write_text("x = 1\n")
    Path("b.py").write_text("x = 1\n")
    Path(".gitignore").write_text("\n".join([*ODD, "b.py"]))
    assert discover([Path()]) == [Path("a.py")]


@pytest.mark.parametrize("line", ["*a" * 60 + "*b", "**/a" * 20 + "/b", "/" + "*/**/" * 20 + "b", "[a-c]*?" * 40 + "x"])
def test_patterns_of_many_stars_take_no_time(checkout: Path, line: str) -> None:
    Path(".gitignore").write_text(line)
    spec = read_gitignore(checkout)
    assert spec is not None
    began = time.monotonic()
    for path in ("a" * 250 + ".py", "/".join("a" * 800), "/".join(["aaaaaaaa"] * 100) + "/c"):
        spec.check_file(path)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("key", ["exclude", "per-file-ignores"])
def test_patterns_of_settings_are_held_to_the_same(checkout: Path, key: str) -> None:
    patterns = [*ODD, "*a" * 60 + "*b"]
    Path("a" * 250 + ".py").write_text(TRAINING.format(""))
    value = json.dumps(patterns)
    if key == "per-file-ignores":
        value = "{" + ", ".join(f'{json.dumps(one)} = ["AF101"]' for one in patterns) + "}"
    Path("autofix.toml").write_text(f"{key} = {value}\n")
    done = autofix("check", ".")
    assert done.returncode == 1 and "AF101" in done.stdout, done.stderr


SAME = [
    ("*a*b", ["ab", "aab", "xaxb", "ba", "abx", "d/ab", "ab/c", "aaab", "abab"]),
    ("*.a.*", ["x.a.y", ".a.", "a.a", "x.a.a.b"]),
    (
        "/a/**/b/**/c*d",
        ["a/b/cd", "a/x/b/cd", "a/b/x/y/cxd", "a/bc/b/cd", "a/b/cd/e", "x/a/b/cd", "a/b/b/b/cd", "a/bb/cd"],
    ),
    ("a/**/*b*c*/d", ["a/bc/d", "a/x/xbxcx/d", "a/b/c/d", "a/x/bc/x/d", "a/bcb/d/e"]),
    ("**/x*y*z", ["xyz", "a/xyz", "a/xxyyzz", "a/xzy", "xyzz/a"]),
    ("f*o/b*r*/", ["foo/bar/a", "fo/br", "f/o/bar/x", "foo/bar"]),
]


@pytest.mark.parametrize(("line", "paths"), SAME)
def test_patterns_match_as_they_did(line: str, paths: list[str]) -> None:
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    plain, own = GitIgnoreSpecPattern(line), pattern(line)
    assert plain.regex is not None and own.regex is not None
    assert own.regex.pattern == without_backtracking(plain.regex.pattern) != plain.regex.pattern
    for path in paths:
        assert bool(own.regex.match(path)) == bool(plain.regex.match(path)), path


# The terminal

FORMATS = ["full", "concise", "json", "json-lines", "github", "gitlab", "junit", "rdjson", "sarif"]
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.mark.parametrize("arguments", [["-v"], *(["--output-format", name] for name in FORMATS)], ids=str)
def test_no_control_character_of_a_name_or_a_key_reaches_the_terminal(checkout: Path, arguments: list[str]) -> None:
    text = TRAINING.format("").replace("store = []", "store = {'\x1b]0;evil\x07\x9b31m': []}")
    text = text.replace("store.", "store['\x1b]0;evil\x07\x9b31m'].").replace(
        "in store", "in store['\x1b]0;evil\x07\x9b31m']"
    )
    Path("a\x1b[2J\n::error::b.py").write_text(text)
    Path("c\x1b[2J\n.py").write_text("x = (\n")
    os.mkfifo("d\x1b[2J\n.py")
    done = autofix("check", *arguments, ".")
    assert "AF101" in done.stdout
    assert not CONTROL.search(done.stdout + done.stderr)
    assert "\n::error::" not in done.stdout + done.stderr
    assert "c\\x1b[2J\\n.py:1" in done.stderr


# A full disk


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
@pytest.mark.parametrize(
    "arguments",
    [["check", "a.py"], ["check", "--diff", "a.py"], ["check", "--output-format", "json", "a.py"], ["rule"]],
)
def test_a_full_disk_under_standard_output_is_one_line(checkout: Path, arguments: list[str]) -> None:
    Path("a.py").write_text(TRAINING.format(""))
    with open("/dev/full", "wb") as full:
        done = autofix(*arguments, stdout=full.fileno())
    assert (done.returncode, done.stderr) == (2, "autofix: standard output: no space left on device\n")


def test_standard_output_that_is_closed_is_nobodys_question(checkout: Path) -> None:
    Path("a.py").write_text("x = 1\n")
    command = f"{sys.executable} -m autofix check a.py >&-"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    done = subprocess.run(["sh", "-c", command], capture_output=True, check=False, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")
