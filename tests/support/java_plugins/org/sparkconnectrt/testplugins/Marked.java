package org.sparkconnectrt.testplugins;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.ConfigDef.Importance;
import org.apache.kafka.common.config.ConfigDef.Type;
import org.apache.kafka.common.metrics.Gauge;
import org.apache.kafka.common.metrics.Monitorable;
import org.apache.kafka.common.metrics.PluginMetrics;
import org.apache.kafka.connect.components.Versioned;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.errors.DataException;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * Strings behind a mark and a byte that is no UTF-8. Counts them as a metric of its own; with a
 * file in {@code notes} it notes there when it is closed, and whether it was called with its own
 * class loader.
 */
public final class Marked implements Converter, HeaderConverter, Versioned, Monitorable {
  private byte[] mark = {(byte) 0xFE};
  private String notes = "";
  private boolean atHome = true;
  private volatile long marked;
  private PluginMetrics metrics;

  @Override
  public String version() {
    return "1.0";
  }

  @Override
  public ConfigDef config() {
    return new ConfigDef()
        .define("mark", Type.STRING, "M", Importance.HIGH, "In front of every value.")
        .define("notes", Type.STRING, "", Importance.LOW, "A file.");
  }

  @Override
  public void withPluginMetrics(PluginMetrics metrics) {
    this.metrics = metrics;
    MetricName name = metrics.metricName("marked", "values marked", new LinkedHashMap<>());
    metrics.addMetric(name, (Gauge<Long>) (metric, now) -> marked);
  }

  @Override
  public void configure(Map<String, ?> configs) {
    notes = (String) config().parse(configs).get("notes");
    byte[] text = ((String) config().parse(configs).get("mark")).getBytes(StandardCharsets.UTF_8);
    mark = Arrays.copyOf(text, text.length + 1);
    mark[text.length] = (byte) 0xFE;
  }

  @Override
  public void configure(Map<String, ?> configs, boolean isKey) {
    configure(configs);
  }

  @Override
  public byte[] fromConnectData(String topic, Schema schema, Object value) {
    if (value == null) {
      return null;
    }
    Objects.requireNonNull(metrics, "withPluginMetrics was not called")
        .metricName("any", "", new LinkedHashMap<>());
    marked++;
    atHome &= Thread.currentThread().getContextClassLoader() == Marked.class.getClassLoader();
    byte[] text = value.toString().getBytes(StandardCharsets.UTF_8);
    byte[] marked = Arrays.copyOf(mark, mark.length + text.length);
    System.arraycopy(text, 0, marked, mark.length, text.length);
    return marked;
  }

  @Override
  public SchemaAndValue toConnectData(String topic, byte[] value) {
    if (value == null) {
      return SchemaAndValue.NULL;
    }
    if (value.length < mark.length
        || Arrays.mismatch(mark, 0, mark.length, value, 0, mark.length) >= 0) {
      throw new DataException("without its mark");
    }
    String text =
        new String(value, mark.length, value.length - mark.length, StandardCharsets.UTF_8);
    return new SchemaAndValue(Schema.OPTIONAL_STRING_SCHEMA, text);
  }

  @Override
  public byte[] fromConnectHeader(String topic, String headerKey, Schema schema, Object value) {
    return fromConnectData(topic, schema, value);
  }

  @Override
  public SchemaAndValue toConnectHeader(String topic, String headerKey, byte[] value) {
    return toConnectData(topic, value);
  }

  @Override
  public void close() {
    if (notes.isEmpty()) {
      return;
    }
    try {
      Files.writeString(
          Path.of(notes),
          "closed " + atHome + "\n",
          StandardOpenOption.CREATE,
          StandardOpenOption.APPEND);
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }
}
