"""Mistakes that hang on a switch are likely; those in a branch of their own, or by what changes, are certain."""

from __future__ import annotations

import textwrap
from functools import partial

import pytest

from autofix.codemods.facts.base import Certainty, Fact
from autofix.codemods.facts.kept import GraphHeld
from autofix.codemods.facts.legacy import LegacyApi
from autofix.codemods.interpreter.analysis import analyze
from autofix.codemods.interpreter.policy import Path
from autofix.codemods.source.program import Program

BEGIN = """\
import argparse, configparser, contextlib, copy, importlib.util, os, platform, shutil, sys, weakref
import torch
from torch import nn
"""
FLAGS = {
    "environment": "FLAG = bool(int(os.getenv('FROZEN', '1')))",
    "variable": "FLAG = os.environ.get('FROZEN', 'yes') == 'yes'",
    "variable among words": "FLAG = os.getenv('FROZEN', 'yes').lower() in ('1', 'yes', 'true')",
    "variable that is not there": "FLAG = 'UNFROZEN' not in os.environ",
    "number of the command line": (
        "ap = argparse.ArgumentParser()\nap.add_argument('--frozen', type=int, default=1)\n"
        "FLAG = ap.parse_args().frozen"
    ),
    "false if given": (
        "ap = argparse.ArgumentParser()\nap.add_argument('--thaw', action='store_false', dest='frozen')\n"
        "FLAG = ap.parse_args().frozen"
    ),
    "arguments as a dictionary": (
        "ap = argparse.ArgumentParser()\nap.add_argument('--mode', default='frozen')\n"
        "FLAG = vars(ap.parse_args())['mode'] == 'frozen'"
    ),
    "device": "FLAG = not torch.cuda.is_available()",
    "configuration": "c = configparser.ConfigParser()\nc.read('train.ini')\nFLAG = c.getboolean('train', 'frozen')",
    "module that may be missing": "try:\n    import apex_is\n    FLAG = False\nexcept ImportError:\n    FLAG = True",
    "name that may be missing": (
        "try:\n    from apex_is_here import amp\nexcept Exception:\n    amp = None\nFLAG = amp is None"
    ),
    "module that is looked for": "FLAG = importlib.util.find_spec('apex_is_here') is None",
    "platform": "FLAG = platform.system() != 'Windows'",
    "file": "FLAG = os.path.exists('frozen')",
}
USES = {
    "detach": "f = enc(x).tanh()\nif FLAG:\n    f = f.detach()",
    "either": "f = enc(x).tanh()\nf = f.detach() if FLAG else f",
    "or": "f = enc(x).tanh()\nf = f if not FLAG else f.detach()",
    "manager": "with torch.no_grad() if FLAG else contextlib.nullcontext():\n    f = enc(x).tanh()",
    "class": "context = torch.no_grad if FLAG else contextlib.nullcontext\nwith context():\n    f = enc(x).tanh()",
    "mode": "with torch.set_grad_enabled(not FLAG):\n    f = enc(x).tanh()",
    "function": "cut = (lambda t: t.detach()) if FLAG else (lambda t: t)\nf = cut(enc(x).tanh())",
}
COMPUTED_AHEAD = """\
{flag}
x = torch.randn(5, 3)
enc, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD(head.parameters(), 0.1)
{use}
for _ in range(3):
    opt.zero_grad()
    head(f).pow(2).mean().backward()
    opt.step()
"""
STATE = """\
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
h = torch.zeros(2, 4)
for step, x in enumerate(torch.randn(6, 2, 3)):
    h = cell(x, h)
    loss = h.pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    {end}
"""


def facts(text: str) -> tuple[Fact, ...]:
    return analyze(Program.of(BEGIN + textwrap.dedent(text), "train.py")).facts


def certain(text: str) -> list[Fact]:
    return [fact for fact in facts(text) if fact.certainty is Certainty.CERTAIN]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("flag", FLAGS)
def test_nothing_is_certain_that_a_switch_decides(flag: str, use: str) -> None:
    assert not certain(COMPUTED_AHEAD.format(flag=FLAGS[flag], use=USES[use]))


@pytest.mark.parametrize("flag", FLAGS)
def test_a_mistake_in_front_of_a_switch_is_certain(flag: str) -> None:
    use = "f = enc(x).tanh()\nprint('frozen' if FLAG else 'trained')"
    assert certain(COMPUTED_AHEAD.format(flag=FLAGS[flag], use=use))


