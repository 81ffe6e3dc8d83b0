"""Base classes of torch's layers that have only private names."""

from torch import nn

CONVOLUTION = nn.modules.conv._ConvNd
"""Convolutions of every number of dimensions, also transposed ones."""
BATCH_NORM = nn.modules.batchnorm._NormBase
"""Batch and instance norms of every number of dimensions."""
