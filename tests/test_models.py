"""The registry of library models: which model a name finds, and how a call's arguments are bound."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import cast

import pytest

from autofix.codemods.interpreter import library, library_calls
from autofix.codemods.interpreter.library.registry import DECLINED, Call, Model, Models, model
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.values import Value

NODE = ast.Name("called", ast.Load())
NOBODY = cast(Interpreter, None)


def reduce(interp: Interpreter, call: Call, function: Value, iterable: Value, /, initial: Value = 0) -> Value:
    return (function, iterable, initial)


def anything(interp: Interpreter, call: Call, *args: Value, **keywords: Value) -> Value:
    return call.last


@pytest.mark.parametrize(
    ("args", "keywords", "fits"),
    [
        ("fx", "", True),
        ("fxi", "", True),
        ("fx", ["initial"], True),
        ("f", "", False),
        ("f", ["iterable"], False),
        ("fxi", ["initial"], False),
        ("fxij", "", False),
        ("fx", ["other"], False),
    ],
    ids=str,
)
def test_a_model_takes_what_its_signature_takes(args: str, keywords: list[str], fits: bool) -> None:
    given = dict.fromkeys(keywords, 1)
    assert Model(reduce).fits(list(args), given) is fits
    if fits:
        reduce(NOBODY, Call(NODE, ""), *args, **given)
    else:
        with pytest.raises(TypeError):
            reduce(NOBODY, Call(NODE, ""), *args, **given)


def asked(models: Models, name: str) -> Value:
    return models.call(NOBODY, Call(NODE, name), given=[], keywords={})


def test_the_closest_model_is_asked_first_and_may_decline() -> None:
    models = Models()
    order: list[str] = []
    patterns = ["torch.nn.*", "*.Variable", "torch.*", "torch.nn.*.Variable", "torch.nn.Variable", "torch.*.Variable"]
    for pattern in patterns:

        @models(pattern)
        def declines(interp: Interpreter, call: Call, pattern: str = pattern) -> Value:
            order.append(pattern)
            return DECLINED

    assert asked(models, "torch.nn.Variable") is DECLINED
    assert order == [patterns[4], patterns[3], patterns[5], patterns[1], patterns[0], patterns[2]]
    models("torch.nn.functional.relu")(anything)
    assert asked(models, "torch.nn.functional.relu") == "relu"


def test_two_models_of_one_name_are_refused() -> None:
    models = Models()
    models("functools.partial")(anything)
    with pytest.raises(ValueError, match="two models of"):
        models("functools.partial")(anything)


def test_every_file_of_the_library_is_loaded() -> None:
    files = {path.stem for path in Path(str(library.__file__)).parent.glob("*.py")} - {"__init__", "registry"}
    assert files <= set(vars(library_calls)) | set(vars(library))
    assert {"functools.partial", "torch.*.no_grad", "builtins.len"} <= set(model.names())
