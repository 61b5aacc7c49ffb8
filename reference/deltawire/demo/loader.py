"""A process that loads a followed directory as any Hugging Face checkpoint, knowing nothing of Deltawire's format."""

from __future__ import annotations

from pathlib import Path

from deltawire.demo.messages import Embedded, LoaderSettings, Report, play
from deltawire.demo.model import SentenceModel, embedding_bits
from deltawire.demo.sentences import PROBE


def load(settings: LoaderSettings, report: Report) -> None:
    """Load the directory with transformers and embed one sentence."""
    model = SentenceModel.load(Path(settings.directory), "auto")
    report(Embedded(kind=model.kind, bits=embedding_bits(model, PROBE)))


if __name__ == "__main__":
    play(LoaderSettings, load)
