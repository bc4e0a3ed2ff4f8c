"""Lines that no repair is about keep their bytes, also where LibCST would write them otherwise."""

from __future__ import annotations

import difflib

import pytest

from autofix.engine import analyse

SCRIPT = """\
import torch

net = torch.nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
store = []
for step in range(9):
    if step % 2:
        noise = 0.1
    else:
        noise = 0.2
    output = net(torch.randn(2, 3)) + noise
    store.append(output)
    loss = torch.stack(store).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
SHAPES = {
    "as it is": SCRIPT,
    "else with a tab": SCRIPT.replace("    ", "        ").replace("        else:", "       \telse:"),
    "form feed": SCRIPT.replace("net = ", "\fnet = ").replace("    loss =", "\f    loss ="),
    "form feed in the first indent": SCRIPT[: SCRIPT.index("    if")]
    + "\f"
    + SCRIPT[SCRIPT.index("    output") :].replace(" + noise", ""),
    "old line ends": SCRIPT.replace("\n", "\r"),
    "old line ends without the last": SCRIPT.replace("\n", "\r").removesuffix("\r"),
    "line ends of Windows": SCRIPT.replace("\n", "\r\n"),
    "no last line end": SCRIPT.removesuffix("\n"),
    "continued": SCRIPT.replace("0.1\n", "0.1 \\\n        + 0\n", 1).replace("(), lr", "(), \\\n   lr"),
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_repair_changes_its_own_line_alone(text: str) -> None:
    patched = analyse(text, "train.py").patched
    before, after = text.splitlines(keepends=True), patched.splitlines(keepends=True)
    changed = [line for line in difflib.ndiff(before, after) if line.startswith(("+", "-"))]
    assert [line.split() for line in changed] == [["+", "store[-1]", "=", "store[-1].detach()"]]
