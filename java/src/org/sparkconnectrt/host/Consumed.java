package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;

/**
 * Rows that were consumed, as Python sent their columns: {"rows": n, "topic": name or absent,
 * "partition": number or absent, "columns": {name: [bytes of each buffer]}}.
 */
final class Consumed {
  private final int rows;
  private final String topic;
  private final int partition;
  private final Column topics;
  private final Column partitions;
  private final Column offsets;
  private final Column timestamps;
  private final Column keys;
  private final Column values;
  private final Column headerLists;
  private final Column headerKeys;
  private final Column headerValues;
  private final TimestampType timestampType;
  private int row = -1;

  Consumed(JsonNode head, ByteBuffer data) {
    rows = head.get("rows").asInt();
    topic = head.path("topic").asText(null);
    partition = head.path("partition").asInt(-1);
    timestampType =
        head.path("log_append_time").asBoolean()
            ? TimestampType.LOG_APPEND_TIME
            : TimestampType.CREATE_TIME;
    JsonNode columns = head.get("columns");
    topics = Column.of(columns, "topic", data);
    partitions = Column.of(columns, "partition", data);
    offsets = Column.of(columns, "offset", data);
    timestamps = Column.of(columns, "timestamp", data);
    keys = Column.of(columns, "key", data);
    values = Column.of(columns, "value", data);
    headerLists = Column.of(columns, "header_lists", data);
    headerKeys = Column.of(columns, "header_keys", data);
    headerValues = Column.of(columns, "header_values", data);
  }

  boolean next() {
    return ++row < rows;
  }

  /** Returns how many rows {@link #next} has gone to. */
  int taken() {
    return row + 1;
  }

  int left() {
    return rows - taken();
  }

  ConsumerRecord<byte[], byte[]> record() {
    byte[] key = keys == null ? null : keys.bytes(row);
    byte[] value = values == null ? null : values.bytes(row);
    boolean timed = timestamps != null && timestamps.valid(row);
    return new ConsumerRecord<>(
        topics == null ? topic : new String(topics.bytes(row), StandardCharsets.UTF_8),
        partitions == null ? partition : partitions.number(row),
        offsets.longNumber(row),
        timed ? timestamps.longNumber(row) : ConsumerRecord.NO_TIMESTAMP,
        timed ? timestampType : TimestampType.NO_TIMESTAMP_TYPE,
        key == null ? ConsumerRecord.NULL_SIZE : key.length,
        value == null ? ConsumerRecord.NULL_SIZE : value.length,
        key,
        value,
        headers(),
        Optional.empty());
  }

  private RecordHeaders headers() {
    RecordHeaders found = new RecordHeaders();
    if (headerLists != null) {
      for (int at = headerLists.start(row); at < headerLists.end(row); at++) {
        found.add(new String(headerKeys.bytes(at), StandardCharsets.UTF_8), headerValues.bytes(at));
      }
    }
    return found;
  }

  /** One Arrow column: validity bits, then ends and bytes, or numbers. */
  private record Column(ByteBuffer validity, ByteBuffer first, ByteBuffer second) {
    static Column of(JsonNode columns, String name, ByteBuffer data) {
      JsonNode sizes = columns.get(name);
      if (sizes == null) {
        return null;
      }
      ByteBuffer[] parts = new ByteBuffer[3];
      for (int part = 0; part < 3; part++) {
        int size = sizes.path(part).asInt();
        parts[part] = data.slice(data.position(), size).order(ByteOrder.LITTLE_ENDIAN);
        data.position(data.position() + size);
      }
      return new Column(parts[0], parts[1], parts[2]);
    }

    boolean valid(int row) {
      return validity.limit() == 0 || (validity.get(row >> 3) >> (row & 7) & 1) != 0;
    }

    int start(int row) {
      return first.getInt(4 * row);
    }

    int end(int row) {
      return first.getInt(4 * row + 4);
    }

    byte[] bytes(int row) {
      if (!valid(row)) {
        return null;
      }
      byte[] found = new byte[end(row) - start(row)];
      second.get(start(row), found);
      return found;
    }

    int number(int row) {
      return first.getInt(4 * row);
    }

    long longNumber(int row) {
      return first.getLong(8 * row);
    }
  }
}
