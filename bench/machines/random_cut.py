"""Writes a random graph, cut at random, as a dataset (docs/formats.md), for graphs that are larger than the memory that `generate` and
`partition` take: nothing here is larger than a byte for each node.

Node o has dataset id (a * o + b) mod N, with a and N coprime, so that neighbours by original id lie anywhere. Rows have 0 to twice
`degree` edges, from sources that are drawn evenly. There are no attributes and no edge ids; the split "train" has each hundredth node.
The hotness of all is the same.
"""
import json
import math
import os
import pathlib

import numpy
import xxhash

CHUNK = 1 << 22
TRAIN = 100  # of so many nodes one is in the split
ZEROS = "0" * 16  # in the place of a checksum
NODE, EDGE = "node", "node__to__node"


class Npy:
    """A file of an array, written in pieces; `files` learns its size and checksum."""

    def __init__(self, files, folder, relative, dtype, shape):
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        self.files, self.relative, self.dtype = files, relative, numpy.dtype(dtype)
        self.out, self.sum, self.left = open(path, "wb"), xxhash.xxh3_64(), math.prod(shape)
        descr = self.dtype.descr if self.dtype.names else self.dtype.str
        text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {tuple(shape)!r}, }}".encode()
        text += b" " * (-(len(text) + 11) % 64) + b"\n"
        self.put(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)

    def put(self, data):
        self.sum.update(data)
        self.out.write(data)

    def write(self, array):
        array = numpy.ascontiguousarray(array, self.dtype)
        self.left -= array.size
        self.put(array.view(numpy.uint8).data if array.size else b"")

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        size = self.out.tell()
        self.out.close()
        if not failed and self.left:
            raise ValueError(f"{self.relative} lacks {self.left} elements")
        self.files[self.relative] = {"bytes": size, "xxh3": self.sum.hexdigest()}


