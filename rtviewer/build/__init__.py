"""Inputs and build flags to structures."""
