"""Losses without a graph, for reasons that are no call on the loss itself, and Functions of the old kind."""

from __future__ import annotations

import difflib
import textwrap

import pytest

from autofix.codemods.facts.base import Certainty
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.legacy import LegacyFunction
from autofix.codemods.facts.untrained import PartBeside
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 3)
    def forward(self, x):
        return self.head(self.body(x))
net = Net()
x, y = torch.randn(6, 4), torch.randint(0, 3, (6,))
def overlap(a, b):
    return (2 * (a * b).sum() + 1) / (a.sum() + b.sum() + 1)
"""
TRAIN = """\
for _ in range(3):
    loss = {loss}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""

SHAPES = {
    "a matrix of tensors and whole numbers": (
        """
        yaw = nn.Parameter(torch.zeros(()))
        opt = torch.optim.SGD([yaw], lr=0.1)
        def turned():
            c, s = torch.cos(yaw), torch.sin(yaw)
            return torch.tensor([[c, -1], [s, 0x2]])
        """,
        "turned().sum()",
        ["return torch.stack([torch.as_tensor(value) for value in (c, -1, s, 0x2)]).view(2, 2)"],
    ),
    "a number and a parameter that may be on a GPU": (
        """
        end = nn.Parameter(torch.ones((), device="cuda" if torch.cuda.is_available() else "cpu"))
        opt = torch.optim.SGD([end], lr=0.1)
        def times():
            return torch.tensor([0.0, end * end]).to(x)
        """,
        "times().sum()",
        ['return torch.stack([torch.as_tensor(value, device="cpu") for value in (0.0, end * end)]).to(x)'],
    ),
    "a number and a parameter, on the device that the list is told": (
        """
        end = nn.Parameter(torch.ones(()).to("cpu"))
        opt = torch.optim.SGD([end], lr=0.1)
        def times():
            return torch.tensor([0.0, end * end], device=x.device)
        """,
        "times().sum()",
        ["return torch.stack([torch.as_tensor(value, device=x.device) for value in (0.0, end * end)])"],
    ),
    "all is frozen after the head was made": (
        """
        net.head = nn.Linear(8, 3)
        for p in net.parameters():
            p.requires_grad = False
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        """,
        "F.cross_entropy(net(x), y)",
        ["net.head = nn.Linear(8, 3)"],
    ),
    "all is frozen, and the head is no new one": (
        """
        net.requires_grad_(False)
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        """,
        "F.cross_entropy(net(x), y)",
        ["net.head.requires_grad_(True)"],
    ),
    "the model is moved between its new head and the freezing": (
        """
        net.head = nn.Linear(8, 3)
        net = net.to("cpu")
        for _, p in net.named_parameters():
            p.requires_grad_(False)
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        """,
        "F.cross_entropy(net(x), y)",
        ["net.head.requires_grad_(True)"],
    ),
    "everything that the optimizer holds is frozen": (
        """
        net.requires_grad_(False)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        """,
        "F.cross_entropy(net(x), y)",
        [],
    ),
    "noise is optimised": (
        """
        net.requires_grad_(False)
        noise = torch.zeros(6, 4)
        opt = torch.optim.Adam([noise], lr=0.1)
        """,
        "F.cross_entropy(net(x + noise), y)",
        ["noise = torch.zeros(6, 4).requires_grad_()"],
    ),
    "what is optimised is written to by hand and plotted": (
        """
        net.requires_grad_(False)
        noise = torch.zeros(6, 4)
        opt = torch.optim.Adam([noise], lr=0.1)
        def push():
            noise.clamp_(-1, 1)
            return noise.numpy()
        """,
        "F.cross_entropy(net(x + noise), y); push()",
        [
            "noise = torch.zeros(6, 4).requires_grad_()",
            "with torch.no_grad():",
            "noise.clamp_(-1, 1)",
            "return noise.detach().numpy()",
        ],
    ),
    "what is computed before the optimizer is made stays as it was": (
        """
        net.requires_grad_(False)
        start = torch.randn(6, 4)
        aim = net(start)
        opt = torch.optim.Adam([start], lr=0.1)
        """,
        "(net(start) - aim - 1).pow(2).mean()",
        ["opt = torch.optim.Adam([start.requires_grad_()], lr=0.1)"],
    ),
    "a mask inside the loss": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        aim = torch.rand(6, 3)
        """,
        "1 - overlap((torch.sigmoid(net(x)) > 0.5).float(), aim)",
        ["loss = 1 - overlap(torch.sigmoid(net(x)), aim)"],
    ),
    "logits are compared with zero": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        aim = torch.rand(6, 3)
        """,
        "F.mse_loss((net(x) > 0).to(torch.float32), aim)",
        ["loss = F.mse_loss(torch.sigmoid(net(x)), aim)"],
    ),
    "logits are compared with something else": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        aim = torch.rand(6, 3)
        """,
        "F.mse_loss((net(x) > 0.5).float(), aim)",
        [],
    ),
    "a score of masks that is a metric as well": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        aim = torch.rand(6, 3)
        def score(out):
            return overlap((torch.sigmoid(out) > 0.5).float(), aim)
        with torch.no_grad():
            print(score(net(x)))
        """,
        "1 - score(net(x))",
        [],
    ),
    "features of a decorated function": (
        """
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        @torch.inference_mode()
        def encode(x):
            return net.body(x)
        """,
        "F.cross_entropy(net.head(encode(x)), y)",
        ["@torch.no_grad()"],
    ),
    "features kept for all epochs": (
        """
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        kept = {}
        with torch.inference_mode():
            kept["train"] = net.body(x)
        """,
        "F.cross_entropy(net.head(kept['train']), y)",
        ["with torch.no_grad():"],
    ),
    "a first stage trains on the same line": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        def loss_of(stage):
            if stage == 0:
                return F.cross_entropy(net(x), y)
            return torch.tensor(F.cross_entropy(net(x), y).item() + 1)
        def fit(stage):
            for _ in range(3):
                loss = loss_of(stage)
                opt.zero_grad(); loss.backward(); opt.step()
        fit(0)
        fit(1)
        """,
        "F.cross_entropy(net(x), y)",
        ["return F.cross_entropy(net(x), y) + 1"],
    ),
    "a Function without options that is kept": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        class Clip(torch.autograd.Function):
            def forward(self, value):
                self.save_for_backward(value)
                return value.clamp(min=0)
            def backward(self, grad):
                value, = self.saved_variables
                return grad * (value > 0).float()
        clip = Clip()
        """,
        "F.cross_entropy(clip(net(x)), y)",
        [
            "@staticmethod",
            "def forward(ctx, value):",
            "ctx.save_for_backward(value)",
            "@staticmethod",
            "def backward(ctx, grad):",
            "value, = ctx.saved_tensors",
            "clip = Clip.apply",
        ],
    ),
    "a Function of two tensors with options by name": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        class Mix(torch.autograd.Function):
            def __init__(self, share, scale=1.0):
                super().__init__()
                self.share, self.scale = share, scale
            def forward(self, a, b):
                return a * self.share + b
            def backward(self, grad):
                return grad * self.share, grad * self.scale
        """,
        "F.cross_entropy(Mix(share=0.5)(net(x), net(x)), y)",
        [
            "@staticmethod",
            "def forward(ctx, a, b, share, scale=1.0):",
            "ctx.share, ctx.scale = share, scale",
            "return a * ctx.share + b",
            "@staticmethod",
            "def backward(ctx, grad):",
            "return grad * ctx.share, grad * ctx.scale, None, None",
            "loss = F.cross_entropy(Mix.apply(net(x), net(x), 0.5), y)",
        ],
    ),
    "a Function whose object is kept with its options": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        class Reverse(torch.autograd.Function):
            def __init__(self, scale):
                self.scale = scale
            def forward(self, a):
                return a.view_as(a)
            def backward(self, grad):
                return -grad * self.scale
        reverse = Reverse(1.0)
        """,
        "F.cross_entropy(reverse(net(x)), y)",
        [
            "@staticmethod",
            "def forward(ctx, a, layer):",
            "ctx.layer = layer",
            "@staticmethod",
            "def backward(ctx, grad):",
            "layer = ctx.layer",
            "return -grad * layer.scale, None",
            "loss = F.cross_entropy(Reverse.apply(net(x), reverse), y)",
        ],
    ),
    "a group of its own is computed where nothing is recorded": (
        """
        opt = torch.optim.Adam([{"params": net.body.parameters(), "lr": 1e-4}, {"params": net.head.parameters()}])
        def scores(x):
            with torch.no_grad():
                hidden = net.body(x)
            return net.head(hidden)
        """,
        "F.cross_entropy(scores(x), y)",
        ["hidden = net.body(x)"],
    ),
    "rows of a weight by their indices": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        net.head.weight[torch.tensor([0, 2])] *= 0.5
        """,
        "F.cross_entropy(net(x), y)",
        ["with torch.no_grad():", "net.head.weight[torch.tensor([0, 2])] *= 0.5"],
    ),
}

RIGHT = {
    "an optimizer holds the whole, of which a part is fixed": (
        """
        opt = torch.optim.Adam(net.parameters())
        def scores(x):
            with torch.no_grad():
                hidden = net.body(x)
            return net.head(hidden)
        """,
        "F.cross_entropy(scores(x), y)",
    ),
    "a group of its own is not trained in every case": (
        """
        import settings
        opt = torch.optim.Adam([{"params": net.body.parameters(), "lr": 1e-4}, {"params": net.head.parameters()}])
        def scores(x):
            if settings.tuned:
                return net(x)
            else:
                with torch.no_grad():
                    hidden = net.body(x)
            return net.head(hidden)
        """,
        "F.cross_entropy(scores(x), y)",
    ),
    "the head is thawed": (
        """
        net.requires_grad_(False)
        net.head.requires_grad_(True)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        """,
        "F.cross_entropy(net(x), y)",
    ),
    "the flag comes after the optimizer": (
        """
        net.requires_grad_(False)
        image = torch.zeros(6, 4)
        opt = torch.optim.Adam([image], lr=0.1)
        image.requires_grad_(True)
        """,
        "F.cross_entropy(net(image), y)",
    ),
    "the optimizer holds a constant as well": (
        """
        scale = torch.ones(3)
        opt = torch.optim.Adam([*net.parameters(), scale], lr=0.1)
        """,
        "F.cross_entropy(net(x) * scale, y)",
    ),
    "other code may have set the flag": (
        """
        from elsewhere import setup
        net.requires_grad_(False)
        image = torch.zeros(6, 4)
        setup(image)
        opt = torch.optim.Adam([image], lr=0.1)
        """,
        "F.cross_entropy(net(image), y)",
    ),
    "a mask weights a loss": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        aim = torch.rand(6, 3)
        """,
        "((net(x) > 0).float() * (net(x) - aim).pow(2)).mean()",
    ),
    "a straight-through mask": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        def hard():
            prob = torch.sigmoid(net(x))
            return (prob > 0.5).float() + prob - prob.detach()
        """,
        "1 - overlap(hard(), torch.rand(6, 3))",
    ),
    "features are cloned": (
        """
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        with torch.inference_mode():
            kept = net.body(x)
        """,
        "F.cross_entropy(net.head(kept.clone()), y)",
    ),
    "features are put together outside": (
        """
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        with torch.inference_mode():
            parts = [net.body(x[:3]), net.body(x[3:])]
        """,
        "F.cross_entropy(net.head(torch.cat(parts)), y)",
    ),
    "what is made in inference mode is only added": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        with torch.inference_mode():
            shift = net(x)
        """,
        "F.cross_entropy(net(x) + shift, y)",
    ),
    "a conversion copies": (
        """
        opt = torch.optim.SGD(net.head.parameters(), lr=0.1)
        with torch.inference_mode():
            kept = net.body(x).half()
        """,
        "F.cross_entropy(net.head(kept.float()), y)",
    ),
    "a Function of today": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        class Reverse(torch.autograd.Function):
            @staticmethod
            def forward(ctx, a):
                return a.view_as(a)
            @staticmethod
            def backward(ctx, grad):
                return -grad
        """,
        "F.cross_entropy(Reverse.apply(net(x)), y)",
    ),
    "a class that calls itself a Function": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        class Function:
            def __call__(self, a):
                return self.forward(a)
        class Double(Function):
            def forward(self, a):
                return a * 2
        """,
        "F.cross_entropy(Double()(net(x)), y)",
    ),
    "rows of what is no parameter": (
        """
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        def some():
            out = net(x).clone()
            out[torch.tensor([0, 2])] += 1
            return out
        """,
        "F.cross_entropy(some(), y)",
    ),
}


