"""Models with a planted weakness, each with a healthy twin."""
