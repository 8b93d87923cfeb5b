"""What a run was, as JSON: of each host its state, its partitions, its processes."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hopfeed.launch.errors import LaunchError
from hopfeed.launch.run import Run


def require_writable(path: str) -> None:
    """Before anything is started. A report of another run goes: it shall not be taken for this one's.

    Raises:
        LaunchError: it cannot be written.
    """
    write_report(path, {})
    Path(path).unlink(missing_ok=True)


def report_without_run(errors: Sequence[str]) -> dict[str, Any]:
    """Of input that cannot be served."""
    return {"outcome": "failed", "errors": list(errors), "hosts": []}


def report_of(run: Run, outcome: str, errors: Sequence[str]) -> dict[str, Any]:
    """``outcome``: done, failed or interrupted."""
    return {
        "outcome": outcome,
        "errors": list(errors),
        "restarts": run.restarts,
        "begun_again": run.begun_again,
        "seconds": run.times,
        "progress": {key: value for key, value in run.machines[0].progress.items() if key != "is"},
        "hosts": [
            {
                "host": machine.name,
                "state": machine.state,
                "data": machine.plan.data,
                "partitions": list(machine.plan.partitions),
                "pushed": list(machine.pushed),
                "servers": [server.address for server in machine.plan.servers],
                "processes": {name: {"code": process.code, "last": list(process.last)} for name, process in machine.processes.items()},
            }
            for machine in run.machines
        ],
    }


def write_report(path: str, report: dict[str, Any]) -> None:
    """Beside the file first, so that it is never half there.

    Raises:
        LaunchError: it cannot be written.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise LaunchError(f"--json: {path} is there, and no file; name another")
    beside = f"{path}.{os.getpid()}"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
            file.write("\n")
        os.replace(beside, path)
    except OSError as error:
        try:
            os.unlink(beside)
        except OSError:
            pass
        raise LaunchError(f"--json: cannot write {path}: {error.strerror}") from error
