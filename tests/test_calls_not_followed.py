"""Methods that are called in unusual ways: a state that one of them resets is not certainly carried on."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

BEGIN = """\
import contextlib, functools, time
import torch
from torch import nn
"""
CARRIED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.h = torch.zeros(2, 4)
        self.calls = 0
    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.h
    def cut(self):
        {body}
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
{before}
for x in torch.randn(4, 2, 3):
    opt.zero_grad()
    net(x).pow(2).mean().backward()
    opt.step()
    {call}
"""
WRAPPER = """\
class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)
wrapped = Wrapper(net)
"""
DELEGATE = """\
class Delegate:
    def __init__(self, of):
        self._of = of
    def __getattr__(self, name):
        if name in self.__dict__:
            return self.__dict__[name]
        return getattr(self._of, name)
delegate = Delegate(net)
"""
DISPATCHED = """\
@functools.singledispatch
def cut(of):
    pass
@cut.register
def _(of: Net):
    of.cut()
"""
RECURSIVE = """\
def down(n):
    if n == 0:
        net.cut()
    else:
        down(n - 1)
"""
SCHEDULER = """\
class Scheduler(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        net.cut()
        return [group["lr"] for group in self.optimizer.param_groups]
scheduler = Scheduler(opt)
"""
WAYS = {
    "wrapper": (WRAPPER, "wrapped.cut()"),
    "delegate": (DELEGATE, "delegate.cut()"),
    "closing": ("class Guard:\n    def close(self):\n        net.cut()", "with contextlib.closing(Guard()): pass"),
    "text": ("", "exec('net.cut()')"),
    "by its type": (DISPATCHED, "cut(net)"),
    "by itself": (RECURSIVE, "down(4)"),
    "by a library": (SCHEDULER, "scheduler.step()"),
    "by a prefix": ("", "for name in [n for n in dir(net) if n.startswith('cu')]: getattr(net, name)()"),
    "by a key": ("", "vars(type(net))['cut'](net)"),
    "bound by hand": ("", "Net.cut.__get__(net)()"),
    "decorated": (
        "@contextlib.contextmanager\ndef cutting():\n    yield\n    net.cut()\n@cutting()\ndef nothing(): pass",
        "nothing()",
    ),
}


def certain(text: str) -> list[Fact]:
    facts = analyze(Program.of(BEGIN + textwrap.dedent(text), "train.py")).facts
    return [fact for fact in facts if fact.certainty is Certainty.CERTAIN]


@pytest.mark.parametrize("way", WAYS)
def test_a_state_that_is_reset_in_an_unusual_way_is_not_certainly_carried(way: str) -> None:
    before, call = WAYS[way]
    assert not certain(CARRIED.format(body="self.h = self.h.detach()", before=before, call=call))


@pytest.mark.parametrize("way", WAYS)
def test_what_resets_nothing_leaves_a_state_certainly_carried(way: str) -> None:
    before, call = WAYS[way]
    assert certain(CARRIED.format(body="self.calls += 1", before=before, call=call))


def test_another_object_with_a_method_of_the_same_name_resets_nothing() -> None:
    before = "class Env:\n    def cut(self):\n        return torch.zeros(2, 3)\nenv = Env()"
    assert certain(CARRIED.format(body="self.h = self.h.detach()", before=before, call="env.cut()"))


GLOBAL = """\
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
h = torch.zeros(2, 4)
kept = []
def reset(epoch):
    {body}
{before}
for x in torch.randn(4, 2, 3):
    kept.append(cell(x, h))
    {carry}
    opt.zero_grad()
    sum(kept).mean().backward()
    opt.step()
    {call}
"""
HANDED_ON = {
    "scheduler": ("scheduler = torch.optim.lr_scheduler.LambdaLR(opt, reset)", "scheduler.step()"),
    "thread": (
        "import concurrent.futures\npool = concurrent.futures.ThreadPoolExecutor(1)",
        "pool.submit(reset, 0).result()",
    ),
}


@pytest.mark.parametrize("way", HANDED_ON)
def test_a_function_that_is_handed_on_may_reset_a_name(way: str) -> None:
    before, call = HANDED_ON[way]
    given = {"before": before, "call": call, "carry": "pass"}
    assert not certain(GLOBAL.format(body="kept.clear()\n    return 1.0", **given))
    assert certain(GLOBAL.format(body="print(epoch)\n    return 1.0", **given))
    given["carry"] = "h = kept.pop()\n    kept = [h]"
    assert not certain(GLOBAL.format(body="global h\n    h = h.detach()\n    return 1.0", **given))
    assert certain(GLOBAL.format(body="h = torch.zeros(2, 4)\n    return 1.0", **given))


FEATURES = """\
enc, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD(head.parameters(), 0.1)
{made}
for _ in range(3):
    opt.zero_grad()
    head(f.tanh()).pow(2).mean().backward()
    opt.step()
"""
FROZEN = {
    "decorator of its own": """\
class Frozen(contextlib.ContextDecorator):
    def __enter__(self):
        self.before = torch.is_grad_enabled()
        torch.set_grad_enabled(False)
    def __exit__(self, *error):
        torch.set_grad_enabled(self.before)
@Frozen()
def features(x):
    return enc(x)
f = features(torch.randn(4, 3))
""",
    "generator as a decorator": """\
@contextlib.contextmanager
def frozen():
    with torch.no_grad():
        yield
class Model:
    @frozen()
    def features(self, x):
        return enc(x)
f = Model().features(torch.randn(4, 3))
""",
    "class of its own": """\
class Frozen(torch.no_grad):
    pass
with Frozen():
    f = enc(torch.randn(4, 3))
""",
    "class of its own as a decorator": """\
class Frozen(torch.no_grad):
    def __enter__(self):
        super().__enter__()
@Frozen()
def features(x):
    return enc(x)
f = features(torch.randn(4, 3))
""",
    "another forward": "enc.forward = torch.no_grad()(enc.forward)\nf = enc(torch.randn(4, 3))",
    "another forward of a class": """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 4)
    def forward(self, x):
        return self.layer(x)
net = Net()
before = net.forward
def forward(x):
    with torch.no_grad():
        return before(x)
net.forward = forward
f = net(torch.randn(4, 3))
""",
    "method of tensors": "torch.Tensor.cut = lambda self: self.detach()\nf = enc(torch.randn(4, 3)).cut()",
}
RECORDED = {
    "timer": """\
class Timer(contextlib.ContextDecorator):
    def __enter__(self):
        self.begun = time.time()
    def __exit__(self, *error):
        print(time.time() - self.begun)
@Timer()
def features(x):
    return enc(x)
f = features(torch.randn(4, 3))
""",
    "timer as a generator": """\
@contextlib.contextmanager
def timed(name):
    begun = time.time()
    yield
    print(name, time.time() - begun)
@timed("features")
def features(x):
    return enc(x)
f = features(torch.randn(4, 3))
""",
    "another forward": """\
class Net(nn.Module):
    def forward(self, x):
        return enc(x).detach()
net = Net()
net.forward = lambda x: enc(x)
f = net(torch.randn(4, 3))
""",
    "method of tensors": "torch.Tensor.twice = lambda self: self * 2\nf = enc(torch.randn(4, 3)).twice()",
}


@pytest.mark.parametrize("case", FROZEN)
def test_what_is_computed_without_a_graph_may_be_used_again(case: str) -> None:
    assert not certain(FEATURES.format(made=FROZEN[case]))


@pytest.mark.parametrize("case", RECORDED)
def test_what_is_computed_with_a_graph_may_not(case: str) -> None:
    assert certain(FEATURES.format(made=RECORDED[case]))
