// Runs the cases of tests/parity/cases_of_mirror.py through MirrorMaker's own classes: JSON in on
// stdin, JSON out on stdout.
// Most of them are private to their package, hence the reflection.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.Configurable;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.connect.mirror.*;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.source.SourceConnector;

public class MirrorOracle {
  static final String PACKAGE = "org.apache.kafka.connect.mirror.";

  public static void main(String[] arguments) throws Exception {
    ObjectMapper mapper = new ObjectMapper();
    List<Object> answers = new ArrayList<>();
    for (JsonNode one : mapper.readTree(System.in)) answers.add(answer(one));
    System.out.println(mapper.writeValueAsString(answers));
  }

  static Object answer(JsonNode one) throws Exception {
    switch (one.get("what").asText()) {
      case "settings":
        return settings(one.get("class").asText());
      case "policy":
        return policy(one);
      case "filters":
        return filters(one);
      case "records":
        return records(one);
      case "store":
        return store(one);
      case "syncs":
        return syncs(one);
      case "shares":
        return shares(one);
      case "clients":
        return clients(one);
      case "alter":
        return alter(one);
      default:
        throw new IllegalArgumentException(one.toString());
    }
  }

  static Object settings(String name) throws Exception {
    ConfigDef definition =
        ((SourceConnector) Class.forName(PACKAGE + name).getConstructor().newInstance()).config();
    Set<String> common = ConnectorConfig.configDef().names();
    List<Object> found = new ArrayList<>();
    for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
      if (common.contains(key.name)) continue;
      Object value = key.defaultValue;
      boolean required = value == ConfigDef.NO_DEFAULT_VALUE;
      if (value instanceof Class) value = ((Class<?>) value).getName();
      if (value instanceof List) value = String.join(",", (List<String>) value);
      if (value instanceof org.apache.kafka.common.config.types.Password) value = "hidden";
      String text = required || value == null ? null : value.toString();
      found.add(Arrays.asList(key.name, key.type.name(), required, text, key.importance.name()));
    }
    return found;
  }

  static Object policy(JsonNode one) throws Exception {
    ReplicationPolicy policy =
        (ReplicationPolicy)
            Class.forName(PACKAGE + one.get("class").asText()).getConstructor().newInstance();
    ((Configurable) policy).configure(texts(one.get("config")));
    TopicFilter all = topic -> true;
    ConfigPropertyFilter any = property -> true;
    Object connector =
        made(
            MirrorSourceConnector.class,
            new Class<?>[] {
              SourceAndTarget.class,
              ReplicationPolicy.class,
              TopicFilter.class,
              ConfigPropertyFilter.class,
              boolean.class
            },
            new SourceAndTarget("A", "B"),
            policy,
            all,
            any,
            true);
    List<Object> found = new ArrayList<>();
    for (JsonNode node : one.get("topics")) {
      String topic = node.asText();
      found.add(
          Arrays.asList(
              policy.formatRemoteTopic("A", topic),
              policy.topicSource(topic),
              policy.upstreamTopic(topic),
              policy.originalTopic(topic),
              policy.isInternalTopic(topic),
              policy.isHeartbeatsTopic(topic),
              policy.isCheckpointsTopic(topic),
              call(connector, "shouldReplicateTopic", topic),
              policy.offsetSyncsTopic(topic),
              policy.checkpointsTopic(topic)));
    }
    return found;
  }

  static Object filters(JsonNode one) throws Exception {
    Map<String, String> config = texts(one.get("config"));
    TopicFilter topics = new DefaultTopicFilter();
    topics.configure(config);
    GroupFilter groups = new DefaultGroupFilter();
    groups.configure(config);
    ConfigPropertyFilter properties = new DefaultConfigPropertyFilter();
    properties.configure(config);
    List<Object> found = new ArrayList<>();
    for (JsonNode node : one.get("names")) {
      String name = node.asText();
      found.add(
          Arrays.asList(
              topics.shouldReplicateTopic(name),
              groups.shouldReplicateGroup(name),
              properties.shouldReplicateConfigProperty(name),
              properties.shouldReplicateSourceDefault(name)));
    }
    return found;
  }

  static Object records(JsonNode one) throws Exception {
    TopicPartition place =
        new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
    String text = one.get("text").asText();
    long first = one.get("first").asLong(), second = one.get("second").asLong();
    Object sync = new OffsetSync(place, first, second);
    Object checkpoint = new Checkpoint(text, place, first, second, text);
    Object heartbeat = new Heartbeat(text, place.topic(), first);
    List<Object> found = new ArrayList<>();
    for (Object record : Arrays.asList(sync, checkpoint, heartbeat)) {
      found.add(HexFormat.of().formatHex((byte[]) call(record, "recordKey")));
      found.add(HexFormat.of().formatHex((byte[]) call(record, "recordValue")));
    }
    return found;
  }

  static Object store(JsonNode one) throws Exception {
    Class<?> kind = Class.forName(PACKAGE + "OffsetSyncStore");
    Object store = made(kind, new Class<?>[0]);
    set(store, "initializationMustReadToEnd", one.get("must_read_to_end").asBoolean());
    TopicPartition place = new TopicPartition("t", 0);
    List<Object> found = new ArrayList<>();
    for (JsonNode step : one.get("steps")) {
      if (step.isTextual()) {
        set(store, "readToEnd", true);
      } else if (step.size() == 2) {
        OffsetSync sync = new OffsetSync(place, step.get(0).asLong(), step.get(1).asLong());
        byte[] key = (byte[]) call(sync, "recordKey"), value = (byte[]) call(sync, "recordValue");
        call(store, "handleRecord", new ConsumerRecord<>("syncs", 0, 0L, key, value));
      } else {
        OptionalLong offset =
            (OptionalLong) call(store, "translateDownstream", "g", place, step.get(0).asLong());
        found.add(offset.isPresent() ? offset.getAsLong() : null);
      }
    }
    return found;
  }

  static Object syncs(JsonNode one) throws Exception {
    Class<?> kind = Class.forName(PACKAGE + "OffsetSyncWriter$PartitionState");
    Object state = made(kind, new Class<?>[] {long.class}, one.get("max_lag").asLong());
    List<Object> found = new ArrayList<>();
    for (JsonNode run : one.get("runs")) {
      for (long n = 0; n < run.get(2).asLong(); n++) {
        long upstream = run.get(0).asLong() + n, downstream = run.get(1).asLong() + n;
        if ((boolean) call(state, "update", upstream, downstream)) {
          found.add(Arrays.asList(upstream, downstream));
          call(state, "reset");
        }
      }
    }
    return found;
  }

  static Object shares(JsonNode one) throws Exception {
    Map<String, String> config = texts(one.get("config"));
    List<TopicPartition> partitions = new ArrayList<>();
    Set<String> groups = new LinkedHashSet<>();
    for (JsonNode node : one.get("partitions"))
      partitions.add(new TopicPartition(node.get(0).asText(), node.get(1).asInt()));
    for (JsonNode node : one.get("groups")) groups.add(node.asText());
    Object source =
        made(
            MirrorSourceConnector.class,
            new Class<?>[] {List.class, MirrorSourceConfig.class},
            partitions,
            new MirrorSourceConfig(config));
    Object checkpoint =
        made(
            MirrorCheckpointConnector.class,
            new Class<?>[] {Set.class, MirrorCheckpointConfig.class},
            groups,
            new MirrorCheckpointConfig(config));
    int most = one.get("max_tasks").asInt();
    return Arrays.asList(call(source, "taskConfigs", most), call(checkpoint, "taskConfigs", most));
  }

  static Object clients(JsonNode one) throws Exception {
    MirrorSourceConfig config = new MirrorSourceConfig(texts(one.get("config")));
    List<Object> found = new ArrayList<>();
    for (String method :
        Arrays.asList(
            "sourceConsumerConfig",
            "sourceProducerConfig",
            "sourceAdminConfig",
            "targetConsumerConfig",
            "targetProducerConfig",
            "targetAdminConfig")) found.add(call(config, method, "role"));
    found.add(call(config, "offsetSyncsTopic"));
    found.add(call(config, "checkpointsTopic"));
    return found;
  }

  static Object alter(JsonNode one) throws Exception {
    SourceConnector connector =
        (SourceConnector)
            Class.forName(PACKAGE + one.get("class").asText()).getConstructor().newInstance();
    ObjectMapper mapper = new ObjectMapper();
    List<Object> found = new ArrayList<>();
    for (JsonNode pair : one.get("offsets")) {
      Map<Map<String, ?>, Map<String, ?>> offsets = new HashMap<>();
      offsets.put(
          mapper.convertValue(pair.get(0), Map.class), mapper.convertValue(pair.get(1), Map.class));
      try {
        found.add(connector.alterOffsets(Map.of(), offsets));
      } catch (org.apache.kafka.connect.errors.ConnectException error) {
        found.add("refused");
      }
    }
    return found;
  }

  static Map<String, String> texts(JsonNode node) {
    Map<String, String> found = new HashMap<>();
    node.fields().forEachRemaining(field -> found.put(field.getKey(), field.getValue().asText()));
    return found;
  }

  static Object made(Class<?> kind, Class<?>[] types, Object... values) throws Exception {
    Constructor<?> constructor = kind.getDeclaredConstructor(types);
    constructor.setAccessible(true);
    return constructor.newInstance(values);
  }

  static void set(Object target, String name, Object value) throws Exception {
    Field field = target.getClass().getDeclaredField(name);
    field.setAccessible(true);
    field.set(target, value);
  }

  static Object call(Object target, String name, Object... values) throws Exception {
    for (Class<?> kind = target.getClass(); kind != null; kind = kind.getSuperclass()) {
      for (Method method : kind.getDeclaredMethods()) {
        if (!method.getName().equals(name) || method.getParameterCount() != values.length) continue;
        if (values.length == 1 && Map.class.isAssignableFrom(method.getParameterTypes()[0]))
          continue;
        method.setAccessible(true);
        return method.invoke(target, values);
      }
    }
    throw new NoSuchMethodException(name);
  }
}
