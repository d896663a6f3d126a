package org.apache.kafka.connect.integration;

import java.util.Collection;
import java.util.stream.Collectors;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.sink.SinkRecord;

/** Reports the life of a test task. It has the methods that Kafka's test tasks call. */
public class TaskHandle {
  private final String connectorName;
  private final String taskId;

  TaskHandle(String connectorName, String taskId) {
    this.connectorName = connectorName;
    this.taskId = taskId;
  }

  public String taskId() {
    return taskId;
  }

  public void record() {
    record(1);
  }

  public void record(int count) {
    HandleReports.send("records", connectorName, taskId, Integer.toString(count));
  }

  public void record(SinkRecord record) {
    String value = record.value() == null ? "" : "=" + record.value();
    HandleReports.send(
        "sink-record",
        connectorName,
        taskId,
        record.topic(),
        Integer.toString(record.kafkaPartition()),
        Long.toString(record.kafkaOffset()),
        value);
  }

  public void commit() {
    commit(1);
  }

  public void commit(int count) {
    HandleReports.send("commits", connectorName, taskId, Integer.toString(count));
  }

  public void partitionsAssigned(Collection<TopicPartition> partitions) {
    HandleReports.send("assigned", connectorName, taskId, names(partitions));
  }

  public void partitionsRevoked(Collection<TopicPartition> partitions) {
    HandleReports.send("revoked", connectorName, taskId, names(partitions));
  }

  public void partitionsCommitted(Collection<TopicPartition> partitions) {
    HandleReports.send("committed", connectorName, taskId, names(partitions));
  }

  public void recordTaskStart() {
    HandleReports.send("task-start", connectorName, taskId);
  }

  public void recordTaskStop() {
    HandleReports.send("task-stop", connectorName, taskId);
  }

  private static String names(Collection<TopicPartition> partitions) {
    return partitions.stream()
        .map(p -> p.topic() + ":" + p.partition())
        .collect(Collectors.joining(","));
  }
}
