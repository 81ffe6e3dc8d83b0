"""The stages of a run, one a file; `pipeline` has their order. No stage imports another."""
