"""Idioms of repositories: state that a class needs before its method is called, inherited loops, options, meters."""

from __future__ import annotations

import pytest
from torch import nn

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.changed import LeafChanged, Overwritten, PartChanged
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.untrained import ComputedParameter
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.interpreter.interpreter import ProgramInterpreter
from autofix.codemods.interpreter.kinds.instances import OF_EVERY_MODULE
from autofix.codemods.interpreter.policy import BranchPolicy, Path
from autofix.codemods.repair import mend
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.codemods.source.sources import Sources

HEADER = """\
import torch
from torch import nn
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
METER = """\
class AverageMeter:
    def __init__(self, items):
        self.n = len(items)
        self.sum, self.count = [0] * self.n, [0] * self.n
    def update(self, values):
        if type(values).__name__ == "list":
            for at, value in enumerate(values):
                self.sum[at] += value
                self.count[at] += 1
        else:
            self.sum[0] += values
    def average(self, at=None):
        if at is None:
            return [self.sum[i] / self.count[i] for i in range(self.n)]
        return self.sum[at] / self.count[at]
"""
RUNNER = """\
from meters import AverageMeter
class Runner:
    def __init__(self, config):
        self.config = config
        self.build()
    def build(self):
        raise NotImplementedError
    def train_step(self, batch):
        raise NotImplementedError
    def train(self):
        self.losses = AverageMeter(["fine", "coarse"])
        for batch in self.loader:
            self.train_step(batch)
        print(self.losses.average())
"""
OWN_RUNNER = """\
import torch
from runner import Runner
class OwnRunner(Runner):
    def build(self):
        self.net = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.loader = torch.utils.data.DataLoader(self.config.data, batch_size=4)
    def train_step(self, batch):
        fine = self.net(batch).pow(2).mean()
        coarse = self.net(batch).abs().mean()
        self.optimizer.zero_grad()
        (fine + coarse).backward()
        self.optimizer.step()
        self.losses.update([fine * 1000, coarse * 1000])
"""
PREPARED = """\
import torch
class Model:
    def name(self):
        return "model"
    def initialize(self, opt):
        self.maker = torch.nn.Linear(opt.size, opt.size)
        self.judge = torch.nn.Linear(opt.size, 1)
        self.of_maker = torch.optim.Adam(self.maker.parameters())
        self.of_judge = torch.optim.Adam(self.judge.parameters())
    def set_input(self, batch):
        self.real = batch["real"]
        self.noise = torch.randn(4, 8)
    def forward(self):
        self.fake = self.maker(self.noise)
    def optimize_parameters(self):
        self.forward()
        for _ in range(5):
            self.of_judge.zero_grad()
            (self.judge(self.fake).mean() - self.judge(self.real).mean()).backward()
            self.of_judge.step()
        self.of_maker.zero_grad()
        (-self.judge(self.fake).mean()).backward()
        self.of_maker.step()
"""
OPTIONS = """\
import argparse
import torch
class Options:
    def __init__(self):
        self.parser = argparse.ArgumentParser()
    def parse(self):
        self.parser.add_argument("--model", type=str, default="plain")
        return self.parser.parse_args()
opt = Options().parse()
net = torch.nn.Linear(3, 1)
if opt.model == "test":
    net = None
elif opt.model == "plain":
    loss = net(torch.randn(4, 3)).mean()
    loss.backward()
    loss.backward()
"""
COUNTED = """\
import json
from collections import Counter
import torch
layer = torch.nn.Linear(3, 3)
counter = Counter()
for row in json.load(open("rows.json")):
    counter.update([str(row)])
chosen = []
for key, times in counter.items():
    if times > 3:
        continue
    chosen.append(key)
if len(chosen) == 0:
    raise SystemExit
layer.weight[0] -= 1.0
"""
MOVED = """\
import torch
from torch.autograd import Variable
picture = Variable(torch.randn(3, 3) * 1e-3, requires_grad=True)
if torch.cuda.is_available():
    picture = picture.cuda()
