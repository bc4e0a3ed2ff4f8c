"""Distil PyTorch's own data into ``catalogue.json``: one row per operation, one per module of ``torch.nn``.

Run it as a module, ``python -m autofix.codemods.autograd.distil_catalogue``, where a torch wheel is installed.  Nothing
else in the static half of autofix imports torch.  Sources, all of them in the wheel: ``derivatives.yaml`` (saved
values), ``native_functions.yaml`` (arguments, alias annotations, tags), the signatures of ``torch.nn.functional``, and
constructors and forward functions of ``torch.nn``.  Composite operations have no formula: ``composites`` says what they
save.

The overloads of an operation are merged.  A row's name has no underscore at the end; an in-place operation that saves
something else than the one that makes a new tensor (``elu_`` its result, ``elu`` its input) has a row of its own.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import re
import textwrap
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from autofix.codemods.autograd import catalogue, composites

TARGET = Path(__file__).with_name("catalogue.json")
_FORMS = ("{}", "_{}", "{}_ex", "_{}_ex", "{}_forward", "_{}_forward", "{}_with_indices")
"""Names of the operations that carry out a composite one: ``linalg_inv`` is ``linalg_inv_ex``."""
_SPACES = ("", "linalg.", "special.", "fft.", "Tensor.", "nn.functional.")
_CONSTRUCTORS = ((), (1,), (4,), ((4,),), (4, 4), (1, 4), (2, 4), (3, 4, 1), (4, 4, 4), (1, (2, 2)), (4, (2, 4)))
_LIBRARIES = ("torch", "torch.autograd", "torch.nn", "torch.nn.functional", "torch.optim")
Row = dict[str, Any]


def _public(torch: Any) -> Callable[[str], bool]:
    """Whether a function of aten's is one that programs call."""

    def names(space: str) -> set[str]:
        owner = torch
        for part in filter(None, space.split(".")):
            owner = getattr(owner, part)
        prefix = space.replace(".", "_") if space in ("linalg.", "special.", "fft.") else ""
        return {f"{prefix}{name}" for name in dir(owner) if callable(getattr(owner, name, None))}

    known = set().union(*map(names, _SPACES))
    private = re.compile(composites.PRIVATE).fullmatch

    def is_public(name: str) -> bool:
        called = name in known or f"{name}_" in known or name in composites.INNER
        return called and not name.startswith("_") and private(name) is None

    return is_public


def _is_tensor(nctype: Any) -> bool:
    return "name='Tensor'" in str(nctype.type) or "tensorListT" in str(nctype.type) or "TensorList" in str(nctype.type)


def _saves(info: Any) -> dict[str, set[str]]:
    """By argument, the values saved when it requires a gradient: names of arguments, or ``result``.

    A wrapped number is saved as a tensor as well: ``x * 2`` cannot be walked twice.  Further outputs (a dropout's mask,
    a norm's statistics) keep their names: no script gets hold of them.  Source: ``gen_variable_type.guard_for``, by
    which an input is saved only if its one use needs a gradient, and everything else if any argument requires one.
    """
    first = next((out.name for out in info.func.func.returns), None)
    saves: dict[str, set[str]] = {name: set() for one in info.derivatives for name in one.var_names}
    lists = any("[]" in str(argument.type) for argument in info.func.func.schema_order_arguments())
    uses = Counter(saved.nctype.name for one in info.derivatives for saved in one.saved_inputs)
    for derivative in info.derivatives:
        if "not_implemented(" in derivative.formula:
            continue
        for saved in (*derivative.saved_inputs, *derivative.saved_outputs):
            name = saved.nctype.name
            if not _is_tensor(saved.nctype):
                continue
            plain = "OptionalCType" not in str(saved.nctype.type)
            guarded = plain and not lists and uses[name] == 1 and len(derivative.var_names) == 1
            for variable in derivative.var_names if guarded else saves:
                saves[variable].add("result" if name in ("result0", first) else name)
    return saves


def _arguments(function: Any) -> list[str]:
    """The names of a function's arguments, those that may be given by position first."""
    arguments = function.func.arguments
    positional = [argument.name for argument in arguments.flat_positional]
    rest = [argument.name for argument in arguments.flat_all if argument.name not in positional]
    return [*positional, *rest]


def _longest(functions: list[Any]) -> list[str]:
    """The arguments of the overload that has the most."""
    found: list[str] = []
    for function in functions:
        arguments = _arguments(function)
        found = arguments if len(arguments) > len(found) else found
    return found


