"""Parameters that a loop freezes by their names or their numbers, beside what PyTorch says of the same program."""

from __future__ import annotations

import warnings

import pytest

from autofix.codemods.facts.changed import LeafChanged
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

pytest.importorskip("torch")

NETWORK = """
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
        self.scale = nn.Parameter(torch.ones(4))
        self.head = nn.Linear(4, 1)
    def features(self, x):
        return self.body(x).tanh() * self.scale
    def forward(self, x):
        return self.head(self.features(x))
net = Net()
X = torch.randn(5, 3)
"""
CHOICES = {
    "all-but-a-name": 'for n, p in {named}:\n    if "head" not in n:\n        p.requires_grad = False',
    "every-name": "for n, p in {named}:\n    p.requires_grad = False",
    "no-name": 'for n, p in {named}:\n    if "tail" in n:\n        p.requires_grad = False',
    "kinds": 'for n, p in {named}:\n    p.requires_grad_("weight" not in n)',
    "first": "for i, p in enumerate(net.parameters()):\n    if i < 3:\n        p.requires_grad = False",
    "all-numbers": "for i, p in enumerate(net.parameters()):\n    if i < 40:\n        p.requires_grad = False",
    "comparison": "for i, p in enumerate(net.parameters()):\n    p.requires_grad = i >= 5",
    "counter": "at = 0\nfor p in net.parameters():\n    at += 1\n    if at <= 5:\n        p.requires_grad = False",
    "slice": "for p in list(net.parameters())[:-2]:\n    p.requires_grad = False",
    "flag": "on = 0\nfor n, p in {named}:\n    on = on or n.startswith('head')\n    p.requires_grad = bool(on)",
    "any": "for n, p in {named}:\n    p.requires_grad = any(one in n for one in ('head',))",
    "first-part": "for n, p in {named}:\n    if n.split('.')[0] != 'head':\n        p.requires_grad_(False)",
    "state": (
        "frozen = [k for k in net.state_dict() if 'head' not in k]\n"
        "for n, p in {named}:\n    if n in frozen:\n        p.requires_grad = False"
    ),
    "filter": (
        "frozen = set(filter(lambda n: not n.startswith('head'), dict({named})))\n"
        "for n, p in {named}:\n    p.requires_grad = n not in frozen"
    ),
    "group": (
        "import re\nfor n, p in {named}:\n    m = re.match(r'body\\.(\\d+)', n)\n"
        "    if m and int(m.group(1)) < 1 or not m and n != 'head.weight':\n        p.requires_grad = False"
    ),
    "replaced": (
        "for m in net.body:\n    for n, p in list(m.named_parameters(recurse=False)):\n"
        "        setattr(m, n, nn.Parameter(p.data, requires_grad=False))"
    ),
    "replaced-in-vain": (
        "for m in [*net.body, net.head]:\n    for n, p in list(m.named_parameters(recurse=False)):\n"
        "        setattr(m, n, nn.Parameter(p.data * 2))"
    ),
    "break": "for n, p in {named}:\n    if 'head' in n:\n        break\n    p.requires_grad = False",
}
USES = {
    "the features of a part before the loop": """
optimizer = torch.optim.SGD(net.parameters(), 0.1)
features = net.features(X)
for step in range(3):
    optimizer.zero_grad()
    net.head(features).pow(2).mean().backward()
    optimizer.step()
""",
    "a whole pass": """
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    net(X).pow(2).mean().backward()
    optimizer.step()
""",
    "a change in place": """
for step in range(3):
    net.body[0].weight.mul_(0.9)
    loss = net(X).pow(2).mean()
""",
}


def fails(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(text, "train.py", "exec"), {})
    except RuntimeError:
        return True
    return False


def is_found(text: str) -> bool:
    facts = analyze(Program.of(text, "train.py")).facts
    return any(isinstance(fact, StaleGraph | CutGraph | LeafChanged) for fact in facts)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_the_frozen_parameters_are_those_that_pytorch_freezes(choice: str, use: str) -> None:
    text = NETWORK + choice.replace("{named}", "net.named_parameters()") + "\n" + use
    assert is_found(text) == fails(text)


@pytest.mark.parametrize("made", ["torch.hub.load('a/b', 'resnet')", "nn.LSTM(3, 4)", "nn.MultiheadAttention(4, 2)"])
def test_numbers_freeze_nothing_for_certain_where_the_parameters_are_not_known(made: str) -> None:
    text = f"""
import torch
from torch import nn
net, head = {made}, nn.Linear(4, 1)
for i, p in enumerate(net.parameters()):
    if i < 2:
        p.requires_grad = False
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for x in torch.randn(3, 5, 3):
    optimizer.zero_grad()
    net(x)[0].pow(2).mean().backward()
    optimizer.step()
"""
    assert not is_found(text)
