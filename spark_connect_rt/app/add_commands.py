"""Adds the words to the command line."""

from __future__ import annotations

import typer

from spark_connect_rt.cli.context_commands import add_context_words
from spark_connect_rt.cli.reading_options import add_reading_words
from spark_connect_rt.operations.connectors.change_commands import add_changing_words
from spark_connect_rt.operations.connectors.inspect_commands import add_seeing_words
from spark_connect_rt.operations.connectors.offset_commands import FileReset, add_offset_words
from spark_connect_rt.operations.dead_letters.commands import add_letter_words


def add_cluster_commands(cli: typer.Typer, offsets: typer.Typer, file_reset: FileReset) -> None:
    """Add every word that steers a cluster; ``offsets``: the group of words that is there, and its reset."""
    add_reading_words(cli)
    add_changing_words(cli)
    add_seeing_words(cli)
    add_offset_words(offsets, file_reset)
    add_letter_words(cli)
    add_context_words(cli)
