"""Graphs as a run lays them: operations and what they save, leaves, data without a graph, changes in place."""

from __future__ import annotations

import ast
from collections.abc import Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property

from autofix.codemods.autograd import layout
from autofix.codemods.autograd.catalogue import (
    BY_INDICES,
    LIKENESSES,
    MAYBE_ITSELF,
    by_options,
    gives_places,
    has_variants,
    is_certainly_view,
    operation,
    variant,
)
from autofix.codemods.autograd.graph import Leaf, Node, Operand, Saved, Storage, StoreEvent
from autofix.codemods.autograd.walks import leaves_under
from autofix.codemods.facts.parts import Form
from autofix.codemods.interpreter import (
    asked_again,
    callbacks,
    cuts,
    dtypes,
    escapes,
    filled,
    holding,
    overwriting,
    parts,
    reshaped,
    unread_losses,
)
from autofix.codemods.interpreter.forms import form_of, whole_of
from autofix.codemods.interpreter.kinds.kind import kind_of
from autofix.codemods.interpreter.protocol import Interpreter
from autofix.codemods.interpreter.state.incidents import BaseChange, LeafChange, PartChange
from autofix.codemods.interpreter.values import (
    Binding,
    Instance,
    Mapping,
    Sequence,
    Symbol,
    TensorImpl,
    TensorRef,
    TorchModule,
    UnrecordedView,
    Value,
    is_constant,
    opened,
    recent_stores,
)
from autofix.codemods.source.sources import Site, last_name

_PACKING = ("PackedSequence", "pack_sequence", "pack_padded_sequence")


def _common(value: Value) -> Value:
    """The one number that all items of a tuple are; other values are themselves."""
    if isinstance(value, Sequence) and value.items and not value.more:
        first = value.items[0].value
        if isinstance(first, int) and all(slot.value == first for slot in value.items):
            return first
    return value


def _edges(tensors: Iterable[TensorRef]) -> list[Operand]:
    """The graph edges that an operation on *tensors* lays under grad mode."""
    found = []
    for tensor in tensors:
        cell = tensor.cell
        node = cell.node
        if node is not None and not cell.frozen and not (node.leaf is not None and node.leaf.frozen):
            found.append(Operand(node, tensor.provenance))
    return found


def _is_average(tensor: TensorRef, written: Collection[Value], *, scaled: bool) -> bool:
    """Whether new data of a parameter are numbers and other parameters' data: a moving average is no step by hand.

    Where the program reads the parameter's gradient, the gradient may be among them.
    """
    leaf = tensor.cell.leaf
    if not isinstance(leaf, Leaf) or leaf.asked or not written:
        return False
    data = [one for one in written if not (is_constant(one) or (scaled and isinstance(one, Symbol)))]
    return all(isinstance(one, TensorRef) and cuts.comes_from_another(one, leaf) for one in data)


