"""Edits of a program's concrete syntax trees: nodes found by span, everything else kept byte for byte."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import TypeVar

import libcst as cst
from libcst import matchers
from libcst.metadata import CodeRange, MetadataWrapper, PositionProvider

from codemods.facts import Carrier, Form, Span
from codemods.rewriting import one_line
from codemods.rewriting.origins import filled, origins, render
from codemods.rewriting.patch import Line, Patch, lines_of
from codemods.source.program import Program

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_COMPOUND = (cst.For, cst.While, cst.With, cst.If, cst.Try, cst.FunctionDef)
_ATOMS = (cst.Name, cst.Attribute, cst.Subscript, cst.Call, cst.Tuple, cst.List, cst.Dict, cst.ListComp, cst.DictComp)


N = TypeVar("N", bound=cst.CSTNode)
Place = tuple[int, int, int, int]
"""Start line and column, end line and column of a node, in the lines of its file."""


class _Module:
    """One parsed file."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._wrapper = MetadataWrapper(one_line.parse(text), unsafe_skip_copy=True)
        self.node = self._wrapper.module
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.children: dict[cst.CSTNode, Sequence[cst.CSTNode]] = {}
        stack: list[cst.CSTNode] = [self.node]
        while stack:
            node = stack.pop()
            self.children[node] = children = node.children
            for child in children:
                self.parents[child] = node
            stack.extend(children)

    def written(
        self,
        changed: cst.Module,
        partners: Mapping[cst.CSTNode, cst.CSTNode],
        moved: Mapping[cst.CSTNode, cst.CSTNode],
    ) -> list[Line]:
        """The lines of a *changed* module, each with the line of the file that it was.

        ``partners`` are its nodes that stand for nodes of this one, ``moved`` those that read as these.  LibCST
        does not keep every byte: an ``else`` that is indented otherwise than its ``if``, a form feed, the end of a
        file with old line ends.  Lines that no change is about are the file's own; where the lines cannot be told
        apart, all of them are.
        """
        own, text = lines_of(self._own), lines_of(self._text)
        if len(own) != len(text):
            return [Line(line, number) for number, line in enumerate(text, 1)]
        code, nodes = render(changed)
        after = lines_of(code)
        came = filled(origins(nodes, self._extent, self.parents, partners, moved), own, after)
        return [
            Line(text[origin - 1] if origin and own[origin - 1] == line else line, origin)
            for line, origin in zip(after, came, strict=True)
        ]

    def _extent(self, node: cst.CSTNode) -> tuple[int, int] | None:
        """The first and the last line of a node of this file."""
        place = self.places.get(node)
        if place is None:
            return None
        first, _, last, column = place
        return first, last - (column == 0 and last > first)

    @cached_property
    def _own(self) -> str:
        """What LibCST makes of the file."""
        return self.node.code

    @cached_property
    def places(self) -> dict[cst.CSTNode, Place]:
        return {
            node: (position.start.line, position.start.column, position.end.line, position.end.column)
            for node, position in self._wrapper.resolve(PositionProvider).items()
            if isinstance(position, CodeRange)
        }

    @cached_property
    def by_place(self) -> dict[Place, list[cst.CSTNode]]:
        found: dict[Place, list[cst.CSTNode]] = {}
        for node, place in self.places.items():
            found.setdefault(place, []).append(node)
        return found

    @cached_property
    def names(self) -> set[str]:
        """What is used as a name anywhere."""
        return {name.value for name in _names(self.node, self.children.__getitem__)}

    @cached_property
    def by_kind(self) -> dict[type[cst.CSTNode], list[cst.CSTNode]]:
        found: dict[type[cst.CSTNode], list[cst.CSTNode]] = {}
        for node in self.parents:
            found.setdefault(type(node), []).append(node)
        return found

    @cached_property
    def compound(self) -> dict[Statement, Place]:
        return {node: place for node, place in self.places.items() if isinstance(node, _COMPOUND)}


