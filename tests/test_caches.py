"""Values of parameters that are cached with their graphs, in the forms in which people write caches."""

from __future__ import annotations

import textwrap

import pytest

from autofix.engine import analyse

HEADER = """\
import functools
from functools import cache, cached_property, lru_cache
import torch
from torch import nn
TABLE = {}
class Net(nn.Module):
    ready = False
    def __init__(self):
        super().__init__()
        self.raw = nn.Parameter(torch.randn(4, 4))
        self.w = None
        self.memo = {}
    def forward(self, x):
        return x @ self.get()
"""
LOOP = """\
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(5):
    opt.zero_grad()
    loss = (net(torch.randn(8, 4)) ** 2).mean()
    loss.backward()
    opt.step()
"""

SHAPES = {
    "is None": (
        """
        def get(self):
            if self.w is None:
                self.w = torch.matrix_exp(self.raw - self.raw.T)
            return self.w
        """,
        ["-        if self.w is None:"],
        "net.w = None",
    ),
    "early return": (
        """
        def get(self):
            if self.w is not None:
                return self.w
            self.w = torch.matrix_exp(self.raw - self.raw.T)
            return self.w
        """,
        ["-        if self.w is not None:", "-            return self.w"],
        "net.w = None",
    ),
    "lru_cache": (
        """
        # dear
        @lru_cache(maxsize=None)
        def get(self):
            return torch.matrix_exp(self.raw - self.raw.T)
        """,
        ["-    @lru_cache(maxsize=None)"],
        "net.get.cache_clear()",
    ),
    "functools.cache": (
        """
        @functools.cache
        def get(self):
            return torch.matrix_exp(self.raw - self.raw.T)
        """,
        ["-    @functools.cache"],
        "Net.get.cache_clear()",
    ),
    "cached_property": (
        """
        @cached_property
        def rotation(self):
            return torch.matrix_exp(self.raw - self.raw.T)
        def get(self):
            return self.rotation
        """,
        ["-    @cached_property", "+    @property"],
        "vars(net).pop('rotation', None)",
    ),
    "not in": (
        """
        def get(self, n=4):
            if n not in self.memo:
                self.memo[n] = torch.matrix_exp(self.raw - self.raw.T)
            return self.memo[n]
        """,
        ["-        if n not in self.memo:"],
        "net.memo.clear()",
    ),
    "dict.get": (
        """
        def get(self, n=4):
            out = self.memo.get(n)
            if out is None:
                out = torch.matrix_exp(self.raw - self.raw.T)
                self.memo[n] = out
            return out
        """,
        ["-        if out is None:"],
        "net.memo = {}",
    ),
    "hasattr": (
        """
        def get(self):
            if not hasattr(self, "matrix"):
                self.matrix = torch.matrix_exp(self.raw - self.raw.T)
            return self.matrix
        """,
        ['-        if not hasattr(self, "matrix"):'],
        "delattr(net, 'matrix')",
    ),
    "flag": (
        """
        def get(self):
            if not self.ready:
                self.w = torch.matrix_exp(self.raw - self.raw.T)
                self.ready = True
            return self.w
        """,
        ["-        if not self.ready:"],
        "net.ready = False",
    ),
    "global": (
        """
        def get(self):
            if "w" not in TABLE:
                TABLE["w"] = torch.matrix_exp(self.raw - self.raw.T)
            return TABLE["w"]
        """,
        ['-        if "w" not in TABLE:'],
        "TABLE.pop('w')",
    ),
}


def program(getter: str, at_the_end: str = "") -> str:
    body = textwrap.indent(textwrap.dedent(getter).strip("\n"), "    ")
    return f"{HEADER}{body}\n{LOOP}" + (f"    {at_the_end}\n" if at_the_end else "")


@pytest.mark.parametrize("name", SHAPES)
def test_a_cache_of_parameters_goes(name: str) -> None:
    getter, gone, _ = SHAPES[name]
    found = analyse(program(getter), "x.py")
    assert [(one.code, one.fixed) for one in found.findings] == [("AF109", True)]
    before, after = found.source.splitlines(), found.patched.splitlines()
    for line in gone:
        assert (line[1:] in before) == line.startswith("-")
        assert (line[1:] in after) == line.startswith("+") or line[1:].strip() in ("return self.w", "@property")


