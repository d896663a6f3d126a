"""Three real workers, one broker, real faults; every line is counted afterwards. The stories run in order.

Each leaves three healthy workers behind, so that a start (20 CPU seconds) is paid only where a worker died.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_cluster import EmbeddedKafkaCluster
from spark_connect_rt.engine.startup.java_home import Java
from tests.e2e.commands import until
from tests.e2e.conftest import Times
from tests.e2e.line_flow import FlowStory, now_ms
from tests.e2e.worker_group import SubmittedWorker, WorkerGroup, group_coordinated_by, timed

SESSION_S, HEARTBEAT_S = 10.0, 3.0  # Java's defaults, which the workers have
# Processes share two cores with whatever else the machine does: a story fails far beyond what is expected only.
SLACK_S = 20.0
START_S = 240.0  # a worker needs 20 CPU seconds until its first Spark job runs
FLOW_S = 60.0
COORDINATOR = 2  # the broker that coordinates the workers' group; broker 1 is the controller


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[EmbeddedKafkaCluster]:
    """Two brokers of this module's own: they are stopped and killed."""
    with EmbeddedKafkaCluster(tmp_path_factory.mktemp("kafka"), 2, java=java, die_with_parent=True) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, kafka: EmbeddedKafkaCluster) -> Iterator[WorkerGroup]:
    name = group_coordinated_by(kafka.bootstrap_servers, COORDINATOR)
    workers = WorkerGroup(tmp_path_factory.mktemp("group"), kafka.bootstrap_servers, name, replication=2)
    yield workers
    workers.close()


class Story(FlowStory):
    """A story of the group's."""

    def __init__(self, group: WorkerGroup, times: Times, name: str) -> None:
        super().__init__(group, times, name)
        self._group = group

    def check(self, *dead: SubmittedWorker) -> None:
        self._group.check(self.begun_ms, dead)


def test_join_spreads_the_tasks_and_repeats_nothing(group: WorkerGroup, times: Times) -> None:
    first, *others = group.workers
    story = Story(group, times, "join")
    story.note("first worker healthy", f"{timed(lambda: first.start(START_S)):.1f} s")
    group.deploy()
    story.note("first lines in the sink's file", f"{group.await_flow(START_S, 'one worker'):.1f} s after deploying")
    for worker in others:
        worker.launch()
    for worker in others:
        worker.await_answer("/health", START_S)
    story.note("spread over three", f"{group.await_settled(START_S, 'join'):.1f} s after the last was healthy")
    group.await_flow(FLOW_S, "three workers")
    assert story.counted() == (0, 0, 0), "work that moves in order repeats nothing"
    story.check()