optimizer = torch.optim.Adam([picture])
picture.pow(2).sum().backward()
optimizer.step()
"""


def facts(text: str, **others: str) -> list[Fact]:
    files = {f"{name}.py": other for name, other in others.items()}
    return list(analyze(Program.of(text, "train.py", files)).facts)


def test_what_a_method_reads_is_set_by_the_methods_of_its_class_first() -> None:
    found = facts(PREPARED)
    assert {fact.freed.line for fact in found if isinstance(fact, StaleGraph)} == {19}
    detached = PREPARED.replace("self.judge(self.fake).mean() - ", "self.judge(self.fake.detach()).mean() - ")
    assert facts(detached) == []


def test_a_method_that_makes_ready_for_a_test_is_not_called_first() -> None:
    other = PREPARED.replace(
        "    def set_input", "    def test_setup(self, opt):\n        self.real = None\n    def set_input"
    )
    assert any(isinstance(fact, StaleGraph) for fact in facts(other))


def test_a_loop_that_a_class_inherits_calls_its_step() -> None:
    held = [fact for fact in facts(OWN_RUNNER, runner=RUNNER, meters=METER) if isinstance(fact, GraphHeld)]
    assert [fact.handed.line for fact in held if fact.handed] == [14, 14]
    numbers = OWN_RUNNER.replace("fine * 1000, coarse * 1000", "fine.item() * 1000, coarse.item() * 1000")
    assert facts(numbers, runner=RUNNER, meters=METER) == []


@pytest.mark.parametrize("usual", ["plain", "test"])
def test_an_option_is_likely_to_have_its_default(usual: str) -> None:
    text = OPTIONS.replace('default="plain"', f'default="{usual}"')
    found = [fact for fact in facts(text) if isinstance(fact, StaleGraph)]
    assert [fact.failed.line for fact in found] == [16]  # the other way is followed as well


def test_a_counter_that_is_given_items_may_hold_any() -> None:
    assert [fact.changed.line for fact in facts(COUNTED) if isinstance(fact, LeafChanged)] == [15]


PUT_ANEW = """\
import math
import torch
from torch import nn
from plugins import find_head
class Detector(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = find_head(config)
        self.start()
    def start(self):
        head = self.model[-1]
        for layer, stride in zip(head.layers, head.strides):
            part = layer.bias.view(head.anchors, -1)
            part[:, 4] += math.log(8 / (640 / stride) ** 2)
            layer.bias = nn.Parameter(part.view(-1), requires_grad=True)
"""


def test_an_attribute_in_whose_place_a_parameter_is_put_is_likely_to_be_one() -> None:
    (found,) = facts(PUT_ANEW)
    assert isinstance(found, LeafChanged)
    assert (found.changed.line, found.certainty) == (14, Certainty.LIKELY)
    assert facts(PUT_ANEW.replace("part[:, 4]", "part.data[:, 4]")) == []
    assert facts(PUT_ANEW.replace("layer.bias = nn.Parameter(part.view(-1), requires_grad=True)", "print(part)")) == []


def test_a_variable_that_is_moved_to_a_gpu_is_no_leaf() -> None:
    (found,) = facts(MOVED)
    assert isinstance(found, ComputedParameter)
    assert found.on_gpu
    assert facts(MOVED.replace("picture = picture.cuda()", "net = torch.nn.Linear(3, 3).cuda()")) == []


STEP = "for batch in torch.utils.data.DataLoader([1.0] * 99):\n    loss = net(batch).mean()\n"
STEP += "    opt.zero_grad()\n    loss.backward()\n    opt.step()\n"


def kept(text: str) -> list[int]:
    return [fact.kept.line for fact in facts(text) if isinstance(fact, GraphHeld)]


def test_a_graph_that_a_pass_has_freed_serves_nobody_it_is_handed_to() -> None:
    start = HEADER + "from reports import conclude\nrows = []\n" + STEP + "    rows.append(loss)\n"
    assert kept(start + "conclude(rows)\n") == [12]
    assert kept(start + "    conclude(rows)\n") == []  # which may empty it
    late = start.replace("    loss.backward()\n", "")
    assert kept(late + "conclude(rows)\n") == []  # which may send it backward


def test_totals_by_name_are_held_also_where_the_caller_gets_them() -> None:
    text = f"""{HEADER}from collections import defaultdict
class Solver:
    def batch(self, x):
        first, second = net(x).mean(), net(x).pow(2).mean()
        opt.zero_grad()
        (first + second).backward()
        opt.step()
        return {{"first": first, "second": second}}
    def epoch(self, loader):
        total = defaultdict(lambda: torch.tensor(0.0))
        for x in loader:
            for name, value in self.batch(x).items():
                total[name] += value * 4
        return total
"""
    assert kept(text) == [17]
    assert kept(text.replace("value * 4", "value.item() * 4")) == []


def test_several_totals_of_one_loop_are_released_by_one_patch() -> None:
    totals = "".join(f"    total_{name} += {name}\n" for name in "abcd")
    values = "".join(f"    {name} = net(batch).mean()\n" for name in "abcd")
    start = "".join(f"total_{name} = 0\n" for name in "abcd")
    loop = STEP.replace("    loss = net(batch).mean()\n", values + "    loss = a + b + c + d\n")
    mended = mend(Program.of(HEADER + start + loop + totals + "print(total_a)\n", "train.py"), all_codemods())
    assert len(mended.repairs) == 4
    assert len(mended.steps) == 1
    assert mended.left == ()
    for name in "abcd":
        assert f"    total_{name} += {name}.detach()\n" in mended.patched.files[0].text


CHOSEN = """\
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--kind", choices=["both", "single"])
opt = parser.parse_args()
class Trainer:
    def __init__(self):
        self.nets = {}
        if opt.kind == "both":
            self.nets["left"] = torch.nn.Linear(3, 1)
        else:
            self.nets["whole"] = torch.nn.Linear(3, 1)
        self.weights = [p for net in self.nets.values() for p in net.parameters()]
        self.optimizer = torch.optim.SGD(self.weights, lr=0.1)
    def run(self):
        out = self.nets["whole"](torch.randn(4, 3)).mean()
        self.optimizer.zero_grad()
        out.backward()
        out.backward()
Trainer().run()
"""


def test_another_option_is_tried_where_the_likely_one_comes_to_no_pass() -> None:
    assert [fact.failed.line for fact in facts(CHOSEN) if isinstance(fact, StaleGraph)] == [19]


CLIENTS = """\
import numpy as np
import torch
class Client:
    def __init__(self, model):
        self.model = model
    def train(self):
        loss = self.model(torch.randn(4, 3)).mean()
        loss.backward()
        loss.backward()
clients = [Client(torch.nn.Linear(3, 1)) for _ in range(9)]
for client in np.random.choice(clients, 3, replace=False):
    client.train()
"""


@pytest.mark.parametrize("choice", ["np.random.choice(clients, 3, replace=False)", "[np.random.choice(clients)]"])
def test_the_clients_of_a_round_are_objects_of_the_program(choice: str) -> None:
    text = CLIENTS.replace("np.random.choice(clients, 3, replace=False)", choice)
    assert [fact.failed.line for fact in facts(text) if isinstance(fact, StaleGraph)] == [9]


DEVICE = """\
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cpu")
args = parser.parse_args()
x = torch.zeros(3, requires_grad=True)
x = x.to(args.device)
optimizer = torch.optim.Adam([x])
x.sum().backward()
optimizer.step()
"""


def test_what_is_moved_to_the_device_that_is_asked_for_may_be_no_leaf() -> None:
    (found,) = facts(DEVICE)
    assert isinstance(found, ComputedParameter)
    assert found.on_gpu
    moved_first = DEVICE.replace("torch.zeros(3, requires_grad=True)", "torch.zeros(3)")
    moved_first = moved_first.replace("x.to(args.device)", "x.to(args.device).requires_grad_()")
    assert facts(moved_first) == []
    assert facts(DEVICE.replace("args.device)", "torch.float32)")) == []


CRITIC = """\
import json
import torch
from torch import nn
import losses
config = json.load(open("config.json"))
judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
steps = getattr(torch.optim, config["optimizer"])(judge.parameters(), **config["options"])
loss_of = getattr(losses, config["loss"])
for _ in range(10):
    out = judge(torch.randn(8, 4))
    for _ in range(5):
        steps.zero_grad()
        real, fake = loss_of("D", out=out)
        (real + fake).backward(retain_graph=True)
        steps.step()
"""
LOSSES = """\
def hinge(kind, **given):
    return given["out"].mean(), 0.1 * given["out"].std()
def plain(kind, **given):
    return given["out"].mean(), 0
"""


def test_an_optimizer_of_an_unknown_name_steps_its_parameters() -> None:
    (found,) = facts(CRITIC, losses=LOSSES)
    assert isinstance(found, Overwritten)
    assert found.by_step
    assert found.saved.line == 10


def test_two_items_of_one_result_lead_to_what_it_was_computed_of() -> None:
    fresh = CRITIC.replace('"D", out=out', '"D", out=judge(torch.randn(8, 4))')
    assert facts(fresh, losses=LOSSES) == []
    apart = CRITIC.replace("(real + fake)", "(real + judge(torch.randn(8, 4)).mean())")
    assert facts(apart, losses=LOSSES) == []  # `real` may be a number: the loss has its graph from elsewhere


ANOMALY = """\
import sys
import torch
from torch import nn
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(4, 8), nn.LeakyReLU(0.2))
        self.head = nn.Linear(8, 1)
    def forward(self, x):
        features = self.features(x)
        return torch.sigmoid(self.head(features)), features
