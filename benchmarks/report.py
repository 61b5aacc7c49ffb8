"""Tables and plots of a folder of results: ``python -m benchmarks.report FOLDER`` draws them again."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.layouts import IN_FULL
from benchmarks.plots import draw_bytes_per_change, draw_catching_up, draw_growth, draw_speed, draw_step_size
from benchmarks.results_file import Results, data_of, read
from benchmarks.traces.catalogue import MODELS, TRACES

PLOTS: dict[str, tuple[str, Callable[[Results, Path], None]]] = {
    "bytes-per-change": ("layouts", draw_bytes_per_change),
    "step-size": ("layouts", draw_step_size),
    "speed": ("layouts", draw_speed),
    "growth": ("growth", draw_growth),
    "catching-up": ("catching-up", draw_catching_up),
}
"""Each plot's name, the benchmark it shows, and how it is drawn."""


def draw(folder: Path, *, form: str = "svg") -> None:
    """Draw every plot of what ``folder`` has figures of, and its tables as README.md."""
    results = read(folder)
    for name, (benchmark, plot) in PLOTS.items():
        if benchmark in results:
            plot(results, folder / f"{name}.{form}")
    (folder / "README.md").write_text(_tables(results))


def _tables(results: Results) -> str:
    lines = ["# Figures", "", "Made by `python -m benchmarks --results benchmarks/results`; do not edit.", ""]
    for trace in IN_FULL if "layouts" in results else ():
        lines += _layouts(trace, [one for one in data_of(results, "layouts") if one["trace"] == trace])
    for name, run in results.items():
        lines += [f"## {name}", "", run["machine"], ""]
        shown = [f"![{plot}]({plot}.svg)" for plot, (benchmark, _) in PLOTS.items() if benchmark == name]
        lines += [line for plot in shown for line in (plot, "")]
        lines += ["| figure | value | what it says |", "|---|---|---|"]
        lines += [f"| {one['figure']} | {one['value']} | {one['note']} |" for one in run["figures"]]
        lines.append("")
    return "\n".join(lines)


def _layouts(trace: str, found: list[Mapping[str, Any]]) -> list[str]:
    described = TRACES[trace]
    share = 2 * found[0]["changed_elements"] / found[0]["model_bytes"]
    return [
        f"## {MODELS[described.model]}, learning rate {described.learning_rate}: {share:.2%} changed in a step",
        "",
        "Speeds are those of one core, 1 being a copy of the model in memory. Memory is what comes on top of both",
        "states (to encode) or of the state and the payload (to apply), as a share of the model.",
        "",
        "| layout | bytes a change | x smaller | encode | apply | million changes/s | memory: encode | apply |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
        *(_row(one) for one in found),
        "",
    ]


def _row(one: Mapping[str, Any]) -> str:
    changed, model, size = one["changed_elements"], one["model_bytes"], one["wire_bytes"]
    cells = [one.get("layout") or one["bound"], f"{size / changed:.3f}", f"{model / size:,.1f}"]
    if "copy_seconds" in one:
        copy = one["copy_seconds"]
        cells += [f"{copy / one[key]:.2f}" for key in ("encode_seconds", "apply_seconds")]
        cells.append(f"{changed / one['apply_seconds'] / 1e6:,.0f}")
        cells += ["" if one[key] is None else f"{one[key] / model:.2f}" for key in ("encode_memory", "apply_memory")]
    return "| " + " | ".join(cells) + " |" + " |" * (8 - len(cells))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.report", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", default="svg", help="of the plots: svg or png")
    options = parser.parse_args()
    draw(options.folder, form=options.form)


if __name__ == "__main__":
    main()
