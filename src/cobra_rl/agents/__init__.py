"""Agents: what to do, given what is seen, imagined and wanted. The letters of axes are those of docs/design.md."""
