"""Inference tensors: what a network is to be trained on is made in inference mode."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.cut import InferenceSaved
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod


class LeaveInference(Codemod):
    """Features made in inference mode are the input of a network that is trained.

    Error:
        RuntimeError: Inference tensors cannot be saved for backward. To work around you can make a clone to get a
        normal tensor and use it in autograd. Or: Inplace update to inference tensor outside InferenceMode is not
        allowed.

    Cause:
        ``torch.inference_mode`` goes further than ``torch.no_grad``: its tensors have no version counter, and can
        never be saved by a graph, nor be modified in place outside of the mode. A head that is trained on the features
        of a frozen encoder saves them.

    Fix:
        ``inference_mode`` becomes ``no_grad``: the encoder is not recorded either way, and its features are tensors
        like others.

    When it is not what you want:
        Where the block serves mostly evaluation and its speed counts, clone what is trained on, outside of the block.

    Source:
        "Inference Mode" in PyTorch's notes on autograd mechanics.
    """

    code = "AF411"
    name = "inference-tensor"
    answers = (InferenceSaved,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, InferenceSaved)
        statement = tree.statement(fact.guard)
        modes: list[cst.BaseExpression] = []
        if isinstance(statement, cst.With):
            modes = [item.item for item in statement.items]
        elif isinstance(statement, cst.FunctionDef):
            modes = [decorator.decorator for decorator in statement.decorators]
        edit = Edit(tree)
        for mode in modes:
            name = mode.func if isinstance(mode, cst.Call) else mode
            if tree.code(name).rpartition(".")[2] == "inference_mode":
                if not isinstance(name, cst.Attribute) and not tree.imports_torch(mode):
                    return
                module = name.value if isinstance(name, cst.Attribute) else cst.Name(tree.torch_name(mode))
                no_grad = cst.Call(cst.Attribute(module, cst.Name("no_grad")))
                edit.change(mode, lambda _, no_grad=no_grad: no_grad)  # type: ignore[misc]
                yield Candidate(edit.patch(), "use no_grad: tensors that are made under it can be used in a graph")
                return
