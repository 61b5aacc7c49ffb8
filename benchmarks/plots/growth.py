"""What a step costs to apply as the model grows and the change does not."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.growth import CHANGED, COPY
from benchmarks.plots.style import BOUND, OTHERS_DARK, OURS, OURS_LIGHT, saved
from benchmarks.results_file import Results, data_of

_LINE_OF_TEXT = 0.06
"""Of the panel's height."""
_STYLES = {
    "Deltawire: gap": (OURS, "o-", 2.2),
    "Deltawire: ranked": (OURS_LIGHT, "o-", 1.6),
    "slime: xor, zstd-1": (OTHERS_DARK, "^-", 1.2),
    "safetensors": (OTHERS_DARK, "s-", 1.2),
    COPY: (BOUND, "--", 1.2),
}


def draw_growth(results: Results, path: Path) -> None:
    """Lines by layout over the model's size, both logarithmic."""
    with saved(path, width=6.4, height=4.0) as (_, (panel,)):
        ends: dict[str, float] = {}
        for one in data_of(results, "growth"):
            colour, style, width = _STYLES[one["layout"]]
            sizes = [size / (1 << 20) for size in one["model_bytes"]]
            panel.plot(sizes, one["relative_seconds"], style, color=colour, linewidth=width, markersize=5)
            ends[one["layout"]] = one["relative_seconds"][-1]
        panel.set(xscale="log", yscale="log")
        panel.set_xticks(sizes)
        low, high = panel.get_ylim()
        for name, place in _apart(ends, (high / low) ** _LINE_OF_TEXT):
            colour = _STYLES[name][0]
            panel.text(1.02, place, name, color=colour, va="center", transform=panel.get_yaxis_transform())
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.xaxis.set_minor_formatter(NullFormatter())
        panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panel.set_xlabel("size of the model in MiB")
        panel.set_ylabel("time to apply, Deltawire: gap at the left = 1")
        panel.set_title(f"the same {CHANGED:,} changes in a larger and larger model")


def _apart(ends: Mapping[str, float], ratio: float) -> Iterator[tuple[str, float]]:
    """Places for labels from the lowest up, each at its value or so far above the one below that both can be read."""
    least = 0.0
    for name, value in sorted(ends.items(), key=lambda item: item[1]):
        place = max(value, least)
        yield name, place
        least = place * ratio
