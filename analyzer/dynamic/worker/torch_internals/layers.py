"""Private base classes of torch's layers."""

from torch import nn

CONVOLUTION = nn.modules.conv._ConvNd
"""Convolutions of every number of dimensions, transposed ones too."""
BATCH_NORM = nn.modules.batchnorm._NormBase
"""Batch and instance norms of every number of dimensions."""
