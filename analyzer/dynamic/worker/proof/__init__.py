"""A change put to the proof: the same calls before and after it, in processes of their own, held against each other."""
