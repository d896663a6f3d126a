package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.function.BiConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.Config;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigException;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.connect.connector.Connector;
import org.apache.kafka.connect.runtime.AbstractHerder;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.PluginDesc;
import org.apache.kafka.connect.runtime.isolation.PluginUtils;
import org.apache.kafka.connect.sink.SinkConnector;
import org.apache.kafka.connect.source.SourceConnector;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

/**
 * Connector instances of one worker, and what plug-ins of other kinds declare. Questions come as
 * {"op": ..., "id": n, "place": ..., ...} and are answered by {"id": n, "ok": ...} or {"id": n,
 * "error": ...}; each connector has a thread of its own, as has each question about none, so that
 * what hangs holds up nothing else.
 */
final class Connectors {
  private final Home home;
  private final Places places;
  private final ExecutorService passing =
      Executors.newCachedThreadPool(work -> daemon(work, "question"));
  private final Map<String, ExecutorService> threads = new ConcurrentHashMap<>();
  private final Map<String, Connector> instances = new ConcurrentHashMap<>();
  private final Map<String, InstanceContext> contexts = new ConcurrentHashMap<>();
  private final Map<String, DriverOffsets> readers = new ConcurrentHashMap<>();

  /**
   * The connector's instance on whose thread, or on a thread that descends from it, the current
   * code runs.
   */
  static final InheritableThreadLocal<String> CURRENT = new InheritableThreadLocal<>();

  Connectors(Home home) {
    this.home = home;
    this.places = new Places(home.plugins.delegatingLoader());
  }

  /** Answers a question in time; never waits. */
  void serve(Wire.Frame frame) {
    JsonNode asked = frame.head();
    String instance = asked.path("instance").asText("");
    if (asked.get("op").asText().equals("offsets")) { // an answer, for which its thread waits
      DriverOffsets reader = readers.get(instance);
      if (reader != null) {
        reader.answered(asked);
      }
      return;
    }
    ExecutorService thread =
        instance.isEmpty()
            ? passing
            : threads.computeIfAbsent(
                instance,
                name ->
                    Executors.newSingleThreadExecutor(work -> daemon(within(name, work), name)));
    thread.execute(() -> answer(asked, instance));
  }

  private static Runnable within(String instance, Runnable work) {
    return () -> {
      CURRENT.set(instance); // whose the metrics are that it registers
      work.run();
    };
  }

  private static Thread daemon(Runnable work, String name) {
    Thread thread = new Thread(work, "connector-" + name);
    thread.setDaemon(true);
    return thread;
  }

