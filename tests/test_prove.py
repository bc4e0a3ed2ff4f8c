"""Proofs by execution: right patches pass, tempting wrong ones are refused, and a run that failed is never a pass."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from autofix.child.recorded import RunError, Step
from autofix.execution.record import Failure
from autofix.foreign import patched
from autofix.proof.points.training import Own, why_trained_otherwise
from autofix.proof.prove import HELD, Certificate, Limits, Original, Script, Verdict, prove

LIMITS = Limits(timeout=60)
STALE = "Trying to backward through the graph a second time"
INPLACE = "modified by an inplace operation"

STORED = """\
import torch
from torch import nn

torch.manual_seed(3)
first, second = nn.Linear(3, 5), nn.Linear(5, 1)
optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.01)
x, y = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0])
store = []
for i in range(100000):
    h = first(x)
    store.append(h)
    out = second(h)
    if i:
        out = out + store[-2].mean()
    loss = nn.functional.mse_loss(out, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

RECURRENT = """\
import torch

rnn = torch.nn.RNN(input_size=2, hidden_size=3)
inputs, targets = torch.randn(30, 1, 2), torch.randn(30, 1, 3)
hidden = torch.zeros(1, 3)
optimizer = torch.optim.Adadelta(rnn.parameters(), lr=0.01)
for i in range(30):
    optimizer.zero_grad()
    out, after = rnn(inputs[i], hidden)
    loss = torch.nn.functional.mse_loss(out, targets[i])
    loss.backward(retain_graph=True)
    optimizer.step()
    hidden = after
"""

GAN = """\
import torch
from torch import nn, optim

G, D = nn.Linear(2, 2), nn.Linear(2, 2)
optimG, optimD = optim.Adam(G.parameters()), optim.Adam(D.parameters())
t = torch.tensor([1.0, 2.0], requires_grad=True)
g = G(t)
d = D(g)
lossD = d.sum()
optimD.zero_grad()
lossD.backward()
optimD.step()
lossG = (g + d).sum()
optimG.zero_grad()
lossG.backward()
optimG.step()
"""

FEATURES = """\
import torch
from torch import nn

extractor, model = nn.Linear(4, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters())
for batch in range(50):
    images, labels = torch.randn(6, 4), torch.randn(6, 1)
    optimizer.zero_grad()
    before = extractor(images[0])
    for i in range(1, 6):
        loss = (model(images[i] + torch.tanh(before)) - labels[i]).pow(2).mean()
        loss.backward()
    optimizer.step()
"""

BY_HAND = """\
import torch

w = torch.randn(3, requires_grad=True)
x = torch.randn(20, 3)
running = torch.zeros(())
for i in range(20):
    running = 0.9 * running + (x[i] * w).sum().tanh()
    loss = (1 - running) ** 2
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
"""

ACTOR_CRITIC = """\
import torch
from torch import nn

torch.manual_seed(1)
actor, critic = nn.Linear(3, 2), nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1))
act_opt = torch.optim.Adam(actor.parameters(), lr=0.01)
crit_opt = torch.optim.SGD(critic.parameters(), lr=0.05)
for i in range(1000):
    state, reward = torch.randn(5, 3), torch.randn(5, 1)
    action = actor(state)
    actor_loss = -critic(action).mean()
    critic_loss = (critic(action.detach()) - reward).pow(2).mean()
    crit_opt.zero_grad()
    critic_loss.backward()
    crit_opt.step()
    act_opt.zero_grad()
    actor_loss.backward()
    act_opt.step()
"""

OVERWRITTEN = """\
import torch
from torch import nn

torch.manual_seed(2)
body, head = nn.Linear(3, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
for i in range(1000):
    x = torch.randn(6, 3)
    h = torch.sigmoid(body(x))
    skip = h * 0.5
    h += 1
    loss = (head(h) + skip.sum(1, keepdim=True)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TWO_TERMS = """\
import torch
from torch import nn

torch.manual_seed(4)
encoder, decoder = nn.Linear(3, 4), nn.Linear(4, 3)
optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.05)
centre = torch.zeros(4)
for i in range(1000):
    x = torch.randn(8, 3)
    code = torch.tanh(encoder(x))
    centre = 0.9 * centre + 0.1 * code.mean(0)
    apart = (code - centre).pow(2).mean()
    same = (decoder(code) - x).pow(2).mean()
    optimizer.zero_grad()
    (same + apart).backward()
    optimizer.step()
