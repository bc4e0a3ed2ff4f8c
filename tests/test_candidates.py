"""Candidates of codemods for single facts: patches that must hang together, and none that is no program."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autofix import engine
from autofix.codemods import repair as search
from autofix.codemods.facts.base import Certainty, Fact, Span
from autofix.codemods.facts.changed import LeafChanged
from autofix.codemods.facts.cut import CutGraph
from autofix.codemods.facts.freed import StaleGraph
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.legacy import LegacyApi, LegacyFunction
from autofix.codemods.facts.parts import Drop, Form
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.repair import _Search, mend
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import detach
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod
from autofix.codemods.rules.registry import all_codemods
from autofix.codemods.source.program import Program
from autofix.proof.prove import Limits, Script
from autofix.repair import repair
from autofix.report.live import Report
from tests import together_cases

VIEW = """\
import torch
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(4, 8)
        self.act = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 1))
    def forward(self, x):
        a, b = self.inp(x).chunk(2, dim=1)
        return self.act(a) + b.mean(1, keepdim=True)
net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(5):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
FAST_WEIGHTS = """\
import torch
from torch import nn
head = nn.Linear(8, 1)
params = {n: p.detach().clone().requires_grad_() for n, p in head.named_parameters()}
rate = torch.zeros(1, requires_grad=True)
opt = torch.optim.Adam([rate], lr=1e-2)
for outer in range(30):
    x, y = torch.randn(16, 8), torch.randn(16, 1)
    inner = (torch.func.functional_call(head, params, (x,)) - y).pow(2).mean()
    grads = torch.autograd.grad(inner, list(params.values()), create_graph=True)
    params = {n: p - 0.01 * rate.exp() * g for (n, p), g in zip(params.items(), grads)}
    loss = (torch.func.functional_call(head, params, (x,)) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
ADAPTER = """\
import torch
from torch import nn
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.randn(3, 3))
        self.a, self.b = nn.Parameter(torch.randn(3, 1)), nn.Parameter(torch.randn(1, 3))
    def delta(self):
        return self.a @ self.b
    def merge(self):
        self.weight += self.delta()
    def unmerge(self):
        self.weight -= self.delta()
    def forward(self, x):
        return x @ self.weight + x @ self.a @ self.b
