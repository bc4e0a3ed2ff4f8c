"""Whether a result is its input, a view of it or a copy, beside the installed PyTorch: a copy is changed alone."""

from __future__ import annotations

import pytest

from autofix.codemods.facts.changed import Overwritten
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

pytest.importorskip("torch")

HEADER = """\
import torch
from torch import nn
import torch.nn.functional as F
w = torch.rand(4, 6, requires_grad=True)
h = w.sigmoid()
"""
CHANGED = "{made}\ny.mul_(2)\n(h.sum() + y.sum()).backward()\n"
USED = "{made}\ny.pow(2).sum().backward()\n"

SAME = """
    h.contiguous()|h.reshape(24)|h.view(-1)|h.flatten()|h.ravel()|h.float()|h.to("cpu")|h.to(torch.float32)|h[...]|h[:]
    h[0].reshape(2, 3)|h[1:3].reshape(-1)|h[0, 1:3].contiguous()|h[:2].contiguous()|h.unsqueeze(0).contiguous()
    h.narrow(0, 0, 2).flatten()|h.select(0, 1).contiguous()
    h.view(2, 2, 6).reshape(4, 6)|h.expand(4, 6)|h.t()|h.T|h.permute(1, 0)|h[:, ::2]|h.detach()|h.data.view(-1)
    h.unflatten(1, (2, 3)).flatten(1)|F.dropout(h, 0.0)|F.dropout(h, 0.5, training=False)|nn.Dropout(0.0)(h)
    nn.Identity()(h)|nn.Flatten(0)(h)|h[torch.tensor(1)]|h[h.sum(1).argmax()]|h[torch.randperm(4)[0]]
    h[torch.arange(3)[1:][0]]|h[torch.randint(4, ())]
"""
"""Expressions that share memory with ``h``."""

COPIES = """
    h.t().contiguous()|h.t().reshape(24)|h.t().flatten()|h.t().ravel()|h.T.reshape(-1)|torch.ravel(h.t())|h.mT.flatten()
    h.permute(1, 0).contiguous()|h.transpose(0, 1).contiguous().view(-1)|h.swapaxes(0, 1).reshape(4, 6)
    h.expand(2, 4, 6).reshape(8, 6)|h.expand(2, 4, 6).contiguous()|h[:, :3].contiguous()|h[:, :3].reshape(-1)
    h[:, 1].contiguous()|h[::2].contiguous()|h.chunk(2, 1)[0].contiguous()|h.narrow(1, 0, 2).flatten()
    h.diagonal().contiguous()|h.unfold(1, 2, 1).reshape(-1)|h.to(torch.float64)|h.double()|h.clone()
    h.to("cpu", copy=True)|h.view(1, 2, 2, 6).contiguous(memory_format=torch.channels_last)|torch.rot90(h).contiguous()
    (h.t() * 2).reshape(-1)|h.t().exp().flatten()|h[torch.tensor([1])]|h[torch.randperm(4)]|h[torch.tensor(True)]
    h[torch.randint(4, (3, 1))[0]]|h[h.argmax(0)]|h[torch.tensor([1, 0, 1, 0], dtype=torch.bool)]
"""
"""Expressions that do not, as some of them would if ``h`` lay otherwise in memory."""

NOT_DROPPED = (
    "y = nn.Dropout(0.0, inplace=True)(h)",
    "y = nn.Dropout(p=0, inplace=True)(h)",
    "y = nn.Dropout(0.5, inplace=True).eval()(h)",
    "drop = nn.Dropout(0.5, inplace=True); drop.train(False); y = drop(h)",
    "net = nn.Sequential(nn.Identity(), nn.Dropout(0.5, True)); net.eval(); y = net(h)",
    "y = F.dropout(h, 0.0, inplace=True)",
    "y = F.dropout(h, 0.5, training=False, inplace=True)",
    "y = F.dropout(h, 0.5, False, True)",
    "y = torch.dropout_(h, 0.0, True)",
    "y = torch.dropout_(h, 0.3, train=False)",
    "y = nn.AlphaDropout(0.2, inplace=True)(h)",
    "y = nn.FeatureAlphaDropout(0.2, True)(h)",
    "y = F.alpha_dropout(h, 0.3, inplace=True)",
)
DROPPED = (
    "y = nn.Dropout(0.5, inplace=True)(h)",
    "y = nn.Dropout(inplace=True)(h)",
    "drop = nn.Dropout(0.5, inplace=True); drop.eval(); drop.train(); y = drop(h)",
    "net = nn.Sequential(nn.Identity(), nn.Dropout(0.5, True)); y = net(h)",
    "y = F.dropout(h, 0.1, inplace=True)",
    "y = torch.dropout_(h, 0.3, True)",
    "y = F.alpha_dropout(h, 0.3, True, True)",
)