def program(text: str, loss: str) -> Program:
    return Program.of(HEADER + textwrap.dedent(text).lstrip("\n") + TRAIN.format(loss=loss), "train.py")


@pytest.mark.parametrize(("text", "loss", "expected"), SHAPES.values(), ids=SHAPES)
def test_what_is_found_is_repaired_where_a_repair_is_known(text: str, loss: str, expected: list[str]) -> None:
    broken = program(text, loss)
    mended = mend(broken, all_codemods())
    assert mended.observation.facts
    before, after = broken.files[0].text, mended.patched.files[0].text
    changes = difflib.ndiff(before.split("\n"), after.split("\n"))
    assert [line[2:].strip() for line in changes if line.startswith("+ ")] == expected


@pytest.mark.parametrize(("text", "loss"), RIGHT.values(), ids=RIGHT)
def test_nothing_is_found_where(text: str, loss: str) -> None:
    assert analyze(program(text, loss)).facts == ()


def test_the_message_says_why_there_is_no_graph() -> None:
    def message(name: str) -> str:
        return next(fact.message for fact in analyze(program(*SHAPES[name][:2])).facts if isinstance(fact, CutGraph))

    assert "frozen" in message("everything that the optimizer holds is frozen")
    assert "does not require grad" in message("noise is optimised")
    assert "not differentiable" in message("logits are compared with something else")


