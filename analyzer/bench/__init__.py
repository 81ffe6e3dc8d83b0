"""Raw times of a bench's processes to figures with intervals, verdicts and a recommendation. Pure; needs scipy."""