@pytest.mark.parametrize(
    "asked",
    ["sys.version_info >= (3, 6)", "os.environ['FROZEN'] == '1'", "sys.argv[1] == 'frozen'", "count(9)"],
)
def test_a_switch_that_is_asked_for_each_parameter_is_one_switch(asked: str) -> None:
    begin = "def count(n):\n    return True if n == 0 else count(n - 1)\n"
    use = f"for p in enc.parameters():\n    p.requires_grad = not ({asked})\nf = enc(x).tanh()"
    assert not certain(begin + COMPUTED_AHEAD.format(flag="", use=use))
    assert certain(begin + COMPUTED_AHEAD.format(flag="", use=use.replace("enc.parameters()", "head.parameters()")))


def test_two_arguments_of_the_command_line_are_two() -> None:
    use = "f = enc(x).tanh()\nif sys.argv[1] == 'frozen' and sys.argv[2] == 'yes':\n    f = f.detach()"
    assert not certain(COMPUTED_AHEAD.format(flag="", use=use))
    assert certain(COMPUTED_AHEAD.format(flag="", use=use.replace("f.detach()", "f * 2")))


def test_a_mistake_of_one_branch_is_certain() -> None:
    use = "if sys.argv[1] == 'a':\n    f = x\nelse:\n    f = enc(x).tanh()"
    assert certain(COMPUTED_AHEAD.format(flag="", use=use))


def test_a_mistake_by_the_defaults_of_options_is_certain() -> None:
    flag = "ap = argparse.ArgumentParser()\nap.add_argument('--pool', default=5)\nFLAG = ap.parse_args().pool > 0"
    assert certain(COMPUTED_AHEAD.format(flag=flag, use="f = enc(x).tanh()\nf = f if FLAG else f.detach()"))


def test_an_option_that_is_given_nothing_has_its_default() -> None:
    flag = "ap = argparse.ArgumentParser()\nap.add_argument('--mode', default='cut')\n{parsed}"
    for parsed in ("args = vars(ap.parse_args([]))", "args = ap.parse_known_args([])[0].__dict__"):
        use = "f = enc(x).tanh()\nif args['mode'] == 'cut':\n    f = f.detach()"
        assert not facts(COMPUTED_AHEAD.format(flag=flag.format(parsed=parsed), use=use))


@pytest.mark.parametrize(
    "end",
    [
        "if torch.isfinite(loss): h = h.detach()",
        "if loss.item() < 1e9: h = h.detach()",
        "h = h.detach() if float(loss) < 1e9 else h",
        "if not next(cell.parameters()).is_cuda: h = h.detach()",
        "if not hasattr(cell, 'module'): h = h.detach()",
        "h = h if torch.isnan(loss).any() else h.detach()",
        "if not (loss >= 0):\n        continue\n    h = h.detach()",
        "if not h.abs().max() < 1e9:\n        continue\n    h = h.detach()",
        "if h.is_floating_point(): h = h.detach()",
        "if not h.ndim > 1:\n        continue\n    h = h.detach()",
    ],
)
def test_a_condition_on_the_loss_or_the_model_is_no_certain_mistake(end: str) -> None:
    assert not certain(STATE.format(end=end))


@pytest.mark.parametrize(
    "end",
    [
        "if step % 4 == 3: h = h.detach()",
        "if bool(torch.rand(()) < 0.5): h = h.detach()",
        "if step > 2: h = h.detach()",
        "pass",
    ],
)
def test_a_state_that_is_cut_in_some_iterations_is_a_certain_mistake(end: str) -> None:
    assert certain(STATE.format(end=end))


COUNTED = """\
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), 0.1)
h = torch.zeros(2, 4)
{begin}
{loop}
    x = torch.randn(2, 3)
    h = cell(x, h)
    opt.zero_grad()
    h.pow(2).mean().backward()
    opt.step()
    {end}
"""
AS_OFTEN_AS_THE_LOOP_RUNS = {
    "a bound that is not reached": ("", "for i, row in enumerate(torch.randn(6, 2)):", "if i < 99: h = h.detach()"),
    "by hand": ("i = 0", "for row in torch.randn(6, 2):", "i += 1\n    if i != 6: h = h.detach()"),
    "an unknown bound": ("n = int(sys.argv[1])", "for i in range(n):", "if i + 2 < n + 1: h = h.detach()"),
    "down to nothing": ("n = 6", "while n:", "n -= 1\n    if n: h = h.detach()"),
    "backwards": ("", "for i in reversed(range(6)):", "h = h.detach() if i else h"),
    "backwards, to one": ("", "for i in range(6, 0, -1):", "if i > 1: h = h.detach()"),
    "two at once": ("", "for row, i in zip(torch.randn(6, 2), range(6)):", "if i < 5: h = h.detach()"),
    "among numbers": ("", "for i, row in enumerate(torch.randn(6, 2)):", "if i in range(99): h = h.detach()"),
    "a schedule": (
        "cuts = {k: True for k in range(6)}",
        "for i, row in enumerate(torch.randn(6, 2)):",
        "if cuts.get(i): h = h.detach()",
    ),
    "flags": (
        "cuts = {0: True, 1: True, 2: True, 3: True}",
        "for i, row in enumerate(torch.randn(4, 2)):",
        "if cuts[i]: h = h.detach()",
    ),
}
IN_SOME_ITERATIONS = {
    "at first": ("", "for i in range(1000):", "if i < 50: h = h.detach()"),
    "at last": ("", "for i in range(1000):", "if i > 50: h = h.detach()"),
    "once": ("", "for i, row in enumerate(torch.randn(6, 2)):", "if i == 3: h = h.detach()"),
    "by hand, from then on": ("i = 0", "for row in torch.randn(6, 2):", "i += 1\n    if i > 3: h = h.detach()"),
    "down to a number": ("", "for i in range(6, 0, -1):", "if i > 3: h = h.detach()"),
    "in a loop by hand": ("i = 0", "while i < 1000:", "i += 1\n    if i < 50: h = h.detach()"),
    "with an end": ("", "for i, row in enumerate(torch.randn(6, 2)):", "if i > 50: break"),
}