def test_reinforce_is_gone() -> None:
    text = "opt = torch.optim.SGD(net.parameters(), lr=0.1)\npicked = net(x).softmax(1).multinomial(1)\n"
    facts = analyze(program(text + "picked.reinforce(1.0)\n", "F.cross_entropy(net(x), y)")).facts
    assert [fact.message for fact in facts] == ["`picked.reinforce(1.0)` no longer works in PyTorch 2"]


def test_an_old_function_is_no_finding_until_it_is_called() -> None:
    text, loss, _ = SHAPES["a Function without options that is kept"]
    facts = analyze(program(text, loss)).facts
    assert [type(fact) for fact in facts] == [LegacyFunction]
    assert analyze(program(text, "F.cross_entropy(net(x), y)")).facts == ()


@pytest.mark.parametrize(
    ("joined", "found"),
    [
        ("at = spot[:, :1]; u = net(torch.cat([at, spot[:, 1:]], 1))", False),
        ("u = net(spot); at = spot[:, :1]", True),
        ("u = net(spot); at = spot", False),
    ],
    ids=["the part enters the network", "the part is taken beside it", "the whole"],
)
def test_a_gradient_for_a_part_that_nothing_was_computed_from(joined: str, found: bool) -> None:
    text = f"opt = torch.optim.SGD(net.parameters(), lr=0.1)\nspot = torch.rand(6, 4, requires_grad=True)\n{joined}\n"
    facts = analyze(program(text + "torch.autograd.grad(u.sum(), at)\n", "F.cross_entropy(net(x), y)")).facts
    assert [type(fact) for fact in facts] == [PartBeside] * found