class RandomCut:
    """The graph, by formulas: `original(ids)` and `dataset(originals)` are each other's inverse."""

    def __init__(self, nodes, degree, parts, seed):
        self.nodes, self.degree, self.parts, self.seed = nodes, degree, parts, seed
        self.a = nodes * 618 // 1000 | 1
        while math.gcd(self.a, nodes) != 1:
            self.a += 2
        self.b, self.inverse = nodes // 3, pow(self.a, -1, nodes)
        if self.a * nodes >= 1 << 63 or self.inverse * nodes >= 1 << 63:
            raise ValueError(f"{nodes} nodes: products of ids need more than 63 bits")
        self.id = numpy.dtype("<i4" if nodes <= 1 << 31 else "<i8")
        self.offsets = [nodes * p // parts for p in range(parts + 1)]  # of partitions, and of ranges of ids

    def dataset(self, originals):
        return (originals * self.a + self.b) % self.nodes

    def original(self, ids):
        return (ids - self.b) % self.nodes * self.inverse % self.nodes

    def chunks(self, begin, end):
        for first in range(begin, end, CHUNK):
            yield numpy.arange(first, min(first + CHUNK, end), dtype=numpy.int64)

    def degrees(self, ids):
        return numpy.random.default_rng([self.seed, 1, int(ids[0])]).integers(0, 2 * self.degree + 1, len(ids))

    def sources(self, ids, count):
        return numpy.random.default_rng([self.seed, 2, int(ids[0])]).integers(0, self.nodes, count, dtype=self.id)

    def train(self):
        return numpy.arange(0, self.nodes, TRAIN, dtype=numpy.int64)


def write_rows(cut, files, folder, p):
    """Rows, sources and hotness of a partition; returns how many edges, and a bit for each node: edges come from it."""
    begin, end = cut.offsets[p], cut.offsets[p + 1]
    edges = int(sum(int(cut.degrees(ids).sum()) for ids in cut.chunks(begin, end)))
    seen = numpy.zeros(cut.nodes, numpy.bool_)
    record = numpy.dtype([("offset", "<i8"), ("original_id", "<i8")])
    part = f"part-{p:04}"
    with (Npy(files, folder, f"{part}/edges/{EDGE}/rows.npy", record, [end - begin + 1]) as rows,
          Npy(files, folder, f"{part}/edges/{EDGE}/indices.npy", cut.id, [edges]) as indices,
          Npy(files, folder, f"{part}/nodes/{NODE}/hotness.npy", "<f8", [end - begin]) as hotness):
        at = 0
        for ids in cut.chunks(begin, end):
            degrees = cut.degrees(ids)
            records = numpy.empty(len(ids), record)
            records["offset"] = at + numpy.cumsum(degrees) - degrees
            records["original_id"] = cut.original(ids)
            rows.write(records)
            count = int(degrees.sum())
            sources = cut.sources(ids, count)
            seen[sources] = True
            indices.write(sources)
            hotness.write(numpy.zeros(len(ids)))
            at += count
        rows.write(numpy.array([(edges, -1)], record))
    return edges, seen


def bucket_of(ids, scale):
    """ids * scale / 2^64, rounded down; ids are below 2^32."""
    ids = ids.astype(numpy.uint64)
    high, low = numpy.uint64(scale >> 32), numpy.uint64(scale & 0xFFFFFFFF)
    return (ids * high + (ids * low >> numpy.uint64(32))) >> numpy.uint64(32)


def write_remote_ids(cut, files, folder, p, seen):
    """The nodes elsewhere that edges come from, and the buckets of them; returns how many there are."""
    seen[cut.offsets[p]:cut.offsets[p + 1]] = False
    count = int(numpy.count_nonzero(seen))
    buckets = count // 8 + 1
    scale = min((buckets << 64) // cut.nodes, (1 << 64) - 1)
    sizes = numpy.zeros(buckets, numpy.int64)
    with Npy(files, folder, f"part-{p:04}/ids/{NODE}/remote.npy", cut.id, [count, 2]) as entries:
        for first in range(0, cut.nodes, CHUNK):
            ids = first + numpy.flatnonzero(seen[first:first + CHUNK])
            entries.write(numpy.stack([ids, cut.original(ids)], 1))
            if len(ids):
                of = bucket_of(ids, scale).astype(numpy.int64)
                sizes[of[0]:of[-1] + 1] += numpy.bincount(of - of[0], minlength=int(of[-1] - of[0]) + 1)
    with Npy(files, folder, f"part-{p:04}/ids/{NODE}/buckets.npy", "<i8", [buckets + 1]) as out:
        out.write(numpy.concatenate([[0], numpy.cumsum(sizes)]))
    return count


def write_sharded_ids(cut, files, folder):
    train = cut.train()
    for p in range(cut.parts):
        begin, end = cut.offsets[p], cut.offsets[p + 1]
        with Npy(files, folder, f"part-{p:04}/ids/{NODE}/new_ids.npy", cut.id, [end - begin]) as new_ids:
            for originals in cut.chunks(begin, end):
                new_ids.write(cut.dataset(originals))
        own = train[len(train) * p // cut.parts:len(train) * (p + 1) // cut.parts]
        with Npy(files, folder, f"part-{p:04}/splits/{NODE}/train.npy", "<i8", [len(own), 2]) as split:
            split.write(numpy.stack([own, cut.dataset(own)], 1))


def write_replicated_ids(cut, files, folder):
    for name, ids_of in (("new_ids", cut.dataset), ("original_ids", cut.original)):
        with Npy(files, folder, f"nodes/{NODE}/{name}.npy", cut.id, [cut.nodes]) as out:
            for ids in cut.chunks(0, cut.nodes):
                out.write(ids_of(ids))
    with Npy(files, folder, f"splits/{NODE}/train.npy", "<i8", [len(cut.train())]) as split:
        split.write(cut.train())


def write_meta(folder, meta):
    text = json.dumps({"checksum": ZEROS, **meta}, indent=1) + "\n"
    done = folder / "meta.json.new"
    done.write_text(text.replace(ZEROS, xxhash.xxh3_64_hexdigest(text.encode()), 1), encoding="utf-8")
    os.replace(done, folder / "meta.json")


def write_random_cut(folder, nodes, degree=2, parts=4, sharded=True, seed=1):
    """Its fingerprint is zeros: `hopfeed-partition verify` says what it is, at its end, and take_fingerprint() writes that."""
    cut = RandomCut(nodes, degree, parts, seed)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    files, edges, remote = {}, [], []
    for p in range(parts):
        of_part, seen = write_rows(cut, files, folder, p)
        edges.append(of_part)
        if sharded:
            remote.append(write_remote_ids(cut, files, folder, p, seen))
    (write_sharded_ids if sharded else write_replicated_ids)(cut, files, folder)
    id_name = "int32" if cut.id.itemsize == 4 else "int64"
    write_meta(folder, {
        "format": "hopfeed-dataset", "version": 10 if sharded else 4, "name": f"random {nodes}", "fingerprint": "0" * 32,
        "made_by": "bench/machines/random_cut.py", "class_names": [], "partitions": parts,
        "cut": {"method": "random", "fanouts": [15, 10, 5], "batch_size": 1024, "edges_cut": sum(edges) * (parts - 1) // parts,
                "seed": f"{seed:016x}"},
        **({"ids": "sharded"} if sharded else {}),
        "node_types": [{"name": NODE, "count": nodes, "partition_offsets": cut.offsets, "new_id_type": id_name, "attrs": [],
                        "splits": {"train": len(cut.train())}, "num_classes": 0, **({"remote_sources": remote} if sharded else {})}],
        "edge_types": [{"src": NODE, "rel": "to", "dst": NODE, "count": sum(edges), "partition_edges": edges, "index_type": id_name,
                        "has_edge_ids": False, "edge_id_type": id_name, "attrs": [], "weights": [], "times": []}],
        "files": files})
    return {"nodes": nodes, "edges": sum(edges), "remote_sources": remote}


def take_fingerprint(folder, fingerprint):
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    meta.pop("checksum")
    write_meta(folder, {**meta, "fingerprint": fingerprint})
