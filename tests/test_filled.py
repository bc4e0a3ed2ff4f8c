"""Tensors that hold one number throughout: the tape knows the number that PyTorch has, or none."""

from __future__ import annotations

import pytest

from tests.test_python_idioms import Unsure, in_python, on_the_tape

KNOWN = """\
r = bool(torch.tensor(0)), bool(torch.tensor(1)), bool(torch.tensor(False)), torch.tensor(0.5).item()
r = bool(torch.zeros(1)), bool(torch.ones(1, dtype=torch.uint8)), torch.full((1,), 3).item(), bool(torch.Tensor([0]))
r = bool(torch.zeros(1).bool()), bool(torch.zeros(3)[1]), bool(torch.ones(1).long()), torch.zeros(1).clone().item()
x = torch.tensor(0); x.fill_(1); r = bool(x), x.item()
x = torch.zeros(1); x.data.fill_(1); r = bool(x)
x = torch.zeros(1); x.data.copy_(torch.Tensor([True])); r = bool(x), bool(x[0])
x = torch.ones(1); y = x.data; x.zero_(); r = bool(y), bool(x)
x = torch.ones(1); x.data = torch.zeros(1); r = bool(x)
x = torch.zeros(1); x[0] = 1; r = bool(x)
x = torch.zeros(2); x[...] = 2; r = x[1].item()
x = torch.zeros(1); x.copy_(torch.ones(1)); r = x.item()
x = torch.zeros(1); r = bool(x == 0), bool(x != 0), bool(x > 0), bool(x <= 0), (x < 1).item()
x = torch.zeros(3); r = bool((x == 0).all()), bool(x.any()), torch.all(x).item()
x = torch.zeros(1).bool(); x = ~x; r = bool(x), not x
x = torch.zeros(1); y = x.detach(); y.fill_(1); r = bool(x)
x = torch.zeros(1); r = not x, bool(torch.logical_not(x))
x = torch.zeros(4); x.view(2, 2).fill_(1); r = x[0].item()
p = nn.Parameter(torch.tensor(0.0), requires_grad=False); r = bool(p)
"""
UNKNOWN = """\
x = torch.zeros(2); x[0] = 1; r = x[1].item()
x = torch.zeros(2); x[0].fill_(1); r = x[0].item()
x = torch.zeros(1); x += 1; r = x.item()
x = torch.zeros(1); x.numpy()[0] = 1; r = x.item()
x = torch.zeros(1); unread(x); r = x.item()
net = nn.Linear(1, 1); net.register_buffer("ready", torch.zeros(1)); unread(net); r = net.ready.item()
net = nn.Linear(1, 1); net.register_buffer("ready", torch.zeros(1)); net.load_state_dict(state); r = net.ready.item()
x = torch.zeros(1); torch.add(x, 1, out=x); r = x.item()
x = torch.zeros(1); y = x.data; y.add_(1); r = x.item()
x = torch.zeros(1); x.data = torch.randn(1); r = x.item()
x = torch.Tensor(1); r = x.item()
x = torch.tensor([0, 1]); r = x[1].item()
x = ~torch.zeros(1).long(); r = x.item()
p = nn.Parameter(torch.tensor(0.0)); r = p.item()
r = torch.tensor(0.1).item()
r = torch.tensor(0.7, dtype=torch.long).item()
r = torch.full((1,), float("nan")).item()
r = torch.full((1,), float("inf")).item()
x = torch.zeros(1).long(); x.fill_(0.5); r = x.item()
x = torch.zeros(1).long(); x.fill_(float("nan")); r = x.item()
x = torch.tensor(2**40); r = x.item()
x = torch.zeros(1, requires_grad=True); r = x.item()
"""
IMPORTS = "import torch\nfrom torch import nn\n"


@pytest.mark.parametrize("text", KNOWN.splitlines())
def test_the_number_is_the_one_that_pytorch_has(text: str) -> None:
    assert on_the_tape(IMPORTS + text) == in_python(IMPORTS + text)


@pytest.mark.parametrize("text", UNKNOWN.splitlines())
def test_numbers_that_may_be_others_are_not_known(text: str) -> None:
    with pytest.raises(Unsure):
        on_the_tape(f"{IMPORTS}from elsewhere import state, unread\n{text}")
