package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.connector.Task;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.TransformationChain;
import org.apache.kafka.connect.runtime.WorkerConfig;
import org.apache.kafka.connect.runtime.errors.ErrorHandlingMetrics;
import org.apache.kafka.connect.runtime.errors.Operation;
import org.apache.kafka.connect.runtime.errors.RetryWithToleranceOperator;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.slf4j.MDC;

/**
 * One task: its class loader, converters, chain of transformations and tolerance, and the thread it
 * runs on. {@code T} is what errors are reported with, {@code R} the kind of record.
 */
abstract class Hosted<T, R extends ConnectRecord<R>> implements Runnable {
  final int host;
  final ConnectorTaskId id;
  final Map<String, String> taskConfig;
  final Home home;
  final ConnectorConfig config;
  final ClassLoader loader;
  final Converter keys;
  final Converter values;
  final HeaderConverter headers;
  final ErrorHandlingMetrics errors;
  final RetryWithToleranceOperator<T> tolerance;
  final TransformationChain<T, R> chain;
  final Thread thread;
  final Calls doing = new Calls();
  volatile boolean stopping;
  private final List<Plugin<?>> converters = new ArrayList<>();

  /** The task on whose thread, or on a thread that descends from it, the current code runs. */
  static final InheritableThreadLocal<Hosted<?, ?>> CURRENT = new InheritableThreadLocal<>();

  Hosted(
      Home home,
      int host,
      ConnectorTaskId id,
      ConnectorConfig config,
      Map<String, String> taskConfig) {
    this(home, host, id, config, taskConfig, Time.SYSTEM);
  }

  /** {@code retries}: the clock by which records are tried again. */
  Hosted(
      Home home,
      int host,
      ConnectorTaskId id,
      ConnectorConfig config,
      Map<String, String> taskConfig,
      Time retries) {
    this.home = home;
    this.host = host;
    this.id = id;
    this.config = config;
    this.taskConfig = taskConfig;
    this.loader = home.loaderOf(config.originalsStrings());
    CURRENT.set(this); // whose the metrics are that converters and transformations register
    try (var swap = home.plugins.withClassLoader(loader)) {
      this.headers = kept(home.metrics.wrap(headerConverter(), id));
      this.keys =
          kept(
              home.metrics.wrap(
                  converter(
                      ConnectorConfig.KEY_CONVERTER_CLASS_CONFIG,
                      ConnectorConfig.KEY_CONVERTER_VERSION_CONFIG,
                      WorkerConfig.KEY_CONVERTER_VERSION),
                  id,
                  true));
      this.values =
          kept(
              home.metrics.wrap(
                  converter(
                      ConnectorConfig.VALUE_CONVERTER_CLASS_CONFIG,
                      ConnectorConfig.VALUE_CONVERTER_VERSION_CONFIG,
                      WorkerConfig.VALUE_CONVERTER_VERSION),
                  id,
                  false));
      this.errors = new ErrorHandlingMetrics(id, home.metrics);
      this.tolerance =
          new RetryWithToleranceOperator<>(
              config.errorRetryTimeout(),
              config.errorMaxDelayInMillis(),
              config.errorToleranceType(),
              retries,
              errors);
      this.chain =
          new TransformationChain<>(
              config.<R>transformationStages(home.plugins, id, home.metrics), tolerance);
    } catch (Throwable error) { // a task that is started again here has metrics of the same names
      closeConverters();
      throw error;
    } finally {
      CURRENT.remove();
    }
    this.thread = new Thread(this, "task-" + id);
    this.thread.setDaemon(true);
  }

  private <P> P kept(Plugin<P> plugin) {
    converters.add(plugin);
    return plugin.get();
  }

  private void closeConverters() {
    converters.forEach(one -> Utils.closeQuietly(one, "converter"));
  }

