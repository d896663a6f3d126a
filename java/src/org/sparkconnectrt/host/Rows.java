package org.sparkconnectrt.host;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.connect.connector.ConnectRecord;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.header.ConnectHeaders;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.sink.SinkRecord;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Records of Python connectors: key, value and header values are JSON with schema. Not thread-safe.
 */
final class Rows {
  private static final String ANY_TOPIC = "";
  private final JsonConverter json = new JsonConverter();

  Rows() {
    json.configure(Map.of("schemas.enable", "true", "replace.null.with.default", "false"), false);
  }

  SchemaAndValue read(byte[] data) {
    return json.toConnectData(ANY_TOPIC, data);
  }

  byte[] written(org.apache.kafka.connect.data.Schema schema, Object value) {
    return json.fromConnectData(ANY_TOPIC, schema, value);
  }

  ConnectRecord<?> record(ConsumerRecord<byte[], byte[]> row, boolean sink) {
    SchemaAndValue key = read(row.key());
    SchemaAndValue value = read(row.value());
    ConnectHeaders headers = new ConnectHeaders();
    row.headers().forEach(one -> headers.add(one.key(), read(one.value())));
    Long timestamp =
        row.timestampType() == TimestampType.NO_TIMESTAMP_TYPE ? null : row.timestamp();
    Integer partition = row.partition() < 0 ? null : row.partition();
    if (sink) {
      return new SinkRecord(
          row.topic(),
          row.partition(),
          key.schema(),
          key.value(),
          value.schema(),
          value.value(),
          row.offset(),
          timestamp,
          timestamp == null ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME,
          headers);
    }
    return new SourceRecord(
        Map.of(),
        Map.of("row", row.offset()),
        row.topic(),
        partition,
        key.schema(),
        key.value(),
        value.schema(),
        value.value(),
        timestamp,
        headers);
  }

  /** Appends a record's row; nothing of it is added when it cannot be written. */
  void add(Columns columns, ConnectRecord<?> record) {
    byte[] key = written(record.keySchema(), record.key());
    byte[] value = written(record.valueSchema(), record.value());
    RecordHeaders headers = new RecordHeaders();
    for (Header header : record.headers()) {
      headers.add(header.key(), written(header.schema(), header.value()));
    }
    columns.add(key, value, headers, record.kafkaPartition(), record.timestamp());
  }
}
