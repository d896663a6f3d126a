package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.ConverterConfig;
import org.apache.kafka.connect.storage.ConverterType;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * A converter or header converter of a Python connector. Rows hold in "key" what goes in (a
 * header's name in "value") and in the answer what comes out: on one side the converter's bytes,
 * unchanged, on the other JSON with schema.
 */
final class ConverterStage implements Stages.Stage {
  private final Home home;
  private final Object plugin;
  private final AutoCloseable measuring;
  private final Direction from;
  private final Direction to;
  private final Rows rows = new Rows();

  /** What is made of one row's bytes. */
  private interface Direction {
    byte[] of(ConsumerRecord<byte[], byte[]> row);
  }

  private ConverterStage(Stages stages, Home home, Converter converter) {
    this.home = home;
    this.plugin = converter;
    this.measuring = stages.measuring(converter);
    this.from =
        row -> {
          SchemaAndValue given = rows.read(row.key());
          return converter.fromConnectData(
              row.topic(), new RecordHeaders(), given.schema(), given.value());
        };
    this.to = row -> written(converter.toConnectData(row.topic(), row.headers(), row.key()));
  }

  private ConverterStage(Stages stages, Home home, HeaderConverter converter) {
    this.home = home;
    this.plugin = converter;
    this.measuring = stages.measuring(converter);
    this.from =
        row -> {
          SchemaAndValue given = rows.read(row.key());
          return converter.fromConnectHeader(row.topic(), name(row), given.schema(), given.value());
        };
    this.to = row -> written(converter.toConnectHeader(row.topic(), name(row), row.key()));
  }

  static ConverterStage ofValues(Stages stages, Home home, JsonNode asked) throws Exception {
    Map<String, String> config = Hosted.strings(asked.path("config"));
    Converter made = stages.newPlugin(asked, Converter.class);
    stages.configure(made, config, () -> made.configure(config, asked.path("is_key").asBoolean()));
    return new ConverterStage(stages, home, made);
  }

  static ConverterStage ofHeaders(Stages stages, Home home, JsonNode asked) throws Exception {
    Map<String, String> config = new HashMap<>(Hosted.strings(asked.path("config")));
    config.put(ConverterConfig.TYPE_CONFIG, ConverterType.HEADER.getName());
    HeaderConverter made = stages.newPlugin(asked, HeaderConverter.class);
    stages.configure(made, config, () -> made.configure(config));
    return new ConverterStage(stages, home, made);
  }

  @Override
  public List<ByteBuffer> answer(String op, Wire.Frame asked, ObjectNode answer) {
    Direction direction = op.equals("from") ? from : to;
    Columns columns = new Columns("");
    Stages.Outcome outcome = new Stages.Outcome();
    Consumed given = new Consumed(asked.head(), asked.data());
    try (var swap = home.plugins.withClassLoader(plugin.getClass().getClassLoader())) {
      while (given.next()) {
        try {
          columns.add(direction.of(given.record()), null, null, null, null);
          outcome.kept();
        } catch (Throwable error) { // plug-in code: this value's failure
          outcome.failed(error);
        }
      }
    }
    outcome.write(answer);
    List<ByteBuffer> data = new ArrayList<>();
    columns.write(answer.putObject("section"), data);
    return data;
  }

  private byte[] written(SchemaAndValue found) {
    return found == null ? null : rows.written(found.schema(), found.value());
  }

  private static String name(ConsumerRecord<byte[], byte[]> row) {
    return new String(row.value(), StandardCharsets.UTF_8);
  }

  @Override
  public void close() {
    Utils.closeQuietly(measuring, "converter"); // closes it, too
  }
}
