package org.sparkconnectrt.host;

import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.connect.runtime.errors.ErrorReporter;
import org.apache.kafka.connect.runtime.errors.ProcessingContext;

/**
 * Hands errant records to Python, which sends them to the dead letter queue and reports no offset
 * before the broker has them; so the future is done at once.
 */
final class DeadLetters implements ErrorReporter<ConsumerRecord<byte[], byte[]>> {
  private final SinkHosted hosted;

  DeadLetters(SinkHosted hosted) {
    this.hosted = hosted;
  }

  @Override
  public Future<RecordMetadata> report(ProcessingContext<ConsumerRecord<byte[], byte[]>> context) {
    ConsumerRecord<byte[], byte[]> raw = context.original();
    ObjectNode head = Wire.JSON.createObjectNode();
    head.put("topic", raw.topic());
    head.put("partition", raw.partition());
    head.put("offset", raw.offset());
    head.put("timestamp", raw.timestamp());
    head.put("stage", context.stage() == null ? null : context.stage().name());
    head.put("executing_class", context.executingClass() == null ? null : context.executingClass().getName());
    head.set("error", context.error() == null ? null : Hosted.failure(context.error()));
    List<ByteBuffer> data = new ArrayList<>();
    head.put("key", part(data, raw.key()));
    head.put("value", part(data, raw.value()));
    ArrayNode headers = head.putArray("headers");
    for (Header header : raw.headers()) {
      headers.addArray().add(header.key()).add(part(data, header.value()));
    }
    try {
      hosted.home.wire.write('Z', hosted.host, head, data.toArray(new ByteBuffer[0]));
    } catch (IOException gone) {
      Host.exit(Host.PYTHON_GONE);
    }
    return CompletableFuture.completedFuture(null);
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
