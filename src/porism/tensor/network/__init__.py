"""Functions of neural networks: activations, convolution, pooling, attention, losses."""
