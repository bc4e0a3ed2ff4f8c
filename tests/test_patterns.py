"""Patterns of text: which of them the interpreter matches itself."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

import pytest

from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.interpreter.library.patterns import is_slow
from autofix.codemods.source.program import Program

SLOW = ["(a+)+", "(a|a)*", "(.*)*", r"(\w+\.)*weight", "a*a*a*a*b", "[", "(", "x" * 200]
QUICK = ["backbone.*", r"layers\.(\d+)\.", r"^(backbone|neck)", r"blocks\.\d+\.(weight|bias)$", "(?:x?){50}"]

PROGRAM = """\
import fnmatch, re
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
pattern = re.compile(r"0\\.")
for name, p in net.named_parameters():
    if {condition}:
        p.requires_grad = False
opt = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], 0.1)
f = net[1](net[0](torch.randn(5, 3)))
for _ in range(3):
    opt.zero_grad()
    net[2](f).pow(2).mean().backward()
    opt.step()
"""
CONDITIONS = [
    're.match("{0}", name)',
    're.search("^{0}", name) is not None',
    'fnmatch.fnmatch(name, "{1}")',
    're.fullmatch("{0}.*", name)',
    'len(re.findall("^{0}", name)) > 0',
    'any(re.match(one, name) for one in ["{0}", "none"])',
    'any(fnmatch.fnmatchcase(name, one) for one in ("{1}", "none*"))',
]


@pytest.mark.parametrize("pattern", SLOW)
def test_a_pattern_that_may_take_forever_is_not_matched(pattern: str) -> None:
    assert is_slow(pattern)


@pytest.mark.parametrize("pattern", QUICK)
def test_a_plain_pattern_is(pattern: str) -> None:
    assert not is_slow(pattern)


@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize(("pattern", "wildcards"), [(r"0\\.", "0.*"), (r"2\\.", "2.*"), (r"[02]\\.", "[02].*")])
def test_parameters_are_frozen_by_patterns(condition: str, pattern: str, wildcards: str) -> None:
    names = ("0.weight", "0.bias")
    frozen = all(re.match(pattern.replace("\\\\", "\\"), name) and fnmatchcase(name, wildcards) for name in names)
    text = PROGRAM.format(condition=condition.format(pattern, wildcards))
    stale = [fact for fact in analyze(Program.of(text, "train.py")).facts if isinstance(fact, StaleGraph)]
    assert bool(stale) is not frozen


@pytest.mark.parametrize(
    "condition", ["pattern.match(name)", "pattern.match(name) is not None", "re.match(pattern, name)"]
)
def test_parameters_are_frozen_by_a_compiled_pattern(condition: str) -> None:
    assert not analyze(Program.of(PROGRAM.format(condition=condition), "train.py")).facts
