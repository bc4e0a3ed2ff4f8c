"""The run witness: a failing script's own tape names the places, to the column."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from autofix.child.job import Bounds
from autofix.execution.record import Outcome, RunRecord
from autofix.execution.runner import Limits, Script, run

START = """\
import torch
from torch import nn
model = nn.Linear(3, 3)
x = torch.randn(2, 3)
"""


def trace(folder: Path, text: str, **others: str) -> RunRecord:
    for name, content in others.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(content))
    path = folder / "train.py"
    path.write_text(START + textwrap.dedent(text))
    return run(Script(path), Limits(timeout=60), Bounds(trace=True))


def source(folder: Path, frame: Mapping[str, Any]) -> str:
    """The source text of a frame's span, which must lie on one line."""
    line: str = (folder / frame["file"]).read_text().splitlines()[frame["line"] - 1]
    return line.encode()[frame["column"] : frame["end_column"]].decode()


def told(folder: Path, fact: Mapping[str, Any]) -> dict[str, str]:
    """The source of every role, as seen in the innermost user frame."""
    return {role: source(folder, frames[-1]) for role, frames in fact["roles"].items()}


STORED = """
first, second = nn.Linear(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
store = []
for i in range(9):
    h = first(x)
    store.append(h)
    out = second(h)
    if i:
        out = out + store[0].mean()
    loss = out.pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_stored_tensor(tmp_path: Path) -> None:
    record = trace(tmp_path, STORED)
    (fact,) = record.facts
    assert fact["kind"] == "stale graph"
    assert told(tmp_path, fact) == {
        "made": "first(x)",
        "used": "store[0].mean()",
        "walked": "second(h)",
        "freed": "loss.backward()",
        "failed": "loss.backward()",
    }
    (store,) = [holder for holder in fact["holders"] if not holder["at"]]
    assert (store["name"], store["kind"], store["item"]) == ("store", "list", "tensor")
    assert (store["file"], store["function"]) == ("train.py", "<module>")
    assert (fact["made_after"], fact["used_after"]) == ({"passes": 0, "steps": 0}, {"passes": 1, "steps": 1})
    assert (fact["freed_by_pass"], fact["failed_pass"]) == (1, 2)


def test_columns_count_bytes_of_utf_8(tmp_path: Path) -> None:
    record = trace(tmp_path, "é = [model(x).exp()]; é[0].sum().backward(); (é[0] * 2).sum().backward()\n")
    assert told(tmp_path, record.facts[0])["used"] == "é[0] * 2"


def test_frames_lead_through_all_files_of_the_user(tmp_path: Path) -> None:
    net = """
    from torch import nn
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.RNNCell(3, 3)
            self.state = None
        def forward(self, x):
            self.state = self.cell(x, self.state)
            return self.state
    """
    loop = """
    def fit(net, x):
        for i in range(3):
            loss = net(x).pow(2).sum()
            loss.backward()
    """
    text = "from net import Net\nfrom loop import fit\nfit(Net(), x)\n"
    (fact,) = trace(tmp_path, text, net=net, loop=loop).facts
    made, used = fact["roles"]["made"], fact["roles"]["used"]
    assert [(frame["file"], source(tmp_path, frame)) for frame in used] == [
        ("train.py", "fit(Net(), x)"),
        ("loop.py", "net(x)"),
        ("net.py", "self.cell(x, self.state)"),
    ]
    assert made == used
    assert [frame["function"] for frame in used] == ["<module>", "fit", "Net.forward"]


FACTS = {
    "operator": ("y = model(x).exp()\ny += 1\ny.sum().backward()", "overwritten", "changed", "y += 1"),
    "index assignment": ("y = model(x).exp()\ny[0] = 0\ny.sum().backward()", "overwritten", "changed", "y[0]"),
    "method": ("y = model(x).tanh()\ny.add_(1)\ny.sum().backward()", "overwritten", "changed", "y.add_(1)"),
    "view": ("y = model(x).exp()\nv = y[1:]\nv += 1\ny.sum().backward()", "overwritten", "changed", "v += 1"),
    "out": (
        "y = model(x).exp()\nwith torch.no_grad():\n    torch.neg(x, out=y)\ny.sum().backward()",
        "overwritten", "changed", "torch.neg(x, out=y)",
    ),
    "inplace module": (
        "act = nn.ReLU(inplace=True)\ny = model(x).sigmoid()\nact(y).sum().backward()",
        "overwritten", "constructed", "nn.ReLU(inplace=True)",
    ),
    "inplace function": (
        "y = model(x).sigmoid()\nnn.functional.relu(y, inplace=True).sum().backward()",
        "overwritten", "changed", "nn.functional.relu(y, inplace=True)",
    ),
    "step": (
        "optimizer = torch.optim.Adam(model.parameters())\nx.requires_grad_()\nloss = model(x).sum()\n"
        "model(x).sum().backward()\noptimizer.step()\nloss.backward()",
        "overwritten", "changed", "optimizer.step()",
    ),
    "twice": ("y = model(x).exp().sum()\ny.backward()\ny.backward()", "stale graph", "made", "model(x).exp().sum()"),
    "grad": (
        "y = model(x).exp().sum()\ntorch.autograd.grad(y, model.weight)\ny.backward()",
        "stale graph", "freed", "torch.autograd.grad(y, model.weight)",
    ),
    "inputs": (
        "y = model(x).exp()\ny.sum().backward(inputs=[model.weight])\ny.mean().backward()",
        "stale graph", "used", "y.mean()",
    ),
    "leaf": ("model.weight += 1", "leaf changed", "failed", "model.weight += 1"),
    "numpy": ("print(model(x).numpy())", "graph escapes", "failed", "model(x).numpy()"),
    "deepcopy": ("import copy\ncopy.deepcopy(model(x))", "graph copied", "failed", "copy.deepcopy(model(x))"),
    "detach": ("z = model(x).detach()\nz.sum().backward()", "cut graph", "cut", "model(x).detach()"),
    "data": ("z = model(x).data\nz.sum().backward()", "cut graph", "cut", "model(x).data"),
    "item": ("z = torch.tensor(model(x).sum().item())\nz.backward()", "cut graph", "cut", "model(x).sum().item()"),
    "argmax": ("z = model(x).argmax(1).float()\nz.sum().backward()", "cut graph", "cut", "model(x).argmax(1)"),
    "no_grad": ("with torch.no_grad():\n    y = model(x)\ny.sum().backward()", "cut graph", "cut", "model(x)"),
    "legacy": ("y = model(x).sum()\nprint(y.data[0])", "legacy API", "failed", "y.data[0]"),
}  # fmt: skip


@pytest.mark.parametrize("name", FACTS)
def test_every_kind_of_fact(name: str, tmp_path: Path) -> None:
    text, kind, role, place = FACTS[name]
    record = trace(tmp_path, text + "\n")
    assert record.outcome is Outcome.RAISED
    fact = record.facts[0]
    assert fact["kind"] == kind
    assert told(tmp_path, fact)[role] == place
    if kind == "overwritten" and name not in ("view", "out", "step"):
        assert fact["change"] == name
    if name == "step":
        assert (fact["change"], fact["by"]) == ("optimizer step", "Adam")


def test_carried_state_under_retain_graph_is_an_overwritten_weight_in_an_earlier_iteration(tmp_path: Path) -> None:
    record = trace(
        tmp_path,
        """
        cell = nn.RNNCell(3, 3)
        optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
        state = torch.zeros(2, 3)
        for i in range(5):
            after = cell(x, state)
            after.sum().backward(retain_graph=True)
            optimizer.step()
            state = after
        """,
    )
    (fact,) = record.facts
    assert told(tmp_path, fact) == {
        "saved": "cell(x, state)",
        "made": "cell(x, state)",
        "used": "cell(x, state)",
        "changed": "optimizer.step()",
        "retained": "after.sum().backward(retain_graph=True)",
        "failed": "after.sum().backward(retain_graph=True)",
    }


def test_error_that_the_script_catches_is_explained(tmp_path: Path) -> None:
    record = trace(
        tmp_path,
        """
        y = model(x).exp().sum()
        y.backward()
        try:
            y.backward()
        except RuntimeError:
            print("never mind")
        """,
    )
    assert (record.outcome, record.output) == (Outcome.FINISHED, "never mind\n")
    assert [fact["kind"] for fact in record.facts] == ["stale graph"]


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(3):\n    model(x).sum().backward()\n",
        """
        optimizer = torch.optim.LBFGS(model.parameters())
        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).sum()
            loss.backward()
            return loss
        optimizer.step(closure)
        """,
        """
        from torch.utils.checkpoint import checkpoint
        x.requires_grad_()
        for reentrant in (True, False):
            checkpoint(model, x, use_reentrant=reentrant).sum().backward()
        """,
        """
        import threading
        def work():
            model(x).exp().sum().backward()
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
        """
        with torch.inference_mode():
            y = model(x) + 1
            y += 1
        with torch.autocast("cpu"):
            model(x).sum().backward()
        torch.func.vmap(torch.sin)(x)
        torch.func.grad(lambda w: w.sum())(x)
        table = nn.Embedding(5, 3, sparse=True)
        table(torch.tensor([1, 2])).sum().backward()
        torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,)).to_dense()
        """,
    ],
    ids=["loop", "closure", "checkpoint", "threads", "odd tensors"],
)
def test_script_without_a_mistake_gives_no_fact(text: str, tmp_path: Path) -> None:
    record = trace(tmp_path, text)
    assert record.outcome is Outcome.FINISHED, record.output
    assert record.facts == ()


