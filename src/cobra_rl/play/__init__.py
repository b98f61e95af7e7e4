"""`cobra play`: a local page on which one pushes sprites, looks inside the agent, watches it and teaches it.

`protocol.py` says which messages there are, `inspection.py` what the agent sees and imagines as arrays, `catalogue.py`
which agents can be chosen, `stage.py` and `session.py` what a page's session does with them, `teach.py` how it is
taught, and `server.py` is the only file that knows the web. It needs the extra `[play]`.
"""
