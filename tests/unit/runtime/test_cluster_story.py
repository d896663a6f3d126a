"""One worker through the whole story: create, run, durable, offsets, pause, fail, restart, change, delete."""

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import (
    AlreadyExistsError,
    BadConfigError,
    BadRequestError,
    ConnectError,
    NotFoundError,
    RetriableError,
    ShuttingDownError,
)
from spark_connect_rt.runtime.herder.herder_requests import (
    DeleteConnector,
    PatchConfig,
    PutConfig,
    PutTaskConfigs,
    ReadOffsets,
    ResetTopics,
    RestartConnector,
    RestartTask,
    SetTargetState,
)
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

RUNNING_1 = {"a": "RUNNING", "a-0": "RUNNING"}


def test_a_created_connector_runs_and_its_offsets_are_stored(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    written = create(cluster, "a", source(records=250))
    assert written.created
    assert written.info.config["name"] == "a"
    assert written.info.type == "source"
    assert cluster.states("a")["a"] in {"UNASSIGNED", "RUNNING"}  # never 404 after the answer
    cluster.until(lambda: emitted(cluster) == expected("a-0", 250))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    cluster.until(lambda: [o.offset for o in worker.herder.submit(ReadOffsets("a")).result(5)] == [{"position": 250}])
    cluster.until(lambda: worker.herder.views.topics("a") == ("t",))
    (progress,) = worker.herder.views.progress().tasks
    assert (progress.records, progress.state, progress.topics) == (250, "RUNNING", ("t",))
    assert progress.records_per_s > 0


def test_a_second_worker_on_the_same_topics_resumes_and_repeats_nothing(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    create(cluster, "a", source(records=30))
    cluster.until(lambda: emitted(cluster) == expected("a-0", 30))
    cluster.stop_worker("w1")
    worker = cluster.add_worker("w2")
    cluster.until(lambda: worker.running_tasks() == {"a-0"})
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=35))))
    cluster.until(lambda: emitted(cluster) == expected("a-0", 35))


def test_stopping_a_worker_drains_and_reports_unassigned(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker("w1")
    create(cluster, "a", source(records=5))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    cluster.stop_worker("w1")
    assert worker.herder.views.health().status == "unhealthy"
    with pytest.raises(ShuttingDownError):
        worker.herder.submit(DeleteConnector("a")).result(1)
    status = worker.herder.views.connector_status("a")
    assert (status.connector.state, status.tasks[0].state) == ("UNASSIGNED", "UNASSIGNED")
    assert cluster.group.member_ids == ()


def test_a_failing_task_is_failed_with_its_trace_and_its_neighbour_continues(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    faults.raises("a-0.poll", ValueError("disk on fire"))
    create(cluster, "a", source(records=10, tasks=2))
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "FAILED", "a-1": "RUNNING"})
    cluster.until(lambda: emitted(cluster) == expected("a-1", 10))
    assert "disk on fire" in (worker.herder.views.task_status(ConnectorTaskId("a", 0)).trace or "")
    faults.raises("a-0.poll", None)
    cluster.on_leader(lambda herder: herder.submit(RestartTask(ConnectorTaskId("a", 0))))
    cluster.until(lambda: emitted(cluster) == sorted(expected("a-0", 10) + expected("a-1", 10)))
    cluster.until(lambda: cluster.states("a")["a-0"] == "RUNNING")


def test_restart_by_plan_touches_failed_instances_only(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    faults.raises("a-1.poll", ValueError("no"))
    create(cluster, "a", source(tasks=2))
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING", "a-1": "FAILED"})
    starts = faults.calls["a.start"], faults.calls["a-0.start"]
    faults.raises("a-1.poll", None)
    plan = cluster.on_leader(lambda herder: herder.submit(RestartConnector("a", include_tasks=True, only_failed=True)))
    assert plan is not None
    assert [t.state for t in plan.tasks] == ["RUNNING", "RESTARTING"]
    assert plan.connector.state == "RUNNING"
    cluster.until(lambda: cluster.states("a")["a-1"] == "RUNNING")
    assert (faults.calls["a.start"], faults.calls["a-0.start"]) == starts


def test_restart_of_the_connector_alone_starts_it_once_more(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    create(cluster, "a", source())
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    assert cluster.on_leader(lambda herder: herder.submit(RestartConnector("a", False, False))) is None
    cluster.until(lambda: faults.calls["a.start"] == 2)
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    assert faults.calls["a-0.start"] == 1


def test_pause_and_resume(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source())
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    worker.herder.submit(SetTargetState("a", TargetState.PAUSED)).result(5)
    cluster.until(lambda: cluster.states("a") == {"a": "PAUSED", "a-0": "PAUSED"})
    worker.herder.submit(SetTargetState("a", TargetState.STARTED)).result(5)
    cluster.until(lambda: cluster.states("a") == RUNNING_1)


def test_stop_drops_the_tasks_and_resume_creates_them_again(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(tasks=2))
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING", "a-1": "RUNNING"})
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    cluster.until(lambda: cluster.states("a") == {"a": "STOPPED"})
    cluster.until(lambda: worker.herder.views.progress().tasks == ())
    worker.herder.submit(SetTargetState("a", TargetState.STARTED)).result(5)
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING", "a-1": "RUNNING"})


@pytest.mark.parametrize("state", [TargetState.PAUSED, TargetState.STOPPED])
def test_an_initial_state_keeps_the_connector_from_starting(cluster: InProcessCluster, state: TargetState) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(), state)
    cluster.until(lambda: cluster.states("a") == {"a": state.value})
    assert faults.calls["a.start"] == 0
    worker.herder.submit(SetTargetState("a", TargetState.STARTED)).result(5)
    cluster.until(lambda: cluster.states("a") == RUNNING_1)


def test_a_changed_configuration_restarts_connector_and_tasks(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    create(cluster, "a", source(records=5))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    written = cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(records=5, note="new"))))
    assert not written.created
    cluster.until(lambda: faults.calls["a.start"] == 2)
    # The task's own configuration is the same; it restarts because the connector's changed (KAFKA-9228).
    cluster.until(lambda: faults.calls["a-0.start"] == 2)
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    assert emitted(cluster) == expected("a-0", 5)