class Model:
    def __init__(self):
        self.weight = float(sys.argv[1])
        self.maker, self.judge = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)), Judge()
        self.make = torch.optim.Adam(self.maker.parameters())
        self.rate = torch.optim.Adam(self.judge.parameters())
    def step(self, x):
        self.fake = self.maker(x)
        self.on_real, self.real_features = self.judge(x)
        self.on_fake, self.fake_features = self.judge(self.fake)
        self.make.zero_grad()
        self.latent = self.weight * nn.functional.mse_loss(self.fake_features, self.real_features)
        (self.latent - self.on_fake.log().mean()).backward(retain_graph=True)
        self.make.step()
        self.rate.zero_grad()
        apart, _ = self.judge(self.fake.detach())
        loss = apart.mean() - self.on_real.mean() + self.latent
        loss.backward(retain_graph=True)
        self.rate.step()
model = Model()
for _ in range(5):
    model.step(torch.rand(8, 4))
"""


def test_a_weighted_term_of_a_loss_is_computed_anew_and_not_detached() -> None:
    done = mend(Program.of(ANOMALY, "train.py"), all_codemods())
    assert done.left == ()
    text = done.patched.files[0].text
    assert "self.latent.detach()" not in text
    assert text.count("self.latent = self.weight * nn.functional.mse_loss(") == 2


NAMED = """\
import sys
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.width, self.depth = width, depth
        {make}
    def forward(self, x):
        {use}
        return x
