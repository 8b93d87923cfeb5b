#!/usr/bin/env python3
"""Checks what docs/architecture.md says about the folders: an include never points against an arrow, Torch stays in the
trainer and Boost out of the core, every source opens with a banner, waits use a steady clock, and units of the product do
not use each other in circles.

A unit is a header with the sources of its stem in the same folder: a.h, a.cc, a.cu. It uses the units whose files its files
include.

Usage: check_arrows.py ROOT     prints one line per fault and the counts, exits 1 if there is any fault
"""
import collections
import pathlib
import re
import sys

# Folders of rooms, lowest room first: each may include those before it.
ROOMS = {
    "core": ("base", "dataset", "batch", "draws", "sampler", "seeds", "maker"),
    "gpu": ("kernels", "memory", "engine", "batches", "device"),
    "state": ("table", "owner", "client"),
}
# Folder -> folders it may include, lowest first. Who may use a folder may use all of its rooms.
ARROWS = {
    "core": set(),
    "channel": {"core"},
    "wire": {"core"},
    "cache": {"core"},
    "state": {"core"},
    "results": {"core"},
    "gpu": {"core", "channel"},
    "peers": {"core", "wire", "state", "results"},
    "stream": {"core", "channel", "cache", "gpu", "peers"},
    "worker_mode": {"core", "channel", "cache", "gpu", "peers", "stream"},
    "server_client_mode/client": {"core", "channel", "wire", "cache", "peers", "stream", "worker_mode"},
    "server_client_mode/server": {"core", "channel", "wire", "cache", "state", "results", "gpu", "peers", "stream", "worker_mode"},
    "trainer": {"core", "state", "results", "peers", "stream", "worker_mode", "server_client_mode/client"},
    "partition_tool": {"core", "cache"},
}
# <folder>/program, and any file with a main, is what only programs are made of: the library neither prints nor exits. It may
# use the folder, what the folder may use, and core/program, which all programs share.
PROGRAMS = {f"{folder}/program": below | {folder, "core/program"} for folder, below in ARROWS.items()}
# Programs that know both modes, and the options that they share.
PROGRAMS["programs/options"] = {"core/program"} | set(ARROWS) - {"trainer"}
PROGRAMS["programs"] = set(PROGRAMS) | set(ARROWS) - {"trainer"}
ROOM_ARROWS = {f"{folder}/{room}": ARROWS[folder] | {f"{folder}/{lower}" for lower in rooms[:i]}
               for folder, rooms in ROOMS.items() for i, room in enumerate(rooms)}
# These use all of the above; nothing above uses them, nor do they use each other.
USERS = ("examples", "tests", "bench", "python")
PRODUCT = ("core", "channel", "wire", "cache", "state", "results", "gpu", "peers", "stream", "worker_mode", "server_client_mode", "trainer", "partition_tool",
           "programs")

TORCH = re.compile(r"(torch|c10|ATen|gloo)/")
BOOST = re.compile(r"boost/")
TORCH_FOLDERS = ("trainer", "examples", "tests/trainer", "tests/examples", "bench/trainer", "python")
NO_BOOST = ("core", "gpu", "cache", "state", "results", "partition_tool", "trainer")
SOURCES = {".h", ".cc", ".cu", ".cuh"}
MAIN = re.compile(r"^int main\(", re.MULTILINE)
WALL_CLOCK = re.compile(r"system_clock|CLOCK_REALTIME|gettimeofday|\btime\(\s*(nullptr|NULL|0)\s*\)|timed_(wait|lock|receive|send)|boost::posix_time")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')


def folder_of(path):
    """The folder of the tables above that a path belongs to, or None."""
    for folder in (*PROGRAMS, *ROOM_ARROWS, *ARROWS, *USERS):
        if path.startswith(folder + "/"):
            return folder
    return None