class Recorder(Interpreter):
    """The part of the interpreter that records operations on tensors, and the statements that carry tensors on."""

    def kept(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> StoreEvent | None:
        """The record that the current statement carries *value* on; None where it carries no graph."""
        if isinstance(value, TensorRef):
            if value.cell.node is None:
                return None
        elif not isinstance(value, (Sequence, Mapping)) and not (isinstance(value, Instance) and value.whole):
            return None
        form = form_of(value)
        whole = whole_of(value) if form is Form.OTHER else ""
        if isinstance(value, Instance) and not whole:
            return None
        site = self.site(expression) if expression is not None else None
        is_added = owner is None and isinstance(self.statement.node, (ast.Expr, ast.AugAssign))
        clock = self.tape.tick()
        return StoreEvent(self.statement, site, name, form, self.loops, clock, owner, whole=whole, is_added=is_added)

    def slot(self, value: Value, name: str, expression: ast.expr | None, owner: Value = None) -> Binding:
        self.activity += 1
        kept = self.kept(value, name, expression, owner)
        if isinstance(value, (Sequence, Mapping, Instance)) and kept is not None:
            value.kept = recent_stores((*value.kept, kept))
            return Binding(value)
        return Binding(value, kept)

    def read(self, slot: Binding, container: Sequence | Mapping | Instance | None = None) -> Value:
        value = slot.value
        if isinstance(value, TensorRef) and value.cell.node is not None:
            value = value.through(slot.kept)
            for kept in value.cell.written:
                value = value.through(kept)
            for kept in container.kept if container is not None else ():
                value = value.through(kept)
        elif isinstance(value, (Sequence, Mapping)) and container is not None:
            # The statements that carried a list of tuples on carried each of the tuples on.
            value.kept = recent_stores((*value.kept, *(kept for kept in container.kept if kept not in value.kept)))
        return value

    def tensors(self, *values: Value) -> list[TensorRef]:
        """The tensors in values, containers opened."""
        return opened(values, TensorRef, self.read)

    def operands(self, *values: Value) -> list[Operand]:
        """The graph edges that an operation on *values* lays: none outside grad mode."""
        return _edges(self.tensors(*values)) if self.grad else []

    def on_cpu(self, *values: Value) -> bool:
        """Whether there are tensors in *values*, and all of them certainly are on the CPU."""
        found = [tensor.cell.on_cpu for tensor in self.tensors(*values)]
        return bool(found) and all(found)

    def data(self, *, scalar: bool | None = None) -> TensorRef:
        """A tensor without a graph."""
        return TensorRef(TensorImpl(scalar=scalar))

    def parameter(self, kind: str, node: ast.expr, *, cell: TensorImpl | None = None) -> TensorRef:
        """A new leaf that requires grad."""
        leaf = self.leaf(kind, node)
        leaf.plain = kind == "tensor"
        if cell is None:
            cell = TensorImpl(storage=leaf.storage)
        else:
            leaf.storage = cell.storage
        cell.node = leaf.node
        cell.leaf = leaf
        return TensorRef(cell)

    def leaf(self, kind: str, node: ast.expr) -> Leaf:
        leaf = Leaf(f"{kind}:{next(self.leaf_numbers)}", Storage())
        leaf.node = Node("AccumulateGrad", self.site(node), (), self.loops, self.tape.tick(), saves=False, leaf=leaf)
        return leaf

    def operation(
        self,
        name: str,
        args: list[Value],
        node: ast.expr,
        *,
        names: tuple[str, ...] = (),
        scalar: bool | None = None,
        view: TensorRef | None = None,
        leaves: Collection[Leaf] = (),
        opaque: bool = False,
        inplace: bool = False,
        extra_saved: Iterable[Saved] = (),
    ) -> TensorRef:
        """The result of a differentiable operation: a node if an argument has a graph, saving what the table says.

        ``names`` are the arguments' names where they are not given in the table's order.
        """
        cell = TensorImpl(scalar=scalar)
        args = args[:1] if name in LIKENESSES else args
        if view is not None:
            cell.storage = view.cell.storage
            cell.base = view.cell.base or view.cell
            cell.viewed = view.cell.storage.version
            cell.of = cell.base.node
            cell.covers = layout.shows_all(name) and (view.cell.base is None or view.cell.covers)
            cell.unrecorded = view.cell.unrecorded  # `propagate_creation_meta` of torch/csrc
            if not self.grad and name not in MAYBE_ITSELF:
                cell.unrecorded = UnrecordedView(self.site(node), self.guard)
            if self.grad and is_certainly_view(name):
                cell.applied = view.cell.applied
            if view.cell.sibling and not view.cell.hooked and self.grad:
                cell.sibling, cell.viewed = True, view.cell.viewed
        tensors = self.tensors(*args)
        of_dense = of_cpu = constant = True
        for tensor in tensors:
            if tensor.cell.base is not None:
                self.renew(tensor.cell)
                if self.grad and tensor.cell.unrecorded is not None:
                    self._note_read_of_unrecorded(tensor, name, node)
            of_dense = of_dense and tensor.cell.dense
            of_cpu = of_cpu and tensor.cell.on_cpu
            constant = constant and tensor.cell.constant
        cell.on_cpu = of_cpu and bool(tensors) and not (leaves or opaque)
        cell.whole = bool(tensors) and tensors[0].cell.whole and not opaque and dtypes.keeps(name)
        cell.dense = not opaque and layout.is_dense(name, of_dense=of_dense, is_view=view is not None)
        cell.order = 0 if opaque else reshaped.order(name, args, tensors, view)
        cell.rank = None if opaque else reshaped.rank(name, args, tensors)
        cell.has_ones = reshaped.has_ones(name, args, tensors)
        operands = _edges(self.tensors(*args[:1]) if name in BY_INDICES else tensors) if self.grad else []
        if operands and view is None:
            self._note_changed_bases(tensors)
        self._note_waiting(args, leaves, node)
        if self.grad:
            operands += [Operand(leaf.node, ()) for leaf in leaves if leaf.node is not None and not leaf.frozen]
        if not operands:
            known = constant and bool(tensors) and not (leaves or opaque)
            cell.constant = known and not any(isinstance(one, Symbol) for one in args)
            cuts.without_graph(self, cell, name, args, leaves, node)
            return TensorRef(cell)
        self.activity += 1
        self.recorded = True
        saves, saved = self._saved(name, args, names, cell, opaque, inplace)
        saved += list(extra_saved)
        cuts.saves_inference(self, saved, node)
        missing, constants = cuts.missing(args)
        cell.node = Node(
            name,
            self.site(node),
            tuple(operands),
            self.loops,
            self.tape.tick(),
            saves=saves or bool(saved),
            saved=() if self.packing else tuple(saved),
            opaque=opaque,
            unread=any(isinstance(one, Symbol) and cuts.is_result_of_unread(one.key) for one in args),
            scalar=scalar is True,
            stack=self.stack,
            missing=missing,
            constants=constants,
            frozen=tuple(leaf for leaf in leaves if leaf.frozen),
        )
        self.misses = self.misses or bool(cell.node.missing)
        return TensorRef(cell)

    def renew(self, cell: TensorImpl) -> None:
        """Let a view read its base, which was changed in place since, as it is now.

        Source: ``VariableHooks::grad_fn`` in torch/csrc/autograd/variable.cpp.  One of several views is an error there.
        """
        base = cell.base
        if base is None or base.node is None or base.node is cell.of or not (cell.covers or cell.place):
            return  # what writes into other parts than a view's own is none of its business
        if cell.sibling or cell.storage is not base.storage or cell.storage.version == cell.viewed:
            return
        cell.of = base.node
        node = parts.untouched(base, cell.place) if cell.place else base.node
        if node is not None and node is not cell.node:
            site = cell.node.site if cell.node is not None else base.node.site
            reads = (Operand(node, base.written),)
            cell.node = Node("view", site, reads, self.loops, self.tape.tick(), saves=False, stack=self.stack)

    def _note_changed_bases(self, tensors: Iterable[TensorRef]) -> None:
        """An operation reads one of several views: note the in-place change of their base, which PyTorch then refuses.

        Source: ``check_inplace`` and ``grad_fn`` of multi-output views in torch/csrc/autograd/variable.cpp.
        """
        for tensor in tensors:
            cell = tensor.cell
            if not cell.sibling:
                continue
            later = cell.storage.changes[cell.viewed :]
            known = not (tensor.guessed or cell.unsure or cell.base is None or cell.base.unsure)
            if not (later and known and escapes.certainly_has_graph(tensor)):
                continue
            change = later[0]
            if not (change.by_step or change.parameter or change.site in self.incidents.parts_changed):
                source = cell.node.operands[0].node if cell.node is not None and cell.node.operands else cell.node
                if source is not None:
                    self.incidents.bases_changed.setdefault(change.site, BaseChange(source.site, self.tape.clock))

    def _note_read_of_unrecorded(self, tensor: TensorRef, name: str, node: ast.expr) -> None:
        """An operation reads a view that was made without grad mode: PyTorch refuses that once its base was changed.

        A step changes it, too.  Source: ``VariableHooks::grad_fn`` in torch/csrc/autograd/variable.cpp.
        """
        view, base = tensor.cell.unrecorded, tensor.cell.base
        changes = tensor.cell.storage.changes[tensor.cell.viewed :]
        if not changes or view is None or base is None or not operation(name).differentiable:
            return
        if changes[0].site in self.incidents.parts_changed:
            return  # the change itself is refused
        known = not (tensor.guessed or base.unsure or tensor.cell.unsure or changes[0].guessed)
        if known and self._is_refused(view) and escapes.certainly_has_graph(TensorRef(base)):
            self.incidents.unrecorded_read.setdefault(self.site(node), (view.made, changes[0].site))

    def _is_refused(self, view: UnrecordedView) -> bool:
        """Whether a view was certainly made under ``no_grad``, and not in inference mode."""
        return view.guard is not None and not cuts.is_inference(view.guard)

    def _note_waiting(self, args: list[Value], leaves: Collection[Leaf], node: ast.expr) -> None:
        """An operation reads parameters: note those of which a gradient waits for the step that uses it."""
        held = [value.cell.leaf for value in args if isinstance(value, TensorRef) and value.cell.leaf is not None]
        for leaf in (*leaves, *held):
            if leaf.grads and any((id(backward), leaf.name) not in self.tape.served for backward in leaf.grads):
                self.incidents.waiting.add(
                    ((node.lineno + self.source.start, *(site.line for site in self.stack)), leaf.name)
                )

    def _saved(
        self, name: str, args: list[Value], names: tuple[str, ...], cell: TensorImpl, opaque: bool, inplace: bool
    ) -> tuple[bool, list[Saved]]:
        if opaque:
            return True, []
        called = operation(name)
        if has_variants(name):
            name = variant(name, [_common(value) for value in args], lambda value: isinstance(value, TensorRef))
        table = operation(f"{name}_" if inplace else name)
        if not table.known or gives_places(name, len(args)):
            return True, []
        if names and table is not called:
            own = dict(zip(called.arguments, table.arguments, strict=False))
            names = tuple(own.get(one, one) for one in names)
        by_name: dict[str, Value] = dict(zip(names or table.arguments, args, strict=False))
        table = by_options(table, by_name)
        if not table.known or (table.usual and not table.is_usual(by_name)):
            return True, []
        wanted: set[str] = set()
        for argument, saves in table.saves.items():
            value = by_name.get(argument)
            if isinstance(value, (TensorRef, Sequence, Mapping)) and self.operands(value):
                wanted.update(saves)
        saved: list[Saved] = []
        for argument in sorted(wanted - reshaped.copied(name, by_name)):
            if argument == "result":
                saved.append(cell.storage.as_saved())
            elif not (inplace and argument == next(iter(by_name))):  # of what it changes it saves a copy
                for tensor in self.tensors(by_name.get(argument)):
                    saved.append(tensor.cell.storage.as_saved())
        return bool(wanted), saved

    def opaque(
        self,
        label: Hashable,
        args: Iterable[Value],
        node: ast.expr,
        leaf: Leaf | None = None,
        *,
        differentiable: bool = False,
        layer: bool = False,
        saved: Iterable[Saved] = (),
    ) -> Value:
        """Result of a call whose source was not read: a tensor on the arguments' graphs, or an unknown value.

        ``leaf`` stands for the parameters of a model that is called.  The graph is doubtful, unless the call is known
        to be ``differentiable``; the called object may be a ``layer``.
        """
        values = list(args)
        holding.hands_over(self, label, values)
        callbacks.note(self, values, node)
        if leaf is None and not differentiable:
            cuts.handed_over(self.tensors(*values))
        supposed = unread_losses.leaf_of(self, node) if leaf is None else None
        own = leaf or supposed
        leaves = [own] if own is not None else []
        for value in values:
            leaves.extend(self.leaves_of(value))
        if self.operands(*values) or (own is not None and self.grad):
            made = self.operation("call", values, node, leaves=leaves, opaque=True, extra_saved=saved)
            if made.cell.node is not None:
                made.cell.node.doubtful = not differentiable
                made.cell.node.layer = layer or supposed is not None
            return made
        found = self.fresh_symbol("call", label)
        asked_again.note(self, found, label, values)
        unread_losses.note_result(self, found, label, values, node)
        return found

    def detached(
        self, tensor: TensorRef, node: ast.expr, *, own_version: bool = False, how: str = "detach"
    ) -> TensorRef:
        """The data of *tensor* without a graph: ``detach()``, or ``.data``, which counts its changes for itself."""
        cell = TensorImpl(storage=Storage() if own_version else tensor.cell.storage, scalar=tensor.cell.scalar)
        if own_version:
            self.data_of[cell.storage] = self.data_of.get(tensor.cell.storage, tensor.cell.storage)
        cell.extent = tensor.cell.extent
        cell.leaf = tensor.cell.leaf
        cell.on_cpu = tensor.cell.on_cpu
        cell.dense, cell.order, cell.rank = tensor.cell.dense, tensor.cell.order, tensor.cell.rank
        cell.has_ones = tensor.cell.has_ones
        cell.whole, cell.single = tensor.cell.whole, tensor.cell.single
        cell.detachment = cuts.dropped(self, [tensor], node, "data" if own_version else how)
        made = tensor.cell.node
        if own_version and made is not None and made.doubtful and made.walked is None:
            cell.vague = True  # an object of its own, maybe, whose `data` has a graph
        if own_version and made is not None and made.leaf is None and self._packs:
            cell.vague = True  # the data of packed sequences have their graph
        return TensorRef(cell)

    @cached_property
    def _packs(self) -> bool:
        """Whether the program packs sequences of several lengths."""
        return any(word in one.text for one in self.sources.all for word in _PACKING)

    def change(
        self,
        tensor: TensorRef,
        node: ast.expr | ast.stmt,
        origin: Site | None = None,
        operands: Iterable[Value] = (),
    ) -> None:
        """An in-place change of a tensor's data with *operands*, by a module that was made at *origin*."""
        self.activity += 1
        filled.forget(self, tensor)
        operands = list(operands)
        self.change_by_hand(tensor, operands, scaled=isinstance(node, ast.Call) and last_name(node.func) == "mul_")
        if tensor.guessed:
            return
        guard = tensor.cell.storage.inference
        if guard is not None and (self.grad or not cuts.is_inference(self.guard)):
            self.incidents.inference_changed.setdefault(self.site(node), guard)
        made = tensor.cell.node
        part = tensor.cell.base is not None and made is not None and made.operation == "select"
        parameter = tensor.cell.leaf is not None
        self.tape.change(tensor.cell.storage, self.site(node), origin, part, self.stack, parameter)
        if self.grad and tensor.cell.sibling and made is not None and escapes.certainly_has_graph(tensor):
            source = made.operands[0].node if made.operands else made
            found = PartChange(made.site if tensor.cell.hooked else source.site, origin, tensor.cell.hooked)
            self.incidents.parts_changed.setdefault(self.site(node), found)
        if self.grad and tensor.cell.applied is not None and escapes.certainly_has_graph(tensor):
            found = PartChange(tensor.cell.applied, origin, applied=True)
            self.incidents.parts_changed.setdefault(self.site(node), found)
            return  # PyTorch asks for that before it asks for leaves
        if self.grad and tensor.cell.unrecorded is not None:
            self._note_unrecorded_view(tensor.cell, tensor.cell.unrecorded, operands, self.site(node), origin)
            return  # PyTorch asks for that first
        for cell in (tensor.cell, tensor.cell.base):
            leaf = cell.leaf if cell is not None and cell.node is not None and not cell.frozen else None
            if leaf is None or cell is None or cell.mixed:
                continue
            if self.grad and cell.is_leaf and not leaf.frozen:
                self._note_leaf_change(cell, leaf, operands, self.site(node), origin)

    def _note_unrecorded_view(
        self, cell: TensorImpl, view: UnrecordedView, operands: Iterable[Value], site: Site, origin: Site | None
    ) -> None:
        """A view that was made without grad mode is changed under it with *operands*.

        PyTorch refuses that where the base, or what is written, requires grad.
        Source: ``handle_view_on_rebase`` in torch/csrc/autograd/variable.cpp.
        """
        base = cell.base
        if base is None or base.unsure or cell.unsure or not self._is_refused(view):
            return
        if any(map(escapes.certainly_has_graph, (TensorRef(base), *self.tensors(*operands)))):
            found = PartChange(view.made, origin, guard=view.guard, parameter=base.is_leaf)
            self.incidents.parts_changed.setdefault(site, found)

    def _note_leaf_change(
        self, cell: TensorImpl, leaf: Leaf, operands: Iterable[Value], site: Site, origin: Site | None
    ) -> None:
        """A leaf that requires grad is changed in place with *operands*, by a module that was made at *origin*."""
        added = self.tensors(*operands)
        below = cuts.leaves_in(added)
        computed = leaf not in below and not all(one.frozen for one in below)
        unknown = any(isinstance(one, Symbol) for one in operands) or any(one.cell.vague for one in added)
        total = computed and overwriting.is_total(cell, leaf, added)
        smooth = cuts.has_differentiable_gradient(added)
        change = LeafChange(leaf, bool(added), computed, smooth, total=total, unknown=unknown, origin=origin)
        self.incidents.leaf_changes[site] = change
        if leaf.supposed:
            self.incidents.supposed_changes.add(site)

    def change_by_hand(self, tensor: TensorRef, written: Collection[Value], *, scaled: bool = False) -> None:
        """New data for a parameter that has a gradient: somebody trains by hand, and this is the step."""
        if not _is_average(tensor, written, scaled=scaled):
            self.use_gradient(tensor.cell.leaf)

    def use_gradient(self, leaf: object) -> None:
        """The gradients that a parameter has serve somebody."""
        if isinstance(leaf, Leaf) and leaf.grads:
            self.tape.owned.add(leaf)
            self.tape.trained.update((backward.place, leaf.name) for backward in leaf.grads)
            self.tape.served.update((id(backward), leaf.name) for backward in leaf.grads)
            for backward in leaf.grads:  # what is done by hand between two passes is one step
                backward.steps.add(-self.tape.passes[-1].clock)

    def leaves_of(self, value: Value, seen: set[int] | None = None) -> Iterator[Leaf]:
        """The parameters, and other tensors that require grad, that a module, a container or a tensor holds."""
        seen = set() if seen is None else seen
        if isinstance(value, (Instance, TorchModule, Sequence, Mapping)):
            if id(value) in seen:
                return
            seen.add(id(value))
        yield from kind_of(value).leaves(self, value, seen)

    def own_parameters(self, module: Value) -> Iterator[Leaf]:
        """The parameters of a module: no tensor that it only has as an attribute, although it requires grad."""
        return (leaf for leaf in self.leaves_of(module) if not leaf.plain)

    @contextmanager
    def grad_mode(self, enabled: bool | None, guard: Site) -> Iterator[None]:
        """In a function or block, *guard*: grad mode as ``no_grad`` and its kin set it; None leaves it as it is."""
        if enabled is None:
            yield
            return
        before = self.grad, self.guard
        self.set_grad(enabled, guard)
        try:
            yield
        finally:
            self.grad, self.guard = before

    @contextmanager
    def perhaps_retaining(self, so: bool) -> Iterator[None]:
        """Run a branch; *so* says that the other one would keep the graph."""
        before, self.retaining = self.retaining, self.retaining or so
        try:
            yield
        finally:
            self.retaining = before

    def is_evaluating(self, node: Node) -> bool:
        """Whether every parameter under *node* belongs to a model that was told to evaluate."""
        leaves = leaves_under([node])
        return bool(leaves) and leaves <= self.evaluating

    def set_grad(self, enabled: bool, guard: Site) -> None:
        """From here on autograd records, or does not."""
        if (not enabled and (self.grad or cuts.is_inference(guard))) or (enabled and cuts.leaves_inference(guard)):
            self.guard = guard
        self.grad = enabled
