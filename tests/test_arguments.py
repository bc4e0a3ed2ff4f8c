"""Arguments of the command line: questions that their defaults decide, and questions that stay open."""

from __future__ import annotations

import textwrap

import pytest

from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.source.program import Program

HEADER = """\
import argparse
import torch
from torch import nn
parser = argparse.ArgumentParser()
parser.add_argument("--cell", choices=["lstm", "gru"], default="lstm")
parser.add_argument("--no-bias", action="store_true")
parser.add_argument("--accumulate", type=int, default=1)
args = parser.parse_args()
x, y = torch.randn(4, 3), torch.randn(4, 3)
"""

RIGHT = {
    "what picks an item is compared later": """
        cell = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}[args.cell](3, 3)
        is_lstm = args.cell == "lstm"
        opt = torch.optim.SGD(cell.parameters(), lr=0.1)
        h = c = torch.zeros(4, 3)
        for _ in range(9):
            h, c = h.detach(), c.detach()
            if is_lstm:
                h, c = cell(x, (h, c))
            else:
                h = cell(x, h)
            opt.zero_grad(); (h - y).pow(2).mean().backward(); opt.step()
        """,
    "what was compared picks an item later": """
        def start():
            return torch.zeros(4, 3) if args.cell != "lstm" else (torch.zeros(4, 3), torch.zeros(4, 3))
        cell = getattr(nn, {"lstm": "LSTMCell", "gru": "GRUCell"}[args.cell])(3, 3)
        opt = torch.optim.SGD(cell.parameters(), lr=0.1)
        state = start()
        for _ in range(9):
            state = cell(x, state)
            match args.cell:
                case "lstm":
                    out, state = state[0], tuple(part.detach() for part in state)
                case _:
                    out, state = state, state.detach()
            opt.zero_grad(); (out - y).pow(2).mean().backward(); opt.step()
        """,
    "a flag picks an item and decides": """
        net = {True: nn.Linear(3, 3, bias=False), False: nn.Linear(3, 3)}[args.no_bias]
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(9):
            loss = (net(x) - y).pow(2).mean() + (0 if args.no_bias else net.bias.pow(2).mean())
            opt.zero_grad(); loss.backward(); opt.step()
        """,
    "gradients are accumulated over so many batches": """
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        for i in range(99):
            ((net(x) - y).pow(2).mean() / args.accumulate).backward()
            if (i + 1) % args.accumulate == 0:
                opt.step(); opt.zero_grad()
        """,
}


@pytest.mark.parametrize("text", RIGHT.values(), ids=RIGHT.keys())
def test_nothing_is_found_where(text: str) -> None:
    assert analyze(Program.of(HEADER + textwrap.dedent(text), "program.py")).facts == ()


@pytest.mark.parametrize("argument", ["args.every", "EVERY", "args.unset"])
def test_chunks_are_cut_at_their_ends_only(argument: str) -> None:
    """A gradient from one time step to the next inside a chunk is useful, however long the chunks are."""
    header = HEADER.replace("args = ", 'parser.add_argument("--every", default=8)\nEVERY = 8\nargs = ')
    text = header + textwrap.dedent(f"""
        net = nn.Linear(3, 3)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        h, loss = torch.zeros(4, 3), 0
        for t in range(64):
            h = torch.tanh(net(x) + h)
            loss = loss + (h - y).pow(2).mean()
            if (t + 1) % {argument} == 0:
                opt.zero_grad(); loss.backward(); opt.step()
                loss, h = 0, h.detach()
        """)
    edges = {
        (edge.producer.operation, edge.consumer.operation, edge.lag) for edge in analyze(Program.of(text, "p.py")).edges
    }
    assert ("tanh", "add", (1,)) in edges
