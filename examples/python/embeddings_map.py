"""Draws Debian's packages by their embeddings, which hopfeed.infer has written: a point for each, where its two main components are,
coloured by its section; and prints the packages nearest to one. Near is the cosine of two embeddings, less the mean of all.

    python examples/python/embeddings_map.py --results embeddings --data dataset --like vim --out map.svg
"""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

import matplotlib
import numpy as np
import torch

import hopfeed

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.patheffects import withStroke  # noqa: E402
from matplotlib.transforms import Bbox  # noqa: E402

COLOURS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3", "#b8a838", "#5fb3c4", "#2f6f5e")
OTHERS, INK = "#d9d9d9", "#333333"
NAMES = (
    "apache2", "bash", "blender", "build-essential", "cmake", "docker.io", "emacs", "firefox-esr", "gcc", "ghc", "gimp", "git", "gnome", "golang", "inkscape",
    "kde-full", "libreoffice", "linux-image-amd64", "mutt", "nethack-console", "nodejs", "octave", "openssh-server", "perl", "php", "postfix", "postgresql",
    "python3", "python3-numpy", "r-base", "ruby", "rustc", "samba", "supertux", "systemd", "texlive-full", "vim", "vlc", "xserver-xorg",
)  # fmt: skip


def directions(rows: np.ndarray) -> np.ndarray:
    """Rows less their mean, of length 1."""
    rows = rows.astype(np.float32) - rows.mean(0, dtype=np.float64).astype(np.float32)
    return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)


def components(rows: np.ndarray) -> np.ndarray:
    """The two main components of each row: float32 [rows, 2]. Each points to where its longer tail is, so that no sign is left to chance."""
    torch.manual_seed(0)
    centred = torch.from_numpy(rows - rows.mean(0))
    _, _, axes = torch.pca_lowrank(centred, q=min(8, *centred.shape), center=False, niter=8)
    places = (centred @ axes[:, :2]).numpy()
    return places * np.where((places**3).sum(0) < 0, -1, 1).astype(np.float32)


def draw_points(axes: Axes, places: np.ndarray, classes: np.ndarray, names: list[str]) -> None:
    """The biggest sections have a colour each, and a line of the legend."""
    counts = np.bincount(classes[classes >= 0], minlength=len(names))
    biggest = np.argsort(-counts, kind="stable")[: len(COLOURS)]
    colours = np.full(len(places), OTHERS, dtype="U7")
    for label, colour in zip(biggest, COLOURS):
        colours[classes == label] = colour
    order = np.lexsort((np.random.default_rng(0).permutation(len(places)), colours != OTHERS))  # grey ones below, else by chance
    axes.scatter(*places[order].T, s=3, c=colours[order], alpha=0.55, linewidths=0, rasterized=True)
    for label, colour in zip(biggest, COLOURS):
        axes.scatter([], [], s=36, c=colour, label=f"{names[label]}  {counts[label]:,}")
    axes.scatter([], [], s=36, c=OTHERS, label=f"other  {len(places) - counts[biggest].sum():,}")
    axes.legend(
        loc="upper left", bbox_to_anchor=(1.0, 1), frameon=False, fontsize=9, handletextpad=0.2, labelspacing=0.7, labelcolor=INK,
        title="section", title_fontsize=9, alignment="left",
    )  # fmt: skip


