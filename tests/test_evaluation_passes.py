"""An evaluation that runs the training's code is not turned into training: its pass goes under the condition."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch

from autofix.codemods.promises import Keeps
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.execution.runner import Script
from autofix.proof.promises import promised
from autofix.proof.prove import Limits, Original, prove

HEADER = """\
import contextlib
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
batches = lambda n: [(torch.randn(4, 3), torch.randn(4, 1)) for _ in range(n)]
loaders = {"train": batches(3), "val": batches(2)}

"""
EVALUATED = {
    "the phase in the mode, the pass behind its block": (
        """
        def run_batch(x, y, phase):
            with torch.set_grad_enabled(phase == "train"):
                loss = (net(x) - y).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()

        for epoch in range(2):
            for phase in ("train", "val"):
                net.train(phase == "train")
                print(sum(run_batch(x, y, phase) for x, y in loaders[phase]))
        """,
        ['if phase == "train":', "loss.backward()", "opt.step()"],
    ),
    "a flag in the mode, the pass in its block": (
        """
        for epoch in range(2):
            for phase in ["train", "val"]:
                training = phase == "train"
                for x, y in loaders[phase]:
                    opt.zero_grad()
                    with torch.set_grad_enabled(mode=training):
                        loss = (net(x) - y).pow(2).mean()
                        loss.backward()
                        opt.step()
                    print(loss.item())
        """,
        ["if training:", "loss.backward()", "opt.step()"],
    ),
    "a mode as a statement, in a method": (
        """
        class Engine:
            def step(self, batch, train=True):
                torch.set_grad_enabled(train)
                x, y = batch
                loss = nn.functional.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                opt.step()
                return loss.item()

        engine = Engine()
        for epoch in range(2):
            for batch in loaders["train"]:
                print(engine.step(batch))
            for batch in loaders["val"]:
                print(engine.step(batch, train=False))
        """,
        ["if train:", "loss.backward()", "nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "opt.step()"],
    ),
    "one of two modes": (
        """
        def run(loader, opt=None):
            train, total = opt is not None, 0.0
            with torch.enable_grad() if train else torch.no_grad():
                for x, y in loader:
                    loss = nn.functional.mse_loss(net(x), y)
                    if train:
                        opt.zero_grad()
                    loss.backward()
                    if train:
                        opt.step()
                    total += loss.item()
            return total

        for epoch in range(2):
            print(run(loaders["train"], opt), run(loaders["val"]))
        """,
        ["if train:", "loss.backward()"],
    ),
    "no mode, or one": (
        """
        def run(loader, testing=False):
            total = 0.0
            with torch.no_grad() if testing else contextlib.nullcontext():
                for x, y in loader:
                    loss = nn.functional.mse_loss(net(x), y)
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                    total += loss.item()
            return total

        for epoch in range(2):
            print(run(loaders["train"]), run(loaders["val"], testing=True))
        """,
        ["if not testing:", "loss.backward()", "opt.step()"],
    ),
    "the training's epoch under no_grad": (
        """
        class Learner:
            def run_epoch(self, loader):
                total = 0.0
                for x, y in loader:
                    loss = (net(x) - y).abs().mean()
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
                    total += loss.item()
                return total

            def fit(self):
                for epoch in range(2):
                    print(self.run_epoch(loaders["train"]))
                    with torch.no_grad():
                        print(self.run_epoch(loaders["val"]))

        Learner().fit()
        """,
        ["if torch.is_grad_enabled():", "loss.backward()", "opt.step()"],
    ),
    "the training's step in a decorated function": (
        """
        def train_step(x, y):
            loss = nn.functional.mse_loss(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            return loss.item()

        def train_epoch():
            return sum(train_step(x, y) for x, y in loaders["train"])

        @torch.no_grad()
        def evaluate():
            net.eval()
            return sum(train_step(x, y) for x, y in loaders["val"])

        for epoch in range(2):
            net.train()
            print(train_epoch(), evaluate())
        """,
        ["if torch.is_grad_enabled():", "loss.backward()", "opt.step()"],
    ),
}
TRAINED = {
    "the only call of the training stands under no_grad": (
        """
        def train_epoch(loader):
            for x, y in loader:
                loss = (net(x) - y).abs().mean()
                opt.zero_grad()
                loss.backward()
                opt.step()
                print(loss.item())

        with torch.no_grad():
            train_epoch(loaders["train"])
        """,
        ['train_epoch(loaders["train"])'],
    ),
    "a constant mode": (
        """
        for x, y in loaders["train"]:
            with torch.set_grad_enabled(False):
                loss = (net(x) - y).abs().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(loss.item())
        """,
        ["loss = (net(x) - y).abs().mean()"],
    ),
}


def _added(text: str, patched: str) -> list[str]:
    rows = difflib.ndiff(text.splitlines(), patched.splitlines())
    return [row[2:].strip() for row in rows if row.startswith("+ ")]


def _program(text: str) -> str:
    rows = text.strip("\n").splitlines()
    return HEADER + "\n".join(row[8:] for row in rows).rstrip() + "\n"


def _run(text: str) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown):
        exec(compile(text, "train.py", "exec"), {"__name__": "__main__"})
    return shown.getvalue()


@pytest.fixture(autouse=True)
def _recording() -> Iterator[None]:
    """Recording switched on again, which some of the programs leave off."""
    with torch.enable_grad():
        yield


@pytest.mark.parametrize(("text", "added"), [*EVALUATED.values(), *TRAINED.values()], ids=[*EVALUATED, *TRAINED])
def test_only_a_training_is_recorded(text: str, added: list[str]) -> None:
    program = _program(text)
    with pytest.raises(RuntimeError, match="does not require grad"):
        _run(program)
    torch.set_grad_enabled(True)
    mended = mend(Program.of(program, "train.py"), all_codemods())
    patched = mended.patched.files[0].text
    assert _added(program, patched) == added
    assert not mended.left
    assert _run(patched)


@pytest.mark.parametrize("text", [text for text, _ in list(EVALUATED.values())[::3]], ids=list(EVALUATED)[::3])
def test_a_guarded_pass_is_proved(text: str, tmp_path: Path) -> None:
    program = _program(text)
    patched = mend(Program.of(program, "train.py"), all_codemods()).patched.files[0].text
    path = tmp_path / "train.py"
    original = Original(Script(path, text=program), Limits(timeout=60))
    promises = promised({Keeps.RECORDED})
    assert prove(original, Script(path, text=patched), promises).proved
    # Without the promise, the steps of the evaluation are missed.
    assert not prove(original, Script(path, text=patched)).proved
