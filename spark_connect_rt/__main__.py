"""``python -m spark_connect_rt``: the ``connectrt`` command line."""

from __future__ import annotations

from spark_connect_rt.app.entry import main

if __name__ == "__main__":
    main()
