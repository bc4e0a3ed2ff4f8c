"""Look-alikes whose state or store is let go in an easily overlooked way: by managers, hooks, setters, maps."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

HEADER = """\
import contextlib
import functools
import operator
import torch
from torch import nn
from torch.utils._pytree import tree_map
AUX = []
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 3)
        self.h = None
        self._episode = 0
    def reset(self):
        self.h = None
    @property
    def episode(self):
        return self._episode
    @episode.setter
    def episode(self, number):
        self._episode = number
        self.h = None
    @contextlib.contextmanager
    def sequence(self):
        try:
            yield self
        finally:
            self.h = None
    def forward(self, x):
        self.h = self.cell(x, self.h)
        AUX.append(self.h.abs().mean())
        return self.h
class Fresh:
    def __init__(self, net):
        self.net = net
    def __enter__(self):
        return AUX
    def __exit__(self, *error):
        AUX.clear()
        self.net.reset()
class Loader:
    def __init__(self, net, count):
        self.net, self.count = net, count
    def __iter__(self):
        self.at = 0
        return self
    def __next__(self):
        if self.at >= self.count:
            raise StopIteration
        self.at += 1
        self.net.reset()
        AUX.clear()
        return torch.randn(4, 3)
@contextlib.contextmanager
def truncated(net):
    yield net
    net.h = net.h.detach()
    AUX.clear()
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def step(extra=0.0):
    loss = sum(net(torch.randn(4, 3)).pow(2).mean() for _ in range(3)) + extra
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

