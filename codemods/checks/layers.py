"""Through which layers each parameter gets its gradient: a detach deep in a loss may cut some of the ways to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from autofix.codemods.autograd.graph import BackwardCall


@dataclass
class ThroughLayers:
    """For each pass and layer, the parameters below the layer that the pass trains through it.

    Sets of parameters are bits of an integer: a network of a thousand layers has half a million pairs of them.
    """

    _bits: dict[str, int] = field(default_factory=dict)
    """For each parameter, its bit."""
    _below: dict[tuple[int, str], int] = field(default_factory=dict)
    """By the line of a pass and a layer, which has the name of its parameter."""

    def add(self, one: BackwardCall, served: set[tuple[int, str]]) -> None:
        """Take in a pass; *served* are the parameters that passes train.

        What belongs to earlier iterations is left out.
        """
        trained = 0
        pairs: defaultdict[str, int] = defaultdict(int)
        for layers, inner in self._layers(one):
            for name in layers:
                pairs[name] |= inner
                if (id(one), name) in served:
                    trained |= self._bits[name]
        for layer, inner in pairs.items():
            if inner & trained:
                key = one.site.line, layer
                self._below[key] = self._below.get(key, 0) | (inner & trained)

    def _layers(self, one: BackwardCall) -> Iterator[tuple[list[str], int]]:
        """The parameters of each operation in the graph of a pass that has any, and those below it, as bits."""
        below: dict[int, int] = {}
        pending = [(consumer, False) for consumer, _ in one.edges]
        while pending:
            node, seen = pending.pop()
            if not seen:
                if id(node) in below or id(node) in one.old:
                    continue
                below[id(node)] = 0
                pending.append((node, True))
                pending.extend((operand.node, False) for operand in node.operands if operand.node.leaf is None)
                continue
            layers, inner = list[str](), 0
            for operand in node.operands:
                leaf = operand.node.leaf
                if leaf is None:
                    inner |= below.get(id(operand.node), 0)
                else:
                    layers.append(leaf.name)
            below[id(node)] = inner
            for name in layers:
                below[id(node)] |= self._bits.setdefault(name, 1 << len(self._bits))
            if layers:
                yield layers, inner

    def missing(self, after: ThroughLayers, original: Callable[[int], int]) -> Iterator[tuple[int, str]]:
        """The line of a pass and a parameter that it trains, but no longer through all layers *after* a patch.

        *original* maps a line of the patched program to the one before the patch.
        """
        names = {bit: name for name, bit in self._bits.items()}
        here = self._from(after)
        left: dict[tuple[int, str], int] = {}
        for (line, layer), bits in after._below.items():
            key = original(line), layer
            left[key] = left.get(key, 0) | here(bits)
        for (line, layer), bits in self._below.items():
            gone = bits & ~left.get((line, layer), 0)
            while gone:
                lowest = gone & -gone
                yield line, names[lowest]
                gone ^= lowest

    def _from(self, other: ThroughLayers) -> Callable[[int], int]:
        """Function that translates bits of *other* to the bits that stand for the same parameters here."""
        if self._bits == other._bits:
            return lambda bits: bits
        pairs = [(bit, other._bits[name]) for name, bit in self._bits.items() if name in other._bits]
        return lambda bits: sum(own for own, there in pairs if bits & there)
