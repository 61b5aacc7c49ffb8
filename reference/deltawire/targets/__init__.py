"""Where a follower's state lives: arrays, a torch module, or a directory of safetensors files."""