CHOSEN = """\
import torch
from torch import nn

class Spike(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad / (1 + x.abs()) ** 2

def fire(x, kind):
    if kind == "hard":
        return torch.gt(x, 0).to(x.dtype)
    elif kind == "spike":
        return SPIKE
    raise ValueError(kind)

class Cell(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.gain, self.kind = nn.Linear(4, 3), kind

    def forward(self, x):
        return fire(self.gain(x), self.kind)

def run(kind):
    loss = Cell(kind)(torch.randn(5, 4)).sum()
    loss.backward()
"""


@pytest.mark.parametrize(
    ("spike", "calls", "found"),
    [
        ("Spike.apply(x)", "", False),
        ("torch.tanh(x)", "", False),
        ("torch.sign(torch.round(x)) > 0", "", True),
        ("Spike.apply(x)", "import sys\nrun(sys.argv[1])\n", False),
        ("Spike.apply(x)", "run('spike')\nrun('hard')\n", True),
    ],
)
def test_a_way_without_a_graph_is_no_mistake_where_the_caller_may_choose_one_with_it(
    spike: str, calls: str, found: bool
) -> None:
    seen = analyze(Program.of(CHOSEN.replace("SPIKE", spike) + calls, "cells.py"))
    assert any(isinstance(fact, CutGraph) for fact in seen.facts) is found


