"""Dynamo's actions on frames, as values (`record`), and in the terms of the schema (`to_schema`).

A worker records these events, and a trace of torch holds them. The package imports only the standard library and the
schema, because it is part of the worker.
"""
