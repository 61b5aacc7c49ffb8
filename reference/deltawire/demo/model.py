"""The model that is trained: loading, the loss, and the weights as they are published. Needs torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from deltawire.errors import MissingDependencyError
from deltawire.producer.sources import auxiliary_files

# Not HF_HUB_OFFLINE, which would keep the stream off the Hub too: all is loaded with local_files_only.
os.environ.update(TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false")

try:
    import torch
    import transformers
except ImportError as error:  # pragma: no cover - the command checks before it starts anything
    raise MissingDependencyError("the demo needs torch and transformers: pip install 'deltawire[demo]'") from error

transformers.utils.logging.disable_progress_bar()

PUBLISHED = torch.bfloat16
_TEMPERATURE = 0.05
_TOKENS = 48
State = dict[str, torch.Tensor]


class SentenceModel:
    """A model and its tokenizer, with the mean of the last hidden states as the embedding of a text."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self._tokenizer = tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
        self._encoder = model.get_encoder() if model.config.is_encoder_decoder else model

    @classmethod
    def load(cls, path: Path, dtype: torch.dtype | str) -> SentenceModel:
        """Read a checkpoint directory; ``dtype`` may be ``auto``, which keeps what is stored."""
        model = transformers.AutoModel.from_pretrained(path, dtype=dtype, local_files_only=True)
        return cls(model, transformers.AutoTokenizer.from_pretrained(path, local_files_only=True))

    @property
    def kind(self) -> str:
        """Class of the model."""
        return type(self.model).__name__

    def embed(self, texts: list[str]) -> torch.Tensor:
        """Mean-pooled embeddings, one row a text."""
        tokens = self._tokenizer(texts, padding=True, truncation=True, max_length=_TOKENS, return_tensors="pt")
        hidden = self._encoder(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state
        mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
        pooled: torch.Tensor = (hidden * mask).sum(1) / mask.sum(1)
        return pooled

    def loss(self, pairs: list[tuple[str, str]]) -> torch.Tensor:
        """Contrastive: each text must find its neighbour among those of the whole batch."""
        first, second = (
            torch.nn.functional.normalize(self.embed([pair[side] for pair in pairs]), dim=-1) for side in (0, 1)
        )
        return torch.nn.functional.cross_entropy(first @ second.T / _TEMPERATURE, torch.arange(len(pairs)))

    def published(self) -> State:
        """The state as it goes out: floats in bf16, tied tensors still one tensor."""
        made: dict[tuple[object, ...], torch.Tensor] = {}
        state = {}
        for name, value in self.model.state_dict().items():
            place = (value.data_ptr(), value.shape, value.stride(), value.dtype)
            if place not in made or not value.numel():
                made[place] = value.detach().to(PUBLISHED) if value.is_floating_point() else value.detach().clone()
            state[name] = made[place]
        return state

    def with_weights(self, state: State) -> SentenceModel:
        """A second model of the same kind with these weights, in their dtypes."""
        model = type(self.model).from_pretrained(
            None, config=self.model.config, state_dict=state, dtype=PUBLISHED, local_files_only=True
        )
        return SentenceModel(model, self._tokenizer)

    def files(self, path: Path) -> dict[str, bytes]:
        """The checkpoint's auxiliary files, with a config that says what is published."""
        config = self.model.config.to_dict()
        config |= {"dtype": str(PUBLISHED).removeprefix("torch."), "architectures": [self.kind]}
        return auxiliary_files(path) | {"config.json": json.dumps(config, indent=2).encode()}


def embedding_bits(model: SentenceModel, text: str) -> str:
    """Bits of a text's embedding in hex, computed so that equal weights give equal bits: one thread, no dropout."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        model.model.eval()
        with torch.no_grad():
            vector = model.embed([text])[0]
    finally:
        torch.set_num_threads(threads)
    return vector.contiguous().view(torch.uint8).numpy().tobytes().hex()
