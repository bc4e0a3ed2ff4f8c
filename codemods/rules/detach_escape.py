"""Graph escapes: a tensor is handed to NumPy together with its graph."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from autofix.codemods.facts.base import Fact
from autofix.codemods.facts.kept import GraphEscapes
from autofix.codemods.rewriting.detaching import detached
from autofix.codemods.rewriting.edit import Edit
from autofix.codemods.rewriting.nodes import detach
from autofix.codemods.rewriting.tree import Tree
from autofix.codemods.rules.base import Candidate, Codemod

_KEEPS_DATA = frozenset(("cpu", "float", "double", "contiguous", "squeeze", "flatten"))


class DetachEscape(Codemod):
    """A tensor that requires grad is handed to NumPy.

    Error:
        RuntimeError: Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.

    Cause:
        NumPy cannot record gradients, so PyTorch refuses to lend it the memory of a tensor that has a graph. NumPy's
        functions, and matplotlib's, ask for that memory, too: ``np.asarray(x)``, ``plt.plot(losses)``.

    Fix:
        ``x.cpu().numpy()`` becomes ``x.detach().cpu().numpy()``, and ``plt.plot(losses)`` plots
        ``[loss.detach() for loss in losses]``.

    When it is not what you want:
        Where the result goes back into the loss, the gradient ends there: do the computation with torch. Where the
        source shows that it does, AF401 (dropped-graph) writes torch's function instead.

    Source:
        torch.Tensor.numpy in the PyTorch documentation.
    """

    code = "AF501"
    name = "graph-escapes"
    answers = (GraphEscapes,)

    def candidates(self, fact: Fact, tree: Tree) -> Iterator[Candidate]:
        assert isinstance(fact, GraphEscapes)
        given = tree.expression(fact.value)
        if given is not None:
            yield Candidate(detached(tree, given, fact.form), f"detach `{tree.code(given)}` before NumPy takes it")
            return
        call = tree.expression(fact.call)
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return
        value = call.func.value
        while (
            isinstance(value, cst.Call)
            and isinstance(value.func, cst.Attribute)
            and value.func.attr.value in _KEEPS_DATA
        ):
            value = value.func.value
        yield Candidate(Edit(tree).change(value, detach).patch(), f"detach `{tree.code(value)}` before NumPy takes it")
