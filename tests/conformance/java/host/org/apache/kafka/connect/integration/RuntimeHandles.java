package org.apache.kafka.connect.integration;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Stands in the worker's JVMs for the class of the same name in Kafka's test jar: its handles
 * report to the tests.
 */
public class RuntimeHandles {
  private static final RuntimeHandles INSTANCE = new RuntimeHandles();

  private final Map<String, ConnectorHandle> handles = new ConcurrentHashMap<>();

  private RuntimeHandles() {}

  public static RuntimeHandles get() {
    return INSTANCE;
  }

  public ConnectorHandle connectorHandle(String connectorName) {
    return handles.computeIfAbsent(connectorName, ConnectorHandle::new);
  }

  public void deleteConnector(String connectorName) {
    handles.remove(connectorName);
  }
}
