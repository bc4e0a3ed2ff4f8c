"""The codemods: mistakes in other shapes, candidates after a refused one, and LibCST's command line."""

from __future__ import annotations

import ast
import difflib
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import libcst.tool
import pytest

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.repair import mend
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules import registry
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.detach_stored import DetachStored
from autofix.codemods.rules.registry import MalformedCodemod, all_codemods
from autofix.codemods.source.program import Program

ROOT = Path(__file__).parent.parent
HEADER = """\
import torch
from torch import nn
from collections import deque
net, other = nn.Linear(3, 3), nn.Linear(3, 3)
gru, lstm = nn.GRU(3, 3), nn.LSTM(3, 3)
opt = torch.optim.SGD([*net.parameters(), *gru.parameters(), *lstm.parameters()], lr=0.1)
x = torch.randn(2, 3)
"""


def changes(program: str) -> list[str]:
    """Lines that the patch adds to *program*, without indentation; the patched text must be repaired in full."""
    text = HEADER + textwrap.dedent(program)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert mended.left == (), mended.refused
    ast.parse(mended.patched.files[0].text)
    compared = difflib.ndiff(text.splitlines(), mended.patched.files[0].text.splitlines())
    return [line[2:].strip() for line in compared if line.startswith("+ ")]


STEP = "opt.zero_grad(); loss.backward(); opt.step()"

