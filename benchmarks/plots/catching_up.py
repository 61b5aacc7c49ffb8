"""What a reader that was away fetches, with spans and without."""

from pathlib import Path

from matplotlib.ticker import FuncFormatter

from benchmarks.plots.style import OTHERS_DARK, OURS, saved
from benchmarks.results_file import Results, data_of

_PANELS = (("bytes", "kB fetched to catch up", 1e3), ("requests", "requests to catch up", 1))


def draw_catching_up(results: Results, path: Path) -> None:
    """Bytes and requests over versions missed, both logarithmic."""
    found = list(data_of(results, "catching-up"))
    behind = [one["behind"] for one in found]
    with saved(path, width=10.5, height=3.8, columns=2) as (_, panels):
        for panel, (key, label, unit) in zip(panels, _PANELS, strict=True):
            plain = [one[key] / unit for one in found]
            spans = [one[f"{key}_with_spans"] / unit for one in found]
            panel.plot(behind, plain, "s-", color=OTHERS_DARK, label="one delta after the other")
            panel.plot(behind, spans, "o-", color=OURS, linewidth=2.2, label="with a maintainer's spans")
            for values, offset in ((plain, 8), (spans, -14)):
                panel.annotate(
                    f"{values[-1]:,.0f}", (behind[-1], values[-1]), (0, offset), textcoords="offset points", ha="center"
                )
            panel.set(xscale="log", yscale="log", title=label)
            panel.margins(y=0.12)
            panel.set_xlabel("versions behind")
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        panels[0].legend(loc="upper left")
