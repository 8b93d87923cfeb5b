"""``python -m hopfeed.tables``, which ``hopfeed-partition import tables`` starts."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopfeed.errors import Error, InvalidError
from hopfeed.tables.importing import import_tables, infer_description, say_on_stderr
from hopfeed.tables.work import write_whole

_PROGRAM = "hopfeed-partition import tables"
_REFUSED, _FAILED = 2, 1  # exit codes: input that cannot be served; anything else


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(_PROGRAM, description="Tables in Parquet or CSV, with keys of their own, become a dataset.")
    parser.add_argument("folder", metavar="DIR", help="dataset folder to make; with --infer the description")
    parser.add_argument("description", metavar="DESCRIPTION", nargs="?", help="JSON or YAML; docs/importing.md has an example")
    add = parser.add_argument
    add("--parts", type=int, default=1, metavar="N", help="partitions")
    add("--assign", default="hash", metavar="hash|ldg|metis|FILE", help="the cut: a hash of the key, by the edges (LDG; METIS where the graph fits into memory), or a table of key and partition (and type)")
    add("--seed", type=int, default=0, metavar="N", help="of hashes")
    add("--dangling", default="error", choices=("error", "drop", "add"), help="edges with an end in no node table")
    add("--duplicates", default="error", choices=("error", "same", "smallest"), help="several rows of one key: refuse them, take one where they are the same, or the smallest by all columns")
    add("--nulls", default="error", choices=("error", "0"), help="missing values of attributes")
    add("--rejected", metavar="FILE", help="keep the rows that were left out, or that the import failed by: a JSON object a line")
    add("--like", metavar="DATASET", help="take classes and types from another import, and refuse what its model could not take")
    add("--no-keys", action="store_true", help="do not keep the keys in the dataset")
    add("--no-edge-ids", action="store_true", help="store no edge ids")
    add("--by-id", action="store_true", help="order each row by source ids too")
    add("--memory", metavar="BYTES", help="what this process may take (8G); half of the machine's without")
    add("--threads", type=int, metavar="N", help="the result is the same with any number")
    add("--work", metavar="DIR", help="where stages lie until the dataset is whole; a hidden folder beside it without")
    add("--overwrite", action="store_true", help="replace a dataset that is in DIR")
    add("--json", metavar="FILE", help="write a report as JSON")
    add("--dry-run", action="store_true", help="say what was understood, and what it will take")
    add("--infer", action="store_true", help="write a first description to DIR (a .json file) from --nodes and --edges")
    add("--nodes", action="append", default=[], metavar="TYPE=TABLE", help="with --infer")
    add("--edges", action="append", default=[], metavar="SRC,REL,DST=TABLE", help="with --infer")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command; gives its exit code."""
    words = sys.argv[1:] if words is None else list(words)
    given = _parser().parse_args(words)
    try:
        told = _infer(given) if given.infer else _import(given, words)
        if given.json:
            write_whole(Path(given.json), json.dumps(told, indent=1) + "\n")
    except Error as error:
        print(f"{_PROGRAM}: {error}", file=sys.stderr)
        return _REFUSED if isinstance(error, InvalidError) else _FAILED
    except OSError as error:
        print(f"{_PROGRAM}: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{_PROGRAM}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _infer(given: argparse.Namespace) -> dict[str, Any]:
    if not given.edges and not given.nodes:
        raise InvalidError("--infer wants --nodes TYPE=TABLE and --edges SRC,REL,DST=TABLE")
    path = Path(given.folder)
    if path.exists():
        raise InvalidError(f"{path} is there already; --infer writes a new description")
    nodes = dict(_pair(one, "--nodes") for one in given.nodes)
    edges = {}
    for one in given.edges:
        name, table = _pair(one, "--edges")
        parts = tuple(name.split(","))
        if len(parts) != 3:
            raise InvalidError(f"--edges {one}: expected SRC,REL,DST=TABLE")
        edges[(parts[0], parts[1], parts[2])] = table
    base = path.absolute().parent
    told = infer_description(nodes, edges)
    for one in [*told["nodes"], *told["edges"]]:
        if "table" in one and "://" not in one["table"]:
            one["table"] = os.path.relpath(one["table"], base)  # as the description's reader has it
    write_whole(path, json.dumps(told, indent=1) + "\n")
    print(f"{path}: {len(told['nodes'])} node types, {len(told['edges'])} edge types; look at it, then: {_PROGRAM} DIR {path} --dry-run")
    return told


def _pair(given: str, option: str) -> tuple[str, str]:
    name, sign, table = given.partition("=")
    if not sign or not name or not table:
        raise InvalidError(f"{option} {given}: expected a name, '=' and a table")
    return name, table


def _import(given: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    if given.description is None:
        raise InvalidError("give a DESCRIPTION; --infer writes a first one")
    told = import_tables(
        given.folder,
        given.description,
        parts=given.parts,
        assign=given.assign,
        seed=given.seed,
        dangling=given.dangling,
        duplicates=given.duplicates,
        nulls=given.nulls,
        like=given.like,
        keys=not given.no_keys,
        edge_ids=not given.no_edge_ids,
        by_id=given.by_id,
        memory=given.memory,
        threads=given.threads,
        work=given.work,
        rejected=given.rejected,
        overwrite=given.overwrite,
        dry_run=given.dry_run,
        made_by=shlex.join([*_PROGRAM.split(), *words]),
        say=say_on_stderr,
    )
    if given.dry_run:
        from hopfeed.tables.report import lines

        print("\n".join(lines(told)))
    else:
        nodes, edges = (sum(one[kind] for one in told[f"{kind[:-1]}_types"].values()) for kind in ("nodes", "edges"))
        parts = f"{told['partitions']} partition{'' if told['partitions'] == 1 else 's'}"
        print(f"{given.folder}: {nodes} nodes, {edges} edges, {parts}, {told['edges_cut']} edges cut, fingerprint {told['fingerprint']} ({told['seconds']:.1f} s)")
    return told


if __name__ == "__main__":
    sys.exit(main())
