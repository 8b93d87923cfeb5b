#!/usr/bin/env python3
"""Checks what docs/architecture.md says about the folders: an include never points against an arrow, Torch stays in the
trainer and Boost out of the core, every source opens with a banner, no file outgrows a head, waits use a steady clock.

Usage: check_arrows.py ROOT     prints one line per fault, exits 1 if there is any
"""
import pathlib
import re
import sys

# The rooms of the core, lowest first: each may include those before it.
ROOMS = ("base", "dataset", "draws", "batch", "relabel", "pickers", "partition", "sampler", "seeds", "owner", "maker", "stream")
# Folder -> folders it may include. Who may use the core may use all of its rooms.
ARROWS = {
    "core": set(),
    "gpu": {"core", "channel"},
    "cache": {"core"},
    "channel": {"core"},
    "partition_tool": {"core", "cache"},
    "server_client_mode/wire": {"core"},
    "peers": {"core", "server_client_mode/wire"},
    "worker_mode": {"core", "gpu", "cache", "channel", "peers"},
    "server_client_mode/server": {"core", "gpu", "cache", "channel", "peers", "worker_mode", "server_client_mode/wire"},
    "server_client_mode/client": {"core", "cache", "channel", "worker_mode", "server_client_mode/wire"},
    "trainer": {"core", "worker_mode", "server_client_mode/client"},
}
# <folder>/program, and any file with a main, is what only programs are made of: the library neither prints nor exits. It may
# use the folder, what the folder may use, and core/program, which all programs share.
PROGRAMS = {f"{folder}/program": below | {folder, "core/program"} for folder, below in ARROWS.items()}
PROGRAMS["server_client_mode/program"] = {"server_client_mode/wire", "server_client_mode/client",
                                          "worker_mode/program"} | ARROWS["server_client_mode/client"] | {"core/program"}
# Programs that know both modes.
PROGRAMS["programs"] = set(PROGRAMS) | {"core/program"} | set(ARROWS) - {"trainer"}
CORE_ROOMS = {f"core/{room}": {f"core/{lower}" for lower in ROOMS[:i]} for i, room in enumerate(ROOMS)}
# These use all of the above; nothing above uses them, nor do they use each other.
USERS = ("examples", "tests", "bench", "python")

TORCH = re.compile(r"(torch|c10|ATen|gloo)/")
BOOST = re.compile(r"boost/")
TORCH_FOLDERS = ("trainer", "examples", "tests/trainer", "tests/examples", "bench/trainer", "python")
NO_BOOST = ("core", "gpu", "cache", "partition_tool", "trainer")
SOURCES = {".h", ".cc", ".cu", ".cuh"}
MAX_LINES = 450
MAIN = re.compile(r"^int main\(", re.MULTILINE)
WALL_CLOCK = re.compile(r"system_clock|CLOCK_REALTIME|gettimeofday|\btime\(\s*(nullptr|NULL|0)\s*\)|timed_(wait|lock|receive|send)|boost::posix_time")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path):
    """The folder of the tables above that a path belongs to, or None."""
    for folder in (*PROGRAMS, *CORE_ROOMS, *ARROWS, *USERS):
        if path.startswith(folder + "/"):
            return folder
    return None


def allowed(folder):
    below = {**ARROWS, **PROGRAMS, **CORE_ROOMS}
    may = {folder} | (below[folder] if folder in below else set(below))
    return may | set(CORE_ROOMS) if "core" in may else may


def include_fault(path, folder, quote, target, root):
    """Why `path`, a file of `folder`, may not include `target`, or None."""
    if TORCH.match(target):
        return None if path.startswith(TORCH_FOLDERS) else f"<{target}>: only the trainer knows Torch"
    if BOOST.match(target):
        return f"<{target}>: no Boost in this folder" if path.startswith(tuple(f + "/" for f in NO_BOOST)) else None
    if quote == "<":
        return None
    if not (root / target).is_file():
        return f'"{target}": includes are written from the root of the repository, and there is no such file'
    if folder_of(target) not in allowed(folder):
        return f'"{target}": {folder} may not use {folder_of(target)}'
    return None


def file_faults(path, text, root):
    lines = text.splitlines()
    folder = folder_of(path)
    if folder in ARROWS and MAIN.search(text):
        folder += "/program"
    if folder == "core":
        yield 1, f"files of the core lie in one of its rooms: {', '.join(ROOMS)}"
    if not lines or not lines[0].startswith("//"):
        yield 1, "a source opens with a banner comment: what it is, and what it relies on"
    if len(lines) > MAX_LINES:
        yield len(lines), f"{len(lines)} lines; split it by purpose (at most {MAX_LINES})"
    if path.endswith((".h", ".cuh")) and "#pragma once" not in lines:
        yield 1, "a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            if fault := include_fault(path, folder, match[1], match[2], root):
                yield number, fault
        if WALL_CLOCK.search(line) and path.startswith(("channel/", "worker_mode/", "server_client_mode/")):
            yield number, "the wall clock jumps (faults.md, F33); deadlines are measured on steady_clock"


def check(root):
    count, faults = 0, []
    for folder in (*ARROWS, "server_client_mode/program", "programs", *USERS):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in SOURCES:
                path = file.relative_to(root).as_posix()
                faults += [f"{path}:{n}: {fault}" for n, fault in file_faults(path, file.read_text(), root)]
                count += 1
    return count, faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    count, faults = check(pathlib.Path(sys.argv[1]))
    if count == 0:
        faults = [f"{sys.argv[1]}: no sources found; is this the root of the repository?"]
    print("\n".join(faults) if faults else f"{count} sources, every arrow holds")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
