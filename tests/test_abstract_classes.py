"""``isinstance`` with the abstract classes of Python, for values of which the interpreter knows the class."""

from __future__ import annotations

import builtins
import collections.abc
import numbers
import typing
from collections import deque
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from autofix.codemods.checks.checks import Checks  # noqa: E402
from autofix.codemods.checks.known import Known  # noqa: E402
from autofix.codemods.interpreter import analysis  # noqa: E402
from autofix.codemods.interpreter.policy import BranchPolicy, Path  # noqa: E402
from autofix.codemods.interpreter.values import Symbol  # noqa: E402
from autofix.codemods.source.program import Program  # noqa: E402
from autofix.codemods.source.sources import Sources  # noqa: E402

VALUES: dict[str, Any] = {
    "[1, 2]": [1, 2],
    "(1, 2)": (1, 2),
    "{1, 2}": {1, 2},
    "{'a': 1}": {"a": 1},
    "deque([1])": deque([1]),
    "'text'": "text",
    "3": 3,
    "2.5": 2.5,
    "None": None,
    "torch.zeros(2)": torch.zeros(2),
}
CLASSES = (
    "collections.abc.Sequence",
    "collections.abc.MutableSequence",
    "collections.abc.Mapping",
    "collections.abc.MutableMapping",
    "collections.abc.Set",
    "collections.abc.Iterable",
    "collections.abc.Iterator",
    "collections.abc.Sized",
    "typing.Sequence",
    "typing.Iterable",
    "numbers.Number",
    "numbers.Integral",
    "torch.Tensor",
    "int",
    "list",
    "dict",
)
HEAD = "import collections.abc\nimport numbers\nimport typing\nfrom collections import deque\nimport torch\n"


def answer_of(text: str) -> Any:
    """What the interpreter takes ``answer`` to be at the end of a program."""
    sources = Sources(Program.of(f"{text}loss = 0\nloss.backward()\n", "t.py"))
    interp, _ = analysis._follow(sources, BranchPolicy(Path()), Checks(Known(sources=sources.all)))
    return interp.globals.names["answer"].value


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("value", VALUES)
def test_isinstance_is_answered_as_python_does(value: str, cls: str) -> None:
    answer = answer_of(f"{HEAD}answer = isinstance({value}, {cls})\n")
    known = {"collections": collections, "typing": typing, "numbers": numbers, "torch": torch}
    told = eval(cls, {**vars(builtins), **known})
    assert answer is isinstance(VALUES[value], told)


CLASSES_OF_A_PROGRAM = """\
import abc
import collections.abc
import dataclasses
from collections.abc import Sequence

class Base(abc.ABC):
    pass

class Told(metaclass=abc.ABCMeta):
    pass

class Hooked(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "cut")

@dataclasses.dataclass
class Plain:
    h: int

@dataclasses.dataclass(order=True)
class Ordered:
    h: int

@Told.register
class Pair:
    def __init__(self, h, c):
        self.h, self.c = h, c
    def __iter__(self):
        return iter((self.h, self.c))
    def __len__(self):
        return 2

class Later(Pair):
    def cut(self):
        pass

class Items(Sequence):
    def __init__(self, *items):
        self.items = items
    def __len__(self):
        return 2
    def __getitem__(self, at):
        return self.items[at]

class Table(dict):
    __getattr__ = dict.__getitem__

class Asked:
    def __init__(self, h):
        self.h = h
    def __getattr__(self, name):
        return self.parts[name]

def shape(value):
    match value:
        case {"h": _, **rest}:
            return len(rest)
        case [first, *_]:
            return first
        case Base():
            return "base"
    return "other"

Base.register(Plain)
Sequence.register(Asked)
"""


@pytest.mark.parametrize(
    "asked",
    [
        "isinstance(Plain(1), Base)",
        "isinstance(Pair(1, 2), Base)",
        "isinstance(Pair(1, 2), Told)",
        "isinstance(Later(1, 2), Told)",
        "isinstance(Asked(1), Sequence)",
        "isinstance(Items(1, 2), collections.abc.Reversible)",
        "isinstance(Pair(1, 2), collections.abc.Iterable)",
        "isinstance(Pair(1, 2), collections.abc.Sized)",
        "isinstance(Table(h=1), collections.abc.Mapping)",
        "hasattr(Plain(1), '__dataclass_fields__')",
        "hasattr(Pair(1, 2), '__dataclass_fields__')",
        "hasattr(Pair(1, 2), '__eq__')",
        "hasattr(Table(h=1), 'h')",
        "dataclasses.is_dataclass(Plain(1))",
        "dataclasses.is_dataclass(Ordered(1))",
        "hasattr(Ordered(1), '__dataclass_fields__')",
        "dataclasses.is_dataclass(Plain)",
        "Pair in type(Later(1, 2)).__mro__",
        "Base in type(Later(1, 2)).__mro__",
        "object in Base.__mro__ and object in Plain.__bases__",
        "Later.__base__ is Pair",
        "Later.__module__ == Pair.__module__",
        "shape(Table(h=1, c=2))",
        "shape(Items(5, 6))",
        "shape(Plain(1))",
        "shape(Pair(1, 2))",
    ],
)
def test_an_object_answers_questions_about_its_class_as_in_python(asked: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    text = f"{CLASSES_OF_A_PROGRAM}answer = {asked}\n"
    exec(text, names)
    assert answer_of(text) == names["answer"]


@pytest.mark.parametrize("asked", ["isinstance(Later(1, 2), Hooked)", "hasattr(Asked(1), 'c')"])
def test_what_a_method_of_the_class_decides_is_not_known(asked: str) -> None:
    assert not isinstance(answer_of(f"{CLASSES_OF_A_PROGRAM}answer = {asked}\n"), bool)


LAYERS = """\
import torch
from torch import nn
class Own(nn.Module):
    pass
class Block(nn.Conv2d):
    pass
class Deeper(Block):
    pass
class Several(nn.Sequential):
    pass
"""
MADE = (
    "nn.Linear(2, 3)",
    "nn.BatchNorm2d(3)",
    "nn.GRU(3, 4)",
    "nn.Sequential()",
    "nn.ModuleList()",
    "nn.ParameterList()",
    "nn.MSELoss()",
    "nn.LazyLinear(3)",
    "nn.ReLU6()",
    "Own()",
    "Block(3, 3, 1)",
    "Deeper(3, 3, 1)",
    "Several()",
)
KINDS = (
    "nn.Module",
    "nn.Linear",
    "nn.Conv2d",
    "(nn.Conv2d, nn.Linear)",
    "nn.RNNBase",
    "nn.Hardtanh",
    "nn.Sequential",
    "nn.ModuleList",
    "torch.nn.modules.batchnorm._BatchNorm",
    "nn.modules.conv._ConvNd",
    "nn.modules.loss._Loss",
    "torch.Tensor",
)


def test_a_module_of_a_framework_is_a_module_and_maybe_a_layer() -> None:
    text = "import torch\nfrom lightning import LightningModule\nclass Own(LightningModule):\n    pass\n"
    assert answer_of(f"{text}answer = isinstance(Own(), torch.nn.Module)\n") is True
    assert isinstance(answer_of(f"{text}answer = isinstance(Own(), torch.nn.Linear)\n"), Symbol)


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("cls", KINDS)
def test_isinstance_of_modules_is_answered_as_torch_does(made: str, cls: str) -> None:
    names: dict[str, Any] = {}
    text = f"{LAYERS}answer = isinstance({made}, {cls})\n"
    exec(text, names)
    assert answer_of(text) is names["answer"]
