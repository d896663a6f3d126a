package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.connect.errors.ConnectException;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;

/**
 * Hands errant records to Python, which logs them and sends them to the dead letter queue; each
 * future is done when Python says that the broker has it. Any thread.
 */
final class DeadLetters implements ErrorReporter<ConsumerRecord<byte[], byte[]>> {
  private final SinkHosted hosted;
  private final AtomicLong numbers = new AtomicLong();
  private final Map<Long, CompletableFuture<RecordMetadata>> waiting = new ConcurrentHashMap<>();

  DeadLetters(SinkHosted hosted) {
    this.hosted = hosted;
  }

  @Override
  public Future<RecordMetadata> report(ProcessingContext<ConsumerRecord<byte[], byte[]>> context) {
    ConsumerRecord<byte[], byte[]> raw = context.original();
    long number = numbers.incrementAndGet();
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("number", number);
    head.put("topic", raw.topic());
    head.put("partition", raw.partition());
    head.put("offset", raw.offset());
    head.put("timestamp", raw.timestamp() == ConsumerRecord.NO_TIMESTAMP ? null : raw.timestamp());
    head.put("stage", context.stage() == null ? null : context.stage().name());
    head.put(
        "executing_class",
        context.executingClass() == null ? null : context.executingClass().getName());
    if (context.error() != null) {
      head.set(
          "error", Hosted.failure(context.error()).put("message", context.error().getMessage()));
    }
    List<ByteBuffer> data = new ArrayList<>();
    head.put("key", part(data, raw.key()));
    head.put("value", part(data, raw.value()));
    ArrayNode headers = head.putArray("headers");
    for (Header header : raw.headers()) {
      headers.addArray().add(header.key()).add(part(data, header.value()));
    }
    CompletableFuture<RecordMetadata> future = new CompletableFuture<>();
    waiting.put(number, future);
    try {
      hosted.home.wire.write('Z', hosted.host, head, data.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
    return future;
  }

  /** The letters up to {"to": number} are durable, or {"error": why} they will never be. */
  void done(JsonNode head) {
    long to = head.get("to").asLong();
    String error = head.path("error").asText(null);
    for (Map.Entry<Long, CompletableFuture<RecordMetadata>> one : waiting.entrySet()) {
      if (one.getKey() <= to && waiting.remove(one.getKey()) != null) {
        if (error == null) {
          one.getValue().complete(null);
        } else {
          one.getValue().completeExceptionally(new ConnectException(error));
        }
      }
    }
  }

  /** Adds some bytes; returns how many, -1 for null. */
  private static int part(List<ByteBuffer> data, byte[] bytes) {
    if (bytes == null) {
      return -1;
    }
    data.add(ByteBuffer.wrap(bytes));
    return bytes.length;
  }
}
