"""Agents: what to do, given what is seen, imagined and wanted."""
