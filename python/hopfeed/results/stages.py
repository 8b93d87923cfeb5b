"""What is computed: stages one behind the other, each of them a task for each node type, and the rows between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hopfeed.results.convolutions import Convolution

EdgeType = tuple[str, str, str]
Tensor = Any  # of torch, which is imported where it is used


@dataclass(frozen=True)
class Value:
    """Rows of all nodes of a type: what is read (``x``), or what a stage makes."""

    node_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.name}/{self.node_type}"


@dataclass
class Relation:
    """A convolution over the in-edges of an edge type."""

    edge_type: EdgeType
    source: Value
    own: Value
    convolution: Convolution


@dataclass
class Task:
    """All rows of one node type in a stage.

    Attributes:
        layer: what errors call it.
        rows: values that ``finish`` reads at the task's own rows.
        finish: from what the relations give and the own rows to the outputs.
    """

    node_type: str
    layer: str
    relations: list[Relation]
    outputs: list[Value]
    finish: Callable[[list[Tensor], dict[Value, Tensor]], Sequence[Tensor]]
    rows: list[Value] = field(default_factory=list)

    def reads(self) -> set[Value]:
        """All that it needs."""
        return {value for relation in self.relations for value in (relation.source, relation.own)} | set(self.rows)


@dataclass
class Model:
    """A user's layers.

    Attributes:
        stages: in their order.
        results: by node type, what the last layer gives.
        modules: of torch; their parameters decide the results.
        callables: what else does.
    """

    stages: list[list[Task]]
    results: dict[str, Value]
    modules: list[Any]
    callables: list[Any]

    def restrict(self, node_types: Iterable[str]) -> None:
        """Leaves out what these types' results do not need."""
        self.results = {name: value for name, value in self.results.items() if name in set(node_types)}
        wanted = set(self.results.values())
        for at in reversed(range(len(self.stages))):
            self.stages[at] = [task for task in self.stages[at] if wanted & set(task.outputs)]
            for task in self.stages[at]:
                wanted |= task.reads()
        self.stages = [stage for stage in self.stages if stage]

    def inputs(self) -> list[Value]:
        """Values that no stage makes, in a fixed order."""
        made = {value for stage in self.stages for task in stage for value in task.outputs}
        read = {value for stage in self.stages for task in stage for value in task.reads()} | set(self.results.values())
        return sorted(read - made, key=str)

    def last_use(self, value: Value) -> int:
        """The stage behind which nobody reads it; -1: none does."""
        return max((at for at, stage in enumerate(self.stages) for task in stage if value in task.reads()), default=-1)
