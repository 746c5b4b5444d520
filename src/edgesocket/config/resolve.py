"""Looks up substitutions and folds assignments into values.

The rule of HOCON: `${name}` is the value that `name` has at the end of the whole file, includes and overrides
counted; inside an assignment to `name` itself it is the value before that assignment. Both follow from one procedure:
walk the assignments of a name from the newest to the oldest, leave out those that are being worked out right now, and
stop at the first one that does not merge with older ones.

An assignment that turns out undefined (`${?name}` without a value) is as if it were not there. What the file does not
define comes from the variables of `-i`, then from the environment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from edgesocket.config.nodes import (
    BrokenNode,
    Field,
    ListNode,
    Location,
    Node,
    ObjectNode,
    PluginNode,
    Report,
    Scalar,
    merge,
    splits,
)
from edgesocket.config.syntax import Array, Expression, Join, Object, Statement, Substitution, Text

MAX_DEPTH = 64
"""Values inside values and substitutions behind substitutions, together."""
STEPS = 5_000
STEPS_PER_ASSIGNMENT = 50
"""How often assignments may be looked at, all in all. Usual files need three looks at each; `a = ${a}${a}` fifty times
over would need more than there is time for, and ends in a message instead."""
MAX_TEXT = 1 << 20
"""Characters of one joined text, elements of one joined list."""

_Entry = tuple[Statement, str]
"""An assignment, and the dotted rest of the name that is looked for below it ("" for the assignment itself)."""


class EndlessValues(Exception):  # noqa: N818 - it ends the resolving; the problem itself has been reported
    """Values refer to each other without an end."""


class Resolver:
    """Resolves one document. Use it once.

    Args:
        root: the document.
        assignments: how many it has, at all depths.
        variables: of `-i`.
        environ: the environment.
        report: takes what is wrong.

    Attributes:
        used: every name a substitution looked up.
    """

    def __init__(
        self,
        root: Object,
        assignments: int,
        variables: Mapping[str, str],
        environ: Mapping[str, str],
        report: Report,
    ) -> None:
        self.used: set[str] = set()
        self._root = root
        self._variables = variables
        self._environ = environ
        self._report = report
        self._memo: dict[tuple[int, str], Node | None] = {}
        self._busy: set[tuple[int, str]] = set()
        self._dug: set[int] = set()
        self._skipped = 0
        self._steps_left = STEPS + STEPS_PER_ASSIGNMENT * assignments

    def resolve(self) -> ObjectNode:
        """The document's values. Faults go to the report, the values concerned become BrokenNode.

        Raises:
            EndlessValues: values refer to each other without an end; reported.
        """
        return self._object(self._root)

    # From expressions to nodes

    def _evaluate(self, expression: Expression) -> Node | None:
        """The value of an expression, None if it is undefined."""
        if isinstance(expression, Text):
            return Scalar(expression.text, expression.location, expression.quoted, expression.cut)
        if isinstance(expression, Object):
            return self._plugins(expression) if expression.plugins else self._object(expression)
        if isinstance(expression, Array):
            items = (self._evaluate(item) for item in expression.items)
            return ListNode(tuple(item for item in items if item is not None), expression.location)
        if isinstance(expression, Substitution):
            return self._substitution(expression)
        if isinstance(expression, Join):
            return self._join(expression)
        return BrokenNode(expression.location)

    def _object(self, expression: Object) -> ObjectNode:
        fields: dict[str, Field] = {}
        for key, statements in expression.by_key.items():
            entry = self._fold((statement, "") for statement in reversed(statements))
            if entry is not None:
                fields[key] = entry
        return ObjectNode(fields, expression.location)

    def _plugins(self, expression: Object) -> ListNode:
        """A plugin block adds to the blocks of the same name before it, like `+=` does."""
        plugins: list[Node] = []
        for statement in expression.statements:
            body = self._statement(statement, "")
            if body is not None:
                plugins.append(PluginNode(statement.key, body, statement.location))
        return ListNode(tuple(plugins), expression.location, append=True)

    def _join(self, expression: Join) -> Node | None:
        """Join pieces: texts to a text, lists to a list, blocks to a block. Undefined pieces are not there."""
        blanks: list[bool] = []
        nodes: list[Node] = []
        for piece in expression.pieces:
            node = self._evaluate(piece)
            if node is not None:
                blanks.append(isinstance(piece, Text) and piece.blank)
                nodes.append(node)
        solid = [node for node, blank in zip(nodes, blanks, strict=True) if not blank]
        if not solid:
            return None
        if any(isinstance(node, BrokenNode) for node in solid):
            return BrokenNode(expression.location)
        if all(isinstance(node, Scalar) for node in solid):
            text = "".join(node.text for node in nodes if isinstance(node, Scalar))
            if len(text) > MAX_TEXT:
                message = f"the joined text is longer than {MAX_TEXT} characters"
                return self._broken(expression.location, message, path=expression.where)
            quoted = any(isinstance(node, Scalar) and node.quoted for node in nodes)
            return Scalar(text, expression.location, quoted)
        result: Node | None = solid[0]
        for node in solid[1:]:
            result = result and _join_two(result, node)
        if result is None:
            message = "a text, a list and a block cannot be joined with each other"
            fix = "put a comma or a new line between them"
            return self._broken(expression.location, message, fix, path=expression.where)
        if isinstance(result, ListNode) and len(result.items) > MAX_TEXT:
            message = f"the joined list has more than {MAX_TEXT} elements"
            return self._broken(expression.location, message, path=expression.where)
        return result

    # Looking up

    def _substitution(self, expression: Substitution) -> Node | None:
        skipped = self._skipped
        node = self._find(expression, "")
        if isinstance(node, Scalar):
            return Scalar(node.text, expression.location, node.quoted, node.cut)
        if node is not None or expression.optional:
            return node
        name = expression.name
        message = f"${{{name}}} has no value: not in this file, not from -i, not in the environment"
        if self._skipped != skipped:
            message = f"${{{name}}} refers to itself, and {name} has no value before this line"
        fix = f"give {name} a value above, with -i {name}=..., or write ${{?{name}}} if it may be absent"
        return self._broken(expression.location, message, fix, path=expression.where)

    def _find(self, expression: Substitution, below: str) -> Node | None:
        """The value a substitution names, or of `below` under it. An included file looks in its own object first."""
        name = expression.name
        for full in ([f"{expression.prefix}.{name}"] if expression.prefix else []) + [name]:
            self.used.add(full)
            node = self._lookup(self._root, f"{full}.{below}" if below else full)
            if node is not None:
                return node
        if below:
            return None
        for mapping in (self._variables, self._environ):
            if name in mapping:
                return Scalar(mapping[name], expression.location, quoted=True)
        return None

    def _lookup(self, container: Object, name: str) -> Node | None:
        """The value of a dotted name under both spellings: `a.b = 1` and `a { b = 1 }`."""
        entries = [(statement, rest) for key, rest in splits(name) for statement in container.by_key.get(key, ())]
        entries.sort(key=lambda entry: -entry[0].order)
        found = self._fold(entries)
        node = found.node if found else None
        # `${job}` sees `job.mode = X` too.
        for key in container.dotted_keys:
            if key.startswith(name + "."):
                entry = self._fold((statement, "") for statement in reversed(container.by_key[key]))
                if entry is not None and (node is None or isinstance(node, ObjectNode)):
                    flat = ObjectNode({key[len(name) + 1 :]: entry}, entry.location)
                    node = flat if node is None else merge(node, flat)
        return node

    def _dig(self, expression: Expression, rest: str) -> Node | None:
        """The value of a dotted name below an expression, without working out the rest of that expression."""
        if isinstance(expression, Object) and not expression.plugins:
            return self._lookup(expression, rest)
        if isinstance(expression, Substitution):
            return self._dig_through(expression, rest)
        if isinstance(expression, Join):
            found = None
            for piece in expression.pieces:
                node = self._dig(piece, rest)
                if node is not None:
                    found = node if found is None else merge(found, node)
            return found
        return None

    def _dig_through(self, expression: Substitution, rest: str) -> Node | None:
        """What is below a substitution, unless the way here led through it already.

        `a = ${a.c}` sends who looks for `a.c` on to `a.c.c`, and from there to `a.c.c.c`. Coming through one
        substitution twice without working out an assignment in between is such a way without an end.
        """
        mark = id(expression)
        if mark in self._dug:
            self._skipped += 1
            return None
        self._dug.add(mark)
        node = self._find(expression, rest)
        self._dug.discard(mark)
        return node

    # Folding assignments

    def _fold(self, newest_first: Iterable[_Entry]) -> Field | None:
        """What a row of assignments to one name makes. None: undefined."""
        parts: list[tuple[Node, Statement]] = []
        hidden: set[str] = set()
        for statement, rest in newest_first:
            if rest and statement.key in hidden:
                continue
            node = self._statement(statement, rest)
            if node is not None:
                parts.append((node, statement))
                if not (isinstance(node, ObjectNode) or (isinstance(node, ListNode) and node.append)):
                    break
            elif rest and isinstance(statement.value, Text | Array):
                hidden.add(statement.key)  # `a = 5` took away the older `a { b = 1 }`
        if not parts:
            return None
        newest = parts[0][1]
        result, first = parts.pop()
        while parts:
            node, statement = parts.pop()
            merged = merge(result, node)
            if merged is None:
                merged = self._broken(
                    statement.location,
                    f"+= adds to a list, but the value it adds to ({first.location}) is none",
                    path=statement.key,
                )
            result = merged
        return Field(result, newest.order, newest.location)

    def _statement(self, statement: Statement, rest: str) -> Node | None:
        """The value one assignment gives to `rest` below its key. None: undefined, or being worked out right now."""
        self._steps_left -= 1
        mark = (id(statement), rest)
        if mark in self._memo:
            return self._memo[mark]
        if mark in self._busy:
            self._skipped += 1
            return None
        if len(self._busy) >= MAX_DEPTH or self._steps_left < 0:
            message = "values refer to each other without an end here"
            self._report.problem(statement.location, statement.key, message)
            raise EndlessValues
        skipped = self._skipped
        self._busy.add(mark)
        node = self._dig(statement.value, rest) if rest else self._work_out(statement)
        self._busy.discard(mark)
        if statement.append and not rest:
            node = ListNode(() if node is None else (node,), statement.location, append=True)
        if self._skipped == skipped:
            # Only a value that left nothing out is the same whoever asks for it.
            self._memo[mark] = node
        return node

    def _work_out(self, statement: Statement) -> Node | None:
        dug, self._dug = self._dug, set()
        node = self._evaluate(statement.value)
        self._dug = dug
        return node

    def _broken(self, location: Location, message: str, fix: str = "", *, path: str) -> BrokenNode:
        self._report.problem(location, path, message, fix)
        return BrokenNode(location)


def _join_two(left: Node, right: Node) -> Node | None:
    if isinstance(left, ObjectNode) and isinstance(right, ObjectNode):
        return merge(left, right)
    if isinstance(left, ListNode) and isinstance(right, ListNode):
        return ListNode(left.items + right.items, left.location, left.append and right.append)
    return None