"""


def certify(
    folder: Path, broken: str, *changes: tuple[str, str], expected: str = "", limits: Limits = LIMITS
) -> Certificate:
    """Prove *broken* with each (old, new) replaced."""
    fixed = broken
    for old, new in changes:
        assert old in fixed
        fixed = fixed.replace(old, new)
    path = folder / "train.py"
    path.write_text(broken)
    certificate = prove(Original(Script(path), limits), Script(path, text=fixed), expected_error=expected)
    assert not certificate.before.mistakes
    assert not certificate.after.mistakes
    json.dumps([point.figures for point in certificate.points])
    assert path.read_text() == broken
    return certificate


def verdicts(certificate: Certificate) -> dict[int, Verdict]:
    return {point.number: point.verdict for point in certificate.points}


def failed(certificate: Certificate) -> dict[int, str]:
    return {point.number: point.detail for point in certificate.points if point.verdict is Verdict.FAILED}


def show(certificate: Certificate) -> str:
    return "\n".join(f"{p.number} {p.name}: {p.verdict} - {p.detail}" for p in certificate.points)


RIGHT = {
    "a stored tensor is detached": (STORED, STALE, [("append(h)", "append(h.detach())")]),
    "a stored tensor is detached where it is used": (
        STORED, STALE, [("store[-2].mean()", "store[-2].detach().mean()")],
    ),
    "a carried state is detached": (
        RECURRENT, INPLACE, [("hidden = after", "hidden = after.detach()"), ("retain_graph=True", "")],
    ),
    "the discriminator's output is detached": (
        GAN, STALE, [("lossD.backward()", "lossD.backward(retain_graph=True)"), ("(g + d)", "(g + d.detach())")],
    ),
    "the discriminator is asked anew": (
        GAN, STALE, [("d = D(g)", "d = D(g.detach())"), ("(g + d)", "(g + D(g))")],
    ),
    "untrained features are taken without graph": (
        FEATURES, STALE,
        [("    before = extractor(images[0])", "    with torch.no_grad():\n        before = extractor(images[0])")],
    ),
    "the losses are summed into one backward": (
        FEATURES, STALE,
        [("for i in", "total = 0\n    for i in"), ("loss.backward()", "total = total + loss"),
         ("    optimizer.step()", "    total.backward()\n    optimizer.step()")],
    ),
    "weights that are updated by hand": (BY_HAND, STALE, [("0.9 * running +", "0.9 * running.detach() +")]),
    "an old API and a stored tensor": (
        STORED.replace("optimizer.step()", "optimizer.step()\n    print(loss.data[0])"), "0-dim tensor",
        [("append(h)", "append(h.detach())"), ("loss.data[0]", "loss.item()")],
    ),
    "two losses are walked before either network changes": (
        ACTOR_CRITIC, INPLACE,
        [("    act_opt.zero_grad()\n    actor_loss.backward()\n", ""),
         ("    crit_opt.zero", "    act_opt.zero_grad()\n    actor_loss.backward()\n    crit_opt.zero")],
    ),
    "the critic is asked anew after its step": (
        ACTOR_CRITIC, INPLACE,
        [("    actor_loss = -critic(action).mean()\n", ""),
         ("    actor_loss.backward()", "    actor_loss = -critic(action).mean()\n    actor_loss.backward()")],
    ),
    "a value is no longer overwritten": (OVERWRITTEN, INPLACE, [("h += 1", "h = h + 1")]),
    "a moving average is detached": (TWO_TERMS, STALE, [("0.9 * centre +", "0.9 * centre.detach() +")]),
}  # fmt: skip


@pytest.mark.parametrize("case", RIGHT)
def test_right_patch_is_proved(case: str, tmp_path: Path) -> None:
    broken, expected, changes = RIGHT[case]
    certificate = certify(tmp_path, broken, *changes, expected=expected)
    assert certificate.proved, show(certificate)


WRONG = {
    "a graph that is retained for ever": (STORED, [("backward()", "backward(retain_graph=True)")], {6}),
    "a retained graph dies at the step after": (GAN, [("lossD.backward()", "lossD.backward(retain_graph=True)")], {2}),
    "a network that the detach freezes": (STORED, [("h = first(x)", "h = first(x).detach()")], {4}),
    "an output without its graph": (STORED, [("second(h)", "second(h.data)"), ("append(h)", "append(h.data)")], {4}),
    "no optimizer step": (STORED, [("append(h)", "append(h.detach())"), ("    optimizer.step()\n", "")], {2, 4}),
    "no optimizer step after the first": (
        STORED, [("append(h)", "append(h.detach())"), ("optimizer.step()", "i or optimizer.step()")], {4}),
    "features of an extractor in training lose their graph": (
        FEATURES.replace("Adam(model.parameters())", "Adam([*model.parameters(), *extractor.parameters()])"),
        [("    before = extractor(images[0])", "    with torch.no_grad():\n        before = extractor(images[0])")],
        {4},
    ),
    "an error that is caught": (
        STORED, [("loss.backward()", "try:\n        loss.backward()\n    except RuntimeError:\n        pass")], {2}),
    "a backward that is left out": (STORED, [("loss.backward()", "i or loss.backward()")], {4}),
    "a script that ends before": (STORED, [("loss = nn", "if i: raise SystemExit\n    loss = nn")], {2}),
    "another loss": (STORED, [("append(h)", "append(h.detach())"), ("mse_loss(", "l1_loss(")], {3}),
    "a loss that is not finite": (
        STORED,
        [("append(h)", "append(h.detach())"), ("    optimizer.zero", "    loss = loss / (i < 9)\n    optimizer.zero")],
        {2},
    ),
    "a weight that is no longer updated by hand": (
        BY_HAND, [("0.9 * running +", "0.9 * running.detach() +"), ("w -= 0.1 * w.grad", "w.clone()")], {3, 4}),
    "a frozen part": (
        STORED,
        [("append(h)", "append(h.detach())"), ("out = second(h)", "out = second(h if i < 4 else h.detach())")],
        {4},
    ),
    "gradients that are doubled": (
        STORED, [("append(h)", "append(h.detach())"), ("loss.backward()", "((2 if i else 1) * loss).backward()")], {5}),
    "a backward pass that runs twice": (
        ACTOR_CRITIC,
        [("    act_opt.zero_grad()\n    actor_loss.backward()\n", ""),
         ("    crit_opt.zero_grad()\n", "    act_opt.zero_grad()\n    actor_loss.backward(retain_graph=True)\n"
          "    actor_loss.backward()\n    crit_opt.zero_grad()\n")],
        {5},
    ),
    "a term of the loss that is detached": (
        TWO_TERMS,
        [("0.9 * centre +", "0.9 * centre.detach() +"), ("(same + apart)", "(same + apart.detach())")],
        {3, 5},
    ),
    "the first term loses its graph after the failure": (
        TWO_TERMS,
        [("0.9 * centre +", "0.9 * centre.detach() +"), ("decoder(code)", "decoder(code.detach() if i else code)")],
        {5},
    ),
    "an overwritten value is detached": (
        OVERWRITTEN, [("h += 1", "h = h.detach() + 1")], {5}),
    "an overwritten value is changed behind autograd's back": (OVERWRITTEN, [("h += 1", "h.data += 1")], {5}),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_patch_is_refused(case: str, tmp_path: Path) -> None:
    broken, changes, numbers = WRONG[case]
    certificate = certify(tmp_path, broken, *changes)
    assert certificate.verdict is Verdict.FAILED, show(certificate)
    assert numbers <= set(failed(certificate)), show(certificate)


def test_a_diff_over_several_files_is_proved_in_a_copy(tmp_path: Path) -> None:
    (tmp_path / "memory.py").write_text("store = []\n\n\ndef keep(h):\n    store.append(h)\n")
    path = tmp_path / "train.py"
    path.write_text(STORED.replace("store = []\n", "from memory import keep, store\n").replace("store.append", "keep"))
    diff = b"""\
