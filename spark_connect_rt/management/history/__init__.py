"""The history of one worker: it notes what is changed and by whom, follows where connectors are, and answers for both."""
