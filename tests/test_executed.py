"""A patch by hand is proved only as far as the runs executed it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autofix.child.job import Watched
from autofix.execution.runner import Script, run
from autofix.proof.changed import changes, watched
from autofix.proof.promises import Promises
from autofix.proof.prove import Original, prove
from tests.by_hand import LIMITS, PATH, judged

TRAIN = """\
import copy
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 2))
target = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
carried = torch.zeros(8, 2)
for step in range(60):
    q = net(torch.randn(8, 4))
    with torch.no_grad():
        aim = 0.9 * target(torch.randn(8, 4)) + 1.0
    carried = 0.5 * carried + q
    loss = ((carried - aim) ** 2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, t in zip(net.parameters(), target.parameters()):
            t.mul_(0.9).add_(0.1 * p)
torch.save(net.state_dict(), "net.pt")
"""
FIXED = TRAIN.replace("0.5 * carried +", "0.5 * carried.detach() +")
NOT_EXECUTED = "train.py:{} of the patched source: changed, and not executed in the steps that were watched"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    opt.step()\n", "    opt.step()  # the step\n"),
        ("for step in range(60):", "for i, step in enumerate(range(60)):"),
        ("    carried = 0.5", "    if step % 4 == 0:\n        carried = carried.detach()\n    carried = 0.5"),
        ("    carried = 0.5", "    carried = carried.detach() if step % 3 else carried.detach()\n    carried = 0.5"),
    ],
    ids=["a comment", "the same loop, counted", "every fourth step", "both ways"],
)
def test_what_was_executed_is_proved(old: str, new: str) -> None:
    assert old in FIXED
    certificate = judged(TRAIN, FIXED.replace(old, new))
    assert certificate.proved, certificate.points


CUTS = {
    "else": """\
def cut(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    else:
        return tuple(cut(v) for v in h)
""",
    "a return": """\
def cut(state):
    if not torch.is_tensor(state):
        return [cut(one) for one in state]
    return state.detach()
""",
    "the return of the branch that is taken": """\
def cut(state):
    if torch.is_tensor(state):
        return state.detach()
    parts = []
    for one in state:
        parts.append(cut(one))
    return tuple(parts)
""",
    "an expression": """\
def cut(h):
    return h.detach() if isinstance(h, torch.Tensor) else tuple(map(cut, h))
""",
    "several types": """\
def cut(h):
    if isinstance(h, list) or isinstance(h, tuple):
        return [cut(one) for one in h]
    elif isinstance(h, dict):
        return {key: cut(one) for key, one in h.items()}
    return h.detach()
""",
}
"""Functions that cut states of several types, of which a script has one."""


@pytest.mark.parametrize("name", CUTS)
def test_a_branch_for_another_type_need_not_be_executed(name: str) -> None:
    fixed = TRAIN.replace("for step in", f"{CUTS[name]}for step in").replace("0.5 * carried +", "0.5 * cut(carried) +")
    certificate = judged(TRAIN, fixed)
    assert certificate.proved, certificate.points


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("return h.detach()\n", "return h.detach() if step < 1000 else 0 * h\n", 12),
        ("    if isinstance(h, torch.Tensor):", "    if isinstance(h, torch.Tensor) and step < 1000:", 14),
        ("        return h.detach()", "        if step == 1000:\n            h = 0 * h\n        return h.detach()", 13),
    ],
    ids=["a condition in the branch", "another condition beside", "a branch in the branch"],
)
def test_a_branch_within_the_one_for_the_type_must_be_executed(old: str, new: str, line: int) -> None:
    assert old in CUTS["else"]
    cut = CUTS["else"].replace(old, new)
    fixed = TRAIN.replace("for step in", f"{cut}for step in").replace("0.5 * carried +", "0.5 * cut(carried) +")
    certificate = judged(TRAIN, fixed)
    assert not certificate.proved
    assert NOT_EXECUTED.format(line) in certificate.points[1].detail


@pytest.mark.parametrize(
    ("old", "new", "number", "reason"),
    [
        ("    opt.step()\n", "    opt.step()\n    if step == 30:\n        break\n", 2, NOT_EXECUTED.format(20)),
        (
            "    opt.step()\n",
            "    if step == 30:\n        opt.param_groups[0]['lr'] = 0.0\n    opt.step()\n",
            2,
            ":19 ",
        ),
        ("    opt.step()\n", "    opt.step() if step < 40 else None\n", 2, NOT_EXECUTED.format(18)),
        ("    opt.step()\n", "    step > 40 and opt.zero_grad()\n    opt.step()\n", 2, NOT_EXECUTED.format(18)),
        ("net.state_dict(), ", "target.state_dict(), ", 2, NOT_EXECUTED.format(22)),
        ("range(60)", "range(30)", 2, "train.py:10 of the patched source: a loop is changed, and its end was not seen"),
        ("range(60)", "range(15)", 4, "training ends after 15 steps, and the original's goes on to step 21"),
        ("    opt.step()\n", "    opt.step()\n    if step == 12:\n        break\n", 4, "training ends after 13 steps"),
        (".add_(0.1 * p)", ".add_(0.1 * p) if step < 2 else None", 4, "target.0.bias is updated before 2 of 21 steps"),
    ],
    ids=[
        "training ends later",
        "a setting that changes later",
        "an expression that is skipped",
        "an operand that is skipped",
        "behind the loop",
        "a shorter loop, not seen to its end",
        "a shorter loop, seen to its end",
        "training ends earlier",
        "a target network that is left behind",
    ],
)
def test_what_was_not_executed_is_not_proved(old: str, new: str, number: int, reason: str) -> None:
    assert old in FIXED
    certificate = judged(TRAIN, FIXED.replace(old, new))
    assert not certificate.proved
    assert reason in certificate.points[number - 1].detail


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("    opt.step()\n", "    loss_scale = float(step < 40)\n    opt.step()\n", 18),
        ("loss.backward()", "(loss * (step < 40)).backward()", 17),
        ("for step in range(60):\n", "for step in range(60):\n    now = step % 50\n", 11),
        ("    opt.step()\n", "    opt.param_groups[0]['lr'] *= 0.5 ** (step // 100)\n    opt.step()\n", 18),
        ("    opt.step()\n", "    rate = min(step, 90)\n    opt.step()\n", 18),
        ("    opt.step()\n", "    opt.step()\n    kept = [step + i > 70 for i in range(3)]\n", 19),
        ("    opt.step()\n", "    opt.step()\n    keeper.step = step\n    late = keeper.step >= 33\n", 20),
    ],
    ids=["a number", "a factor", "a remainder", "a quotient", "the smaller one", "in a comprehension", "an attribute"],
)
def test_a_value_that_a_number_decides_on_later(old: str, new: str, line: int) -> None:
    fixed = FIXED.replace(old, new)
    fixed, line = (f"class keeper:\n    step = 0\n{fixed}", line + 2) if "keeper" in new else (fixed, line)
    certificate = judged(TRAIN, fixed)
    assert not certificate.proved
    assert f"train.py:{line} of the patched source: a number decides" in certificate.points[1].detail, (
        certificate.points
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    opt.step()\n", "    odd = step % 4 == 1\n    opt.step()\n"),
        ("    opt.step()\n", "    for i in range(3):\n        last = i < 2\n    opt.step()\n"),
        ("    opt.step()\n", "    wide, size = q.size(0) > 7, 8\n    many = size > 7\n    opt.step()\n"),
        ("    opt.step()\n", "    name = 'step %d' % step\n    opt.step()\n"),
        ("    opt.step()\n", "    row = torch.arange(5)[step % 5]\n    opt.step()\n"),
        ("    opt.step()\n", "    print(step < 1000)\n    opt.step()\n"),
    ],
    ids=["now and then", "at the last", "always of the same numbers", "a text", "in turn", "printed"],
)
def test_a_value_that_turns_or_never_can_is_proved(old: str, new: str) -> None:
    certificate = judged(TRAIN, FIXED.replace(old, new))
    assert certificate.proved, certificate.points


PLAN = "plan = torch.optim.lr_scheduler.StepLR(opt, step_size=50, gamma=0.5)\n"
CLIP = "    torch.nn.utils.clip_grad_norm_(net.parameters(), 900.0)\n"
SCHEDULED = TRAIN.replace("for step in", f"{PLAN}for step in").replace(
    "    opt.step()\n", f"{CLIP}    opt.step()\n    plan.step()\n"
)
RIGHT = SCHEDULED.replace("0.5 * carried +", "0.5 * carried.detach() +")


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("    plan.step()\n", "", "steps of its scheduler: 0 instead of 2, at step 3"),
        (
            "    plan.step()\n",
            "    plan.step()\n    plan.step()\n",
            "steps of its scheduler: 4 instead of 2, at step 3",
        ),
        ("step_size=50", "step_size=40", "step_size of its scheduler: 40 instead of 50, at step 1"),
        (CLIP, "", "no longer clipped to a norm of 900"),
        ("900.0", "9000.0", "gradients are no longer clipped to a norm of 900"),
    ],
    ids=["no steps of a scheduler", "two for one", "another setting", "no clipping", "clipping to another norm"],
)
def test_what_has_no_effect_in_the_watched_steps_is_not_left_out(old: str, new: str, reason: str) -> None:
    assert old in RIGHT
    certificate = judged(SCHEDULED, RIGHT.replace(old, new))
    assert not certificate.proved
    assert reason in certificate.points[3].detail


def test_a_scheduler_may_step_first() -> None:
    right = RIGHT.replace("    plan.step()\n", "").replace("    opt.step()\n", "    plan.step()\n    opt.step()\n")
    certificate = judged(SCHEDULED, right)
    assert certificate.proved, certificate.points


def test_a_file_that_a_patch_adds_is_watched_whole(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("x = 1\n")
    before = Script(tmp_path / "train.py", root=tmp_path)
    after = Script(before.path, text="import helper\nx = 1\n", root=tmp_path, others=(("helper.py", "y = 2\n"),))
    _, patched = watched(before, after)
    assert {one.file: [span[0] for span in one.spans] for one in patched.watched} == {"train.py": [1], "helper.py": [1]}


def test_what_is_taken_out_must_have_been_executed_in_the_original() -> None:
    fixed = FIXED.replace('torch.save(net.state_dict(), "net.pt")\n', "")
    before, after = watched(Script(PATH, text=TRAIN), Script(PATH, text=fixed))
    certificate = prove(Original(before, LIMITS), after, Promises(by_hand=True))
    assert not certificate.proved
    assert "train.py:22 of the original: taken out, and not executed" in certificate.points[1].detail


@pytest.mark.parametrize(
    ("before", "after", "lines"),
    [
        ("x = 1\n", "x  =  1  # one\n", []),
        ("x = 1\n", '"""Text."""\nx = 1\n', []),
        ("x = 1\n", "x = 1\ny = 2\n", [2]),
        ("if a:\n    x = 1\n", "if b:\n    x = 1\n", [1, 2]),
        ("if a:\n    x = 1\n", "if a:\n    x = 1\nelse:\n    y = 2\n", [4]),
        ("x = 1\n", "try:\n    x = 1\nexcept E:\n    y = 2\n", [2, 2, 4, 4]),
        ("x = f()\n", "x = f() or g()\n", [1, 1]),
        ("def f():\n    return 1\n", "def f():\n    return 2\n", [2]),
        ("def f():\n    return 1\n", "def f(x):\n    return 1\n", []),
        ("x = 1\n", "x = (\n", []),
        ("print(x)\n", "print(f'loss {x.item() / len(y):.3f}')\n", []),
        ("print(x)\n", "print(update(x))\n", [1]),
    ],
)
def test_what_a_patch_puts_in(before: str, after: str, lines: list[int]) -> None:
    _, put = changes(before, after)
    assert sorted(span[0] for span in put.spans) == lines


@pytest.mark.parametrize(
    ("before", "after", "loops"),
    [
        ("for a in b:\n    pass\n", "for i, a in enumerate(b):\n    pass\n", ()),
        ("for a in b:\n    pass\n", "for a in tqdm.tqdm(b):\n    pass\n", ()),
        ("for a in b:\n    pass\n", "for a in b[1:]:\n    pass\n", ((1, 2),)),
        ("while a:\n    pass\n", "while a and b:\n    pass\n\n", ((1, 2),)),
    ],
)
def test_a_loop_over_other_things_is_to_be_seen_to_its_end(
    before: str, after: str, loops: tuple[tuple[int, int], ...]
) -> None:
    assert changes(before, after)[1].loops == loops


def test_an_inner_loop_that_ended_once_has_been_seen_to_its_end() -> None:
    text = "def f(n):\n    for i in range(n):\n        if i == 5:\n            1 / 0\nf(3)\nwhile True:\n    f(9)\n"
    watched_loops = (Watched("train.py", (), ((2, 4), (6, 7))),)
    record = run(Script(PATH, text=text, watched=watched_loops), LIMITS)
    assert record.missed is not None
    assert record.missed.loops == {}
    assert record.error is not None


def test_a_run_tells_lines_without_instructions_and_functions_that_nobody_calls_apart() -> None:
    text = "global x\nx: int\ndef f():\n    y = 1\n    return y\nfor i in range(3):\n    pass\n"
    spans = ((1, 1, 0, 8), (2, 2, 0, 6), (4, 4, 4, 9), (7, 7, 4, 8))
    record = run(Script(PATH, text=text, watched=(Watched("train.py", spans),)), LIMITS)
    assert record.missed is not None
    assert record.missed.lines == {"train.py": (4,)}


def test_what_is_taken_out_is_what_the_other_way_puts_in() -> None:
    before, after = "x = 1\nif a:\n    y = 2\n", "x = 1\nif b:\n    y = 2\nz = 3\n"
    assert changes(before, after)[1].spans == changes(after, before)[0].spans != ()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes can be forked here")
def test_what_a_forked_worker_executes_counts() -> None:
    text = "import os\ndef work():\n    x = 1\nif not (worker := os.fork()):\n    work()\n    os._exit(0)\n"
    text += "os.waitpid(worker, 0)\n"
    record = run(Script(PATH, text=text, watched=(Watched("train.py", ((3, 3, 4, 9), (5, 5, 4, 10))),)), LIMITS)
    assert record.missed is not None
    assert record.missed.lines == {}