@pytest.mark.parametrize("case", AS_OFTEN_AS_THE_LOOP_RUNS)
def test_a_number_that_no_iteration_may_have_is_no_certain_mistake(case: str) -> None:
    begin, loop, end = AS_OFTEN_AS_THE_LOOP_RUNS[case]
    assert not certain(COUNTED.format(begin=begin, loop=loop, end=end))


@pytest.mark.parametrize("case", IN_SOME_ITERATIONS)
def test_a_number_that_some_iteration_has_is_a_certain_mistake(case: str) -> None:
    begin, loop, end = IN_SOME_ITERATIONS[case]
    assert certain(COUNTED.format(begin=begin, loop=loop, end=end))


OVERRIDDEN = {
    "update": ("CFG = {'cut': False}\nCFG.update(yaml.safe_load(open('a.yml')))", "CFG['cut']"),
    "display": ("CFG = {'cut': False, **yaml.safe_load(open('a.yml'))}", "CFG['cut']"),
    "items": ("CFG = {'cut': False}\nfor k, v in yaml.safe_load(open('a.yml')).items():\n    CFG[k] = v", "CFG['cut']"),
    "attributes": (
        "class Cfg:\n    cut = False\n"
        "for k, v in yaml.safe_load(open('a.yml')).items():\n    setattr(Cfg, k, v)\nCFG = Cfg()",
        "CFG.cut",
    ),
    "known attributes": (
        "class Cfg:\n    cut = False\nCFG = Cfg()\n"
        "for k, v in yaml.safe_load(open('a.yml')).items():\n    if hasattr(CFG, k):\n        setattr(CFG, k, v)",
        "CFG.cut",
    ),
    "table of attributes": (
        "class Cfg:\n    def __init__(self, read):\n        self.cut = False\n        self.__dict__.update(read)\n"
        "CFG = Cfg(yaml.safe_load(open('a.yml')))",
        "CFG.cut",
    ),
    "fields": (
        "@dataclasses.dataclass\nclass Cfg:\n    cut: bool = False\nCFG = Cfg(**yaml.safe_load(open('a.yml')))",
        "CFG.cut",
    ),
    "namespace": ("CFG = types.SimpleNamespace(**yaml.safe_load(open('a.yml')))", "getattr(CFG, 'cut', False)"),
    "defaults of a parser": (
        "p = argparse.ArgumentParser()\np.add_argument('--cut', action='store_true')\n"
        "p.set_defaults(**yaml.safe_load(open('a.yml')))\nCFG = p.parse_args([])",
        "CFG.cut",
    ),
    "parsed arguments": (
        "p = argparse.ArgumentParser()\np.add_argument('--cut', action='store_true')\nCFG = p.parse_args([])\n"
        "vars(CFG).update(yaml.safe_load(open('a.yml')))",
        "CFG.cut",
    ),
    "read again and again": ("CFG = configparser.ConfigParser()\nCFG.read('a.ini')", "CFG.getboolean('a', 'cut')"),
    "period": ("CFG = yaml.safe_load(open('a.yml'))", "step % CFG['cut'] == 0"),
}
BEFORE = "import dataclasses, types, yaml\n{given}\n"


@pytest.mark.parametrize("case", OVERRIDDEN)
def test_a_configuration_that_is_read_over_its_defaults_is_a_switch(case: str) -> None:
    given, flag = OVERRIDDEN[case]
    begin = BEFORE.format(given=given)
    assert not certain(begin + STATE.format(end=f"if {flag}: h = h.detach()"))
    assert certain(begin + STATE.format(end=f"if {flag}: print(step)"))


