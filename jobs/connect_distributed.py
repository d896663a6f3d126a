"""One distributed worker under plain ``spark-submit``: ``spark-submit ... jobs/connect_distributed.py FILE``."""

import sys

from spark_connect_rt.app.cli import main

if __name__ == "__main__":
    main(["worker", *sys.argv[1:]])
