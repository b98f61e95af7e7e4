"""Presentation: results and their tables, figures, films, and the HTML report. It reads results and never trains."""
