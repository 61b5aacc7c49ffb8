"""Which traces there are."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """One training run, of which some consecutive steps are kept."""

    model: str
    learning_rate: str
    steps: tuple[int, ...] = (10, 11)  # AdamW's first steps move far more than those that follow

    @property
    def name(self) -> str:
        return f"{self.model}-lr{self.learning_rate}"

    @property
    def pair(self) -> tuple[int, int]:
        """Two consecutive steps, the same for every trace."""
        return 10, 11

    @property
    def file_names(self) -> tuple[str, ...]:
        return tuple(f"s{step:03d}.safetensors" for step in self.steps)


MODELS = {
    "minilm": "all-MiniLM-L6-v2, contrastive",
    "smollm2": "SmolLM2-135M, GRPO-like",
}

TRACES = {
    trace.name: trace
    for trace in (
        Trace("minilm", "3e-6", (9, 10, 11, 12)),
        Trace("smollm2", "3e-6", (9, 10, 11, 12)),
        Trace("minilm", "1e-6"),
        Trace("smollm2", "1e-6"),
        Trace("minilm", "1e-5"),
        Trace("smollm2", "1e-5"),
        Trace("minilm", "1e-3"),
        Trace("smollm2", "1e-3"),
    )
}
