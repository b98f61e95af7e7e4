"""Runs and worlds as folders: settings, lock, log, resume, and loading whatever a folder holds."""