RIGHT = {
    "a generator's finally": """
        for i in range(20):
            with net.sequence():
                step()
            AUX.clear()
        """,
    "what a generator does after its yield": """
        for i in range(20):
            with truncated(net):
                step(sum(AUX))
        """,
    "a class's __exit__": """
        for i in range(20):
            with Fresh(net) as aux:
                net(torch.randn(4, 3))
                step(sum(aux))
        """,
    "ExitStack": """
        for i in range(20):
            with contextlib.ExitStack() as stack:
                stack.callback(net.reset)
                stack.enter_context(Fresh(net))
                step(sum(AUX))
        """,
    "hooks of the optimizer": """
        opt.register_step_post_hook(lambda *a: net.reset())
        opt.register_step_pre_hook(lambda *a: AUX.clear())
        for i in range(20):
            step(sum(AUX))
        """,
    "an iterator's __next__": """
        for x in Loader(net, 20):
            net(x)
            step(sum(AUX))
        """,
    "a property's setter": """
        for i in range(20):
            net.episode = i
            step()
            AUX.clear()
        """,
    "methodcaller": """
        for i in range(20):
            operator.methodcaller("reset")(net)
            step()
            AUX.clear()
        """,
    "detach as a function": """
        cell = nn.LSTMCell(3, 5)
        states = [(torch.zeros(4, 5), torch.zeros(4, 5)) for _ in range(5)]
        for i in range(20):
            states = [cell(torch.randn(4, 3), s) for s in states]
            loss = sum(h.pow(2).mean() for h, _ in states)
            opt.zero_grad(); loss.backward(); opt.step()
            states = [
                tuple(map(torch.detach, states[0])),
                tuple(torch.Tensor.detach(t) for t in states[1]),
                tuple([*map(torch.Tensor.detach, states[2])]),
                tree_map(lambda t: t.detach(), states[3]),
                tuple(torch.detach(t) for t in states[4]),
            ]
        """,
    "all passes but the last keep the graph": """
        w = nn.Parameter(torch.randn(4))
        opt = torch.optim.SGD([w], lr=0.1)
        for i in range(20):
            opt.zero_grad()
            z = (w * torch.randn(4)).tanh()
            for k in range(4):
                z[k].backward(retain_graph=k < 3)
            z = (w * torch.randn(4)).tanh()
            for k, value in enumerate(z):
                value.backward(retain_graph=k + 1 < len(z))
            z = (w * torch.randn(4)).tanh()
            for k in range(4):
                if k < 3:
                    z[k].backward(retain_graph=True)
                else:
                    z[k].backward()
            opt.step()
        """,
    "apply of a partial": """
        def forget(to, module):
            if isinstance(module, Net):
                module.h = to
        for i in range(20):
            step()
            net.apply(functools.partial(forget, None))
            AUX.clear()
        """,
    "what only evaluation keeps": """
        class Watched(nn.Module):
            def __init__(self):
                super().__init__()
                self.lin, self.seen, self.cache = nn.Linear(3, 3), [], None
            def forward(self, x):
                out = torch.sigmoid(self.lin(x))
                if not self.training:
                    self.seen.append(out)
                    out.mul_(2)
                    if self.cache is None:
                        self.cache = torch.exp(self.lin.weight)
                return out
        watched = Watched()
        sgd = torch.optim.SGD(watched.parameters(), lr=0.1)
        for i in range(20):
            loss = watched(torch.randn(4, 3)).mean()
            sgd.zero_grad(); loss.backward(); sgd.step()
            watched.eval()
            with torch.no_grad():
                watched(torch.randn(4, 3))
            watched.train()
        """,
    "a descriptor and a __setattr__ that detach": """
        class Detached:
            def __set_name__(self, owner, name):
                self.name = "_" + name
            def __get__(self, owner, kind):
                return getattr(owner, self.name)
            def __set__(self, owner, value):
                setattr(owner, self.name, value.detach())
        class First:
            state = Detached()
        class Second:
            def __setattr__(self, name, value):
                super().__setattr__(name, value.detach())
        class Third:
            def _get(self):
                return self._state
            def _set(self, value):
                self._state = value.detach()
            state = property(_get, _set)
        cell = nn.GRUCell(3, 3)
        sgd = torch.optim.SGD(cell.parameters(), lr=0.1)
        for kept in (First(), Second(), Third()):
            kept.state = torch.zeros(4, 3)
            for i in range(20):
                h = cell(torch.randn(4, 3), kept.state)
                sgd.zero_grad(); h.pow(2).mean().backward(); sgd.step()
                kept.state = h
        """,
    "caches by step, by version, by input": """
        w = nn.Parameter(torch.randn(4))
        sgd = torch.optim.SGD([w], lr=0.1)
        memo, last, versioned = {}, [None, None], {}
        def by_step(key):
            if key not in memo:
                memo.clear()
                memo[key] = torch.sigmoid(w)
            return memo[key]
        def by_key(key):
            if last[0] != key:
                last[0], last[1] = key, torch.sigmoid(w)
            return last[1]
        def by_version():
            if versioned.get("at") != w._version:
                versioned["at"], versioned["value"] = w._version, torch.sigmoid(w)
            return versioned["value"]
        for i in range(20):
            x = torch.randn(4)
            loss = (x * by_step(i)).sum() + by_step(i).sum() + by_key(i).sum() + by_version().pow(2).sum()
            sgd.zero_grad(); loss.backward(); sgd.step()
        """,
    "weak references and a registry by module": """
        import weakref
        both = nn.Sequential(net, nn.Sequential(Net(), nn.Tanh()))
        known, alive, states = weakref.WeakKeyDictionary(), weakref.WeakSet(), {}
        def members(model):
            found = known.get(model)
            if found is None:
                found = tuple(m for m in model.modules() if callable(getattr(m, "reset", None)))
                known[model] = tuple(weakref.ref(m) for m in found)
                return found
            return [m() for m in found]
        alive.update(members(both))
        for i in range(20):
            x = both(torch.randn(4, 3))
            for cell in both:
                x = x + states[cell] if cell in states else x
                states[cell] = torch.tanh(x)
            loss = x.pow(2).mean()
            opt.zero_grad(); loss.backward(); opt.step()
            for m in members(both) if i % 2 else alive:
                m.reset()
            AUX.clear()
            for cell in both:
                states.pop(cell)
        """,
    "a meter that takes numbers": """
        class Meter:
            def __init__(self):
                self.total = 0.0
            def __iadd__(self, loss):
                self.total += loss.item()
                return self
        meter = Meter()
        for i in range(20):
            loss = nn.Linear(3, 1)(torch.randn(4, 3)).mean()
            loss.backward()
            meter += loss
        """,
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_found_where_it_is_let_go_by(name: str) -> None:
    text = HEADER + textwrap.dedent(RIGHT[name])
    exec(compile(text, name, "exec"), {"__name__": "look_alike"})
    assert analyze(Program.of(text, "x.py", {})).facts == ()


BROKEN = {
    "a manager that lets nothing go": """
        @contextlib.contextmanager
        def told(net):
            yield net
            print(net.h is None)
        for i in range(20):
            with told(net):
                step()
        """,
    "a registry by module that nobody empties": """
        states = {}
        cells = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        sgd = torch.optim.SGD(cells.parameters(), lr=0.1)
        for i in range(20):
            x = torch.randn(4, 3)
            for cell in cells:
                x = cell(x + states[cell] if cell in states else x)
                states[cell] = x
            sgd.zero_grad(); x.mean().backward(); sgd.step()
            step()
        """,
    "a hook for something else": """
        opt.register_step_post_hook(lambda *a: print("step"))
        for i in range(20):
            step()
        """,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_still_found_with(name: str) -> None:
    found = analyze(Program.of(HEADER + textwrap.dedent(BROKEN[name]), "x.py", {})).facts
    assert found and {one.code for one in found} >= {"AF100", "AF200"}


MANY = """\
import functools, weakref
import torch
from torch import nn
KEPT = weakref.WeakKeyDictionary()
class Node(nn.Module):
    def __init__(self):
        super().__init__()
        self.v = 0.0
    def forward(self, x):
        self.v = self.v + x
        return self.v.tanh()
    def reset(self):
        self.v = 0.0
def nodes(net):
    return [m for m in net.modules() if isinstance(m, Node)]
def remembered(net):
    if net not in KEPT:
        KEPT[net] = tuple(weakref.ref(m) for m in nodes(net))
    found = []
    for reference in KEPT[net]:
        module = reference()
        if module is None:
            return nodes(net)
        found.append(module)
    return tuple(found)
net = nn.Sequential(nn.Linear(3, 4), NODES)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(10, 4, 3):
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    RESET
""".replace("NODES", ", ".join(["Node()"] * 12))


@pytest.mark.parametrize(
    "reset",
    [
        "for module in remembered(net): module.reset()",
        "for reset in [m.reset for m in nodes(net)]: reset()",
        "for reset in [lambda m=m: m.reset() for m in nodes(net)]: reset()",
        "for reset in [functools.partial(Node.reset, m) for m in nodes(net)]: reset()",
        "list(map(lambda m: m.reset(), (m for m in nodes(net))))",
        "for name, module, depth in [(n, m, 0) for n, m in net.named_modules() if isinstance(m, Node)]: module.reset()",
    ],
)
def test_all_modules_of_a_deep_network_are_reset(reset: str) -> None:
    assert not analyze(Program.of(MANY.replace("RESET", reset), "x.py", {})).facts


def test_a_part_of_the_modules_is_not_enough() -> None:
    facts = analyze(Program.of(MANY.replace("RESET", "for m in nodes(net)[:2]: m.reset()"), "x.py", {})).facts
    assert {one.code for one in facts} == {"AF100"}