net = Net(int(sys.argv[1]), int(sys.argv[2]))
optimizer = torch.optim.Adam(net.parameters())
out = net(torch.randn(4, 3))
out.mean().backward()
out.pow(2).mean().backward()
"""
IN_ORDER = "self.body = nn.Sequential()\n        for _ in range(depth): self.body.add_module({name}, nn.Linear(3, 3))"


@pytest.mark.parametrize("name", ["'part-{}'.format(width)", "f'part-{width}'", "'part-%d' % width", "str(width)"])
def test_a_layer_of_an_unknown_name_is_a_part_of_its_network(name: str) -> None:
    (found,) = facts(NAMED.format(make=IN_ORDER.format(name=name), use="x = self.body(x).relu()"))
    assert isinstance(found, StaleGraph)
    assert found.certainty is Certainty.CERTAIN


@pytest.mark.parametrize("name", ["'part-{}'.format({})", "f'part-{{{}}}'", "'part-%d' % {}", "'part-%d-%d' % ({}, 1)"])
def test_a_layer_is_found_by_the_name_that_it_was_given(name: str) -> None:
    made, asked = (name.replace("{}'.format", "{{}}'.format").format(one) for one in ("width", "self.width"))
    make = f"setattr(self, {made}, nn.Sequential(nn.Linear(3, 3), nn.Sigmoid()))"
    (found,) = facts(NAMED.format(make=make, use=f"x = getattr(self, {asked})(x)"))
    assert isinstance(found, StaleGraph)
    assert facts(
        NAMED.format(make=make, use=f"x = getattr(self, {asked})(x).detach()").replace("optimizer", "steps")
    ) != [found]


def test_a_batch_on_several_devices_goes_through_the_module() -> None:
    spread = NAMED.format(
        make="self.body = nn.Linear(3, 3)", use="x = nn.parallel.data_parallel(self.body, x, [0, 1]).exp()"
    )
    (found,) = facts(spread)
    assert isinstance(found, StaleGraph)
    assert found.certainty is Certainty.CERTAIN


DETECTOR = """\
import torch
from torch import nn
from torchvision.models.detection import fasterrcnn_resnet50_fpn
maker, finder = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 3, 3)), fasterrcnn_resnet50_fpn()
make = torch.optim.Adam(maker.parameters())
find = torch.optim.SGD(finder.parameters(), lr=0.005)
for small, large, targets in torch.load("batches.pt"):
    make.zero_grad()
    fake = maker(small)
    (fake - large).abs().mean().backward(retain_graph=True)
    make.step()
    find.zero_grad()
    images = fake
    images = [images[at] for at in range(images.size(0))]
    losses = finder(images, targets)
    sum(losses.values()).backward()
    find.step()
"""


def test_what_a_network_takes_under_another_name_is_detached_where_it_gets_that_name() -> None:
    done = mend(Program.of(DETECTOR, "train.py"), all_codemods())
    assert done.left == ()
    assert "    images = fake.detach()\n" in done.patched.files[0].text


TABLE = """\
import torch
import records
net = records.network()
table = records.table({"x": torch.randn(3, 3, requires_grad=True)})
net(table.clone())["x"].sum().backward()
for one in net.parameters():
    one.grad = None
net(table.clone())["x"].sum().backward()
"""


def test_a_loss_that_has_its_graph_from_a_parameter_may_have_no_other() -> None:
    assert facts(TABLE) == []


OLD_POLICY = """\
import copy
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)
    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))
class Learner:
    def __init__(self):
        self.nets = {{"new": Net(), "old": Net()}}
        self.optimizer = torch.optim.Adam(self.nets["new"].parameters())
    def remember(self):
        self.nets["old"].load_state_dict(self.nets["new"].state_dict())
learner = Learner()
new, old = learner.nets["new"], learner.nets["old"]
optimizer = learner.optimizer
for epoch in range(5):
    states = torch.randn(16, 4)
    {before}
    value = new(states)
    loss = (torch.max(value, before + (value - before).clamp(-0.2, 0.2)) - 1).pow(2).mean()
    {early}
    optimizer.zero_grad()
    loss.backward()
    {late}
    optimizer.step()
