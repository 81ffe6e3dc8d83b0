"""Extensions and foreign code: TCR4xx."""
