package org.sparkconnectrt.testplugins;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.Field;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaBuilder;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * Adds a field "label" to a struct or map, and the header "labelled"; drops values that are the
 * string "drop", refuses those that are "refuse".
 */
public final class Label<R extends ConnectRecord<R>> implements Transformation<R>, Versioned {
  private Misbehaviour does = new Misbehaviour(Map.of());
  private String label = "";

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef()
        .define("label", Type.STRING, ConfigDef.NO_DEFAULT_VALUE, Importance.HIGH, "What is added.")
        .define(Misbehaviour.SETTING, Type.STRING, "", Importance.LOW, "method:deed, ...");
  }

  @Override
  public void configure(Map<String, ?> configs) {
    Map<String, Object> parsed = config().parse(configs);
    label = (String) parsed.get("label");
    does = new Misbehaviour(configs);
    does.in("configure");
  }

  @Override
  public R apply(R record) {
    if (does.in("apply")) {
      return null;
    }
    Object value = record.value();
    if ("drop".equals(value)) {
      return null;
    }
    if ("refuse".equals(value)) {
      throw new DataException("refused on purpose");
    }
    R changed =
        record.newRecord(
            record.topic(),
            record.kafkaPartition(),
            record.keySchema(),
            record.key(),
            value instanceof Struct struct ? schema(struct.schema()) : record.valueSchema(),
            labelled(value),
            record.timestamp(),
            record.headers().duplicate());
    changed.headers().addString("labelled", label);
    return changed;
  }

  private Object labelled(Object value) {
    if (value instanceof Struct struct) {
      Struct result = new Struct(schema(struct.schema()));
      for (Field field : struct.schema().fields()) {
        result.put(field.name(), struct.get(field));
      }
      return result.put("label", label);
    }
    if (value instanceof Map<?, ?> map) {
      Map<Object, Object> result = new HashMap<>(map);
      result.put("label", label);
      return result;
    }
    return value;
  }

  private static Schema schema(Schema schema) {
    SchemaBuilder builder = SchemaBuilder.struct().name(schema.name());
    for (Field field : schema.fields()) {
      builder.field(field.name(), field.schema());
    }
    return builder.field("label", Schema.STRING_SCHEMA).build();
  }

  @Override
  public void close() {
    does.in("close");
  }
}