"""
LOAD = "old.load_state_dict(new.state_dict())"


@pytest.mark.parametrize(
    "early",
    [
        LOAD,
        "old.load_state_dict(new.state_dict(), strict=False)",
        "old.load_state_dict(copy.deepcopy(new.state_dict()))",
        "learner.nets['old'].load_state_dict(torch.load('policy.pt'))",
        "learner.remember()",
        "old.head.load_state_dict(new.head.state_dict())",
    ],
)
def test_a_state_that_is_loaded_before_the_backward_is_loaded_after_it(early: str) -> None:
    done = mend(
        Program.of(OLD_POLICY.format(before="before = old(states)", early=early, late=""), "train.py"), all_codemods()
    )
    (repair,) = done.repairs
    assert isinstance(repair.fact, Overwritten)
    assert repair.fact.message.endswith(" saved parameters that are modified in place before its backward")
    assert done.left == ()
    text = done.patched.files[0].text
    assert text.index("loss.backward()") < text.rindex(early)


@pytest.mark.parametrize(
    ("before", "early", "late"),
    [
        ("before = old(states)", "", LOAD),
        ("before = old(states).detach()", LOAD, ""),
        ("with torch.no_grad(): before = old(states)", LOAD, ""),
        (f"{LOAD}; before = old(states)", "", ""),
        ("before = old(states)", "old.load_state_dict(new.state_dict(), assign=True)", ""),
        ("before = old(states)", "optimizer.load_state_dict(torch.load('optimizer.pt'))", ""),
    ],
)
def test_a_state_may_be_loaded_where_no_graph_needs_the_old_one(before: str, early: str, late: str) -> None:
    assert facts(OLD_POLICY.format(before=before, early=early, late=late)) == []


@pytest.mark.parametrize("early", [LOAD, "old.head.reset_parameters()"])
def test_a_layer_that_is_made_anew_changes_its_parameters(early: str) -> None:
    assert [type(fact) for fact in facts(OLD_POLICY.format(before="before = old(states)", early=early, late=""))] == [
        Overwritten
    ]
    assert facts(OLD_POLICY.format(before="before = old(states)", early="", late=early)) == []


GIVEN = """\
import torch
from torch import nn, optim
import torch.nn.functional as F

class FactorLoss:
    def __init__(self):
        self.judge = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.optimizer = optim.Adam(self.judge.parameters())

    def optimize(self, data, model, optimizer):
        pictures, codes = model(data)
        judged = self.judge(codes)
        loss = F.mse_loss(pictures, data) + (judged[:, 0] - judged[:, 1]).mean()
        if not model.training:
            return loss
        {first}
        loss.backward(retain_graph=True)
        {early}
        other = F.cross_entropy(judged, torch.zeros(8, dtype=torch.long))
        self.optimizer.zero_grad()
        other.backward()
        self.optimizer.step()
        {late}
        return loss
"""


def test_the_optimizer_that_is_given_beside_a_model_steps_its_parameters() -> None:
    first = "optimizer.zero_grad()"
    (fact,) = facts(GIVEN.format(first=first, early="optimizer.step()", late=""))
    assert isinstance(fact, Overwritten) and fact.by_step and fact.certainty is Certainty.LIKELY
    assert facts(GIVEN.format(first=first, early="", late="optimizer.step()")) == []
    assert facts(GIVEN.format(first="pass", early="optimizer.step()", late="")) == []  # an environment has steps, too


DECOUPLED = (
    HEADER
    + """\
other = nn.Linear(3, 3)
opt = torch.optim.SGD([*net.parameters(), *other.parameters()], lr=0.1)
for step in range(10):
    x = torch.rand(4, 3)
    terms, rows = [], []
    for part in range(3):
        first, second = net(x), other(x)
        terms.append(torch.cosine_similarity(first, second).mean())
        rows.append(first + second)
    loss = torch.stack(rows).pow(2).mean() {added}
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
)


@pytest.mark.parametrize(
    ("added", "told"),
    [
        ("+ 0.1 * torch.tensor(terms).mean()", True),
        ("+ torch.mean(torch.tensor(terms).to('cpu'))", True),
        ("- torch.FloatTensor(terms).sum()", True),
        ("+ 0.1 * torch.stack(terms).mean()", False),
        ("* torch.tensor(terms).mean()", False),  # a weight is a number
        ("+ 0.1 * sum(term.item() for term in terms)", True),
        ("- float(terms[0].detach()) / 2", True),
        ("+ (terms[0] - terms[0].item()).pow(2)", False),  # a centre
        ("/ terms[0].item()", False),
        ("+ 0.1 * torch.tensor([0.5, 0.25]).mean()", False),
    ],
)
def test_a_term_of_the_loss_that_is_a_copy_or_a_number_trains_nothing(added: str, *, told: bool) -> None:
    found = facts(DECOUPLED.format(added=added))
    assert [isinstance(fact, CutGraph) and fact.constant for fact in found] == [True] * told


NETWORKS = """\
from torch import nn
def build_gated(size):
    return nn.Sequential(nn.Linear(size, 4), nn.Sigmoid(), nn.Dropout(0.5, inplace=True), nn.Linear(4, 1))
def build_plain(size):
    return nn.Sequential(nn.Linear(size, 4), nn.Sigmoid(), nn.Dropout(0.5), nn.Linear(4, 1))
"""
TRAINING = """\
import torch
def run(model, x):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        opt.zero_grad()
        model(x).mean().backward()
        opt.step()
"""
BUILT_BY_NAME = """\
import argparse
import torch
import networks
from training import run
parser = argparse.ArgumentParser()
parser.add_argument("--model", default="{usual}")
parser.add_argument("--blocks", type=int, default=2)
args = parser.parse_args()
run(getattr(networks, {name})(3), torch.rand(4, 3))
"""


@pytest.mark.parametrize("usual", ["gated", "plain", "%d"])
@pytest.mark.parametrize("name", ["'build_%s' % args.model", "f'build_{args.model}'", "'build_' + args.model"])
def test_a_network_is_built_by_the_function_that_the_usual_option_names(name: str, usual: str) -> None:
    found = facts(BUILT_BY_NAME.format(name=name, usual=usual), networks=NETWORKS, training=TRAINING)
    assert [isinstance(fact, Overwritten) for fact in found] == [True] * (usual == "gated")