@pytest.mark.parametrize(
    "given",
    [
        "g = p.add_mutually_exclusive_group()\ng.add_argument('--full', dest='cut', action='store_false')\n"
        "g.add_argument('--cut', dest='cut', action='store_true')\np.set_defaults(cut=True)\nargs = p.parse_args([])",
        "p.add_argument('--cut', type=int, default=0)\nargs = p.parse_args([], argparse.Namespace(cut=1))",
    ],
)
def test_a_parser_gives_what_was_set_for_it(given: str) -> None:
    begin = f"p = argparse.ArgumentParser()\n{given}\n"
    assert not facts(begin + STATE.format(end="if args.cut: h = h.detach()"))
    assert certain(begin + STATE.format(end="if not args.cut: h = h.detach()"))


ANEW = """\
import argparse
from torch.utils.data import DataLoader, TensorDataset
p = argparse.ArgumentParser()
p.add_argument("--updates", type=int, default={default})
args = p.parse_args()
X = torch.randn(8, 3)
data = TensorDataset(X)
enc, head = nn.Linear(3, 4), nn.Linear(4, 1)
opt = torch.optim.SGD([*enc.parameters(), *head.parameters()], 0.1)
for epoch in range(2):
    f = enc(X).tanh()
    for turn in {turns}:
        opt.zero_grad()
        head(f).pow(2).mean().backward()
        opt.step()
"""


@pytest.mark.parametrize(
    ("turns", "default"),
    [
        ("range(args.updates)", 1),
        ("range(1, args.updates + 1)", 1),
        ("range(int(os.getenv('UPDATES', '1')))", 5),
        ("DataLoader(data, batch_size=len(data))", 5),
        ("DataLoader(TensorDataset(X), X.shape[0])", 5),
        ("X.split(len(X))", 5),
        ("X.chunk(1)", 5),
        ("X[:1]", 5),
        ("X[None]", 5),
    ],
)
def test_a_loop_that_runs_once_needs_no_second_graph(turns: str, default: int) -> None:
    assert not certain(ANEW.format(turns=turns, default=default))


@pytest.mark.parametrize(
    "turns",
    [
        "range(args.updates)",
        "range(int(os.getenv('UPDATES', '5')))",
        "DataLoader(data, batch_size=4)",
        "X[:2]",
        "X.split(4)",
        "X.chunk(2)",
    ],
)
def test_a_loop_that_runs_several_times_needs_one(turns: str) -> None:
    assert certain(ANEW.format(turns=turns, default=5))


ASKED_AGAIN = (
    "torch.distributed.is_available() and torch.distributed.is_initialized()",
    "torch.distributed.get_rank()",
    "logging.getLogger('train').isEnabledFor(10)",
    "hashlib.md5(b'a').hexdigest() == ''",
    "operator.truth(3)",
    "event.is_set()",
    "callable(None)",
)


@pytest.mark.parametrize("asked", ASKED_AGAIN)
def test_what_is_asked_again_with_the_same_arguments_is_a_switch(asked: str) -> None:
    begin = "import hashlib, logging, operator, threading\nevent = threading.Event()\n"
    assert not certain(begin + STATE.format(end=f"if not ({asked}): h = h.detach()"))


@pytest.mark.parametrize(
    "drawn",
    ["random.random() < 0.5", "rng.random() < 0.5", "np.random.binomial(1, 0.5)", "random.choice('ab') == 'a'"],
)
def test_what_is_drawn_anew_cuts_in_some_iterations(drawn: str) -> None:
    begin = "import random\nimport numpy as np\nrng = np.random.default_rng(0)\n"
    assert certain(begin + STATE.format(end=f"if {drawn}: h = h.detach()"))


def test_an_end_of_an_episode_cuts_in_some_iterations() -> None:
    text = """
        import gymnasium
        env = gymnasium.make("CartPole-v1")
        policy = nn.GRUCell(4, 4)
        opt = torch.optim.SGD(policy.parameters(), 0.1)
        state, h = env.reset(), torch.zeros(1, 4)
        for step in range(100):
            h = policy(torch.as_tensor(state), h)
            state, reward, done, _ = env.step(h.argmax().item())
            opt.zero_grad()
            h.pow(2).mean().backward()
            opt.step()
            if done:
                state, h = env.reset(), torch.zeros(1, 4)
    """
    assert certain(text)


@pytest.mark.parametrize("caught", ["RuntimeError", "Exception", "(ValueError, RuntimeError)"])
def test_a_failure_that_is_suppressed_is_meant(caught: str) -> None:
    text = f"""
        w = torch.randn(3, requires_grad=True)
        y = w.exp()
        y.sum().backward()
        with contextlib.suppress{caught if caught.startswith("(") else f"({caught})"}:
            y.sum().backward()
    """
    assert not facts(text)


