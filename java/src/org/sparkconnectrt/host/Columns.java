package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import org.apache.kafka.common.header.Header;

/**
 * Rows of one topic as Arrow buffers: validity bits, int32 ends, bytes. A column that is null in
 * every row is left out. Not thread-safe.
 */
final class Columns {
  final String topic;
  private int rows;
  private long lastRowBytes;
  private final Binary keys = new Binary();
  private final Binary values = new Binary();
  private final Numbers timestamps = new Numbers(Long.BYTES);
  private final Numbers partitions = new Numbers(Integer.BYTES);
  private final Headers headers = new Headers();

  Columns(String topic) {
    this.topic = topic;
  }

  /** Returns about how many bytes the row added last takes. */
  long lastRowBytes() {
    return lastRowBytes;
  }

  void add(byte[] key, byte[] value, Iterable<Header> given, Integer partition, Long timestamp) {
    long before = (long) keys.length + values.length + headers.bytes();
    keys.add(key);
    values.add(value);
    timestamps.add(timestamp);
    partitions.add(partition);
    headers.add(given, rows);
    rows++;
    lastRowBytes = (long) keys.length + values.length + headers.bytes() - before + 24;
  }

  /** Describes the columns in {@code head} and appends their buffers, in the same order. */
  void write(ObjectNode head, List<ByteBuffer> out) {
    head.put("topic", topic);
    head.put("rows", rows);
    ObjectNode columns = head.putObject("columns");
    keys.write("key", columns, out);
    values.write("value", columns, out);
    timestamps.write("timestamp", columns, out);
    partitions.write("partition", columns, out);
    headers.write(columns, out, rows);
  }

  private static void append(ArrayNode sizes, List<ByteBuffer> out, ByteBuffer buffer) {
    sizes.add(buffer.remaining());
    out.add(buffer);
  }

  /** One bit a row, set where there is a value; no bytes where all have one. */
  private static final class Validity {
    private byte[] bits = new byte[16];
    private int count;
    private int nulls;

    void add(boolean valid) {
      if (count >> 3 >= bits.length) {
        bits = Arrays.copyOf(bits, bits.length * 2);
      }
      if (valid) {
        bits[count >> 3] |= (byte) (1 << (count & 7));
      } else {
        nulls++;
      }
      count++;
    }

    boolean allNull() {
      return nulls == count;
    }

    ByteBuffer buffer() {
      return nulls == 0 ? ByteBuffer.allocate(0) : ByteBuffer.wrap(bits, 0, (count + 7) >> 3);
    }
  }

  /** A column of bytes. */
  private static final class Binary {
    private final Validity validity = new Validity();
    private byte[] data = new byte[1024];
    private int[] ends = new int[64];
    private int count;
    int length;

    void add(byte[] value) {
      validity.add(value != null);
      if (value != null) {
        if (length + value.length > data.length) {
          data =
              Arrays.copyOf(
                  data, Math.max(length + value.length, Math.addExact(data.length, data.length)));
        }
        System.arraycopy(value, 0, data, length, value.length);
        length += value.length;
      }
      if (count == ends.length) {
        ends = Arrays.copyOf(ends, ends.length * 2);
      }
      ends[count++] = length;
    }

    void write(String name, ObjectNode columns, List<ByteBuffer> out) {
      if (!validity.allNull()) {
        write(columns.putArray(name), out);
      }
    }

    void write(ArrayNode sizes, List<ByteBuffer> out) {
      append(sizes, out, validity.buffer());
      append(sizes, out, offsets(ends, count));
      append(sizes, out, ByteBuffer.wrap(data, 0, length));
    }
  }

  private static ByteBuffer offsets(int[] ends, int count) {
    ByteBuffer offsets = ByteBuffer.allocate(4 * (count + 1)).order(ByteOrder.LITTLE_ENDIAN);
    offsets.putInt(0);
    offsets.asIntBuffer().put(ends, 0, count);
    return offsets.rewind();
  }

  /** A column of numbers of 4 or 8 bytes. */
  private static final class Numbers {
    private final Validity validity = new Validity();
    private final int width;
    private ByteBuffer data;

    Numbers(int width) {
      this.width = width;
      this.data = ByteBuffer.allocate(width * 64).order(ByteOrder.LITTLE_ENDIAN);
    }

    void add(Number value) {
      validity.add(value != null);
      if (data.remaining() < width) {
        ByteBuffer larger = ByteBuffer.allocate(data.capacity() * 2).order(ByteOrder.LITTLE_ENDIAN);
        data = larger.put(data.flip());
      }
      if (width == Long.BYTES) {
        data.putLong(value == null ? 0 : value.longValue());
      } else {
        data.putInt(value == null ? 0 : value.intValue());
      }
    }

    void write(String name, ObjectNode columns, List<ByteBuffer> out) {
      if (!validity.allNull()) {
        ArrayNode sizes = columns.putArray(name);
        append(sizes, out, validity.buffer());
        append(sizes, out, data.duplicate().flip());
      }
    }
  }

  /** The column of headers, a list of (key, value); empty until a record has one. */
  private static final class Headers {
    private final Binary keys = new Binary();
    private final Binary values = new Binary();
    private int[] ends = new int[0];
    private int count;

    void add(Iterable<Header> given, int row) {
      if (given != null) {
        for (Header header : given) {
          keys.add(header.key().getBytes(StandardCharsets.UTF_8));
          values.add(header.value());
          count++;
        }
      }
      if (count == 0) {
        return;
      }
      if (row >= ends.length) { // rows before the first header end at zero
        ends = Arrays.copyOf(ends, Math.max(64, (row + 1) * 2));
      }
      ends[row] = count;
    }

    long bytes() {
      return (long) keys.length + values.length + 16L * count;
    }

    void write(ObjectNode columns, List<ByteBuffer> out, int rows) {
      if (count == 0) {
        return;
      }
      ArrayNode sizes = columns.putArray("headers");
      append(sizes, out, offsets(Arrays.copyOf(ends, rows), rows));
      keys.write(sizes, out);
      values.write(sizes, out);
    }
  }
}
