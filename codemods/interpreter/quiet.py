"""Reads code without running it: whether it does nothing that the tape sees, with the values that its names have now.

Objects of the program that hold no tensor and no model (a meter, a logger, an environment) are *inert*: their methods
are read as well, and what such an object is given can decide about nothing but conditions that are asked about anyway.
Not so a constant: ``self.stopped = True`` answers a question by itself.
"""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from autofix.codemods.autograd import groups
from autofix.codemods.autograd.catalogue import makers, operation
from autofix.codemods.interpreter import class_lookup
from autofix.codemods.interpreter.stateless import is_stateless
from autofix.codemods.interpreter.told_names import EXPRESSIONS, GROWING, KNOWN, TELLING, is_told
from autofix.codemods.interpreter.values import (
    Function,
    Instance,
    Mapping,
    Name,
    Scope,
    Sequence,
    Symbol,
    TensorRef,
    Value,
    is_constant,
    slots_of,
)
from autofix.codemods.source.nodes import Nodes, children
from autofix.codemods.source.sources import Source, dotted_name

if TYPE_CHECKING:
    from autofix.codemods.interpreter.protocol import Interpreter

_ASKING = frozenset("isinstance issubclass hasattr callable type".split())
"""Python's own functions that ask an object for what it is."""
_WRITING = frozenset(f"numpy.{name}" for name in "copyto put putmask place fill_diagonal".split())
_WITHOUT_GRAPH = (*(f"torch.{mode}" for mode in groups.WITHOUT_GRAPH), "torch.autograd.no_grad")
_COMPUTING = ("torch.", "torch.nn.functional.")
_CALLS = 3
"""Calls within calls that are read."""
_PARTS = 6
"""Objects within objects that are looked at."""
_NOBODY: Value = object()
"""Value of a name of which nothing is known."""


def is_numeric(node: ast.expr) -> bool:
    """Whether an expression is written as a number that is worked out, or as something that may be one.

    A constant is none, but for those with a fraction: 1 and True answer questions.
    """
    match node:
        case ast.Constant(value=value):
            return isinstance(value, float)
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return is_numeric(operand)
        case ast.IfExp(body=one, orelse=other):
            return is_numeric(one) and is_numeric(other)
    return isinstance(node, (ast.BinOp, ast.Call, ast.Name, ast.Attribute, ast.Subscript))


@dataclass
class Reading:
    """The statements of a quiet branch that were read, with the functions that it calls."""

    statements: list[ast.stmt] = field(default_factory=list)
    functions: list[ast.AST] = field(default_factory=list)
    leaves_nothing: bool = True
    """Whether all is as it was, but for names that are set and that nothing but the branch reads: then there is no need
    to execute it."""
    loads: bool = False
    """Whether a checkpoint is read."""
    fresh: list[ast.stmt] | None = None
    """The side of the branch that begins anew, where only the other one goes on from a checkpoint."""