def test_fewer_tasks_stop_the_rest_and_remove_their_statuses(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(tasks=3))
    cluster.until(lambda: len(worker.running_tasks()) == 3)
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", source(tasks=1))))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    cluster.until(lambda: worker.running_tasks() == {"a-0"})
    with pytest.raises(NotFoundError, match="No status found for task a-2"):
        worker.herder.views.task_status(ConnectorTaskId("a", 2))


def test_topics_that_are_reset_while_records_flow_are_there_again(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(records=1_000_000))
    cluster.until(lambda: worker.herder.views.topics("a") == ("t",))
    cluster.on_leader(lambda herder: herder.submit(ResetTopics("a")))
    before = len(cluster.topics.values("t"))
    cluster.until(lambda: len(cluster.topics.values("t")) > before and worker.herder.views.topics("a") == ("t",))


def test_delete_stops_everything_and_a_new_one_of_the_name_may_follow(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(records=5))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    cluster.on_leader(lambda herder: herder.submit(DeleteConnector("a")))
    with pytest.raises(NotFoundError, match="No status found for connector a"):
        worker.herder.views.connector_status("a")
    cluster.until(lambda: worker.herder.views.progress().tasks == ())
    # What the task said last may reach the topic behind its end; the leader's next rounds remove that, too.
    cluster.until(lambda: still_known(cluster) == [])
    cluster.until(lambda: worker.herder.views.topics("a") == ())  # the worker reads the topic behind its leader
    create(cluster, "a", source(records=7))
    cluster.until(lambda: emitted(cluster) == expected("a-0", 7))


def still_known(cluster: InProcessCluster) -> list[bytes | None]:
    """Return the keys of the status topic that its compaction would keep."""
    live = {record.key: record.value for record in cluster.status_topic.records()}
    return [key for key, value in live.items() if value is not None]