--- a/memory.py
+++ b/memory.py
@@ -4,2 +4,2 @@
 def keep(h):
-    store.append(h)
+    store.append(h.detach())
"""
    certificate = prove(Original(Script(path), LIMITS), patched(Script(path), diff, "fix.diff"), expected_error=STALE)
    assert certificate.proved, show(certificate)
    assert "detach" not in (tmp_path / "memory.py").read_text()


def test_long_training_is_stopped(tmp_path: Path) -> None:
    certificate = certify(tmp_path, STORED, ("append(h)", "append(h.detach())"), limits=Limits(steps=7, timeout=60))
    assert certificate.after.outcome == "stopped"
    assert certificate.after.steps == 1 + 7


def test_caught_error_counts_as_failure(tmp_path: Path) -> None:
    broken = STORED.replace("loss.backward()", "try:\n        loss.backward()\n    except RuntimeError:\n        pass")
    certificate = certify(tmp_path, broken, ("append(h)", "append(h.detach())"), expected=STALE)
    assert certificate.proved, show(certificate)


def test_values_kept_by_the_script_are_named_and_do_not_refuse(tmp_path: Path) -> None:
    broken = RECURRENT.replace("hidden = torch", "kept = []\nhidden = torch").replace("retain_graph=True", "")
    broken = broken.replace("hidden = after", "hidden = after\n    kept.append(loss)")
    certificate = certify(tmp_path, broken, ("hidden = after", "hidden = after.detach()"))
    assert certificate.proved, show(certificate)
    assert "the script itself keeps" in certificate.points[-1].detail


NOTHING = {
    "a module is missing": "import no_such_module_anywhere",
    "a file is missing": "open('data.csv')",
    "the original raised no error": "import torch\ntorch.ones(1, requires_grad=True).backward()",
    "there is no GPU": "import torch\ntorch.ones(1, device='cuda')",
    "does not repeat itself": STORED.replace("torch.manual_seed(3)", "torch.seed()"),
}


@pytest.mark.parametrize("reason", NOTHING)
def test_run_that_shows_nothing_is_not_proved(reason: str, tmp_path: Path) -> None:
    certificate = certify(tmp_path, NOTHING[reason] + "\n")
    if "append" in NOTHING[reason]:
        certificate = certify(tmp_path, NOTHING[reason], ("append(h)", "append(h.detach())"))
    assert certificate.verdict is Verdict.NOT_PROVED, show(certificate)
    assert reason in show(certificate)


def test_another_error_than_the_expected_one_fails(tmp_path: Path) -> None:
    certificate = certify(tmp_path, STORED, ("append(h)", "append(h.detach())"), expected=INPLACE)
    assert failed(certificate).keys() == {1}


def test_time_out_is_not_proved(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(STORED)
    slow = STORED.replace("append(h)", "append(h.detach())").replace(
        "    h =", "    __import__('time').sleep(2)\n    h ="
    )
    certificate = prove(Original(Script(path), Limits(timeout=8)), Script(path, text=slow))
    assert verdicts(certificate)[2] is Verdict.NOT_PROVED
    assert "timed out" in certificate.points[1].detail
    assert certificate.verdict is Verdict.NOT_PROVED


COPIED = """\
import torch

