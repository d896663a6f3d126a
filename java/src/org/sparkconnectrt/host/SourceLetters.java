package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.connect.data.Schema;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Hands errant records of a source to Python ahead of the batch they were polled with; the log, the
 * counts and the dead letter queue are there. The task's thread.
 */
final class SourceLetters implements ErrorReporter<SourceRecord> {
  private final SourceHosted hosted;
  private final boolean contents;
  private final JsonConverter json = new JsonConverter();

  /** {@code contents}: there is a dead letter queue. */
  SourceLetters(SourceHosted hosted, boolean contents) {
    this.hosted = hosted;
    this.contents = contents;
    json.configure(Map.of("schemas.enable", "false"), false);
  }

  @Override
  public Future<RecordMetadata> report(ProcessingContext<SourceRecord> context) {
    if (!hosted.stopping) { // else it may have been given up for that alone, and is polled again
      send(context);
    }
    return CompletableFuture.completedFuture(null);
  }

  private void send(ProcessingContext<SourceRecord> context) {
    SourceRecord record = context.original();
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("topic", record.topic());
    head.put("partition", record.kafkaPartition());
    head.put("timestamp", record.timestamp());
    head.set("source_partition", map(record.sourcePartition()));
    head.set("source_offset", map(record.sourceOffset()));
    head.put("stage", context.stage() == null ? null : context.stage().name());
    head.put(
        "executing_class",
        context.executingClass() == null ? null : context.executingClass().getName());
    head.set("error", context.error() == null ? null : Hosted.failure(context.error()));
    head.put("text", String.valueOf(record));
    List<ByteBuffer> data = new ArrayList<>();
    if (contents) {
      contents(record, head, data);
    }
    try {
      hosted.home.wire.write('Z', hosted.host, head, data.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
  }

  private JsonNode map(Map<String, ?> map) {
    try {
      return hosted.home.json(map);
    } catch (RuntimeException error) { // this may be what is wrong with the record
      return TextNode.valueOf(String.valueOf(map));
    }
  }

  private void contents(SourceRecord record, ObjectNode head, List<ByteBuffer> data) {
    String topic = record.topic();
    RecordHeaders none = new RecordHeaders();
    part(
        head,
        "key",
        data,
        record.keySchema(),
        record.key(),
        (schema, value) -> hosted.keys.fromConnectData(topic, none, schema, value));
    part(
        head,
        "value",
        data,
        record.valueSchema(),
        record.value(),
        (schema, value) -> hosted.values.fromConnectData(topic, none, schema, value));
    ArrayNode headers = head.putArray("headers");
    for (Header one : record.headers()) {
      ObjectNode written = headers.addObject();
      written.put("name", one.key());
      part(
          written,
          "value",
          data,
          one.schema(),
          one.value(),
          (schema, value) -> hosted.headers.fromConnectHeader(topic, one.key(), schema, value));
    }
  }

  /** Writes a key or value. */
  private interface Writer {
    byte[] bytes(Schema schema, Object value);
  }

  /**
   * Adds the bytes of a value that something may be wrong with: [how many (-1: null), how they were
   * made].
   */
  private void part(
      ObjectNode head,
      String name,
      List<ByteBuffer> data,
      Schema schema,
      Object value,
      Writer writer) {
    byte[] bytes;
    String encoding = "converter";
    try {
      bytes = writer.bytes(schema, value);
    } catch (RuntimeException error) { // this may be the very failure that is reported
      try {
        bytes =
            json.fromConnectData(
                "", value instanceof Struct struct ? struct.schema() : null, value);
        encoding = "json";
      } catch (RuntimeException other) {
        bytes = String.valueOf(value).getBytes(StandardCharsets.UTF_8);
        encoding = "text";
      }
    }
    head.putArray(name).add(bytes == null ? -1 : bytes.length).add(encoding);
    if (bytes != null) {
      data.add(ByteBuffer.wrap(bytes));
    }
  }
}