def test_refusals_name_what_is_wrong(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    create(cluster, "a", source())
    with pytest.raises(AlreadyExistsError, match="Connector a already exists"):
        create(cluster, "a", source())
    with pytest.raises(BadRequestError, match="which name matches Nope"):
        create(cluster, "b", source(**{"connector.class": "Nope"}))
    with pytest.raises(BadRequestError, match=r"\(c\) doesn't match connector name in the URL \(b\)"):
        create(cluster, "b", source(name="c"))
    with pytest.raises(BadConfigError) as refused:
        create(cluster, "b", {"connector.class": "MemorySource", "records": "many"})
    assert set(refused.value.problems) == {"topic", "records"}
    for request in (
        lambda herder: herder.submit(DeleteConnector("x")),
        lambda herder: herder.submit(SetTargetState("x", TargetState.PAUSED)),
        lambda herder: herder.submit(SetTargetState("x", TargetState.STOPPED)),
        lambda herder: herder.submit(RestartConnector("x", True, True)),
        lambda herder: herder.submit(RestartTask(ConnectorTaskId("a", 9))),
    ):
        with pytest.raises(NotFoundError):
            cluster.on_leader(request)


def test_a_connector_that_cannot_start_is_failed_and_others_run(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    faults.raises("bad.start", RuntimeError("no licence"))
    create(cluster, "bad", source())
    create(cluster, "a", source(records=3))
    cluster.until(lambda: cluster.states("bad") == {"bad": "FAILED"})
    assert "no licence" in (worker.herder.views.connector_status("bad").connector.trace or "")
    cluster.until(lambda: emitted(cluster) == expected("a-0", 3))
    with pytest.raises(ConnectError, match=r"^Failed to start connector: bad$"):
        cluster.on_leader(lambda herder: herder.submit(RestartConnector("bad", False, False)))
    faults.raises("bad.start", None)
    cluster.on_leader(lambda herder: herder.submit(RestartConnector("bad", False, False)))
    cluster.until(lambda: cluster.states("bad") == {"bad": "RUNNING", "bad-0": "RUNNING"})


def test_a_failed_connector_comes_back_when_it_is_configured_again_with_the_same(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    faults.raises("bad.start", RuntimeError("no licence"))
    create(cluster, "bad", source())
    cluster.until(lambda: cluster.states("bad") == {"bad": "FAILED"})
    faults.raises("bad.start", None)
    cluster.on_leader(lambda herder: herder.submit(PutConfig("bad", source())))
    cluster.until(lambda: cluster.states("bad") == {"bad": "RUNNING", "bad-0": "RUNNING"})


def test_a_connector_that_blocks_delays_no_other(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    gate = faults.blocks("slow.start")
    create(cluster, "slow", source())
    create(cluster, "a", source(records=3))
    cluster.until(lambda: emitted(cluster) == expected("a-0", 3))
    assert cluster.states("slow") == {"slow": "UNASSIGNED"}
    gate.set()
    cluster.until(lambda: cluster.states("slow")["slow"] == "RUNNING")


def test_too_many_tasks_fail_the_connector(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(split="3"))
    cluster.until(lambda: cluster.states("a") == {"a": "FAILED"})
    assert "which is greater than 1, the maximum number of tasks" in (
        worker.herder.views.connector_status("a").connector.trace or ""
    )


def test_failed_task_configs_are_retried_and_status_and_events_say_why(
    cluster: InProcessCluster,
) -> None:
    worker = cluster.add_worker()
    faults.raises("a.task_configs", RuntimeError("not yet"))
    create(cluster, "a", source())
    cluster.until(lambda: faults.calls["a.task_configs"] >= 2)
    assert cluster.states("a") == {"a": "RUNNING"}
    cluster.until(lambda: "not yet" in (worker.herder.views.connector_status("a").connector.trace or ""))
    assert any("a made no task configs" in line.reason for line in worker.herder.views.events())
    faults.raises("a.task_configs", None)
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    assert worker.herder.views.connector_status("a").connector.trace is None


def test_internal_requests_are_compared_before_they_are_written(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source())
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    stored = [info.config for info in worker.herder.views.task_infos("a")]
    before = len(cluster.config_topic.records())
    cluster.on_leader(lambda herder: herder.submit(PutTaskConfigs("a", stored)))
    assert len(cluster.config_topic.records()) == before
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    with pytest.raises(BadRequestError, match="stopped connector a"):
        cluster.on_leader(lambda herder: herder.submit(PutTaskConfigs("a", stored)))


def test_a_patch_applies_to_what_is_stored_and_is_checked_whole(cluster: InProcessCluster) -> None:
    cluster.add_worker()
    create(cluster, "a", source(records=5, note="old"))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    patched = cluster.on_leader(lambda herder: herder.submit(PatchConfig("a", {"note": None, "records": "7"})))
    assert not patched.created
    assert "note" not in patched.info.config
    assert (patched.info.config["records"], patched.info.config["topic"]) == ("7", "t")
    cluster.until(lambda: emitted(cluster) == expected("a-0", 7))
    with pytest.raises(BadConfigError, match="topic"):
        cluster.on_leader(lambda herder: herder.submit(PatchConfig("a", {"topic": None})))
    with pytest.raises(NotFoundError, match="Connector x not found"):
        cluster.on_leader(lambda herder: herder.submit(PatchConfig("x", {})))


def test_two_patches_at_once_are_both_kept(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    create(cluster, "a", source(records=5))
    cluster.until(lambda: cluster.states("a") == RUNNING_1)
    both = [worker.herder.submit(PatchConfig("a", {f"note.{number}": "x"})) for number in range(4)]
    assert not any(answer.result(15).created for answer in both)
    config = worker.herder.views.connector_config("a").written()
    assert [config[f"note.{number}"] for number in range(4)] == ["x"] * 4


def test_i5_a_stop_waits_for_offsets_that_could_not_be_appended(cluster: InProcessCluster) -> None:
    cluster.add_worker("w1")
    cluster.until_stable()
    for _ in range(4):
        cluster.offset_topic.fail_next_append(RetriableError("a hiccup"))
    create(cluster, "a", source(records=1))
    cluster.until(lambda: len(emitted(cluster)) == 1)
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STOPPED)))
    # Nothing is tried again for a run that is over, so this one was not.
    cluster.until(lambda: [record.value for record in cluster.offset_topic.records()] == [b'{"position":1}'])
