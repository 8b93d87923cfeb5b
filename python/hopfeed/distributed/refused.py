"""DGL's calls that have no counterpart here, with what to use in their place."""

from __future__ import annotations

from hopfeed.errors import UnsupportedError

_BLOCKS = "batches come whole from DistNodeDataLoader or DistEdgeDataLoader, which draw hop by hop where the rows lie"
_ENDS = "edges are known by their ends here: keep pairs of nodes [2, E], such as g.edges[etype].data['train_mask'].pairs()"
_MAKE = "make the dataset with hopfeed-partition import, cut it with hopfeed-partition partition --parts N (hopfeed.partition)"
_SERVER = "servers are programs: hopfeed-server, or hopfeed-launch for all machines"
_BOOK = "DistGraph.get_partition_book() tells where nodes lie"
_POLICY = "rows lie at the owners of their nodes' partitions; give ntype= in place of a policy"
_WIRE = "rows travel by hopfeed's own connections; DistGraph, DistTensor and DistEmbedding ask for them"

OF_PACKAGE = {
    "partition_graph": _MAKE,
    "load_partition": "DistGraph() opens it; hopfeed.Dataset(folder) reads a folder",
    "load_partition_book": _BOOK,
    "load_partition_feats": "DistGraph().ndata[name][ids] reads rows of any partition",
    "dgl_partition_to_graphbolt": _MAKE,
    "GraphPartitionBook": _BOOK,
    "BasicPartitionBook": _BOOK,
    "RangePartitionBook": _BOOK,
    "PartitionPolicy": _POLICY,
    "NodePartitionPolicy": _POLICY,
    "EdgePartitionPolicy": _POLICY,
    "sample_neighbors": _BLOCKS,
    "sample_etype_neighbors": _BLOCKS,
    "in_subgraph": "DistNodeDataLoader with MultiLayerFullNeighborSampler(1) gives the in-edges of its seeds",
    "edge_subgraph": _ENDS,
    "node_subgraph": "hopfeed.torch.Loader(subgraph='induced') gives all edges between a batch's nodes",
    "find_edges": _ENDS,
    "in_degrees": "DistGraph.in_degrees(ids)",
    "out_degrees": "edges lie with their destinations, so nobody counts the others; store the counts as an attribute when you import",
    "DistDataLoader": "DistNodeDataLoader and DistEdgeDataLoader",
    "NodeCollator": "DistNodeDataLoader makes batches of its seeds by itself",
    "EdgeCollator": "DistEdgeDataLoader makes batches of its links by itself",
    "connect_to_server": "initialize(peers=...) or initialize(servers=...) says where servers are; they are connected when they are asked",
    "nn": "DistEmbedding",
    "DistGraphServer": _SERVER,
    "start_server": _SERVER,
    "shutdown_servers": _SERVER,
    "get_kvstore": _WIRE,
    "KVClient": _WIRE,
    "KVServer": _WIRE,
    "rpc": _WIRE,
    "Request": _WIRE,
    "Response": _WIRE,
    "NodeEmbedding": "DistEmbedding",
    "get_rank": "torch.distributed.get_rank()",
    "get_num_client": "torch.distributed.get_world_size()",
    "barrier": "torch.distributed.barrier()",
    "ShaDowKHopSampler": "hopfeed has no ShaDow; NeighborSampler, or hopfeed.torch.Loader(subgraph='induced')",
    "LaborSampler": "NeighborSampler, with labor=True at the loader",
    "PerSourceUniform": "Uniform, which draws destinations for each source",
}

OF_GRAPH = {
    "local_partition": "a trainer may have no folder at all; hopfeed.Dataset(folder) reads what is here",
    "sample_neighbors": _BLOCKS,
    "sample_etype_neighbors": _BLOCKS,
    "in_subgraph": OF_PACKAGE["in_subgraph"],
    "edge_subgraph": _ENDS,
    "find_edges": _ENDS,
    "edge_ids": _ENDS,
    "has_edges_between": "hopfeed.torch.Loader(edge_type=..., negatives='binary', strict=True) draws pairs that are no edges",
    "out_degrees": OF_PACKAGE["out_degrees"],
    "in_edges": OF_PACKAGE["in_subgraph"],
    "out_edges": OF_PACKAGE["out_degrees"],
    "predecessors": OF_PACKAGE["in_subgraph"],
    "successors": OF_PACKAGE["out_degrees"],
    "update_all": "compute on blocks; over all nodes call the loader with MultiLayerFullNeighborSampler, layer by layer",
    "apply_edges": "compute on blocks",
    "adj": "hopfeed.Dataset(folder).edge_index(), where all partitions are in one folder",
    "add_nodes": "datasets do not change; import again",
    "add_edges": "datasets do not change; import again",
    "remove_nodes": "datasets do not change; import again",
    "remove_edges": "datasets do not change; import again",
    "flush": "nothing waits to be written: a DistTensor's rows are there when the call returns",
    "barrier": OF_PACKAGE["barrier"],
    "nodes()": "ids are the numbers below num_nodes(ntype); nodes[ntype].data has attributes and splits",
    "edges()": "edges lie on several machines; hopfeed.Dataset(folder).edge_index() has them, where all partitions are in one folder",
    "to": "batches are moved, and not the graph: block.to(device)",
    "device": "the graph lies in the memory of hosts; block.to(device) moves a batch",
    "idtype": "ids are int64 everywhere",
    "get_node_partition_policy": _POLICY,
    "get_edge_partition_policy": _POLICY,
}

OF_BOOK = {
    "eid2partid": "an edge lies with its destination: nid2partid(destinations)",
    "partid2eids": "an edge lies with its destination: hopfeed.Dataset(folder).edge_index(), then nid2partid",
    "nid2localnid": "ids are the original ones everywhere, and nothing is renumbered",
    "eid2localeid": _ENDS,
    "map_to_homo_nid": "ids are original ones of their type, and nothing is renumbered",
    "map_to_per_ntype": "ids are original ones of their type, and nothing is renumbered",
    "map_to_homo_eid": _ENDS,
    "map_to_per_etype": _ENDS,
    "shared_memory": "all processes of a machine map the same files",
}


OF_LOADERS = {
    "use_ddp": "node_split and edge_split share the seeds out, or distributed=True does in each epoch",
    "ddp_seed": "seed=",
    "use_uva": "batches lie in the host's memory: block.to(device)",
    "gpu_cache": "batches lie in the host's memory: block.to(device)",
    "persistent_workers": "sampling processes live as long as the loader",
    "use_prefetch_thread": "sampling processes or servers work ahead; num_slots= says how far",
    "use_alternate_streams": "block.to(device, non_blocking=True) on a stream of yours",
    "queue_size": "num_slots= says how many batches are made ahead",
    "collate_fn": "change batches in the loop",
}


def refuse(table: dict[str, str], owner: str, name: str) -> UnsupportedError | AttributeError:
    """What to raise for ``owner.name``: one line with what to use, or what Python says of a name that nobody knows.

    The former is no ``AttributeError``: ``from hopfeed.distributed import NAME`` would swallow the line.
    """
    if name in table:
        return UnsupportedError(f"{owner}.{name} is DGL's, and hopfeed has none: {table[name]}")
    return AttributeError(f"{owner} has no attribute {name!r}")