SHAPES = {
    "extend by a literal": (
        f"""
        log = []
        for i in range(9):
            h = net(x)
            loss = h.sum() + sum(v.sum() for v in log)
            {STEP}
            log.extend([h, i])
        """,
        ["log.extend([h.detach(), i])"],
    ),
    "insert, with a comment": (
        f"""
        def run(log):
            for i in range(9):
                h = net(x)
                loss = h.sum() + sum(v.sum() for v in log)
                {STEP}
                log.insert(0, h * 2)  # newest first
        run([])
        """,
        ["log.insert(0, (h * 2).detach())  # newest first"],
    ),
    "appendleft of a tuple": (
        f"""
        log = deque(maxlen=4)
        for i in range(9):
            h = net(x)
            loss = h.sum() + sum(v.sum() for v, _ in log)
            {STEP}
            log.appendleft((h, i))
        """,
        ["log.appendleft((h.detach(), i))"],
    ),
    "update of a dict by keyword": (
        f"""
        last = {{}}
        for i in range(9):
            h = net(x)
            loss = h.sum()
            if "h" in last:
                loss = loss + last["h"].sum()
            {STEP}
            last.update(h=h, i=i)
        """,
        ["last.update(h=h.detach(), i=i)"],
    ),
    "augmented list": (
        f"""
        log = []
        for i in range(9):
            h = net(x)
            loss = h.sum() + sum(v.sum() for v in log)
            {STEP}
            log += [h]
        """,
        ["log += [h.detach()]"],
    ),
    "a store that this iteration reads as well": (
        f"""
        log = []
        for i in range(9):
            log.append(net(x))
            loss = torch.stack(log).sum()
            {STEP}
        """,
        ["log[-1] = log[-1].detach()"],
    ),
    "a row of a memory bank": (
        f"""
        class Bank:
            def __init__(self):
                self.rows = torch.zeros(9, 3)
            def put(self, index, feature):
                self.rows[index] = feature
        bank = Bank()
        for i in range(9):
            z = net(x)
            loss = z.mean() + (z @ bank.rows.t()).mean()
            {STEP}
            bank.put(i, z[0])
        """,
        ["self.rows[index] = feature.detach()"],
    ),
    "a GRU's state": (
        f"""
        h = torch.zeros(1, 2, 3)
        for batch in loader():
            out, h = gru(batch, h)
            loss = out.mean()
            {STEP}
        """,
        ["h = h.detach()"],
    ),
    "an LSTM's state that is None at first": (
        f"""
        state = None
        for batch in loader():
            out, state = lstm(batch, state)
            loss = out.mean()
            {STEP}
        """,
        ["state = tuple(layer.detach() for layer in state)"],
    ),
    "a state in a module's forward, under retain_graph": (
        """
        class Reader(nn.Module):
            def __init__(self):
                super().__init__()
                self.gru = nn.GRUCell(3, 3)
                self.hidden = torch.zeros(2, 3)
            def forward(self, x):
                self.hidden = self.gru(x, self.hidden)
                return self.hidden
        reader = Reader()
        adam = torch.optim.Adam(reader.parameters())
        for batch in loader():
            loss = reader(batch).mean()
            adam.zero_grad()
            loss.backward(retain_graph=True)
            adam.step()
        """,
        ["self.hidden = self.hidden.detach()", "loss.backward()"],
    ),
    "a list of states, one a layer": (
        f"""
        cells = nn.ModuleList([nn.GRUCell(3, 3) for _ in range(2)])
        opt.add_param_group({{"params": cells.parameters()}})
        states = [torch.zeros(2, 3) for _ in cells]
        for batch in loader():
            fresh = []
            y = batch
            for layer, cell in enumerate(cells):
                y = cell(y, states[layer])
                fresh.append(y)
            loss = y.mean()
            {STEP}
            states = fresh
        """,
        ["states = [state.detach() for state in fresh]"],
    ),
    "a list of states that a comprehension makes": (
        f"""
        cells = nn.ModuleList([nn.GRUCell(3, 3) for _ in range(2)])
        opt.add_param_group({{"params": cells.parameters()}})
        states = [torch.zeros(2, 3) for _ in cells]
        for batch in loader():
            fresh = [cell(batch, state) for cell, state in zip(cells, states)]
            loss = fresh[0].mean() + fresh[1].mean()
            {STEP}
            states = [0.5 * one for one in fresh]
        """,
        ["states = [(0.5 * one).detach() for one in fresh]"],
    ),
    "features of a frozen network, in three statements": (
        f"""
        for epoch in range(9):
            # what to look for
            f = other(x)
            f = f.relu()
            f = f / f.norm()
            for batch in loader():
                loss = (net(batch) - f).pow(2).mean()
                {STEP}
        """,
        ["with torch.no_grad():", "f = other(x)", "f = f.relu()", "f = f / f.norm()"],
    ),
    "features of a network that is trained": (
        f"""
        for epoch in range(9):
            f = net(x)
            for batch in loader():
                loss = (gru(batch)[0] - f).pow(2).mean()
                {STEP}
        """,
        ["f = net(x)"],
    ),
    "a critic's score used for both losses": (
        """
        G, D = nn.Linear(3, 3), nn.Linear(3, 1)
        og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        bce = nn.BCEWithLogitsLoss()
        for batch in loader():
            fake = G(x)
            score = D(fake)
            d = bce(D(batch), torch.ones(2, 1)) + bce(score, torch.zeros(2, 1))
            od.zero_grad(); d.backward(); od.step()
            g = bce(score, torch.ones(2, 1))
            og.zero_grad(); g.backward(); og.step()
        """,
        ["score = D(fake.detach())", "score = D(fake)"],
    ),
    "a fake batch that the critic sends back into the generator": (
        """
        G, D = nn.Linear(3, 3), nn.Linear(3, 1)
        og, od = torch.optim.Adam(G.parameters()), torch.optim.Adam(D.parameters())
        for batch in loader():
            fake = G(x)
            d = D(fake).mean() - D(batch).mean()
            od.zero_grad(); d.backward(); od.step()
            g = -D(fake).mean()
            og.zero_grad(); g.backward(); og.step()
        """,
        ["d = D(fake.detach()).mean() - D(batch).mean()"],
    ),
    "an old number and an old flag": (
        """
        from torch.autograd import Variable
        v = Variable(x, volatile=True)
        loss = net(v).sum()
        loss.backward()
        total = loss.data[0] + 1
        """,
        ["v = Variable(x)", "total = loss.item() + 1"],
    ),
    "old flags of two tensors in one line": (
        """
        from torch.autograd import Variable
        v, w = Variable(x, volatile=True), Variable(x + 1, requires_grad=False, volatile=True)
        loss = net(v * w).sum()
        loss.backward()
        total = loss.data[0] + 1
        """,
        ["v, w = Variable(x), Variable(x + 1, requires_grad=False)", "total = loss.item() + 1"],
    ),
    "an old argument of backward": (
        """
        loss = net(x).sum()
        loss.backward(retain_variables=True)
        loss.backward()
        """,
        ["loss.backward(retain_graph=True)"],
    ),
}


@pytest.mark.parametrize(("program", "expected"), SHAPES.values(), ids=SHAPES.keys())
def test_shape(program: str, expected: list[str]) -> None:
    assert changes(program) == expected


LEFT_ALONE = {
    "one loss sent backward twice is not answered with retain_graph": """
        loss = net(x).pow(2).mean()
        loss.backward()
        loss.backward()
        """,
    "a loss term is not cut off to silence the error": """
        G, F = nn.Linear(3, 3), nn.Linear(3, 3)
        og, of = torch.optim.Adam(G.parameters()), torch.optim.Adam(F.parameters())
        noise = [torch.randn(2, 3)]
        cycle = (F(G(noise.pop())) - x).abs().mean()
        cycle.backward(retain_graph=True)
        of.step()
        loss = 10 * cycle
        loss.backward()
        """,
}


