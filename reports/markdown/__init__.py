"""Markdown for pull requests."""
