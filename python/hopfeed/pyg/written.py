"""Which fields the loaders of PyG write themselves. They come last: a tensor of that name in the graph gives way."""

from __future__ import annotations

from dataclasses import dataclass

from hopfeed.pyg.graph import Graph

NODE, EDGE = 1, 2  # kinds of stores in _core.Batch.arrays
Place = tuple[int, int]  # kind and number of a store
_LINKS = {"edge_label_index", "edge_label", "edge_label_time"}
_ENDS_OF_TRIPLETS = {"src_index": 0, "dst_pos_index": 1, "dst_neg_index": 1}


@dataclass(frozen=True)
class Inputs:
    """What a loader starts from.

    Attributes:
        place: the store of the seeds' node type, or of the links' edge type.
        triplets: links with triplet negatives.
        trees: each seed has a tree of its own (``disjoint``).
        hops: the batch is told hop by hop.
        drawn: the drawn edges are kept beside those of both directions.
        timed: the seeds' times were given.
        path: the edge types that walks go by, in turn.
    """

    place: Place
    triplets: bool
    trees: bool
    hops: bool
    drawn: bool
    timed: bool
    path: tuple[int, ...] = (0,)

    def writes(self, graph: Graph) -> set[tuple[int, int, str]]:
        """(kind, number, field) of all that PyG's loader writes, None (which removes a field) included."""
        kind, number = self.place
        names: dict[Place, set[str]] = {self.place: {"input_id"}}
        of_edges = {"_orig_edge_index"} if self.drawn else set()
        if kind == NODE:
            names[self.place] |= {"seed_time", "batch_size"}
        elif self.triplets:
            names[self.place] |= {"edge_label_index", "edge_label_time"}
            for name, end in _ENDS_OF_TRIPLETS.items():
                names.setdefault((NODE, graph.ends[number][end]), set()).update({name, "seed_time"})
        else:
            names[self.place] |= _LINKS
        if graph.typed:  # PyG writes no None into the stores of types
            for node in range(len(graph.node_keys)):
                names.setdefault((NODE, node), set()).update({"batch"} if self.trees else set(), {"num_sampled_nodes"} if self.hops else set())
            for edge in range(len(graph.edge_keys)):
                names.setdefault((EDGE, edge), set()).update(of_edges, {"num_sampled_edges"} if self.hops else set())
            return {(*place, name) for place, found in names.items() for name in found}
        every = {"batch", "num_sampled_nodes", "num_sampled_edges"}.union(of_edges, *names.values())
        return {(kind, 0, name) for kind in (NODE, EDGE) for name in every}

    def places(self, graph: Graph, kind: int, number: int, name: str) -> list[Place]:
        """The stores of PyG's batch that a field of hopfeed's goes to: what triplets have of the links' edge type lies
        on the types of their ends."""
        if kind == EDGE and graph.typed:
            if name in _ENDS_OF_TRIPLETS:
                return [(NODE, graph.ends[number][_ENDS_OF_TRIPLETS[name]])]
            if name == "seed_time":
                return [(NODE, end) for end in dict.fromkeys(graph.ends[number])]
        return [(kind, number)]
