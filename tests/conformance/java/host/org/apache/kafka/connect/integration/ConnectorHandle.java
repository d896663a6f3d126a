package org.apache.kafka.connect.integration;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Reports the life of a test connector. It has the methods that Kafka's test connectors call. */
public class ConnectorHandle {
  private final String connectorName;
  private final Map<String, TaskHandle> tasks = new ConcurrentHashMap<>();

  public ConnectorHandle(String connectorName) {
    this.connectorName = connectorName;
  }

  public String name() {
    return connectorName;
  }

  public TaskHandle taskHandle(String taskId) {
    return tasks.computeIfAbsent(taskId, id -> new TaskHandle(connectorName, id));
  }

  public void recordConnectorStart() {
    HandleReports.send("connector-start", connectorName);
  }

  public void recordConnectorStop() {
    HandleReports.send("connector-stop", connectorName);
  }

  public void record() {
    record(1);
  }

  public void record(int count) {
    HandleReports.send("connector-records", connectorName, Integer.toString(count));
  }

  public void commit() {
    commit(1);
  }

  public void commit(int count) {
    HandleReports.send("connector-commits", connectorName, Integer.toString(count));
  }
}