class Tree:
    """A parsed program and the way from a span to its node.  A file is parsed when something in it is asked for."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._modules: dict[int, _Module] = {}
        self._codes: dict[cst.CSTNode, str] = {}

    def _at(self, span: Span) -> tuple[_Module, Place]:
        """The file that has the span, and where in that file the span is."""
        index = self.program.index_at(span.line)
        if index not in self._modules:
            self._modules[index] = _Module(self.program.files[index].text)
        start = self.program.starts[index]
        return self._modules[index], (span.line - start, span.column, span.end_line - start, span.end_column)

    def modules(self) -> list[cst.Module]:
        """All files of the program, parsed."""
        for path, start in zip(self.program.texts, self.program.starts, strict=True):
            self._at(Span(path, start + 1, 0, start + 1, 0))
        return [module.node for module in self._modules.values()]

    def _nodes_at(self, span: Span) -> list[cst.CSTNode]:
        module, place = self._at(span)
        return module.by_place.get(place, [])

    def line_of(self, node: cst.CSTNode) -> int:
        """The line, of the whole program, on which a node begins."""
        index, own = next((at, one) for at, one in self._modules.items() if one.node is self.module_of(node))
        return self.program.starts[index] + own.places[node][0]

    def row(self, line: int) -> Span:
        """The text on a line of the program."""
        text = self.program.lines[line - 1]
        path = self.program.files[self.program.index_at(line)].path
        return Span(path, line, len(text) - len(text.lstrip()), line, len(text.rstrip()))

    def row_of(self, node: cst.CSTNode) -> Span:
        """The text on the line on which a node begins."""
        return self.row(self.line_of(node))

    def statement_at(self, line: int) -> Statement | None:
        """The innermost statement that stands on a line; None for a blank line and for a comment."""
        row = self.row(line)
        module, place = self._at(row)
        found: Statement | None = None
        for node, (first, _, last, _) in module.places.items():
            if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)) and first <= place[0] <= last:
                inner = found is None or module.places[found][0] <= first
                found = node if inner else found
        comment = self.program.lines[line - 1].strip()[:1] in ("", "#")
        return None if comment else found

    def every(self, kind: type[N], module: cst.Module) -> list[N]:
        """All nodes of a kind in a file."""
        own = next(one for one in self._modules.values() if one.node is module)
        return own.by_kind.get(kind, [])  # type: ignore[return-value]

    def function_called(self, call: cst.Call) -> cst.FunctionDef | None:
        """The function of the program that a call calls, by its name, if just one function has it.

        Of several, ``self.update(x)`` calls the one of its own class.
        """
        owner, _, name = self.code(call.func).rpartition(".")
        found = [
            function
            for module in self.modules()
            for function in self.every(cst.FunctionDef, module)
            if function.name.value == name
        ]
        if len(found) > 1 and owner == "self":
            found = [function for function in found if self.class_of(function) is self.class_of(call)]
        return found[0] if len(found) == 1 else None

    def taken_by(self, call: cst.Call, argument: cst.Arg) -> cst.Name | None:
        """Where the function that is called reads *argument*, if it reads it once."""
        function = self.function_called(call)
        if function is None:
            return None
        parameters = [one.name.value for one in function.params.params]
        at = call.args.index(argument) + (parameters[:1] == ["self"])
        position = parameters[at] if at < len(parameters) else ""
        name = argument.keyword.value if argument.keyword is not None else position
        reads = [one for one in self.names_in(function.body) if one.value == name]
        return reads[0] if len(reads) == 1 else None

    def given_to(self, function: cst.FunctionDef, parameter: str) -> Iterator[cst.BaseExpression]:
        """What calls in the function's module give to one of its parameters, also by way of a ``partial``."""
        parameters = [one.name.value for one in function.params.params]
        for call in calls_in(self.module_of(function)):
            arguments, called = list(call.args), self.called(call)
            if called == "partial" and arguments:
                called = self.code(arguments.pop(0).value).rpartition(".")[2]
            if called != function.name.value:
                continue
            positions = parameters[1:] if parameters[:1] == ["self"] else parameters
            for at, one in enumerate(arguments):
                position = positions[at] if at < len(positions) else ""
                if (one.keyword.value if one.keyword is not None else position) == parameter:
                    yield one.value

    def returned_by(self, function: cst.FunctionDef) -> Iterator[cst.BaseExpression]:
        """What a function returns: the values of its own ``return`` statements."""
        for statement in self.statements_in(function):
            for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                if isinstance(part, cst.Return) and part.value is not None and self.function_of(part) is function:
                    yield part.value

    def patch(
        self,
        how: Callable[[cst.Module], cst.Module],
        partners: Mapping[cst.CSTNode, cst.CSTNode],
        moved: Mapping[cst.CSTNode, cst.CSTNode],
    ) -> Patch:
        """The patch that changes the files that were read by *how*.

        ``partners`` are new nodes, each for an old one; so are the ``moved``, which read as the old ones do.
        """
        written = {}
        for index, module in self._modules.items():
            changed = how(module.node)
            if changed is not module.node:
                written[self.program.files[index].path] = module.written(changed, partners, moved)
        return Patch.of(self.program, written)

    def module_of(self, node: cst.CSTNode) -> cst.Module:
        """The module in which *node* stands; for a new node, the first that was read."""
        node = _in_the_tree(node)
        for module in self._modules.values():
            if node is module.node or node in module.parents:
                return module.node
        return next((module.node for module in self._modules.values()), cst.Module([]))

    def path_of(self, node: cst.CSTNode) -> str:
        """The file in which *node* stands."""
        own = self.module_of(node)
        return next(self.program.files[index].path for index, module in self._modules.items() if module.node is own)

    def expression(self, span: Span | None) -> cst.BaseExpression | None:
        """The expression with exactly this span."""
        if span is None:
            return None
        return next((node for node in self._nodes_at(span) if isinstance(node, cst.BaseExpression)), None)

    def node(self, span: Span, kind: type[cst.CSTNode]) -> cst.CSTNode | None:
        """The node of this kind with exactly this span."""
        return next((node for node in self._nodes_at(span) if isinstance(node, kind)), None)

    def parent_of(self, node: cst.CSTNode) -> cst.CSTNode | None:
        node = _in_the_tree(node)
        for module in self._modules.values():
            if node in module.parents:
                return module.parents[node]
        return None

    def statement(self, span: Span | None) -> Statement | None:
        """The statement that is, or holds, what has this span; a compound statement where the span is all of it."""
        if span is None:
            return None
        module, (line, column, end_line, _) = self._at(span)
        for compound, place in module.compound.items():
            if place[:2] == (line, column) and place[2] >= end_line:
                return compound
        return next((self.statement_of(node) for node in self._nodes_at(span)), None)

    def statement_of(self, node: cst.CSTNode | None) -> Statement | None:
        """The innermost statement that holds *node*."""
        while node is not None:
            if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                return node
            node = self.parent_of(node)
        return None

    def block_of(self, statement: Statement) -> list[Statement]:
        """The statements of the block in which *statement* stands; none for a block on one line (``if x: y``)."""
        parent = self.parent_of(statement)
        if isinstance(parent, (cst.IndentedBlock, cst.Module)):
            return list(parent.body)  # type: ignore[arg-type]
        return []

    def function_of(self, node: cst.CSTNode) -> cst.CSTNode:
        """The function, or the module, in whose own code *node* stands."""
        around = (one for one in self.enclosing(node) if isinstance(one, (cst.FunctionDef, cst.Module, cst.Lambda)))
        return next(around, None) or self.module_of(node)

    def class_of(self, node: cst.CSTNode) -> cst.ClassDef | None:
        """The class in one of whose methods *node* stands."""
        return next((around for around in self.enclosing(node) if isinstance(around, cst.ClassDef)), None)

    def body_of(self, statement: cst.CSTNode) -> list[Statement]:
        """The statements of a compound statement's own block."""
        body = getattr(statement, "body", None)
        return list(body.body) if isinstance(body, cst.IndentedBlock) else []  # type: ignore[arg-type]

    def statements_in(self, node: cst.CSTNode) -> Iterator[Statement]:
        """All statements inside *node*, in no order."""
        pending = [node]
        while pending:
            for child in self.children_of(pending.pop()):
                if isinstance(child, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                    yield child
                pending.append(child)

    def code(self, node: cst.CSTNode) -> str:
        known = self._codes.get(node)
        if known is None:
            known = self._codes[node] = self.module_of(node).code_for_node(node)
        return known

    def children_of(self, node: cst.CSTNode) -> Sequence[cst.CSTNode]:
        """The nodes right below *node*, which libcst gathers anew, by a visit, whenever it is asked."""
        for module in self._modules.values():
            if node in module.children:
                return module.children[node]
        return node.children

    def called(self, call: cst.Call) -> str:
        """The last part of the name of what is called: ``randn`` of ``torch.randn(3)``."""
        return self.code(call.func).rpartition(".")[2]

    def own_code(self, statement: Statement) -> str:
        """A statement without the comments before it."""
        return self.code(statement.with_changes(leading_lines=[])).strip()

    def inside(self, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
        """Every expression in *node*, itself included, outermost first."""
        pending: list[cst.CSTNode] = [node]
        while pending:
            part = pending.pop(0)
            if isinstance(part, cst.BaseExpression):
                yield part
            pending.extend(self.children_of(part))

    def enclosing(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around *node*, innermost first."""
        parent = self.parent_of(node)
        while parent is not None:
            yield parent
            parent = self.parent_of(parent)

    def loops_around(self, node: cst.CSTNode | None) -> Iterator[cst.For | cst.While]:
        """The loops in which *node* stands, innermost first; none where there is no node."""
        for around in self.enclosing(node) if node is not None else ():
            if isinstance(around, (cst.For, cst.While)):
                yield around

    def loops_running(self, node: cst.CSTNode) -> Iterator[cst.For | cst.While]:
        """The loops around *node* in its function; where that has none, those around the calls of the function."""
        function = self.function_of(node)
        own = [loop for loop in self.loops_around(node) if self.function_of(loop) is function]
        yield from own
        if own or not isinstance(function, cst.FunctionDef):
            return
        for call in [call for module in self.modules() for call in self.every(cst.Call, module)]:
            if self.called(call) == function.name.value:
                yield from self.loops_around(call)

    def torch_name(self, node: cst.CSTNode) -> str:
        """The name under which the module of *node* knows torch; ``torch`` where it was not imported by itself."""
        for statement in self.module_of(node).body:
            if isinstance(statement, cst.SimpleStatementLine):
                for part in statement.body:
                    if isinstance(part, cst.Import):
                        for alias in part.names:
                            if self.code(alias.name) == "torch":
                                return alias.evaluated_alias or "torch"
        return "torch"

    def imports_torch(self, node: cst.CSTNode) -> bool:
        """Whether the module of *node* imports torch by itself."""
        return any(
            isinstance(part, cst.Import)
            and any(self.code(alias.name).partition(".")[0] == "torch" for alias in part.names)
            for statement in self.module_of(node).body
            if isinstance(statement, cst.SimpleStatementLine)
            for part in statement.body
        )

    def is_of_torch(self, function: cst.BaseExpression) -> bool:
        """Whether a function is called by a name that its module imports from torch: ``F.relu``, ``torch.cat``."""
        return "torch" in self.imported_from(function)

    def imported_from(self, value: cst.BaseExpression) -> set[str]:
        """The packages from which the name is imported that *value* begins with: NumPy's for ``np.random.rand``."""
        while isinstance(value, cst.Attribute):
            value = value.value
        found: set[str] = set()
        if not isinstance(value, cst.Name):
            return found
        for statement in self.module_of(value).body:
            for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
                whole = isinstance(part, cst.ImportFrom) and part.module is not None
                if not isinstance(part, (cst.Import, cst.ImportFrom)) or isinstance(part.names, cst.ImportStar):
                    continue
                for alias in part.names:
                    source = self.code(part.module if whole else alias.name)  # type: ignore[union-attr, arg-type]
                    bound = alias.evaluated_alias or alias.evaluated_name.partition(".")[0]
                    if bound == value.value:
                        found.add(source.partition(".")[0])
        return found

    def is_imported(self, name: cst.Name) -> bool:
        """Whether its module imports something under this name."""
        module = self.module_of(name)
        parts: list[cst.Import | cst.ImportFrom] = [
            *self.every(cst.Import, module),
            *self.every(cst.ImportFrom, module),
        ]
        return any(
            name.value == (alias.evaluated_alias or self.code(alias.name).partition(".")[0])
            for part in parts
            if not isinstance(part.names, cst.ImportStar)
            for alias in part.names
        )

    def names_in(self, node: cst.CSTNode) -> list[cst.Name]:
        """Every plain name in *node*, attributes' and keywords' own names left out."""
        return list(_names(node, self.children_of))

    def _paths(self, node: cst.CSTNode) -> Iterator[str]:
        stack: list[cst.CSTNode] = [node]
        while stack:
            part = stack.pop()
            if isinstance(part, cst.Name):
                yield part.value
            elif isinstance(part, cst.Attribute) or is_item(part):
                yield self.code(part).strip("()")
                stack.append(part.value)  # type: ignore[attr-defined]
            elif isinstance(part, cst.Arg):
                stack.append(part.value)
            else:
                stack.extend(self.children_of(part))

    def given(self, statement: cst.CSTNode | None, name: str) -> cst.BaseExpression | None:
        """What ``name = value`` gives *name*, which may have dots, also beside others: ``name, other = value, 1``."""
        part = only_part(statement)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            return None
        pairs = pairs_of(part.targets[0].target, part.value)
        return next((value for target, value in pairs if self.code(target) == name), None)

    def paths_in(self, node: cst.CSTNode) -> set[str]:
        """The names and dotted names in *node*, and the items with keys that are written there: ``state["h"]``."""
        return set(self._paths(node))

    def count_paths(self, node: cst.CSTNode, wanted: set[str]) -> int:
        """How often one of *wanted* is mentioned in *node*."""
        return sum(path in wanted for path in self._paths(node))

    def fresh_name(self, *wishes: str) -> str:
        """The first of *wishes* that no module which was read uses as a name."""
        used = [module.names for module in self._modules.values()]
        return next((wish for wish in wishes if not any(wish in names for names in used)), wishes[-1] + "_")


def _names(node: cst.CSTNode, below: Callable[[cst.CSTNode], Sequence[cst.CSTNode]]) -> Iterator[cst.Name]:
    stack: list[cst.CSTNode] = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, cst.Name):
            yield part
        elif isinstance(part, (cst.Attribute, cst.Arg)):
            stack.append(part.value)
        else:
            stack.extend(below(part))


class Edit(cst.CSTTransformer):
    """A set of changes to one tree, applied together.  A change sees the node as inner changes left it."""

    def __init__(self, tree: Tree) -> None:
        super().__init__()
        self._tree = tree
        self._changes: dict[cst.CSTNode, list[Callable[[cst.CSTNode], cst.CSTNode]]] = {}
        self._before: dict[cst.CSTNode, list[Statement]] = {}
        self._after: dict[cst.CSTNode, list[Statement]] = {}
        self._removed: set[cst.CSTNode] = set()
        self._touched: set[cst.CSTNode] = set()
        """The changed nodes and all around them: nothing else is visited."""
        self._partners: dict[cst.CSTNode, cst.CSTNode] = {}
        """New nodes, and the nodes of the tree that they stand for."""
        self._said: dict[cst.CSTNode, cst.CSTNode] = {}
        """Those of the new nodes of which a rule said it."""
        self._renewed: dict[cst.CSTNode, cst.CSTNode] = {}
        """Inserted statements with the comments of those before which they stand, and without."""

    def change(self, node: cst.CSTNode, how: Callable[[cst.CSTNode], cst.CSTNode]) -> Edit:
        if isinstance(node, _Unannotated):
            bare = how

            def how(updated: cst.CSTNode) -> cst.CSTNode:
                return bare(_without_annotation(updated) if isinstance(updated, cst.AnnAssign) else updated)

        self._changes.setdefault(_in_the_tree(node), []).append(how)
        return self

    def insert_before(self, statement: Statement, *codes: str) -> Edit:
        """Insert statements; behind a docstring and the declarations with which a function begins."""
        while _comes_first(statement):
            block = self._tree.block_of(statement)
            at = block.index(statement) + 1 if statement in block else len(block)
            if at >= len(block):
                return self.insert_after(statement, *codes)
            statement = block[at]
        self._before.setdefault(statement, []).extend(self._parsed(statement, codes))
        return self

    def insert_after(self, statement: Statement, *codes: str) -> Edit:
        self._after.setdefault(statement, []).extend(self._parsed(statement, codes))
        return self

    def remove(self, statement: Statement) -> Edit:
        self._removed.add(statement)
        return self

    def stands_for(self, new: cst.CSTNode, old: cst.CSTNode) -> Edit:
        """Say that a *new* node, which a change puts into the tree, is what *old* was: the same pass, say."""
        self._said[new] = _in_the_tree(old)
        return self

    def _moved(self) -> dict[cst.CSTNode, cst.CSTNode]:
        """What is inserted and reads as what is removed: a statement that only goes elsewhere."""
        inserted = [one for many in (*self._before.values(), *self._after.values()) for one in many]
        moved: dict[cst.CSTNode, cst.CSTNode] = {}
        for old in self._removed:
            if isinstance(old, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
                same = (one for one in inserted if one not in moved and self._rows(one) == self._rows(old))
                new = next(same, None)
                if new is not None:
                    moved[new] = old
        return moved

    def _rows(self, node: cst.CSTNode) -> list[str]:
        assert isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        return [line.strip() for line in self._tree.own_code(node).split("\n")]

    def _parsed(self, statement: Statement, codes: Iterable[str]) -> Iterator[Statement]:
        config = self._tree.module_of(statement).config_for_parsing
        for code in codes:
            several = cst.parse_module(code, config).body if "\n" in code else ()
            if len(several) > 1:
                yield from several
                continue
            parsed = cst.parse_statement(code, config=config)
            bare = [line if line.comment else line.with_changes(indent=False) for line in parsed.leading_lines]
            yield parsed.with_changes(leading_lines=bare) if bare else parsed

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node in self._touched

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> object:  # type: ignore[override]
        node = updated_node
        for how in self._changes.get(original_node, ()):
            node = how(node)
        told = original_node in self._said.values()
        if original_node in self._touched and isinstance(node, cst.CSTNode) and node is not original_node and not told:
            self._partners.setdefault(node, original_node)
        if isinstance(node, cst.FlattenSentinel) and not told:  # the first of its kind stands for it
            new = (one for one in node if type(one) is type(original_node) and self._tree.parent_of(one) is None)
            self._partners.update(dict.fromkeys(islice(new, 1), original_node))
        if original_node in self._removed:
            return cst.RemovalSentinel.REMOVE
        before, after = self._before.get(original_node), self._after.get(original_node)
        if before:
            # The comment that introduces the statement introduces what now comes before it as well.
            if not before[0].leading_lines:
                first = before[0].with_changes(leading_lines=node.leading_lines)  # type: ignore[attr-defined]
                self._renewed[first] = before[0]
                before = [first, *before[1:]]
                headed, node = node, node.with_changes(leading_lines=[])
                self._partners.setdefault(node, self._partners.get(headed, original_node))
        if before or after:
            return cst.FlattenSentinel([*(before or ()), node, *(after or ())])
        return node

    def patch(self) -> Patch:
        """The patch that makes all the changes."""
        changed = [*self._changes, *self._before, *self._after, *self._removed]
        self._touched = {node for one in changed for node in (one, *self._tree.enclosing(one))}
        moved = self._moved()
        for new, old in self._said.items():
            same = isinstance(old, cst.BaseStatement) and self._rows(new) == self._rows(old)
            (moved if same else self._partners)[new] = old

        def make(module: cst.Module) -> cst.Module:
            made = module.visit(self) if module in self._touched else module
            moved.update({new: moved[bare] for new, bare in self._renewed.items() if bare in moved})
            return made

        return self._tree.patch(make, self._partners, moved)


def _comes_first(statement: Statement) -> bool:
    """Whether a statement has to stay where it is: a docstring, ``global`` and ``nonlocal``."""
    part = only_part(statement)
    said = isinstance(part, cst.Expr) and isinstance(part.value, (cst.SimpleString, cst.ConcatenatedString))
    return said or isinstance(part, (cst.Global, cst.Nonlocal))


def small_statement(code: str) -> cst.BaseSmallStatement:
    """*code*, which is one line, as what :func:`only_part` gives of it."""
    return cst.ensure_type(cst.parse_statement(code), cst.SimpleStatementLine).body[0]


def only_part(statement: cst.CSTNode | None) -> cst.BaseSmallStatement | None:
    """The one small statement of a simple line; None for a compound statement, and where ``;`` parts several.

    ``x: Tensor = y`` is read as ``x = y``.
    """
    alone = isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1
    part: cst.BaseSmallStatement | None = statement.body[0] if alone else None  # type: ignore[union-attr]
    return _without_annotation(part) if isinstance(part, cst.AnnAssign) and part.value is not None else part


class _Unannotated(cst.Assign):
    """``x = y``, for ``x: Tensor = y``: an assignment that is read without its annotation."""

    stands_as: cst.AnnAssign | None = None
    """What it is in the tree."""


def _without_annotation(part: cst.AnnAssign) -> cst.Assign:
    assert part.value is not None
    plain = _Unannotated([cst.AssignTarget(part.target)], part.value, semicolon=part.semicolon)
    object.__setattr__(plain, "stands_as", part)  # nodes are frozen
    return plain


def _in_the_tree(node: cst.CSTNode) -> cst.CSTNode:
    return node.stands_as or node if isinstance(node, _Unannotated) else node


def is_item(node: cst.CSTNode) -> bool:
    """Whether an expression is an item of something that has a name, with a key that is written there."""
    if (
        not isinstance(node, cst.Subscript)
        or len(node.slice) != 1
        or not isinstance(node.value, (cst.Name, cst.Attribute))
    ):
        return False
    index = node.slice[0].slice
    return isinstance(index, cst.Index) and isinstance(index.value, (cst.SimpleString, cst.Integer))


def pairs_of(
    target: cst.BaseExpression, value: cst.BaseExpression
) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What an assignment gives to what; tuples on both sides one by one."""
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        if len(target.elements) == len(value.elements):
            yield from ((one.value, other.value) for one, other in zip(target.elements, value.elements, strict=True))
    else:
        yield target, value


def without_index(node: cst.BaseExpression) -> cst.BaseExpression:
    """``log`` of ``log[name][0]``: all of what an item is taken from."""
    while isinstance(node, cst.Subscript):
        node = node.value
    return node


def calls_in(node: cst.CSTNode) -> list[cst.Call]:
    """All calls in *node*, itself included."""
    return [call for call in matchers.findall(node, matchers.Call()) if isinstance(call, cst.Call)]


def operands_of(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """The two sides of an operation, or the arguments of a call."""
    if isinstance(node, cst.BinaryOperation):
        return [node.left, node.right]
    return [argument.value for argument in node.args] if isinstance(node, cst.Call) else []


def parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    """*node* as something that a ``.method()`` can follow."""
    if node.lpar or isinstance(node, _ATOMS):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def method_call(node: cst.CSTNode, name: str) -> cst.CSTNode:
    """``node.name()``."""
    assert isinstance(node, cst.BaseExpression)
    return cst.Call(cst.Attribute(parenthesised(node), cst.Name(name)))


def detach(node: cst.CSTNode) -> cst.CSTNode:
    return method_call(node, "detach")


def requires_grad(node: cst.CSTNode) -> cst.CSTNode:
    return method_call(node, "requires_grad_")


def detached_code(code: str, form: Form, item: str, torch: str = "torch") -> str:
    """Source text that detaches the value of *code*, which has this form; *item* is a name that is free to use.

    Where the form is not known it serves both a tensor and a tuple of tensors; *torch* is the module's name for torch.
    """
    match form:
        case Form.UNKNOWN:
            several = f"tuple({item}.detach() for {item} in {code})"
            return f"{code}.detach() if isinstance({code}, {torch}.Tensor) else {several}"
        case Form.TUPLE:
            return f"tuple({item}.detach() for {item} in {code})"
        case Form.RECORD:
            return f"type({code})(*({item}.detach() for {item} in {code}))"
        case Form.LIST:
            return f"[{item}.detach() for {item} in {code}]"
        case Form.DICT:
            return f"{{key: {item}.detach() for key, {item} in {code}.items()}}"
        case Form.NESTED:
            outer = "layer" if item != "layer" else "part"
            return f"[tuple({item}.detach() for {item} in {outer}) for {outer} in {code}]"
    return f"{code}.detach()"


_OF_ITEMS = {
    "$1": ("state", "layer", "tensor"),
    "$2": ("part", "item", "one"),
    "$3": ("value", "piece", "entry"),
    "$key1": ("key", "name", "index"),
    "$key2": ("which", "label", "place"),
    "$key3": ("inner", "tag", "number"),
}


def whole_code(whole: str, name: str, tree: Tree) -> str:
    """What a carrier's ``whole`` says of the value called *name*, with names for items that are free to use."""
    code = whole.replace("$x", name)
    for mark, names in _OF_ITEMS.items():
        code = code.replace(mark, tree.fresh_name(*names)) if mark in code else code
    return code


def detach_by_form(edit: Edit, tree: Tree, node: cst.BaseExpression, form: Form, item: str) -> None:
    """Change the expression *node*, whose value has this form, into one whose value has no graph."""
    literal = isinstance(node, (cst.Tuple, cst.List)) and all(isinstance(one, cst.Element) for one in node.elements)
    if form in (Form.TUPLE, Form.LIST) and literal:
        assert isinstance(node, (cst.Tuple, cst.List))
        for element in node.elements:
            edit.change(element.value, detach)
    elif form is Form.TENSOR:
        edit.change(node, detach)
    else:
        code = detached_code(tree.code(parenthesised(node)), form, item, tree.torch_name(node))
        edit.change(node, lambda _: cst.parse_expression(code))


def detached(tree: Tree, node: cst.BaseExpression, form: Form) -> Patch:
    """The program with *node*, a value of this form, detached where it stands; displays are detached item by item."""
    edit = Edit(tree)
    if isinstance(node, cst.ListComp) and not isinstance(node.elt, (cst.List, cst.Tuple, cst.Dict)):
        return edit.change(node.elt, detach).patch()
    if isinstance(node, cst.Dict) and form is not Form.NESTED:
        for item in node.elements:
            if isinstance(item, cst.DictElement) and isinstance(item.value, (cst.Name, cst.Attribute, cst.Call)):
                edit.change(item.value, detach)
        return edit.patch()
    detach_by_form(edit, tree, node, form, tree.fresh_name("item", "tensor", "value"))
    return edit.patch()


def detached_where_stored(tree: Tree, carriers: Iterable[Carrier]) -> Patch | None:
    """The program with the values that *carriers* store detached where they do; None where one of them is not found."""
    stored = [tree.expression(one.expression) for one in carriers if one.expression is not None]
    edit = Edit(tree)
    for expression in stored:
        if expression is None:
            return None
        edit.change(expression, detach)
    return edit.patch() if stored else None


def without_keyword(call: cst.CSTNode, keyword: str) -> cst.CSTNode:
    """A call without one of its keyword arguments."""
    assert isinstance(call, cst.Call)
    rest = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != keyword]
    if rest and len(rest) < len(call.args):
        rest[-1] = rest[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=rest)


def with_keyword(call: cst.CSTNode, keyword: str, value: str) -> cst.CSTNode:
    """A call with a keyword argument set."""
    assert isinstance(call, cst.Call)
    stripped = without_keyword(call, keyword)
    assert isinstance(stripped, cst.Call)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    added = cst.Arg(cst.parse_expression(value), cst.Name(keyword), equal=equal)
    args = list(stripped.args)
    if args and isinstance(args[-1].comma, cst.MaybeSentinel):
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return stripped.with_changes(args=[*args, added])


def guarded(tree: Tree, run: list[Statement]) -> Patch:
    """The program with neighbouring statements under ``with torch.no_grad():``, or in one that stands before them."""
    block = tree.block_of(run[0])
    first = block.index(run[0])
    previous = block[first - 1] if first else None
    edit = Edit(tree)
    if isinstance(previous, cst.With) and _is_no_grad(previous, tree) and tree.body_of(previous):
        edit.change(previous, lambda node: _with_body(node, [*tree.body_of(node), *run]))
        for statement in run:
            edit.remove(statement)
        return edit.patch()
    module = tree.module_of(run[0])
    header = f"with {tree.torch_name(run[0])}.no_grad():\n{module.default_indent}pass\n"
    guard = cst.parse_statement(header, config=module.config_for_parsing)
    headed = guard.with_changes(leading_lines=run[0].leading_lines)
    inside = run[0].with_changes(leading_lines=[])
    edit.change(run[0], lambda _: _with_body(headed, [inside, *run[1:]])).stands_for(inside, run[0])
    for statement in run[1:]:
        edit.remove(statement)
    if not tree.imports_torch(run[0]):
        _import_torch(edit, tree, run[0])
    return edit.patch()


def _with_body(node: cst.CSTNode, body: list[Statement]) -> cst.CSTNode:
    assert isinstance(node, cst.With)
    return node.with_changes(body=node.body.with_changes(body=body))


def _is_no_grad(statement: cst.With, tree: Tree) -> bool:
    call = statement.items[0].item if len(statement.items) == 1 else None
    return (
        isinstance(call, cst.Call) and not call.args and tree.called(call) == "no_grad" and tree.is_of_torch(call.func)
    )


def _import_torch(edit: Edit, tree: Tree, near: cst.CSTNode) -> None:
    """``import torch`` before the first other import of it."""
    for statement in tree.module_of(near).body:
        for part in statement.body if isinstance(statement, cst.SimpleStatementLine) else ():
            if isinstance(part, cst.ImportFrom) and part.module is not None:
                if tree.code(part.module).startswith("torch"):
                    edit.insert_before(statement, "import torch")
                    return
