"""Policy, sandbox and execution of scripts and commands."""
