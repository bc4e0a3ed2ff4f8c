"""A campaign over many checkouts on this machine: bounds, restarts, branches, clones, and refused sources."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from autofix.campaign import branch, git, page, summary
from autofix.campaign.examine import examine
from autofix.campaign.sources import SourceError, looks_like_url, parsed, refuse, tasks
from autofix.campaign.task import Bounds, Outcome, Task
from autofix.cli import main
from autofix.project.git import GitError
from tests.campaigns import Scene, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only /proc tells what is left")
BROKEN = (Path(__file__).parents[1] / "fixtures" / "detach_stored" / "broken.py").read_bytes()


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


REFUSED = [
    "ext::sh -c touch% hurt",
    "ext::sh",
    "fd::17",
    "--upload-pack=touch hurt",
    "-oProxyCommand=touch",
    "ssh://-oProxyCommand=touch/path",
    "ssh://-oProxyCommand=touch@host/path",
    "gopher://host/path",
    "https://host/one\ntwo",
    "transport::https://host/path",
]


@pytest.mark.parametrize("url", REFUSED)
def test_a_url_that_starts_programs_is_refused(url: str, tmp_path: Path) -> None:
    assert looks_like_url(url)
    with pytest.raises(SourceError):
        refuse(url)
    with pytest.raises(SourceError):
        tasks([url], tmp_path, Bounds())


@pytest.mark.parametrize("url", ["https://host/a.git", "ssh://git@host/a", "git@host:a/b.git", "file:///tmp/a"])
def test_the_usual_urls_are_none_of_these(url: str) -> None:
    assert looks_like_url(url)
    refuse(url)


def test_a_line_of_a_list() -> None:
    assert parsed("a/b  # the first") == ("a/b", ())
    assert parsed("'a b' -- train.py --epochs 3") == ("a b", ("train.py", "--epochs", "3"))
    assert parsed("a -- -m package.train") == ("a", ("-m", "package.train"))
    assert parsed("# nothing") == ("", ())
    with pytest.raises(ValueError, match="expected --"):
        parsed("a train.py")


def test_every_repository_is_a_task_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    (tmp_path / "list").write_text("a\nb\n./a\na -- train.py\n")
    found = tasks([str(tmp_path / "list"), str(tmp_path / "b")], tmp_path, Bounds())
    assert [(Path(task.source).name, task.command) for task in found] == [("a", ()), ("b", ()), ("a", ("train.py",))]
    assert len({task.name for task in found}) == 3
    with pytest.raises(SourceError, match="no such folder"):
        tasks([str(tmp_path / "c")], tmp_path, Bounds())


def test_what_hangs_and_what_fills_the_memory_is_ended_and_reported(scene: Scene) -> None:
    scene.repository("fine")
    scene.repository("hangs", sleep=600, daemon=True)
    scene.repository("fills", fill=400, sleep=600)
    scene.repository("killed", deadly=9, victim="self")
    scene.repository("killed_once", deadly=1, victim="self")
    done = scene.call("--jobs", "3", "--timeout", "6", "--memory", "300M")
    assert (done.returncode, done.stderr) == (1, "")
    found = scene.results()
    assert {name: one["status"] for name, one in found.items()} == {
        "fine": "done", "hangs": "timed out", "fills": "out of memory", "killed": "died", "killed_once": "done",
    }  # fmt: skip
    assert [len(scene.starts(name)) for name in found] == [found[name]["tries"] for name in found]
    assert (found["killed"]["tries"], found["killed_once"]["tries"]) == (2, 2)
    assert found["fills"]["memory"] > 300 * 2**20
    assert not until(scene.left, 0.5), "a process is left"
    assert os.listdir(scene.folder / "tmp") == []
    html = (scene.folder / "out" / "campaign.html").read_text()
    assert "ended after 6 seconds" in html
    assert scene.report()["done"] == 2


def test_a_killed_campaign_goes_on_where_it_stopped(scene: Scene) -> None:
    for number in range(6):
        scene.repository(f"slow{number}", sleep=0.3)
    process = scene.start("--jobs", "2")
    assert until(lambda: len(list((scene.folder / "out" / "results").glob("*.json"))) >= 2)
    process.kill()
    process.communicate()
    assert until(lambda: not scene.left()), "killed, it leaves processes behind"
    before = scene.results()
    assert 2 <= len(before) < 6
    begun = {name: scene.starts(name) for name in before}
    done = scene.call("--jobs", "2")
    assert (done.returncode, done.stderr) == (
        0,
        f"autofix: {len(before)} repositories done before, {6 - len(before)} to do\n",
    )
    after = scene.results()
    assert sorted(after) == [f"slow{number}" for number in range(6)]
    assert all(after[name] == before[name] and scene.starts(name) == begun[name] for name in before)
    assert scene.report()["left"] == 0
    assert not list((scene.folder / "out").rglob("*.tmp"))


def test_an_interrupt_keeps_what_is_done(scene: Scene) -> None:
    scene.repository("fine")
    scene.repository("slow", sleep=600)
    process = scene.start("--jobs", "2")
    assert until(lambda: scene.starts("slow") and list((scene.folder / "out" / "results").glob("*.json")))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert until(lambda: not scene.left(), 5)
    assert sorted(scene.results()) == ["fine"]
    assert scene.report()["left"] == 1


def test_failures_are_tried_again_where_that_is_asked(scene: Scene) -> None:
    scene.repository("killed", deadly=2, victim="self")
    assert scene.call().returncode == 1
    assert scene.call().returncode == 1
    assert len(scene.starts("killed")) == 2
    assert scene.call("--retry-failed").returncode == 0
    assert scene.results()["killed"]["status"] == "done"


def test_two_campaigns_do_not_share_a_folder(scene: Scene) -> None:
    scene.repository("slow", sleep=600)
    process = scene.start()
    assert until(lambda: scene.starts("slow"))
    done = scene.call()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert (done.returncode, done.stderr) == (2, "Error: another campaign writes to out\n")


def repository(folder: Path, **files: bytes) -> Path:
    folder.mkdir()
    run(folder, "init", "-q", "-b", "main")
    for name, data in files.items():
        (folder / f"{name}.py").write_bytes(data)
    run(folder, "add", "-A")
    run(folder, "commit", "-q", "-m", "one")
    return folder


def run(folder: Path, *words: str) -> str:
    identity = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "protocol.file.allow=always",
    ]
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def hooks(folder: Path, trap: Path) -> None:
    """Have every hook and the file monitor of a repository make a file."""
    for name in ("reference-transaction", "post-checkout", "pre-commit", "post-index-change", "commit-msg"):
        hook = folder / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\ntouch {trap}\n")
        hook.chmod(0o755)
    monitor = folder / ".git" / "monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {trap}\n")
    monitor.chmod(0o755)
    run(folder, "config", "core.fsmonitor", str(monitor))


def test_a_patch_becomes_a_branch_beside_the_work_tree(tmp_path: Path) -> None:
    """Also where the work tree and the index hold changes; a second time makes no second branch."""
    folder = repository(tmp_path / "a", train=BROKEN, other=b"x = 1\n")
    (folder / "other.py").write_text("x = 2\n")
    run(folder, "add", "other.py")
    (folder / "other.py").write_text("x = 3\n")
    trap = tmp_path / "trap"
    index = (folder / ".git" / "index").read_bytes()
    hooks(folder, trap)
    outcome = examine(Task(str(folder), bounds=Bounds(open_branch=True)))
    assert (outcome.status, outcome.branch, outcome.branch_note) == ("done", "autofix/repairs", "")
    assert (folder / ".git" / "index").read_bytes() == index
    assert (folder / "train.py").read_bytes() == BROKEN
    assert (folder / "other.py").read_text() == "x = 3\n"
    assert branch.open_branch(folder, outcome) == "autofix/repairs"
    assert not trap.exists()
    (folder / ".git" / "monitor").unlink()
    run(folder, "config", "--unset", "core.fsmonitor")
    (folder / ".git" / "hooks" / "reference-transaction").unlink()
    assert run(folder, "branch", "--format=%(refname:short)").split() == ["autofix/repairs", "main"]
    applied = run(folder, "diff", "--no-color", "--no-ext-diff", "main", "autofix/repairs").splitlines()
    assert [line for line in applied if line[0] in "+-" and line[:3] not in ("+++", "---")] == [
        line for line in outcome.patch.splitlines() if line[0] in "+-" and line[:3] not in ("+++", "---")
    ]
    assert run(folder, "rev-list", "--count", "main..autofix/repairs") == "1"
    message = run(folder, "log", "-1", "--format=%B", "autofix/repairs")
    assert message.startswith("autofix: repair a mistake of PyTorch's autograd\n\ntrain.py:")
    assert "AF101" in message
    assert "  fix: " in message
    (folder / "train.py").write_bytes(BROKEN.replace(b"\n", b"  # changed\n"))
    run(folder, "commit", "-q", "-a", "-m", "two")
    with pytest.raises(GitError, match="does not apply"):
        branch.open_branch(folder, outcome)


@pytest.mark.parametrize("command", [(), ("train.py",)], ids=["check", "run"])
def test_nothing_of_a_checkout_is_imported(tmp_path: Path, command: tuple[str, ...]) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in ("autofix", "click", "json", "libcst", "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'trap')!r}, 'w')\n")
    (folder / "train.py").write_text("x = 1\n")
    outcome = examine(Task(str(folder), command=command))
    assert outcome.status == "done", outcome.reason
    assert not (tmp_path / "trap").exists()


def test_branches_may_be_asked_for_later(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = repository(tmp_path / "a", train=BROKEN)
    plain = repository(tmp_path / "b", train=b"x = 1\n")
    words = ["campaign", "-q", "--output", str(tmp_path / "out"), str(folder), str(plain)]
    assert main(words) == 1
    assert run(folder, "branch", "--format=%(refname:short)") == "main"
    assert main([*words, "--open-branch"]) == 1
    assert run(folder, "branch", "--format=%(refname:short)").split() == ["autofix/repairs", "main"]
    assert run(plain, "branch", "--format=%(refname:short)") == "main"
    (patch,) = (tmp_path / "out" / "patches").iterdir()
    run(folder, "apply", str(patch))
    assert run(folder, "diff", "autofix/repairs") == ""
    assert capsys.readouterr() == ("", "")


def test_a_repository_that_leads_elsewhere_gets_no_branch(tmp_path: Path) -> None:
    victim = repository(tmp_path / "victim", train=BROKEN)
    thief = tmp_path / "thief"
    thief.mkdir()
    (thief / "train.py").write_bytes(BROKEN)
    (thief / ".git").write_text(f"gitdir: {victim / '.git'}\n")
    outcome = examine(Task(str(thief), bounds=Bounds(open_branch=True)))
    assert outcome.branch == ""
    assert "does not know of it" in outcome.branch_note
    assert run(victim, "branch", "--format=%(refname:short)") == "main"


def test_no_object_is_fetched_by_a_program_that_the_checkout_names(tmp_path: Path) -> None:
    folder = repository(tmp_path / "a", train=BROKEN)
    blob = run(folder, "rev-parse", "HEAD:train.py")
    trap = tmp_path / "trap"
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": "ssh://localhost/a",
        "core.sshCommand": f"touch {trap}; false",
        "protocol.ssh.allow": "always",
    }.items():
        run(folder, "config", name, value)
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    outcome = examine(Task(str(folder), bounds=Bounds(open_branch=True)))
    assert (outcome.branch, bool(outcome.branch_note), trap.exists()) == ("", True, False)
    subprocess.run(["git", "cat-file", "-p", blob], cwd=folder, capture_output=True, check=False)
    assert trap.exists(), "the trap is none"


def test_a_work_tree_of_a_repository_gets_its_branch(tmp_path: Path) -> None:
    folder = repository(tmp_path / "a", train=b"x = 1\n")
    run(folder, "worktree", "add", "-q", "../tree")
    branch.own_repository(tmp_path / "tree")


def test_a_clone_is_shallow_and_runs_nothing(tmp_path: Path) -> None:
    """No hook of a template, no filter for large files, no submodule; and a second time nothing is fetched."""
    inner = repository(tmp_path / "inner", secret=b"x = 1\n")
    origin = repository(tmp_path / "origin", train=BROKEN)
    run(origin, "submodule", "--quiet", "add", str(inner), "sub")
    (origin / ".gitattributes").write_text("*.bin filter=lfs\n")
    (origin / "large.bin").write_text("version of a pointer\n")
    run(origin, "add", "-A")
    run(origin, "commit", "-q", "-m", "two")
    url = f"file://{origin}"
    folder = git.clone(url, tmp_path / "cache", 30)
    assert run(folder, "rev-list", "--count", "HEAD") == "1"
    assert (folder / "train.py").read_bytes() == BROKEN
    assert (folder / "large.bin").read_text() == "version of a pointer\n"
    assert list((folder / "sub").iterdir()) == []
    assert not (folder / ".git" / "hooks").exists()
    assert os.listdir(tmp_path / "cache") == [folder.name]
    (origin / ".git").rename(tmp_path / "gone")
    assert git.clone(url, tmp_path / "cache", 30) == folder


def test_what_cannot_be_cloned_is_an_outcome(tmp_path: Path) -> None:
    outcome = examine(Task(f"file://{tmp_path}/nothing", is_url=True, cache=str(tmp_path / "cache")))
    assert outcome.status == "not there"
    assert outcome.reason.startswith("cannot be cloned: ")
    assert os.listdir(tmp_path / "cache") == []


def finding(code: str, message: str = "a message") -> dict[str, Any]:
    place = {"file": "a.py", "start": {"line": 3, "column": 1}, "end": {"line": 3, "column": 2}}
    return {
        "code": code, "name": f"name-{code}", "message": message, "fixable": True, "fix": "do so",
        "roles": [{"name": "kept", "cause": True, "phrase": "kept here", **place}],
    }  # fmt: skip


def test_the_report_counts_by_rule_and_escapes_what_it_shows() -> None:
    document = {"command": "check", "files": 2, "patch": "", "problems": []}
    outcomes = [
        Outcome("a-1", "/a", document={**document, "findings": [finding("AF101"), finding("AF101")]}),
        Outcome(
            "b-1", "/b<script>", document={**document, "findings": [finding("AF101"), finding("AF201", "<b>\x1b[2J")]}
        ),
        Outcome("c-1", "/c", status="died", reason="killed"),
    ]
    report = summary.document(outcomes, 4)
    assert summary.document([summary.for_report(outcome) for outcome in outcomes], 4) == report
    assert page.render(report, [summary.for_report(outcome) for outcome in outcomes]) == page.render(report, outcomes)
    assert [(rule["code"], rule["findings"], rule["repositories"]) for rule in report["rules"]] == [
        ("AF101", 3, 2),
        ("AF201", 1, 1),
    ]
    assert (report["asked"], report["left"], report["done"], report["files"]) == (4, 1, 2, 4)
    html = page.render(report, outcomes)
    assert "<script>" not in html
    assert "<b>" not in html
    assert "\x1b" not in html
    assert "a.py:3" in html
    assert json.loads(json.dumps(report)) == report


def test_only_a_proved_patch_of_a_run_counts() -> None:
    document = {
        "command": "run",
        "patch": "--- a\n",
        "findings": [finding("AF101")],
        "proof": {"proved": False, "points": []},
    }
    assert Outcome("a", "/a", ("train.py",), document=document).patch == ""
    document = {
        **document,
        "proof": {"proved": True, "points": [{"number": 1, "name": "fails", "verdict": "passed", "detail": ""}]},
    }
    outcome = Outcome("a", "/a", ("train.py", "--epochs", "1"), document=document)
    assert outcome.patch == "--- a\n"
    assert "Proved by running `train.py --epochs 1` before and after:\n  1 fails: passed" in branch.message_of(outcome)