def test_sigterm_drains_commits_and_the_rest_take_over_in_one_round(group: WorkerGroup, times: Times) -> None:
    assert group.alive() == group.workers, "the story before left a worker down"
    leaver, *survivors = group.workers
    generation, processes = group.generation(), leaver.processes()
    story = Story(group, times, "SIGTERM")
    os.kill(leaver.pid, signal.SIGTERM)
    until(leaver.ended, 60, "the worker ends", group.stories)
    story.note("process gone after", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    assert leaver.stop() == 0
    group.await_settled(60, "SIGTERM")
    group.await_flow(FLOW_S, "after SIGTERM")
    story.note_outage()
    story.note("generations used", group.generation() - generation)
    assert story.counted() == (0, 0, 0), "an orderly leave repeats nothing"
    story.check()
    assert group.generation() == generation + 1, "taken over in one round"
    assert group.alive() == survivors
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == [], "nothing of the worker is left"


def test_a_worker_is_added(group: WorkerGroup, times: Times) -> None:
    story = Story(group, times, "add a worker")
    group.workers[0].start(START_S)
    healthy_ms = now_ms()
    group.await_settled(START_S, "added")
    story.note("spread", f"{(now_ms() - healthy_ms) / 1000:.1f} s after it was healthy")
    group.await_flow(FLOW_S, "added")
    story.note_outage()
    assert story.counted() == (0, 0, 0)
    story.check()


def test_kill_9_loses_no_line_and_the_tasks_run_again_elsewhere(group: WorkerGroup, times: Times) -> None:
    assert group.alive() == group.workers, "the story before left a worker down"
    victim = group.workers[1]
    processes = victim.processes()
    owned = [task for task, (_, worker) in group.owners(group.workers[0]).items() if worker == victim.worker_id]
    sources = [task for task in owned if task.startswith("in-")]
    story = Story(group, times, "kill -9")
    victim.kill()
    group.await_settled(SESSION_S + 3 + SLACK_S, "kill -9")
    story.note("statuses RUNNING elsewhere after", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    group.await_flow(FLOW_S, "after kill -9")
    story.note("lines in the sink's file again after", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    story.note_outage()
    repeated, _, replayed = story.counted()
    story.check(victim)
    assert replayed <= len(sources), "each source it had began again once; two at once would repeat nearly every line"
    assert repeated < group.feeder.written
    _, alive = psutil.wait_procs(processes, timeout=20)
    assert alive == [], "its processes ended by themselves"
    victim.start(START_S)
    group.await_settled(START_S, "restarted")


def test_a_zombie_commits_nothing_and_rejoins(group: WorkerGroup, times: Times) -> None:
    assert group.alive() == group.workers, "the story before left a worker down"
    reading = {worker for task, (_, worker) in group.owners(group.workers[0]).items() if task.startswith("in-")}
    zombie = [worker for worker in group.workers if worker.worker_id in reading][-1]
    others = [worker for worker in group.workers if worker is not zombie]
    owned = [task for task, (_, worker) in group.owners(others[0]).items() if worker == zombie.worker_id]
    sources = [task for task in owned if task.startswith("in-")]
    below = zombie.processes()[1:]
    assert len(group.readers_of(below)) >= 1
    story = Story(group, times, "zombie")
    psutil.Process(zombie.pid).suspend()
    until(lambda: group.readers_of(below) == [], SESSION_S + SLACK_S, "its executors stop by themselves", group.stories)
    story.note("its readers ended after", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    settled = lambda: group.settled_on(others)  # noqa: E731
    until(settled, SESSION_S + 3 + SLACK_S, "the others run everything", group.stories)
    story.note("statuses RUNNING elsewhere after", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    group.await_flow(FLOW_S, "beside a zombie")
    story.note_outage()
    until(lambda: now_ms() - story.begun_ms > 2 * SESSION_S * 1000, 2 * SESSION_S, "two session time-outs")
    psutil.Process(zombie.pid).resume()
    woken_ms = now_ms()
    group.await_settled(START_S, "the zombie is back")
    story.note("rejoined and spread", f"{(now_ms() - woken_ms) / 1000:.1f} s after SIGCONT")
    group.await_flow(FLOW_S, "after the zombie")
    _, _, replayed = story.counted()
    story.check(zombie)
    assert replayed <= len(sources), "each source it had began again once, when it was taken over"


def test_the_coordinator_moves_when_its_broker_is_killed(
    group: WorkerGroup, kafka: EmbeddedKafkaCluster, times: Times
) -> None:
    assert group.alive() == group.workers, "the story before left a worker down"
    generation, owners = group.generation(), group.owners(group.workers[0])
    story = Story(group, times, "coordinator killed")
    kafka.broker(COORDINATOR).kill()
    group.await_flow(START_S, "the coordinator's broker is gone")
    until(lambda: now_ms() - story.begun_ms > SESSION_S * 1000, 2 * SESSION_S, "a session later")
    group.await_flow(FLOW_S, "a session later")
    story.note_outage()
    story.note("generations used", group.generation() - generation)
    story.counted()
    group.check(story.begun_ms)
    assert group.owners(group.workers[0]) == owners, "nothing had to move"
    kafka.broker(COORDINATOR).start()
    kafka.await_brokers(2)
    group.await_flow(FLOW_S, "the broker is back")


def test_the_brokers_stop_and_start_again(group: WorkerGroup, kafka: EmbeddedKafkaCluster, times: Times) -> None:
    assert group.alive() == group.workers, "the story before left a worker down"
    generation = group.generation()
    story = Story(group, times, "brokers stop and start")
    kafka.stop()
    kafka.start()
    story.note("brokers away for", f"{(now_ms() - story.begun_ms) / 1000:.1f} s")
    group.await_flow(START_S, "the brokers are back")
    group.await_settled(START_S, "the brokers are back")
    story.note_outage()
    story.note("generations used", group.generation() - generation)
    story.counted()
    story.check(*group.workers)  # without a broker nobody could say that his tasks stopped
    assert [worker for worker in group.workers if worker.ended()] == []