READ_AGAIN = (
    "v = y.view(-1); y.exp_(); v.mul_(2); v.sum().backward()",
    "v = y.t(); y.mul_(y); v.sum().backward()",
    "v = y[0]; y.exp_(); y.mul_(2); v.sum().backward()",
    "v = y.flatten(); y.exp_(); v.round_(); v.backward(torch.ones(24))",
    "b = torch.zeros(4, 6); v = b[0]; b.copy_(y); y = y.exp_(); b.exp_(); b.mul_(2); v.sum().backward()",
    "v = y.detach().view(-1); y.exp_(); v.mul_(2); y.sum().backward()",
    "v = y.view(torch.int32); u = y.view(torch.float32); p = u * u; p.mul_(p); p.sum(); y.sum().backward()",
    "v = y.view(-1); y.add_(1); v.mul_(2); v.sum().backward()",
    "a = y[:2]; b = y[2:]; a.exp_(); b.sum().backward()",
    "v = y.view(-1).detach(); y.mul_(2); y.sum().backward(); v.sum()",
    "v = y[0]; y.data.mul_(2); v.sum().backward()",
)
"""A view that is read when its base was changed in place, and the base when the view was."""


def listed(expressions: str) -> list[str]:
    return [one.strip() for one in expressions.strip().replace("\n", "|").split("|")]


def fails(program: str) -> bool:
    """Whether PyTorch refuses the backward of a program."""
    try:
        exec(program, {})
    except RuntimeError as error:
        return "modified by an inplace operation" in str(error)
    return False


def is_told(program: str) -> bool:
    return any(isinstance(fact, Overwritten) for fact in analyze(Program.of(program, "program.py")).facts)


@pytest.mark.parametrize("expression", listed(SAME))
def test_what_shares_memory_is_changed_with_its_base(expression: str) -> None:
    program = HEADER + CHANGED.format(made=f"y = {expression}")
    if ".data" in expression:  # which counts its changes for itself
        assert not fails(program)
        assert not is_told(program)
        return
    assert fails(program)
    assert is_told(program)


@pytest.mark.parametrize("expression", listed(COPIES))
def test_a_copy_is_changed_alone(expression: str) -> None:
    program = HEADER + CHANGED.format(made=f"y = {expression}")
    assert not fails(program)
    assert not is_told(program)


@pytest.mark.parametrize("read", READ_AGAIN)
def test_a_view_reads_its_base_as_that_is_now(read: str) -> None:
    program = f"{HEADER}y = h + 1\n{read}\n"
    assert fails(program) is is_told(program)


@pytest.mark.parametrize("made", NOT_DROPPED)
def test_a_dropout_that_drops_nothing_changes_nothing(made: str) -> None:
    program = HEADER + USED.format(made=made)
    assert not fails(program)
    assert not is_told(program)


@pytest.mark.parametrize("made", DROPPED)
def test_one_that_drops_something_does(made: str) -> None:
    program = HEADER + USED.format(made=made)
    assert fails(program)
    assert is_told(program)


@pytest.mark.parametrize(("moved", "fails_there"), [("x.cuda()", False), ("x.to('cuda')", False), ("x", True)])
def test_what_is_moved_to_a_gpu_is_another_tensor(moved: str, fails_there: bool) -> None:
    """``requires_grad_`` is asked of the copy there, and the picture that is drawn has no graph."""
    program = f"""
import torch
import matplotlib.pyplot as plt
net = torch.nn.Linear(4, 2)
def salience(x):
    x = {moved}
    x.requires_grad_()
    net(x).sum().backward()
    return x.grad.abs()
images = torch.rand(8, 4)
salience(images)
for image in images:
    plt.imshow(image.numpy())
"""
    assert bool(analyze(Program.of(program, "program.py")).facts) is fails_there
