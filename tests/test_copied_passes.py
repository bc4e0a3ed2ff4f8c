"""A pass that stands there twice: in a copied line, and beside the pass of a gradient scaler."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

PROGRAM = """\
import torch
from torch import nn
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
for step in range(5):
    loss = net(torch.randn(8, 4)).pow(2)
    opt.zero_grad()
    {first}
    {second}
    scaler.step(opt)
    scaler.update()
"""
SCALED, PLAIN = "scaler.scale(loss.mean()).backward()", "loss.mean().backward()"
WRITTEN_OUT = "(loss.mean() + loss.max()).backward()"


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (PLAIN, PLAIN, PLAIN),
        (SCALED, SCALED, SCALED),
        (SCALED, PLAIN, SCALED),
        (PLAIN, SCALED, SCALED),
        (WRITTEN_OUT, WRITTEN_OUT, WRITTEN_OUT),
        (PLAIN, "loss.sum().backward()", "(loss.mean() + loss.sum()).backward()"),
    ],
)  # fmt: skip
def test_one_of_two_passes_is_left(first: str, second: str, left: str) -> None:
    result = analyse(PROGRAM.format(first=first, second=second), "train.py")
    assert result.patched == PROGRAM.format(first=left, second="").replace("    \n", "")


GAN = """\
import torch
from torch import nn
D = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
G = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 4))
criterion = nn.BCEWithLogitsLoss()
d_opt = torch.optim.Adam(D.parameters(), lr=0.1)
g_opt = torch.optim.Adam(G.parameters(), lr=0.1)
for images in torch.randn(5, 8, 4):
    real, fake = torch.ones(8, 1), torch.zeros(8, 1)
    of_real = criterion(D(images), real)
    of_fake = criterion(D(G(torch.randn(8, 3))), fake)
    d_loss = {d_loss}
    d_opt.zero_grad()
    d_loss.backward()
    d_opt.step()
    out = D(G(torch.randn(8, 3)))
    g_loss = criterion({out}, real)
    g_opt.zero_grad()
    g_loss.backward()
    g_opt.step()
"""
RIGHT = GAN.format(d_loss="of_real + of_fake", out="out")


@pytest.mark.parametrize(
    ("d_loss", "out"),
    [
        ("of_real.item() + of_fake.item()", "out"),
        ("(of_real + of_fake).detach()", "out"),
        ("of_real + of_fake", "out.data"),
        ("of_real + of_fake", "out.detach()"),
    ],
)
def test_a_loss_gets_its_graph_back_though_it_goes_through_another_network_by_the_way(d_loss: str, out: str) -> None:
    result = analyse(GAN.format(d_loss=d_loss, out=out), "train.py")
    assert result.patched.replace("(of_real + of_fake)", "of_real + of_fake") == RIGHT
