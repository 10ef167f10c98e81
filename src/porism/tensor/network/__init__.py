"""Functions of neural networks: convolution, attention, normalization, losses."""
