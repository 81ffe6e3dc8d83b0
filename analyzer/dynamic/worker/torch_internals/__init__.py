"""Every private name of torch that the worker uses.

No other folder uses one; a test checks that. `differences` is the one table of what differs between versions of
torch.
"""