def draw_names(axes: Axes, places: np.ndarray, named: dict[str, int], first: str) -> None:
    """Names beside their points: where there is no room beside other names and their points, neither."""
    axes.figure.canvas.draw()
    axes.figure.set_layout_engine("none")  # what is measured now stays
    point = axes.figure.dpi / 72
    taken: list[Bbox] = []
    for name in sorted(named, key=lambda name: name != first):
        strong = name == first
        x, y = axes.transData.transform(places[named[name]])
        marker = Bbox.from_extents(x - 3 * point, y - 3 * point, x + 3 * point, y + 3 * point)
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            text = axes.annotate(
                name, places[named[name]], (5 * across, 5 * up), textcoords="offset points", fontsize=10 if strong else 8, color=INK, zorder=4,
                ha=("right", "center", "left")[across + 1], va=("top", "center", "bottom")[up + 1], fontweight="bold" if strong else "normal",
                path_effects=[withStroke(linewidth=2.5, foreground="white")], gid=name,
            )  # fmt: skip
            box = text.get_window_extent().padded(point)
            if not any(box.overlaps(other) or marker.overlaps(other) for other in taken) and axes.bbox.contains(box.x0, box.y0) and axes.bbox.contains(box.x1, box.y1):
                taken += [box, marker]
                axes.plot(*places[named[name]], "o", ms=5 if strong else 3.5, mfc="white", mec=INK, mew=1.2 if strong else 0.8, zorder=3)
                break
            text.remove()


def draw(path: Path, title: str, places: np.ndarray, classes: np.ndarray, class_names: list[str], named: dict[str, int], first: str) -> None:
    plt.rcParams.update({"svg.hashsalt": "hopfeed", "font.family": "DejaVu Sans"})  # the same bytes each time
    figure, axes = plt.subplots(figsize=(10, 7.5), dpi=150, layout="constrained")
    draw_points(axes, places, classes, class_names)
    axes.set_title(title, loc="left", fontsize=13, color=INK, pad=14)
    axes.set(xticks=[], yticks=[], aspect="equal", anchor="W")
    axes.margins(0.02)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("first component \u2192", loc="left", fontsize=8, color="#888888")
    axes.set_ylabel("second component \u2192", loc="bottom", fontsize=8, color="#888888")
    draw_names(axes, places, named, first)
    figure.savefig(path, metadata={"Date": None}, bbox_inches="tight", pad_inches=0.2)


def nearest(rows: np.ndarray, at: int, count: int) -> list[tuple[float, int]]:
    """The rows of the largest cosines with one, which is not among them; rows have length 1."""
    cosine = rows @ rows[at]
    cosine[at] = -np.inf
    found = np.argsort(-cosine, kind="stable")[: min(count, len(rows) - 1)]
    return [(float(cosine[one]), int(one)) for one in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", required=True, type=Path, help="folder of the embeddings, with keys")
    parser.add_argument("--data", required=True, type=Path, help="dataset folder, whose classes are the sections")
    parser.add_argument("--like", required=True, metavar="NAME", help="the package whose nearest ones are printed")
    parser.add_argument("--out", type=Path, help="FILE.svg gets the drawing; none without")
    parser.add_argument("--count", type=int, default=10, help="how many of the nearest")
    parser.add_argument("--names", nargs="*", default=NAMES, help="packages whose names are in the drawing, where there is room")
    arguments = parser.parse_args()

    results = hopfeed.read_results(arguments.results)
    keys, rows = [str(key) for key in results.keys], directions(results.array())
    place = {key: at for at, key in enumerate(keys)}
    if arguments.like not in place:
        close = difflib.get_close_matches(arguments.like, keys, 3, 0.6)
        raise SystemExit(f"--like {arguments.like}: there is no such package{'; did you mean ' + ', '.join(close) + '?' if close else ''}")
    if arguments.out:
        dataset = hopfeed.Dataset(arguments.data)
        named = {name: place[name] for name in (arguments.like, *arguments.names) if name in place}
        classes = dataset.attr("y")[results.ids].reshape(-1)
        draw(arguments.out, f"{len(keys):,} Debian packages by their embeddings", components(rows), classes, dataset.meta["class_names"], named, arguments.like)
        print(f"{arguments.out}: {len(keys):,} points")
    print(f"nearest to {arguments.like}:")
    for cosine, at in nearest(rows, place[arguments.like], arguments.count):
        print(f"  {cosine:.3f}  {keys[at]}")


if __name__ == "__main__":
    main()
