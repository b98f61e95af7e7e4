"""Everything for eyes: results and their tables, figures, films, and the page of the report. It reads, never trains."""