RESETS = {
    "scheduler": ("sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda epoch: m.cut() or 1.0)", "sched.step()"),
    "weak method": ("cut = weakref.WeakMethod(m.cut)", "cut()()"),
    "handler": ("", "try:\n        m.none()\n    except AttributeError:\n        m.cut()"),
    "wrapper": (
        "inner = opt.step\ndef stepped():\n    inner()\n    m.cut()\nopt.step = stepped",
        "pass",
    ),
    "function of a class": ("cut = vars(type(m))['cut']", "cut(m)"),
}
STATEFUL = """\
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.h = torch.zeros(2, 4)
    def forward(self, x):
        self.h = self.cell(x, self.h)
        return self.h
    def cut(self):
        self.h = self.h.detach()
m = Model()
opt = torch.optim.SGD(m.parameters(), 0.1)
{begin}
for x in torch.randn(4, 2, 3):
    opt.zero_grad()
    m(x).pow(2).mean().backward()
    opt.step()
    {end}
"""


@pytest.mark.parametrize("way", RESETS)
def test_a_reset_that_is_handed_on_leaves_a_doubt(way: str) -> None:
    begin, end = RESETS[way]
    assert not certain(STATEFUL.format(begin=begin, end=end))


def test_a_reset_that_nobody_mentions_leaves_none() -> None:
    assert certain(STATEFUL.format(begin="", end="pass"))


GRAPHLESS = {
    "shape of": "h = torch.full((2, 4), 0.5).expand_as(h)",
    "type of": "h = torch.full((2, 4), 0.5).type_as(h)",
    "comparison": "h = torch.full((2, 4), 0.5) * float(torch.equal(h, h))",
    "gradients by name": "h = {n: p.grad.clone() for n, p in cell.named_parameters()}['bias_hh'][:4].expand(2, 4)",
}


@pytest.mark.parametrize("way", GRAPHLESS)
def test_a_state_of_numbers_alone_has_no_graph(way: str) -> None:
    assert not facts(STATE.format(end=GRAPHLESS[way]))


def test_a_call_that_no_longer_works_is_certain_whatever_leads_there() -> None:
    text = """
        parser = argparse.ArgumentParser()
        parser.add_argument("--quiet", type=int, default=1)
        args = parser.parse_args()
        net = nn.Linear(3, 1)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for x in torch.randn(3, 4, 3):
            loss = net(x).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            if args.quiet:
                print(".")
            else:
                print(loss.data[0])
    """
    assert [fact.kind for fact in certain(text)] == [LegacyApi.kind]


@pytest.mark.parametrize(
    "found",
    [
        "from torch import detached as cut",
        "from rnn_helpers.utils import cut",
        "import rnn_helpers\n    cut = rnn_helpers.cut",
        "cut = torch.detached",
    ],
)
@pytest.mark.parametrize("made", ["def cut(h):\n        return {}", "cut = lambda h: {}"])
def test_what_is_written_in_the_place_of_an_import_is_what_the_import_does(found: str, made: str) -> None:
    begin = f"try:\n    {found}\nexcept (ImportError, AttributeError):\n    {made}\n"
    assert not facts(begin.format("h.detach()") + STATE.format(end="h = cut(h)"))
    assert certain(begin.format("h * 1.0") + STATE.format(end="h = cut(h)"))


def test_what_only_an_option_keeps_is_likely_to_be_kept_for_nothing() -> None:
    text = """
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    net, seen = nn.Linear(4, 4), []
    opt = torch.optim.SGD(net.parameters(), lr=0.1)

    def note(loss):
        if args.keep:
            seen.append(loss)
            return
        print(loss.item())

    for batch in torch.rand(10, 2, 4):
        loss = net(batch).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        note(loss)
    """
    (fact,) = analyze(Program.of(BEGIN + textwrap.dedent(text), "train.py")).facts
    assert fact.kind == "graph held" and fact.certainty is Certainty.LIKELY


LEAVES = {
    "either": "if value > 1e8 or math.isnan(value):\n        raise ValueError('exploded')",
    "any of a list": "if any([value > 1e8, math.isnan(value)]):\n        raise ValueError('exploded')",
    "any of a generator": "if any(one > 1e8 for one in (value, value + 1)):\n        break",
    "not all": "if not all((value < 1e8, value > -1)):\n        raise ValueError('exploded')",
    "all": "if all((value > 1e8, math.isnan(value))):\n        break",
    "both, one of them either": "if step and (value > 1e8 or math.isnan(value)):\n        sys.exit(1)",
    "one": "if value > 1e8:\n        raise ValueError('exploded')",
}


@pytest.mark.parametrize("leave", LEAVES.values(), ids=LEAVES)
@pytest.mark.parametrize(("kept", "number"), [("loss", 1), ("loss.detach()", 0)])
def test_a_loop_is_not_left_by_whichever_of_several_unlikely_conditions(leave: str, kept: str, number: int) -> None:
    text = f"""\
import math
net, seen = nn.Linear(4, 1), []
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(100):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    seen.append({kept})
    value = loss.item()
    {leave}
"""
    assert [one.certainty for one in facts(text)] == [Certainty.CERTAIN] * number