@pytest.mark.parametrize("program", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_no_folk_fix(program: str) -> None:
    text = HEADER + textwrap.dedent(program)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert "retain_graph=True" not in mended.patched.files[0].text.replace("cycle.backward(retain_graph=True)", "")
    assert "cycle.detach()" not in mended.patched.files[0].text


def test_a_list_that_nobody_clears_is_cleared_and_not_detached() -> None:
    """Log-probabilities without their graphs would train nothing."""
    program = f"""
    log_probs, rewards = [], []
    for episode in range(20):
        for t in range(5):
            log_probs.append(net(x).log_softmax(1)[0, 0])
            rewards.append(1.0)
        loss = -(torch.stack(log_probs) * torch.ones(len(log_probs))).sum()
        {STEP}
        rewards = []
    """
    assert changes(program) == ["log_probs.clear()"]


def test_where_no_rewrite_fits_nothing_is_written() -> None:
    """A loss that is computed from an argmax has no gradient under any rewrite."""
    program = f"""
    for batch in loader():
        picked = net(x).argmax(1).float()
        loss = (picked - torch.ones(2)).pow(2).mean()
        {STEP}
    """
    text = HEADER + textwrap.dedent(program)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert mended.left
    assert mended.patched.files[0].text == text


def test_a_mistake_behind_a_mistake_is_repaired_in_the_same_patch() -> None:
    program = f"""
    log, h = [], torch.zeros(1, 2, 3)
    for batch in loader():
        out, h = gru(batch, h)
        log.append(out)
        loss = sum(v.mean() for v in log)
        {STEP}
        print(loss.data[0])
    """
    assert changes(program) == ["h = h.detach()", "log[-1] = log[-1].detach()", "print(loss.item())"]


def test_refusals_say_why() -> None:
    program = f"""
    h = torch.zeros(1, 2, 3)
    for sequence in loader():
        loss = 0
        for batch in sequence:
            out, h = gru(batch, h)
            loss = loss + out.mean()
        {STEP}
    """
    text = HEADER + textwrap.dedent(program)
    mended = mend(Program.of(text, "program.py"), all_codemods())
    assert mended.repairs
    assert any("gradient that reaches line 13 would be cut" in reason for reason in mended.refused), mended.refused


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def libcst_command(kind: type[Codemod], script: Path) -> list[str]:
    module = kind.__module__.rpartition(".")[2]
    return ["codemod", "-x", "--no-format", f"autofix.codemods.{module}.{kind.__name__}", str(script)]


def example_of(kind: type[Codemod], folder: Path) -> tuple[Path, bytes]:
    """A script that the codemod changes, and its changed text."""
    fixture = ROOT / "fixtures" / kind.__module__.rpartition(".")[2]
    script = folder / "script.py"
    script.write_bytes((fixture / "broken.py").read_bytes())
    return script, (fixture / "fixed.py").read_bytes()


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("kind", all_codemods(), ids=lambda kind: kind.__name__)
def test_every_codemod_is_a_libcst_command(kind: type[Codemod], tmp_path: Path) -> None:
    script, expected = example_of(kind, tmp_path)
    assert libcst.tool.main("libcst.tool", libcst_command(kind, script)) == 0
    assert script.read_bytes() == expected


def test_libcst_runs_a_codemod_from_the_shell(tmp_path: Path) -> None:
    kind = all_codemods()[0]
    script, expected = example_of(kind, tmp_path)
    command = [sys.executable, "-m", "libcst.tool", *libcst_command(kind, script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert script.read_bytes() == expected


def test_the_documented_command_is_libcsts(tmp_path: Path) -> None:
    script, expected = example_of(DetachStored, tmp_path)
    page = (ROOT / "docs" / "development.md").read_text(encoding="utf-8")
    words = next(line for line in page.splitlines() if line.startswith("python -m libcst.tool codemod ")).split()
    command = [sys.executable, *words[1:-1], str(script)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert script.read_bytes() == expected


class Nameless(Codemod):
    """A codemod whose name is not one."""

    code = "AF999"
    name = "No Name"
    answers = (StaleGraph,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        yield from ()


def test_a_malformed_codemod_is_refused_with_file_and_line() -> None:
    with pytest.raises(MalformedCodemod, match=r"test_codemods\.py:\d+: codemod Nameless: name 'No Name'"):
        registry._check(Nameless, {})


def test_every_codemod_documents_itself() -> None:
    for kind in all_codemods():
        text = kind.__doc__ or ""
        for section in ("Error:", "Cause:", "Fix:", "When it is not what you want:", "Source:"):
            assert section in text, (kind.code, section)
