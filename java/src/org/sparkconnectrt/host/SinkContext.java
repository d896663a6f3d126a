package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.errors.IllegalWorkerStateException;
import org.apache.kafka.connect.runtime.WorkerSinkTaskContext;
import org.apache.kafka.connect.runtime.errors.WorkerErrantRecordReporter;
import org.apache.kafka.connect.sink.ErrantRecordReporter;

/**
 * What a sink task may ask of its worker; gathered during a call, sent with its answer.
 *
 * <p>Extends Connect's own class because the Iceberg sink reads its field {@code consumer} by
 * reflection: {@link GroupMember}.
 */
final class SinkContext extends WorkerSinkTaskContext {
  private final SinkHosted hosted;
  private final WorkerErrantRecordReporter reporter;
  private final Set<TopicPartition> assignment = new HashSet<>();
  private final Set<TopicPartition> paused = new HashSet<>();
  private final Map<TopicPartition, Long> rewinds = new LinkedHashMap<>();
  private final GroupMember member;
  private final LatestConfig latest;
  private PluginMetrics metrics;
  private boolean steered;
  private boolean commit;
  private long timeoutMs = -1;

  /** {@code start}: of the frame; it holds the properties of the task's consumer, too. */
  SinkContext(SinkHosted hosted, WorkerErrantRecordReporter reporter, JsonNode start) {
    this(hosted, reporter, start, new AtomicReference<>());
  }

  private SinkContext(
      SinkHosted hosted,
      WorkerErrantRecordReporter reporter,
      JsonNode start,
      AtomicReference<GroupMember>
          late) { // it needs this context, whose constructor needs its proxy
    super(
        GroupMember.proxy(
            (proxy, method, arguments) -> late.get().invoke(proxy, method, arguments)),
        null,
        null);
    this.hosted = hosted;
    this.reporter = reporter;
    this.member = new GroupMember(this, Hosted.strings(start.path("consumer")));
    this.latest = new LatestConfig(hosted, start);
    late.set(member);
  }

  /** Returns what stands for the task's member of its group. */
  GroupMember member() {
    return member;
  }

  /** Returns the task's configuration as it is now. */
  LatestConfig latest() {
    return latest;
  }

  synchronized Collection<TopicPartition> opened(Set<TopicPartition> partitions) {
    assignment.addAll(partitions);
    return List.copyOf(partitions);
  }

  synchronized void closed(Set<TopicPartition> partitions) {
    assignment.removeAll(partitions);
    steered |= paused.removeAll(partitions);
    partitions.forEach(rewinds::remove);
  }

  /** Whether the task asked for something that comes before its next put. */
  synchronized boolean waits() {
    return steered || commit || !rewinds.isEmpty();
  }

  /** Writes what was asked for since the last call into its answer. */
  synchronized void tell(ObjectNode answer) {
    if (steered) {
      ArrayNode list = answer.putArray("paused");
      paused.forEach(tp -> list.addArray().add(tp.topic()).add(tp.partition()));
      steered = false;
    }
    if (!rewinds.isEmpty()) {
      ArrayNode list = answer.putArray("rewinds");
      rewinds.forEach(
          (tp, offset) -> list.addArray().add(tp.topic()).add(tp.partition()).add(offset));
      rewinds.clear();
    }
    if (commit) {
      answer.put("commit", true);
      commit = false;
    }
    if (timeoutMs >= 0) {
      answer.put("timeout_ms", timeoutMs);
      timeoutMs = -1;
    }
  }

  @Override
  public Map<String, String> configs() {
    return latest.get();
  }

  @Override
  public synchronized void offset(Map<TopicPartition, Long> offsets) {
    rewinds.putAll(offsets);
  }

  @Override
  public synchronized void offset(TopicPartition partition, long offset) {
    rewinds.put(partition, offset);
  }

  @Override
  public synchronized Map<TopicPartition, Long> offsets() {
    return new HashMap<>(rewinds);
  }

  @Override
  public synchronized void timeout(long milliseconds) {
    timeoutMs = milliseconds;
  }

  @Override
  public synchronized Set<TopicPartition> assignment() {
    return Set.copyOf(assignment);
  }

  @Override
  public synchronized void pause(TopicPartition... partitions) {
    mine(partitions, "pause");
    paused.addAll(List.of(partitions));
    steered = true;
  }

  @Override
  public synchronized void resume(TopicPartition... partitions) {
    mine(partitions, "resume");
    paused.removeAll(List.of(partitions));
    steered = true;
  }

  private void mine(TopicPartition[] partitions, String what) {
    for (TopicPartition one : partitions) {
      if (!assignment.contains(one)) {
        throw new IllegalWorkerStateException(
            "SinkTasks may not " + what + " partitions that are not currently assigned to them.",
            new ConnectException("not assigned: " + one));
      }
    }
  }

  @Override
  public synchronized Set<TopicPartition> pausedPartitions() {
    return Set.copyOf(paused);
  }

  @Override
  public synchronized void requestCommit() {
    commit = true;
  }

  @Override
  public ErrantRecordReporter errantRecordReporter() {
    return reporter;
  }

  @Override
  public synchronized PluginMetrics pluginMetrics() {
    if (metrics == null) {
      metrics = hosted.home.taskMetrics(hosted.id);
    }
    return metrics;
  }

  /** The task has ended: its metrics go, for it may be hosted here again. */
  synchronized void close() {
    Utils.closeQuietly(metrics instanceof AutoCloseable one ? one : null, "plug-in metrics");
    member.close();
    latest.end();
  }
}
