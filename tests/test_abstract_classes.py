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


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("value", VALUES)
def test_isinstance_is_answered_as_python_does(value: str, cls: str) -> None:
    sources = Sources(Program.of(f"{HEAD}answer = isinstance({value}, {cls})\nloss = 0\nloss.backward()\n", "t.py"))
    observed = Checks(Known(sources=sources.all))
    interp, _ = analysis._follow(sources, BranchPolicy(Path()), observed)
    answer = interp.globals.names["answer"].value
    known = {"collections": collections, "typing": typing, "numbers": numbers, "torch": torch}
    told = eval(cls, {**vars(builtins), **known})
    assert answer is isinstance(VALUES[value], told)
