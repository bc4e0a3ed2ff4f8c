"""``DataParallel`` of a model that returns its loss: one number from each GPU, which a pass does not take."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.base import Certainty, Doubt, Fact
from autofix.codemods.facts.cut import NotScalar
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
    def forward(self, x, y=None):
        out = self.fc(x)
        if y is None:
            return out
        return F.cross_entropy(out, y)

class Several(Net):
    def forward(self, x, y):
        out = self.fc(x)
        loss = F.cross_entropy(out, y)
        return {{"loss": loss, "out": out}} if y is None else (loss, out)

net = Net()
{wrapped}
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
    {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
TRAINER = """\
import torch
from torch import nn

class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model, self.criterion = model, nn.MSELoss()
    def forward(self, batch):
        return {"loss": self.criterion(self.model(batch["x"]), batch["y"])}

class Trainer:
    def __init__(self, model):
        self.model = nn.DataParallel(WithLoss(model)).cuda()
        self.opt = torch.optim.SGD(model.parameters(), 0.1)
    def epoch(self, batches):
        for batch in batches:
            loss = self.model(batch)["loss"]
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()

Trainer(nn.Linear(4, 1)).epoch([{"x": torch.randn(8, 4), "y": torch.randn(8, 1)} for _ in range(3)])
"""
WRONG = {
    "another name": ("par = nn.DataParallel(net)", "loss = par(x, y)", "loss = par(x, y).mean()"),
    "the name of the model": ("net = nn.DataParallel(net).cuda()", "loss = net(x, y)", "loss = net(x, y).mean()"),
    "two devices, and a part of the loss": (
        "net = torch.nn.parallel.DataParallel(net, device_ids=[0, 1])",
        "loss = net(x, y) / 4",
        "loss = (net(x, y) / 4).mean()",
    ),
    "a tuple": ("net = nn.DataParallel(Several())", "loss, out = net(x, y)", "loss.mean().backward()"),
    "wrapped where there are several GPUs": (
        "if torch.cuda.device_count() > 1: net = nn.DataParallel(net)",
        "loss = net(x, y)",
        "loss = net(x, y).mean()",
    ),
    "a criterion": (
        "criterion = nn.DataParallel(nn.CrossEntropyLoss())",
        "loss = criterion(net(x), y)",
        "loss = criterion(net(x), y).mean()",
    ),
}
MEAN = "loss = net(x, y); loss = loss.mean()"
WRAPPED = "net = nn.DataParallel(net)"
RIGHT = {
    "the mean": (WRAPPED, MEAN),
    "the sum, at once": (WRAPPED, "loss = net(x, y).sum()"),
    "along the only dimension": (WRAPPED, "loss = torch.mean(net(x, y), dim=0)"),
    "several calls": (WRAPPED, "loss = torch.stack([net(x, y), net(x, y)]).mean()"),
    "the first one": (WRAPPED, "loss = net(x, y)[0]"),
    "the sum of its elements": (WRAPPED, "loss = sum(net(x, y))"),
    "where there are several GPUs": (
        f"count = torch.cuda.device_count(); {WRAPPED}",
        "loss = net(x, y)\n    if count > 1: loss = loss.mean()",
    ),
    "where it is wrapped": (
        WRAPPED,
        "loss = net(x, y)\n    if isinstance(net, nn.DataParallel): loss = loss.mean()",
    ),
    "where it has a dimension": (WRAPPED, "loss = net(x, y)\n    if loss.dim() > 0: loss = loss.mean()"),
    "where it has elements": (WRAPPED, "loss = net(x, y)\n    loss = loss.mean() if loss.numel() > 1 else loss"),
    "outputs for each sample": (WRAPPED, "loss = F.cross_entropy(net(x), y)"),
    "one device": ("net = nn.DataParallel(net, device_ids=[0])", "loss = net(x, y)"),
    "devices that are not known": ("net = nn.DataParallel(net, [*map(int, input())])", "loss = net(x, y)"),
    "a process for each GPU": ("net = nn.parallel.DistributedDataParallel(net)", "loss = net(x, y)"),
    "the model itself": ("par = nn.DataParallel(net)", "loss = net(x, y)"),
    "the model in the wrapper": (WRAPPED, "loss = net.module(x, y)"),
    "the model that is taken out": (f"{WRAPPED}; net = net.module", "loss = net(x, y)"),
    "wrapped and reduced where there are several GPUs": (
        f"import sys; count = len(sys.argv)\nif count > 1: {WRAPPED}",
        "loss = net(x, y)\n    if count > 1: loss = loss.mean()",
    ),
    "reduced under another condition than wrapped": (
        f"import sys\nif torch.cuda.device_count() > 1: {WRAPPED}",
        "loss = net(x, y)\n    if len(sys.argv) > 1: loss = loss.mean()",
    ),
}


def facts(wrapped: str, loss: str) -> tuple[Fact, ...]:
    return analyze(Program.of(PROGRAM.format(wrapped=wrapped, loss=loss), "train.py")).facts


@pytest.mark.parametrize(("wrapped", "loss", "line"), WRONG.values(), ids=WRONG.keys())
def test_a_number_from_each_gpu_is_likely_no_scalar(wrapped: str, loss: str, line: str) -> None:
    (fact,) = facts(wrapped, loss)
    assert isinstance(fact, NotScalar)
    assert (fact.certainty, fact.reason) == (Certainty.LIKELY, Doubt.GPUS)
    mended = mend(Program.of(PROGRAM.format(wrapped=wrapped, loss=loss), "train.py"), all_codemods())
    assert f"    {line}\n" in mended.patched.files[0].text


def test_a_wrapper_in_an_attribute_gives_a_vector_for_each_number() -> None:
    (fact,) = analyze(Program.of(TRAINER, "train.py")).facts
    assert isinstance(fact, NotScalar)
    assert fact.certainty is Certainty.LIKELY


@pytest.mark.parametrize(("wrapped", "loss"), RIGHT.values(), ids=RIGHT.keys())
def test_a_scalar_is_sent_back(wrapped: str, loss: str) -> None:
    assert facts(wrapped, loss) == ()