  private void answer(JsonNode asked, String instance) {
    ObjectNode answer = Wire.JSON.createObjectNode();
    answer.put("id", asked.get("id").asLong());
    if (instance.isEmpty()) { // Python asks where it is when it takes too long
      Thread.currentThread().setName("connector-question-" + asked.get("id").asLong());
    }
    try {
      answer.set("ok", answerTo(asked, instance));
    } catch (Throwable error) { // plug-in code: whatever it throws is the answer
      answer.set("error", Hosted.failure(error));
    }
    try {
      home.wire.write('Q', 0, answer);
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  private JsonNode answerTo(JsonNode asked, String instance) throws Exception {
    String op = asked.get("op").asText();
    switch (op) {
      case "plugins":
        return plugins();
      case "stop":
        return stop(instance);
      case "scan":
        return places.scan(asked.get("place").asText());
      case "load":
        return places.load(asked);
      case "classes":
        return places.classes(asked);
      case "task_configs":
        return taskConfigs(running(instance), asked.get("tasks_max").asInt());
      default:
        break;
    }
    Map<String, String> config = Hosted.strings(asked.path("config"));
    ClassLoader loader = asked.has("place") ? places.loader(asked) : home.loaderOf(config);
    try (var swap = Places.swap(loader)) {
      return switch (op) {
        case "describe" -> describe(newPlugin(asked, config));
        case "check" ->
            check(newPlugin(asked, config), asked.get("name").asText(), asked.get("value"));
        case "validate" -> validate(newConnector(asked, config), config);
        case "start" -> start(instance, config, asked);
        case "exactly_once" ->
            named(((SourceConnector) newConnector(asked, config)).exactlyOnceSupport(config));
        case "boundaries" ->
            named(
                ((SourceConnector) newConnector(asked, config))
                    .canDefineTransactionBoundaries(config));
        case "alter_offsets" ->
            alterOffsets(newConnector(asked, config), config, asked.get("offsets"));
        default -> throw new IllegalArgumentException("unknown question " + op);
      };
    }
  }

  private Connector running(String instance) {
    Connector connector = instances.get(instance);
    if (connector == null) {
      throw new IllegalStateException("the connector was not started here");
    }
    return connector;
  }

  private Object newPlugin(JsonNode asked, Map<String, String> config) throws Exception {
    return asked.has("place")
        ? places.newPlugin(asked, asked.get("class").asText())
        : newConnector(asked, config);
  }

  private JsonNode plugins() {
    ArrayNode found = Wire.JSON.createArrayNode();
    add(found, home.plugins.sinkConnectors());
    add(found, home.plugins.sourceConnectors());
    add(found, home.plugins.converters());
    add(found, home.plugins.headerConverters());
    add(found, home.plugins.transformations());
    add(found, home.plugins.predicates());
    return found;
  }

  private static <U> void add(ArrayNode found, Iterable<PluginDesc<U>> some) {
    for (PluginDesc<U> one : some) {
      ObjectNode plugin = found.addObject();
      plugin.put("class", one.className());
      plugin.put("type", one.typeName());
      plugin.put("version", one.version());
      plugin.put("location", one.location());
    }
  }

  private Connector newConnector(JsonNode asked, Map<String, String> config) throws Exception {
    if (asked.has("place")) {
      return (Connector) newPlugin(asked, config);
    }
    return home.plugins.newConnector(
        config.get(ConnectorConfig.CONNECTOR_CLASS_CONFIG),
        PluginUtils.connectorVersionRequirement(config.get(ConnectorConfig.CONNECTOR_VERSION)));
  }

  private static JsonNode describe(Object plugin) {
    ObjectNode found = Wire.JSON.createObjectNode();
    found.put("version", Places.version(plugin));
    if (plugin instanceof Connector connector) {
      found.put("sink", connector instanceof SinkConnector);
      found.put("task_class", connector.taskClass().getName());
    }
    found.set("keys", keys(definition(plugin)));
    return found;
  }

  private static ConfigDef definition(Object plugin) {
    ConfigDef definition = null;
    if (plugin instanceof Connector connector) {
      definition = connector.config();
    } else if (plugin instanceof Transformation<?> transformation) {
      definition = transformation.config();
    } else if (plugin instanceof Predicate<?> predicate) {
      definition = predicate.config();
    } else if (plugin instanceof HeaderConverter converter) {
      definition = converter.config();
    } else if (plugin instanceof Converter converter) {
      definition = converter.config();
    }
    return definition == null ? new ConfigDef() : definition;
  }

  /**
   * Returns what a plug-in's own check says against a value of one of its settings; null: nothing.
   */
  private static JsonNode check(Object plugin, String name, JsonNode value) {
    ConfigDef.ConfigKey key = definition(plugin).configKeys().get(name);
    try {
      key.validator.ensureValid(name, ConfigDef.parseType(name, value.textValue(), key.type));
      return Wire.JSON.nullNode();
    } catch (ConfigException error) {
      return Home.text(error.getMessage());
    }
  }

  private static ArrayNode keys(ConfigDef definition) {
    ArrayNode keys = Wire.JSON.createArrayNode();
    for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
      ObjectNode info = Wire.JSON.valueToTree(AbstractHerder.convertConfigKey(key));
      info.put("checked", key.validator != null);
      keys.add(info);
    }
    return keys;
  }

  private static JsonNode validate(Connector connector, Map<String, String> config) {
    ObjectNode found = (ObjectNode) describe(connector);
    Config result = connector.validate(config);
    if (result == null) {
      found.put(
          "refused",
          connector.getClass().getName()
              + ".validate() must return a configuration that is not null.");
      return found;
    }
    ArrayNode values = found.putArray("values");
    Map<String, ConfigDef.ConfigKey> keys = connector.config().configKeys();
    for (ConfigValue value : result.configValues()) {
      ConfigDef.Type type = keys.containsKey(value.name()) ? keys.get(value.name()).type : null;
      ObjectNode one = values.addObject();
      one.put("name", value.name());
      one.set("value", Home.text(ConfigDef.convertToString(value.value(), type)));
      ArrayNode recommended = one.putArray("recommended_values");
      value.recommendedValues().forEach(v -> recommended.add(ConfigDef.convertToString(v, type)));
      ArrayNode errors = one.putArray("errors");
      value.errorMessages().forEach(errors::add);
      one.put("visible", value.visible());
    }
    return found;
  }

  private JsonNode start(String instance, Map<String, String> config, JsonNode asked)
      throws Exception {
    Connector connector = newConnector(asked, config);
    String name = asked.path("name").asText(instance);
    InstanceContext context = context(connector, instance, name);
    contexts.put(instance, context);
    home.add(instance);
    try {
      connector.initialize(context);
      instances.put(instance, connector);
      connector.start(config);
      return describe(connector);
    } catch (Throwable error) { // nobody stops what has not started
      instances.remove(instance);
      forget(instance);
      throw error;
    }
  }

  private InstanceContext context(Connector connector, String instance, String name) {
    BiConsumer<String, Object> tell = (what, detail) -> tell(instance, what, detail);
    if (connector instanceof SourceConnector) {
      DriverOffsets offsets =
          new DriverOffsets(home, question -> tell(instance, "offsets", question));
      readers.put(instance, offsets);
      return new InstanceContext.OfSource(home, name, tell, offsets);
    }
    return new InstanceContext.OfSink(home, name, tell);
  }

  /** Ends what belongs to an instance but is not the connector itself. */
  private void forget(String instance) {
    home.forget(instance);
    InstanceContext context = contexts.remove(instance);
    if (context != null) {
      context.close();
    }
    DriverOffsets reader = readers.remove(instance);
    if (reader != null) {
      reader.end();
    }
    ExecutorService thread = threads.remove(instance);
    if (thread != null) {
      thread.shutdown();
    }
  }

  private static JsonNode taskConfigs(Connector connector, int most) {
    ArrayNode found = Wire.JSON.createArrayNode();
    try (var swap = Places.swap(connector.getClass().getClassLoader())) {
      String taskClass = connector.taskClass().getName();
      for (Map<String, String> one : connector.taskConfigs(most)) {
        Map<String, String> config = new LinkedHashMap<>(one);
        config.put(org.apache.kafka.connect.runtime.TaskConfig.TASK_CLASS_CONFIG, taskClass);
        found.add(Wire.JSON.valueToTree(config));
      }
    }
    return found;
  }

  private JsonNode stop(String instance) {
    Connector connector = instances.remove(instance);
    try {
      if (connector != null) {
        try (var swap = Places.swap(connector.getClass().getClassLoader())) {
          connector.stop();
        }
      }
    } finally {
      forget(instance);
    }
    return Wire.JSON.nullNode();
  }

  private static JsonNode named(Enum<?> answer) {
    return Wire.JSON.createObjectNode().put("answer", answer == null ? null : answer.name());
  }

  private JsonNode alterOffsets(Connector connector, Map<String, String> config, JsonNode offsets) {
    boolean done;
    if (connector instanceof SourceConnector source) {
      Map<Map<String, ?>, Map<String, ?>> changes = new HashMap<>();
      offsets.forEach(
          pair ->
              changes.put(
                  home.mapOf(pair.get(0)), pair.get(1).isNull() ? null : home.mapOf(pair.get(1))));
      done = source.alterOffsets(config, changes);
    } else {
      Map<TopicPartition, Long> changes = new HashMap<>();
      offsets.forEach(
          one ->
              changes.put(
                  new TopicPartition(one.get(0).asText(), one.get(1).asInt()),
                  one.get(2).isNull() ? null : one.get(2).asLong()));
      done = ((SinkConnector) connector).alterOffsets(config, changes);
    }
    return com.fasterxml.jackson.databind.node.BooleanNode.valueOf(done);
  }

  private void tell(String instance, String what, Object detail) {
    ObjectNode event = Wire.JSON.createObjectNode();
    event.put("instance", instance);
    event.put("event", what);
    event.putPOJO("detail", detail);
    try {
      home.wire.write('N', 0, event);
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }
}