def test_failure_in_a_closure_of_lbfgs(tmp_path: Path) -> None:
    record = trace(
        tmp_path,
        """
        features = model(x)
        head = nn.Linear(3, 1)
        optimizer = torch.optim.LBFGS(head.parameters())
        def closure():
            optimizer.zero_grad()
            loss = head(features).pow(2).sum()
            loss.backward()
            return loss
        optimizer.step(closure)
        """,
    )
    roles = told(tmp_path, record.facts[0])
    assert (roles["made"], roles["used"]) == ("model(x)", "head(features)")


def test_own_function_that_saves_what_is_overwritten(tmp_path: Path) -> None:
    record = trace(
        tmp_path,
        """
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x
            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return 2 * x * g
        y = model(x) * 1
        z = Square.apply(y)
        y.mul_(2)
        z.sum().backward()
        """,
    )
    (fact,) = record.facts
    roles = told(tmp_path, fact)
    assert (fact["kind"], roles["changed"]) == ("overwritten", "y.mul_(2)")


LEAKS = {
    "list": ("kept = []", "kept.append(loss)", "kept", "list"),
    "total": ("total = 0", "total = total + loss", "total", "variable"),
    "total in place": ("total = torch.zeros(())", "total += loss", "total", "variable"),
}


@pytest.mark.parametrize("name", LEAKS)
def test_graphs_that_are_held_for_nothing_are_told(name: str, tmp_path: Path) -> None:
    start, keep, holder, kind = LEAKS[name]
    text = f"""
    optimizer = torch.optim.Adam(model.parameters())
    {start}
    for i in range(20):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        {keep}
    """
    record = trace(tmp_path, text)
    assert record.outcome is Outcome.FINISHED
    assert {fact["kind"] for fact in record.facts} == {"graph held"}
    assert (holder, kind) in {(h["name"], h["kind"]) for fact in record.facts for h in fact["holders"]}


def test_training_that_holds_nothing_gives_no_fact(tmp_path: Path) -> None:
    text = LEAKS["list"]
    loop = f"""
    optimizer = torch.optim.Adam(model.parameters())
    {text[0]}
    for i in range(20):
        loss = model(x).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept.append(loss.detach())
    """
    assert trace(tmp_path, loop).facts == ()


def test_changes_that_autograd_does_not_record_are_let_be(tmp_path: Path) -> None:
    text = "nn.Embedding(5, 3, padding_idx=0)\nnn.init.orthogonal_(nn.Linear(3, 3).weight)\n"
    record = trace(tmp_path, text)
    assert record.outcome is Outcome.FINISHED, record.output
    assert record.facts == ()
