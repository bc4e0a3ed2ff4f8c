"""Training loops that a framework runs: the user's methods give the loss, and the framework sends it back.

Lightning calls ``training_step`` for each batch, and the trainer of transformers ``compute_loss``.  Neither loop stands
in the program, so that one is written here with the calls that the framework makes, and read as if it stood at the
call of ``fit``, or at the method where nobody calls it.

Source: "LightningModule: Hooks" in Lightning's documentation gives their order; ``Trainer.training_step`` in
transformers' trainer.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from autofix.codemods.interpreter import class_lookup, cuts
from autofix.codemods.interpreter.values import (
    Binding,
    Function,
    Instance,
    Mapping,
    Name,
    Optimizer,
    Scope,
    Sequence,
    TorchModule,
    Value,
)

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

CALLED = {"training_step": "LightningModule", "compute_loss": "Trainer"}
"""The methods that a framework calls for each batch, and how the names of the classes end that have them called."""
STARTS = ("fit", "train")
"""The methods that begin a framework's loop."""

_LOOPS = {
    "training_step": """\
def fit(module, model, epochs, batches, states, outputs):
    module.on_fit_start()
    module.on_train_start()
    for epoch in epochs:
        module.on_train_epoch_start()
        for number, batch in enumerate(batches):
            module.on_train_batch_start(batch, number)
            for turn in range(2):
                outcome = module.training_step(batch, number, states)
                loss = outcome["loss"] if isinstance(outcome, dict) else outcome
                if loss is not None:
                    module.on_before_zero_grad(states)
                    module.on_before_backward(loss)
                    loss.backward()
                    module.on_after_backward()
                    module.on_before_optimizer_step(states)
            module.on_train_batch_end(outputs, batch, number)
        module.on_train_epoch_end()
    module.on_train_end()
    module.on_fit_end()
""",
    "compute_loss": """\
def train(trainer, model, batches):
    for batch in batches:
        outcome = trainer.compute_loss(model, batch)
        loss = outcome[0] if isinstance(outcome, tuple) else outcome
        loss.backward()
""",
}


def step_of(instance: Instance) -> str:
    """The method of an object that a framework calls for each batch; empty where there is none."""
    bases = [base.path for base in class_lookup.lineage(instance.cls) if isinstance(base, Name)]
    for method, base in CALLED.items():
        step = class_lookup.find(instance, method)
        if isinstance(step, Function) and any(path.endswith(base) for path in bases):
            return method if is_step(step.node) else ""
    return ""


def is_step(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    """Whether a function is called as such a method is, and takes what a framework gives it."""
    if isinstance(node, ast.Lambda) or node.name not in CALLED:
        return False
    return node.name == "training_step" or "model" in [parameter.arg for parameter in node.args.args[1:2]]


def drive(interp: Interpreter, instance: Instance, node: ast.expr) -> None:
    """Run the loop that a framework would run with *instance*, as if it were written at *node*."""
    loop = loop_at(_code(instance, step_of(instance)), node)
    function = Function(loop, interp.source, Scope({}), [], {}, loop.name)
    interp.call(function, [instance, _model_of(interp, instance, node)], {}, node)


_CONFIGURED = "configure_optimizers()"
"""The attribute in which a module keeps its optimizers: no name, so that it clashes with none."""


def configured_optimizers(interp: Interpreter, module: Instance, node: ast.expr) -> Value:
    """The result of ``self.optimizers()``: the optimizer that ``configure_optimizers`` makes, or a list of several.

    None where they are not known.
    """
    if _CONFIGURED not in module.names:
        method = class_lookup.find(module, "configure_optimizers")
        found = []
        if isinstance(method, Function):
            found = list(_optimizers_in(interp.call(method, [module], {}, node)))
        several = Sequence("list", [Binding(one) for one in found])
        module.names[_CONFIGURED] = Binding(found[0] if len(found) == 1 else several if found else None)
    return module.names[_CONFIGURED].value


def _optimizers_in(value: Value) -> Iterator[Optimizer]:
    """The optimizers among what ``configure_optimizers`` gives back: one, several, lists, dictionaries, schedulers."""
    if isinstance(value, Optimizer):
        yield value
    elif isinstance(value, Mapping) and "optimizer" in value.items:
        yield from _optimizers_in(value.items["optimizer"].value)
    elif isinstance(value, Sequence):
        for slot in value.items:
            yield from _optimizers_in(slot.value)


def toggle_optimizer(interp: Interpreter, module: Instance, optimizer: Optimizer, node: ast.expr) -> None:
    """``toggle_optimizer(one)``: the parameters of all other configured optimizers are frozen for its turn."""
    configured = _optimizers_in(configured_optimizers(interp, module, node))
    others = dict.fromkeys(leaf for one in configured for leaf in one.leaves)
    frozen = interp.toggled.setdefault(interp.identity(module), [])
    for leaf in others:
        if leaf not in optimizer.leaves and not leaf.frozen:
            cuts.freeze(interp, leaf, False, node)
            frozen.append(leaf)


def untoggle_optimizer(interp: Interpreter, module: Instance, node: ast.expr) -> None:
    """``untoggle_optimizer(one)``: the end of its turn."""
    for leaf in interp.toggled.pop(interp.identity(module), []):
        cuts.freeze(interp, leaf, True, node)


def _model_of(interp: Interpreter, trainer: Instance, node: ast.expr) -> Value:
    """The model that a trainer was given."""
    slot = trainer.names.get("model")
    if slot is not None and isinstance(slot.value, (Instance, TorchModule)):
        return slot.value
    model = interp.fresh_symbol("model")
    model.leaf = interp.leaf("model", node)
    return model


def _code(instance: Instance, method: str) -> str:
    """The loop around this method, with what *instance* has of the framework's hooks."""
    step = class_lookup.find(instance, method)
    assert isinstance(step, Function)
    code = _LOOPS[method]
    for hook in re.findall(r"on_\w+", code):
        if not isinstance(class_lookup.find(instance, hook), Function):
            code = re.sub(rf".*\.{hook}\(.*\n", "", code)
    parameters = [parameter.arg for parameter in step.node.args.args][1:]
    if method == "training_step" and step.node.args.vararg is None:
        given = ["batch", "number", "turn" if "optimizer_idx" in parameters else "states"][: len(parameters)]
        code = code.replace("batch, number, states)", ", ".join(given) + ")")
    if "optimizer_idx" not in parameters:  # several optimizers, each with a turn, were Lightning's way before 2.0
        code = code.replace("range(2)", "range(1)")
    slot = instance.names.get("automatic_optimization")
    return code.replace("loss.backward()", "pass") if slot is not None and slot.value is False else code


@lru_cache(maxsize=64)
def loop_at(code: str, place: ast.expr) -> ast.FunctionDef:
    """A framework's loop, all of it at one *place* of the program."""
    made = ast.parse(code).body[0]
    assert isinstance(made, ast.FunctionDef)
    for node in ast.walk(made):
        if isinstance(node, (ast.expr, ast.stmt)):
            ast.copy_location(node, place)
    return made