class Reader:
    """Reads a branch, or a function that it calls, of a *source*."""

    def __init__(
        self,
        interp: Interpreter,
        source: Source,
        node: ast.AST,
        scope: Scope | None = None,
        depth: int = 0,
        reading: Reading | None = None,
    ) -> None:
        self.reading = reading if reading is not None else Reading()
        self._interp = interp
        self._source = source
        self._node = node
        self._scope = scope
        self._depth = depth
        self._own: set[str] = set()
        """Names that were set to something plain."""
        self._given: dict[str, Value] = {}
        """Parameters that stand for objects."""
        self._records = interp.grad
        """Whether what is computed there is recorded on the tape."""

    def keeps_all(self) -> bool:
        """Whether names set in a branch are used in it alone, or only told, or stay as unknown as they were."""
        names = self._source.remembered(self._node, _names_in)
        if not names.stored:
            return True
        function = self._interp.policy.function
        nodes = self._source.nodes
        if isinstance(function, ast.FunctionDef) and function in nodes and nodes.holds(function, self._node):
            everywhere = self._source.remembered(function, _reads_in)
        else:
            everywhere = nodes.once(_reads)
        imported = not self._interp.stack and self._source is not self._interp.sources.main
        kept = {name for name in names.stored if imported or everywhere[name] != names.read[name]}
        self.reading.leaves_nothing &= not kept
        return all(self._stays_unknown(name, names.given.get(name, ())) or self._is_told(name) for name in kept)

    def _stays_unknown(self, name: str, values: Iterable[ast.expr | None]) -> bool:
        """Whether the value of a name is not known, and it is only set to others of which nothing is known."""
        return bool(values) and self._is_unknown(name, values)

    def _is_unknown(self, name: str, values: Iterable[ast.expr | None]) -> bool:
        known = self._value(name)
        if _is_known_number(known) and all(map(self._is_restored, values)):
            return True
        if not (self._is_plain(known) and isinstance(known, (Symbol, TensorRef))) and not self._is_set_either_way(name):
            return False
        return all(value is not None and is_numeric(value) and self.is_number(value) for value in values)

    def _is_restored(self, value: ast.expr | None) -> bool:
        """Whether a value is part of a checkpoint that the branch reads: a run goes on where another one ended."""
        match value:
            case ast.Subscript() | ast.BinOp():
                names = {part.id for part in self._source.nodes.within(value) if isinstance(part, ast.Name)}
                return bool(names) and names <= self._checkpoints
            case ast.Call(func=ast.Name(id=name)):
                function = self._value(name)
                return isinstance(function, Function) and self._reader_of(function).loads
        return False

    @cached_property
    def _checkpoints(self) -> set[str]:
        """The names that the branch sets to a checkpoint."""
        given = (pair for part in self._source.nodes.within(self._node) for pair in _given_in(part))
        return {name for name, value in given if value is not None and self._path(value) == "torch.load"}

    @cached_property
    def loads(self) -> bool:
        """Whether a checkpoint is read there, calls apart."""
        calls = (part for part in self._source.nodes.within(self._node) if isinstance(part, ast.Call))
        return any(self._path(call) == "torch.load" for call in calls)

    def _reader_of(self, function: Function) -> Reader:
        return Reader(self._interp, function.source, function.node, function.scope, self._depth + 1, self.reading)

    def _is_set_either_way(self, name: str) -> bool:
        """Whether both sides of the branch set a name, whatever it was before."""
        sides = (self._node.body, self._node.orelse) if isinstance(self._node, ast.If) else ((), ())
        return all(any(name == one for part in side for one, _ in _given_in(part)) for side in sides)

    @cached_property
    def _inside(self) -> set[ast.AST]:
        return set(self._source.nodes.within(self._node))

    def _is_told(self, name: str) -> bool:
        return is_told(self._source, name, self._inside)

    def block(self, body: Iterable[ast.stmt], *, looping: bool) -> bool:
        """Whether statements are quiet; *looping* where leaving a loop from there is of no concern."""
        return all(self._statement(one, looping) for one in body)

    def _statement(self, node: ast.stmt, looping: bool) -> bool:
        self.reading.statements.append(node)
        match node:
            case ast.Pass():
                return True
            case ast.Break() | ast.Continue():
                return looping
            case ast.Return(value=value):
                return self._depth > 0 and (value is None or self.plain(value))
            case ast.Expr(value=value):
                return self.plain(value) or self._evaluates(value) or self._collects(value)
            case ast.If(test=test, body=body, orelse=orelse):
                return self.plain(test) and self.block([*body, *orelse], looping=looping)
            case ast.For(target=target, iter=iterated, body=body, orelse=orelse):
                return self.plain(iterated) and self._set(target, None) and self.block([*body, *orelse], looping=True)
            case ast.With(items=[ast.withitem(context_expr=mode, optional_vars=None)], body=body) if (
                self._path(mode) in _WITHOUT_GRAPH
            ):
                records, self._records = self._records, False
                quiet = self.block(body, looping=looping)
                self._records = records
                return quiet
            case ast.With(items=items, body=body):
                return all(map(self._enters, items)) and self.block(body, looping=looping)
            case ast.Assign(targets=[target], value=value):
                return self.plain(value) and self._set(target, value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                return (name in self._own or self._is_plain(self._value(name))) and self.plain(value)
            case ast.AugAssign(target=ast.Attribute(value=owner), value=value):
                self.reading.leaves_nothing = False
                return self._is_inert_object(self._held(owner)) and self.plain(value)
        return False

    def _enters(self, item: ast.withitem) -> bool:
        return self.plain(item.context_expr) and (item.optional_vars is None or self._set(item.optional_vars, None))

    def _set(self, target: ast.expr, value: ast.expr | None) -> bool:
        """Whether a target is a name, several of them, an item of what nobody read, or an inert object's attribute."""
        if not isinstance(target, (ast.Tuple, ast.List, ast.Name)):
            self.reading.leaves_nothing &= self._depth > 0 and _is_own_item(target, self._own)
        if isinstance(target, ast.Subscript):
            name = target.value.id if isinstance(target.value, ast.Name) else ""
            unread = not name or name in self._own or isinstance(self._value(name), Symbol)
            return unread and all(map(self.plain, (target.value, target.slice)))
        if isinstance(target, ast.Attribute):
            counts = isinstance(value, ast.Constant) and type(value.value) is int and self._is_counter(target)
            unknown = counts or (value is not None and is_numeric(value))
            owner = self._held(target.value)
            goes_on = isinstance(owner, Symbol) and self._is_restored(value)
            return unknown and (goes_on or self._is_inert_object(owner))
        if isinstance(target, (ast.Tuple, ast.List)):
            return all(self._set(part, None) for part in target.elts)
        if isinstance(target, ast.Name):
            self._own.add(target.id)
        return isinstance(target, ast.Name)

    def _is_counter(self, node: ast.expr) -> bool:
        """Whether an attribute has been counted up: where it is set to 0, that has been before."""
        value = self._held(node)
        return isinstance(value, Symbol) and isinstance(value.key, tuple) and value.key[0] in ("count", "plus")

    def _collects(self, node: ast.expr) -> bool:
        """Whether an expression adds something plain to a list that is only told, or that an inert object has."""
        self.reading.leaves_nothing = False
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr=method), args=[added], keywords=[]):
                told = isinstance(owner, ast.Name) and self._is_told(owner.id)
                inert = isinstance(owner, ast.Attribute) and self._is_inert(self._held(owner.value))
                return method in GROWING and (told or inert) and self.plain(added)
        return False

    def _evaluates(self, node: ast.expr) -> bool:
        """Whether an expression turns evaluation on or off in a function that does both: ``model.eval()``."""
        match node:
            case ast.Call(func=ast.Attribute(value=owner, attr="eval" | "train"), args=[], keywords=[]):
                inside = self._source.nodes.within(self._node)
                both = {
                    part.func.attr
                    for part in inside
                    if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and not part.args
                }
                return self._depth > 0 and {"eval", "train"} <= both and is_stateless(self._interp, self._held(owner))
        return False

    def owns(self, names: Iterable[str]) -> None:
        """Take *names* for some that stand for something plain."""
        self._own.update(names)

    def is_number(self, node: ast.expr) -> bool:
        """Whether a plain expression stands for a number as far as is known: for none that answers a question."""
        if isinstance(node, ast.Name) and node.id in self._own:
            return True
        if not isinstance(node, (ast.Name, ast.Attribute)):
            return True
        value = self._held(node)
        if isinstance(node, ast.Attribute) and value is _NOBODY:
            return True
        return isinstance(value, (Symbol, TensorRef)) or _is_known_number(value)

    def plain(self, node: ast.AST) -> bool:
        """Whether an expression does nothing but compute a value that has no graph and is no object of the program."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name in self._own or self._is_plain(self._value(name))
            case ast.Attribute(value=owner, attr=name):
                held = self._held(owner)
                if isinstance(held, Instance):
                    return self._reads_plain(held, name)
                return name not in KNOWN and self.plain(owner)
            case ast.Subscript(value=owner, slice=index):
                return self.plain(owner) and self.plain(index)
            case ast.Call():
                return self._quiet_call(node)
            case ast.ListComp(elt=item, generators=loops) | ast.GeneratorExp(elt=item, generators=loops):
                return all(map(self._goes_through, loops)) and all(
                    map(self.plain, (item, *(test for one in loops for test in one.ifs)))
                )
        if isinstance(node, EXPRESSIONS):
            below = (part for part in children(node) if isinstance(part, (ast.expr, *EXPRESSIONS)))
            return all(map(self.plain, below))
        return False

    def _goes_through(self, loop: ast.comprehension) -> bool:
        """Whether a loop in an expression takes plain items, also those of a list of the program."""
        return (self.plain(loop.iter) or self._is_inert(self._held(loop.iter))) and self._set(loop.target, None)

    def _reads_plain(self, owner: Instance, name: str) -> bool:
        """Whether an attribute of an object of the program is plain: a property of an inert one only reads."""
        if name in owner.names:
            return self._is_plain(owner.names[name].value)
        found = class_lookup.find(owner, name)
        if isinstance(found, Function):
            return found.flavour == "property" and self._is_inert(owner)
        return is_constant(found) and found is not None

    def _quiet_call(self, node: ast.Call) -> bool:
        given = (*node.args, *node.keywords)
        match node.func:
            case ast.Attribute(value=ast.Name() as owner, attr="item") if not given:
                return owner.id in self._own or isinstance(self._value(owner.id), (TensorRef, Symbol))
            case ast.Attribute(value=owner, attr=name):
                if self._dotted(node.func) == "torch.save" or self._initializes(node):
                    return all(map(self._readable, given))
                if self._makes(node) or (not self._records and self._computes(node)):
                    return all(map(self.plain, given))
                held = self._held(owner)
                if isinstance(held, Instance):
                    method = class_lookup.find(held, name)
                    return self._is_inert(held) and isinstance(method, Function) and self._runs(method, node, held)
                of_tensors = operation(name).known and not self._is_of_library(owner)
                quiet = not (of_tensors or name in KNOWN or name.endswith("_")) and self.plain(owner)
            case ast.Name(id=name):
                value = self._value(name)
                if isinstance(value, Function):
                    return self._runs(value, node)
                if not self._records and is_stateless(self._interp, value):
                    return all(map(self.plain, given))
                path = value.path.removeprefix("builtins.") if isinstance(value, Name) else ""
                if path in _ASKING:
                    return all(map(self._readable, given))
                quiet = path in TELLING or ("." in path and not path.startswith("torch."))
            case _:
                return False
        return quiet and all(self.plain(one) or self._is_list_of_plain(one) for one in given)

    def _is_list_of_plain(self, node: ast.AST) -> bool:
        """Whether an argument is a container of the program that holds nothing but plain values."""
        argument = node.value if isinstance(node, ast.keyword) else node
        value = self._held(argument) if isinstance(argument, ast.expr) else _NOBODY
        return isinstance(value, (Sequence, Mapping)) and self._is_inert(value)

    def _makes(self, node: ast.Call) -> bool:
        """Whether a call makes a tensor of numbers: ``torch.zeros(10)``."""
        torch, _, name = self._path(node).partition(".")
        return torch == "torch" and name in makers() and all(one.arg != "requires_grad" for one in node.keywords)

    def _computes(self, node: ast.Call) -> bool:
        """Whether a call, where nothing is recorded, computes something of what it is given: ``F.mse_loss(y, t)``."""
        assert isinstance(node.func, ast.Attribute)
        owner, name = node.func.value, node.func.attr
        if name.endswith("_") or name in KNOWN - {"numpy"}:
            return False
        if self._path(node).startswith(_COMPUTING) and operation(name).known:
            return True
        if is_stateless(self._interp, self._held(node.func)):
            return True
        return not self._is_of_library(owner) and operation(name).known and self.plain(owner)

    def _runs(self, function: Function, node: ast.Call, receiver: Instance | None = None) -> bool:
        """Whether a call of a function of the program is quiet, and what it returns plain."""
        made = function.node
        if not isinstance(made, ast.FunctionDef) or function.generator or self._depth >= _CALLS:
            return False
        if function.flavour not in ("", "staticmethod") or made.args.vararg or made.args.kwarg:
            return False
        reader = self._reader_of(function)
        self.reading.functions.append(made)
        reader._records = self._records and function.grad_mode is not False
        parameters = [one.arg for one in (*made.args.posonlyargs, *made.args.args)]
        if receiver is not None and not function.flavour:
            reader._given[parameters.pop(0)] = receiver
        named = {one.arg: one.value for one in node.keywords if one.arg is not None}
        if len(node.args) > len(parameters) or len(named) != len(node.keywords):
            return False
        written: dict[str, ast.expr] = {**dict(zip(parameters, node.args, strict=False)), **named}
        for name, argument in written.items():
            if self.plain(argument):
                reader._own.add(name)
            elif self._readable(argument):
                reader._given[name] = self._held(argument)
            else:
                return False
        reader.owns(name for name in (*parameters, *(one.arg for one in made.args.kwonlyargs)) if name not in written)
        return reader.block(made.body, looping=False)

    def _initializes(self, node: ast.Call) -> bool:
        """Whether a call gives weights their values before anything was computed with them."""
        function = node.func
        if self._interp.recorded or not isinstance(function, ast.Attribute):
            return False
        if self._dotted(function) == "torch.load":
            self.reading.loads = True
            return True
        if function.attr == "load_state_dict":
            return self._readable(function.value)
        if isinstance(function.value, ast.Attribute) and function.value.attr == "data":
            return function.attr.endswith("_") and self._readable(function.value)
        return self._dotted(function) == f"torch.nn.init.{function.attr}"

    def _path(self, node: ast.expr) -> str:
        """The name, as it is imported, of the function that an expression calls; empty for any other expression."""
        return self._dotted(node.func) if isinstance(node, ast.Call) else ""

    def _dotted(self, function: ast.expr) -> str:
        """A function's name as it is imported; empty for what is no part of a library."""
        name, dot, rest = dotted_name(function).partition(".")
        home = self._value(name)
        return f"{home.path}{dot}{rest}" if isinstance(home, Name) else ""

    def _readable(self, node: ast.AST) -> bool:
        """Whether an expression only reads objects, whatever they are: ``{"net": net.state_dict(), "step": step}``."""
        match node:
            case ast.Name() | ast.Lambda():
                return True
            case ast.Attribute(value=owner) | ast.keyword(value=owner):
                return self._readable(owner)
            case ast.Subscript(value=owner, slice=index):
                return self._readable(owner) and self._readable(index)
            case ast.Dict(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
                return all(map(self._readable, values))
            case ast.Call(func=ast.Attribute(value=owner, attr="state_dict"), args=[]):
                return self._readable(owner)
        return self.plain(node)

    def _is_of_library(self, node: ast.expr) -> bool:
        """Whether something is written as a part of what was imported, or is a constant: no tensor."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and isinstance(self._value(node.id), Name))

    def _value(self, name: str) -> Value:
        """The current value of a name; ``_NOBODY`` where it is not known."""
        if name in self._given:
            return self._given[name]
        slot = (self._scope or self._interp.scope).lookup(name)
        if slot is not None:
            return slot.value
        return Name(f"builtins.{name}") if name in TELLING or name in _ASKING else _NOBODY

    def _held(self, node: ast.expr) -> Value:
        """The current value of a name, an attribute or an item, if known without running anything; else ``_NOBODY``."""
        match node:
            case ast.Name(id=name):
                return _NOBODY if name in self._own else self._value(name)
            case ast.Attribute(value=owner, attr=name):
                held = self._held(owner)
                slot = held.names.get(name) if isinstance(held, Instance) else None
                return slot.value if slot is not None else _NOBODY
            case ast.Subscript(value=owner):
                held = self._held(owner)
                items = [] if not isinstance(held, (Sequence, Mapping)) else _items(held)
                return items[0] if items and all(map(self._is_inert, items)) else _NOBODY
        return _NOBODY

    def _is_plain(self, value: Value) -> bool:
        if isinstance(value, Symbol):
            return value.leaf is None and value.leaves is None
        if isinstance(value, TensorRef):
            return value.cell.node is None
        if isinstance(value, Name):
            return value.path.partition(".")[0] != "torch" and value.path not in _WRITING
        if isinstance(value, Sequence):
            return value.kind == "tuple" and all(self._is_plain(slot.value) for slot in value.items)
        return is_constant(value)

    def _is_inert_object(self, value: Value) -> bool:
        return isinstance(value, Instance) and self._is_inert(value)

    def _is_inert(self, value: Value, depth: int = _PARTS) -> bool:
        """Whether a value is an object of the program, or a container, that holds nothing but plain values."""
        if isinstance(value, Instance):
            if class_lookup.is_module(value) or value.items is not None or depth <= 0:
                return False
            return all(self._is_inert(slot.value, depth - 1) for slot in value.names.values())
        if isinstance(value, (Sequence, Mapping)):
            return depth > 0 and all(self._is_inert(one, depth - 1) for one in _items(value))
        return self._is_plain(value)


def _is_known_number(value: Value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_own_item(target: ast.expr, own: set[str]) -> bool:
    """Whether an item is set of something that the code itself has made."""
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id in own


def _items(container: Sequence | Mapping) -> list[Value]:
    return [slot.value for slot in slots_of(container)]


def _given_in(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """The names that a statement sets, and what to, where that is written."""
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AugAssign(target=ast.Name(id=name), value=value)
        ):
            yield name, value
        case ast.Assign(targets=[ast.Tuple(elts=targets)], value=value):
            several = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(targets) else None
            for at, target in enumerate(targets):
                if isinstance(target, ast.Name):
                    yield target.id, several[at] if several is not None else value
        case ast.For(target=ast.Name(id=name)) | ast.withitem(optional_vars=ast.Name(id=name)):
            yield name, None


class _Names(NamedTuple):
    """The names that a branch sets, how often it reads each, and what it sets them to, where that is written."""

    stored: frozenset[str]
    read: Counter[str]
    given: dict[str, list[ast.expr | None]]


def _names_in(node: ast.AST) -> _Names:
    stored: set[str] = set()
    read: Counter[str] = Counter()
    given: defaultdict[str, list[ast.expr | None]] = defaultdict(list)
    for part in Nodes(node).all:
        if isinstance(part, ast.Name):
            if not isinstance(part.ctx, ast.Load):
                stored.add(part.id)
            if not isinstance(part.ctx, ast.Store):
                read[part.id] += 1
        for name, value in _given_in(part):
            given[name].append(value)
    return _Names(frozenset(stored), read, dict(given))


def _reads_in(function: ast.FunctionDef) -> Counter[str]:
    """As :func:`_reads`, in a function: a name that it sets, and does not declare, is its own."""
    return _reads(Nodes(function))


def _reads(nodes: Nodes) -> Counter[str]:
    """How often each name is read, deleted or declared to be another scope's in a file."""
    found = Counter(part.id for part in nodes.of(ast.Name) if not isinstance(part.ctx, ast.Store))
    declared: list[ast.Global | ast.Nonlocal] = [*nodes.of(ast.Global), *nodes.of(ast.Nonlocal)]
    for statement in declared:
        found.update(statement.names)
    return found
