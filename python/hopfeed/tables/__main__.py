"""``python -m hopfeed.tables NAME ...``, which ``hopfeed-partition import NAME ...`` starts."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopfeed.errors import Error, InvalidError, exit_code
from hopfeed.tables.doors import DOORS
from hopfeed.tables.importing import import_tables, infer_description, say_on_stderr
from hopfeed.tables.options import PROGRAM, arguments, pair, parser
from hopfeed.tables.work import write_whole

IMPORTS = ("tables", *DOORS)  # NAMEs of hopfeed-partition import that are Python's
_REFUSED, _FAILED = 2, 1  # exit codes: input that cannot be served; anything else


def main(words: Sequence[str] | None = None) -> int:
    """Runs the command whose name is the first word; gives its exit code."""
    words = sys.argv[1:] if words is None else list(words)
    if not words or words[0] not in IMPORTS:
        print(f"{PROGRAM}: expected one of {', '.join(IMPORTS)}, then its own words (--help tells them)", file=sys.stderr)
        return _REFUSED
    name, program = words[0], f"{PROGRAM} {words[0]}"
    given = parser(name).parse_args(words[1:])
    try:
        told = _infer(given) if name == "tables" and given.infer else _import(name, given, words)
        if given.json:
            write_whole(Path(given.json), json.dumps(told, indent=1) + "\n")
    except Error as error:
        print(f"{program}: {error}", file=sys.stderr)
        return exit_code(error)
    except OSError as error:
        print(f"{program}: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print(f"{program}: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _infer(given: argparse.Namespace) -> dict[str, Any]:
    if not given.edges and not given.nodes:
        raise InvalidError("--infer wants --nodes TYPE=TABLE and --edges SRC,REL,DST=TABLE")
    path = Path(given.folder)
    if path.exists():
        raise InvalidError(f"{path} is there already; --infer writes a new description")
    nodes = dict(pair(one, "--nodes") for one in given.nodes)
    edges = {}
    for one in given.edges:
        name, table = pair(one, "--edges")
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
    print(f"{path}: {len(told['nodes'])} node types, {len(told['edges'])} edge types; look at it, then: {PROGRAM} tables DIR {path} --dry-run")
    return told


def _import(name: str, given: argparse.Namespace, words: Sequence[str]) -> dict[str, Any]:
    if name == "tables" and given.description is None:
        raise InvalidError("give a DESCRIPTION; --infer writes a first one")
    make, source = (import_tables, given.description) if name == "tables" else (DOORS[name], given.source)
    told = make(given.folder, source, **arguments(given), made_by=shlex.join([*PROGRAM.split(), *words]), say=say_on_stderr)
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
