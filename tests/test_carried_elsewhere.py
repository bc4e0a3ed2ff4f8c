"""States carried in queues, heaps, context variables, the module's own names, and by a class's ``__setattr__``."""

from __future__ import annotations

import pytest

from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program

SCRIPT = """\
import contextvars, heapq, queue
import torch
from torch import nn
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
class Parts:
    def __init__(self):
        self.__dict__["d"] = {{}}
    def __getattr__(self, name):
        return self.d[name]
    def __setattr__(self, name, value):
        self.d[name] = value
parts = Parts()
first = torch.zeros(2, 4)
{begun}
for step in range({steps}):
    h = cell(torch.randn(2, 3), {read})
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {kept}
"""
WAYS = {
    "a queue": ("q = queue.Queue(); q.put(first)", "q.get()", "q.put({})"),
    "a stack": ("q = queue.LifoQueue(2); q.put(first)", "q.get_nowait()", "q.put_nowait({})"),
    "a heap": ("heap = [(0, first)]", "heapq.heappop(heap)[1]", "heapq.heappush(heap, (step + 1, {}))"),
    "a context variable": ("v = contextvars.ContextVar('v', default=first)", "v.get()", "v.set({})"),
    "a name of the module": ("state = first", "state", 'globals()["state"] = {}'),
    "names of the module": ("state = first", 'globals()["state"]', "globals().update(state={})"),
    "the newest by its key": ("l = [(0, first)]", "max(l, key=lambda t: t[0])[1]", "l.append((step + 1, {}))"),
}


@pytest.mark.parametrize("steps", [3, 100])
@pytest.mark.parametrize("way", WAYS)
def test_a_state_is_carried_on_without_its_graph(way: str, steps: int) -> None:
    begun, read, kept = WAYS[way]
    wrong, right = (
        SCRIPT.format(begun=begun, read=read, kept=kept.format(value), steps=steps) for value in ("h", "h.detach()")
    )
    assert mend(Program.of(wrong, "train.py"), all_codemods()).patched.files[0].text == right
    assert not mend(Program.of(right, "train.py"), all_codemods()).observation.facts


def test_a_state_that_a_class_keeps_by_itself_is_detached() -> None:
    text = SCRIPT.format(begun="parts.h = first", read="parts.h", kept="parts.h = h", steps=3)
    mended = mend(Program.of(text, "train.py"), all_codemods())
    assert mended.repairs
    assert not mended.left
    text = text.replace("parts.h = h\n", "parts.h = h.detach()\n")
    assert not mend(Program.of(text, "train.py"), all_codemods()).observation.facts


def test_what_an_iteration_puts_into_a_queue_and_takes_out_again_is_its_own() -> None:
    text = """\
import queue, torch
net = torch.nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), 0.1)
waiting = queue.Queue()
for step in range(3):
    for k in range(2):
        waiting.put(net(torch.randn(3)).sum())
    loss = 0
    while not waiting.empty():
        loss = loss + waiting.get()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    assert not mend(Program.of(text, "train.py"), all_codemods()).observation.facts
