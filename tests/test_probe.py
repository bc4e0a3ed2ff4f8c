"""The probe's record of a run, in scripts that use autograd in unusual ways."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from autofix.child.job import Bounds
from autofix.execution.record import Outcome, RunRecord
from autofix.execution.runner import Limits, Script, run

START = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(8, 3)
"""


def execute(folder: Path, text: str, bounds: Bounds | None = None) -> RunRecord:
    path = folder / "train.py"
    path.write_text(START + textwrap.dedent(text))
    record = run(Script(path), Limits(timeout=60, steps=5), bounds or Bounds())
    assert not record.mistakes, record.mistakes[0]
    return record


LOOP = """
for i in range(6):
    loss = model(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_parameters_have_the_names_that_the_script_gives_them(tmp_path: Path) -> None:
    record = execute(tmp_path, LOOP)
    assert [p.name for p in record.parameters.values()] == [
        "model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias",
    ]  # fmt: skip
    assert record.optimizers == ("Adam",)


def test_names_within_functions_and_objects(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(3, 1, bias=False)
        class Trainer:
            def __init__(self):
                self.critic = Net()
            def fit(self):
                net, more = Net(), [Net(), Net()]
                networks = [net, self.critic, *more]
                optimizer = torch.optim.SGD([p for n in networks for p in n.parameters()], lr=0.1)
                sum(n.head(x).sum() for n in networks).backward()
                optimizer.step()
        Trainer().fit()
        """,
    )
    assert [p.name for p in record.parameters.values() if p.optimizer == 1] == [
        "net.head.weight", "self.critic.head.weight", "Net.head.weight", "Net.head.weight (2)",
    ]  # fmt: skip


def test_every_step_is_recorded(tmp_path: Path) -> None:
    record = execute(tmp_path, LOOP)
    assert (record.outcome, record.steps, len(record.losses)) == (Outcome.FINISHED, 6, 6)
    for step in record.updates:
        assert all(norm > 0 for norm in step.gradients.values())
        assert all(distance > 0 for distance in step.moved.values())
    assert len({step.live.nodes for step in record.updates}) == 1
    assert {step.live.armed for step in record.updates} == {0}
    assert all(one.line is not None and one.past == 0 for one in record.passes)


def test_graph_that_the_script_holds_shows(tmp_path: Path) -> None:
    record = execute(tmp_path, "kept = []\n" + LOOP.replace("loss.backward()", "loss.backward(); kept.append(loss)"))
    nodes = [step.live.nodes for step in record.updates]
    assert nodes == sorted(nodes)
    assert nodes[-1] > nodes[0]
    assert {step.live.armed for step in record.updates} == {0}


def test_total_that_grows_in_place_shows_although_its_tensor_is_old(tmp_path: Path) -> None:
    record = execute(
        tmp_path, "total = torch.zeros(())\n" + LOOP.replace("optimizer.step()", "optimizer.step(); total += loss")
    )
    nodes = [step.live.nodes for step in record.updates]
    assert nodes[-1] > nodes[1]


def test_cycles_that_wait_for_collection_are_not_counted(tmp_path: Path) -> None:
    record = execute(tmp_path, LOOP.replace("optimizer.step()", "optimizer.step(); box = [loss]; box.append(box)"))
    assert len({step.live.nodes for step in record.updates[1:]}) == 1


def test_closures_of_lbfgs(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
        def closure():
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss
        for i in range(3):
            optimizer.step(closure)
        """,
    )
    assert record.steps == 3
    assert len(record.losses) > 3
    assert all(norm > 0 for step in record.updates for norm in step.gradients.values())


def test_gradient_penalty_and_second_derivatives(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        x.requires_grad_()
        for i in range(3):
            out = model(x).sum()
            g, = torch.autograd.grad(out, x, create_graph=True)
            loss = out + g.pow(2).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    assert [one.kind for one in record.passes] == ["grad", "backward"] * 3
    assert [one.keeps for one in record.passes] == [True, False] * 3
    assert len(record.losses) == 3


def test_generator_of_parameters_is_left_to_the_script(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        for i in range(3):
            gradients = torch.autograd.grad(model(x).sum(), model.parameters(), create_graph=True)
            optimizer.zero_grad()
            sum(map(torch.sum, gradients)).backward(inputs=(p for p in model.parameters()))
            optimizer.step()
        """,
    )
    assert [one.kind for one in record.passes] == ["grad", "backward"] * 3
    assert record.steps == 3


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_is_one_pass(reentrant: bool, tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        f"""
        from torch.utils.checkpoint import checkpoint
        x.requires_grad_()
        for i in range(3):
            loss = checkpoint(model, x, use_reentrant={reentrant}).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        """,
    )
    assert (record.outcome, len(record.passes), record.steps) == (Outcome.FINISHED, 3, 3)


