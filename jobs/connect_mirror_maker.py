"""A dedicated MirrorMaker under plain ``spark-submit``: ``spark-submit ... jobs/connect_mirror_maker.py FILE ...``."""

import sys

from spark_connect_rt.app.cli import main

if __name__ == "__main__":
    main(["mirror", "run", *sys.argv[1:]])
