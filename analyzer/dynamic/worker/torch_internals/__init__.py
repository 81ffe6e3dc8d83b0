"""All uses of private names of torch in the worker.

A test checks that no other folder uses one. `version_differences` is the only table of differences between versions
of torch.
"""