torch.manual_seed(0)
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(12):
    losses = [net(torch.randn(4, 3)).pow(2).mean() for _ in range(3)]
    loss = torch.tensor(losses, requires_grad=True).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_script_that_trains_nothing_is_proved_to_train(tmp_path: Path) -> None:
    stacked = ("torch.tensor(losses, requires_grad=True)", "torch.stack(losses)")
    certificate = certify(tmp_path, COPIED, stacked, expected="trains nothing")
    assert certificate.proved, show(certificate)
    assert "none of 2 parameters" in certificate.points[0].detail
    for other, number in (
        (("torch.tensor(losses, requires_grad=True)", "2 * torch.stack(losses)"), 3),
        (("torch.tensor(losses, requires_grad=True)", "torch.tensor(losses).requires_grad_()"), 4),
        (("loss.backward()", "loss.foreward()"), 2),
    ):
        worse = certify(tmp_path, COPIED, other, expected="trains nothing")
        assert number in failed(worse), show(worse)


RATIOS = """\
import torch

torch.manual_seed(0)
policy, critic = torch.nn.Linear(3, 4), torch.nn.Linear(3, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for rollout in range(6):
    state, action, gain = torch.randn(16, 3), torch.randint(4, (16, 1)), torch.randn(16, 1)
    old = policy(state).log_softmax(1).gather(1, action)
    for epoch in range(4):
        new = policy(state).log_softmax(1).gather(1, action)
        ratio = (new - old).exp()
        loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean() + (critic(state) - gain).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def test_what_cancelled_in_the_first_epoch_is_compared_without_what_failed(tmp_path: Path) -> None:
    """With the old probabilities on the graph, the ratio of the first epoch has no gradient; without, it has."""
    certificate = certify(tmp_path, RATIOS, ("(new - old)", "(new - old.detach())"), expected=STALE)
    assert certificate.proved, show(certificate)
    assert "another gradient, without what failed" in certificate.points[2].detail
    for other in ("(new.detach() - old.detach())", "((new - old.detach()) / 2)"):
        worse = certify(tmp_path, RATIOS, ("(new - old)", other), expected=STALE)
        assert worse.verdict is not Verdict.PASSED, show(worse)


LENIENT = {
    "a leaf that is updated in place": (
        "net.weight -= 0.1",
        ("net.weight -= 0.1", "with torch.no_grad():\n        net.weight -= 0.1"),
    ),
    "a tensor that is handed to numpy": ("print(net(x).numpy())", ("net(x).numpy()", "net(x).detach().numpy()")),
    "a view that was made without grad mode": (
        "view_of(x).mul_(net(x)[:, :1])",
        ("view_of(x).mul_(", "view_of(x).mul("),
    ),
    "a view of a parameter that was made without grad mode": (
        "view_of(net.weight).clamp_(-1, 1)",
        ("view_of(net.weight).clamp_(-1, 1)", "with torch.no_grad():\n        view_of(net.weight).clamp_(-1, 1)"),
    ),
    "a tensor that is copied deeply": ("copy.deepcopy(loss)", ("copy.deepcopy(loss)", "copy.deepcopy(loss.detach())")),
}

PLAIN = """\
import copy
import torch

