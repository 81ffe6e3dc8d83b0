"""Control flow that depends on tensors: TCR1xx."""
