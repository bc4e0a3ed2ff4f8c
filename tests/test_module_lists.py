"""Lists and dictionaries of modules, and of parameters: filled, changed, joined and taken from as PyTorch does it."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.changed import LeafChanged
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from tests.test_python_idioms import in_python, on_the_tape

IMPORTS = """\
import torch
from torch import nn
from collections import OrderedDict
def layers():
    return [nn.Linear(4, 4), nn.Tanh(), nn.ReLU()]
class Stack(nn.ModuleList):
    pass
class Chain(nn.Sequential):
    def __init__(self, *parts):
        super().__init__(*parts)
        self.extend([nn.Sigmoid()])
"""
ITEMS = """\
m = nn.ModuleList(); m.extend(layers())
m = nn.ModuleList(layers()); m += [nn.GELU()]
m = nn.ModuleList(layers()); m += nn.ModuleList([nn.GELU()])
m = nn.ModuleList(layers()); m.insert(0, nn.GELU())
m = nn.ModuleList(layers()); m.insert(2, nn.GELU())
m = nn.ModuleList([nn.GELU()]) + nn.ModuleList(layers())
m = nn.ModuleList([nn.GELU()]) + layers()
m = nn.ModuleList([nn.GELU()]).append(nn.Linear(4, 4)).extend(layers())
m = nn.ModuleList(nn.Sequential(*layers()))
m = nn.ModuleList(modules=layers())
m = nn.ModuleList(make() for make in (nn.GELU, nn.Tanh))
m = nn.ModuleList(layers())[1:]
m = nn.ModuleList([nn.ModuleList(layers())[1:][0]])
m = nn.ModuleList(layers()); m[-1] = nn.GELU()
m = nn.ModuleList(layers()); del m[0]; m.append(nn.GELU()); m = [m[0], m[-1]]
m = nn.ModuleList(layers()); del m[1:]
m = nn.ModuleList(layers()); taken = m.pop(1); m = [*m, taken]
m = list(reversed(nn.ModuleList(layers())))
m = Stack(layers()); m.extend([nn.GELU()]); m += [nn.Tanh()]; m.insert(1, nn.GELU())
m = Stack(layers()); m[0] = nn.GELU()
m = [nn.ModuleList(layers())[-1]] * len(nn.ModuleList(layers())[:2])
m = [nn.GELU()] * len(Stack(layers()))
m = nn.Sequential(); m.extend(layers())
m = nn.Sequential(*layers()); m += nn.Sequential(nn.GELU())
m = nn.Sequential(nn.GELU()) + nn.Sequential(*layers())
m = nn.Sequential(*layers()) * 2
m = nn.Sequential(*layers()).append(nn.GELU()).insert(0, nn.GELU())
m = nn.Sequential(*layers()).insert(-1, nn.GELU())
m = nn.Sequential(OrderedDict(a=nn.Tanh(), b=nn.ReLU())); m[0] = nn.GELU()
m = nn.Sequential(OrderedDict(a=nn.Tanh(), b=nn.ReLU())); m = [m.pop(-1), m[0]]
m = nn.Sequential(*sum([layers() for _ in range(2)], []))
m = nn.Sequential(*sum((layers(), [nn.GELU()]), start=[nn.GELU()]))
m = nn.Sequential(*reversed(nn.Sequential(*layers())))
m = Chain(*layers())
d = nn.ModuleDict(); d.update({"a": nn.Tanh(), "b": nn.ReLU()}); m = d.values()
d = nn.ModuleDict({"a": nn.Tanh()}); d.update(nn.ModuleDict({"a": nn.GELU(), "b": nn.ReLU()})); m = d.values()
d = nn.ModuleDict([("a", nn.Tanh()), ("b", nn.ReLU())]); m = [d["b"], d["a"]]
d = nn.ModuleDict([["a", nn.Tanh()]]); d.update([["b", nn.ReLU()]]); m = [d[name] for name in d]
d = nn.ModuleDict({"a": nn.Tanh(), "b": nn.ReLU()}); m = [d.pop("a"), *d.values()]
d = nn.ModuleDict({"a": nn.Tanh(), "b": nn.ReLU()}); del d["a"]; m = list(d.values())
d = nn.ModuleDict({"a": nn.Tanh()}); d.clear(); m = list(d.values())
"""


@pytest.mark.parametrize("text", ITEMS.splitlines())
def test_the_items_are_those_that_pytorch_has(text: str) -> None:
    program = f"{IMPORTS}{text}\nr = [type(one).__name__ for one in m]\n"
    assert on_the_tape(program) == in_python(program)


PARAMETERS = """\
self.p = nn.ParameterList(); self.p.extend([torch.randn(4, 4)])
self.p = nn.ParameterList([torch.randn(4, 4)])
self.p = nn.ParameterList([]); self.p += [nn.Parameter(torch.randn(4, 4))]
self.p = nn.ParameterList(); self.p.append(torch.randn(4, 4))
self.p = nn.ParameterList([torch.ones(4, 4)]); self.p[0] = torch.randn(4, 4)
d = nn.ParameterDict({"w": torch.randn(4, 4)}); self.d, self.p = d, [d["w"]]
d = nn.ParameterDict(); d.update({"w": torch.randn(4, 4)}); self.d, self.p = d, [d["w"]]
d = nn.ParameterDict(); d["w"] = torch.randn(4, 4); self.d, self.p = d, list(d.values())
d = nn.ParameterDict(); d.setdefault("w", torch.randn(4, 4)); self.d, self.p = d, [d.get("w")]
"""
NET = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        {}
    def forward(self, x):
        return x @ self.p[0]
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
{}for _ in range(3):
{}    opt.zero_grad()
    loss.backward()
    opt.step()
"""
LOSS = "loss = net(torch.randn(3, 4)).mean()\n"


@pytest.mark.parametrize("made", PARAMETERS.splitlines())
def test_plain_tensors_become_parameters(made: str) -> None:
    found = analyze(Program.of(NET.format(made, LOSS, ""), "train.py")).facts
    assert [type(fact) for fact in found] == [StaleGraph]
    assert not analyze(Program.of(NET.format(made, "", f"    {LOSS}"), "train.py")).facts


FLOW = """\
import torch
from torch import nn
class Norm(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.shift, self.scale = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(d))
    def forward(self, x):
        return (x + self.shift) * self.scale.exp_()
class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList()
        for k in range(2):
            self.steps.extend([nn.Linear(4, 4), Norm(4)])
        self.out = nn.Linear(4, 1)
    def forward(self, x):
        for step in self.steps:
            x = step(x)
        return self.out(x)
flow = Flow()
opt = torch.optim.Adam(flow.parameters(), 1e-2)
for _ in range(4):
    loss = flow(torch.randn(16, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_patch_does_not_cut_off_the_layers_that_a_list_was_extended_by() -> None:
    mended = mend(Program.of(FLOW, "train.py"), all_codemods())
    assert [type(fact) for fact in mended.observation.facts] == [LeafChanged]
    assert "no_grad" not in mended.patched.files[0].text
