"""Wording that several formats share."""
