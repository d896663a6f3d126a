// Runs the cases of tests/parity/record_data.py through Java Connect's own classes: JSON in on
// stdin, JSON out on stdout.
// Values travel as {"i8": 1}, {"date": ms}, {"struct": [schema, [[field, value]]]} ...; see
// tests/parity/typed_values.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.math.BigDecimal;
import java.nio.ByteBuffer;
import java.text.ParsePosition;
import java.text.SimpleDateFormat;
import java.util.*;
import javax.security.auth.login.AppConfigurationEntry;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigValue;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.security.JaasContext;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.*;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.runtime.ConnectorConfig;
import org.apache.kafka.connect.runtime.SourceConnectorConfig;
import org.apache.kafka.connect.runtime.isolation.Plugins;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.SimpleHeaderConverter;
import org.apache.kafka.connect.transforms.Transformation;
import org.apache.kafka.connect.transforms.predicates.Predicate;

public class DataOracle {
  static final JsonNodeFactory F = JsonNodeFactory.instance;

  public static void main(String[] arguments) throws Exception {
    TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
    Locale.setDefault(Locale.US);
    ObjectMapper mapper = new ObjectMapper();
    ArrayNode answers = F.arrayNode();
    for (JsonNode one : mapper.readTree(System.in)) {
      JsonNode answer;
      try {
        answer = answer(one);
      } catch (Throwable error) {
        answer = failure(error);
      }
      answers.add(answer);
    }
    System.out.println(mapper.writeValueAsString(answers));
  }

  static JsonNode answer(JsonNode one) throws Exception {
    switch (one.get("kind").asText()) {
      case "transform":
        return transform(one);
      case "predicate":
        return predicate(one);
      case "parse":
        return schemaAndValue(Values.parseString(one.get("text").asText()));
      case "text":
        return F.textNode(
            Values.convertToString(schema(one.get("schema")), value(one.get("value"))));
      case "convert":
        return convert(one);
      case "infer":
        return F.objectNode().set("schema", schema(Values.inferSchema(value(one.get("value")))));
      case "project":
        return value(
            SchemaProjector.project(
                schema(one.get("source")), value(one.get("value")), schema(one.get("target"))));
      case "check":
        ConnectSchema.validateValue(schema(one.get("schema")), value(one.get("value")));
        return F.textNode("fits");
      case "write":
        return bytes(
            converter(one)
                .fromConnectData("t", schema(one.get("schema")), value(one.get("value"))));
      case "read":
        return schemaAndValue(converter(one).toConnectData("t", bytes(one.get("bytes"))));
      case "write_header":
        return bytes(
            new SimpleHeaderConverter()
                .fromConnectHeader("t", "h", schema(one.get("schema")), value(one.get("value"))));
      case "read_header":
        return schemaAndValue(
            new SimpleHeaderConverter().toConnectHeader("t", "h", bytes(one.get("bytes"))));
      case "date_format":
        return F.textNode(dates(one).format(new java.util.Date(one.get("ms").asLong())));
      case "date_parse":
        return dateParse(one);
      case "jaas":
        return jaas(one);
      case "config_def":
        return configDef(one);
      case "validate":
        return validate(one);
      default:
        throw new IllegalStateException("no such kind: " + one);
    }
  }

  static JsonNode jaas(JsonNode one) {
    JaasContext context =
        JaasContext.loadClientContext(
            Map.of("sasl.jaas.config", new Password(one.get("text").asText())));
    ObjectNode node = F.objectNode();
    for (AppConfigurationEntry entry : context.configurationEntries()) {
      node.put("module", entry.getLoginModuleName());
      node.set("options", new ObjectMapper().valueToTree(new TreeMap<>(entry.getOptions())));
    }
    return node;
  }

  static Plugins plugins;

