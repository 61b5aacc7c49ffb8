"""``deltawire demo``: a real model is trained, published and followed, and every version proved bit-exact."""
