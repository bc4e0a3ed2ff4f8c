"""A program's concrete syntax trees, asked by span: which node, which statement, what is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import libcst as cst

from autofix.codemods.facts.base import Span
from autofix.codemods.rewriting.nodes import (
    Statement,
    calls_in,
    children,
    in_the_tree,
    is_item,
    names_below,
    only_part,
    pairs_of,
)
from autofix.codemods.rewriting.origins import Place
from autofix.codemods.rewriting.parsed import ParsedModule, parsed
from autofix.codemods.rewriting.patch import Patch
from autofix.codemods.source.program import Program

N = TypeVar("N", bound=cst.CSTNode)


class Tree:
    """A parsed program and the way from a span to its node.  A file is parsed when something in it is asked for.

    *known* are files that were parsed for other programs, by their texts.
    """

    def __init__(self, program: Program, known: dict[str, ParsedModule] | None = None) -> None:
        self.program = program
        self._parsed = {} if known is None else known
        self._modules: dict[int, ParsedModule] = {}
        self._codes: dict[cst.CSTNode, str] = {}

    def _at(self, span: Span) -> tuple[ParsedModule, Place]:
        """The file that has the span, and the place of the span in that file."""
        index = self.program.index_at(span.line)
        if index not in self._modules:
            text = self.program.files[index].text
            known = self._parsed.get(text)
            if known is None:
                known = self._parsed[text] = parsed(text)
            self._modules[index] = known
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
        """The name by which the called function reads *argument*, if it reads it exactly once; else None."""
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
        """Arguments for one of a function's parameters in the calls of its module, also by way of a ``partial``."""
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
        """The values of a function's own ``return`` statements."""
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
        node = in_the_tree(node)
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
        node = in_the_tree(node)
        for module in self._modules.values():
            if node in module.parents:
                return module.parents[node]
        return None

    def statement(self, span: Span | None) -> Statement | None:
        """The statement that is, or holds, the node with this span; a compound one where the span is all of it."""
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
        return children(node)

    def called(self, call: cst.Call) -> str:
        """The last part of a called function's name: ``randn`` of ``torch.randn(3)``."""
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
        return list(names_below(node, self.children_of))

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
        """``value`` of ``name = value`` and ``name, other = value, 1``, for a *name* that may have dots; else None."""
        part = only_part(statement)
        if not isinstance(part, cst.Assign) or len(part.targets) != 1:
            return None
        pairs = pairs_of(part.targets[0].target, part.value)
        return next((value for target, value in pairs if self.code(target) == name), None)

    def paths_in(self, node: cst.CSTNode) -> set[str]:
        """The names and dotted names in *node*, and the items with keys that are written there: ``state["h"]``."""
        return set(self._paths(node))

    def count_paths(self, node: cst.CSTNode, wanted: set[str]) -> int:
        """Number of mentions of the paths *wanted* in *node*."""
        return sum(path in wanted for path in self._paths(node))

    def fresh_name(self, *wishes: str) -> str:
        """The first of *wishes* that no module which was read uses as a name."""
        used = [module.names for module in self._modules.values()]
        return next((wish for wish in wishes if not any(wish in names for names in used)), wishes[-1] + "_")