def _is_unary(function: Any) -> bool:
    """Whether a function is a method of tensors, takes no further tensor, and need not be given a number."""
    methods = {str(one.name) for one in function.variants}
    rest = [one for one in function.func.arguments.flat_all if one.name != "self"]
    needed = {str(one.type) for one in rest if one.default is None}
    return "method" in methods and "Scalar" not in needed and not any("Tensor" in str(one.type) for one in rest)


def _results(function: Any) -> list[str]:
    """The names of a function's results, empty for those without."""
    return [out.name or "" for out in function.func.returns]


def _aliases(function: Any) -> str:
    """``view`` or ``views`` where the result shares the memory of an argument that is not changed."""
    for out in function.func.returns:
        if out.annotation is not None and not out.annotation.is_write:
            return "views" if "[]" in str(out.type) else "view"
    return ""


def _kind(name: str, functions: list[Any], arguments: list[str]) -> str:
    """The kind of result that an operation has; empty for none of those told apart."""
    tags = {tag for function in functions for tag in function.tags}
    kinds = {str(argument.type) for one in functions for argument in one.func.arguments.flat_positional}
    alias = next(filter(None, map(_aliases, functions)), "")
    if name in composites.KINDS:
        return composites.KINDS[name]
    if alias:
        return alias
    if "reduction" in arguments and not name.endswith("_reduce"):
        return "loss"
    if "reduction" in tags and any(len(one.func.returns) == 1 for one in functions):
        return "reduction"
    if name.endswith("_like") or name.startswith("new_") or not any("Tensor" in kind for kind in kinds):
        return "creation"
    if any("Tensor[]" in kind for kind in kinds):
        return "join"
    if "pointwise" in tags:
        return "pointwise"
    return "index" if {"index", "indices"} & {*arguments} else ""


class _Table:
    """The functions of aten's by their names, and the derivative formulas of each."""

    def __init__(self) -> None:
        import torchgen  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from torchgen.gen import parse_native_yaml  # type: ignore[import-untyped,import-not-found,unused-ignore]
        from torchgen.packaged.autograd.load_derivatives import (  # type: ignore[import-untyped,import-not-found,unused-ignore]
            load_derivatives,
        )

        packaged = Path(torchgen.__file__).parent / "packaged"
        native, tags = str(packaged / "ATen/native/native_functions.yaml"), str(packaged / "ATen/native/tags.yaml")
        formulas, _ = load_derivatives(str(packaged / "autograd/derivatives.yaml"), native, tags)
        self.functions: dict[str, list[Any]] = defaultdict(list)
        for function in parse_native_yaml(native, tags).native_functions:
            gives = any("Tensor" in str(out.type) for out in function.func.returns)
            if gives and not function.func.is_out_fn() and "Dimname" not in str(function.func):
                self.functions[str(function.func.name.name.base)].append(function)
        self.infos: dict[str, list[Any]] = defaultdict(list)
        for by_key in formulas.values():
            if "Default" in by_key:
                self.infos[str(by_key["Default"].func.func.name.name.base)].append(by_key["Default"])

    def with_formula(self, name: str) -> str:
        """The operation whose formula is that of *name*; empty where there is none."""
        meant = composites.MADE_OF.get(name, name)
        plain = meant.removeprefix("special_").removeprefix("linalg_")
        names = dict.fromkeys((meant, plain, composites.MADE_OF.get(plain, plain), f"linalg_{plain}"))
        return next((one for name in names for form in _FORMS if self.has_formula(one := form.format(name))), "")

    def has_formula(self, name: str) -> bool:
        """Whether a formula says what the operation saves that makes a new tensor, where there is one."""
        makes = any(not one.func.name.name.inplace for one in self.functions.get(name, ()))
        infos = self.infos.get(name, ())
        return any(info.has_derivatives and not (makes and info.func.func.name.name.inplace) for info in infos)

    def saves(self, name: str, *, inplace: bool) -> dict[str, set[str]]:
        """The saved values of all overloads of an operation, or of those that change their argument."""
        merged: dict[str, set[str]] = defaultdict(set)
        for info in self.infos[name]:
            if info.has_derivatives and bool(info.func.func.name.name.inplace) == inplace:
                for variable, names in _saves(info).items():
                    merged[variable] |= names
        return merged

    def row(self, name: str) -> Row:
        functions = self.functions[name]
        plain = [one for one in functions if not one.func.name.name.inplace] or functions
        arguments = _longest(plain)
        tensors = {a.name for one in plain for a in one.func.arguments.flat_all if "Tensor" in str(a.type)}
        row: Row = {"args": arguments, "kind": _kind(name, plain, arguments)}
        row["tensors"] = [one for one in arguments if one in tensors]
        formula = self.with_formula(name)
        by_hand = name if name in composites.SAVES else name.removeprefix("linalg_")
        if by_hand in composites.SAVES and {*composites.SAVES[by_hand]} <= {*arguments}:
            row["saves"] = _by_hand(by_hand)
        elif formula:
            saves = self.saves(formula, inplace=False) or self.saves(formula, inplace=True)
            of = dict(zip(_longest(self.functions[formula]), arguments, strict=False))
            theirs, own = _results(self.functions[formula][0]), _results(plain[0])
            of |= dict(zip(theirs[1:], own[1:], strict=True)) if len(theirs) == len(own) else {}
            known = {*arguments}
            row["saves"] = {
                (one if one in known else of.get(one, one)): sorted(
                    two if two in known else of.get(two, two) for two in names
                )
                for one, names in saves.items()
            }
        elif row["kind"] in ("view", "views", "cast"):
            row["saves"] = {arguments[0]: []}
        if name in composites.ROWS:
            row["args"] = composites.ROWS[name][0].split()
        composite = any(one.has_composite_implicit_autograd_kernel for one in plain)
        if row["kind"] == "creation" or name in composites.WITHOUT_GRADIENT or not ("saves" in row or composite):
            row["differentiable"] = False
        gives = [len(one.func.returns) == 2 and one.func.returns[1].name == "indices" for one in plain]
        if any(gives):
            row["places"] = "always" if all(gives) else "along"
        fields = _results(plain[0])
        if len(fields) > 1 and (any(fields) or name in composites.SEVERAL) and not any(gives):
            row["fields"] = fields
        if any(one.func.name.name.inplace for one in functions):
            row["in_place"] = True
        if any(map(_is_unary, plain)):
            row["unary"] = True
        return row