@pytest.mark.parametrize(
    ("name", "builder"),
    [
        ("'build_%s%d' % (args.model, args.blocks)", "build_gated2"),
        ("f'build_{args.model}_{args.blocks}'", "build_gated_2"),
        ("'build_%s' % args.blocks", "build_2"),
        ("'build_%*d' % (args.blocks, args.blocks)", None),  # the width is an operand
        ("'build_%c' % args.depth", None),
        ("'build_%d' % args.model", None),
        ("'build_%s %s' % args.model", None),
        ("f'build_{args.blocks:>4}'", None),
        ("f'build_{args.blocks!r}'", None),
        ("'build_' + args.blocks", None),
        ("f'build_{args.depth}'", None),
    ],
)
def test_a_text_of_options_is_what_their_defaults_make_it(name: str, builder: str | None) -> None:
    networks = NETWORKS.replace("build_gated", builder or "build_other")
    found = facts(BUILT_BY_NAME.format(name=name, usual="gated"), networks=networks, training=TRAINING)
    assert [isinstance(fact, Overwritten) for fact in found] == [True] * (builder is not None)


ADVERSARIAL = """\
import torch
from torch import nn
net, critic = nn.Linear(4, 4), nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
judge = torch.optim.SGD(critic.parameters(), lr=0.1)
shown = []
for step in range(10):
    x, y = torch.randn(8, 4), torch.randn(8, 4)
    made = net(x)
BODY
    loss = (made - y).pow(2).mean() + 0.1 * adv
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("body", "patched"),
    [
        ("    adv = critic(made).mean().item()", "    adv = critic(made).mean()"),
        ("    adv = critic(made).mean()\n    adv = adv.detach().item()", "    adv = critic(made).mean()"),
        ("    adv = critic(made).mean()\n    adv = float(adv.data)", "    adv = critic(made).mean()"),
        (
            "    adv = critic(made).mean().item()\n    shown.append(adv)",
            "    adv = critic(made).mean()\n    shown.append(adv.detach())",
        ),
        # Where nothing is computed, a number has no `detach`.
        (
            "    adv = 0\n    if step > 4:\n        adv = critic(made).mean().item()\n    shown.append(adv)",
            "    adv = 0\n    if step > 4:\n        adv = critic(made).mean()\n"
            "    shown.append(adv.detach() if isinstance(adv, torch.Tensor) else adv)",
        ),
    ],
)
def test_the_graph_of_a_term_is_kept(body: str, patched: str) -> None:
    found = mend(Program.of(ADVERSARIAL.replace("BODY", body), "train.py"), all_codemods())
    assert found.patched.files[0].text == ADVERSARIAL.replace("BODY", patched)


IMAGINED = """\
import gym
import torch
from torch import nn

env = gym.make("Pendulum-v1")
model, rewards_of = nn.Linear(4, 4), nn.Linear(4, 1)
critic = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
actor = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
critic_optimizer = torch.optim.Adam(critic.parameters())
actor_optimizer = torch.optim.Adam(actor.parameters())


def goals_of(rewards, values, gamma):
    return rewards[:-1] + gamma * values[1:]


for episode in range(10):
    seen, done = env.reset(), False
    while not done:
        seen, reward, done, _ = env.step(env.action_space.sample())
    state = torch.randn(16, 4)
    states = torch.zeros(6, 16, 4)
    for h in range(6):
        state = model(state + actor(state))
        states[h] = state
    values = critic(states)
    goals = goals_of(rewards_of(states), values, 0.99)
    critic_loss = (values[:-1] - goals.detach()).pow(2).mean()
    critic_optimizer.zero_grad()
    critic_loss.backward(retain_graph=True)
    critic_optimizer.step()
    actor_loss = -goals.mean()
    actor_optimizer.zero_grad()
    actor_loss.backward()
    actor_optimizer.step()
"""


def test_what_an_actor_learns_through_its_critic_is_kept() -> None:
    """The step of an environment is no optimizer's: the parameters of each optimizer, and their way, are known."""
    found = mend(Program.of(IMAGINED, "train.py"), all_codemods())
    patched = found.patched.files[0].text
    assert found.repairs
    assert "values = critic(states)\n    goals = goals_of(rewards_of(states), values, 0.99)\n    actor_loss" in patched
    assert any("`values` detached" in reason and "all layers" in reason for reason in found.refused)


