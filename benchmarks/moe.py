"""The tensor table of a mixture of experts with a trillion parameters, and one of the same shape that fits in memory.

The dimensions are those that Kimi K2 publishes (DeepSeek-V3 with more experts): 61 layers of which the first is dense,
384 routed experts and one shared one, hidden size 7168, 2048 within an expert. Projections are F8_E4M3 with one F32
scale for each block of 128 x 128, as DeepSeek-V3 ships them; norms, router and embeddings are BF16.
"""

from collections.abc import Iterator
from itertools import islice

Entry = tuple[str, str, tuple[int, ...]]
"""Name, dtype and shape of a tensor."""

LAYERS, EXPERTS = 61, 384
HIDDEN, INNER, DENSE_INNER = 7168, 2048, 18432
HEADS, QUERY_RANK, VALUE_RANK, ROTARY = 64, 1536, 512, 64
VOCABULARY = 163_840
BLOCK = 128


def entries(count: int | None = None, *, scaled: bool = True) -> list[Entry]:
    """The first ``count`` tensors in table order, or all; as BF16 without scales if not ``scaled``."""
    return list(islice(_entries(scaled=scaled), count))


def miniature(full: list[Entry]) -> list[Entry]:
    """The same names and dtypes with 64 elements at most."""
    return [(name, dtype, tuple(min(size, 8) for size in shape)) for name, dtype, shape in full]


def _entries(*, scaled: bool) -> Iterator[Entry]:
    yield "model.embed_tokens.weight", "BF16", (VOCABULARY, HIDDEN)
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", "BF16", (HIDDEN,)
        for name, dtype, shape in _attention():
            yield from _projection(f"{prefix}self_attn.{name}", dtype, shape, scaled=scaled)
        yield prefix + "post_attention_layernorm.weight", "BF16", (HIDDEN,)
        if layer == 0:
            yield from _mlp(prefix + "mlp.", DENSE_INNER, scaled=scaled)
            continue
        yield prefix + "mlp.gate.weight", "BF16", (EXPERTS, HIDDEN)
        yield prefix + "mlp.gate.e_score_correction_bias", "F32", (EXPERTS,)
        for expert in range(EXPERTS):
            yield from _mlp(f"{prefix}mlp.experts.{expert}.", INNER, scaled=scaled)
        yield from _mlp(prefix + "mlp.shared_experts.", INNER, scaled=scaled)
    yield "model.norm.weight", "BF16", (HIDDEN,)
    yield "lm_head.weight", "BF16", (VOCABULARY, HIDDEN)


def _attention() -> Iterator[Entry]:
    yield "q_a_proj", "F8_E4M3", (QUERY_RANK, HIDDEN)
    yield "q_a_layernorm", "BF16", (QUERY_RANK,)
    yield "q_b_proj", "F8_E4M3", (HEADS * 192, QUERY_RANK)
    yield "kv_a_proj_with_mqa", "F8_E4M3", (VALUE_RANK + ROTARY, HIDDEN)
    yield "kv_a_layernorm", "BF16", (VALUE_RANK,)
    yield "kv_b_proj", "F8_E4M3", (HEADS * 256, VALUE_RANK)
    yield "o_proj", "F8_E4M3", (HIDDEN, HEADS * 128)


def _mlp(prefix: str, inner: int, *, scaled: bool) -> Iterator[Entry]:
    for name, shape in (("gate_proj", (inner, HIDDEN)), ("up_proj", (inner, HIDDEN)), ("down_proj", (HIDDEN, inner))):
        yield from _projection(prefix + name, "F8_E4M3", shape, scaled=scaled)


def _projection(name: str, dtype: str, shape: tuple[int, ...], *, scaled: bool) -> Iterator[Entry]:
    if dtype != "F8_E4M3" or not scaled:
        yield f"{name}.weight", "BF16", shape
        return
    yield f"{name}.weight", dtype, shape
    yield f"{name}.weight_scale_inv", "F32", (-(-shape[0] // BLOCK), -(-shape[1] // BLOCK))
