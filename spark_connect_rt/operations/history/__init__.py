"""The history of one worker: notes what is changed and by whom, follows where connectors are, answers for both."""