def _operations(torch: Any, table: _Table) -> Iterator[tuple[str, Row]]:
    is_public = _public(torch)
    for name in filter(is_public, table.functions):
        row = table.row(name)
        yield name, row
        inplace = {key: sorted(names) for key, names in table.saves(table.with_formula(name), inplace=True).items()}
        if inplace and "result" in itertools.chain(*inplace.values()) and inplace != row.get("saves"):
            yield f"{name}_", {**row, "saves": inplace}


def _functions(torch: Any) -> Iterator[tuple[str, Any]]:
    """The arguments of the functions of ``torch.nn.functional`` that are written in Python."""
    for name in dir(torch.nn.functional):
        function = getattr(torch.nn.functional, name)
        if inspect.isfunction(function) and function.__module__ == "torch.nn.functional" and not name.startswith("_"):
            arguments = inspect.signature(function).parameters
            if arguments and "args" not in arguments and name not in composites.NO_OPERATIONS:
                yield name, arguments
            elif "args" in arguments:  # dispatched by a flag to one of two functions
                written = getattr(torch.nn.functional, f"_{name}", None)
                if written is not None:
                    yield name, inspect.signature(written).parameters


def _form(kind: Any) -> str:
    """The function that a module's forward applies to its input: ``relu`` of ``nn.ReLU``."""
    source = textwrap.dedent(inspect.getsource(kind.forward))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Return)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Attribute)
        ):
            owner = node.value.func.value
            if isinstance(owner, ast.Name) and owner.id in ("F", "torch", "input"):
                return node.value.func.attr
    return ""


def _modules(torch: Any) -> Iterator[tuple[str, Row]]:
    for name in dir(torch.nn):
        kind = getattr(torch.nn, name)
        if not isinstance(kind, type) or not issubclass(kind, torch.nn.Module) or name in catalogue.CONTAINERS:
            continue
        made = next(filter(None, (_made(kind, given) for given in _CONSTRUCTORS)), None)
        arguments = [one for one in inspect.signature(kind).parameters if one not in ("args", "kwargs")]
        row: Row = {"args": arguments}
        form = composites.FORMS.get(name, _form(kind))
        if form:
            row["form"] = form
        parameters = [key for key, _ in made.named_parameters()] if made is not None else ["?"]
        parameters = ["?"] if any("." in key for key in parameters) else parameters
        if parameters:
            row["parameters"] = parameters
        bases = [base.__name__ for base in kind.__mro__[1:] if issubclass(base, torch.nn.Module)]
        if bases[:-1]:
            row["bases"] = bases[:-1]
        yield name, row


