"""The words of the commands that import tables, and of the doors from other systems' folders."""

from __future__ import annotations

import argparse
from typing import Any

from hopfeed.errors import InvalidError

PROGRAM = "hopfeed-partition import"
_SAME = ("parts", "assign", "seed", "dangling", "duplicates", "nulls", "like", "by_id", "ids", "memory", "threads", "work", "rejected", "overwrite", "dry_run")
_DOORS = ("task", "features", "label", "weight", "time", "comment", "undirected", "node", "rel", "name")
_FLAGS = {"no_keys": "keys", "no_edge_ids": "edge_ids"}  # options that are the opposite of an argument


def parser(name: str) -> argparse.ArgumentParser:
    """Of one command: ``tables``, ``graphbolt``, ``chunked`` or ``snap``."""
    made = argparse.ArgumentParser(f"{PROGRAM} {name}", description=_ABOUT[name])
    made.add_argument("folder", metavar="DIR", help="dataset folder to make" + ("; with --infer the description" if name == "tables" else ""))
    {"tables": _tables, "graphbolt": _graphbolt, "chunked": _chunked, "snap": _snap}[name](made)
    _common(made, name)
    return made


_ABOUT = {
    "tables": "Tables in Parquet or CSV, with keys of their own, become a dataset.",
    "graphbolt": "The folder of a GraphBolt OnDiskDataset becomes a dataset.",
    "chunked": "A chunked graph of DistDGL becomes a dataset.",
    "snap": "Edge lists as SNAP has them become a dataset; their ids are its keys.",
}


def _common(made: argparse.ArgumentParser, name: str) -> None:
    add, of_tables = made.add_argument, name == "tables"
    add("--parts", type=int, default=1, metavar="N", help="partitions")
    add("--assign", default="hash", metavar="hash|ldg|metis|FILE", help="the cut: a hash of the key, by the edges (LDG; METIS where the graph fits into memory), or a table of key and partition (and type)")
    add("--seed", type=int, default=0, metavar="N", help="of hashes")
    if of_tables:
        add("--dangling", default="error", choices=("error", "drop", "add"), help="edges with an end in no node table")
        add("--duplicates", default="error", choices=("error", "same", "smallest"), help="several rows of one key: refuse them, take one where they are the same, or the smallest by all columns")
        add("--nulls", default="error", choices=("error", "0"), help="missing values of attributes")
    elif name != "snap":
        add("--dangling", default="error", choices=("error", "drop"), help="edges with an end that is no node")
    add("--rejected", metavar="FILE", help="keep the rows that were left out, or that the import failed by: a JSON object a line")
    add("--like", metavar="DATASET", help="take classes and types from another import, and refuse what its model could not take")
    if name in ("tables", "snap"):
        add("--no-keys", action="store_true", help="do not keep the keys in the dataset")
    add("--no-edge-ids", action="store_true", help="store no edge ids")
    add("--by-id", action="store_true", help="order each row by source ids too")
    add("--ids", default="auto", choices=("replicated", "sharded", "auto"), help="sharded: each partition has a range of the ids, and no machine those of all nodes; auto: from 100 million nodes of a type on")
    add("--memory", metavar="BYTES", help="what this process may take (8G); half of the machine's without")
    add("--threads", type=int, metavar="N", help="the result is the same with any number")
    add("--work", metavar="DIR", help="a hidden folder in it has the stages until the dataset is whole; without, it lies beside the dataset")
    add("--overwrite", action="store_true", help="replace a dataset that is in DIR")
    add("--json", metavar="FILE", help="write a report as JSON")
    add("--dry-run", action="store_true", help="say what was understood, and what it will take")


def _tables(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("description", metavar="DESCRIPTION", nargs="?", help="JSON or YAML; docs/importing.md has an example")
    add("--infer", action="store_true", help="write a first description to DIR (a .json file) from --nodes and --edges")
    add("--nodes", action="append", default=[], metavar="TYPE=TABLE", help="with --infer")
    add("--edges", action="append", default=[], metavar="SRC,REL,DST=TABLE", help="with --infer")


def _graphbolt(made: argparse.ArgumentParser) -> None:
    made.add_argument("source", metavar="FOLDER", help="where metadata.yaml is")
    made.add_argument("--task", metavar="NAME", help="whose sets are splits and labels: those of the only one without; none: of no task")
    _wishes(made)


def _chunked(made: argparse.ArgumentParser) -> None:
    made.add_argument("source", metavar="METADATA", help="metadata.json, or its folder")
    _wishes(made)


def _wishes(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("--features", metavar="NAME", help="the array of nodes that becomes x: x, feat or features without; none: no array")
    add("--label", metavar="NAME", help="the array of nodes that becomes y: y, label or labels without; none: no array")
    add("--weight", metavar="NAME", help="an array of edges that batches can be drawn by")
    add("--time", metavar="NAME", help="an array of edges that rows are ordered by")
    add("--rename", action="append", default=[], metavar="NAME=NEW", help="what a type, a relation or an array is called in the dataset")


def _snap(made: argparse.ArgumentParser) -> None:
    add = made.add_argument
    add("source", metavar="FILE", nargs="+", help="text of one edge a line, also with .gz; several are one edge type")
    add("--columns", default="src,dst", metavar="NAMES", help="of the columns: src, dst, weight, time, others, and - for one that is left out (src,dst)")
    add("--comment", default="#", metavar="TEXT", help="what lines begin with that are left out")
    add("--undirected", action="store_true", help="each line is an edge both ways")
    add("--node", default="node", metavar="NAME", help="of the node type")
    add("--rel", default="to", metavar="NAME", help="of the relation")
    add("--name", metavar="NAME", help="of the dataset; that of the first file without")


def arguments(given: argparse.Namespace) -> dict[str, Any]:
    """The keywords of the functions that the words are of."""
    told = {name: value for name, value in vars(given).items() if name in (*_SAME, *_DOORS)}
    told |= {argument: not getattr(given, name) for name, argument in _FLAGS.items() if hasattr(given, name)}
    if hasattr(given, "rename"):
        told["rename"] = dict(pair(one, "--rename") for one in given.rename)
    if hasattr(given, "columns"):
        told["columns"] = given.columns.split(",")
    return told


def pair(given: str, option: str) -> tuple[str, str]:
    """Of ``NAME=VALUE``."""
    name, sign, value = given.partition("=")
    if not sign or not name or not value:
        raise InvalidError(f"{option} {given}: expected a name, '=' and {'another' if option == '--rename' else 'a table'}")
    return name, value
