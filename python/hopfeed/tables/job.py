"""What all stages of an import share: its options, its plan, the engine, and where stages lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hopfeed.tables import sql
from hopfeed.tables.arrays import blocks, opened
from hopfeed.tables.dirt import Rejected, Told
from hopfeed.tables.engine import Engine
from hopfeed.tables.plan import Plan
from hopfeed.tables.work import Stage, Work


@dataclass(frozen=True)
class Options:
    """What is asked for beside the tables; docs/importing.md says what each is."""

    parts: int = 1
    assign: str = "hash"
    seed: int = 0
    dangling: str = "error"
    duplicates: str = "error"
    nulls: str = "error"
    keys: bool = True
    edge_ids: bool = True
    by_id: bool = False
    ids: str = "auto"
    rejected: Path | None = None


@dataclass
class Job:
    """One import. Stages are put in here as they become whole.

    Attributes:
        counts: nodes of each type.
        keys: ``keys.parquet``: the keys in order; a row's number is its node's original id.
        ids: ``ids-N.parquet``: edges by original ids, in no order.
        order: ``order.parquet``: original ids in the order of dataset ids.
    """

    options: Options
    plan: Plan
    engine: Engine
    work: Work
    told: Told
    rejected: Rejected
    say: Callable[[str], None]
    checks: dict[int, Stage] = field(default_factory=dict)
    keys: list[Stage] = field(default_factory=list)
    ids: dict[int, Stage] = field(default_factory=dict)
    degrees: Stage | None = None
    order: list[Stage] = field(default_factory=list)
    splits: dict[int, Stage] = field(default_factory=dict)

    @property
    def counts(self) -> list[int]:
        return [stage.facts["count"] for stage in self.keys]

    def key_table(self, node_type: int) -> str:
        """Keys as a table: ``key``, and ``file_row_number``, the original id."""
        return sql.parquet(self.keys[node_type] / "keys.parquet", numbered=True)

    def order_table(self, node_type: int) -> str:
        """The order as a table: ``id``, ``degree``, ``partition``, and ``file_row_number``, the dataset id."""
        return sql.parquet(self.order[node_type] / "order.parquet", numbered=True)

    def ids_table(self, number: int) -> str:
        """Edges as a table: ``src``, ``dst``, and their columns."""
        return sql.parquets(sorted(self.ids[number].folder.glob("ids-*.parquet")))

    def edge_query(self, number: int) -> str:
        """Edges of a type by original ids: ``src``, ``dst``, and its columns."""
        edges = self.plan.edges[number]
        columns = edges.columns.passed()
        if edges.source is None:
            assert edges.edges.rev_of is not None
            return f"SELECT dst AS src, src AS dst{columns} FROM ({self.edge_query(edges.edges.rev_of)})"
        ids = self.ids_table(number)
        query = f"SELECT src, dst{columns} FROM {ids}"
        if edges.edges.undirected:
            query += f" UNION ALL SELECT dst AS src, src AS dst{columns} FROM {ids} WHERE src <> dst"
        return query

    def partition_edges(self, number: int) -> list[int]:
        """Edges of a type that end in each partition."""
        assert self.degrees is not None
        _, target = self.plan.ends(self.plan.edges[number])
        first, total = opened(self.degrees / f"first-{number}.npy"), self.degrees.facts["edges"][number]
        original, offsets = opened(self.order[target] / "original_ids.npy"), self.order[target].facts["offsets"]
        found = []
        for begin, end in zip(offsets, offsets[1:]):
            sum_of = 0
            for at in blocks(end - begin):
                ids = original[begin + at.start : begin + at.stop]
                ends = np.where(ids + 1 < len(first), first[np.minimum(ids + 1, len(first) - 1)], total)
                sum_of += int(np.sum(ends - first[ids]))
            found.append(sum_of)
        return found

    def node_rows(self, number: int) -> str:
        """The rows of a node type's table as ``key, c0, ...``, one for each key."""
        plan, duplicates = self.plan.nodes[number], self.keys[number] / "duplicates.parquet"
        if not self.keys[number].facts["duplicates"]:
            return plan.relation
        twice = sql.parquet(duplicates)
        one_each = plan.one_of_each(f"(SELECT * FROM {plan.relation} SEMI JOIN {twice} USING (key))")
        return f"(SELECT * FROM {plan.relation} ANTI JOIN {twice} USING (key) UNION ALL (SELECT * FROM ({one_each})))"