  /**
   * Returns work of a converter with the class loader of its own plug-in, which may be another than
   * the task's (as Java's AbstractWorkerSourceTask and WorkerSinkTask do). Connect's own need none.
   */
  final <V> Operation<V> within(Object converter, Operation<V> work) {
    ClassLoader own = converter.getClass().getClassLoader();
    if (own == loader || own == Hosted.class.getClassLoader()) {
      return work;
    }
    return () -> {
      try (var swap = home.plugins.withClassLoader(own)) {
        return work.call();
      }
    };
  }

  private Converter converter(String name, String version, String workerVersion) {
    Converter own = home.plugins.newConverter(config, name, version);
    return own != null ? own : home.plugins.newConverter(home.workerConfig, name, workerVersion);
  }

  private HeaderConverter headerConverter() {
    HeaderConverter own =
        home.plugins.newHeaderConverter(
            config,
            ConnectorConfig.HEADER_CONVERTER_CLASS_CONFIG,
            ConnectorConfig.HEADER_CONVERTER_VERSION_CONFIG);
    return own != null
        ? own
        : home.plugins.newHeaderConverter(
            home.workerConfig,
            WorkerConfig.HEADER_CONVERTER_CLASS_CONFIG,
            WorkerConfig.HEADER_CONVERTER_VERSION);
  }

  /** Returns what Connect's own logging puts before a line of this task. */
  final String mdc() {
    return "[" + id.connector() + "|task-" + id.task() + "] ";
  }

  /** Thread body: whatever the task throws ends this task alone. */
  @Override
  public final void run() {
    MDC.put(Logs.CONTEXT, mdc());
    CURRENT.set(this);
    try (var swap = home.plugins.withClassLoader(loader)) {
      try {
        life();
      } catch (Throwable error) {
        send('F', failure(error));
      } finally {
        try (var call = doing.in("close")) {
          closeConverters();
          Utils.closeQuietly(chain, "transformation chain");
          Utils.closeQuietly(tolerance, "tolerance of errors");
          Utils.closeQuietly(errors, "error metrics");
        }
        send('E', null);
        home.forget(host);
      }
    } finally {
      CURRENT.remove();
      MDC.clear();
    }
  }

  /** Starts the task, has it work until {@link #stop}, and stops it. */
  abstract void life() throws Exception;

  /** Takes a frame for this task, on the reader's thread. */
  final void take(Wire.Frame frame) throws IOException {
    if (frame.kind() == 'X') {
      stop();
    }
    serve(frame);
  }

  /** Serves a frame; on the reader's thread, so it must not wait. */
  abstract void serve(Wire.Frame frame) throws IOException;

  /** Asks the task to end once its call has returned. */
  void stop() {
    stopping = true;
    tolerance.triggerStop();
  }

  final void send(char kind, Object head) {
    try {
      home.wire.write(kind, host, head);
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  static ObjectNode failure(Throwable error) {
    StringWriter trace = new StringWriter();
    error.printStackTrace(new PrintWriter(trace));
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("class", error.getClass().getName());
    head.put("message", String.valueOf(error.getMessage()));
    head.put("trace", trace.toString());
    head.put(
        "retriable",
        error instanceof org.apache.kafka.connect.errors.RetriableException
            || error instanceof org.apache.kafka.common.errors.RetriableException);
    return head;
  }

  static Map<String, String> strings(JsonNode node) {
    Map<String, String> found = new java.util.LinkedHashMap<>();
    node.properties()
        .forEach(e -> found.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
    return found;
  }

  static String taskClass(Map<String, String> taskConfig) {
    return taskConfig.get(org.apache.kafka.connect.runtime.TaskConfig.TASK_CLASS_CONFIG);
  }

  @SuppressWarnings("unchecked")
  <K extends Task> K newTask() throws ClassNotFoundException {
    Class<? extends Task> cls =
        Class.forName(taskClass(taskConfig), true, loader).asSubclass(Task.class);
    return (K) home.plugins.newTask(cls);
  }

  /** Returns what a task says of itself; like any call it may hang, and is shown then. */
  final String version(Task task) {
    try (var call = doing.in("version")) {
      return task.version();
    }
  }
}
