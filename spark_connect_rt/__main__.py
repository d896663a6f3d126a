"""``python -m spark_connect_rt``: the ``connectrt`` command line."""

from spark_connect_rt.app.cli import main

if __name__ == "__main__":
    main()
