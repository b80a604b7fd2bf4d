"""Answers of mothtrap for coding agents: tools of an MCP server, and a skill."""