READ = {
    "written into it": "table = defaultdict(FACTORY)\ntable.update(GIVEN)",
    "given to it": "table = defaultdict(FACTORY, GIVEN)",
    "given to it by name": "table = defaultdict(FACTORY, **GIVEN)",
}


@pytest.mark.parametrize("read", READ.values(), ids=READ)
@pytest.mark.parametrize("factory", ["str", "lambda: None", "bool"])
def test_a_setting_that_was_read_is_not_what_a_missing_one_would_be(read: str, factory: str) -> None:
    text = f"""\
import json
from collections import defaultdict
{read.replace("FACTORY", factory)}
net, h = nn.RNNCell(3, 3), torch.zeros(1, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.randn(9, 1, 3):
    if table["cut"]:
        h = h.detach()
    h = net(x, h)
    opt.zero_grad()
    h.sum().backward()
    opt.step()
"""
    for given in ("json.load(open('settings.json'))", "{'cut': True}"):
        assert not certain(text.replace("GIVEN", given))
    (fact,) = facts(text.replace("GIVEN", "{'other': True}"))
    assert fact.certainty is Certainty.CERTAIN


NOT_FINITE = [
    "loss.item() == float('inf')",
    "torch.isnan(loss)",
    "torch.isnan(loss).any() or torch.isinf(loss)",
    "not torch.isfinite(loss).all()",
    "~loss.isfinite()",
    "(torch.isnan(loss) | loss.isinf()).any()",
    "torch.logical_or(loss.isnan(), loss.isinf())",
    "bool(torch.isnan(loss))",
    "loss != loss",
    "loss == float('inf')",
    "np.isnan(loss.item())",
]


@pytest.mark.parametrize("condition", NOT_FINITE)
def test_a_loss_is_finite_on_the_first_path(condition: str) -> None:
    text = f"""\
import numpy as np
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in torch.randn(9, 8, 4):
    loss = net(batch).pow(2).mean()
    if {condition}:
        print("not finite")
        loss = torch.zeros_like(loss)
        continue
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    first = analyze(Program.of(BEGIN + text, "train.py"), Path())
    assert first.passes


EXPORTED = [
    "torch.jit.is_tracing()",
    "torch.jit.is_scripting() or torch.onnx.is_in_onnx_export()",
    "is_scripting()",
    "torch._C._get_tracing_state() is not None",
    "torch._C._get_tracing_state()",
    "exported()",
]


@pytest.mark.parametrize("condition", EXPORTED)
@pytest.mark.parametrize("denied", ["", "not "])
def test_nobody_trains_a_network_while_it_is_exported(condition: str, denied: str) -> None:
    text = f"""\
from torch.jit import is_scripting

def exported():
    if torch.__version__ >= "1.7.0":
        return torch.jit.is_tracing()
    return torch._C._is_tracing()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        out = self.inner(x).tanh()
        if {denied}({condition}):
            for at in range(1, 4):
                out[at] = out[at] + torch.relu(self.inner(out[at - 1]))
        return out

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in torch.randn(9, 4, 4):
    loss = net(batch).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    assert bool(facts(text)) is bool(denied)


SIZED = """\
cell = nn.GRUCell(3, 4)
opt = torch.optim.SGD(cell.parameters(), lr=0.1)
s = torch.zeros(2, 4)
for x in torch.randn(5, 2, 3):
    s = cell(x, s)
    opt.zero_grad()
    s.pow(2).mean().backward()
    opt.step()
    if ASKED:
        s = s.detach()
"""


@pytest.mark.parametrize(
    "asked",
    [
        "s.size(0) == 2",
        "s.shape[0] == 2",
        "not s.size(0) != 2",
        "s.size() == (2, 4)",
        "s.numel()",
        "s.numel() > 0",
        "s.size(1)",
        "not s.size(0) < 1",
        "s.is_floating_point()",
        "torch.is_floating_point(s)",
        "not torch.is_complex(s)",
    ],
)
def test_a_state_that_is_cut_where_it_is_what_the_program_asks_of_it_is_no_mistake(asked: str) -> None:
    assert not facts(SIZED.replace("ASKED", asked))


@pytest.mark.parametrize("asked", ["s.size(0) != x.size(0)", "s.size(0) != 2", "s.shape[0] == 0", "s.numel() < 1"])
def test_a_state_that_is_cut_where_it_has_another_size_is_a_certain_mistake(asked: str) -> None:
    assert [one.certainty for one in facts(SIZED.replace("ASKED", asked))] == [Certainty.CERTAIN]


