#!/usr/bin/env python3
"""Checks the pages: relative links lead to files and headings that are there, prose keeps to its columns, README stays short.

Usage: check_links.py ROOT     prints one line per fault, exits 1 if there is any
"""
import os
import pathlib
import re
import sys

MAX_COLUMNS = 120
README_LINES = 120
SKIPPED = {"build", "node_modules"}   # and whatever begins with a dot
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\s{0,3}\[[^\]]+\]:\s+<?(\S+?)>?\s*$")
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*$")
CODE = re.compile(r"(`+)(?:(?!\1).)*\1")


def pages(root):
    for folder, names, files in os.walk(root):
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in SKIPPED)
        yield from (pathlib.Path(folder) / name for name in sorted(files) if name.endswith(".md"))


def prose(text):
    """Number and text of each line that is not in a block of code."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"\s*(```+|~~~+)", line)
        if mark and not fence:
            fence = mark[1]
        elif mark and fence and line.strip().startswith(fence):
            fence = ""
        elif not fence and not line.startswith("    "):
            yield number, line


def anchors(text):
    """What GitHub names the headings: lower case, no marks, dashes for blanks, numbers behind those that come again."""
    found, seen = set(), {}
    for _, line in prose(text):
        if match := HEADING.match(line):
            name = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", match[2].replace("`", ""))
            name = re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-")
            found.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return found


def link_fault(page, target, root):
    """Why the link cannot be followed, or None."""
    if re.match(r"[a-zA-Z][\w+.-]*:", target):  # of the web
        return None
    path, _, anchor = target.partition("#")
    if path.startswith("/"):
        return f"{target}: write links from the page's own folder"
    file = ((page.parent / path) if path else page).resolve()
    if not file.is_relative_to(root.resolve()):
        return f"{target}: leads out of the repository"
    if not file.exists():
        return f"{target}: there is no such file"
    if anchor and (file.suffix != ".md" or anchor not in anchors(file.read_text(encoding="utf-8"))):
        return f"{target}: there is no such heading"
    return None


def page_faults(page, root):
    text = page.read_text(encoding="utf-8")
    for number, line in prose(text):
        plain = CODE.sub("", line)
        targets = LINK.findall(plain) + REFERENCE.findall(plain)
        yield from ((number, fault) for target in targets if (fault := link_fault(page, target, root)))
        if len(line) > MAX_COLUMNS and not line.startswith(("|", "![")):
            yield number, f"{len(line)} columns of prose; at most {MAX_COLUMNS}"
    lines = len(text.splitlines())
    if page == root / "README.md" and lines > README_LINES:
        yield lines, f"{lines} lines; README has at most {README_LINES}, the rest belongs into docs"


def check(root):
    count, faults = 0, []
    for page in pages(root):
        faults += [f"{page.relative_to(root)}:{number}: {fault}" for number, fault in page_faults(page, root)]
        count += 1
    return count, faults


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    count, faults = check(pathlib.Path(sys.argv[1]))
    if count == 0:
        faults = [f"{sys.argv[1]}: no pages found; is this the root of the repository?"]
    print("\n".join(faults) if faults else f"{count} pages, every link holds")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