INITIALISED = """\
import torch
from torch import nn


class Data:
    def __init__(self, train):
        self.train = train


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)


def initialise(module):
    name = module.__class__.__name__
    if name.find("Linear") != -1:
        module.weight.data.normal_(0.0, 0.02)
    elif type(module).__name__.startswith("BatchNorm"):
        module.weight.data.fill_(1.0)


maker, critic = nn.Linear(4, 4), Critic()
critic.apply(initialise)
maker_optimizer = torch.optim.Adam(maker.parameters())
critic_optimizer = torch.optim.Adam(critic.parameters())


def pretrain(maker, maker_optimizer, batch):
    loss = (maker(batch) - batch).pow(2).mean()
    maker_optimizer.zero_grad()
    loss.backward()
    maker_optimizer.step()


def train(maker, critic, maker_optimizer, critic_optimizer, batch):
    critic.train()
    judged = critic(maker(batch))
    critic_optimizer.zero_grad()
    judged.pow(2).mean().backward(retain_graph=True)
    critic_optimizer.step()
    maker_optimizer.zero_grad()
    (judged - 1).pow(2).mean().backward()
    maker_optimizer.step()


for epoch in range(100):
    for batch in torch.randn(5, 8, 4):
        if epoch < 20:
            pretrain(maker, maker_optimizer, batch)
        else:
            train(maker, critic, maker_optimizer, critic_optimizer, batch)
"""


def test_the_class_of_a_layer_is_known() -> None:
    asked = []

    class Policy(BranchPolicy):
        def decide(self, key: object, likely: bool, **options: bool) -> bool:
            asked.append(key)
            return super().decide(key, likely, **options)

    sources = Sources(Program.of(INITIALISED.partition("maker_optimizer =")[0], "train.py"))
    interp = ProgramInterpreter(sources, Policy(Path()))
    interp.run(sources.main.tree.body)
    interp.close()
    assert asked == []


def test_a_module_has_what_modules_have_whatever_others_set() -> None:
    result = analyze(Program.of(INITIALISED, "train.py"))
    assert result.crashes == frozenset()
    assert [type(fact) for fact in result.facts] == [Overwritten]


def test_what_every_module_has_is_what_torch_says() -> None:
    assert {name for name in dir(nn.Module) if not name.startswith(("_", "T_"))} | {"training"} == OF_EVERY_MODULE


SWITCHES = "".join(
    f"if os.path.isdir('part_{at}'):\n    scale_{at} = maker.weight * 2\nelse:\n    scale_{at} = maker.weight * 3\n"
    for at in range(40)
)


def test_a_side_that_leads_to_other_passes_is_tried_before_the_rest() -> None:
    """More questions than there are paths stand before the one of which the other side trains another way."""
    text = "import os\n" + INITIALISED.replace("for epoch in", SWITCHES + "for epoch in")
    found = analyze(Program.of(text, "train.py"))
    assert [path.entry for path in found.paths] == [""]  # the script itself shows it, and no function by itself


ROWS = """\
import torch
from torch import nn
net = nn.Linear(4, 6)
x = net(torch.randn(3, 4))
BODY
nn.functional.softmax(x, -1).pow(2).sum().backward()
"""


@pytest.mark.parametrize(
    ("body", "refused"),
    [
        ("for row in x:\n    row += 1", True),
        ("for at, row in enumerate(x.reshape(-1, 6)):\n    row[at:] = -1e6", True),
        ("for row, other in zip(x, torch.randn(3, 6)):\n    row[:2] = other[:2]", True),
        ("rows = [row for row in x]\nrows[0][1:] = 0", True),
        ("next(iter(x)).zero_()", True),
        (
            "def mask(y):\n    y = y.reshape(-1, 6)\n    for row in y:\n        row[2:] = 0\n    return y\nmask(x)",
            True,
        ),
        ("for part in x.chunk(3):\n    part += 1", True),
        ("for row in x.view(3, 2, 3):\n    for part in row:\n        part *= 2", True),
        ("for at in range(len(x)):\n    x[at][2:] = 0", False),
        ("with torch.no_grad():\n    for row in x:\n        row[2:] = 0", False),
        ("for row in x.detach():\n    row += 1", False),
        ("rows = []\nfor row in x:\n    row = row.clone()\n    row[2:] = 0\n    rows.append(row)", False),
        ("for row in torch.zeros(3, 6):\n    row += 1", False),
    ],
)
def test_a_row_that_a_loop_goes_to_is_not_to_be_changed(body: str, *, refused: bool) -> None:
    text = ROWS.replace("BODY", body)
    told = [type(fact) for fact in analyze(Program.of(text, "train.py")).facts]
    assert told == ([PartChanged] if refused else [])
    # A copy of the row would miss the tensor that the rows are of.
    assert mend(Program.of(text, "train.py"), all_codemods()).repairs == ()
    if refused:
        with pytest.raises(RuntimeError, match="returns multiple views"):
            exec(compile(text, "train.py", "exec"), {})
    else:
        exec(compile(text, "train.py", "exec"), {})


OPTIMISED = """\
import torch
from torch import nn
class Fit(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.layer = nn.Linear(3, 3, dtype=torch.float64)
MADE
    def run(self, rows):
        opt = torch.optim.SGD([self.scale, *self.layer.parameters()], lr=0.1)
        for _ in range(3):
            loss = (self.layer(rows) * self.scale).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
Fit(torch.device("cpu")).run(torch.ones(4, 3, dtype=torch.float64))
"""


def optimised(*made: str) -> str:
    return OPTIMISED.replace("MADE", "\n".join(" " * 8 + line for line in made))


