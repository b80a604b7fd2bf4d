"""mothtrap for coding agents: the tools of an MCP server, and a skill."""