def test_own_functions_autocast_and_gradients_of_several_roots(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return 2 * x
            @staticmethod
            def backward(ctx, g):
                x, = ctx.saved_tensors
                return 2 * g
        with torch.autocast("cpu"):
            out = Double.apply(model(x))
        torch.autograd.backward([out.sum(), out.float().mean()])
        out = model(x)
        out.backward(torch.ones_like(out))
        model(x).sum().backward(inputs=list(model.parameters())[:1])
        optimizer.step()
        """,
    )
    assert record.outcome is Outcome.FINISHED, record.output
    assert [len(one.losses) for one in record.passes] == [2, 1, 1]


def test_sparse_gradients_and_empty_parameters(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        table = nn.Embedding(10, 3, sparse=True)
        table.nothing = nn.Parameter(torch.empty(0))
        optimizer = torch.optim.SparseAdam([table.weight])
        other = torch.optim.SGD([table.nothing], lr=0.1)
        for i in range(3):
            optimizer.zero_grad()
            table(torch.tensor([1, 2])).sum().backward()
            optimizer.step()
            other.step()
        """,
        Bounds(0, 0, 0, reference=False),
    )
    assert record.outcome is Outcome.FINISHED, record.output
    assert all(step.gradients for step in record.updates if step.optimizer == 1)


def test_weight_that_is_bound_anew_at_every_step_is_one_weight(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        w = torch.randn(3, requires_grad=True)
        for i in range(4):
            loss = (x @ w).pow(2).mean()
            loss.backward()
            w = (w - 0.1 * w.grad).detach().requires_grad_()
        """,
    )
    (weight,) = [p for p in record.parameters.values() if p.optimizer is None]
    assert weight.name == "w"
    assert len({one.state[weight.index] for one in record.passes}) == 4


def test_error_that_the_script_catches_is_its_failure(tmp_path: Path) -> None:
    record = execute(
        tmp_path,
        """
        loss = model(x).sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError:
            pass
        """
        + "        "
        + LOOP.replace("\n", "\n        "),
    )
    assert record.failure is not None
    assert record.failure.in_pass
    assert "second time" in record.failure.error.message
    assert record.outcome is Outcome.STOPPED
    assert record.steps == 5


def test_reference_gives_the_gradient_of_the_formula(tmp_path: Path) -> None:
    """Compared with a script that computes the same values and keeps everything by its own means."""
    broken = """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = torch.zeros(1)
    for i in range(2):
        state = torch.sigmoid(model(x).mean() + state)
        loss = (state - 1) ** 2
        optimizer.zero_grad()
        loss.backward(RETAIN)
        optimizer.step()
    """
    bounds = Bounds(1, 2, 1, reference=True)
    reference = execute(tmp_path, broken.replace("RETAIN", ""), bounds)
    functional = """
    from torch.func import functional_call
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state, old = torch.zeros(1), [{k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}]
    for i in range(2):
        state = torch.sigmoid(functional_call(model, old[-1], (x,)).mean() + state)
        loss = (state - 1) ** 2
        gradients = [torch.autograd.grad(loss, list(w.values()), retain_graph=True) for w in old]
        for p, *g in zip(model.parameters(), *gradients):
            p.grad = sum(g)
        optimizer.step()
        old.append({k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()})
    """
    expected = execute(tmp_path, functional, Bounds(1, 2, 1))
    ours, theirs = reference.updates[1].sketches, expected.updates[1].sketches
    assert ours is not None
    assert theirs is not None
    members = [i for i, p in reference.parameters.items() if p.optimizer == 1]
    others = {p.key: i for i, p in expected.parameters.items()}
    for index in members:
        other = theirs[others[reference.parameters[index].key]]
        assert ours[index] == pytest.approx(other, rel=1e-5, abs=1e-8)
        assert reference.updates[1].sound[index] != pytest.approx(ours[index], rel=1e-3, abs=1e-8)


def test_reference_keeps_second_derivatives(tmp_path: Path) -> None:
    text = """
    x.requires_grad_()
    for i in range(2):
        out = torch.tanh(model(x)).sum()
        g, = torch.autograd.grad(out, x, create_graph=True)
        optimizer.zero_grad()
        (out + g.pow(2).sum()).backward()
        optimizer.step()
    """
    plain, reference = (
        execute(tmp_path, text, Bounds(0, 0, 0)),
        execute(tmp_path, text, Bounds(0, 0, 0, reference=True)),
    )
    assert plain.updates[1].sketches == reference.updates[1].sketches
    assert plain.losses == reference.losses


def test_a_view_made_without_grad_mode_does_not_end_the_count_of_steps(tmp_path: Path) -> None:
    record = execute(tmp_path, "with torch.no_grad():\n    first = model[0].weight[:1]\n" + LOOP)
    assert record.steps == 6
