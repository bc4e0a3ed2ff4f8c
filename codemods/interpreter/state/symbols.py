"""Values about which nothing is known: their identity, and what was found out of them on the way."""

from __future__ import annotations

import ast
from collections.abc import Collection, Hashable
from itertools import islice
from typing import TYPE_CHECKING

from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.policy import BranchPolicy, is_short, varies
from autofix.codemods.interpreter.state.environment import Environment
from autofix.codemods.interpreter.state.numbers import Numbers
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Symbol,
    TorchModule,
    Value,
)
from autofix.codemods.source.sources import Source, Sources

if TYPE_CHECKING:
    from autofix.codemods.autograd.graph import Leaf, Node
    from autofix.codemods.interpreter.datasets import Served
    from autofix.codemods.interpreter.unread_losses import Parts, Result


_FIRST = 1 << 40
"""The first number that stands for an object: no counter, and hardly a number of the program, is that large."""


class Symbols(Environment):
    """The unknown values of a run, and the keys that identify all values in the keys of those computed from them."""

    def __init__(self, sources: Sources, policy: BranchPolicy) -> None:
        super().__init__(sources)
        self.policy = policy
        self.defaults: dict[Hashable, Value] = {}
        """Defaults of command line arguments, by the keys of their values."""
        self.options: dict[Hashable, list[str]] = {}
        """The names of all command line arguments, by the keys of what a parser gives."""
        self.optional_imports: dict[str, Hashable] = {}
        """The keys of the conditions whether imported names are there, by their paths."""
        self.computed: set[Hashable] = set()
        """The keys of conditions that ask for numbers that were taken out of a graph."""
        self.states: dict[Hashable, Value] = {}
        """Modules, by the keys of what their ``state_dict()`` gave."""
        self.weak: set[int] = set()
        """The identities of containers that keep nothing alive."""
        self.tensor_methods: dict[str, Binding] = {}
        """Functions that the program has made methods of all tensors."""
        self.overridden: dict[Hashable, bool] = {}
        """Flags that may have been set otherwise, by their keys, and what they were before."""
        self.looked_up: set[Hashable] = set()
        """The keys of what something that stays as it is gives for a name: ``config.getint("train", "length")``."""
        self.lookups: dict[Hashable, tuple[Hashable, ...]] = {}
        """For the keys of what was looked up by a name, the key of all that is looked up so."""
        self.looked_through: dict[Hashable, tuple[Hashable, ...]] = {}
        """Keys that were looked through for such lookups, and what they became; until there is another lookup."""
        self.getters: dict[Hashable, Hashable] = {}
        """For the keys of what other calls gave, the key of all that such a call gives in one iteration."""
        self.classified: set[Hashable] = set()
        """The keys of values that were found to be of a class on this path: they are not None."""
        self.sure_answers: dict[Hashable, Collection[bool]] = {}
        """The answers to conditions on counters, by their keys, to which a loop that goes on certainly comes."""
        self.served: dict[Hashable, Served] = {}
        """Datasets and loaders whose items have a graph, by the keys of their values."""
        self.rows: dict[Hashable, Hashable] = {}
        """The keys of tensors whose rows are the items of a dataset, by the dataset's."""
        self.whole: set[Hashable] = set()
        """The keys of loaders that hand out all of a dataset at once."""
        self.named: dict[Hashable, Value] = {}
        """Modules, by the keys of the unknown values that are names of their parameters."""
        self.bounds: dict[Hashable, tuple[float, float]] = {}
        """Keys of counters, and between what they are by the conditions that held of them."""
        self.attributes_of_opaque: dict[tuple[Hashable, str], Binding] = {}
        """Attributes set on values that have no names of their own."""
        self.readings: dict[Hashable, list[Node]] = {}
        """The nodes of the readings of one item of a result that was not read, by the result and the item."""
        self.without_known_parameters: dict[int, Value] = {}
        """Modules of which no parameter is known, by the list that was given of their parameters."""
        self.parameter_tables: dict[Hashable, TorchModule | Instance] = {}
        """Modules by the key of their ``_parameters``: what is put there under a name is the attribute of that name."""
        self.toggled: dict[int, list[Leaf]] = {}
        """Parameters that are frozen while one of several optimizers has its turn, by the identities of the modules."""
        self.callbacks: dict[ast.AST, tuple[Value, Source, ast.expr]] = {}
        """Functions that were handed to code which was not read, where that was, by their nodes."""
        self.results: dict[Hashable, Result] = {}
        """The calls that gave unknown values, by the keys of the values."""
        self.losses_of_calls: Parts = {}
        """Calls whose results, or parts of them, an earlier run has seen sent backward."""
        self.leaves_of_calls: dict[ast.expr, Leaf] = {}
        """Leaves that stand for the parameters of such calls."""
        self.parallel: set[int] = set()
        """Identities of the models for which a wrapper stands: ``DataParallel(model)``."""
        self.replicated: dict[int, set[str]] = {}
        """The names that a ``DataParallel`` of a model was given, by the identity of the model."""
        self.gathered: set[Node] = set()
        """The vectors of one number for each GPU."""
        self.zeroing: set[Hashable] = set()
        """The keys of values that were told to set gradients to zero, and are no models: optimizers."""
        self._settled: set[Hashable] = set()
        """The keys of those that have been taken to be what they usually are on this path."""
        self._unknowns: dict[Hashable, Symbol] = {}
        self._numbers: dict[Hashable, int] = {}
        self._objects: list[object] = []
        """Objects whose identity was asked for, in this order."""
        self._identities: dict[int, int] = {}
        """The identities of these, by their addresses."""
        self._fresh = Numbers()

    def new_instance(self) -> int:
        return next(self._fresh)

    def fresh_symbol(self, *label: Hashable) -> Symbol:
        """A value that is like no other.  Inside a loop it is another one in each iteration (see ``policy.varies``)."""
        return Symbol(("~" if self.loops else "new", *label, next(self._fresh)))

    def symbol(self, key: Hashable) -> Symbol:
        """The value with this key: asked twice, the same object."""
        found = self._unknowns.get(key)
        if found is None:
            found = self._unknowns[key] = Symbol(key)
        return found

    def parameters_of(self, function: Hashable) -> list[Symbol]:
        """Unknown arguments of a function, which is given by the identity of its node."""
        return [
            one for key, one in self._unknowns.items() if isinstance(key, tuple) and key[:2] == ("parameter", function)
        ]

    def usual(self, value: Value) -> Value:
        """The usual value of *value*, from now on also in comparisons; None where it has none, or one was ruled out."""
        if not isinstance(value, Symbol) or value.usual is None:
            return None
        if value.key not in self._settled:
            if self.policy.denied(("Eq", value.key, self.key(value.usual))):
                return None
            self._settled.add(value.key)
        return value.usual

    def settled(self, value: Value) -> Value:
        """*value*, or the usual value that it has been taken for."""
        return value.usual if isinstance(value, Symbol) and value.key in self._settled else value

    def key(self, value: Value) -> Hashable:
        """Key that identifies a value in the keys of values computed from it."""
        return kind_of(value).key(self, value)

    def shortened(self, key: Hashable) -> Hashable:
        """*key*, or a number in its place where it is long."""
        return key if is_short(key) else self._number(key)

    def lengthened(self, key: Hashable) -> Hashable:
        """The key for which *key* stands, if it is a number for a long one: inverse of :meth:`shortened`."""
        match key:
            case ("~" | "long", "key", int(number)):
                return next(islice(self._numbers, number, None), key)
        return key

    def _number(self, key: Hashable) -> Hashable:
        """A number for a long key: one that is built of itself twice, again and again, would double each time."""
        return ("~" if varies(key) else "long", "key", self._numbers.setdefault(key, len(self._numbers)))

    def identity(self, thing: object) -> int:
        """The number of a value, which no other has as long as this interpreter runs: the value is kept."""
        number = self._identities.get(id(thing))
        if number is None:
            number = self._identities[id(thing)] = _FIRST + len(self._objects)
            self._objects.append(thing)
        return number

    def identified(self, identity: object) -> object:
        """Inverse of :meth:`identity`: the object with this number; None for anything else."""
        at = identity - _FIRST if isinstance(identity, int) else -1
        return self._objects[at] if 0 <= at < len(self._objects) else None

    def identify_again(self) -> None:
        """Number the values anew by their addresses: those of a copied run keep their numbers, but lie elsewhere."""
        self._identities = {id(thing): _FIRST + at for at, thing in enumerate(self._objects)}