def test_a_graph_whose_values_are_read_several_times_is_walked_once() -> None:
    """Without that the number of ways doubles with each line, and the analysis would not end."""
    text = "import torch\nx = torch.rand(3, requires_grad=True)\n" + "x = x * x + x\n" * 64 + "x.sum().backward()\n"
    assert analyze(Program.of(text, "ways.py")).facts == ()


@pytest.mark.parametrize(
    "sent", ["autograd.grad(outputs=target, inputs=w)", "autograd.grad(target, w)", "autograd.backward(tensors=target)"]
)
def test_a_message_names_the_tensor_that_is_sent_back_also_as_a_keyword(sent: str) -> None:
    text = f"w = torch.randn(3, requires_grad=True)\ntarget = w.detach().sum()\ntorch.{sent}\n"
    (fact,) = analyze(Program.of(HEADER + text, "train.py")).facts
    assert isinstance(fact, CutGraph)
    assert fact.name == "target"


def test_a_parameter_may_stand_for_a_constant_factor() -> None:
    text = """\
import torch
from torch import nn
net, rate = nn.Linear(3, 1), nn.Parameter(torch.tensor(0.5))
opt = torch.optim.SGD([*net.parameters(), rate], lr=0.1)
for x in torch.randn(4, 5, 3):
    share = torch.sigmoid(rate).item()
    loss = sum(share**k * net(x).pow(2).mean() for k in range(3))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    [fact] = analyze(Program.of(text, "train.py")).facts
    assert isinstance(fact, CutGraph)
    assert fact.certainty is Certainty.LIKELY
    assert fact.doubt == "the factor may be meant as a constant"


@pytest.mark.parametrize(
    "copied",
    [
        "losses = [net(x)[at].mean() for at in range(2)]\n    total = torch.Tensor([losses]).sum()",
        "losses = []\n    for at in range(2):\n        losses.append(net(x)[at].mean())\n"
        "    total = torch.tensor([losses]).sum()",
        "rows = []\n    for at in range(2):\n        rows.append([net(x)[at].mean(), net(x)[at].abs().mean()])\n"
        "    total = torch.tensor(rows).sum()",
    ],
)
def test_a_list_with_lists_of_names_is_not_stacked(copied: str) -> None:
    text = HEADER + "opt = torch.optim.SGD(net.parameters(), lr=0.1)\n"
    text += f"for _ in range(2):\n    {copied}\n    opt.zero_grad()\n    total.backward()\n    opt.step()\n"
    broken = Program.of(text, "train.py")
    [fact] = analyze(broken).facts
    assert isinstance(fact, CutGraph)
    assert mend(broken, all_codemods()).patched.files[0].text == text
