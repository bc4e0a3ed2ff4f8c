"""Questions whether numbers are finite: usually they are, and a training goes on."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

from autofix.codemods.autograd.catalogue import operation
from autofix.codemods.interpreter.values import TensorRef, Value

_TESTS = {"isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True}
"""Functions of ``torch``, ``numpy`` and ``math``, each with its usual result."""
_LIKE_ITS_OPERANDS = frozenset("any all logical_or logical_and bitwise_or bitwise_and".split())
_UNLIKE_ITS_OPERAND = frozenset(("logical_not", "bitwise_not"))


def usual_result(name: str, tensors: Iterable[TensorRef]) -> bool | None:
    """What an operation usually says of *tensors*, where it tests whether they are finite, or joins such tests."""
    name = operation(name).name
    if name in _TESTS:
        return _TESTS[name]
    answers = {tensor.cell.usual for tensor in tensors}
    if len(answers) != 1:
        return None
    (answer,) = answers
    if answer is not None and name in _UNLIKE_ITS_OPERAND:
        return not answer
    return answer if name in _LIKE_ITS_OPERANDS else None


def usually_equal(left: Value, right: Value) -> bool | None:
    """Whether tensors are usually equal, where only what is not finite says otherwise: ``loss != loss``."""
    if isinstance(left, TensorRef) and isinstance(right, TensorRef):
        return True if left.cell is right.cell else None
    return False if any(isinstance(value, float) and not math.isfinite(value) for value in (left, right)) else None


def usual_answer(condition: Hashable) -> bool | None:
    """The usual answer to a condition on a number, by its key: ``loss.item() == float("inf")``, ``np.isnan(total)``."""
    match condition:
        case ("Eq", one, other) if _is_endless(one) or _is_endless(other):
            return False
        case ("new" | "~", "call", str(path), *_) if path.partition(".")[0] == "numpy":
            return _TESTS.get(path.rpartition(".")[2])
    return None


def _is_endless(key: Hashable) -> bool:
    match key:
        case ("float", float(number)):
            return not math.isfinite(number)
    return False