@pytest.mark.parametrize("name", SHAPES)
def test_a_cache_that_is_emptied_after_each_step_stays(name: str) -> None:
    getter, _, clear = SHAPES[name]
    assert analyse(program(getter, clear), "x.py").findings == ()


def test_a_cache_of_what_is_not_trained_keeps_values() -> None:
    text = """\
from functools import lru_cache
import torch
from torch import nn
data = torch.randn(6, 3, 4)
teacher, student = nn.Linear(4, 4), nn.Linear(4, 4)
opt = torch.optim.SGD(student.parameters(), lr=0.1)
@lru_cache(maxsize=None)
def soft(i):
    return torch.softmax(teacher(data[i]), -1)
for epoch in range(3):
    for i in range(6):
        opt.zero_grad()
        loss = (student(data[i]) - soft(i)).pow(2).mean()
        loss.backward()
        opt.step()
"""
    found = analyse(text, "x.py")
    assert [one.code for one in found.findings] == ["AF109"]
    assert "    return torch.softmax(teacher(data[i]), -1).detach()\n" in found.patched


def test_a_state_that_begins_with_parameters_is_no_cache() -> None:
    getter = """
    def get(self):
        if self.w is None:
            self.w = self.raw * 2
        self.w = torch.tanh(self.w @ self.raw)
        return self.w
    """
    found = analyse(program(getter), "x.py")
    assert [one.code for one in found.findings if one.fixed] != ["AF109"]


BY_LENGTH = """\
import torch
from functools import lru_cache
from torch import nn

class Bias(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.Embedding(9, 2)
    @lru_cache(maxsize=16)
    def offsets(self, length):
        gap = torch.arange(length).clamp(max=8)
        return self.weights(gap)
    def forward(self, x):
        b, n, d = x.shape
        return x + self.offsets(n)

bias = Bias()
optimizer = torch.optim.SGD(bias.parameters(), lr=0.1)
for step in range(8):
    out = bias(torch.randn(3, 8 if step % 2 else 6, 2))
    optimizer.zero_grad()
    out.tanh().mean().backward()
    optimizer.step()
"""


def test_a_cache_by_size_is_found_each_time_that_it_is_read() -> None:
    found = [[finding.code for finding in analyse(BY_LENGTH, "x.py").findings] for _ in range(4)]
    assert found == [["AF109"]] * 4


READ_BEFORE_THE_LOOP = """\
import functools
import importlib
import torch
from torch import nn
import tools
keep = functools.lru_cache
net = nn.Linear(3, 1)


{decorator}
def features(scale):
    return torch.tanh(net.weight * scale)


gram = features(2.0)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(8, 3), torch.randn(8, 1)
for step in range(5):
    loss = (x @ gram.t() - y).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    "decorator",
    [
        "@functools.cache",
        "@functools.lru_cache(None)",
        "@__import__('functools').cache",
        "@importlib.import_module('functools').lru_cache(maxsize=None)",
    ],
)
def test_a_cached_value_that_is_computed_before_the_loop_is_not_cached_and_computed_in_it(decorator: str) -> None:
    text = READ_BEFORE_THE_LOOP.format(decorator=decorator)
    better = text.replace(f"\n\n{decorator}\n", "\n\n").replace("gram = features(2.0)\n", "", 1)
    better = better.replace("    loss =", "    gram = features(2.0)\n    loss =").replace(
        "\n\n\noptimizer", "\noptimizer"
    )
    assert analyse(text, "x.py").patched == better


@pytest.mark.parametrize(
    "decorator", ["@keep(None)", "@getattr(functools, 'cache')", "@(lambda f: functools.cache(f))", "@tools.memoize"]
)
def test_a_value_is_not_computed_in_the_loop_by_what_keeps_it(decorator: str) -> None:
    text = READ_BEFORE_THE_LOOP.format(decorator=decorator)
    assert analyse(text, "x.py").patched == text


def test_a_function_that_is_handed_to_a_cache_is_cached() -> None:
    text = READ_BEFORE_THE_LOOP.format(decorator="@tools.timed").replace("gram.t()", "again(2.0).t()")
    text = text.replace("gram = features(2.0)", "again = functools.lru_cache(8)(features)").replace(
        "@tools.timed\n", ""
    )
    (finding,) = analyse(text, "x.py").findings
    assert (finding.code, finding.fixed) == ("AF100", False)
