"""What becomes of a Java worker's file and connectors here: judged line by line, pure.

Owns: verdicts and their sentences, and the steps of a change. What is read comes from
``app.migration``.
"""
