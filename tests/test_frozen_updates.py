"""A frozen network that follows a trained one, outside of ``no_grad``, takes in the graph of every update."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autofix.codemods.facts.base import Certainty  # noqa: E402
from autofix.codemods.facts.kept import GraphHeld  # noqa: E402
from autofix.codemods.repair import Mended, mend  # noqa: E402
from autofix.codemods.rules.registry import all_codemods  # noqa: E402
from autofix.codemods.source.program import Program  # noqa: E402

STEPS = 8
PROGRAM = f"""\
import copy
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
average = copy.deepcopy(net)
average.requires_grad_(False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)

def follow(target, source, decay=0.9):
    for t, s in zip(target.parameters(), source.parameters()):
        UPDATE

for step in range({STEPS}):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    follow(average, net)
"""
UPDATES = [
    "t.mul_(decay).add_(s, alpha=1 - decay)",
    "t.copy_(t * decay + s * (1 - decay))",
    "t.copy_(s)",
    "t.lerp_(s, 1 - decay)",
    "t[:] = decay * t + (1 - decay) * s",
    "t *= decay; t += (1 - decay) * s",
    "t.sub_((1 - decay) * (t - s))",
]
HARMLESS = [
    "t.data.mul_(decay).add_(s, alpha=1 - decay)",
    "t.mul_(decay).add_(s.data, alpha=1 - decay)",
    "t.copy_(decay * t + (1 - decay) * s.detach())",
    "t.data = decay * t.data + (1 - decay) * s.data",
    "t.detach().copy_(s.detach())",
]


def history(text: str) -> int:
    """Number of operations in the graphs of the averaged parameters, once a program has run."""
    names: dict[str, Any] = {}
    exec(text, names)
    pending = [one.grad_fn for one in names["average"].parameters()]
    seen: set[Any] = set()
    while pending:
        node = pending.pop()
        if node is not None and node not in seen:
            seen.add(node)
            pending += [following for following, _ in node.next_functions]
    return len(seen)


def mended(text: str) -> Mended:
    return mend(Program.of(text, "train.py"), all_codemods())


@pytest.mark.parametrize("update", UPDATES)
def test_the_update_goes_under_no_grad(update: str) -> None:
    text = PROGRAM.replace("UPDATE", update)
    assert history(text) > STEPS
    found = mended(text)
    assert [(type(one), one.certainty) for one in found.observation.facts] == [(GraphHeld, Certainty.CERTAIN)]
    assert history(found.patched.files[0].text) == 0
    assert not found.left


@pytest.mark.parametrize("update", HARMLESS)
def test_an_update_without_a_graph_is_no_mistake(update: str) -> None:
    text = PROGRAM.replace("UPDATE", update)
    assert history(text) == 0
    assert not mended(text).observation.facts


@pytest.mark.parametrize("guard", ["@torch.no_grad()\ndef follow", "@torch.inference_mode()\ndef follow"])
def test_an_update_under_no_grad_is_no_mistake(guard: str) -> None:
    assert not mended(PROGRAM.replace("def follow", guard).replace("UPDATE", UPDATES[0])).observation.facts


def test_an_update_that_a_pass_goes_through_keeps_no_graph_for_nothing() -> None:
    text = PROGRAM.replace("UPDATE", UPDATES[1]).replace("    follow(average, net)\n", "")
    text = text.replace(
        "    loss = net",
        "    average = copy.deepcopy(net).requires_grad_(False)\n    follow(average, net)\n    loss = average",
    )
    assert history(text) > 0
    assert not mended(text).observation.facts


SHADOW = f"""\
import torch
from torch import nn

net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
shadow = {{name: p.detach().clone() for name, p in net.named_parameters()}}
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range({STEPS}):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    for name, p in net.named_parameters():
        UPDATE
average = nn.ParameterList()
average.parameters = shadow.values
"""


@pytest.mark.parametrize(
    "update",
    [
        "shadow[name].mul_(0.9).add_(p, alpha=0.1)",
        "shadow[name].copy_(0.9 * shadow[name] + 0.1 * p)",
        "shadow[name] = 0.9 * shadow[name] + 0.1 * p",
        "new = 0.9 * shadow[name] + 0.1 * p; shadow[name] = new",
        "new = 0.9 * shadow[name] + 0.1 * p; shadow[name] = new.clone()",
        "new = torch.lerp(shadow[name], p * 1.0, 0.1); shadow[name] = new",
    ],
)
def test_averages_by_the_names_of_parameters_keep_no_graphs(update: str) -> None:
    text = SHADOW.replace("UPDATE", update)
    assert history(text) > STEPS
    found = mended(text)
    assert {type(one) for one in found.observation.facts} == {GraphHeld}
    assert history(found.patched.files[0].text) == 0
    assert not mended(
        text.replace("* p", "* p.detach()").replace("add_(p,", "add_(p.data,").replace("p * 1.0", "p.data")
    ).observation.facts
