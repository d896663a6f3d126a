package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.ConnectMetrics;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.util.ConnectorTaskId;

/**
 * What everything hosted in this JVM shares: the socket, plug-ins, the worker's settings, metrics.
 */
final class Home {
  final Wire wire;
  final Plugins plugins;
  final WorkerConfig workerConfig;
  final ConnectMetrics metrics;
  private final Map<Integer, Hosted<?, ?>> tasks = new HashMap<>();
  private final Map<Integer, Making> early = new HashMap<>();
  private final Set<String> instances = new HashSet<>();
  private final JsonConverter json = new JsonConverter();

  /**
   * A task whose converters and transformations are being made: what came for it, and what that is
   * doing.
   */
  private record Making(List<Wire.Frame> frames, Calls doing) {}

  /**
   * Takes the worker's settings, resolved; those of distributed workers that mean nothing here are
   * left out.
   */
  Home(Wire wire, Map<String, String> worker) {
    this.wire = wire;
    Map<String, String> settings = new HashMap<>(worker);
    settings.put(StandaloneConfig.OFFSET_STORAGE_FILE_FILENAME_CONFIG, "unused");
    settings.putIfAbsent(WorkerConfig.BOOTSTRAP_SERVERS_CONFIG, "localhost:9092");
    for (String converter :
        List.of(
            WorkerConfig.KEY_CONVERTER_CLASS_CONFIG, WorkerConfig.VALUE_CONVERTER_CLASS_CONFIG)) {
      settings.putIfAbsent(converter, JsonConverter.class.getName()); // of a JVM without tasks
    }
    this.plugins = new Plugins(settings);
    plugins.compareAndSwapWithDelegatingLoader();
    this.workerConfig = new StandaloneConfig(settings);
    this.metrics =
        new ConnectMetrics(
            worker.getOrDefault("worker.id", "java-host"), workerConfig, Time.SYSTEM, "");
    json.configure(Map.of("schemas.enable", "false", "replace.null.with.default", "false"), false);
  }

  /** Returns the loader of the plug-in that a connector's configuration names. */
  ClassLoader loaderOf(Map<String, String> connector) {
    String name = connector.get(ConnectorConfig.CONNECTOR_CLASS_CONFIG);
    try {
      return plugins.connectorLoader(
          name,
          PluginUtils.connectorVersionRequirement(
              connector.get(ConnectorConfig.CONNECTOR_VERSION)));
    } catch (org.apache.maven.artifact.versioning.InvalidVersionSpecificationException error) {
      throw new ConnectException(
          "no version: " + connector.get(ConnectorConfig.CONNECTOR_VERSION), error);
    }
  }

  PluginMetricsImpl taskMetrics(ConnectorTaskId id) {
    Map<String, String> tags = new LinkedHashMap<>();
    tags.put("connector", id.connector());
    tags.put("task", String.valueOf(id.task()));
    return new PluginMetricsImpl(metrics.metrics(), tags);
  }

  PluginMetricsImpl connectorMetrics(String connector) {
    return metrics.connectorPluginMetrics(connector);
  }

  /** A task of that number is being made: what comes for it until then is kept. */
  synchronized void expect(int host) {
    early.put(host, new Making(new ArrayList<>(), new Calls()));
  }

  /** The current thread makes the task of that number until what this returns is closed. */
  synchronized Calls.Call make(int host) {
    return early.get(host).doing().in("configure");
  }

  /** Returns what those are doing that are being made. */
  synchronized Map<Integer, Calls> made() {
    Map<Integer, Calls> found = new HashMap<>();
    early.forEach((host, making) -> found.put(host, making.doing()));
    return found;
  }

  /** The task is made: hands it what came for it and lets it run. */
  synchronized void add(Hosted<?, ?> task) throws IOException {
    tasks.put(task.host, task);
    for (Wire.Frame frame : early.remove(task.host).frames()) {
      task.take(frame);
    }
    task.thread.start();
  }

  /** Returns those that run. */
  synchronized List<Hosted<?, ?>> tasks() {
    return new ArrayList<>(tasks.values());
  }

  /**
   * Returns the numbers of tasks that run and of those that are being made, and the connectors'
   * instances.
   */
  synchronized Set<Object> owners() {
    Set<Object> found = new HashSet<>(tasks.keySet());
    found.addAll(early.keySet());
    found.addAll(instances);
    return found;
  }

  /** A connector of that instance is being started. */
  synchronized void add(String instance) {
    instances.add(instance);
  }

  /** It could not be started, or has ended. */
  synchronized void forget(String instance) {
    instances.remove(instance);
  }

  /** Returns the connectors that are being started or run. */
  synchronized List<String> instances() {
    return new ArrayList<>(instances);
  }

  /** It could not be made, or has ended. */
  synchronized void forget(int host) {
    early.remove(host);
    tasks.remove(host);
  }

  /** Hands a frame to the task it is for; one for a task that has ended is dropped. */
  synchronized void deliver(Wire.Frame frame) throws IOException {
    Hosted<?, ?> task = tasks.get(frame.host());
    if (task != null) {
      task.take(frame);
    } else if (early.containsKey(frame.host())) {
      early.get(frame.host()).frames().add(frame);
    }
  }

  /** Returns a source partition or offset as Java's offset topic holds it. */
  JsonNode json(Map<String, ?> map) {
    byte[] bytes = json.fromConnectData("", null, map);
    try {
      return bytes == null ? Wire.JSON.nullNode() : Wire.JSON.readTree(bytes);
    } catch (IOException error) {
      throw new ConnectException(error);
    }
  }

  /** Returns a stored offset as Java's tasks get it. */
  @SuppressWarnings("unchecked")
  Map<String, Object> mapOf(JsonNode stored) {
    try {
      return (Map<String, Object>)
          json.toConnectData("", Wire.JSON.writeValueAsBytes(stored)).value();
    } catch (IOException error) {
      throw new ConnectException(error);
    }
  }

  static JsonNode text(String value) {
    return value == null ? Wire.JSON.nullNode() : TextNode.valueOf(value);
  }
}
