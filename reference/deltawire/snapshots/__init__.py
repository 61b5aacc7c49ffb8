"""Whole states as safetensors shards in the Hugging Face layout (SPEC.md section 8.7)."""
