"""Repair from the evidence of a run alone: some of the fixtures, and values whose ways a reader does not follow."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from autofix.proof.prove import Limits, Script
from autofix.repair import Repair, repair
from tests.sampling import sampled

FOLDER = Path(__file__).parent.parent / "fixtures"
FIXTURES = sorted(path for path in FOLDER.iterdir() if path.is_dir())
LIMITS = Limits(timeout=60, steps=8)

START = """\
import torch
from torch import nn
torch.manual_seed(0)
net, head = nn.Linear(3, 3), nn.Linear(3, 1)
optimizer = torch.optim.SGD([*net.parameters(), *head.parameters()], lr=0.1)
batches = torch.randn(6, 4, 3)
"""
STEP = """\
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

TEMPERATURE = """\
import torch
from torch import nn

torch.manual_seed(0)
actor, log_alpha = nn.Linear(3, 2), nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
temperature = torch.optim.Adam([log_alpha], lr=1e-2)

def sample(s):
    mean, spread = actor(s).chunk(2, -1)
    normal = torch.distributions.Normal(mean, spread.exp())
    action = normal.rsample()
    return action, normal.log_prob(action).sum(-1)

for step in range(40):
    s = torch.randn(16, 3)
    action, logp = sample(s)
    loss = (log_alpha.exp().detach() * logp + (action - 1).pow(2).sum(-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    gap = -(log_alpha * (logp + 1)).mean()
    temperature.zero_grad()
    gap.backward()
    temperature.step()
"""


def by_run(folder: Path, text: str, **others: str) -> Repair:
    for name, content in others.items():
        (folder / f"{name}.py").write_text(textwrap.dedent(content))
    script = folder / "train.py"
    script.write_text(text)
    return repair(Script(script), LIMITS, static=False)


def assert_proved(outcome: Repair) -> None:
    assert outcome.certificate is not None, (outcome.note, outcome.refused)
    assert outcome.certificate.proved, [(p.name, p.verdict, p.detail) for p in outcome.certificate.points]


BY_READING = (
    "flag_optimised",
    "guard_features_closure_operator_matrix",
    "keep_graph_molecule_losses",
    "keep_graph_noise_level_two_ways_project",
    "keep_graph_number_of_a_meter",
    "keep_graph_policy_losses",
    "keep_graph_reentrant_checkpoint_project",
    "keep_graph_rotation_matrix",
    "keep_graph_uncertainty_weights",
    "leaf_again",
    "leave_inference",
    "modernize_function",
    "modernize_legacy_async",
    "record_forward_scale_alone_trains",
    "release_graph_callback_project",
    "release_graph_lerp_statistics",
    "release_graph_log_rows",
    "release_graph_loss_tracker",
    "release_graph_meter_objects",
    "release_graph_metrics_by_state_project",
    "release_graph_running_stats",
    "reset_itself_evolving_weight_project",
    "reset_itself_spiking_sequential",
    "soften_index",
    "soften_mask",
    "step_order_features_for_the_caller",
    "unfreeze_parameters",
)
"""Mistakes that a run does not explain: it shows that there is no graph, no program, or the holders of graphs, but not
why; or no name in the training loop leads to the states, or to the function that is to compute the lost value anew.
"""
SHOWN = [path for path in FIXTURES if not path.name.startswith(BY_READING)]
NOT_SHOWN = [path for path in FIXTURES if path.name.startswith(BY_READING)]
SAMPLE = [path for path in SHOWN if sampled(path.name, 32)]
SAMPLE_NOT_SHOWN = [path for path in NOT_SHOWN if sampled(path.name, 8)]
"""A fixed thirty-second and a fixed eighth of all fixtures: each costs three runs of its script and more.  ``make
benchmark`` has them all, as ``run --no-static``.
"""


def entry_of(fixture: Path) -> Path:
    about = json.loads((fixture / "about.json").read_text(encoding="utf-8"))
    return fixture / str(about.get("entry", "broken.py"))


@pytest.mark.parametrize("fixture", SAMPLE_NOT_SHOWN, ids=lambda path: path.name)
def test_where_a_run_does_not_show_why_it_leads_to_no_patch(fixture: Path) -> None:
    outcome = repair(Script(entry_of(fixture)), LIMITS, static=False)
    assert outcome.certificate is None or not outcome.certificate.proved
    assert not outcome.analysis.changes


@pytest.mark.parametrize("fixture", SAMPLE, ids=[path.name for path in SAMPLE])
def test_a_fixture_is_repaired_from_its_run(fixture: Path) -> None:
    outcome = repair(Script(entry_of(fixture)), LIMITS, static=False)
    assert_proved(outcome)
    assert outcome.evidence
    assert all(finding.fixed for finding in outcome.analysis.findings)