@pytest.mark.parametrize("asked", ["s.size(1) > 3", "not s.size(1) <= 3", "len(s.shape) == 2 and 3 < s.size(-1)"])
def test_a_state_that_is_cut_where_it_is_larger_than_a_number_is_a_likely_mistake(asked: str) -> None:
    assert [one.certainty for one in facts(SIZED.replace("ASKED", asked))] == [Certainty.LIKELY]


PICKED = """\
import random
cell, head = nn.GRUCell(3, 4), nn.Linear(3, 4)
opt = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=0.1)
kinds = ["plain", "recurrent"]
s = torch.zeros(2, 4)
for step in range(100):
    x = torch.randn(2, 3)
    kind = CHOICE
    if kind == "plain":
        out = head(x)
    else:
        out = s = cell(x, s)
    opt.zero_grad()
    out.pow(2).mean().backward()
    opt.step()
"""


@pytest.mark.parametrize(
    "choice", ["random.choice(kinds)", "kinds[random.randrange(2)]", 'random.choice(("plain", ""))']
)
def test_a_text_that_is_picked_at_random_is_any_of_them(choice: str) -> None:
    text = PICKED.replace("CHOICE", choice)
    assert certain(text)
    assert not facts(text.replace("cell(x, s)", "cell(x, s.detach())"))


BESIDE = """\
import random
net = nn.Linear(8, 2)
opt = torch.optim.Adam(net.parameters())
BEGIN
for step in range(1000):
    x = torch.randn(4, 8)
    loss = net(x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if ASKED:
        ONE
    else:
        OTHER
"""


@pytest.mark.parametrize("asked", ["random.random() > 0.5", "x.sum() > 0", "random.choice((0, 1))"])
@pytest.mark.parametrize(
    ("begin", "one", "other", "kept"),
    [
        ("good, bad = 0, 0", "good += loss", "bad += loss", 2),
        ("seen, bad = 0, []", "seen += 1", "bad.append(loss)", 1),
        ("seen, total = 0, 0", "seen += 1", "total = total + loss", 1),
        ("seen, totals = 0, {'a': 0}", "print(seen)", "totals['a'] = totals['a'] + loss", 1),
        ("seen, total = 0, 0", "seen += 1", "total = total + loss.item()", 0),
        ("seen, last = 0, 0", "seen += 1", "last = loss", 0),
    ],
)
def test_a_graph_that_one_of_two_sides_keeps_is_found_on_either(
    asked: str, begin: str, one: str, other: str, kept: int
) -> None:
    text = BESIDE.replace("BEGIN", begin).replace("ASKED", asked).replace("ONE", one).replace("OTHER", other)
    assert [type(fact) for fact in facts(text)] == [GraphHeld] * kept


LAYERS = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--layers", default="relu1,relu2")
args = parser.parse_args()
layers = LAYERS
parts, square, at = [nn.Conv2d(3, 3, 1), nn.ReLU(inplace=True), nn.Conv2d(3, 3, 1)], nn.MSELoss(), 0
names = ["conv1", "relu1", "conv2"]
image = nn.Parameter(torch.zeros(1, 3, 8, 8))
opt = torch.optim.Adam([image])
for step in range(100):
    x, loss = image, 0
    for name, part in zip(names, parts):
        x = part(x)
        if ASKED:
            loss = loss + square(x, torch.ones(1, 3, 8, 8))
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("layers", "asked"),
    [
        ('args.layers.split(",")', "name in layers"),
        ("args.layers", "name in layers"),
        ('args.layers.lower().split(",")', "name in layers"),
        ('vars(args)["layers"].split(",")', "name in layers"),
        ('args.layers.replace(",", " ").split()', "name in layers"),
        ('args.layers.split(",")', "not name not in layers"),
        ('args.layers.split(",")', "name == layers[0]"),
        ("args.layers", "name == 'conv1' and layers.startswith('conv')"),
    ],
)
@pytest.mark.parametrize("default", ["relu1,relu2", "conv1,relu2"])
def test_a_text_in_an_option_is_one_of_its_default(layers: str, asked: str, default: str) -> None:
    text = LAYERS.replace("LAYERS", layers).replace("ASKED", asked).replace("relu1,relu2", default)
    assert bool(certain(text)) is default.startswith("conv1")


GIVEN = """\
from tensorflow.contrib.training import HParams
settings = HParams(epochs=EPOCHS, keep=False, kind="plain")
settings.parse("rate=0.1")
cell = nn.GRUCell(3, 4)
opt = torch.optim.Adam(cell.parameters())
s = torch.zeros(2, 4)
for epoch in range(settings.epochs):
    s = cell(torch.randn(2, 3), s)
    opt.zero_grad()
    s.pow(2).mean().backward(retain_graph=settings.keep)
    opt.step()
"""


