"""Thin item models over arrays; rows are computed when they are asked for."""
