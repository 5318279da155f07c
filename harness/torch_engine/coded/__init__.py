"""The codec on tensors of any device: the declared path ``torch``, equal to the oracle bit for bit."""
