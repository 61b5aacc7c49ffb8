"""The process that trains: real AdamW steps on fp32 master weights, each published in bf16."""

from __future__ import annotations

import random
import time
from pathlib import Path

import torch

from deltawire.demo.messages import Anchored, Committed, Embedded, Loaded, Report, TrainerSettings, play
from deltawire.demo.model import SentenceModel, State, embedding_bits
from deltawire.demo.sentences import PROBE, sentence_pairs
from deltawire.format.tensors import TensorTable, build_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.publisher import Publisher
from deltawire.producer.torch_source import TorchSource
from deltawire.store import open_store
from deltawire.torch_digest import digest

_BATCH = 24


def train(settings: TrainerSettings, report: Report) -> None:
    """Train, and publish the weights before the first step and after each."""
    started = time.perf_counter()
    torch.set_num_threads(settings.threads)
    torch.manual_seed(0)
    model = SentenceModel.load(Path(settings.model), torch.float32)
    state = model.published()
    source = TorchSource(state)
    table = build_table(source.entries, aliases=source.aliases, limits=DEFAULT_LIMITS)
    report(
        Loaded(
            kind=model.kind,
            tensors=len(table.tensors),
            elements=table.elements,
            state_bytes=table.state_bytes,
            seconds=time.perf_counter() - started,
        )
    )
    store = open_store(settings.store)
    policy = AnchorPolicy(every=settings.anchor_every, outweigh=None)
    single = not store.guarantees.conditional_create
    with Publisher(store, anchors=policy, single_writer=single, timeout=settings.timeout) as publisher:
        _publish(publisher, state, table, report, files=model.files(Path(settings.model)))
        anchored = publisher.anchor_version
        optimizer = torch.optim.AdamW(model.model.parameters(), lr=settings.lr, betas=(0.9, 0.99), weight_decay=0.0)
        pairs = sentence_pairs()
        chosen = random.Random(0)  # noqa: S311 - which sentences come next is no secret
        for _ in range(settings.steps):
            stepping = time.perf_counter()
            loss = _step(model, optimizer, chosen.sample(pairs, _BATCH))
            state = model.published()
            _publish(publisher, state, table, report, loss=loss, step_seconds=time.perf_counter() - stepping)
            anchored = _report_anchor(publisher, anchored, report)
        publisher.wait_for_anchor(timeout=settings.timeout)
        _report_anchor(publisher, anchored, report)
    report(Embedded(kind=model.kind, bits=embedding_bits(model.with_weights(state), PROBE)))


def _step(model: SentenceModel, optimizer: torch.optim.Optimizer, pairs: list[tuple[str, str]]) -> float:
    model.model.train()
    optimizer.zero_grad()
    loss = model.loss(pairs)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.model.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


def _publish(
    publisher: Publisher,
    state: State,
    table: TensorTable,
    report: Report,
    *,
    loss: float | None = None,
    step_seconds: float = 0.0,
    files: dict[str, bytes] | None = None,
) -> None:
    # Not the publisher's sum: torch's own, over the tensors that are about to be handed to it.
    truth = sum(digest(state[tensor.name], tensor) for tensor in table.tensors) % (1 << 64)
    done = publisher.publish(state, files=files, metadata={} if loss is None else {"loss": loss})
    report(
        Committed(
            version=done.version,
            loss=loss,
            step_seconds=step_seconds,
            record_digest=done.state_digest,
            trainer_digest=f"{truth:016x}",
            changed_elements=done.changed_elements,
            elements=done.elements,
            stored_bytes=done.data_bytes + done.record_bytes,
            state_bytes=done.state_bytes,
            encode_seconds=done.timings.encode_seconds,
            upload_seconds=done.timings.upload_seconds,
            commit_seconds=done.timings.commit_seconds,
            publish_seconds=done.timings.total_seconds,
        )
    )


def _report_anchor(publisher: Publisher, before: int | None, report: Report) -> int | None:
    if publisher.anchor_error is not None:
        raise publisher.anchor_error
    newest = publisher.anchor_version
    if newest is not None and newest != before:
        report(Anchored(version=newest))
    return newest


if __name__ == "__main__":
    play(TrainerSettings, train)
