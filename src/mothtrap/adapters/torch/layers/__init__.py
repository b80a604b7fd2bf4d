"""Looks at whole layers now and then: their weights at the start, units, outputs, attention."""
