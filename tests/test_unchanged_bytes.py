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


def _with_indents(*indents: str) -> str:
    """The script in a function, with the indent of each level of blocks, from that of the function on."""
    head, *rest = SCRIPT.splitlines(keepends=True)
    lines = [head, "def train():\n"]
    for line in rest:
        code = line.lstrip(" ")
        lines.append(indents[(len(line) - len(code)) // 4] + code if code.strip() else line)
    return "".join([*lines, "train()\n"])


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
    "tabs in a block of spaces": _with_indents("    ", "\t    ", "\t\t    "),
    "spaces in a block of tabs": _with_indents("\t", "\t    ", "\t        "),
    "tabs in a block of spaces, and strings": _with_indents("    ", "\t    ", "\t\t    ").replace(
        "store = []", 'text = """\n\tone\n \ttwo"""\n    store = []'
    ),
    "tabs in a block of spaces, continued": _with_indents("    ", "\t    ", "\t\t    ").replace(
        "torch.randn(2, 3)", "torch.randn(\n\t2,\n  3)"
    ),
    "tabs in lines of blanks alone": _with_indents("    ", "\t    ", "\t\t    ")
    .replace("    optimizer = ", "\t\n    optimizer = ")
    .replace("\t    loss =", "\t\t\t\t\n  \t\n\t    loss ="),
    "continued": SCRIPT.replace("0.1\n", "0.1 \\\n        + 0\n", 1).replace("(), lr", "(), \\\n   lr"),
}


@pytest.mark.parametrize("text", SHAPES.values(), ids=SHAPES)
def test_a_repair_changes_its_own_line_alone(text: str) -> None:
    patched = analyse(text, "train.py").patched
    before, after = text.splitlines(keepends=True), patched.splitlines(keepends=True)
    changed = [line for line in difflib.ndiff(before, after) if line.startswith(("+", "-"))]
    assert [line.split() for line in changed] == [["+", "store[-1]", "=", "store[-1].detach()"]]


CUT = """\
import torch
class Trainer:
    def __init__(self):
\t    self.net = torch.nn.Linear(3, 3)
\t    self.judge = torch.nn.Linear(3, 1)
\t    self.steps = torch.optim.Adam(self.net.parameters(), 0.1)
\t    self.others = torch.optim.Adam(self.judge.parameters(), 0.1)
    def train(self):
\t    for x in torch.randn(9, 4, 3):
\t\t    ahead = self.net(x)
\t\t    score = self.judge(ahead)
\t\t    self.others.zero_grad()
\t\t    score.mean().backward(retain_graph=True)
\t\t    self.others.step()
\t\t    self.steps.zero_grad()
\t\t    (-score.mean()).backward()
\t\t    self.steps.step()
Trainer().train()
"""


def test_new_lines_are_indented_as_the_block_is() -> None:
    patched = analyse(CUT, "train.py").patched
    compile(patched, "train.py", "exec")
    changed = [line for line in difflib.ndiff(CUT.splitlines(), patched.splitlines()) if line[0] in "+-"]
    assert changed
    assert all(line[2:].startswith("\t\t    ") for line in changed)


def test_a_string_that_is_written_twice_keeps_its_blanks() -> None:
    text = CUT.replace("self.judge(ahead)", 'self.scored(ahead, """one\n  two\n\tthree""")').replace(
        "    def train(self):", "    def scored(self, x, note):\n\t    return self.judge(x)\n    def train(self):"
    )
    patched = analyse(text, "train.py").patched
    assert patched.count('"""one\n  two\n\tthree"""') == 2
