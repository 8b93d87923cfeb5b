#!/usr/bin/env python3
"""Prints what simulate.py predicts as a chart in SVG: what a machine's folder, a batch's CPU time and a round's wait are made of.

Usage: scale_chart.py PREDICTED.json
"""
import json
import pathlib
import sys
from xml.sax.saxutils import escape

WIDTH, LABELS, VALUES = 860, 190, 150
BAR, GAP = 20, 6
COLOURS = ("#c2410c", "#0f766e", "#64748b", "#a16207", "#1d4ed8", "#7e22ce", "#be123c")
# What is told together.
FOLDER = {"neighbours": ("neighbours", "edge ids"), "features": ("features",), "rows, hotness, splits": ("rows", "hotness", "splits"),
          "ids of nodes elsewhere that edges come from": ("ids of remote sources",), "ids of its range": ("ids of its range",),
          "ids of all nodes": ("ids of all nodes",)}
CPU = {"rows and edges, wherever they lie": ("batch", "row", "edge", "node", "node_byte", "placed_edge", "placed_byte"), "what lies elsewhere": ("far_edge", "far_byte"),
       "questions and rounds": ("round", "contact", "question")}


def text(x, y, words, **attributes):
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x}" y="{y}"{extra}>{escape(words)}</text>'


def grouped(parts, groups):
    return {title: sum(parts.get(name, 0) for name in names) for title, names in groups.items()}


def shown(value, unit):
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1, ""), (1e-3, "m")):
        if value >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.2g} {unit}"


def legend(titles, top):
    parts, x = [], LABELS
    for title, colour in titles.items():
        parts += [f'<rect x="{x}" y="{top}" width="11" height="11" fill="{colour}"/>', text(x + 16, top + 10, title, font_size="12")]
        x += 34 + 6.3 * len(title)
    return parts


def panel(title, bars, unit, top):
    """Stacked bars, each {part: value}, from `top` on; returns the SVG and where it ends."""
    longest = max(sum(bar.values()) for bar in bars.values())
    titles = [name for name in dict.fromkeys(name for bar in bars.values() for name in bar) if any(bar.get(name, 0) > longest / 500 for bar in bars.values())]
    colours = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(titles)}
    rows = [titles[i:i + 3] for i in range(0, len(titles), 3)]
    parts, y = [text(0, top + 18, title, font_weight="bold")], top + 30
    for row in rows:
        parts += legend({name: colours[name] for name in row}, y)
        y += 18
    y += 4
    for name, bar in bars.items():
        parts.append(text(LABELS - 8, y + 15, name, text_anchor="end"))
        x = float(LABELS)
        for part, value in bar.items():
            length = (WIDTH - LABELS - VALUES) * value / longest
            if part in colours:
                parts.append(f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{BAR}" fill="{colours[part]}"/>')
            x += length
        parts.append(text(f"{x + 6:.1f}", y + 15, shown(sum(bar.values()), unit)))
        y += BAR + GAP
    return parts, y + 12


def chart(told):
    of = {one["machines"]: one for one in told["deployments"]}
    parts = [text(0, 20, f"{told['nodes']:.0e} nodes, {told['edges']:.0e} edges, {told['features']} float32 features, {told['fanouts']}, batches of "
                         f"{told['batch_size']}: predicted", font_size="15")]
    top = 34
    large = [machines for machines in of if machines > 4]
    panels = (
        ("Folder of a machine", {f"{machines} machines, {way}": grouped(of[machines]["folder"][way], FOLDER) for machines in large
                                 for way in ("sharded", "replicated")}, "B"),
        ("CPU of a batch, all machines", {f"{machines} machines": grouped(one["cpu_of"], CPU) for machines, one in of.items()}, "s"),
        ("Wait of a round: the slowest answer", {
            f"{machines} machines{words}": {f"usual: {told['usual_ms']} ms": told["usual_ms"] / 1000,
                                            f"one in 100 takes {told['p99_ms']} ms": one[key] - told["usual_ms"] / 1000}
            for machines, one in of.items() for words, key in (("", "round_seconds"), (", replicas", "round_seconds_with_replicas"))}, "s"))
    for title, bars, unit in panels:
        of_panel, top = panel(title, bars, unit, top)
        parts += of_panel
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">\n'
            f'<rect width="{WIDTH}" height="{top}" fill="white"/>\n{body}\n</svg>')


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    print(chart(json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))))
