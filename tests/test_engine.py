"""The engine: findings, their places, and their repair by the patch."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from autofix.codemods.interpreter import protocol
from autofix.codemods.source.program import Program
from autofix.engine import Finding, SourceError, analyse
from autofix.proof.prove import Limits, Script
from autofix.repair import repair
from autofix.report.lines import summary

FIXTURES = Path(__file__).parent.parent / "fixtures"


def read(name: str) -> str:
    return (FIXTURES / name / "broken.py").read_text(encoding="utf-8")


def test_the_cause_is_what_the_patch_changes() -> None:
    (finding,) = analyse(read("separate_networks"), "gan.py").findings
    assert (finding.code, finding.cause.line) == ("AF104", 21)


def test_one_finding_for_one_mistake_told_twice() -> None:
    source = read("detach_stored").replace("seen[0].mean()", "seen[0].mean() + seen[-1].sum()")
    assert len(analyse(source, "train.py").findings) == 1


def test_selection_by_prefix() -> None:
    source = read("detach_stored").replace("loss.item()", "loss.data[0]")
    assert [finding.code for finding in analyse(source, "train.py").findings] == ["AF101", "AF701"]
    only = analyse(source, "train.py", select=["AF7"])
    assert [finding.code for finding in only.findings] == ["AF701"]
    assert "hidden.detach()" not in only.patched


TWO = """\
import torch
from torch import nn

net = nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store, other = [], []
for step in range(10):
    h = net(torch.randn(2, 4))
    g = net(torch.randn(2, 4))
    store.append(h)
    other.append(g)
    loss = sum(item.sum() for item in store) + sum(item.sum() for item in other)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_what_is_silenced_is_neither_reported_nor_repaired() -> None:
    """Where one of two mistakes is silenced, the other gets a patch of its own."""
    apart = (
        TWO.replace(" + sum(item.sum() for item in other)", "") + "    sum(item.sum() for item in other).backward()\n"
    )

    def silence(program: Program, findings: Sequence[Finding]) -> list[Finding]:
        return [one for one in findings if "`other`" in one.message]

    analysis = analyse(apart, "train.py", silence=silence)
    assert ["`other`" in one.message for one in analysis.silenced] == [True]
    assert ["`store`" in one.message for one in analysis.findings] == [True]
    assert "other.append(g)\n" in analysis.patched and "other.clear()" not in analysis.patched
    assert analysis.changes


def test_what_one_finding_tells_is_silenced_together() -> None:
    """Both lists are emptied by one patch, and told of once: to ignore that brings nothing new to light."""
    (both,) = analyse(TWO, "train.py").findings
    analysis = analyse(TWO, "train.py", silence=lambda program, findings: [one for one in findings if one == both])
    assert analysis.silenced == (both,)
    assert (analysis.findings, analysis.changes) == ((), False)


def test_to_silence_everything_leaves_the_text_as_it_is() -> None:
    for source in (TWO, read("detach_stored"), read("separate_networks")):
        analysis = analyse(source, "train.py", silence=lambda program, findings: findings)
        assert analysis.silenced
        assert (analysis.findings, analysis.changes) == ((), False)


def test_a_patch_that_was_rejected_is_not_proposed_again() -> None:
    source = read("detach_carried")
    first = analyse(source, "train.py")
    second = analyse(source, "train.py", rejected=first.steps)
    assert second.patched not in (source, first.patched)


@pytest.mark.parametrize(("source", "line", "column"), [("def f(:\n", 1, 7), ("x = 1\0", 1, 1)])
def test_what_does_not_parse_is_an_error_with_its_place(source: str, line: int, column: int) -> None:
    with pytest.raises(SourceError) as caught:
        analyse(source, "bad.py")
    assert (caught.value.line, caught.value.column) == (line, column)


