"""Stores that programs fill and empty in less usual ways, beside their twins that keep a graph."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

BEGIN = """\
import weakref
import torch
from torch import nn
from torch.func import functional_call
enc, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], 0.1)
X = torch.randn(5, 3)
class Buffer(list):
    def reset(self):
        del self[:]
    def forget(self):
        del self[:1]
"""
ONCE_EACH = {
    "setdefault": "f = cache.setdefault({key}, enc(X).tanh())",
    "asked": "if {key} not in cache:\n        cache[{key}] = enc(X).tanh()\n    f = cache[{key}]",
    "awaited": "try:\n        f = cache[{key}]\n    except KeyError:\n        f = cache[{key}] = enc(X).tanh()",
}
CACHE = """\
cache = {{}}
for i in range(4):
    {made}
    opt.zero_grad()
    head(f).pow(2).mean().backward()
    opt.step()
"""
EMPTIED = """\
buffer = Buffer()
for turn in range(3):
    for _ in range(3):
        buffer.append(head(enc(X)).mean())
    opt.zero_grad()
    sum(buffer).backward()
    opt.step()
    {end}
"""
KEPT = """\
kept = {made}
for i in range(4):
    loss = head(enc(X)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {keep}
"""
CALLED = """\
s = torch.zeros(())
for i in range(4):
    loss = head(enc(X)).pow(2).mean() * (1 + s ** 2)
    opt.zero_grad()
    loss.backward()
    opt.step()
    weights = {{name: {weight} for name, p in head.named_parameters()}}
    s = 0.9 * s + functional_call(head, weights, ({given},)).mean()
"""
REPLACED = """\
class Virtual:
    def put(self, module, name, value):
        if "." in name:
            first, rest = name.split(".", 1)
            for own, child in module.named_children():
                if own == first:
                    self.put(child, rest, value)
        else:
            {put}
    def step(self, net, grads):
        for (name, p), g in zip(net.named_parameters(), grads):
            p.detach_()
            self.put(net, name, p - 0.1 * g)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.last = nn.Linear(4, 1)
    def forward(self, x):
        return self.last(self.body(x))
for _ in range(3):
    net = Net()
    loss = (head(enc(X)).sigmoid() * net(X)).mean()
    Virtual().step(net, torch.autograd.grad(loss, list(net.parameters()), create_graph=True))
    opt.zero_grad()
    net(X).mean().backward()
    opt.step()
"""


def certain(text: str) -> list[Fact]:
    facts = analyze(Program.of(BEGIN + textwrap.dedent(text), "train.py")).facts
    return [fact for fact in facts if fact.certainty is Certainty.CERTAIN]


@pytest.mark.parametrize("way", ONCE_EACH)
def test_what_is_made_for_each_key_is_new_for_a_new_key(way: str) -> None:
    assert not certain(CACHE.format(made=ONCE_EACH[way].format(key="i")))
    assert certain(CACHE.format(made=ONCE_EACH[way].format(key="'f'")))
    again = CACHE.format(made=ONCE_EACH[way].format(key="i")).replace("\n", "\n    ").replace("cache = {}", "", 1)
    assert certain(f"cache = {{}}\nfor epoch in range(2):{again}")


@pytest.mark.parametrize("end", ["buffer.reset()", "list(map(list.clear, [buffer]))", "list.clear(buffer)"])
def test_a_list_is_emptied(end: str) -> None:
    assert not certain(EMPTIED.format(end=end))


@pytest.mark.parametrize("end", ["buffer.forget()", "list(map(list.sort, [[1]]))", "list.reverse(buffer)"])
def test_a_list_is_not_emptied(end: str) -> None:
    assert certain(EMPTIED.format(end=end))


def test_weak_containers_keep_nothing() -> None:
    for made, keep in (("weakref.WeakSet()", "kept.add(loss)"), ("weakref.WeakValueDictionary()", "kept[i] = loss")):
        assert not certain(KEPT.format(made=made, keep=keep))
    for made, keep in (("set()", "kept.add(loss)"), ("{}", "kept[i] = loss")):
        assert certain(KEPT.format(made=made, keep=keep))


def test_a_module_that_is_called_with_copies_has_only_the_graph_of_its_inputs() -> None:
    assert not certain(CALLED.format(weight="p.detach()", given="enc(X).detach()"))
    assert certain(CALLED.format(weight="p", given="enc(X).detach()"))
    assert certain(CALLED.format(weight="p.detach()", given="enc(X)"))


def test_parameters_are_replaced_in_the_table_of_a_module() -> None:
    assert not certain(REPLACED.format(put="module._parameters[name] = value"))
    assert certain(REPLACED.format(put="pass"))