def on_gpu(*made: str) -> str:
    return optimised(*made).replace('"cpu"', '"cuda"')


@pytest.mark.parametrize(
    ("made", "patched"),
    [
        (
            ["self.scale = torch.ones(3, requires_grad=True).double()"],
            ["self.scale = torch.ones(3).double().requires_grad_()"],
        ),
        (
            ["self.scale = nn.Parameter(torch.ones(3)).to(torch.float64)"],
            ["self.scale = nn.Parameter(torch.ones(3).to(torch.float64))"],
        ),
        (
            ["start = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)", "self.scale = start.type(torch.float64)"],
            [
                "start = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)",
                "self.scale = start.type(torch.float64).detach().requires_grad_()",
            ],
        ),
        (
            ["self.scale = torch.zeros(3, requires_grad=True)", "self.scale = self.scale.type(torch.DoubleTensor)"],
            ["self.scale = torch.zeros(3)", "self.scale = self.scale.type(torch.DoubleTensor).requires_grad_()"],
        ),
    ],
)
def test_a_leaf_of_another_precision_is_a_copy(made: list[str], patched: list[str]) -> None:
    text = optimised(*made)
    with pytest.raises(ValueError, match="non-leaf"):
        exec(compile(text, "train.py", "exec"), {})
    mended = mend(Program.of(text, "train.py"), all_codemods()).patched.files[0].text
    assert mended == optimised(*patched)
    exec(compile(mended, "train.py", "exec"), {})


@pytest.mark.parametrize(
    "made",
    [
        "torch.ones(3, dtype=torch.float64, requires_grad=True).double()",
        "torch.ones(3).double().requires_grad_()",
        "torch.from_numpy(__import__('numpy').ones(3)).requires_grad_().double()",
        "torch.ones(3, requires_grad=True).float()",
        "torch.tensor([1, 2, 3]).double().requires_grad_().to(torch.float64)",
    ],
)
def test_a_leaf_of_the_precision_that_is_asked_for_is_itself(made: str) -> None:
    text = optimised(f"self.scale = {made}")
    assert facts(text) == []
    exec(compile(text, "train.py", "exec"), {})


@pytest.mark.parametrize(
    ("made", "patched"),
    [
        (
            ["self.scale = torch.ones(3, requires_grad=True)", "self.scale = self.scale.to(device)"],
            ["self.scale = torch.ones(3)", "self.scale = self.scale.to(device).requires_grad_()"],
        ),
        (
            ["self.scale = nn.Parameter(torch.ones(3))", "self.scale = self.scale.to(device)"],
            ["self.scale = nn.Parameter(torch.ones(3))", "self.scale = nn.Parameter(self.scale.to(device))"],
        ),
        (
            ["first = torch.ones(3).requires_grad_()", "self.scale = first.to(device)"],
            ["first = torch.ones(3).requires_grad_()", "self.scale = first.to(device).detach().requires_grad_()"],
        ),
    ],
)
def test_a_leaf_that_another_statement_moves_is_made_where_it_comes(made: list[str], patched: list[str]) -> None:
    mended = mend(Program.of(on_gpu(*made), "train.py"), all_codemods())
    assert mended.patched.files[0].text == on_gpu(*patched)


def test_each_of_the_tensors_that_an_optimizer_refuses_is_named() -> None:
    made = ["self.scale = torch.ones(3, requires_grad=True)", "self.shift = torch.ones(3, requires_grad=True)"]
    moved = ["self.scale = self.scale.to(device)", "self.shift = self.shift.to(device)"]
    text = on_gpu(*made, *moved).replace("[self.scale, ", "[self.scale, self.shift, ")
    assert [fact.name for fact in facts(text) if isinstance(fact, ComputedParameter)] == ["self.scale", "self.shift"]


BATCHES = """\
import torch
from torch import nn
class Trainer:
    def __init__(self, parts, data):
        self.parts, self.data = parts, data
        self.net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.center = torch.zeros(1, 4)
    def follow(self, found, labels):
        centers = []
        for i in range(self.parts):
            if EMPTY:
                centers.append(torch.zeros(1, 4))
            else:
                centers.append(found[i].mean(0, keepdim=True))
        self.center = KEPT * 0.7 + torch.cat(centers).mean(0) * 0.3
    def train(self):
        for batch in self.data:
            last = False
            for i in range(self.parts):
                if batch[i][0].size(0) < 16:
                    last = True
            if last:
                break
            found = [self.net(rows) for rows, _ in batch]
            self.follow(found, [labels for _, labels in batch])
            loss = (torch.cat(found) - self.center).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
"""


@pytest.mark.parametrize("empty", ["labels[i].shape[0] == 0", "0 == labels[i].size(0)", "not labels[i].shape[0] != 0"])
def test_no_batch_is_taken_to_be_empty_where_it_is_not_the_last_one(empty: str) -> None:
    text = BATCHES.replace("EMPTY", empty)
    found = facts(text.replace("KEPT", "self.center"))
    assert found
    assert {type(fact) for fact in found} <= {StaleGraph, Overwritten}
    assert facts(text.replace("KEPT", "self.center.detach()")) == []