@pytest.mark.parametrize(("epochs", "certainty"), [("1", Certainty.LIKELY), ("9", Certainty.CERTAIN)])
def test_what_settings_are_given_by_name_is_their_default(epochs: str, certainty: Certainty) -> None:
    assert [fact.certainty for fact in facts(GIVEN.replace("EPOCHS", epochs))] == [certainty]


TWO_LOSSES = """
        import argparse, os, platform, yaml
        import experiments
        settings = yaml.safe_load(open("settings.yaml"))
        parser = argparse.ArgumentParser()
        parser.add_argument("--kind")
        args = parser.parse_args()

        class Wrapped:
            def __init__(self, data):
                self.data = data

            def __getattr__(self, name):
                if isinstance(self.data[name], dict):
                    return Wrapped(self.data[name])
                return self.data[name]

        class Once:
            def __init__(self, made):
                self.made, self.one = made, None

            def __call__(self):
                if self.one is None:
                    self.one = self.made(settings)
                return self.one

        wrapped, once = Wrapped(settings), Once(Wrapped)
        net = nn.Linear(4, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)

        def learn(x):
            loss = net(x).pow(2).mean()
            opt.zero_grad()
            if {first}:
                loss.backward()
            if {second}:
                (loss * 2).backward()
            opt.step()

        for step in range(10):
            learn(torch.randn(2, 4))
"""
SETTINGS = (
    "settings['kind']",
    "settings.get('kind')",
    "settings.get('model').get('kind', 'joint')",
    "settings.get('model').kind",
    "settings['kind'].strip().lower()",
    "settings.kind()",
    "experiments.current().kind",
    "experiments.named('first').kind",
    "wrapped.kind",
    "wrapped.model.kind",
    "once().model.kind",
    "args.kind.lower()",
    "os.getenv('KIND')",
    "platform.system()",
)


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_looked_up_twice_is_one_text(setting: str) -> None:
    assert not facts(TWO_LOSSES.format(first=f"{setting} == 'joint'", second=f"{setting} == 'alone'"))
    assert certain(TWO_LOSSES.format(first=f"{setting} == 'joint'", second=f"{setting} == 'joint'"))


@pytest.mark.parametrize("setting", ["settings.get('warm')", "settings.get('steps') > 3", "experiments.current().warm"])
def test_a_setting_that_is_looked_up_twice_is_on_or_off(setting: str) -> None:
    assert not facts(TWO_LOSSES.format(first=setting, second=f"not ({setting})"))
    assert certain(TWO_LOSSES.format(first=setting, second=setting))


@pytest.mark.parametrize("taken", ["tasks.get()", "tasks.pop()", "next(tasks)"])
def test_what_is_taken_from_a_queue_is_another_thing_in_the_next_iteration(taken: str) -> None:
    text = f"""
        import experiments
        tasks = experiments.tasks()
        cell = nn.RNNCell(3, 4)
        opt = torch.optim.SGD(cell.parameters(), 0.1)
        h = torch.zeros(2, 4)
        for step in range(10):
            h = cell(torch.randn(2, 3), h)
            opt.zero_grad()
            h.pow(2).mean().backward()
            opt.step()
            if {taken} == "new":
                h = h.detach()
    """
    assert certain(text)


def test_an_object_equals_no_constant_unless_its_class_compares() -> None:
    text = """
        class Mode:
            def __init__(self, name):
                self.name = name
        {compares}
        mode = Mode("alone")
        w = torch.randn(3, requires_grad=True)
        loss = w.exp().sum()
        loss.backward()
        if mode == "joint":
            loss.backward()
    """
    assert not facts(text.format(compares=""))
    compares = "    def __eq__(self, other): return True"
    assert certain(text.format(compares=compares))


MODES = """
        import argparse, yaml
        settings = yaml.safe_load(open("settings.yaml"))
        parser = argparse.ArgumentParser()
        parser.add_argument("--mode", default="plain")
        args = parser.parse_args()
        net = nn.Linear(4, 4)
        opt = torch.optim.SGD(net.parameters(), 0.1)
        for step in range(10):
            loss = net(torch.randn(2, 4)).pow(2).mean()
            opt.zero_grad()
            if {mode} == "plain":
                loss.backward()
            {second} {mode} == "both":
                loss.backward()
                {again}
            if {mode} == "half":
                (loss / 2).backward()
            opt.step()
"""


@pytest.mark.parametrize("second", ["if", "elif"])
@pytest.mark.parametrize("mode", ["args.mode", "settings['mode']", "settings.get('mode')", "settings.mode"])
def test_a_mode_that_the_likely_one_rules_out_is_followed_for_its_passes(mode: str, second: str) -> None:
    text = partial(MODES.format, mode=mode, second=second)
    assert certain(text(again="(2 * loss).backward()"))
    assert not facts(text(again="pass"))
