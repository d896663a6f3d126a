"""Adds the words to the command line."""

from __future__ import annotations

import typer

from spark_connect_rt.app.commands.cluster.context_words import add_context_words
from spark_connect_rt.app.commands.cluster.reading_words import add_reading_words


def add_cluster_commands(cli: typer.Typer) -> None:
    """Add every word that steers a cluster."""
    add_reading_words(cli)
    add_context_words(cli)
