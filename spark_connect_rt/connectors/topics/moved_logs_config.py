"""Settings of connectors that read topics: the reaction to lost records, or to a topic that was created again."""

from __future__ import annotations

from spark_connect_rt.config.config_def import ConfigKey, Importance, Type
from spark_connect_rt.config.validators import one_of

ON_GAP, ON_RECREATED = "on.gap", "on.topic.recreated"
CONTINUE, FAIL = "continue", "fail"
KEYS = (
    ConfigKey(
        ON_GAP,
        Type.STRING,
        CONTINUE,
        Importance.MEDIUM,
        "The reaction when records were deleted before they were read. continue: log a warning, count it, and "
        "resume at the position of auto.offset.reset. fail: the task fails.",
        one_of(CONTINUE, FAIL, ignore_case=True),
    ),
    ConfigKey(
        ON_RECREATED,
        Type.STRING,
        CONTINUE,
        Importance.MEDIUM,
        "The reaction when a topic was deleted and created again. continue: log a warning, count it, and read the "
        "new topic from its beginning. fail: the task fails.",
        one_of(CONTINUE, FAIL, ignore_case=True),
    ),
)
