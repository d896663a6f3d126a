"""pyarrow without pandas, until somebody imports it. Each in a process of its own: it is settled once for each."""

import subprocess
import sys
from textwrap import dedent

BEGIN = """
import sys
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
load_pandas_on_demand()
import pyarrow as pa
import pyarrow.compute as pc
column = pa.array([1, None])
assert pc.fill_null(column, 2).to_pylist() == [1, 2]
assert "pandas" not in sys.modules
"""


def run(then: str, begin: str = BEGIN) -> None:
    code = begin + dedent(then)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def test_pyarrow_converts_what_pandas_made_by_then() -> None:
    run("""
        import pandas as pd
        series = pd.Series([1.0, float("nan")])
        assert pa.array(series, from_pandas=True).null_count == 1
        table = pa.Table.from_pandas(pd.DataFrame({"a": series}))
        assert table.to_pandas()["a"].isna().tolist() == [False, True]
    """)


def test_asking_where_pandas_is_does_not_blind_pyarrow() -> None:
    run("""
        import importlib.util
        import threading
        asking = [threading.Thread(target=importlib.util.find_spec, args=["pandas"]) for _ in range(8)]
        for thread in asking:
            thread.start()
        for thread in asking:
            thread.join()
        assert importlib.util.find_spec("pandas").name == "pandas"
        assert "pandas" not in sys.modules
        import pandas as pd
        assert pa.array(pd.Series([1.0, float("nan")])).null_count == 1
        assert not any(type(one).__name__ == "_Watch" for one in sys.meta_path)
    """)


def test_pyarrow_fetches_pandas_itself_when_asked_for_it() -> None:
    run("""
        assert pa.table({"a": column}).to_pandas()["a"].isna().tolist() == [False, True]
        import pandas as pd
        assert pa.array(pd.Series([1])).to_pylist() == [1]
    """)


def test_earlier_import_of_pandas_stays() -> None:
    begin = "import pandas as pd\n" + BEGIN.replace('"pandas" not in', '"pandas" in')
    run("assert pa.array(pd.Series([1])).to_pylist() == [1]", begin)


def test_a_module_that_only_looks_for_pandas_is_imported_without() -> None:
    run("""
        from spark_connect_rt.base.pandas_on_demand import import_without_pandas
        import_without_pandas("pyspark.testing.utils")
        assert "pandas" not in sys.modules
        assert sys.modules["pyspark.testing.utils"].have_numpy
        import pandas as pd
        assert pa.array(pd.Series([1])).to_pylist() == [1]
    """)


def test_where_pandas_is_not_on_demand_a_module_is_imported_as_any_other() -> None:
    begin = "import sys\nfrom spark_connect_rt.base.pandas_on_demand import import_without_pandas\n"
    run('import_without_pandas("pandas.api.types")\nassert "pandas" in sys.modules', begin)
