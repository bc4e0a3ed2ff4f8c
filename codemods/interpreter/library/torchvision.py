"""``torchvision.transforms``: a chain of transforms, among them functions and objects of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autofix.codemods.interpreter.library.derivatives import PROGRAMS_OWN
from autofix.codemods.interpreter.library.registry import DECLINED, Call, model
from autofix.codemods.interpreter.values import Name, Partial, Sequence, Value

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_CHAIN = Name("torchvision.transforms.Compose.chain")


@model("torchvision.transforms.Compose", "torchvision.transforms.v2.Compose")
def _compose(interp: Interpreter, call: Call, transforms: Value) -> Value:
    """``Compose([ToTensor(), normalize])``, where the program's own code is among the transforms."""
    if not isinstance(transforms, Sequence) or not _is_known(transforms):
        return DECLINED
    own = any(isinstance(item.value, PROGRAMS_OWN) for item in transforms.items)
    return Partial(_CHAIN, [transforms], {}) if own else DECLINED


@model(_CHAIN.path)
def _chain(interp: Interpreter, call: Call, transforms: Sequence, data: Value, /) -> Value:
    """The data as the transforms make it, one after the other."""
    if not _is_known(transforms):
        return DECLINED
    for transform in [interp.read(item, transforms) for item in transforms.items]:
        data = interp.call(transform, [data], {}, call.node)
    return data


def _is_known(transforms: Sequence) -> bool:
    """Whether all the items of a list are known."""
    return not transforms.more and transforms.made_of == (0, 0)
