"""PyTorch Geometric's layers: ``propagate`` calls the methods of the class that is derived from ``MessagePassing``."""

from __future__ import annotations

import pytest

from autofix.engine import analyse

LAYER = """\
import torch
from torch import nn
from torch_geometric.nn import MessagePassing

class Layer(MessagePassing):
    def __init__(self):
        super().__init__(aggr="add")
        self.lin = nn.Linear(4, 4)
        self.gate = nn.Linear(8, 1)

    def forward(self, x, edge_index):
        return self.propagate(edge_index, x=GIVEN)

METHODS

net = Layer()
optimizer = torch.optim.Adam(net.parameters())
edges = torch.randint(20, (2, 40))
h = torch.zeros(20, 4)
for step in range(10):
    STATE = net(HANDED, edges)
    loss = STATE.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
PLAIN = """\
    def message(self, x_j):
        return x_j
"""
GATED = """\
    def message(self, x_i, x_j, index, ptr=None):
        gate = torch.sigmoid(self.gate(torch.cat([x_i, x_j], dim=1)))
        gate -= 0.5
        return gate * x_j
"""
UPDATED = """\
    def message(self, x_j, norm):
        return norm * x_j

    def aggregate(self, inputs, index):
        return inputs.sum(0, keepdim=True).expand(20, 4)

    def update(self, out, x):
        out = torch.tanh(out)
        out += x
        return out.exp()
"""


def _layer(methods: str, given: str = "self.lin(x)", state: str = "out", handed: str = "torch.randn(20, 4)") -> str:
    text = LAYER.replace("METHODS", methods).replace("GIVEN", given)
    return text.replace("STATE", state).replace("HANDED", handed)


@pytest.mark.parametrize("methods", ["", PLAIN])
@pytest.mark.parametrize("given", ["self.lin(x)", "(self.lin(x), x)"])
def test_a_state_that_a_layer_carries_on_is_found(methods: str, given: str) -> None:
    analysis = analyse(_layer(methods, given, "h", "h"), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF102", True)]
    assert analyse(_layer(methods, given, "h", "h.detach()"), "train.py").findings == ()


@pytest.mark.parametrize(("methods", "line"), [(GATED, "gate = gate - 0.5"), (UPDATED, "out = out + x")])
def test_what_propagate_calls_is_read(methods: str, line: str) -> None:
    analysis = analyse(_layer(methods), "train.py")
    assert [(finding.code, finding.fixed) for finding in analysis.findings] == [("AF201", True)]
    assert line in analysis.patched
    right = methods.replace("gate -= 0.5", "gate = gate - 0.5").replace("out += x", "out = out + x")
    assert analyse(_layer(right), "train.py").findings == ()