WAYS = {
    "list": ("kept = []", "out + torch.stack(kept).mean()", "if kept else out", "kept.append(out)"),
    "item of a dictionary": ("kept = {}", "out + kept['last'].exp()", "if kept else out", "kept['last'] = out"),
    "attribute": ("net.last = None", "out + net.last.exp()", "if net.last is not None else out", "net.last = out"),
    "setattr": (
        "net.last = None",
        "out + net.last.exp()",
        "if net.last is not None else out",
        "setattr(net, 'last', out)",
    ),
    "tuple": ("pair = None", "out + pair[0].exp()", "if pair else out", "pair = (out, step)"),
    "closure": (
        "kept = []\nkeep = lambda value: kept.append(value)",
        "out + kept[-1].exp()",
        "if kept else out",
        "keep(out)",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_value_that_is_carried_from_one_iteration_to_the_next(way: str, tmp_path: Path) -> None:
    before, use, condition, keep = WAYS[way]
    text = f"{START}{before}\nfor step, x in enumerate(batches):\n    out = net(x)\n    mixed = {use} {condition}\n"
    text += f"    loss = head(mixed).pow(2).mean()\n{STEP}    {keep}\n"
    assert_proved(by_run(tmp_path, text))


def test_value_that_a_hook_keeps(tmp_path: Path) -> None:
    text = f"""{START}
class Taps:
    def __init__(self):
        self.seen = []
    def __call__(self, module, args, output):
        self.seen.append(output)
taps = Taps()
net.register_forward_hook(taps)
for x in batches:
    out = net(x)
    loss = head(out).pow(2).mean() + sum(old.exp().mean() for old in taps.seen[:-1])
{STEP}"""
    outcome = by_run(tmp_path, text)
    assert_proved(outcome)
    (finding,) = outcome.analysis.findings
    assert outcome.analysis.source.split("\n")[finding.cause.line - 1].strip() == "self.seen.append(output)"


def test_value_that_waits_in_a_generator(tmp_path: Path) -> None:
    text = f"""{START}
def running():
    mean = torch.zeros(())
    while True:
        value = yield mean
        mean = 0.5 * mean + 0.5 * value
means = running()
next(means)
for x in batches:
    out = net(x)
    loss = head(out).pow(2).mean() + means.send(out.mean()).exp()
{STEP}"""
    assert_proved(by_run(tmp_path, text))


def test_edit_lies_in_the_file_that_keeps_the_value(tmp_path: Path) -> None:
    memory = """
    class Memory:
        def __init__(self):
            self.items = []
        def push(self, item):
            self.items.append(item)
    """
    text = f"""{START}
from memory import Memory
bank = Memory()
for x in batches:
    out = net(x)
    loss = head(out).pow(2).mean() + sum(item.exp().mean() for item in bank.items)
{STEP}    bank.push(out)
"""
    outcome = by_run(tmp_path, text, memory=memory)
    assert_proved(outcome)
    assert outcome.analysis.patched == outcome.analysis.source
    ((before, after),) = outcome.analysis.program.changed(outcome.analysis.repaired)
    assert before.path.endswith("memory.py")
    assert "self.items.append(item.detach())" in after.text


def test_two_mistakes_give_one_patch(tmp_path: Path) -> None:
    text = f"""{START}
kept = []
for x in batches:
    hidden = net(x)
    gate = hidden.exp()
    gate += 1
    out = hidden * gate
    loss = head(out).pow(2).mean() + sum(old.exp().mean() for old in kept)
{STEP}    kept.append(out)
"""
    outcome = by_run(tmp_path, text)
    assert_proved(outcome)
    assert len(outcome.analysis.findings) == 2
    assert "gate = gate + 1" in outcome.analysis.patched
    assert "kept.append(out.detach())" in outcome.analysis.patched


def test_inner_loop_in_a_method(tmp_path: Path) -> None:
    text = f"""{START}
class Trainer:
    def __init__(self):
        self.state = torch.zeros(4, 3)
    def fit(self):
        for epoch in range(2):
            for x in batches:
                self.state = torch.tanh(net(x) + self.state)
                loss = head(self.state).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
Trainer().fit()
"""
    assert_proved(by_run(tmp_path, text))


def test_what_no_candidate_repairs_is_explained(tmp_path: Path) -> None:
    text = f"{START}loss = net(batches[0]).exp().sum()\nloss.backward()\nloss.backward()\n"
    outcome = by_run(tmp_path, text)
    assert outcome.fails
    assert outcome.certificate is None
    assert outcome.analysis.patched == text
    assert [told.kind for told in outcome.evidence] == ["stale graph"]
    assert "this backward freed the graph" in outcome.note


def test_sound_script_is_left_alone(tmp_path: Path) -> None:
    text = f"{START}for x in batches:\n    loss = head(net(x)).pow(2).mean()\n{STEP}"
    outcome = by_run(tmp_path, text)
    assert not outcome.fails
    assert outcome.analysis.patched == text


def test_graph_is_not_given_back_to_the_wrong_network(tmp_path: Path) -> None:
    text = f"""{START}
teacher = nn.Linear(3, 3)
for x in batches:
    target = teacher(x).detach()
    guess = net(x).argmax(1, keepdim=True).float()
    loss = (guess - target).pow(2).mean()
{STEP}"""
    outcome = by_run(tmp_path, text)
    assert outcome.fails
    assert outcome.analysis.patched == text


def test_what_a_run_does_not_come_to_is_not_reported_as_broken(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    text = (FOLDER / "detach_stored" / "broken.py").read_text(encoding="utf-8")
    script.write_text("import sys\n\nif len(sys.argv) > 1:\n" + textwrap.indent(text, "    "))
    outcome = repair(Script(script), LIMITS)
    assert outcome.certificate is None and not outcome.analysis.changes and not outcome.fails
    told = "No error. The run does not reach what the source shows: AF"
    assert outcome.note.startswith(told)
    assert not outcome.analysis.findings


def test_detach_is_better_than_random_numbers_drawn_anew(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TEMPERATURE)
    outcome = repair(Script(script), LIMITS)
    assert_proved(outcome)
    assert "logp.detach()" in outcome.analysis.patched


TWO_MISTAKES = """\
average = torch.zeros(1)
for batch in batches:
    out = head(net(batch))
    average = 0.9 * average + 0.1 * out.mean(0)
    loss = out.pow(2).mean() + average.pow(2).mean()
"""


@pytest.mark.parametrize("static", [True, False])
def test_second_mistake_that_is_known_is_repaired_as_well(tmp_path: Path, static: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(START + TWO_MISTAKES + STEP + "print(head(net(batches[0])).numpy().shape)\n", encoding="utf-8")
    found = repair(Script(path), LIMITS, static=static)
    assert found.certificate is not None
    assert found.certificate.proved, found
    assert ".detach().numpy()" in found.analysis.repaired.files[0].text


@pytest.mark.parametrize("static", [True, False])
def test_second_mistake_that_is_unknown_is_told(tmp_path: Path, static: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(START + TWO_MISTAKES + STEP + "print(torch.zeros(3) + torch.zeros(4))\n", encoding="utf-8")
    found = repair(Script(path), LIMITS, static=static)
    assert found.certificate is not None
    assert not found.certificate.proved
    assert found.analysis.changes
    assert "is repaired: the script gets past the failure.  What remains: line 16" in found.note


TWO_BRANCHES = """\
import sys
import torch
from torch import nn

G, D = nn.Linear(3, 4), nn.Linear(4, 1)
od = torch.optim.SGD(D.parameters(), lr=0.1)
og = torch.optim.SGD(G.parameters(), lr=0.1)
for step in range(12):
    real, fake = torch.randn(6, 4), G(torch.randn(6, 3))
    if "--relative" in sys.argv:
        score = D(fake) - D(real)
    else:
        score = D(fake)
    dl = torch.sigmoid(score).mean() - torch.sigmoid(D(real)).mean()
    od.zero_grad()
    dl.backward(retain_graph=True)
    od.step()
    og.zero_grad()
    gl = -torch.sigmoid(score).pow(2).mean()
    gl.backward()
    og.step()
"""


@pytest.mark.parametrize("static", [True, False])
def test_what_one_of_two_branches_computes_is_not_computed_anew_behind_them(tmp_path: Path, static: bool) -> None:
    """A run comes through one branch alone: the patch must be right for the other one, too."""
    path = tmp_path / "gan.py"
    path.write_text(TWO_BRANCHES, encoding="utf-8")
    found = repair(Script(path), LIMITS, static=static)
    patched = found.analysis.repaired.files[0].text
    before, _, behind = patched.partition("dl = ")
    anew = int(static)  # the source shows both sides; after the run, the code before is left as it is
    for line in ('if "--relative" in sys.argv:\n', "score = D(fake) - D(real)\n", "score = D(fake)\n"):
        assert behind.count(line) == anew
    assert patched.count("score = D(fake)") == 2
    assert before.count("score = D(fake.detach())") == 2 * anew
