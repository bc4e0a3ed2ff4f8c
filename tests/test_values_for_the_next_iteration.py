"""A value for the next iteration's pass, computed before the step, comes behind it: detached, it would not train."""

from __future__ import annotations

import difflib
import io
from contextlib import redirect_stdout

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
torch.manual_seed(0)
encoder = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8))
actor, critic = nn.Linear(8, 2), nn.Linear(3, 1)
opt = torch.optim.SGD([*encoder.parameters(), *actor.parameters(), *critic.parameters()], lr=0.05)
"""
STEP = """
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.item())
"""
SHAPES = {
    "a name that nobody reads before the step": (
        f"""
obs = torch.randn(3)
state = encoder(obs)
for t in range(6):
    logits = actor(state)
    new = torch.randn(3)
    state = encoder(new)
    advantage = float(new.sum()) - critic(obs)
    loss = advantage.pow(2).sum() - logits.log_softmax(-1)[0] * advantage.detach().sum()
    obs = new{STEP}""",
        ["    state = encoder(new)"],
        (
            "    obs = new\n",
            "    obs = new\n",
            "    print(loss.item())\n",
            "    print(loss.item())\n    state = encoder(obs)\n",
        ),
    ),
    "a name that a target reads": (
        f"""
obs = torch.randn(3)
q = actor(encoder(obs))
for t in range(6):
    action = int(q.argmax())
    value = q[action]
    obs = torch.randn(3)
    q = actor(encoder(obs))
    loss = (value - obs.sum() - 0.9 * q.max().detach()).pow(2){STEP}""",
        ["    q = actor(encoder(obs))"],
        ("    print(loss.item())\n", "    print(loss.item())\n    q = actor(encoder(obs))\n"),
    ),
    "an attribute, in a method": (
        """
class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
        self.opt = torch.optim.SGD(self.q.parameters(), lr=0.05)
        self.now = self.q(torch.randn(3))

    def tick(self):
        value = self.now[int(self.now.argmax())]
        new = torch.randn(3)
        self.now = self.q(new)
        loss = (value - new.sum() - 0.9 * self.now.max().detach()).pow(2)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

agent = Agent()
for t in range(6):
    print(agent.tick())
""",
        ["        self.now = self.q(new)"],
        ("        self.opt.step()\n", "        self.opt.step()\n        self.now = self.q(new)\n"),
    ),
    "an item of a dictionary": (
        f"""
memory = {{"q": actor(encoder(torch.randn(3)))}}
while len(memory) < 7:
    value = memory["q"].max()
    new = torch.randn(3)
    memory[len(memory)] = new
    memory["q"] = actor(encoder(new))
    loss = (value - new.sum() - 0.9 * memory["q"].max().item()).pow(2){STEP}""",
        ['    memory["q"] = actor(encoder(new))'],
        ("    opt.step()\n", '    opt.step()\n    memory["q"] = actor(encoder(new))\n'),
    ),
}
OTHERS = {
    "what it is computed of is another one behind the step": f"""
obs = torch.randn(3)
state = encoder(obs)
for t in range(6):
    logits = actor(state)
    state = encoder(obs)
    obs = torch.randn(3)
    loss = critic(obs).pow(2).sum() - logits.log_softmax(-1)[0]{STEP}""",
    "a state that is computed of the last one": f"""
cell, state = nn.Linear(8, 8), torch.zeros(8)
for t in range(6):
    loss = actor(state).pow(2).sum()
    state = torch.tanh(cell(state) + encoder(torch.randn(3))){STEP}""",
}


def _run(text: str) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    return shown.getvalue()


def _patched(text: str) -> tuple[str, list[str]]:
    patched = mend(Program.of(text, "train.py"), all_codemods()).patched.files[0].text
    rows = difflib.ndiff(text.splitlines(), patched.splitlines())
    return patched, [row[2:] for row in rows if row.startswith("+ ")]


@pytest.mark.parametrize(("text", "added", "repair"), SHAPES.values(), ids=SHAPES)
def test_the_value_is_computed_behind_the_step(text: str, added: list[str], repair: tuple[str, ...]) -> None:
    program = HEADER + text
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        _run(program)
    patched, lines = _patched(program)
    assert lines == added
    customary = program
    for old, new in zip(repair[::2], repair[1::2], strict=True):
        customary = customary.replace(old, new)
    assert _run(patched) == _run(customary)


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_another_value_is_not_computed_behind_the_step(text: str) -> None:
    _, lines = _patched(HEADER + text)
    assert not [line for line in lines if line.strip().startswith("state = encoder(")]
