"""Public in-memory implementations of every port; they pass the same contract tests as the real ones."""