net = torch.nn.Linear(3, 2)
optimizer = torch.optim.Adam(net.parameters())
view_of = torch.no_grad()(lambda tensor: tensor[:, :1])
for i in range(30):
    x = torch.randn(4, 3)
    loss = net(x).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    MISTAKE
"""


@pytest.mark.parametrize("case", LENIENT)
def test_errors_that_no_kept_graph_avoids_have_a_reference_too(case: str, tmp_path: Path) -> None:
    mistake, repair = LENIENT[case]
    broken = PLAIN.replace("MISTAKE", mistake)
    certificate = certify(tmp_path, broken, repair)
    assert certificate.proved, show(certificate)
    assert "exact" in certificate.points[4].detail
    worse = certify(tmp_path, broken, repair, ("net(x).pow", "net(x).detach().requires_grad_().pow"))
    assert worse.verdict is Verdict.FAILED, show(worse)


def test_failure_after_many_steps_is_proved(tmp_path: Path) -> None:
    late = STORED.replace("    if i:\n", "    if i > 300:\n")
    certificate = certify(tmp_path, late, ("append(h)", "append(h.detach())"), expected=STALE)
    assert certificate.proved, show(certificate)
    assert certificate.points[0].figures["steps"] == 301
    worse = certify(tmp_path, late, ("append(h)", "append(h.detach())"), ("lr=0.01", "lr=0.0100001"))
    assert 3 in failed(worse), show(worse)


EVALUATED = """\
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for i in range(3):
        loss = net(torch.randn(4, 3)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    outputs = []
    for i in range(10):
        outputs.append(net(torch.randn(4, 3)))
    print(torch.cat(outputs).mean().item())
"""


def test_graphs_that_an_evaluation_holds_are_counted_between_steps(tmp_path: Path) -> None:
    append = "outputs.append(net(torch.randn(4, 3)))"
    for right in ("outputs.append(net(torch.randn(4, 3)).detach())", f"with torch.no_grad(): {append}"):
        certificate = certify(tmp_path, EVALUATED, (append, right), expected=HELD)
        assert certificate.proved, show(certificate)
    same = certify(tmp_path, EVALUATED, ("print(torch", "print('mean', torch"), expected=HELD)
    assert same.verdict is Verdict.NOT_PROVED, show(same)
    other = ("lr=0.1", "lr=0.2")
    worse = certify(tmp_path, EVALUATED, (append, right), other, expected=HELD)
    assert worse.verdict is Verdict.FAILED, show(worse)


def step(number: int, gradient: float) -> Step:
    """One of parameter 0, after one backward pass; what it was made with and how far it moved is of no concern."""
    others: dict[str, Any] = dict.fromkeys(field.name for field in fields(Step))
    told = {
        "number": number,
        "passes": number,
        "gradients": {0: gradient},
        "moved": {},
        "settings": (),
        "elsewhere": (),
    }
    return Step(**(others | told))


@pytest.mark.parametrize(
    ("gradients", "reason"), [((0, 0, 0, 1), ""), ((0, 0, 0, 0), "gets no gradient after step 4")], ids=str
)
def test_what_rests_trains_if_it_wakes_up_behind_the_reference(gradients: tuple[float, ...], reason: str) -> None:
    """An expert of a mixture gets no gradient while nothing is routed to it."""
    theirs = Own(0, tuple(step(number, 1.0) for number in range(1, 8)))
    mine = Own(0, tuple(step(number, value) for number, value in enumerate((1, 1, 1, 1, 0, 0, 0, *gradients), 1)))
    failure = Failure(RunError("RuntimeError", ""), steps=1, passes=1, in_pass=True)
    assert why_trained_otherwise(theirs, mine, failure, 1.0) == reason


SMALL_TERM = """\
import torch
from torch import nn

torch.manual_seed(0)
G, D = nn.Linear(3, 4), nn.Linear(4, 1)
od = torch.optim.SGD(D.parameters(), lr=0.1)
og = torch.optim.SGD(G.parameters(), lr=1e-5)
for step in range(12):
    fake = G(torch.randn(6, 3))
    score = D(fake)
    od.zero_grad()
    torch.sigmoid(score).mean().backward(retain_graph=True)
    od.step()
    og.zero_grad()
    (300 * fake.pow(2).mean() - 0.5 * torch.sigmoid(score).pow(2).mean()).backward()
    og.step()
"""


def test_a_small_term_of_the_same_iteration_must_not_be_dropped(tmp_path: Path) -> None:
    """A detach that takes 0.05 % of the gradient away is no truncation: no iteration lies between."""
    path = tmp_path / "train.py"
    path.write_text(SMALL_TERM)
    dropped = SMALL_TERM.replace("    og.zero_grad()\n", "    og.zero_grad()\n    score = score.detach()\n")
    anew = SMALL_TERM.replace("    og.zero_grad()\n", "    og.zero_grad()\n    score = D(fake)\n")
    original = Original(Script(path), LIMITS)
    refused = prove(original, Script(path, text=dropped))
    assert [one.number for one in refused.points if one.verdict is Verdict.FAILED] == [5]
    assert prove(original, Script(path, text=anew)).verdict is not Verdict.FAILED


HELD_FOR_HOURS = """\
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for step in range(1_000_000):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    losses.append(loss)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_a_training_of_hours_that_keeps_its_graphs_is_compared_as_far_as_it_was_watched(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(HELD_FOR_HOURS)
    original = Original(Script(path), LIMITS, healthy=0.0)
    certificate = prove(original, Script(path, text=HELD_FOR_HOURS.replace("append(loss)", "append(loss.detach())")))
    assert certificate.proved
    assert certificate.after.steps > certificate.before.steps > 0
    worse = HELD_FOR_HOURS.replace("append(loss)", "append(loss.detach())").replace("pow(2)", "pow(4)")
    assert prove(original, Script(path, text=worse)).verdict is Verdict.FAILED


FAILS_LATE = """\
import torch
from torch import nn

net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(200):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
loss.backward()
"""


def test_a_script_that_may_still_fail_is_watched_on(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(FAILS_LATE)
    late = Original.of(Script(path), LIMITS, 0.0)
    assert late.healthy is None
    assert late.before.failure is not None
    path.write_text(HELD_FOR_HOURS)
    assert Original.of(Script(path), LIMITS, 0.0).healthy == 0.0