def test_repair_proves_what_it_returns(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(read("detach_stored"), encoding="utf-8")
    outcome = repair(Script(script), Limits())
    assert outcome.certificate is not None
    assert outcome.certificate.proved
    assert script.read_text(encoding="utf-8") == read("detach_stored")


def test_repair_tells_of_a_failure_that_it_does_not_know(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\nloss = torch.ones(1).sum()\nloss.backward()\n", encoding="utf-8")
    outcome = repair(Script(script), Limits())
    assert outcome.fails
    assert outcome.certificate is None
    assert f"fails at {script}:3:1 and no repair is known" in outcome.note


def test_repair_of_a_script_that_runs(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("print('nothing to do')\n", encoding="utf-8")
    outcome = repair(Script(script), Limits())
    assert (outcome.fails, outcome.certificate) == (False, None)


METER = """\
import torch
from torch import nn
class Meter:
    def __init__(self):
        self.values = []
    def add(self, value):
        self.values.append(value)
net, meter = nn.Linear(3, 1), Meter()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(9):
    out = net(torch.randn(4, 3))
    loss = out.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    meter.add({value})
"""


@pytest.mark.parametrize(("value", "line"), [("loss", 16), ("out.mean()", 16)])
def test_who_sends_a_loss_backward_and_hands_it_to_a_meter_is_to_blame(value: str, line: int) -> None:
    (finding,) = analyse(METER.replace("{value}", value), "train.py").findings
    assert (finding.code, finding.cause.line) == ("AF601", line)


def test_a_generator_that_was_not_trained_may_differ_from_the_original(tmp_path: Path) -> None:
    script = tmp_path / "gan.py"
    script.write_text(
        """\
import torch
from torch import nn
gen, disc = nn.Linear(4, 6), nn.Linear(6, 1)
steps_g = torch.optim.SGD(gen.parameters(), lr=0.01)
steps_d = torch.optim.SGD(disc.parameters(), lr=0.01)
for real in torch.randn(4, 8, 6):
    fake = gen(torch.randn(8, 4))
    verdict = disc(fake.detach())
    steps_g.zero_grad()
    (verdict - 1).pow(2).mean().backward()
    steps_g.step()
    steps_d.zero_grad()
    (disc(real).pow(2).mean() + verdict.pow(2).mean()).backward()
    steps_d.step()
""",
        encoding="utf-8",
    )
    done = repair(Script(script), Limits())
    assert done.certificate is not None and done.certificate.proved
    assert "(disc(fake) - 1).pow(2)" in done.analysis.patched


TERMS = """\
import torch
from torch import nn
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
before = torch.zeros(8, 1)
many = {terms}
for _ in range(10):
    now = net(torch.randn(8, 4))
    loss = (now - before).pow(2).mean()
    before = now
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def test_a_sum_of_many_terms_is_in_nobodys_way() -> None:
    text = TERMS.format(terms=" + ".join(["1"] * 1000))
    found = analyse(text, "terms.py")
    assert found.complete
    assert found.patched == text.replace("before = now", "before = now.detach()")


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python 3.14 parses it")
def test_an_expression_that_python_cannot_parse_is_told_in_one_line() -> None:
    with pytest.raises(SourceError) as caught:
        analyse(TERMS.format(terms=" + ".join(["1"] * 50_000)), "terms.py")
    assert str(caught.value) == "terms.py:1:1: an expression is nested too deeply to be parsed"


def test_what_was_read_in_part_is_told() -> None:
    assert summary([], 3, partly=1) == "No mistakes found in 3 files; 1 file too long to be read in full."


@pytest.mark.parametrize("term", ["step" + ".real" * 2000, " + ".join(["step"] * 2000), "not " * 2000 + "step"])
def test_what_is_nested_too_deeply_to_be_rewritten_is_told_without_a_patch(term: str) -> None:
    text = f"""\
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(10):
    store.append(net(torch.randn(2, 4)))
    loss = sum(item.sum() for item in store)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
y = {term}
"""
    analysis = analyse(text, "terms.py")
    assert [finding.fixed for finding in analysis.findings] == [False]
    assert not analysis.complete
    assert not analysis.changes


BEHIND = """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 3))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def train(data):
    matrix = torch.zeros(3, 3)
    for x, y in data:
        key, value = net(x).mean(0), net(y).mean(0)
        loss = nn.functional.mse_loss(out, y)
        out = x @ matrix + net(x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        matrix = matrix + torch.outer(key, value)
train([(torch.randn(4, 3), torch.randn(4, 3)) for _ in range(9)])
"""


def test_a_patch_that_no_finding_explains_is_none() -> None:
    found = analyse(BEHIND, "train.py")
    assert [finding.fixed for finding in found.findings] == [False]
    assert found.patched == BEHIND


FACTORS = """\
import torch

class Loss:
    def __init__(self):
        self.critic = torch.nn.Linear(4, 1)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters())

    def step(self, data, model, optimizer):
        code = model(data)
        judged = self.critic(code)
        if not model.training:
            return
        optimizer.zero_grad()
        (code.pow(2).mean() + judged.mean()).backward(retain_graph=True)
        optimizer.step()
        self.critic_optimizer.zero_grad()
        (judged - 1).pow(2).mean().backward()
        self.critic_optimizer.step()
"""


def test_a_finding_without_its_doubtful_repair_is_that_of_the_repair() -> None:
    with_repair = analyse(FACTORS, "loss.py").findings
    without = analyse(FACTORS, "loss.py", unsafe=False).findings
    assert [(one.fixed, one.needs_review) for one in with_repair] == [(True, False)]
    assert [(one.fixed, one.needs_review) for one in without] == [(False, True)]
    for told, known in zip(without, with_repair, strict=True):
        assert (told.code, told.cause, told.remedy) == (known.code, known.cause, known.remedy)


NETWORK = """\
import torch

class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(4)])

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
"""
TRAINING = """\
import torch
from network import Network

net = Network()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = net(torch.randn(2, 4)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print([float(net(torch.randn(2, 4)).sum()) for _ in range(200)])
"""


def test_passes_that_were_followed_before_the_program_became_too_large_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(protocol, "STEPS", 120)
    analysis = analyse(TRAINING, "train.py", others={"network.py": NETWORK}, roots=["."])
    assert not analysis.complete
    assert len(analysis.passes) == 1
    assert not analysis.missed