  static JsonNode validate(JsonNode one) throws Exception {
    if (plugins == null) plugins = new Plugins(new HashMap<>());
    Map<String, String> properties = strings(one.get("config"));
    ConfigDef definition =
        ConnectorConfig.enrich(plugins, SourceConnectorConfig.configDef(), properties, false);
    Map<String, ConfigDef.ConfigKey> keys = definition.configKeys();
    ArrayNode found = F.arrayNode();
    for (ConfigValue given : definition.validate(properties)) {
      ConfigDef.ConfigKey key = keys.get(given.name());
      if (key == null
          || !(key.name.startsWith("transforms.") || key.name.startsWith("predicates."))) continue;
      ObjectNode node = found.addObject();
      node.put("name", key.name)
          .put("type", key.type.name())
          .put("importance", key.importance.name());
      node.put("required", key.defaultValue == ConfigDef.NO_DEFAULT_VALUE).put("group", key.group);
      node.put("order", key.orderInGroup)
          .put("width", key.width.name())
          .put("display_name", key.displayName);
      node.put("value", ConfigDef.convertToString(given.value(), key.type));
      ArrayNode errors = node.putArray("errors");
      given.errorMessages().forEach(errors::add);
    }
    return found;
  }

  static SimpleDateFormat dates(JsonNode one) {
    return new SimpleDateFormat(one.get("pattern").asText());
  }

  static JsonNode dateParse(JsonNode one) {
    ParsePosition position = new ParsePosition(0);
    java.util.Date found = dates(one).parse(one.get("text").asText(), position);
    return found == null
        ? F.nullNode()
        : F.arrayNode().add(found.getTime()).add(position.getIndex());
  }

  static Converter converter(JsonNode one) throws Exception {
    Converter converter =
        (Converter) Class.forName(one.get("class").asText()).getDeclaredConstructor().newInstance();
    converter.configure(strings(one.get("config")), false);
    return converter;
  }

