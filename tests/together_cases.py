# ruff: noqa: E501 - the scripts are written as their users write them
"""Stores that are read together: a patch that empties one of them alone is refused, one that empties all is proved."""

from __future__ import annotations

from tests.proof_cases import Case, Patch

HEAD = """\
import torch
from collections import deque
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
teacher = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).requires_grad_(False)
opt = torch.optim.SGD(student.parameters(), 0.05)
"""
STEP = """\
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
HOOKS = f"""\
{HEAD}
class Tap:
    def __init__(self, net, names):
        self.kept = {{}}
        self.handles = [dict(net.named_modules())[n].register_forward_hook(self.make(n)) for n in names]
    def make(self, name):
        def hook(module, args, out):
            self.kept.setdefault(name, []).append(out)
        return hook

taps = Tap(student, ["0", "1"]), Tap(teacher, ["0", "1"])
for step in range(20):
    x, y = torch.randn(10, 6), torch.randint(3, (10,))
    loss = nn.functional.cross_entropy(student(x), y)
    teacher(x)
    for name in ("0", "1"):
        for s, t in zip(taps[0].kept[name], taps[1].kept[name]):
            loss = loss + 0.1 * (s - t).pow(2).mean()
{STEP}"""
LISTS = f"""\
{HEAD}
ours, theirs = [], []
for step in range(20):
    x = torch.randn(10, 6)
    ours.append(student(x))
    theirs.append(teacher(x))
    loss = sum((a - b).pow(2).mean() for a, b in zip(ours, theirs))
{STEP}"""
NUMBERED = LISTS.replace(
    "    loss = sum((a - b).pow(2).mean() for a, b in zip(ours, theirs))\n",
    "    loss = torch.zeros(())\n    for i in range(len(ours)):\n        loss = loss + (ours[i] - theirs[i]).abs().mean() / len(ours)\n",
)
WITHIN = f"""\
{HEAD}
class Log:
    def __init__(self):
        self.outs, self.goals = [], []
    def loss(self):
        return torch.stack([nn.functional.smooth_l1_loss(o, g) for o, g in zip(self.outs, self.goals)]).mean()

def train():
    log = Log()
    for step in range(20):
        for _ in range(2):
            x = torch.randn(10, 6)
            log.outs.append(student(x))
            log.goals.append(teacher(x))
        loss = log.loss()
        opt.zero_grad()
        loss.backward()
        opt.step()

train()
"""
KEYS = f"""\
{HEAD}
log = {{"out": [], "aim": []}}
for step in range(20):
    for _ in range(3):
        x = torch.randn(10, 6)
        log["out"].append(student(x).log_softmax(1))
        log["aim"].append(teacher(x).argmax(1))
    loss = torch.stack([nn.functional.nll_loss(a, b) for a, b in zip(log["out"], log["aim"])]).mean()
{STEP}"""
PAIRS = f"""\
{HEAD}
pairs, weights = [], []
for step in range(20):
    x = torch.randn(10, 6)
    pairs.append((student(x), teacher(x)))
    weights.append(float(torch.rand(())))
    loss = 0.0
    for (out, aim), weight in zip(pairs, weights):
        loss = loss + weight * (out - aim).pow(2).mean()
{STEP}"""
COUNTED = f"""\
{HEAD}
losses, count = [], 0
for step in range(20):
    x = torch.randn(10, 6)
    losses.append((student(x) - teacher(x)).pow(2).mean())
    count += 1
    loss = sum(losses) / count
{STEP}"""
BANK = f"""\
{HEAD}
outs, bank = [], torch.zeros(0, 3)
for step in range(20):
    x = torch.randn(10, 6)
    outs.append(student(x))
    bank = torch.cat([bank, teacher(x)])
    loss = (torch.cat(outs) - bank[:sum(map(len, outs))]).pow(2).mean()
{STEP}"""
HISTORY = f"""\
{HEAD}
losses, history, count = [], [], 0
for step in range(20):
    x = torch.randn(10, 6)
    losses.append((student(x) - teacher(x)).pow(2).mean())
    count += 1
    loss = torch.stack(losses).mean()
    history.append(loss.detach())
    print(count, sum(history) / count)
{STEP}print("mean loss", torch.stack(history).mean())
"""
AFTER = "    opt.step()\n"


def behind(*lines: str, depth: int = 1) -> tuple[tuple[str, str], ...]:
    """The edit that adds *lines* behind the step."""
    step = f"{depth * '    '}opt.step()\n"
    return ((step, step + "".join(f"{depth * '    '}{line}\n" for line in lines)),)


LEFT = (5, "which grew along with it and is read beside it")
CASES = (
    Case(
        "features of a student and of its teacher that hooks keep",
        HOOKS,
        (
            Patch("both are emptied", True, behind("for tap in taps:", "    tap.kept.clear()"), (5, "truncated")),
            Patch("the student's alone are emptied", False, behind("taps[0].kept.clear()"), LEFT),
        ),
    ),
    Case(
        "two lists that are read in parallel",
        LISTS,
        (
            Patch("both are emptied", True, behind("ours.clear()", "theirs.clear()")),
            Patch("both are made anew", True, behind("ours, theirs = [], []")),
            Patch("one of them is emptied", False, behind("ours.clear()"), LEFT),
            Patch("one of them is made anew", False, behind("ours = []"), LEFT),
        ),
    ),
    Case(
        "two lists with equal numbers",
        NUMBERED,
        (
            Patch("both are emptied", True, behind("del ours[:], theirs[:]")),
            Patch("one of them is emptied", False, behind("del ours[:]"), LEFT),
        ),
    ),
    Case(
        "two deques that are read in parallel",
        LISTS.replace("[], []", "deque(), deque(maxlen=50)"),
        (
            Patch("both are emptied", True, behind("ours.clear()", "theirs.clear()")),
            Patch("one of them is emptied", False, behind("ours.clear()"), LEFT),
        ),
    ),
    Case(
        "two lists of an object whose method reads them",
        WITHIN,
        (
            Patch("both are emptied", True, behind("log.outs.clear()", "log.goals.clear()", depth=2)),
            Patch("all of it is made anew", True, behind("log = Log()", depth=2)),
            Patch("one of them is emptied", False, behind("log.outs.clear()", depth=2), LEFT),
        ),
    ),
    Case(
        "two lists of one mapping",
        KEYS,
        (
            Patch("both are emptied", True, behind("for items in log.values():", "    items.clear()")),
            Patch("one of them is emptied", False, behind('log["out"].clear()'), LEFT),
        ),
    ),
    Case(
        "pairs, and their weights",
        PAIRS,
        (
            Patch("all are emptied", True, behind("pairs.clear()", "weights.clear()")),
            Patch("the pairs alone are emptied", False, behind("pairs.clear()"), LEFT),
        ),
    ),
    Case(
        "losses, and their number",
        COUNTED,
        (
            Patch("both begin anew", True, behind("losses, count = [], 0")),
            Patch("the losses alone are emptied", False, behind("losses.clear()"), (5, "and not `count`")),
        ),
    ),
    Case(
        "outputs, and a tensor of all targets",
        BANK,
        (
            Patch("both begin anew", True, behind("outs, bank = [], torch.zeros(0, 3)")),
            Patch("the outputs alone are emptied", False, behind("outs.clear()"), LEFT),
        ),
    ),
    Case(
        "losses beside a history that is shown",
        HISTORY,
        (Patch("the losses alone are emptied", True, behind("losses.clear()")),),
    ),
)  # fmt: skip