def allowed(folder):
    below = {**ARROWS, **PROGRAMS, **ROOM_ARROWS}
    may = {folder} | (below[folder] if folder in below else set(below))
    return may | {room for room in ROOM_ARROWS if room.split("/")[0] in may}


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
    if folder in ROOMS:
        yield 1, f"files of {folder} lie in one of its rooms: {', '.join(ROOMS[folder])}"
    if not lines or not lines[0].startswith("//"):
        yield 1, "a source opens with a banner comment: what it is, and what it relies on"
    if path.endswith((".h", ".cuh")) and "#pragma once" not in lines:
        yield 1, "a header needs #pragma once"
    for number, line in enumerate(lines, 1):
        if match := INCLUDE.match(line):
            if fault := include_fault(path, folder, match[1], match[2], root):
                yield number, fault
        if WALL_CLOCK.search(line) and path.startswith(("channel/", "wire/", "stream/", "worker_mode/", "server_client_mode/")):
            yield number, "the wall clock jumps (faults.md, F33); deadlines are measured on steady_clock"


def sources(root, folders):
    """path -> text of each source of the folders."""
    files = (file for folder in folders for file in sorted((root / folder).rglob("*")) if file.suffix in SOURCES)
    return {file.relative_to(root).as_posix(): file.read_text() for file in files}


def unit_of(path):
    return path.rsplit(".", 1)[0]


def uses_of(texts):
    """unit -> {unit that it uses: (file, line, included file), the first place}, for units of `texts` alone."""
    uses = {unit_of(path): {} for path in texts}
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if match and match[1] == '"' and match[2] in texts and unit_of(match[2]) != unit_of(path):
                uses[unit_of(path)].setdefault(unit_of(match[2]), (path, number, match[2]))
    return uses


def circles_of(uses):
    """The strongly connected components of more than one unit (Tarjan 1972), each sorted."""
    order, low, stack, found = {}, {}, [], []

    def visit(unit):
        order[unit] = low[unit] = len(order)
        stack.append(unit)
        for used in uses[unit]:
            if used not in order:
                visit(used)
            if used in low:  # it is still on the stack
                low[unit] = min(low[unit], low[used])
        if low[unit] == order[unit]:
            at = stack.index(unit)
            component = stack[at:]
            del stack[at:]
            for member in component:
                del low[member]
            if len(component) > 1:
                found.append(tuple(sorted(component)))

    for unit in sorted(uses):
        if unit not in order:
            visit(unit)
    return sorted(found)


def way_round_from(start, uses, circle):
    """The fewest includes that lead from `start` back to it, as places."""
    came_from, queue = {}, collections.deque([start])
    while start not in came_from:
        unit = queue.popleft()
        for used in uses[unit]:
            if used in circle and used not in came_from:
                came_from[used] = unit
                queue.append(used)
    way, unit = [], start
    while not way or unit != start:
        way.insert(0, uses[came_from[unit]][unit])
        unit = came_from[unit]
    return way


def shortest_way_round(uses, circle):
    return min((way_round_from(unit, uses, circle) for unit in circle), key=len)


def circle_faults(uses):
    for circle in circles_of(uses):
        way = shortest_way_round(uses, circle)
        steps = ", ".join(f"{path} -> {included}" for path, _, included in way)
        yield f"{way[0][0]}:{way[0][1]}: a circle of {len(circle)} units ({', '.join(circle)}); the shortest way round: {steps}"


def check(root):
    """The counts of what was looked at, by name, and the faults."""
    texts = sources(root, (*ARROWS, "programs", *USERS))
    uses = uses_of(sources(root, PRODUCT))
    faults = [f"{path}:{n}: {fault}" for path, text in texts.items() for n, fault in file_faults(path, text, root)]
    faults += circle_faults(uses)
    return {"sources": len(texts), "units": len(uses), "circles": len(circles_of(uses))}, faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    counts, faults = check(pathlib.Path(sys.argv[1]))
    if counts["sources"] == 0:
        faults = [f"{sys.argv[1]}: no sources found; is this the root of the repository?"]
    print("\n".join(faults + [", ".join(f"{count} {what}" for what, count in counts.items()) + f", {len(faults)} faults"]))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