def _names() -> Iterator[tuple[str, list[str]]]:
    """By library, the names that ``from library import *`` takes; the names of a tensor's attributes."""
    from torch import Tensor

    for library in _LIBRARIES:
        taken: dict[str, Any] = {}
        exec(f"from {library} import *", taken)
        yield library, sorted(name for name in taken if name != "__builtins__")
    yield "torch.Tensor", sorted(name for name in dir(Tensor) if not name.startswith("_"))


def _distributions() -> Iterator[tuple[str, Row]]:
    """By class of ``torch.distributions``: parameters, those that are attributes, and whether it has ``rsample``."""
    from torch import distributions

    for name in distributions.__all__:
        kind = getattr(distributions, name)
        if isinstance(kind, type) and issubclass(kind, distributions.Distribution):
            arguments = [one for one in inspect.signature(kind).parameters if one != "validate_args"]
            source = inspect.getsource(kind.__init__)
            kept = [one for one in arguments if hasattr(kind, one) or re.search(rf"self\.{one}\b", source)]
            yield name, {"args": arguments, "attributes": kept, "rsample": kind.has_rsample is True}


def _by_hand(name: str) -> dict[str, list[str]]:
    """The hand-written saves of a composite operation."""
    return {key: saved.split() for key, saved in composites.SAVES[name].items()}


def _checked(operations: dict[str, Row]) -> dict[str, Row]:
    """The rows, if what is written by hand speaks of the operations' own arguments."""
    for name, usual in composites.USUAL.items():
        operations[name]["usual"] = usual
        if not {*usual} <= {*operations[name]["args"]}:
            raise ValueError(f"{name} has not all of the arguments {', '.join(usual)}")
    for name in composites.WHOLE_NUMBERS:
        operations[name]["whole"] = True
    for name in composites.UNARY:
        operations[name]["unary"] = True
    for name, layout in composites.LAYOUTS.items():
        operations[name]["layout"] = layout
    for name in composites.SAVES:
        row = operations[name]
        unknown = {*row["saves"], *itertools.chain(*row["saves"].values())} - {*row["args"], "result", "copy"}
        if unknown:
            raise ValueError(f"{name}({', '.join(row['args'])}) has no argument {', '.join(sorted(unknown))}")
    return operations


def _made(kind: Any, given: tuple[Any, ...]) -> Any:
    try:
        return kind(*given)
    except (TypeError, ValueError, RuntimeError, AssertionError):
        return None


def _written(rows: Iterable[tuple[str, Any]]) -> str:
    return ",\n".join(f"  {json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(rows))


def main() -> None:
    import torch

    warnings.simplefilter("ignore")
    table = _Table()
    operations = dict(_operations(torch, table))
    for name, (written, saves) in composites.ROWS.items():
        row = operations.setdefault(name, {"kind": composites.KINDS.get(name, ""), "tensors": written.split()})
        row |= {"args": written.split(), "saves": {key: saved.split() for key, saved in saves.items()}}
        if written == "self":
            row["unary"] = True
        if name in composites.WITHOUT_GRADIENT:
            row["differentiable"] = False
    private = re.compile(composites.PRIVATE).fullmatch
    for name, parameters in _functions(torch):
        if private(name):
            continue
        arguments = list(parameters)
        tensors = [one for one, parameter in parameters.items() if "Tensor" in str(parameter.annotation)]
        known = operations.setdefault(
            name, {"kind": composites.KINDS.get(name, "loss" if "reduction" in arguments else "")}
        )
        before = known.get("args", arguments)
        if name in composites.SAVES:
            known["saves"] = _by_hand(name)
            before = arguments
        elif "saves" not in known and (formula := table.with_formula(name)):
            known["saves"] = {key: sorted(names) for key, names in table.saves(formula, inplace=False).items()}
            before = _longest(table.functions[formula])
        names = {old: new for old, new in zip(before, arguments, strict=False) if old not in arguments}
        known["args"], known["tensors"] = arguments, tensors
        if "saves" in known:
            known["saves"] = {
                names.get(key, key): sorted(names.get(one, one) for one in saved)
                for key, saved in known["saves"].items()
            }
    modules = dict(_modules(torch))
    parts = {"operations": _written(_checked(operations).items()), "modules": _written(modules.items())}
    parts["names"] = _written(_names())
    parts["distributions"] = _written(_distributions())
    text = "{\n" + ",\n".join(f'"{name}": {{\n{rows}\n}}' for name, rows in parts.items()) + "\n}\n"
    TARGET.write_text(text, encoding="utf-8")
    print(f"{len(operations)} operations and {len(modules)} modules written to {TARGET}")


if __name__ == "__main__":
    main()