net = Adapted()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(3):
    for i in range(3):
        loss = net(torch.randn(4, 3)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.merge()
    net.unmerge()
"""
CRITICS = """\
import torch
from torch import nn
policy, first, second = nn.Linear(4, 2), nn.Linear(6, 1), nn.Linear(6, 1)
of_policy = torch.optim.Adam(policy.parameters())
of_first, of_second = torch.optim.Adam(first.parameters()), torch.optim.Adam(second.parameters())
def update(optimizer, loss):
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
for step in range(30):
    state, action, goal = torch.randn(16, 4), torch.randn(16, 2), torch.randn(16, 1)
    first_loss = (first(torch.cat([state, action], 1)) - goal).pow(2).mean()
    second_loss = (second(torch.cat([state, action], 1)) - goal).pow(2).mean()
    drawn = torch.cat([state, torch.tanh(policy(state))], 1)
    policy_loss = -torch.min(first(drawn), second(drawn)).mean()
    update(of_first, first_loss)
    update(of_second, second_loss)
    update(
        of_policy, policy_loss)
"""
CACHED = """\
import torch
from torch import nn
from torch.nn.utils import parametrize
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
# cached
with parametrize.cached():  # for all of it
    for step in range(10):
        loss = net(torch.randn(8, 4)).pow(2).mean()
        opt.zero_grad()
        # the second one fails
        loss.backward()
        opt.step()
print("done")
"""
CACHED_WITHIN = """\
# cached
for step in range(10):
    with parametrize.cached():  # for all of it
        loss = net(torch.randn(8, 4)).pow(2).mean()
        opt.zero_grad()
        # the second one fails
        loss.backward()
        opt.step()
print("done")
"""
DRAWN = """\
import torch
from torch import nn
from torch.distributions import Normal
torch.manual_seed(0)
policy, critic = nn.Linear(3, 1), nn.Linear(4, 1).requires_grad_(False)
opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
for step in range(4):
    obs = torch.randn(16, 3)
    action = Normal(policy(obs), 1.0).sample()
    loss = -critic(torch.cat([obs, action], 1)).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


def offers(text: str) -> dict[str, str]:
    """Candidates for the facts of a program: the remedy of each, and the text that it leads to."""
    program = Program.of(text, "program.py")
    tree = Tree(program)
    return {
        candidate.remedy: candidate.program.files[0].text
        for fact in analyze(program).facts
        for kind in all_codemods()
        if isinstance(fact, kind.answers)
        for candidate in kind().offers(fact, tree)
    }


def test_a_module_that_changes_one_of_several_views_is_not_told_so() -> None:
    mended = mend(Program.of(VIEW, "program.py"), all_codemods())
    assert mended.left == ()
    assert "self.act = nn.Sequential(nn.ReLU(), nn.Linear(4, 1))" in mended.patched.files[0].text


def test_fast_weights_that_were_no_weights_of_the_model_stay_leaves() -> None:
    text = offers(FAST_WEIGHTS)["make `params` leaves again in each iteration"]
    first = text.partition("range(30):\n")[2].partition("\n")[0]
    assert first == "    params = {key: weight.detach().requires_grad_() for key, weight in params.items()}"


def test_an_adapter_is_merged_and_unmerged_under_no_grad() -> None:
    text = offers(ADAPTER)["modify `self.weight`, and modify it back, under no_grad"]
    for sign in "+-":
        assert f"        with torch.no_grad():\n            self.weight {sign}= self.delta()\n" in text


def test_the_update_that_needs_two_networks_comes_before_theirs() -> None:
    text = offers(CRITICS)[
        "move `update( of_policy, policy_loss)` before the steps that change what its backward needs"
    ]
    updates = text.partition("policy_loss = -torch.min")[2]
    assert updates.index("of_policy") < updates.index("of_first") < updates.index("of_second")


def test_parametrizations_are_cached_within_an_iteration() -> None:
    tree = Tree(Program.of(CACHED, "program.py"))
    made, failed = Span("program.py", 9, 15, 9, 37), Span("program.py", 12, 8, 12, 23)
    fact = StaleGraph(made=made, used=made, freed=failed, failed=failed)
    kinds = [kind() for kind in all_codemods() if kind.code == "AF109"]
    (patched,) = [one.program.files[0].text for kind in kinds for one in kind.offers(fact, tree)]
    assert patched.endswith("lr=0.1)\n" + CACHED_WITHIN)


def test_a_sample_that_is_to_have_a_graph_is_drawn_by_rsample(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(DRAWN, encoding="utf-8")
    outcome = repair(Script(path), Limits(timeout=60), static=False)
    assert outcome.certificate is not None
    assert outcome.certificate.proved
    assert "Normal(policy(obs), 1.0).rsample()" in outcome.analysis.repaired.files[0].text


class Broken(Codemod):
    """A codemod that detaches the name to which a comprehension gives its items."""

    answers = (LeafChanged,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        for one in ("y", "x"):
            name = next(name for module in tree.modules() for name in tree.names_in(module) if name.value == one)
            yield Candidate(Edit(tree).change(name, detach).patch(), one)


def test_stores_of_two_objects_that_are_read_together_are_emptied_together() -> None:
    remedy = "empty `taps[0].kept` once its graphs have been used"
    emptied = "    opt.step()\n    taps[0].kept.clear()\n"
    assert offers(together_cases.HOOKS)[remedy].endswith(f"{emptied}    taps[1].kept.clear()\n")
    apart = together_cases.HOOKS.replace("zip(taps[0].kept[name], taps[1].kept[name])", "zip(taps[0].kept[name], aims)")
    apart = apart.replace("    teacher(x)\n", "    teacher(x)\n    aims = [h[-1] for h in taps[1].kept.values()]\n")
    assert offers(apart)[remedy].endswith(emptied)


def test_what_is_no_program_is_not_offered() -> None:
    tree = Tree(Program.of("x + [1 for y in x]\n", "program.py"))
    fact = LeafChanged(changed=Span("program.py", 1, 0, 1, 1))
    assert [one.remedy for one in Broken().offers(fact, tree)] == ["x"]


@pytest.mark.parametrize("how", ["sample", "numpy"])
def test_only_a_sample_becomes_an_rsample(how: str) -> None:
    text = textwrap.dedent("import torch\nx = dist.sample((2,))\nx.sum().backward()\n")
    span, failed = Span("program.py", 2, 4, 2, 21), Span("program.py", 3, 0, 3, 18)
    fact = CutGraph(cut=span, failed=failed, drops=(Drop(span, how),))
    texts = [one.program.files[0].text for one in _offered(fact, text, "AF401")]
    assert any("dist.rsample((2,))" in one for one in texts) == (how == "sample")


def test_the_live_line_says_how_many_runs_there_may_be() -> None:
    watcher = Report(lambda *_: None, live=False, echo=False)
    watcher.expect(3)
    for number in (1, 2, 3, 4):
        with watcher.run("the patched script", io.BytesIO()):
            of = " of at most 3" if number < 4 else ""
            assert watcher.head("the patched script") == f"run {number}{of}: the patched script"


def _offered(fact: Fact, text: str, code: str) -> list[Candidate]:
    kinds = [kind() for kind in all_codemods() if kind.code == code]
    return [one for kind in kinds for one in kind.offers(fact, Tree(Program.of(text, "program.py")))]


def test_numbers_that_are_read_alike_in_one_block_are_read_together() -> None:
    text = "a, b = int(x.data[0]), int(y.data[0])\nc = int(z.data[0])\nd, e = w.data[0], int(v.data[1])\n"
    one, several = _offered(LegacyApi(call=Span("program.py", 1, 11, 1, 20)), text, "AF701")
    assert one.program.files[0].text == text.replace("x.data[0]", "x.item()")
    changed = "a, b = int(x.item()), int(y.item())\nc = int(z.item())\nd, e = w.data[0], int(v.data[1])\n"
    assert several.program.files[0].text == changed
    assert several.remedy == "read the numbers with `x.item()`, `y.item()` and `z.item()`"


def test_a_number_of_which_something_is_asked_stays_a_tensor() -> None:
    text = "print(x.data[0].cpu().numpy(), float(x.data[0]))\n"
    one, both = _offered(LegacyApi(call=Span("program.py", 1, 6, 1, 15)), text, "AF701")
    assert one.program.files[0].text == "print(x.data.cpu().numpy(), float(x.data[0]))\n"
    assert both.program.files[0].text == "print(x.data.cpu().numpy(), float(x.item()))\n"
    assert both.remedy == "read the numbers with `x.item()` and `x.data`"


OLD_FUNCTION = """\
from torch.autograd import Function
class Reverse(Function):
    def __init__(self):
        self.seen = 0
    def forward(self, x):
        self.seen += 1
        return x * 1.0
    def backward(self, grad):
        return -grad / self.seen
class Net:
    def __init__(self):
        self.reverse = Reverse()
    def run(self, x):
        return self.reverse(x)
"""


def _functions(text: str) -> list[str]:
    fact = LegacyFunction(call=Span("program.py", 14, 15, 14, 30), defined=Span("program.py", 5, 4, 7, 22))
    return [one.program.files[0].text for one in _offered(fact, text, "AF702")]


def test_an_object_of_an_old_function_is_handed_to_its_forward() -> None:
    (text,) = _functions(OLD_FUNCTION)
    assert "return Reverse.apply(x, self.reverse)" in text
    assert "layer.seen += 1" in text
    assert "return -grad / layer.seen, None" in text


def test_what_the_constructor_of_an_old_function_asserts_is_asserted_by_its_forward() -> None:
    text = """\
import torch
from torch import nn

class Mean(torch.autograd.Function):
    def __init__(self, kind='mean', dim=1):
        super(Mean, self).__init__()

        assert kind in ['mean']
        self.kind = kind
        self.dim = dim
        self.shape = None

    def forward(self, x):
        self.shape = x.size()
        if self.kind == 'mean':
            result = x.mean(dim=self.dim, keepdim=True)
        else:
            result = None
        return result

    def backward(self, grad):
        return grad.expand(self.shape) / float(self.shape[self.dim])

class Pool(nn.Module):
    def __init__(self, kind, dim):
        super().__init__()
        self.kind, self.dim = kind, dim

    def forward(self, x):
        return Mean(self.kind, self.dim)(x)
"""
    program = Program.of(text, "program.py")
    mended = mend(program, all_codemods())
    patched = mended.patched.files[0].text
    assert "def forward(ctx, x, kind='mean', dim=1):\n        assert kind in ['mean']\n" in patched
    assert "return Mean.apply(x, self.kind, self.dim)" in patched
    assert "float(ctx.shape[ctx.dim]), None, None" in patched


@pytest.mark.parametrize(
    "more",
    [
        "net = Net()\nnet.reverse(1)\n",
        "layers = [Reverse()]\n",
        "def use(net):\n    return map(net.reverse, [1])\n",
        "class Other(Net):\n    def go(self, x):\n        return self.reverse.forward(x)\n",
        "other = Reverse()\nother(x=1)\n",
        "keep(Reverse())\n",
    ],
)
def test_an_object_that_other_code_calls_stays_what_it_is(more: str) -> None:
    assert _functions(OLD_FUNCTION + more) == []


def test_an_old_function_that_hands_itself_on_stays_what_it_is() -> None:
    assert _functions(OLD_FUNCTION.replace("self.seen += 1", "self.seen += log(self)")) == []


CHOSEN = """\
import torch
from torch import nn
gen, critic = nn.Linear(8, 4), nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
gen_opt = torch.optim.SGD(gen.parameters(), 0.1)
critic_opt = torch.optim.SGD(critic.parameters(), 0.1)
for step in range(30):
    real, fake = torch.randn(16, 4), gen(torch.randn(16, 8))
    if relative:
        judged = critic(fake - real)
    else:
        judged = critic(fake)
    loss = judged.mean() - critic(real).mean()
    critic_opt.zero_grad()
    loss.backward(retain_graph=True)
    critic_opt.step()
    gen_opt.zero_grad()
    (-judged.mean()).backward()
    gen_opt.step()
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("step in range(30):", "relative in [True, False] * 15:"),  # decided once in each iteration
        ("import torch\n", "import sys\nimport torch\nrelative = '--relative' in sys.argv\n"),
    ],
)
def test_a_score_of_one_of_two_sides_is_computed_anew_on_both(old: str, new: str) -> None:
    text = _repaired(CHOSEN.replace(old, new))
    assert text.count("if relative:") == 2
    assert text.count("critic(fake.detach() - real)") == 1


@pytest.mark.parametrize("change", ["relative = not relative", "relative, other = other, relative"])
def test_a_side_that_is_no_longer_the_same_is_not_taken_again(change: str) -> None:
    text = CHOSEN.replace("import torch\n", "import torch\nrelative, other = True, False\n")
    text = text.replace("    loss = ", f"    {change}\n    loss = ")
    assert _repaired(text).count("if relative:") == 1


@pytest.mark.parametrize("test", ["torch.rand(1) > 0.5", "draw()", "(wide := draw())", "next(sides)"])
def test_a_side_that_is_drawn_is_not_drawn_again(test: str) -> None:
    assert _repaired(CHOSEN.replace("if relative:", f"if {test}:")).count(f"if {test}:") == 1


def test_a_side_that_a_method_may_change_is_not_taken_again() -> None:
    class_ = "class Game:\n    def __init__(self):\n        self.wide = True\n    def turn(self):\n        {change}\n"
    text = CHOSEN.replace("if relative:", "if game.wide:").replace(
        "    critic_opt.step", "    game.turn()\n    critic_opt.step"
    )
    head = "import torch\n" + class_.replace("self.wide = True", "self.wide = option") + "game = Game()\n"
    for change, times in (("game.wide = not game.wide", 1), ("self.wide = not self.wide", 1), ("pass", 2)):
        assert _repaired(head.replace("{change}", change) + text).count("if game.wide:") == times


def _repaired(text: str) -> str:
    return engine.analyse(text, "program.py").repaired.files[0].text


@pytest.mark.parametrize("certainty", [Certainty.CERTAIN, Certainty.LIKELY])
def test_a_loss_that_may_be_a_tuple_is_detached_as_either(certainty: Certainty) -> None:
    text = "import torch\nfor x in data:\n    loss = sum(l) if isinstance(l, tuple) else l\n    kept.append(l)\n"
    kept, loop, value = (Span("program.py", *at) for at in ((4, 4, 4, 18), (2, 0, 4, 18), (4, 16, 4, 17)))
    fact = GraphHeld(certainty=certainty, kept=kept, loop=loop, expression=value, form=Form.TENSOR, name="kept")
    first = _offered(fact, text, "AF601")[0].program.files[0].text
    either = "l.detach() if isinstance(l, torch.Tensor) else tuple(item.detach() for item in l)"
    assert (either in first) == (certainty is Certainty.LIKELY)
    assert ("kept.append(l.detach())" in first) == (certainty is Certainty.CERTAIN)


HELD = """\
import torch
from torch import nn
model = nn.Linear(4, 1)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
def epoch(data, late):
    losses = []
    for x in data:
        loss = model(x).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        losses.append(loss)
    if isinstance(losses[0], tuple):
        return {USE}
    return 0
for i in range(3):
    print(epoch(torch.randn(20, 8, 4), i))
"""


@pytest.mark.parametrize(
    ("use", "told"),
    [
        ("sum([one[0] for one in losses]).item()", True),
        ("torch.stack(losses).mean().item()", True),
        ("float(max(losses))", True),
        ("len(losses)", True),
        ("learn(sum(losses)).item()", False),
        ("sum(learn(one) for one in losses).item()", False),
        ("losses[0].item() if losses[0].learn() else 0", False),
        ("(lambda: sum(losses).learn())().item()", False),
        ("losses", False),
    ],
)
def test_a_side_that_wants_the_number_alone_is_no_use_of_graphs(use: str, told: bool) -> None:
    found = engine.analyse(HELD.replace("{USE}", use), "program.py").findings
    assert [one.code for one in found] == (["AF601"] if told else [])


def test_a_candidate_is_made_once_however_often_the_search_begins_anew() -> None:
    text = """\
import torch
cell = torch.nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
h = torch.zeros(1, 4)
for step in range(3):
    h = cell(torch.randn(1, 3), h)
    loss = h.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    program = Program.of(text, "train.py")
    fact = analyze(program).facts[0]
    kinds = [kind for kind in all_codemods() if isinstance(fact, kind.answers)]
    search = _Search(kinds)
    again = replace(search, steps=0, to_the_last=True)
    for kind in kinds:
        first = list(search.offers(kind(), fact, search.tree(program)))
        later = list(again.offers(kind(), fact, again.tree(program)))
        assert len(first) == len(later)
        assert all(one is other for one, other in zip(first, later, strict=True))


OLD_CALLS = """\
import torch
from torch import nn
from torch.autograd import Variable
net, crit = nn.Linear(4, 3), nn.CrossEntropyLoss()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def evaluate(rows, labels):
    rows = Variable(rows, volatile=True)
    print(crit(net(rows), labels).data[0])
for epoch in range(30):
    rows, labels = torch.randn(8, 4), torch.randint(3, (8,))
    loss = crit(net(rows), labels)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(loss.data[0])
    evaluate(rows, labels)
"""
NEW_CALLS = OLD_CALLS.replace(", volatile=True", "").replace(".data[0]", ".item()")


def test_all_old_calls_are_rewritten_for_one_analysis(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program.of(OLD_CALLS, "train.py")
    monkeypatch.setattr(search, "_STEPS", analyze(program).steps + 1)
    mended = mend(program, all_codemods())
    assert mended.patched.files[0].text == NEW_CALLS
    assert len(mended.repairs) == 3


def test_of_a_program_that_is_read_in_part_the_old_calls_are_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other mistakes are left, for what was not read may have to do with them."""
    before, after = ("total = 0\n" + text + "    total = total + loss\n" for text in (OLD_CALLS, NEW_CALLS))
    program = Program.of(before, "train.py")
    assert any(isinstance(fact, GraphHeld) for fact in analyze(program).facts)
    monkeypatch.setattr(search, "analyze", lambda *given: replace(analyze(*given), complete=False))
    mended = mend(program, all_codemods())
    assert mended.patched.files[0].text == after
    assert {one.codemod.code for one in mended.repairs} == {"AF701"}


CALLS_ON_ONE_LINE = """
import torch
from torch import nn
from torch.autograd import Variable

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    x = Variable(torch.randn(4, 3), volatile=True)
    first, second = net(torch.randn(4, 3)).mean(), net(torch.randn(4, 3)).std()
    loss = first + second
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(first.data[0], second.data[0])
    print(loss.data[0])
"""


def test_old_calls_are_rewritten_by_one_patch_and_those_that_share_a_line_by_a_second_one() -> None:
    mended = mend(Program.of(CALLS_ON_ONE_LINE, "train.py"), all_codemods())
    assert len(mended.repairs) == 4 and not mended.left
    assert len(mended.steps) == 2
    assert "print(first.item(), second.item())\n    print(loss.item())" in mended.patched.files[0].text
