package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.provider.ConfigProvider;
import org.apache.kafka.common.internals.Plugin;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Plug-ins that serve Python connectors: transformations, predicates, converters, config providers.
 * Each has a number as tasks have, and a thread of its own. A question {"id": n, "op": ..., ...} is
 * answered by {"id": n, "ok": ...} or {"id": n, "error": ...}; the first makes the plug-in.
 */
final class Stages {
  private final Home home;
  private final Map<Integer, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<Integer, Stage> made = new ConcurrentHashMap<>();
  private final AtomicInteger measured = new AtomicInteger();

  /** One plug-in, or a run of transformations. */
  interface Stage extends AutoCloseable {
    /** Answers by filling {@code answer}; returns its data. */
    List<ByteBuffer> answer(String op, Wire.Frame asked, ObjectNode answer) throws Exception;

    @Override
    void close();
  }

  Stages(Home home) {
    this.home = home;
  }

  /** Answers a question in time; never waits. */
  void serve(Wire.Frame frame) {
    int host = frame.host();
    ExecutorService thread =
        threads.computeIfAbsent(
            host, n -> Executors.newSingleThreadExecutor(work -> daemon(work, n)));
    thread.execute(() -> answer(frame));
    if (frame.head().get("op").asText().equals("close")) {
      threads.remove(host);
      thread.shutdown();
    }
  }

  private static Thread daemon(Runnable work, int host) {
    Thread thread = new Thread(work, "stage-" + host);
    thread.setDaemon(true);
    return thread;
  }

