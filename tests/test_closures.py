"""Values that a closure needs are computed in it; its counters and stores stay where they begin."""

from __future__ import annotations

import difflib

import pytest

from autofix.codemods import repair as search
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
torch.manual_seed(0)
net = torch.nn.Linear(3, 1)
x, y = torch.randn(20, 3), torch.randn(20, 1)
opt = torch.optim.LBFGS(net.parameters(), max_iter=4)
"""

CLOSURES = {
    "a list and a counter": (
        """
def fit():
    calls = 0
    for epoch in range(3):
        loss = (net(x) - y).pow(2).mean()
        history = []
        best, worst = 1e9, 0
        def closure():
            nonlocal calls
            calls += 1
            opt.zero_grad()
            loss.backward()
            history.append(loss.item())
            return loss
        opt.step(closure)
        print(epoch, history, best, worst, calls)
fit()
""",
        ["            loss = (net(x) - y).pow(2).mean()"],
    ),
    "a sum that the step adds to": (
        """
def epoch(rows):
    code = net(x)
    seen = 0.0
    def update(picked):
        nonlocal seen
        loss = (code[picked] - y[picked]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        for p in net.parameters():
            p.data -= 0.1 * p.grad
        seen += loss.item()
    for picked in rows:
        update(picked)
    return seen
print(epoch(torch.randperm(20).split(5)))
""",
        ["        code = net(x)"],
    ),
    "a chain of attributes": (
        """
class Fit:
    def run(self):
        for epoch in range(3):
            self.residual = net(x) - y
            self.loss = self.residual.pow(2).mean()
            def closure():
                opt.zero_grad()
                self.loss.backward()
                return self.loss
            opt.step(closure)
Fit().run()
""",
        ["                self.residual = net(x) - y", "                self.loss = self.residual.pow(2).mean()"],
    ),
    "a chain of items": (
        """
def run(state):
    for epoch in range(3):
        state["residual"] = net(x) - y
        state["loss"] = state["residual"].pow(2).mean()
        def closure():
            opt.zero_grad()
            state["loss"].backward()
            return state["loss"]
        opt.step(closure)
run({})
""",
        ['            state["residual"] = net(x) - y', '            state["loss"] = state["residual"].pow(2).mean()'],
    ),
}


@pytest.mark.parametrize("case", CLOSURES, ids=str)
def test_a_closure_computes_what_it_sends_back(case: str) -> None:
    body, expected = CLOSURES[case]
    text = HEADER + body
    mended = mend(Program.of(text, "train.py"), all_codemods())
    assert mended.left == (), mended.refused
    delta = difflib.ndiff(text.splitlines(), mended.patched.files[0].text.splitlines())
    assert [line[2:] for line in delta if line.startswith("+ ")] == expected


def test_a_patch_that_does_not_compile_is_refused() -> None:
    assert search._compiles(Program.of("def f():\n    x = 1\n", "a.py"))
    late = "def f():\n    x = 0\n    def g():\n        x = 1\n        nonlocal x\n"
    assert not search._compiles(Program.of(late, "a.py"))


def test_losses_for_a_loop_behind_the_step_are_computed_after_it() -> None:
    text = """\
import torch
actors = [torch.nn.Linear(3, 2) for _ in range(2)]
critic = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
actor_opts = [torch.optim.Adam(actor.parameters()) for actor in actors]
critic_opt = torch.optim.Adam(critic.parameters())
def actor_losses(obs):
    losses = []
    for actor in actors:
        losses.append(-critic(torch.cat([obs, actor(obs)], 1)).mean())
    return losses
for step in range(9):
    obs, taken, goal = torch.randn(4, 3), torch.randn(4, 2), torch.randn(4, 1)
    value_loss = (critic(torch.cat([obs, taken], 1)) - goal).pow(2).mean()
    policy_losses = actor_losses(obs)
    critic_opt.zero_grad()
    value_loss.backward()
    critic_opt.step()
    for opt, loss in zip(actor_opts, policy_losses):
        opt.zero_grad()
        loss.backward()
        opt.step()
"""
    mended = mend(Program.of(text, "train.py"), all_codemods())
    assert mended.left == (), mended.refused
    moved = "    policy_losses = actor_losses(obs)\n"
    expected = text.replace(moved, "").replace("    critic_opt.step()\n", "    critic_opt.step()\n" + moved)
    assert mended.patched.files[0].text == expected
    assert [repair.cause.line for repair in mended.repairs] == [14]