  static JsonNode configDef(JsonNode one) throws Exception {
    Object made = Class.forName(one.get("class").asText()).getDeclaredConstructor().newInstance();
    ConfigDef definition =
        made instanceof Transformation
            ? ((Transformation<?>) made).config()
            : ((Predicate<?>) made).config();
    ArrayNode keys = F.arrayNode();
    for (ConfigDef.ConfigKey key : definition.configKeys().values()) {
      ObjectNode node = F.objectNode();
      node.put("name", key.name)
          .put("type", key.type.name())
          .put("importance", key.importance.name());
      node.put("required", key.defaultValue == ConfigDef.NO_DEFAULT_VALUE);
      Object given = key.defaultValue == ConfigDef.NO_DEFAULT_VALUE ? null : key.defaultValue;
      node.put("default", ConfigDef.convertToString(given, key.type));
      keys.add(node);
    }
    return keys;
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  static JsonNode transform(JsonNode one) throws Exception {
    Transformation transformation =
        (Transformation)
            Class.forName(one.get("class").asText()).getDeclaredConstructor().newInstance();
    try {
      transformation.configure(strings(one.get("config")));
    } catch (Exception error) {
      return F.objectNode().set("refused", failure(error));
    }
    ArrayNode results = F.arrayNode();
    for (JsonNode given : one.get("records")) {
      try {
        results.add(record(transformation.apply(record(given))));
      } catch (Exception error) {
        results.add(failure(error));
      }
    }
    return F.objectNode().set("records", results);
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  static JsonNode predicate(JsonNode one) throws Exception {
    Predicate predicate =
        (Predicate) Class.forName(one.get("class").asText()).getDeclaredConstructor().newInstance();
    try {
      predicate.configure(strings(one.get("config")));
    } catch (Exception error) {
      return F.objectNode().set("refused", failure(error));
    }
    ArrayNode results = F.arrayNode();
    for (JsonNode given : one.get("records")) results.add(predicate.test(record(given)));
    return F.objectNode().set("answers", results);
  }

  static JsonNode convert(JsonNode one) throws Exception {
    Schema from = schema(one.get("schema"));
    Object value = value(one.get("value"));
    String to = one.get("to").asText();
    if (to.equals("Decimal"))
      return value(Values.convertToDecimal(from, value, one.get("scale").asInt()));
    Method method = Values.class.getMethod("convertTo" + to, Schema.class, Object.class);
    try {
      return value(method.invoke(null, from, value));
    } catch (InvocationTargetException error) {
      return failure(error.getCause());
    }
  }

  static JsonNode failure(Throwable error) {
    ObjectNode node = F.objectNode();
    node.putArray("error").add(error.getClass().getSimpleName()).add(error.getMessage());
    return node;
  }

  static Map<String, String> strings(JsonNode node) {
    Map<String, String> result = new LinkedHashMap<>();
    if (node != null)
      node.fields()
          .forEachRemaining(
              entry ->
                  result.put(
                      entry.getKey(),
                      entry.getValue().isNull() ? null : entry.getValue().asText()));
    return result;
  }

  static JsonNode bytes(byte[] data) {
    return data == null ? F.nullNode() : F.textNode(Base64.getEncoder().encodeToString(data));
  }

  static byte[] bytes(JsonNode node) {
    return node == null || node.isNull() ? null : Base64.getDecoder().decode(node.asText());
  }

  static JsonNode schemaAndValue(SchemaAndValue given) {
    ObjectNode node = F.objectNode();
    node.set("schema", schema(given == null ? null : given.schema()));
    node.set("value", value(given == null ? null : given.value()));
    return node;
  }

  // -- records

  static ConnectRecord<?> record(JsonNode node) {
    ConnectHeaders headers = new ConnectHeaders();
    if (node.has("headers")) {
      for (JsonNode header : node.get("headers"))
        headers.add(header.get(0).asText(), value(header.get(2)), schema(header.get(1)));
    }
    String topic = node.has("topic") ? node.get("topic").asText() : "topic";
    Long timestamp = node.has("timestamp") ? node.get("timestamp").asLong() : null;
    Schema keySchema = schema(node.get("key_schema")),
        valueSchema = schema(node.get("value_schema"));
    Object key = value(node.get("key")), value = value(node.get("value"));
    if (node.has("offset")) {
      return new SinkRecord(
          topic,
          node.get("partition").asInt(),
          keySchema,
          key,
          valueSchema,
          value,
          node.get("offset").asLong(),
          timestamp,
          TimestampType.CREATE_TIME,
          headers);
    }
    Integer partition = node.has("partition") ? node.get("partition").asInt() : null;
    return new SourceRecord(
        Map.of(),
        Map.of(),
        topic,
        partition,
        keySchema,
        key,
        valueSchema,
        value,
        timestamp,
        headers);
  }

  static JsonNode record(Object given) {
    if (given == null) return F.nullNode();
    ConnectRecord<?> record = (ConnectRecord<?>) given;
    ObjectNode node = F.objectNode();
    node.put("topic", record.topic());
    if (record.kafkaPartition() != null) node.put("partition", record.kafkaPartition());
    if (record.timestamp() != null) node.put("timestamp", record.timestamp());
    if (record.keySchema() != null) node.set("key_schema", schema(record.keySchema()));
    if (record.key() != null) node.set("key", value(record.key()));
    if (record.valueSchema() != null) node.set("value_schema", schema(record.valueSchema()));
    if (record.value() != null) node.set("value", value(record.value()));
    if (!record.headers().isEmpty()) {
      ArrayNode headers = node.putArray("headers");
      for (Header header : record.headers()) {
        headers
            .addArray()
            .add(header.key())
            .add(schema(header.schema()))
            .add(value(header.value()));
      }
    }
    if (record instanceof SinkRecord) node.put("offset", ((SinkRecord) record).kafkaOffset());
    return node;
  }

  // -- schemas

  static Schema schema(JsonNode node) {
    if (node == null || node.isNull()) return null;
    Schema.Type type = Schema.Type.valueOf(node.get("type").asText());
    boolean optional = node.has("optional") && node.get("optional").asBoolean();
    String name = node.has("name") ? node.get("name").asText() : null;
    Integer version = node.has("version") ? node.get("version").asInt() : null;
    String doc = node.has("doc") ? node.get("doc").asText() : null;
    Map<String, String> parameters =
        node.has("parameters") ? strings(node.get("parameters")) : null;
    List<Field> fields = null;
    if (type == Schema.Type.STRUCT) {
      fields = new ArrayList<>();
      for (JsonNode member : node.get("fields"))
        fields.add(new Field(member.get(0).asText(), fields.size(), schema(member.get(1))));
    }
    Schema keys = schema(node.get("key")), values = schema(node.get("value"));
    Object byDefault = value(node.get("default"));
    return new ConnectSchema(
        type, optional, byDefault, name, version, doc, parameters, fields, keys, values);
  }

  static JsonNode schema(Schema schema) {
    if (schema == null) return F.nullNode();
    ObjectNode node = F.objectNode();
    node.put("type", schema.type().name());
    if (schema.isOptional()) node.put("optional", true);
    if (schema.name() != null) node.put("name", schema.name());
    if (schema.version() != null) node.put("version", schema.version());
    if (schema.doc() != null) node.put("doc", schema.doc());
    if (schema.parameters() != null) {
      ObjectNode parameters = node.putObject("parameters");
      schema.parameters().forEach(parameters::put);
    }
    if (schema.type() == Schema.Type.STRUCT) {
      ArrayNode fields = node.putArray("fields");
      for (Field field : schema.fields())
        fields.addArray().add(field.name()).add(schema(field.schema()));
    }
    if (schema.type() == Schema.Type.MAP) node.set("key", schema(schema.keySchema()));
    if (schema.type() == Schema.Type.MAP || schema.type() == Schema.Type.ARRAY)
      node.set("value", schema(schema.valueSchema()));
    if (schema.defaultValue() != null) node.set("default", value(schema.defaultValue()));
    return node;
  }

  // -- values

  static Object value(JsonNode node) {
    if (node == null || node.isNull()) return null;
    Map.Entry<String, JsonNode> only = node.fields().next();
    JsonNode of = only.getValue();
    switch (only.getKey()) {
      case "i8":
        return (byte) of.asInt();
      case "i16":
        return (short) of.asInt();
      case "i32":
        return of.asInt();
      case "i64":
        return of.asLong();
      case "f32":
        return Float.parseFloat(of.asText());
      case "f64":
        return Double.parseDouble(of.asText());
      case "bool":
        return of.asBoolean();
      case "s":
        return of.asText();
      case "bytes":
        return bytes(of);
      case "dec":
        return new BigDecimal(of.asText());
      case "date":
        return new java.util.Date(of.asLong());
      case "list":
        {
          List<Object> list = new ArrayList<>();
          for (JsonNode element : of) list.add(value(element));
          return list;
        }
      case "map":
        {
          Map<Object, Object> map = new LinkedHashMap<>();
          for (JsonNode entry : of) map.put(value(entry.get(0)), value(entry.get(1)));
          return map;
        }
      case "struct":
        {
          Struct struct = new Struct(schema(of.get(0)));
          for (JsonNode entry : of.get(1)) struct.put(entry.get(0).asText(), value(entry.get(1)));
          return struct;
        }
      default:
        throw new IllegalStateException("no such value: " + node);
    }
  }

  static JsonNode value(Object value) {
    if (value == null) return F.nullNode();
    ObjectNode node = F.objectNode();
    if (value instanceof Byte) return node.put("i8", (Byte) value);
    if (value instanceof Short) return node.put("i16", (Short) value);
    if (value instanceof Integer) return node.put("i32", (Integer) value);
    if (value instanceof Long) return node.put("i64", (Long) value);
    if (value instanceof Float) return node.put("f32", value.toString());
    if (value instanceof Double) return node.put("f64", value.toString());
    if (value instanceof Boolean) return node.put("bool", (Boolean) value);
    if (value instanceof String) return node.put("s", (String) value);
    if (value instanceof byte[]) return node.set("bytes", bytes((byte[]) value));
    if (value instanceof ByteBuffer) return node.set("bytes", bytes(((ByteBuffer) value).array()));
    if (value instanceof BigDecimal) return node.put("dec", value.toString());
    if (value instanceof java.util.Date)
      return node.put("date", ((java.util.Date) value).getTime());
    if (value instanceof List) {
      ArrayNode list = node.putArray("list");
      for (Object element : (List<?>) value) list.add(value(element));
      return node;
    }
    if (value instanceof Map) {
      ArrayNode map = node.putArray("map");
      ((Map<?, ?>) value).forEach((key, part) -> map.addArray().add(value(key)).add(value(part)));
      return node;
    }
    Struct struct = (Struct) value;
    ArrayNode fields = node.putArray("struct").add(schema(struct.schema())).addArray();
    for (Field field : struct.schema().fields()) {
      Object part = struct.getWithoutDefault(field.name());
      if (part != null) fields.addArray().add(field.name()).add(value(part));
    }
    return node;
  }
}
