#!/usr/bin/env python3
"""Prints results.json of bench/peers.sh as a chart in SVG: one panel per measure that has a rate, one bar per loader, from zero on.

Usage: chart.py RESULTS.json
"""
import sys
from xml.sax.saxutils import escape

from peers import MEASURES, ahead, measured, read_results, value_of, why_missing

WIDTH, LABELS, VALUES = 860, 220, 190  # of all, of the names on the left, of the numbers behind the longest bar
BAR, GAP, HEADING = 20, 6, 40
COLOURS = {"hopfeed": "#c2410c"}
PEER_COLOUR = "#64748b"


def text(x, y, words, **attributes):
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in attributes.items())
    return f'<text x="{x}" y="{y}"{extra}>{escape(words)}</text>'


def shown(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def panel(document, measure, top):
    """The SVG of one measure from `top` on, and where it ends."""
    peers = list(document["peers"])
    values = {peer: value_of(document, peer, measure) for peer in peers}
    longest = max((value for value in values.values() if value is not None), default=0)
    times = ahead(document, measure)
    title = f"{MEASURES[measure].title}, {MEASURES[measure].unit}" + (f": {times:.1f} times the best other loader" if times else "")
    parts = [text(0, top + 18, title, font_weight="bold")]
    y = top + HEADING - 10
    for peer in peers:
        parts.append(text(LABELS - 8, y + 15, document["peers"][peer]["title"], text_anchor="end"))
        if values[peer] is None:
            why = why_missing(document, peer, measure)
            parts.append(text(LABELS, y + 15, why if len(why) <= 90 else why[:89] + "…", fill=PEER_COLOUR, font_style="italic"))
        else:
            length = (WIDTH - LABELS - VALUES) * values[peer] / longest if longest > 0 else 0
            parts.append(f'<rect x="{LABELS}" y="{y}" width="{max(1, length):.1f}" height="{BAR}" fill="{COLOURS.get(peer, PEER_COLOUR)}"/>')
            parts.append(text(f"{LABELS + max(1, length) + 6:.1f}", y + 15, shown(values[peer])))
        y += BAR + GAP
    return parts, y + 14


def chart(document):
    graph = document["graph"]
    parts = [text(0, 20, f"hopfeed and other loaders: {graph['nodes']:,} nodes, {graph['edges']:,} edges, [{graph['fanouts']}], batch {graph['batch_size']}, one machine, "
                         "one run", font_size="15")]
    top = 34
    for measure in measured(document):
        if MEASURES[measure].more_is_better and measure != "kill":
            of_panel, top = panel(document, measure, top)
            parts += of_panel
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" viewBox="0 0 {WIDTH} {top}" font-family="sans-serif" font-size="13">\n'
            f'<rect width="{WIDTH}" height="{top}" fill="white"/>\n{body}\n</svg>')


if __name__ == "__main__":
    print(chart(read_results(sys.argv, __doc__)))