  private void answer(Wire.Frame frame) {
    JsonNode asked = frame.head();
    ObjectNode answer = Wire.JSON.createObjectNode();
    answer.put("id", asked.get("id").asLong());
    List<ByteBuffer> data = List.of();
    try {
      data = answer(asked.get("op").asText(), frame, answer);
    } catch (Throwable error) { // plug-in code: whatever it throws is the answer
      ObjectNode failure = answer.putObject("error");
      failure.setAll(Hosted.failure(error));
      if (error instanceof BadSettings bad) {
        failure.set("problems", bad.problems);
      }
    }
    try {
      home.wire.write('T', frame.host(), answer, data.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  private List<ByteBuffer> answer(String op, Wire.Frame frame, ObjectNode answer) throws Exception {
    int host = frame.host();
    switch (op) {
      case "make" -> {
        made.put(host, make(frame.head()));
        return List.of();
      }
      case "describe" -> {
        describe(frame.head(), answer.putObject("ok"));
        return List.of();
      }
      case "close" -> {
        Stage stage = made.remove(host);
        if (stage != null) {
          stage.close();
        }
        return List.of();
      }
      default -> {
        Stage stage = made.get(host);
        if (stage == null) {
          throw new IllegalStateException("nothing was made for number " + host);
        }
        return stage.answer(op, frame, answer);
      }
    }
  }

  private Stage make(JsonNode asked) throws Exception {
    return switch (asked.get("kind").asText()) {
      case "chain" -> new ChainStage(this, home, asked);
      case "converter" -> ConverterStage.ofValues(this, home, asked);
      case "header_converter" -> ConverterStage.ofHeaders(this, home, asked);
      case "config_provider" -> new ProviderStage(this, home, asked);
      default -> throw new IllegalArgumentException("unknown kind " + asked.get("kind"));
    };
  }

  /** Returns a plug-in, not configured yet. */
  <T> T newPlugin(JsonNode asked, Class<T> kind) throws Exception {
    String name = asked.get("class").asText();
    String version = asked.path("version").asText("");
    Object found =
        home.plugins.newPlugin(
            name, version.isEmpty() ? null : PluginUtils.connectorVersionRequirement(version));
    if (!kind.isInstance(found)) {
      throw new ConnectException(name + " is no " + kind.getSimpleName());
    }
    return kind.cast(found);
  }

  private void describe(JsonNode asked, ObjectNode found) throws Exception {
    Object plugin = newPlugin(asked, Object.class);
    try (var swap = home.plugins.withClassLoader(plugin.getClass().getClassLoader())) {
      found.put("version", plugin instanceof Versioned versioned ? versioned.version() : null);
      ArrayNode keys = found.putArray("keys");
      ConfigDef definition = definition(plugin);
      for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
        keys.add(Wire.JSON.valueToTree(AbstractHerder.convertConfigKey(key)));
      }
    } finally {
      if (plugin instanceof AutoCloseable closeable && !(plugin instanceof ConfigProvider)) {
        closeable.close();
      }
    }
  }

  private static ConfigDef definition(Object plugin) {
    ConfigDef found = null;
    if (plugin instanceof Transformation<?> transformation) {
      found = transformation.config();
    } else if (plugin instanceof Predicate<?> predicate) {
      found = predicate.config();
    } else if (plugin instanceof HeaderConverter converter) {
      found = converter.config();
    } else if (plugin instanceof Converter converter) {
      found = converter.config();
    }
    return found == null ? new ConfigDef() : found;
  }

  /** Work of a plug-in's own code. */
  interface Configuring {
    void run() throws Exception;
  }

  /** Configures a plug-in; what its definition says is wrong is raised as BadSettings. */
  void configure(Object plugin, Map<String, String> config, Configuring configuring)
      throws Exception {
    try (var swap = home.plugins.withClassLoader(plugin.getClass().getClassLoader())) {
      configuring.run();
    } catch (Exception error) {
      ObjectNode problems = Wire.JSON.createObjectNode();
      for (ConfigValue value : definition(plugin).validate(config)) {
        value
            .errorMessages()
            .forEach(one -> problems.withArray("/" + pointer(value.name())).add(one));
      }
      if (problems.isEmpty()
          && !(error instanceof org.apache.kafka.common.config.ConfigException)) {
        throw error;
      }
      throw new BadSettings(error, problems);
    }
  }

  /**
   * Gives a configured plug-in that wants it (KIP-877) what it measures with, and forgets that with
   * {@code close}. Nothing shows these: they are of no task of this JVM.
   */
  AutoCloseable measuring(Object plugin) {
    Map<String, String> tags =
        new LinkedHashMap<>(Map.of("stage", String.valueOf(measured.incrementAndGet())));
    return Plugin.wrapInstance(plugin, home.metrics.metrics(), () -> tags);
  }

  private static String pointer(String name) {
    return name.replace("~", "~0").replace("/", "~1");
  }

  /** Settings that a plug-in refuses. */
  static final class BadSettings extends ConnectException {
    private static final long serialVersionUID = 1L;
    final transient ObjectNode problems;

    BadSettings(Exception cause, ObjectNode problems) {
      super(cause.getMessage(), cause);
      this.problems = problems;
    }
  }

  /** Rows of an answer that are not all there. */
  static final class Outcome {
    private final ArrayNode kept = Wire.JSON.createArrayNode();
    private final ArrayNode errors = Wire.JSON.createArrayNode();
    private int rows;

    void kept() {
      kept.add(rows++);
    }

    void dropped() {
      rows++;
    }

    void failed(Throwable error) {
      errors.addArray().add(rows++).add(Hosted.failure(error));
    }

    void write(ObjectNode answer) {
      answer.put("rows", rows);
      if (kept.size() < rows) {
        answer.set("kept", kept);
      }
      if (!errors.isEmpty()) {
        answer.set("errors", errors);
      }
    }
  }

  /** The one answer of config providers. */
  private static final class ProviderStage implements Stage {
    private final ConfigProvider provider;
    private final Home home;

    ProviderStage(Stages stages, Home home, JsonNode asked) throws Exception {
      this.home = home;
      Map<String, String> config = Hosted.strings(asked.path("config"));
      provider = stages.newPlugin(asked, ConfigProvider.class);
      stages.configure(provider, config, () -> provider.configure(config));
    }

    @Override
    public List<ByteBuffer> answer(String op, Wire.Frame frame, ObjectNode answer) {
      JsonNode asked = frame.head();
      String path = asked.get("path").asText();
      List<String> keys = new ArrayList<>();
      asked.path("keys").forEach(key -> keys.add(key.asText()));
      try (var swap = home.plugins.withClassLoader(provider.getClass().getClassLoader())) {
        var found =
            asked.path("keys").isArray()
                ? provider.get(path, new java.util.HashSet<>(keys))
                : provider.get(path);
        ObjectNode ok = answer.putObject("ok");
        ok.set("data", Wire.JSON.valueToTree(found.data()));
        ok.put("ttl_ms", found.ttl());
      }
      return List.of();
    }

    @Override
    public void close() {
      org.apache.kafka.common.utils.Utils.closeQuietly(provider, "provider");
    }
  }
}
