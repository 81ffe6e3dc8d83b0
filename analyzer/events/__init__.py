"""What Dynamo does with frames, as values and in the words of the schema: a worker records it, a trace of torch holds it.

Standard library and the schema only: it travels with the worker.
"""
